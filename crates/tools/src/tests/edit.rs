//! Tests of `edit`.

use super::*;

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_text": old, "new_text": new})
}

fn edit_all(path: &str, old: &str, new: &str) -> Value {
    json!({"path": path, "old_text": old, "new_text": new, "replace_all": true})
}

#[test]
fn a_piece_is_replaced() {
    let bench = Bench::new();
    for (content, input, after, done) in [
        ("a\nb\nc\n", edit("f", "b", "B"), "a\nB\nc\n", "Edited `f`: 1 place replaced, line 2."),
        ("a\nb\nc\n", edit("f", "b\n", ""), "a\nc\n", "Edited `f`: 1 place replaced, line 2."),
        ("x\ny\nx x\n", edit_all("f", "x", "z"), "z\ny\nz z\n", "Edited `f`: 3 places replaced, lines 1, 3."),
        ("aaa", edit_all("f", "aa", "b"), "ba", "Edited `f`: 1 place replaced, line 1."),
        ("äö\n", edit("f", "ö", "ü$1\\n"), "äü$1\\n\n", "Edited `f`: 1 place replaced, line 1."),
        // The file keeps its line endings, whichever the model writes.
        (
            "a\r\nb\r\nc\r\n",
            edit("f", "a\nb", "x\ny"),
            "x\r\ny\r\nc\r\n",
            "Edited `f`: 1 place replaced, line 1.",
        ),
        ("a\r\nb\r\n", edit("f", "a\r\nb", "x\r\ny"), "x\r\ny\r\n", "Edited `f`: 1 place replaced, line 1."),
        ("a\r\nb\n", edit("f", "b\n", "c\n"), "a\r\nc\n", "Edited `f`: 1 place replaced, line 2."),
    ] {
        bench.file("f", content);
        bench.call.seen.note("f", Hash::of(content.as_bytes()));
        let answer = bench.ok("edit", input);
        assert_eq!((bench.content("f").as_str(), answer.as_str()), (after, done));
        assert_eq!(bench.call.seen.seen("f"), Some(Hash::of(after.as_bytes())));
    }
}

#[test]
fn a_file_never_read_can_be_edited_if_the_text_matches() {
    let bench = Bench::new();
    bench.file("a.txt", "old\n");
    bench.ok("edit", edit("a.txt", "old", "new"));
    assert_eq!(bench.content("a.txt"), "new\n");
    // After the edit, the agent has seen the file.
    bench.file("a.txt", "new, by others\n");
    let text = bench.fails("edit", edit("a.txt", "new", "newer"), Code::ToolError);
    assert!(text.starts_with("`a.txt` has changed since you read or wrote it"), "{text}");
}

#[test]
fn what_does_not_match_once_is_explained() {
    let bench = Bench::new();
    bench.file("f", "fn a() {\n    one();\n}\nfn b() {\n    one();\n}\naaa\n").file("bin", b"\xff\n");
    for (input, expected) in [
        (
            edit("f", "one();", "two();"),
            "`f` was not changed: `old_text` stands there more than once (lines 2, 5). Include more of the lines \
             around it, or set `replace_all`.",
        ),
        (
            edit("f", "aa", "b"),
            "`f` was not changed: `old_text` stands there more than once (lines 7). Include more of the lines around \
             it, or set `replace_all`.",
        ),
        (
            edit("f", "three();", "x"),
            "`f` was not changed: `old_text` is not in it. Read the file again and copy the text exactly, without the \
             line numbers.",
        ),
        (
            edit("f", "fn b() {\n  one();", "x"),
            "`f` was not changed: `old_text` is not in it. A line like its first one is line 4; spaces, or the lines \
             after it, differ. Read that part again and copy it exactly.",
        ),
        (
            edit("missing", "a", "b"),
            "`missing` was not changed: it does not exist. Use `write` to make a file.",
        ),
        (edit("bin", "a", "b"), "`bin` was not changed: it is not UTF-8 text."),
    ] {
        assert_eq!(bench.fails("edit", input, Code::ToolError), expected);
    }
    for (input, expected) in [
        (edit("f", "", "x"), "`old_text` must not be empty: use `write` to make a file"),
        (edit("f", "x", "x"), "`new_text` must differ from `old_text`"),
    ] {
        let text = bench.fails("edit", input, Code::InvalidInput);
        assert_eq!(text, format!("Invalid input for `edit`: {expected}. Nothing was done."));
    }
}

#[test]
fn a_replacement_cannot_grow_without_limit() {
    let bench = Bench::new();
    bench.file("f", "a".repeat(100_000));
    let text = bench.fails("edit", edit_all("f", "a", &"b".repeat(1_000)), Code::ToolError);
    assert_eq!(text, "`f` was not changed: it would become too large.");
}

#[test]
fn two_edits_prepared_at_once_do_not_lose_one() {
    let bench = Bench::new();
    bench.file("f", "a b\n");
    let first = bench.prepare("edit", edit("f", "a", "A")).unwrap();
    let second = bench.prepare("edit", edit("f", "b", "B")).unwrap();
    bench.run(first).unwrap();
    let failure = bench.run(second).unwrap_err();
    assert!(failure.text.starts_with("`f` was changed in the meantime."), "{}", failure.text);
    assert_eq!(bench.content("f"), "A b\n");
}
