//! Writers that die.

use std::os::unix::process::ExitStatusExt;

use posse_engine::ports::{Claim, Epoch, Store};
use posse_store::{FAULT_POINTS, SqliteStore};
use serde_json::json;

use super::harness::{ChildProcess, Dice, number, open, this_binary};
use super::journal::{assert_healthy, blob, key, next, verify};

/// The fault point of a granted claim, which requires an earlier lease holder that died.
const CLAIM: &str = "store.claim.after";

/// Runs continue where the killed process left them. All acknowledged events are there, and the next lease holder does
/// not have to wait. Another process writes all the while and is not disturbed.
#[tokio::test]
async fn random_kills_lose_nothing() {
    const ROUNDS: u64 = 25;
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut dice = Dice(0x5eed);
    let mut bystander = ChildProcess::start(dir.path());
    bystander.create(2);
    bystander.tell("append 2 1 1 1000000");
    let mut first = ChildProcess::start(dir.path());
    first.create(1);
    drop(first.kill());
    let (mut epoch, mut head) = (1, 1);
    for _ in 0..ROUNDS {
        let mut process = ChildProcess::start_with(dir.path(), json!({"checkpoint_pages": 20}));
        epoch += 1;
        assert_eq!(process.ask("claim 1"), format!("granted {epoch}"), "at once after the kill");
        process.tell(&format!("append 1 {epoch} {head} 1000000"));
        let mut acked = head;
        for _ in 0..dice.roll(30) {
            acked = process.hear_number("acked ");
        }
        let rest = process.kill();
        acked = rest.last().map_or(acked, |line| number(line, "acked "));
        head = verify(&store, &key(1)).await;
        assert!(head >= acked, "event {acked} was acknowledged, the journal ends at {head}");
        assert!(head <= acked + 1, "more than the one in flight");
    }
    assert_eq!(store.claim(&key(1)).await.unwrap(), Claim::Granted(epoch + 1));
    store.commit(next(&key(1), head, epoch + 1)).await.unwrap();
    let said = bystander.kill();
    let acked = number(said.last().unwrap(), "acked ");
    assert!(verify(&store, &key(2)).await >= acked);
    assert_healthy(&store).await;
}

/// The process dies at every fault point. Its acknowledged events are there, nothing is half written, and another
/// process can continue.
#[tokio::test]
async fn every_fault_point_is_survived() {
    for point in FAULT_POINTS.into_iter().filter(|point| *point != CLAIM) {
        for passes in [1, 2, 3] {
            if let Some(acked) = die_at(point, passes).await {
                println!("{point}, passed {passes} times: {acked} acknowledged");
            }
        }
    }
}

/// Returns how many events were acknowledged before the child process died. `None` if the point was passed fewer
/// times.
async fn die_at(point: &str, passes: u32) -> Option<u64> {
    let dir = tempfile::tempdir().unwrap();
    let settings = json!({"point": point, "passes": passes, "checkpoint_pages": 8});
    let mut process = ChildProcess::spawn(dir.path(), settings, &mut this_binary());
    for command in ["create 1", "append 1 1 1 6", "blob 1 1 6", "append 1 1 7 9"] {
        process.tell(command);
    }
    let (said, status) = process.end_input().hear_out();
    let created = u64::from(said.iter().any(|line| line == "epoch 1"));
    let acked = said.iter().filter(|line| line.starts_with("acked")).map(|line| number(line, "acked "));
    let acked = acked.max().unwrap_or(created);
    if status.success() {
        assert!(passes > 1, "{point} is never passed");
        return None;
    }
    assert_eq!(status.signal(), Some(9), "{point}: {said:?}");
    goes_on(&open(dir.path()), acked).await;
    Some(acked)
}

/// A process that dies after its claim was granted has used its epoch, and blocks no other process.
#[tokio::test]
async fn a_claim_that_nobody_heard_of_is_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let mut owner = ChildProcess::start(dir.path());
    owner.create(1);
    drop(owner.kill());
    let mut process = ChildProcess::start_with(dir.path(), json!({"point": CLAIM}));
    process.tell("claim 1");
    let (said, status) = process.hear_out();
    assert_eq!((said, status.signal()), (Vec::new(), Some(9)));
    let store = open(dir.path());
    assert_eq!(store.claim(&key(1)).await.unwrap(), Claim::Granted(3));
    goes_on_with(&store, 3, 1).await;
}

/// Checks that the journal has all acknowledged events, and that a new lease holder can continue it.
async fn goes_on(store: &SqliteStore, acked: u64) {
    assert_healthy(store).await;
    let runs = store.runs(&key(1).tenant, "", 9).await.unwrap();
    if runs.is_empty() {
        assert_eq!(acked, 0);
        return;
    }
    let head = verify(store, &key(1)).await;
    assert!(head >= acked && head <= acked + 1, "{acked} acknowledged, {head} there");
    if head >= 7 {
        assert_eq!(store.get_blob(&key(1).tenant, &blob().hash).await.unwrap().len(), 300_000);
    }
    let Claim::Granted(epoch) = store.claim(&key(1)).await.unwrap() else { panic!("the owner is dead") };
    goes_on_with(store, epoch, head).await;
}

async fn goes_on_with(store: &SqliteStore, epoch: Epoch, head: u64) {
    store.commit(next(&key(1), head, epoch)).await.unwrap();
    assert_healthy(store).await;
}
