//! Several writers at the same time.

use posse_engine::ports::{Claim, Store};

use super::harness::{ChildProcess, open};
use super::journal::{assert_healthy, first, key, next, verify};

const WRITERS: u64 = 4;
const EVENTS: u64 = 300;

/// No event is lost, no journal has a gap, and no writer starves. The bound is loose: the example `append`, not this
/// test, measures the duration on a quiet machine.
#[tokio::test]
async fn four_writers_append_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut processes: Vec<_> = (0..WRITERS).map(|_| ChildProcess::start(dir.path())).collect();
    for (run, process) in (0..).zip(&mut processes) {
        process.create(run);
    }
    for (run, process) in (0..).zip(&mut processes) {
        process.tell(&format!("append {run} 1 1 {EVENTS}"));
    }
    for process in &mut processes {
        for number in 2..=EVENTS {
            assert_eq!(process.hear_number("acked "), number);
        }
        let longest = process.hear_number("longest ");
        println!("longest wait of an append: {longest} ms");
        assert!(longest < 5_000, "an append waited {longest} ms");
    }
    let store = open(dir.path());
    for run in 0..WRITERS {
        assert_eq!(verify(&store, &key(run)).await, EVENTS);
    }
    assert_healthy(&store).await;
    for process in processes {
        process.close();
    }
    assert_healthy(&store).await;
}

/// A commit wakes the watchers in another process.
#[tokio::test]
async fn other_processes_hear_of_a_commit() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(first(&key(1))).await.unwrap();
    let mut process = ChildProcess::start(dir.path());
    for head in 1..20 {
        assert_eq!(process.ask(&format!("watch 1 {}", head + 1)), "watching");
        store.commit(next(&key(1), head, 1)).await.unwrap();
        assert_eq!(process.hear_number("heard "), head + 1);
    }
}

/// A command that another process posts wakes the lease holder and can be read.
#[tokio::test]
async fn a_command_from_another_process_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.commit(first(&key(1))).await.unwrap();
    let mut watch = store.watch(&key(1));
    let mut process = ChildProcess::start(dir.path());
    assert_eq!(process.ask("post 1"), "posted 1");
    watch.wait_for(|pulse| pulse.messages == 1).await.unwrap();
    assert_eq!(store.mail(&key(1)).await.unwrap().len(), 1);
    assert!(process.ask("post 2").starts_with("error there is no run"));
}

/// Of two processes, one holds the lease of the run, and the other learns which.
#[tokio::test]
async fn the_loser_of_a_claim_gets_to_know_the_lease_holder() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut process = ChildProcess::start(dir.path());
    process.create(1);
    let Claim::Held(holder) = store.claim(&key(1)).await.unwrap() else {
        panic!("granted beside a live lease")
    };
    let pid = process.pid();
    assert_eq!((holder.pid, holder.label.as_str(), holder.epoch), (Some(pid), pid.to_string().as_str(), 1));
    let listed = store.runs(&key(1).tenant, "", 1).await.unwrap().remove(0).holder;
    assert_eq!(listed, Some(holder));
    process.close();
    assert_eq!(store.claim(&key(1)).await.unwrap(), Claim::Granted(2), "after a clean end");
}
