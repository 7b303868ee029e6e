//! A command that locks a file of the machine blocks no program outside.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posse_sandbox::SandboxOptions;
use rustix::fs::{FlockOperation, flock};

use crate::{Bench, overlays, pipe};

/// Whether the exclusive lock of a file is free.
fn is_free(path: &Path) -> bool {
    let file = File::open(path).expect("it can be opened");
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Locks a file in a sandbox while it is free outside, and again while it is locked there.
async fn assert_locks_are_apart(bench: &Bench, file: &Path) {
    let script = format!(
        "exec 9< {}; flock -n -x 9 && said=locked || said=refused; \
         exec 3> up; echo $said >&3; exec 3>&-; cat go",
        file.display()
    );
    for held_outside in [false, true] {
        let outside = File::open(file).expect("opened");
        if held_outside {
            flock(&outside, FlockOperation::NonBlockingLockExclusive).expect("locked");
        }
        let turn = bench.sandbox.turn().await;
        let mut running = bench.sandbox.start(turn, bench.command(&script)).expect("started");
        let said = fs::read_to_string(bench.path("up")).expect("up");
        assert_eq!(said, "locked\n", "{}, held outside: {held_outside}", file.display());
        assert!(held_outside || is_free(file), "{} is locked outside", file.display());
        fs::write(bench.path("go"), "go").expect("told");
        running.ended().await.expect("a result");
    }
}

fn bench_with_pipes(options: SandboxOptions) -> Bench {
    let bench = Bench::with(options);
    for name in ["up", "go"] {
        pipe(&bench.path(name));
    }
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_a_file_that_is_shown_is_not_seen_outside_nor_one_from_outside_within() {
    let read = tempfile::tempdir_in("/var/tmp").expect("a directory");
    fs::create_dir(read.path().join("below")).expect("a directory");
    let files = [".package-cache", "below/lock"].map(|name| read.path().join(name));
    for file in &files {
        fs::write(file, "").expect("written");
    }
    let bench =
        bench_with_pipes(SandboxOptions { read: vec![read.path().to_owned()], ..SandboxOptions::default() });
    if !overlays(bench.workspace.path(), &bench.sandbox).await {
        return;
    }
    for file in files {
        assert_locks_are_apart(&bench, &file).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_a_file_of_the_system_is_not_seen_outside_nor_one_from_outside_within() {
    let bench = bench_with_pipes(SandboxOptions::default());
    if !overlays(bench.workspace.path(), &bench.sandbox).await {
        return;
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("a table");
    for (shown, dir) in [("/usr", "/usr/bin"), ("/etc", "/etc")] {
        let beneath = format!(" {shown}/");
        if mounts.contains(&beneath) {
            println!("skipped: something is mounted beneath {shown}, so it has no locks of its own");
            continue;
        }
        assert_locks_are_apart(&bench, &one_of(Path::new(dir))).await;
    }
}

/// A world-readable file of a directory. Another one for each process, because another run of these tests may be
/// locking a file there now.
fn one_of(dir: &Path) -> PathBuf {
    let mut files = fs::read_dir(dir).expect("a directory").flatten().filter(|entry| {
        let metadata = entry.metadata().expect("metadata");
        metadata.is_file() && metadata.permissions().mode() & 0o004 != 0
    });
    let count = std::process::id() as usize % 50;
    let first = files.next().expect("a file").path();
    files.nth(count).map_or(first, |entry| entry.path())
}
