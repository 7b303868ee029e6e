//! The disk limit of a run while its commands write.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use posse_sandbox::{BoxedCommand, CallEnd, DiskLimit, Exit, OVERSHOOT_MAX_BYTES, Sandbox, SandboxOptions};
use posse_workspace::lay_out;

use crate::init;

const MB: u64 = 1 << 20;

/// Ways to write more than a run may.
const WRITERS: &[(&str, &str)] = &[
    ("one file", "dd if=/dev/zero of=big bs=1M count=3000 status=none"),
    ("one file, allocated", "fallocate -l 2G big"),
    ("many files", "for i in $(seq 3000); do head -c 1M /dev/zero > f$i || exit; done"),
    (
        "many files at once",
        "for n in 1 2 3 4; do (for i in $(seq 1000); do head -c 1M /dev/zero > f$n-$i; done) & done; wait",
    ),
    (
        "git's own directory",
        "mkdir -p .git/objects; for i in $(seq 3000); do head -c 1M /dev/zero > .git/objects/$i || exit; done",
    ),
    ("a cache", "for i in $(seq 3000); do head -c 1M /dev/zero > target/f$i || exit; done"),
    (
        "files without a name",
        "for i in $(seq 400); do exec {file}>gone; rm gone; head -c 7M /dev/zero >&$file || exit; done",
    ),
    (
        "files without a name that programs in the background hold",
        "for i in $(seq 400); do exec 3>gone; rm gone; head -c 7M /dev/zero >&3 || exit; sleep 1000 & exec 3>&-; done",
    ),
    (
        "files without a name in a cache",
        "cd target; for i in $(seq 400); do exec {file}>gone; rm gone; head -c 7M /dev/zero >&$file || exit; done",
    ),
    (
        "directories without permission",
        "mkdir d; cd d; for i in $(seq 3000); do head -c 1M /dev/zero > f$i || exit; [ $i = 1 ] && chmod 300 .; done",
    ),
    (
        "deep directories",
        "for i in $(seq 100); do mkdir d; cd d; done; for i in $(seq 3000); do head -c 1M /dev/zero > f$i || exit; done",
    ),
    (
        "a file that grows after it was linked",
        "for i in $(seq 3000); do head -c 1M /dev/zero > f$i; ln f$i l$i; done",
    ),
    (
        "appending to many",
        "for r in $(seq 60); do for i in $(seq 50); do head -c 1M /dev/zero >> f$i; done; done",
    ),
];

struct Run {
    top: tempfile::TempDir,
    disk_limit: Arc<DiskLimit>,
    sandbox: Sandbox,
}

impl Run {
    fn new(max_bytes: u64) -> Self {
        let top = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(top.path().join("run/files")).expect("made");
        fs::create_dir_all(top.path().join("folder/target")).expect("made");
        let disk_limit = Arc::new(DiskLimit::new(top.path().join("run"), max_bytes));
        let sandbox = Sandbox::new(SandboxOptions { init: init(), ..SandboxOptions::default() });
        Self { top, disk_limit, sandbox }
    }

    async fn run(&self, script: &str) -> CallEnd {
        let caches = lay_out(
            &self.top.path().join("folder"),
            &[PathBuf::from("target")],
            &self.top.path().join("run/layers"),
        );
        let argv = ["bash", "-c", script].map(str::to_owned).to_vec();
        let command = BoxedCommand {
            caches: caches.expect("laid out"),
            disk_limit: Some(self.disk_limit.clone()),
            ..BoxedCommand::isolated(argv, self.top.path().join("run/files"))
        };
        let turn = self.sandbox.turn().await;
        self.sandbox.start(turn, command).expect("started").ended().await.expect("a result")
    }

    fn bytes(&self) -> u64 {
        let output = std::process::Command::new("du").arg("-sk").arg(self.top.path()).output().expect("du");
        let text = String::from_utf8(output.stdout).expect("text");
        text.split_whitespace().next().expect("a number").parse::<u64>().expect("a number") << 10
    }
}

#[tokio::test]
async fn a_command_that_writes_more_than_its_run_has_is_ended_however_it_writes() {
    let max = 8 * MB;
    let mut problems = Vec::new();
    for (name, script) in WRITERS {
        let run = Run::new(max);
        let ended = run.run(script).await;
        let bytes = run.bytes();
        if ended.over_disk_limit != Some(max) || bytes > max + OVERSHOOT_MAX_BYTES {
            problems.push(format!("{name}: {} MB, {:?} {:?}", bytes / MB, ended.over_disk_limit, ended.exit));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[tokio::test]
async fn a_run_that_takes_too_much_may_still_look_and_remove_and_then_write_again() {
    let run = Run::new(8 * MB);
    let ended = run.run("for i in $(seq 3000); do head -c 1M /dev/zero > f$i || exit; done").await;
    assert_eq!(ended.over_disk_limit, Some(8 * MB));
    let ended = run.run("ls | wc -l; rm f*").await;
    assert_eq!((ended.exit, ended.over_disk_limit), (Exit::Code(0), None));
    let ended = run.run("head -c 2M /dev/zero > fine").await;
    assert_eq!((ended.exit, ended.over_disk_limit), (Exit::Code(0), None));
}

#[tokio::test]
async fn a_command_that_stays_within_what_its_run_has_notices_nothing() {
    let run = Run::new(64 * MB);
    for _ in 0..3 {
        let ended =
            run.run("head -c 20M /dev/zero > f; head -c 20M /dev/zero > target/f; rm f target/f").await;
        assert_eq!((ended.exit, ended.over_disk_limit), (Exit::Code(0), None));
    }
}
