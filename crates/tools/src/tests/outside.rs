//! No file tool reaches anything outside the workspace.

use super::*;

/// A call of every file tool with this path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": path})),
        ("list", json!({"path": path})),
        ("glob", json!({"pattern": "*", "path": path})),
        ("grep", json!({"pattern": "SECRET", "path": path})),
        ("write", json!({"path": path, "content": "x"})),
        ("edit", json!({"path": path, "old_text": "SECRET", "new_text": "x"})),
    ]
}

#[test]
fn paths_that_leave_are_denied() {
    let bench = Bench::new();
    let absolute = bench.top.path().join("ws-evil/secret.txt").display().to_string();
    for path in ["../ws-evil/secret.txt", "a/../../ws-evil", "..", "/etc/passwd", "~/x", "~", &absolute] {
        for (name, input) in calls(path) {
            let text = bench.fails(name, input, Code::PermissionDenied);
            let expected = format!(
                "`{path}` is outside the workspace. Paths are relative to the workspace and cannot leave it."
            );
            assert_eq!(text, expected, "{name}");
        }
    }
}

#[test]
fn an_absolute_path_inside_is_corrected() {
    let bench = Bench::new();
    bench.file("src/a.rs", "x");
    let path = bench.ws("src/a.rs").display().to_string();
    for (name, input) in calls(&path) {
        let text = bench.fails(name, input, Code::InvalidInput);
        let expected = format!(
            "Invalid input for `{name}`: `path` must be relative to the workspace: `src/a.rs`. Nothing was done."
        );
        assert_eq!(text, expected);
    }
}

#[test]
fn the_name_that_programs_know_the_workspace_by_is_understood() {
    let mut bench = Bench::new();
    bench.file("src/a.rs", "one\n");
    bench.fails("read", json!({"path": "/workspace/src/a.rs"}), Code::PermissionDenied);
    bench.call.files = posse_engine::ports::CallFiles::Shared;
    assert!(bench.ok("read", json!({"path": "/workspace/src/a.rs"})).contains("one"));
    assert!(bench.ok("list", json!({"path": "/workspace"})).contains("src"));
    assert!(bench.ok("glob", json!({"pattern": "*", "path": "/workspace/src/"})).contains("a.rs"));
    assert!(bench.ok("grep", json!({"pattern": "one", "path": "/workspace/src"})).contains("a.rs"));
    bench.ok("edit", json!({"path": "/workspace/src/a.rs", "old_text": "one", "new_text": "two"}));
    bench.ok("write", json!({"path": "/workspace/b.rs", "content": "new\n"}));
    assert_eq!((bench.content("src/a.rs"), bench.content("b.rs")), ("two\n".to_owned(), "new\n".to_owned()));
    for path in [
        "/workspace-evil/secret.txt",
        "/workspace/../ws-evil/secret.txt",
        "/workspace//etc/passwd",
        "/workspaces",
    ] {
        for (name, input) in calls(path) {
            bench.fails(name, input, Code::PermissionDenied);
        }
    }
}

#[test]
fn links_that_leave_are_denied() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("../ws-evil", bench.ws("link")).unwrap();
    for path in ["link", "link/secret.txt"] {
        for (name, input) in calls(path) {
            let failure = bench.call(name, input).unwrap_err();
            assert!(!failure.text.contains("SECRET"), "{name}: {}", failure.text);
        }
    }
    let text = bench.fails("read", json!({"path": "link/secret.txt"}), Code::PermissionDenied);
    assert_eq!(text, "`link/secret.txt` leads out of the workspace.");
    let text = bench.fails("glob", json!({"pattern": "../ws-evil/*"}), Code::InvalidInput);
    assert!(text.contains("no leading `/` and no `..`"), "{text}");
    assert_eq!(fs::read_to_string(bench.top.path().join("ws-evil/secret.txt")).unwrap(), "SECRET\n");
}

#[test]
fn odd_paths_are_invalid() {
    let bench = Bench::new();
    for (path, problem) in
        [("a\0b".to_owned(), "contains a NUL character"), ("a/".repeat(1 << 19), "is longer than 4095 bytes")]
    {
        for (name, input) in calls(&path) {
            let text = bench.fails(name, input, Code::InvalidInput);
            assert_eq!(text, format!("Invalid input for `{name}`: `path` {problem}. Nothing was done."));
        }
    }
    for name in ["read", "write", "edit"] {
        let (_, input) = calls("").into_iter().find(|(tool, _)| *tool == name).unwrap();
        let text = bench.fails(name, input, Code::InvalidInput);
        assert!(text.contains("`path` is empty: give a path relative to the workspace."), "{text}");
    }
}
