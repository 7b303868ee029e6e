//! Providers that fail, request pauses, or give no permits: call retries, waits, conversations that are too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{CallError, EventBody, ModelReplied, Purpose};
use posse_engine::ports::{Admission, ModelFacts, ModelRequest, Notice, Permit, QueuedCall, Retry};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;
use tokio::sync::Semaphore;

use crate::power::CrashPoint;
use crate::world::{EndedRun, World, background, child, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn unwell(after_ms: u64) -> ScriptedAnswer {
    let again = Retry { after: Duration::from_millis(after_ms), limited: false };
    ScriptedAnswer::error(Some(529), "overloaded").retry(again)
}

fn limited(after: Duration) -> ScriptedAnswer {
    ScriptedAnswer::error(Some(429), "slow down").retry(Retry { after, limited: true })
}

fn too_long() -> ScriptedAnswer {
    ScriptedAnswer::failure(CallError::new(Code::ContextOverflow, "prompt is too long"))
}

fn replies<'a>(ended: &'a EndedRun, agent: &'a str) -> impl Iterator<Item = &'a ModelReplied> {
    ended.of(agent).filter_map(|event| match &event.body {
        EventBody::ModelReplied(e) => Some(&**e),
        _ => None,
    })
}

/// Each call of an agent: its turn, its number in the turn, and whether a retry was to follow it.
fn calls(ended: &EndedRun, agent: &str) -> Vec<(u32, u32, bool)> {
    replies(ended, agent)
        .map(|e| (e.turn, e.call, e.error.as_ref().is_some_and(|error| error.again)))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_made_again_within_its_turn() {
    let world = World::new(|request| match (request.turn, request.call) {
        (1, 1 | 2) => unwell(100),
        (1, _) => text("looking").call("probe", json!({})),
        _ => text("done"),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(calls(&ended, "0"), [(1, 1, true), (1, 2, true), (1, 3, false), (2, 1, false)]);
    assert!(!ended.kinds("0").contains(&"provider_wait_started"), "too short to be told");
    let asked = world.asked_by("0");
    assert_eq!(asked[0].messages, asked[2].messages, "nothing is said twice");
    assert_eq!(asked[0].hash, asked[2].hash);
    let turns = ended.run.ledger.own(&ended.run.id.root()).expect("figures").turns;
    assert_eq!(turns, 2, "a call that failed is no turn");
}

#[tokio::test(start_paused = true)]
async fn calls_are_bounded_in_count_and_the_last_error_is_told() {
    let world = World::new(|_| unwell(10)).in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.text(), "MODEL_ERROR: overloaded");
    let last = posse_agent::call_retry::CALLS_MAX;
    assert_eq!(calls(&ended, "0").len(), last as usize);
    assert_eq!(calls(&ended, "0").last(), Some(&(1, last, false)));
}

#[tokio::test(start_paused = true)]
async fn calls_are_bounded_in_time() {
    let world = World::new(|_| unwell(4 * 60 * 1_000)).in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.text(), "MODEL_ERROR: overloaded");
    // After 0, 4, 8 and 12 minutes.
    assert_eq!(calls(&ended, "0").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_was_asked_for_is_in_the_journal_and_holds_no_slot() {
    let world =
        World::new(|request: &ModelRequest| match (request.agent.relative(), request.turn, request.call) {
            ("0", 1, _) => {
                text("").call("task", background("scout", "waits")).call("task", background("scout", "works"))
            }
            ("1", 1, 1) => limited(Duration::from_hours(3)),
            ("2", turn @ 1..=3, _) => text("").call("probe", json!({"turn": turn})),
            (_, 1, _) => text("report"),
            _ => text("done"),
        })
        .in_virtual_time();
    let mut spec = world.spec();
    spec.terms.parallel = 1;
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "completed");
    let started = ended.position(|event| matches!(event.body, EventBody::ProviderWaitStarted(_)));
    let over = ended.position(|event| matches!(event.body, EventBody::ProviderWaitEnded(_)));
    let worked = ended.position(|event| {
        event.agent.relative() == "2" && matches!(event.body, EventBody::SubagentClosed(_))
    });
    assert!(started < worked && worked < over, "the other one worked meanwhile, with one slot for both");
    let EventBody::ProviderWaitStarted(wait) = &ended.events[started].body else { panic!("a wait") };
    assert_eq!((wait.provider.as_str(), wait.reason.as_str()), ("acme", "slow down, retry 1 of 29"));
    assert_eq!(wait.until_ms - ended.events[started].at_ms, 3 * 60 * 60 * 1_000);
    let EventBody::ProviderWaitEnded(end) = &ended.events[over].body else { panic!("an end") };
    assert_eq!(end.waited_ms, 3 * 60 * 60 * 1_000);
    assert_eq!(calls(&ended, "1"), [(1, 1, true), (1, 2, false)]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on_after_a_crash_for_what_is_left_of_it() {
    let world =
        World::new(|request| if request.call == 1 { limited(Duration::from_hours(1)) } else { text("done") })
            .in_virtual_time();
    let mortal = world.mortal(None);
    let handle = mortal.runtime.start(world.spec()).await.expect("started");
    let run = handle.id().clone();
    world.until(&run, |event| matches!(event.body, EventBody::ProviderWaitStarted(_))).await;
    tokio::time::advance(Duration::from_mins(20)).await;
    mortal.power.expect("mortal").cut();
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "completed");
    let waits = ended.of("0").filter(|event| matches!(event.body, EventBody::ProviderWaitStarted(_))).count();
    assert_eq!(waits, 1, "the same wait");
    let began = ended.events[0].at_ms;
    let again = ended.position(|event| matches!(&event.body, EventBody::ModelCalled(e) if e.call == 2));
    let waited_ms = ended.events[again].at_ms - began;
    assert!((3_600_000..3_700_000).contains(&waited_ms), "{waited_ms}");
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_pause() {
    let world = World::new(|_| limited(Duration::from_hours(1))).in_virtual_time();
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    world.until(handle.id(), |event| matches!(event.body, EventBody::ProviderWaitStarted(_))).await;
    world.cancel(&handle.id().root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "cancelled");
    assert!(ended.kinds("0").contains(&"provider_wait_ended"));
    assert_eq!(calls(&ended, "0"), [(1, 1, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_falls_silent_is_cut_and_made_once_more() {
    let world = World::new(|request| match request.call {
        1 => text("never").latency(Duration::from_hours(5)),
        _ => text("done"),
    })
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(calls(&ended, "0"), [(1, 1, true), (1, 2, false)]);
    let cut = replies(&ended, "0").next().expect("a reply");
    assert!(
        cut.estimated && cut.usage.output_tokens > 0,
        "what it cost is not known: all it reserved counts"
    );
    let world = World::new(|_| text("never").latency(Duration::from_hours(5))).in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert!(ended.text().starts_with("TIMEOUT: the model was silent"), "{}", ended.text());
    assert_eq!(calls(&ended, "0"), [(1, 1, true), (1, 2, false)]);
}

#[tokio::test(start_paused = true)]
async fn a_call_has_an_end_however_long_it_goes_on() {
    let world = World::new(|_| text("never").latency(Duration::from_hours(30))).in_virtual_time();
    let mut spec = world.spec();
    spec.idle_timeout_ms = 24 * 60 * 60 * 1_000;
    let ended = world.run(spec).await;
    assert_eq!(ended.text(), "TIMEOUT: no reply within 3600000 ms");
    assert_eq!(calls(&ended, "0"), [(1, 1, false)]);
}

#[tokio::test(start_paused = true)]
async fn how_long_a_model_may_be_silent_is_the_runs_to_say() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "look")),
        _ => text("done").latency(Duration::from_mins(8)),
    })
    .in_virtual_time();
    let mut spec = world.spec();
    spec.idle_timeout_ms = 9 * 60 * 1_000;
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(
        (calls(&ended, "0").len(), calls(&ended, "1").len()),
        (2, 1),
        "nobody was cut, children neither"
    );
}

fn long_talk(request: &ModelRequest, last: u32) -> Option<ScriptedAnswer> {
    let call = |turn: u32| text("").call("probe", json!({"turn": turn, "pad": "x".repeat(2_000)}));
    (request.turn < last).then(|| call(request.turn))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_too_long_is_made_shorter_and_sent_once_more() {
    let world = World::new(|request| {
        long_talk(request, 8).unwrap_or_else(|| if request.call == 1 { too_long() } else { text("done") })
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let kinds = ended.kinds("0");
    assert_eq!(kinds.iter().filter(|kind| **kind == "context_trimmed").count(), 1);
    assert_eq!(calls(&ended, "0").last_chunk(), Some(&[(8, 1, true), (8, 2, false)]));
    let asked = world.asked_by("0");
    let bytes = |request: &ModelRequest| format!("{:?}", request.messages).len();
    assert!(bytes(&asked[8]) < bytes(&asked[7]) * 3 / 4, "{} {}", bytes(&asked[8]), bytes(&asked[7]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_stays_too_long_is_no_loop() {
    let world = World::new(|request| long_talk(request, 8).unwrap_or_else(too_long));
    let ended = world.run(world.spec()).await;
    assert!(
        ended.text().starts_with("CONTEXT_OVERFLOW: prompt is too long; even the newest turn"),
        "{}",
        ended.text()
    );
    // Once with fewer outputs, then once with a summary, which the host writes after two requests for one.
    let refused = [(8, 1, true), (8, 2, true), (8, 1, true), (8, 2, true), (8, 3, false)];
    assert_eq!(calls(&ended, "0").last_chunk(), Some(&refused));
    // If nothing can be omitted or summarised, there is no second call.
    let world = World::new(|_| too_long());
    let ended = world.run(world.spec()).await;
    assert_eq!(calls(&ended, "0"), [(1, 1, false)]);
}

/// Admits `at_once` calls at the same time. The others wait in a queue.
fn narrow(at_once: usize, notice: Option<Notice>) -> (Arc<Semaphore>, impl Fn() -> Admission) {
    let permits = Arc::new(Semaphore::new(at_once));
    let line = permits.clone();
    let admit = move || {
        if let Ok(permit) = line.clone().try_acquire_owned() {
            return Admission::Go(Permit::holding(permit));
        }
        let line = line.clone();
        let turn = Box::pin(async move { Permit::holding(line.acquire_owned().await.expect("open")) });
        Admission::Wait(QueuedCall { turn, notice: notice.clone() })
    };
    (permits, admit)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_wait_for_leave_and_give_it_back() {
    let most = Arc::new(AtomicUsize::new(0));
    let (permits, admit) = narrow(2, None);
    let (seen, free) = (most.clone(), permits.clone());
    let world = World::new(move |request| {
        seen.fetch_max(2 - free.available_permits(), Ordering::SeqCst);
        match (request.depth, request.turn) {
            (0, 1) => {
                (0..20).fold(text(""), |reply, n| reply.call("task", child("scout", &format!("look {n}"))))
            }
            _ => text("done"),
        }
    })
    .admitting(admit);
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!(ended.run.failed.len(), 0);
    assert!(most.load(Ordering::SeqCst) <= 2);
    assert_eq!(permits.available_permits(), 2, "all given back");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_is_unwell_is_not_waited_for_without_end() {
    let notice =
        Notice { reason: "5 failures in a row".to_owned(), expected: Duration::from_secs(30), unwell: true };
    let (_permits, admit) = narrow(0, Some(notice));
    let world = World::new(|_| text("never asked")).admitting(admit).in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(
        ended.text(),
        "MODEL_ERROR: no answer from the model within 10 minutes: acme: 5 failures in a row"
    );
    let kinds = ended.kinds("0");
    assert!(kinds.contains(&"provider_wait_started") && kinds.contains(&"provider_wait_ended"), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_waits_for_leave_can_be_cancelled() {
    let notice = Notice { reason: "a limit".to_owned(), expected: Duration::from_secs(5), unwell: false };
    let (permits, admit) = narrow(0, Some(notice));
    let world = World::new(|_| text("never asked")).admitting(admit);
    let process = world.process();
    let handle = process.runtime.start(world.spec()).await.expect("started");
    world.until(handle.id(), |event| matches!(event.body, EventBody::ProviderWaitStarted(_))).await;
    world.cancel(&handle.id().root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!(ended.status(), "cancelled");
    permits.add_permits(1);
    // The task that waited in the provider queue ends a moment after it was aborted.
    let free = tokio::time::timeout(Duration::from_secs(10), permits.acquire()).await;
    assert!(free.is_ok_and(|permit| permit.is_ok()), "nobody stands in line any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_told_once_that_most_of_its_budget_is_used() {
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 500, price: None };
    let world = World::new(|request| match request.purpose {
        Purpose::Work if request.turn < 6 => text("")
            .call("probe", json!({"turn": request.turn}))
            .usage(posse_domain::budget::Usage { input_tokens: 17_000, ..posse_domain::budget::Usage::ZERO }),
        _ => text("done"),
    })
    .with_facts(facts);
    let mut spec = world.spec();
    spec.budget.tokens = Some(100_000);
    let ended = world.run(spec).await;
    let notes = ended.of("0").filter(|event| matches!(event.body, EventBody::MessageReceived(_))).count();
    assert_eq!(notes, 1);
    let asked = world.asked_by("0");
    let told = asked.iter().find(|request| newest(request).contains("80 % of the budget")).expect("told");
    assert_eq!(told.turn, 6, "after five turns of 17,000 tokens");
    assert!(newest(told).contains("its limit is 100000 tokens"), "{}", newest(told));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_refused_is_not_tried_again() {
    let refused = || ScriptedAnswer::failure(CallError::new(Code::Unauthenticated, "the key is not known"));
    let world = World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("scout", "look")),
        (0, _) => text("done"),
        _ => refused(),
    });
    let ended = world.run(world.spec()).await;
    assert!(!ended.kinds("1").contains(&"subagent_attempt"), "another attempt has the same key");
    let (ok, said) = ended.result("0");
    assert!(!ok && said.contains("UNAUTHENTICATED"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_crash_cut_off_is_made_again_and_both_are_counted() {
    let world = World::new(|_| text("done"));
    let death = CrashPoint { point: "engine.model.after_reply", pass: 1 };
    let mortal = world.mortal(Some(death));
    let handle = mortal.runtime.start(world.spec()).await.expect("started");
    let run = handle.id().clone();
    mortal.power.expect("mortal").lost().await;
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    assert_eq!(calls(&ended, "0"), [(1, 1, false), (1, 2, false)]);
    let first = replies(&ended, "0").next().expect("a reply");
    assert!(first.estimated && first.error.as_ref().is_some_and(|error| error.code == Code::Interrupted));
    let spent = ended.run.ledger.subtree(&run.root()).expect("figures").usage;
    let told: u64 = replies(&ended, "0").map(|e| e.usage.tokens()).sum();
    assert_eq!(spent.tokens(), told);
}
