//! Deltas: a reader receives each piece of a model's reply one batch after the model has streamed it.

use std::sync::Arc;
use std::time::Duration;

use posse_engine::{Delta, DeltaCall, DeltaPart, RunHandle};
use posse_models::scripted::ScriptedAnswer;
use tokio::sync::broadcast::Receiver;
use tokio::time::{Instant, advance, timeout};

use crate::tools::Latch;
use crate::world::World;

/// How long text may wait for more text.
const BATCH: Duration = Duration::from_millis(16);
/// Longer than the test, so that no heartbeat wakes a driver that waits for a model.
const BEAT: Duration = Duration::from_mins(10);
const WORDS: &str = "I have begun";

/// A root that streams its reply when `speak` opens, and whose stream stays open until `end` opens.
fn speaking(speak: &Latch, end: &Latch) -> World {
    let (speak, end) = (speak.clone(), end.clone());
    World::new(|_| ScriptedAnswer::text(WORDS))
        .holding(move |_| Some(speak.clone()))
        .holding_open(move |_| Some(end.clone()))
        .with_lease(4 * BEAT)
        .in_virtual_time()
}

/// Lets the root stream its reply, and checks that it arrives within a batch, while the stream is still open.
async fn assert_heard_in_time(speak: &Latch, deltas: &mut Receiver<Arc<[Delta]>>, handle: &RunHandle) {
    let said = Instant::now();
    speak.open();
    // Both timers may be due in the same moment, hence twice the time.
    let batch = timeout(2 * BATCH, deltas.recv()).await.expect("in time").expect("words");
    assert!(said.elapsed() <= BATCH, "{:?}", said.elapsed());
    let root = handle.id().root();
    let call = DeltaCall { attempt: 1, turn: 1, call: 1 };
    let (part, content) = (DeltaPart::Text, WORDS.to_owned());
    let words = Delta { agent_id: root, parent_id: None, part, content, call };
    assert_eq!(*batch, [words]);
}

#[tokio::test(start_paused = true)]
async fn who_listens_while_a_call_is_open_hears_it_within_a_batch() {
    let (speak, end) = (Latch::closed(), Latch::closed());
    let world = speaking(&speak, &end);
    let process = world.process_that_beats(BEAT);
    let handle = process.runtime.start(world.spec()).await.expect("started");
    speak.reached(1).await;
    // The driver waits meanwhile, and no reader has subscribed.
    advance(Duration::from_secs(1)).await;
    let mut deltas = handle.deltas();
    assert_heard_in_time(&speak, &mut deltas, &handle).await;
    end.open();
    world.ended(&handle).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_listened_for_long_hears_it_within_a_batch() {
    let (speak, end) = (Latch::closed(), Latch::closed());
    let world = speaking(&speak, &end);
    let process = world.process_that_beats(BEAT);
    let handle = process.runtime.start(world.spec()).await.expect("started");
    let mut deltas = handle.deltas();
    speak.reached(1).await;
    // The text may arrive at any point within a batch.
    advance(Duration::from_millis(1_001)).await;
    assert_heard_in_time(&speak, &mut deltas, &handle).await;
    end.open();
    world.ended(&handle).await;
}
