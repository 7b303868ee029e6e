//! Tests of `read`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use posse_domain::message::{Image, MediaType};
use posse_domain::text::Text;

use super::*;
use crate::picture::PICTURE_MAX_BYTES;
use crate::picture::tests::png_of;

#[test]
fn lines_have_numbers_and_the_end_is_said() {
    let bench = Bench::new();
    bench.file("a.txt", "one\n\ttwo\n\nfour");
    bench.file("crlf.txt", "a\r\nb\r\n").file("empty.txt", "").file("latin1.txt", b"caf\xe9\n");
    for (input, expected) in [
        (json!({"path": "a.txt"}), "1\tone\n2\t\ttwo\n3\t\n4\tfour\n[end of file, 4 lines]"),
        (
            json!({"path": "./a.txt", "offset": null, "limit": null}),
            "1\tone\n2\t\ttwo\n3\t\n4\tfour\n[end of file, 4 lines]",
        ),
        (
            json!({"path": "a.txt", "offset": 2, "limit": 1}),
            "2\t\ttwo\n[lines 2 to 2 of 4; go on with offset 3]",
        ),
        (json!({"path": "a.txt", "offset": 3}), "3\t\n4\tfour\n[end of file, lines 3 to 4 of 4]"),
        (json!({"path": "crlf.txt"}), "1\ta\n2\tb\n[end of file, 2 lines; lines end with CRLF]"),
        (json!({"path": "empty.txt"}), "`empty.txt` is empty."),
        (
            json!({"path": "latin1.txt"}),
            "1\tcaf\u{fffd}\n[end of file, 1 line; not all of it is UTF-8: other bytes are shown as \u{fffd}]",
        ),
    ] {
        assert_eq!(bench.ok("read", input), expected);
    }
}

#[test]
fn what_cannot_be_read_is_explained() {
    let bench = Bench::new();
    bench.file("dir/a.txt", "a\n").file("image.PNG", b"\x89PNG\0").file("program", b"\x7fELF\0\0");
    fs::File::create(bench.ws("huge")).unwrap().set_len(1 << 40).unwrap();
    for (input, code, expected) in [
        (
            json!({"path": "b.txt"}),
            Code::ToolError,
            "`b.txt` does not exist. Use `glob` or `list` to find out what there is.",
        ),
        (
            json!({"path": "dir"}),
            Code::ToolError,
            "`dir` is a directory, not a regular file. Use `list` to see what is in it.",
        ),
        (
            json!({"path": "image.PNG"}),
            Code::Unsupported,
            "`image.PNG` (5 bytes) is no picture that can be shown: only whole PNG, JPEG, GIF and WebP files are.",
        ),
        (
            json!({"path": "program"}),
            Code::ToolError,
            "`program` is a binary file (6 bytes). Only text can be read.",
        ),
        (
            json!({"path": "huge"}),
            Code::ToolError,
            "`huge` has 1099511627776 bytes, more than the limit of 16777216. Use `grep` to find the part you need.",
        ),
        (
            json!({"path": "dir/a.txt", "offset": 2}),
            Code::InvalidInput,
            "Invalid input for `read`: `offset` is 2, but `dir/a.txt` has only 1 line. Nothing was done.",
        ),
        (
            json!({"path": "dir/a.txt", "limit": 0}),
            Code::InvalidInput,
            "Invalid input for `read`: `limit` must be at least 1. Nothing was done.",
        ),
    ] {
        assert_eq!(bench.fails("read", input, code), expected);
    }
}

