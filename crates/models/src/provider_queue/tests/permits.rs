//! Permits on tokio's paused clock, which advances by itself when every task waits.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use posse_domain::budget::Usage;
use posse_engine::ports::{Admission, CallSize, Permit, QueuedCall};
use tokio::time::{Instant, timeout};

use crate::endpoint::Limits;
use crate::provider_queue::ProviderQueue;
use crate::wire::{Problem, ProblemKind};

const SMALL: CallSize = CallSize { input_tokens: 60, output_tokens: 40 };
const NEVER: Duration = Duration::from_secs(100_000);

fn queue(limits: Limits) -> Arc<ProviderQueue> {
    ProviderQueue::new("acme".into(), limits)
}

fn at_once(most: u32) -> Arc<ProviderQueue> {
    queue(Limits { concurrent: Some(most), ..Limits::default() })
}

fn go(queue: &Arc<ProviderQueue>) -> Permit {
    match queue.admit(SMALL) {
        Admission::Go(permit) => permit,
        Admission::Wait(_) => panic!("it may go"),
    }
}

fn wait(queue: &Arc<ProviderQueue>) -> QueuedCall {
    match queue.admit(SMALL) {
        Admission::Go(_) => panic!("it has to wait"),
        Admission::Wait(waiting) => waiting,
    }
}

async fn turn(queue: &Arc<ProviderQueue>) -> Permit {
    match queue.admit(SMALL) {
        Admission::Go(permit) => permit,
        Admission::Wait(waiting) => waiting.turn.await,
    }
}

