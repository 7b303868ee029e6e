//! Detects the encoding of a page and decodes it.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its `charset` declaration is searched, as browsers do.
const PRESCAN_BYTES: usize = 1024;

/// Decodes by a byte order mark, the header's `charset`, or the HTML's own declaration. Otherwise as UTF-8 or, if the
/// bytes are not UTF-8, in the encoding of most old pages.
pub(super) fn decode(bytes: &[u8], parameters: &str, is_html: bool) -> String {
    let marked = Encoding::for_bom(bytes).map(|(encoding, _)| encoding);
    let said =
        || label(&parameters.to_ascii_lowercase()).and_then(|label| Encoding::for_label(label.as_bytes()));
    let inside = || {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(PRESCAN_BYTES)]).to_ascii_lowercase();
        is_html.then(|| label(&start).and_then(|label| Encoding::for_label(label.as_bytes()))).flatten()
    };
    let guessed = || if str::from_utf8(bytes).is_ok() { UTF_8 } else { WINDOWS_1252 };
    let encoding = marked.or_else(said).or_else(inside).unwrap_or_else(guessed);
    let (text, ..): (Cow<'_, str>, _, _) = encoding.decode(bytes);
    text.into_owned()
}

/// The text after `charset=`.
fn label(text: &str) -> Option<&str> {
    let rest = text.split_once("charset")?.1.trim_start().strip_prefix('=')?;
    let rest = rest.trim_start().trim_start_matches(['"', '\'']);
    Some(rest.split(['"', '\'', ';', ' ', '>', '/', '\n']).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_say_an_encoding_is_heard() {
        let latin = b"na\xefve";
        assert_eq!(decode("naïve".as_bytes(), "", false), "naïve");
        assert_eq!(decode(latin, "", false), "naïve");
        assert_eq!(decode(latin, " charset=ISO-8859-1", false), "naïve");
        assert_eq!(decode(latin, "charset=\"latin1\"; x=y", false), "naïve");
        assert_eq!(decode(b"\xff\xfen\x00a\x00", "charset=utf-8", false), "na");
        assert_eq!(decode(b"\xef\xbb\xbfna", "", false), "na");
        assert_eq!(decode(b"\x82\xa0", "charset=shift_jis", false), "あ");
        let page = b"<meta charset='shift_jis'>\x82\xa0";
        assert!(decode(page, "", true).ends_with('あ') && !decode(page, "", false).ends_with('あ'));
        let page = b"<meta http-equiv=Content-Type content=\"text/html; charset=Shift_JIS\">\x82\xa0";
        assert!(decode(page, "", true).ends_with('あ'));
        assert_eq!(decode("ä".as_bytes(), "charset=no-such", false), "ä");
        assert_eq!(decode(b"a\xffb", "charset=utf-8", false), "a\u{fffd}b");
    }
}
