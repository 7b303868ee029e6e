//! Secrets in every spelling, split over pieces of a stream, and near misses that stay.

use serde_json::json;

use super::*;

const SECRET: &str = "sk-canary/0123+456789=abcdef";

fn scrubber() -> Scrubber {
    Scrubber::of(SECRET).expect("a secret")
}

/// The reference encoder to compare with.
fn base64(bytes: &[u8]) -> String {
    let letters = bytes.chunks(3).flat_map(|three| {
        let word = three.iter().fold(0_usize, |word, byte| word << 8 | usize::from(*byte))
            << (8 * (3 - three.len()));
        (0..=three.len()).map(move |at| BASE64[word >> (18 - 6 * at) & 63] as char)
    });
    letters.collect()
}

/// Every known way to write a secret, with a name.
fn spellings() -> Vec<(&'static str, String)> {
    let percent = |hex: fn(u8) -> String| {
        SECRET
            .bytes()
            .map(|b| if b.is_ascii_alphanumeric() { (b as char).to_string() } else { hex(b) })
            .collect()
    };
    let each = |write: fn(u8) -> String| SECRET.bytes().map(write).collect::<String>();
    vec![
        ("plain", SECRET.to_owned()),
        ("URL, capitals", percent(|b| format!("%{b:02X}"))),
        ("URL, small letters", percent(|b| format!("%{b:02x}"))),
        ("URL, every byte", each(|b| format!("%{b:02X}"))),
        ("JSON, slashes", SECRET.replace('/', "\\/")),
        ("JSON, every letter", each(|b| format!("\\u{b:04x}"))),
        ("JSON, one letter", SECRET.replace('=', "\\u003D")),
        ("a program's string", each(|b| format!("\\x{b:02x}"))),
        ("HTML, decimal", each(|b| format!("&#{b};"))),
        ("HTML, hexadecimal", SECRET.replace('+', "&#x2B;")),
        ("hexadecimal", each(|b| format!("{b:02x}"))),
        ("hexadecimal, capitals", each(|b| format!("{b:02X}"))),
        ("base64 of a header", base64(format!("Bearer {SECRET}\r\n").as_bytes())),
        ("base64 of a name and it", base64(format!("me:{SECRET}@h").as_bytes())),
        ("base64 of itself", base64(SECRET.as_bytes())),
        ("base64 for URLs", base64(format!("x{SECRET}").as_bytes()).replace('+', "-").replace('/', "_")),
        ("base64 in a URL", base64(SECRET.as_bytes()).replace('+', "%2B").replace('/', "%2F")),
    ]
}

#[test]
fn a_secret_is_replaced_however_it_is_written() {
    for (name, spelled) in spellings() {
        let clean = scrubber().text(&format!("före {spelled} after")).into_owned();
        assert!(clean.contains(SCRUBBED), "{name}: {clean}");
        assert!(clean.starts_with("före ") && clean.ends_with(" after"), "{name}: {clean}");
        // At the edges of base64 the surrounding bytes decide a letter or two. Nothing longer remains.
        assert!(clean.len() < "före  after".len() + SCRUBBED.len() + 16, "{name}: {clean}");
    }
}

#[test]
fn a_secret_cut_anywhere_into_two_pieces_is_never_shown() {
    for (name, spelled) in spellings() {
        let whole = format!("a {spelled} b");
        for at in 0..=whole.len() {
            let (mut stream, scrubber) = (ScrubbedStream::default(), scrubber());
            let mut shown = stream.push(&scrubber, &whole[..at]);
            shown += &stream.push(&scrubber, &whole[at..]);
            shown += &stream.finish(&scrubber);
            assert_eq!(shown, scrubber.text(&whole), "{name}, cut at {at}");
        }
    }
}

#[test]
fn a_stream_one_byte_at_a_time_shows_all_else() {
    let text = format!("100% of C:\\users & <b>&amp; ünïcode {SECRET}sk-can");
    let (mut stream, scrubber) = (ScrubbedStream::default(), scrubber());
    let mut shown: String = text.chars().map(|c| stream.push(&scrubber, &c.to_string())).collect();
    assert!(shown.ends_with(SCRUBBED), "what may be a beginning is held back: {shown}");
    shown += &stream.finish(&scrubber);
    assert_eq!(shown, format!("100% of C:\\users & <b>&amp; ünïcode {SCRUBBED}{SCRUBBED}"));
}

#[test]
fn near_misses_stay_as_they_are() {
    for text in [
        "",
        "sk-canary",
        "sk-canary/0123+456789=abcde",
        "sk-canary/0123 +456789=abcdef",
        "Sk-canary/0123+456789=abcdef",
        "%73%6b-other",
        "\\u0073\\u006B",
        "&#115;&#107;-canar",
        "100%",
        "a\\",
        "&",
        "naïve %zz \\uzzzz &#zz; &#; %+1",
    ] {
        assert!(matches!(scrubber().text(text), Cow::Borrowed(_)), "{text}");
    }
    assert!(Scrubber::of("ollama ").is_none());
}

#[test]
fn a_cut_text_loses_the_beginning_of_a_secret_at_its_end() {
    let scrubber = scrubber();
    assert_eq!(scrubber.cut_text("key sk-canary/01…"), "key [key]…");
    assert_eq!(scrubber.cut_text("key sk-canary/01"), "key [key]");
    assert_eq!(scrubber.cut_text("key sk-ca..."), "key sk-ca...");
    assert_eq!(scrubber.cut_text(&format!("{SECRET} and %73%6b%2dcanary")), "[key] and [key]");
    assert_eq!(scrubber.cut_text("nothing"), "nothing");
}

#[test]
fn values_lose_it_in_keys_strings_and_numbers_at_every_depth() {
    let mut value = json!({"a": [1, null, true, {SECRET: [format!("x{SECRET}y")]}], "b": 1.5});
    scrubber().value(&mut value);
    assert_eq!(value, json!({"a": [1, null, true, {"[key]": ["x[key]y"]}], "b": 1.5}));
    let mut number = json!({"n": 12_345_678_901_u64});
    Scrubber::of("12345678901").expect("a secret").value(&mut number);
    assert_eq!(number, json!({"n": "[key]"}));
}