fn poll_pending(turn: &mut BoxFuture<'static, Permit>) -> bool {
    turn.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_first_goes_first() {
    let queue = at_once(1);
    let held = go(&queue);
    let mut turns: Vec<_> = (0..10).map(|_| wait(&queue).turn).collect();
    assert!(turns.iter_mut().all(poll_pending));
    drop(held);
    for n in 0..turns.len() {
        let (this, later) = turns[n..].split_first_mut().expect("one is left");
        let permit = timeout(NEVER, this).await.expect("its turn comes");
        assert!(later.iter_mut().all(poll_pending), "one at a time");
        drop(permit);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_up_goes_to_the_next_also_when_its_turn_has_come() {
    let queue = at_once(1);
    let held = go(&queue);
    let (mut first, second, mut third, fourth) =
        (wait(&queue).turn, wait(&queue).turn, wait(&queue).turn, wait(&queue).turn);
    assert!(poll_pending(&mut first) && poll_pending(&mut third));
    drop(second);
    drop(held);
    // Its grant has arrived, and no caller took it.
    drop(first);
    let permit = timeout(NEVER, third).await.expect("its turn comes");
    drop(permit);
    drop(fourth);
    drop(go(&queue));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_looked_at_keeps_nobody_from_going() {
    let queue = queue(Limits { requests_per_minute: Some(60), ..Limits::default() });
    while let Admission::Go(_) = queue.admit(SMALL) {}
    let unseen = wait(&queue).turn;
    let seen = wait(&queue).turn;
    drop(timeout(NEVER, seen).await.expect("its turn comes"));
    drop(timeout(Duration::ZERO, unseen).await.expect("its turn came before"));
}

#[tokio::test(start_paused = true)]
async fn a_limit_a_minute_is_waited_for_and_named() {
    let queue = queue(Limits { requests_per_minute: Some(5), ..Limits::default() });
    let began = Instant::now();
    drop(go(&queue));
    let waiting = wait(&queue);
    let notice = waiting.notice.expect("twelve seconds are long");
    assert_eq!((notice.reason.as_str(), notice.expected.as_secs()), ("the limit of 5 requests a minute", 12));
    drop(waiting.turn.await);
    assert_eq!(began.elapsed().as_secs(), 12);
}

#[tokio::test(start_paused = true)]
async fn reserved_tokens_come_back_if_they_were_not_used() {
    let queue = queue(Limits { tokens_per_minute: Some(1_000), ..Limits::default() });
    let permit = go(&queue);
    queue.succeeded(Some(&Usage { input_tokens: 10, ..Usage::ZERO }));
    drop(permit);
    assert!(wait(&queue).notice.is_none(), "the ten that were used are back in less than a second");

    let queue = self::queue(Limits { tokens_per_minute: Some(1_000), ..Limits::default() });
    drop(go(&queue));
    let notice = wait(&queue).notice.expect("a call whose use is unknown has used all");
    assert_eq!(notice.reason, "the limit of 1000 tokens a minute");
}

#[tokio::test(start_paused = true)]
async fn a_pause_stops_everybody_and_a_pause_that_is_extended_too() {
    let queue = queue(Limits::default());
    let began = Instant::now();
    let problem =
        |seconds| Problem::free(ProblemKind::RateLimit { after: Some(Duration::from_secs(seconds)) }, "slow");
    let retry = queue.failed(&problem(2), 1).expect("another call");
    assert!(retry.limited && retry.after >= Duration::from_secs(2));
    let waiting = wait(&queue);
    assert_eq!(waiting.notice.expect("two seconds are long").reason, "it asked to wait 2 s");
    let mut turn = waiting.turn;
    assert!(poll_pending(&mut turn));
    tokio::time::advance(Duration::from_secs(1)).await;
    queue.failed(&problem(5), 1);
    drop(timeout(NEVER, turn).await.expect("its turn comes"));
    assert!(began.elapsed() >= Duration::from_secs(6));
}

#[tokio::test(start_paused = true)]
async fn the_breaker_lets_one_try_and_the_others_go_when_its_answer_begins() {
    let queue = queue(Limits::default());
    let unwell = Problem::free(ProblemKind::Unreachable, "refused");
    for call in 1..=5 {
        assert!(queue.failed(&unwell, call).is_some_and(|retry| !retry.limited));
    }
    let waiting = wait(&queue);
    assert_eq!(waiting.notice.expect("long").reason, "its last 5 calls failed");
    let mut others: Vec<_> = (0..3).map(|_| wait(&queue).turn).collect();
    let trial = timeout(NEVER, waiting.turn).await.expect("one tries");
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(others.iter_mut().all(poll_pending), "the others wait for what comes of it");
    queue.answering();
    for permit in timeout(NEVER, join_all(others)).await.expect("they go") {
        drop(permit);
    }
    queue.succeeded(None);
    drop(trial);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_that_wait_are_each_woken_once() {
    const COUNT: usize = 1_000;
    let queue = queue(Limits { requests_per_minute: Some(6_000), concurrent: Some(8), ..Limits::default() });
    let polls = Arc::new(AtomicUsize::new(0));
    let tasks = (0..COUNT).map(|_| {
        let (queue, polls) = (queue.clone(), polls.clone());
        tokio::spawn(async move {
            let mut turn = pin!(turn(&queue));
            let permit = poll_fn(|context| {
                polls.fetch_add(1, Ordering::Relaxed);
                turn.as_mut().poll(context)
            });
            drop(permit.await);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        timeout(NEVER, task).await.expect("it ends").expect("no panic");
    }
    assert!(
        polls.load(Ordering::Relaxed) <= 2 * COUNT,
        "{polls:?}: once to ask, once when the turn has come"
    );
    assert!(queue.state.lock().expect("no panic").wakers.is_empty());
}

#[test]
fn those_who_wait_outlive_the_runtime_that_their_timer_ran_on() {
    let queue = queue(Limits { requests_per_minute: Some(6_000), ..Limits::default() });
    while let Admission::Go(_) = queue.admit(SMALL) {}
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let mut turn = wait(&queue).turn;
    let first = runtime();
    first.block_on(poll_fn(|context| {
        assert!(turn.as_mut().poll(context).is_pending());
        Poll::Ready(())
    }));
    drop(first);
    let permit = runtime().block_on(async { timeout(Duration::from_secs(10), turn).await });
    assert!(permit.is_ok_and(|permit| permit.holds()));
}
