//! Checks that alter their files, and later checks that must not notice.

use std::fs;
use std::path::PathBuf;

use posse_engine::ports::StopSignal;
use posse_sandbox::{Cache, Sandbox, SandboxOptions};
use posse_workspace::{CommandResult, HostCommands, lay_out, run_commands};

use crate::{checks_in, init, overlays};

/// A passing check with side effects, and a check that passes only without them.
const POISONS: &[(&str, &str, &str)] = &[
    ("an ignored file appears", "mkdir -p build; echo ok > build/ok", "test ! -e build"),
    ("a file is changed", "echo broken > a", "grep -q one a"),
    ("a file is removed", "rm a", "test -f a"),
    ("a file is emptied in place", ": > a; truncate -s 0 a", "test -s a"),
    ("a mode is changed", "chmod 755 a", "test $(stat -c %a a) = 644"),
    ("a time is changed", "touch -d 2001-01-01 a", "test $(stat -c %Y a) -gt 1000000000"),
    ("a directory becomes a link", "rm -r sub; ln -s /tmp sub", "test -d sub -a ! -L sub -a -f sub/in"),
    ("a directory moves", "mv sub sub2", "test -f sub/in -a ! -e sub2"),
    ("a file becomes a pipe", "rm a; mkfifo a", "test -f a"),
    ("a second name of a file is written", "ln a b; echo broken > b", "test ! -e b && grep -q one a"),
    (
        "git's own directory",
        "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        "test ! -e .git/hooks/pre-commit",
    ),
    ("a build in a cache", "echo passed > target/result", "test ! -e target/result"),
    ("what set-up put into a cache", "echo broken > target/set-up", "grep -q good target/set-up"),
    ("what a person has in a cache", "rm target/persons", "test -f target/persons"),
    ("a directory of a cache", "rm -r target/dir; touch target/dir", "test -d target/dir"),
    (
        "what set-up put beside the files",
        "rm -r deps; mkdir deps; echo broken > deps/lib",
        "grep -q good deps/lib",
    ),
    ("the home directory and scratch", "echo x > ~/x; echo x > /tmp/x", "test ! -e ~/x -a ! -e /tmp/x"),
    ("directories, one in the other", "for i in $(seq 300); do mkdir d; cd d; done", "test ! -e d"),
];

struct Scratch {
    top: tempfile::TempDir,
    caches: Vec<Cache>,
    sandbox: Sandbox,
}

impl Scratch {
    fn new() -> Self {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        for dir in ["files/sub", "files/.git", "folder/target/dir"] {
            fs::create_dir_all(at(dir)).expect("made");
        }
        fs::write(at("files/a"), "one\n").expect("written");
        fs::write(at("files/sub/in"), "").expect("written");
        fs::write(at("folder/target/persons"), "").expect("written");
        let caches = lay_out(&at("folder"), &[PathBuf::from("target")], &at("layers")).expect("laid out");
        let sandbox = Sandbox::new(SandboxOptions { init: init(), ..SandboxOptions::default() });
        Self { top, caches, sandbox }
    }

    async fn run(&self, commands: &[&str], apart: bool) -> Vec<CommandResult> {
        let request = HostCommands {
            caches: self.caches.clone(),
            apart: apart.then(|| self.top.path().join("checks")),
            ..checks_in(self.top.path().join("files"), commands)
        };
        run_commands(request, &self.sandbox, &StopSignal::never()).await.expect("results")
    }
}

#[tokio::test]
async fn every_check_begins_with_what_set_up_left_whatever_the_checks_before_it_did() {
    let scratch = Scratch::new();
    if !overlays(scratch.top.path(), &scratch.sandbox).await {
        return;
    }
    let set_up = "echo good > target/set-up; mkdir deps; echo good > deps/lib";
    assert!(scratch.run(&[set_up], false).await[0].ok());
    let mut noticed = Vec::new();
    for (name, poison, clean) in POISONS {
        // In the same child's checks, and in those of the next child.
        let beside = scratch.run(&[poison, clean], true).await;
        let after = scratch.run(&[clean], true).await;
        for (when, result) in [("beside", &beside[1]), ("after", &after[0])] {
            if !beside[0].ok() || !result.ok() {
                noticed.push(format!("{name}, {when}: {:?} {result:?}", beside[0]));
            }
        }
    }
    assert!(noticed.is_empty(), "{noticed:#?}");
    let left = fs::read_dir(scratch.top.path().join("files")).expect("listed").flatten();
    let mut left: Vec<_> = left.map(|entry| entry.file_name().into_string().expect("text")).collect();
    left.sort();
    assert_eq!(left, [".git", "a", "deps", "sub", "target"]);
}
