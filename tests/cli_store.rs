//! An unusable state directory: a clear error, exit code 1, and the data unchanged.

use std::fs;
use std::path::PathBuf;

use crate::support::Home;

/// The offset of SQLite's user version.
const USER_VERSION_AT: usize = 60;

fn database(home: &Home) -> PathBuf {
    home.state_dir().join("posse.db")
}

/// A home with one run, its database changed by `change`.
fn damaged(change: impl Fn(&mut Vec<u8>)) -> Home {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: done}\n");
    home.posse(&["run", "--model", "scripted/script.yaml", "x"]).exits(0);
    home.replay_now();
    let mut bytes = fs::read(database(&home)).expect("a database");
    change(&mut bytes);
    fs::write(database(&home), &bytes).expect("written");
    home
}

#[track_caller]
fn refused(home: &Home, named: &[&str]) {
    let before = fs::read(database(home)).expect("a database");
    for args in [
        &["run", "--model", "scripted/script.yaml", "x"] as &[&str],
        &["run", "-d", "--model", "scripted/script.yaml", "x"],
        &["ps"],
        &["show", "k"],
        &["demo", "--fast"],
    ] {
        let done = home.posse(args).exits(1);
        assert!(done.stderr.starts_with("error: ") && done.stderr.contains("\nhint: "), "{}", done.stderr);
        for name in named {
            assert!(done.stderr.contains(name), "{args:?}: no {name:?} in:\n{}", done.stderr);
        }
    }
    assert_eq!(fs::read(database(home)).expect("a database"), before, "left as it was");
}

#[test]
fn a_database_of_a_newer_posse_is_refused() {
    let home =
        damaged(|bytes| bytes[USER_VERSION_AT..USER_VERSION_AT + 4].copy_from_slice(&999_u32.to_be_bytes()));
    refused(&home, &["posse.db: the journal was written by a newer Posse (format 999", "POSSE_HOME"]);
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let home = damaged(|bytes| bytes.fill(b'x'));
    refused(&home, &["posse.db: the journal is damaged"]);
}
