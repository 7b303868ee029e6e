//! Conformance checks of `watch`: a wake-up is only a hint, and with the journal behind it no event is missed.

use std::sync::Arc;

use posse_engine::ports::{MailCommand, RunKey, Store};

use super::World;
use super::fixture::{Dice, append, create, key};

/// A commit wakes the watchers of its run in every process, and no others.
pub async fn watchers_are_woken_by_commits_here_and_elsewhere(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    create(&*store, &super::fixture::key(2)).await;
    let (mut here, mut elsewhere) = (store.watch(&key), other.watch(&key));
    for head in 1..20 {
        append(&*store, &key, head, 1, 1).await;
        for receiver in [&mut here, &mut elsewhere] {
            let pulse = *receiver.wait_for(|pulse| pulse.head > head).await.unwrap();
            assert_eq!(pulse.head, head + 1, "woken before the commit is durable");
        }
    }
    let mut bystander = store.watch(&super::fixture::key(2));
    bystander.wait_for(|pulse| pulse.head == 1).await.unwrap();
    append(&*store, &key, 20, 1, 1).await;
    here.wait_for(|pulse| pulse.head == 21).await.unwrap();
    assert!(!bystander.has_changed().unwrap(), "woken by another run");
}

/// A command wakes the lease holder of its run.
pub async fn watchers_are_woken_by_mail(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    let mut owner = store.watch(&key);
    for round in 1..5 {
        let before = owner.borrow_and_update().messages;
        let agent = key.run.root();
        other.post(&key, MailCommand::Send { agent, text: "hello".to_owned() }).await.unwrap();
        owner.wait_for(|pulse| pulse.messages > before).await.unwrap();
        assert_eq!(store.mail(&key).await.unwrap().len(), round);
    }
}

/// A watcher of a run that does not exist yet is woken by its creation.
pub async fn watchers_may_come_before_the_run(world: &dyn World) {
    let (store, other, key) = (world.open(), world.open(), key(1));
    let (mut here, mut elsewhere) = (store.watch(&key), other.watch(&key));
    create(&*store, &key).await;
    here.wait_for(|pulse| pulse.head == 1).await.unwrap();
    elsewhere.wait_for(|pulse| pulse.head == 1).await.unwrap();
}

/// Readers that reconnect at random, in the writer's process and in another, see every event once and in order.
pub async fn nothing_is_missed_or_repeated_over_disconnects(world: &dyn World) {
    const EVENTS: u64 = 400;
    let (store, other, key) = (world.open(), world.open(), key(1));
    create(&*store, &key).await;
    let readers: Vec<_> = [(&store, 7), (&other, 8), (&other, 9)]
        .into_iter()
        .map(|(store, seed)| tokio::spawn(follow(store.clone(), key.clone(), EVENTS, Dice(seed))))
        .collect();
    let (mut head, mut dice) = (1, Dice(99));
    while head < EVENTS {
        let count = (1 + dice.roll(5)).min(EVENTS - head);
        append(&*store, &key, head, 1, count).await;
        head += count;
    }
    for reader in readers {
        assert_eq!(reader.await.unwrap(), (1..=EVENTS).collect::<Vec<_>>());
    }
}

/// Reads from the last event that it saw, drops its receiver now and then, and ends with event `last`.
async fn follow(store: Arc<dyn Store>, key: RunKey, last: u64, mut dice: Dice) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut receiver = store.watch(&key);
    loop {
        let after = seen.last().copied().unwrap_or(0);
        let limit = u32::try_from(1 + dice.roll(20)).unwrap();
        let events = store.read(&key, after, limit).await.unwrap();
        seen.extend(events.iter().map(|event| event.seq));
        if seen.last() == Some(&last) {
            return seen;
        }
        if dice.roll(4) == 0 {
            drop(receiver);
            receiver = store.watch(&key);
        } else if events.is_empty() {
            receiver.changed().await.unwrap();
        }
    }
}