#[test]
fn long_lines_and_long_files_are_cut() {
    let bench = Bench::new();
    bench.file("line.txt", "ä".repeat(3_000));
    let shown = bench.ok("read", json!({"path": "line.txt"}));
    assert_eq!(shown, format!("1\t{}[…]\n[end of file, 1 line]", "ä".repeat(2_000)));

    bench.file("many.txt", "x\n".repeat(5_000));
    let shown = bench.ok("read", json!({"path": "many.txt", "limit": 9_999}));
    assert!(shown.ends_with("2000\tx\n[lines 1 to 2000 of 5000; go on with offset 2001]"));

    // Larger than a file that is read on the caller's thread, and than one answer.
    bench.file("wide.txt", format!("{}\n", "x".repeat(1_000)).repeat(200));
    let mut next = Some(1);
    let mut lines = 0;
    while let Some(offset) = next {
        let shown = bench.ok("read", json!({"path": "wide.txt", "offset": offset}));
        assert!(shown.len() < 66_000);
        lines += shown.lines().count() - 1;
        let tail = shown.rsplit_once("go on with offset ");
        next = tail.map(|(_, number)| number.trim_end_matches(']').parse().unwrap());
    }
    assert_eq!(lines, 200);
}

#[test]
fn a_read_notes_what_was_seen() {
    let bench = Bench::new();
    bench.file("a.txt", "one\ntwo\n").file("bin", b"\0");
    bench.ok("read", json!({"path": "x/../a.txt", "limit": 1}));
    assert_eq!(bench.call.seen.seen("a.txt"), Some(Hash::of(b"one\ntwo\n")));
    bench.fails("read", json!({"path": "bin"}), Code::ToolError);
    assert_eq!(bench.call.seen.seen("bin"), None);
}

#[test]
fn a_missing_workspace_is_an_error() {
    let bench = Bench::new();
    fs::remove_dir(bench.ws("")).unwrap();
    for (name, input) in
        [("read", json!({"path": "a"})), ("list", json!({})), ("write", json!({"path": "a", "content": ""}))]
    {
        let text = bench.fails(name, input, Code::ToolError);
        assert!(text.starts_with("The workspace cannot be opened:"), "{text}");
    }
    assert!(!bench.ws("").exists());
}

#[test]
fn a_picture_is_shown_whatever_its_name() {
    let bench = Bench::new();
    let png = png_of(640, 480, 70_000);
    bench.file("shot.txt", &png).file("small.gif", b"GIF89a\x0a\0\x14\0");
    let prepared = bench.prepare("read", json!({"path": "shot.txt"})).unwrap();
    let output = bench.run(prepared).unwrap();
    assert_eq!(output.text, "`shot.txt` is a picture: PNG, 640 x 480, 70000 bytes.");
    let [Image { media_type: MediaType::Png, base64: Text::Here(base64) }] = &output.images[..] else {
        panic!("{:?}", output.images)
    };
    assert_eq!(BASE64.decode(base64.as_bytes()).unwrap(), png);
    assert_eq!(bench.call.seen.seen("shot.txt"), Some(Hash::of(&png)), "it may be replaced now");
    assert_eq!(
        bench.ok("read", json!({"path": "small.gif"})),
        "`small.gif` is a picture: GIF, 10 x 20, 10 bytes."
    );
}

#[test]
fn a_picture_that_no_model_takes_is_refused() {
    let bench = Bench::new();
    bench.file("large.png", png_of(640, 480, PICTURE_MAX_BYTES + 1)).file("wide.png", png_of(8_001, 1, 0));
    bench.file("largest.png", png_of(8_000, 8_000, PICTURE_MAX_BYTES)).file("text.gif", "GIF89a is text\n");
    assert_eq!(
        bench.fails("read", json!({"path": "large.png"}), Code::Unsupported),
        "`large.png` is a picture: PNG, 640 x 480, 3932161 bytes. Only pictures of at most 3932160 bytes can be shown: \
         make it smaller."
    );
    assert_eq!(
        bench.fails("read", json!({"path": "wide.png"}), Code::Unsupported),
        "`wide.png` is a picture: PNG, 8001 x 1, 33 bytes. Only pictures of at most 8000 pixels a side can be shown: \
         make it smaller."
    );
    bench.ok("read", json!({"path": "largest.png"}));
    assert_eq!(bench.ok("read", json!({"path": "text.gif"})), "1\tGIF89a is text\n[end of file, 1 line]");
}
