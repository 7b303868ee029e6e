//! As root: files of the system that only root may read stay hidden, also those created and replaced while a command
//! runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::{Bench, pipe};

/// A directory of the system that every sandbox shows.
const SYSTEM: &str = "/opt";
const SECRET: &str = "only-for-root";

fn put(path: &Path, mode: u32) {
    // Never readable with its content, not even for a moment.
    fs::write(path, "").expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    fs::write(path, SECRET).expect("written");
}

/// A change by another process while a command runs, and the name of the file that the command then tries to read.
type Change = (&'static str, fn(&Path), &'static str);

const CHANGES: &[Change] = &[
    ("a file is made", |dir| put(&dir.join("made"), 0o600), "made"),
    ("one for a group is made", |dir| put(&dir.join("group"), 0o640), "group"),
    (
        "one that was there is replaced",
        |dir| {
            put(&dir.join("next"), 0o600);
            fs::rename(dir.join("next"), dir.join("hidden")).expect("replaced");
        },
        "hidden",
    ),
    (
        "one that anybody could read is replaced",
        |dir| {
            put(&dir.join("next"), 0o600);
            fs::rename(dir.join("next"), dir.join("open")).expect("replaced");
        },
        "open",
    ),
    ("one that anybody could read is closed", |dir| put(&dir.join("closed"), 0o600), "closed"),
    ("one that nobody may read is written", |dir| put(&dir.join("none"), 0o000), "none"),
    (
        "a second name of one is made",
        |dir| {
            put(&dir.join("first"), 0o600);
            fs::hard_link(dir.join("first"), dir.join("second")).expect("linked");
        },
        "second",
    ),
    (
        "a link to one is made",
        |dir| {
            put(&dir.join("target"), 0o600);
            symlink("target", dir.join("link")).expect("linked");
        },
        "link",
    ),
    (
        "a directory is made",
        |dir| {
            fs::create_dir(dir.join("private")).expect("made");
            fs::set_permissions(dir.join("private"), fs::Permissions::from_mode(0o700)).expect("set");
            fs::write(dir.join("private/file"), SECRET).expect("written");
        },
        "private/file",
    ),
    (
        "one that can be run by root alone is made",
        |dir| {
            fs::write(dir.join("program"), format!("#!/bin/sh\necho {SECRET}\n")).expect("written");
            fs::set_permissions(dir.join("program"), fs::Permissions::from_mode(0o700)).expect("set");
        },
        "program",
    ),
    (
        "one is renamed into another directory",
        |dir| {
            fs::create_dir(dir.join("sub")).expect("made");
            put(&dir.join("moved"), 0o600);
            fs::rename(dir.join("moved"), dir.join("sub/moved")).expect("moved");
        },
        "sub/moved",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_only_root_may_read_stays_so_when_it_is_made_or_replaced_while_a_command_runs() {
    let system = tempfile::tempdir_in(SYSTEM).ok().filter(|_| rustix::process::geteuid().is_root());
    let Some(system) = system else {
        println!("skipped: this needs root, and a directory in {SYSTEM}");
        return;
    };
    let dir = system.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("set");
    put(&dir.join("hidden"), 0o600);
    put(&dir.join("closed"), 0o644);
    fs::write(dir.join("open"), "for all").expect("written");
    fs::write(dir.join("fine"), "for all").expect("written");
    let bench = Bench::new();
    for name in ["up", "go"] {
        pipe(&bench.path(name));
    }
    let names: Vec<&str> = CHANGES.iter().map(|(_, _, name)| *name).collect();
    let script = format!(
        "cd {}; exec 3> {ws}/up; echo up >&3; exec 3>&-; cat {ws}/go > /dev/null; \
         for n in {}; do echo \"$n: $(cat $n 2>&1) $(./$n 2>&1)\"; done; cat fine",
        dir.display(),
        names.join(" "),
        ws = bench.workspace.path().display(),
    );
    let turn = bench.sandbox.turn().await;
    let mut running = bench.sandbox.start(turn, bench.command(&script)).expect("started");
    fs::read(bench.path("up")).expect("up");
    for (_, change, _) in CHANGES {
        change(dir);
    }
    fs::write(bench.path("go"), "go").expect("told");
    let ended = running.ended().await.expect("a result");
    let said = String::from_utf8_lossy(&ended.output.head).into_owned();
    let read: Vec<&str> = said.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(read.is_empty(), "{read:#?}");
    assert!(said.contains("for all"), "what is for all is: {said}");
}
