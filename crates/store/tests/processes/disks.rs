//! Disks that are full, broken or read-only. These tests need their own mount, in namespaces that any user may create.
//! Where the system forbids that, they are skipped with a message.

use std::path::Path;
use std::process::Command;

use posse_engine::ports::{Claim, Store};
use serde_json::{Value, json};

use super::harness::{ChildProcess, child_process_args, number, open};
use super::journal::{assert_healthy, first, key, next, verify};

/// A child process that is started by a shell script that ends in `exec "$@"`.
fn scripted(dir: &Path, settings: &Value, script: &str, in_namespace: bool) -> ChildProcess {
    let shell = ["sh", "-c", script, "sh"];
    let mut command = if in_namespace { Command::new("unshare") } else { Command::new("env") };
    if in_namespace {
        command.args(["--user", "--map-root-user", "--mount"]);
    }
    command.args(shell).arg(std::env::current_exe().unwrap()).args(child_process_args());
    ChildProcess::spawn(dir, settings.clone(), &mut command)
}

fn can_mount() -> bool {
    let script = "mount -t tmpfs none /mnt";
    let tried =
        Command::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        println!("skipped: this system does not let us mount");
    }
    can
}

/// On a full disk a commit fails with a clear message and nothing of it is stored. With free space, commits succeed
/// again.
#[test]
fn a_full_disk_is_survived() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display();
    let script = format!(
        "mount -t tmpfs -o size=4m none '{path}' && head -c 2500000 /dev/zero > '{path}/filler' && exec \"$@\""
    );
    let mut process = scripted(&dir.path().join("state"), &json!({}), &script, true);
    assert_eq!(process.hear(), "open");
    process.create(1);
    process.tell("append 1 1 1 1000000");
    let mut acked = 1;
    let error = loop {
        let line = process.hear();
        if line.starts_with("error") {
            break line;
        }
        acked = number(&line, "acked ");
    };
    assert!(error.starts_with("error no space left for the journal"), "{error}");
    assert_eq!(
        process.ask("head 1"),
        format!("head {acked}"),
        "reads are served, and nothing by half is seen"
    );
    assert_eq!(process.ask(&format!("remove {path}/filler")), "removed");
    assert_eq!(process.ask(&format!("append 1 1 {acked} {}", acked + 1)), format!("acked {}", acked + 1));
    process.close();
}

/// After a write error the store writes nothing more, even if the disk seems to work again. A new process continues.
#[tokio::test]
async fn a_broken_disk_stops_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(first(&key(1))).await.unwrap();
    // A limit of the file size, which SQLite reports like any other disk error.
    let script = "trap '' XFSZ; ulimit -f 400; exec \"$@\"";
    let mut process = scripted(dir.path(), &json!({}), script, false);
    assert_eq!(process.hear(), "open");
    process.create(2);
    process.tell("append 2 1 1 1000000");
    let mut acked = 1;
    let error = loop {
        let line = process.hear();
        if line.starts_with("error") {
            break line;
        }
        acked = number(&line, "acked ");
    };
    assert!(error.contains("nothing more is written until the store is opened again"), "{error}");
    for command in [format!("append 2 1 {acked} {}", acked + 1), "create 3".to_owned(), "post 1".to_owned()] {
        assert_eq!(process.ask(&command), error, "every later write hears the same");
    }
    assert_eq!(process.ask("head 2"), format!("head {acked}"));
    assert_eq!(verify(&store, &key(2)).await, acked);
    // The stopped store holds no lease any more, so others need not wait.
    let Claim::Granted(epoch) = store.claim(&key(2)).await.unwrap() else {
        panic!("held by a store that stopped")
    };
    store.commit(next(&key(2), acked, epoch)).await.unwrap();
    assert_healthy(&store).await;
}

/// A store on a read-only disk refuses writes, and can be read.
#[tokio::test]
async fn a_read_only_disk_is_for_looking() {
    if !can_mount() {
        return;
    }
    let (original, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open(original.path()).commit(first(&key(1))).await.unwrap();
    let (from, to) = (original.path().display(), dir.path().display());
    // After a clean close, the database file contains everything.
    let script = format!(
        "mount -t tmpfs none '{to}' && cp '{from}/posse.db' '{to}' && mount -o remount,ro '{to}' && exec \"$@\""
    );
    let mut process = scripted(dir.path(), &json!({}), &script, true);
    let error = process.hear();
    assert!(error.starts_with("error") && error.ends_with("cannot be written"), "{error}");
    assert!(!error.contains(&to.to_string()), "{error}");
    let mut process = scripted(dir.path(), &json!({"looks": true}), &script, true);
    assert_eq!(process.hear(), "open");
    assert_eq!(process.ask("head 1"), "head 1");
    assert!(process.ask("create 2").ends_with("cannot be written"));
}
