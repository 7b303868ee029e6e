//! A command that locks a file of a toolchain, or of what a person named, stops no program outside.

use std::fs::{self, File};
use std::path::Path;

use posse_sandbox::SandboxOptions;
use rustix::fs::{FlockOperation, flock};

use crate::{Bench, pipe};

/// Takes and gives back the lock that keeps everybody else away.
fn is_free(path: &Path) -> bool {
    let file = File::open(path).expect("it can be opened");
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_a_file_that_is_shown_is_not_seen_outside_nor_one_from_outside_within() {
    let read = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let own = read.path().join(".package-cache");
    fs::create_dir(read.path().join("below")).expect("a directory");
    for file in [&own, &read.path().join("below/lock")] {
        fs::write(file, "").expect("written");
    }
    let options = SandboxOptions { read: vec![read.path().to_owned()], ..SandboxOptions::default() };
    let bench = Bench::with(options);
    for name in ["up", "go"] {
        pipe(&bench.path(name));
    }
    for file in [own, read.path().join("below/lock")] {
        let script = format!(
            "exec 9< {}; flock -n -x 9 && said=locked || said=refused; \
             exec 3> up; echo $said >&3; exec 3>&-; cat go",
            file.display()
        );
        for held_outside in [false, true] {
            let outside = File::open(&file).expect("opened");
            if held_outside {
                flock(&outside, FlockOperation::NonBlockingLockExclusive).expect("locked");
            }
            let turn = bench.sandbox.turn().await;
            let mut running = bench.sandbox.start(turn, bench.command(&script)).expect("started");
            let said = fs::read_to_string(bench.path("up")).expect("up");
            assert_eq!(said, "locked\n", "{}, held outside: {held_outside}", file.display());
            assert!(held_outside || is_free(&file), "{} is locked outside", file.display());
            fs::write(bench.path("go"), "go").expect("told");
            running.ended().await.expect("a result");
        }
    }
}
