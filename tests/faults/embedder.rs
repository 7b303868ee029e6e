//! Posse embedded in another program.

use std::fs;
use std::process::Command;

/// The output of the embedder, and the file that its command created in its workspace, if any.
fn embed(arguments: &[&str]) -> (String, Option<String>) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("project")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_posse-embedder"));
    let output = command.args(arguments).current_dir(dir.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    assert!(!dir.path().join("project/made").exists(), "nothing is made in the person's folder");
    let mut runs = fs::read_dir(dir.path().join("state/runs")).into_iter().flatten().flatten();
    let made = |run: fs::DirEntry| {
        let root = run.path().join("workspaces").join(run.file_name());
        fs::read_to_string(root.join("1/upper/made")).ok()
    };
    (said, runs.find_map(made))
}

#[test]
fn an_embedders_binary_makes_its_boxes_itself() {
    let (said, made) = embed(&[]);
    assert!(said.contains("[exit code 0]"), "{said}");
    assert_eq!(made.as_deref(), Some("embedded\n"));
}

#[test]
fn one_that_forgets_to_is_told_what_to_call() {
    let (said, made) = embed(&["--forgetful"]);
    assert!(said.contains("Call `posse::init()` first in `main`"), "{said}");
    assert_eq!(made, None);
}
