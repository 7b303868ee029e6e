//! Tests of `write`.

use super::*;

#[test]
fn a_file_is_made_and_replaced() {
    let bench = Bench::new();
    assert_eq!(
        bench.ok("write", json!({"path": "a/b.txt", "content": "one\ntwo\n"})),
        "Created `a/b.txt`: 2 lines, 8 bytes."
    );
    assert_eq!(bench.content("a/b.txt"), "one\ntwo\n");
    // An agent has seen the file that it wrote.
    assert_eq!(
        bench.ok("write", json!({"path": "./a//b.txt", "content": ""})),
        "Replaced `a/b.txt`: 0 lines, 0 bytes."
    );
    assert_eq!(bench.content("a/b.txt"), "");
}

#[test]
fn a_file_never_read_is_not_replaced() {
    let bench = Bench::new();
    bench.file("a.txt", "theirs");
    let input = json!({"path": "a.txt", "content": "ours"});
    assert_eq!(
        bench.fails("write", input.clone(), Code::ToolError),
        "`a.txt` exists and you have not read it. Read it first, so that nothing in it is lost by mistake."
    );
    assert_eq!(bench.content("a.txt"), "theirs");
    bench.ok("read", json!({"path": "a.txt"}));
    bench.ok("write", input);
    assert_eq!(bench.content("a.txt"), "ours");
}

#[test]
fn a_file_changed_since_it_was_read_is_not_replaced() {
    let bench = Bench::new();
    bench.file("a.txt", "old");
    bench.ok("read", json!({"path": "a.txt"}));
    bench.file("a.txt", "theirs");
    assert_eq!(
        bench.fails("write", json!({"path": "a.txt", "content": "ours"}), Code::ToolError),
        "`a.txt` has changed since you read or wrote it, by a command, a hook such as a formatter, or somebody else. \
         Nothing was written. Read it again before you change it."
    );
    fs::remove_file(bench.ws("a.txt")).unwrap();
    let done = bench.ok("write", json!({"path": "a.txt", "content": "ours"}));
    assert_eq!(done, "Created `a.txt`: 1 line, 4 bytes.");
}

#[test]
fn the_intent_names_the_hashes_and_nothing_happens_before_it() {
    let bench = Bench::new();
    bench.file("a.txt", "old");
    bench.ok("read", json!({"path": "a.txt"}));
    let prepared = bench.prepare("write", json!({"path": "x/../a.txt", "content": "new"})).unwrap();
    let intent =
        WriteIntent { path: "a.txt".into(), before: Some(Hash::of(b"old")), after: Hash::of(b"new") };
    assert_eq!(prepared.write, Some(intent));
    assert_eq!(bench.content("a.txt"), "old");
    let prepared = bench.prepare("write", json!({"path": "dir/b.txt", "content": "new"})).unwrap();
    assert_eq!(prepared.write.unwrap().before, None);
    assert!(!bench.ws("dir").exists());
}

#[test]
fn a_change_between_intent_and_write_is_noticed() {
    let bench = Bench::new();
    bench.file("a.txt", "old");
    bench.ok("read", json!({"path": "a.txt"}));
    for (path, theirs) in [("a.txt", "theirs"), ("new.txt", "theirs")] {
        let prepared = bench.prepare("write", json!({"path": path, "content": "ours"})).unwrap();
        bench.file(path, theirs);
        let failure = bench.run(prepared).unwrap_err();
        let text = format!(
            "`{path}` was changed in the meantime. Nothing was written. Read it again before you change it."
        );
        assert_eq!((failure.code, failure.text), (Code::ToolError, text));
        assert_eq!(bench.content(path), "theirs");
    }
}

#[test]
fn what_must_not_be_written_is_refused_before_the_intent() {
    let bench = Bench::new();
    bench.file("dir/a.txt", "a").file(".git/config", "x");
    std::os::unix::fs::symlink("dir", bench.ws("link")).unwrap();
    for (path, code, expected) in [
        (
            ".git/hooks/pre-commit",
            Code::PermissionDenied,
            "`write:.git/hooks/pre-commit` is not allowed (deny: `.git` is a protected name, and nothing opens it to \
             file tools)",
        ),
        (
            "link/new.txt",
            Code::ToolError,
            "`link/new.txt` is or goes through a symbolic link, which is not followed for writing. Use the path that \
             it leads to.",
        ),
        (
            "dir",
            Code::ToolError,
            "`dir` is a directory, not a regular file. Use `list` to see what is in it.",
        ),
        (".", Code::ToolError, "`.` is a directory, not a regular file. Use `list` to see what is in it."),
        (
            "dir/a.txt/b",
            Code::ToolError,
            "`dir/a.txt/b` is not a directory, or goes through something that is not.",
        ),
    ] {
        let failure = bench.prepare("write", json!({"path": path, "content": "x"})).map(|_| ()).unwrap_err();
        assert_eq!((failure.code, failure.text.as_str()), (code, expected));
    }
}

#[test]
fn a_write_nobody_waits_for_does_not_happen_later() {
    let bench = Bench::new();
    let prepared = bench.prepare("write", json!({"path": "a.txt", "content": "x"})).unwrap();
    // Never polled, so the work did not begin.
    drop((prepared.run)());
    assert!(!bench.ws("a.txt").exists());
}
