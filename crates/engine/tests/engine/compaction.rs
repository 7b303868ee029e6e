//! Conversations that are too long: a summary replaces their older part, before a turn or after the provider refused
//! them.

use std::collections::BTreeMap;
use std::time::Duration;

use posse_agent::conversation::{Conversation, Message};
use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::event::{CallError, ContextCompacted, EventBody, Purpose};
use posse_engine::Recording;
use posse_engine::ports::{ModelFacts, ModelRequest, Retry};
use posse_models::scripted::{DEFAULT_FACTS, ScriptedAnswer};
use serde_json::json;

use crate::crash::dies_at;
use crate::power::CrashPoint;
use crate::repeatable::requests;
use crate::replaying::{again, assert_same};
use crate::world::{EndedRun, World, child};

const SUMMARY: &str = "Asked: find it. Found: nothing yet. Changed: nothing. Left: the cellar.";
const FACTS: ModelFacts = ModelFacts { context_tokens: 10_000, max_output_tokens: 500, price: None };
/// Turns of work in a conversation of about 1,000 tokens for each.
const TURNS: u32 = 14;

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn too_long() -> ScriptedAnswer {
    ScriptedAnswer::failure(CallError::new(Code::ContextOverflow, "prompt is too long"))
}

/// A turn with a long text, which no trimming removes.
fn long_turn(turn: u32) -> ScriptedAnswer {
    text(&format!("{turn} {}", "words ".repeat(650))).call("probe", json!({"turn": turn}))
}

/// The root works for `TURNS` turns.
fn talk(request: &ModelRequest) -> ScriptedAnswer {
    match request.purpose {
        Purpose::Summary => text(SUMMARY),
        Purpose::Work if request.turn <= TURNS => long_turn(request.turn),
        Purpose::Work | Purpose::Report => text("done"),
    }
}

fn compactions<'a>(ended: &'a EndedRun, agent: &'a str) -> impl Iterator<Item = &'a ContextCompacted> {
    ended.of(agent).filter_map(|event| match &event.body {
        EventBody::ContextCompacted(e) => Some(e),
        _ => None,
    })
}

fn said(message: &Message) -> String {
    format!("{message:?}")
}

fn tokens_of(request: &ModelRequest) -> u64 {
    let messages = request.messages.iter().map(|message| (**message).clone());
    messages.collect::<Conversation>().estimated_tokens()
}

/// The requests that are folded from the journal equal the requests that were made.
fn recorded_as_sent(world: &World, ended: &EndedRun) {
    let recording = Recording::new(ended.events.clone()).expect("a recording");
    for request in &*world.asked.lock().expect("no panic while it is held") {
        let (agent, place) = (request.agent.relative(), request.place());
        let call = recording.call(agent, place).expect("recorded");
        assert_eq!(call.called.request_hash, request.hash, "{agent} {place:?}");
        assert_eq!(recording.request(agent, call).messages, request.messages, "{agent} {place:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_conversation_is_compacted_between_its_turns() {
    let world = World::new(talk).with_facts(FACTS);
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    assert!(compactions(&ended, "0").count() >= 2, "{:?}", ended.kinds("0"));
    assert_eq!(ended.results("0").len(), TURNS as usize, "the journal keeps everything");
    let figures = *ended.run.ledger.own(&ended.run.id.root()).expect("the root's");
    assert_eq!(figures.turns, u64::from(TURNS) + 1, "a summary is no turn");
    for compacted in compactions(&ended, "0") {
        assert!(compacted.tokens_after <= compacted.tokens_before / 2 + 600, "{compacted:?}");
        assert_eq!(compacted.call, Some(1));
    }
    let asked = world.asked_by("0");
    for (at, request) in asked.iter().enumerate() {
        assert!(tokens_of(request) < FACTS.context_tokens, "{at}");
        if request.purpose != Purpose::Summary {
            continue;
        }
        assert!(request.callable().is_empty() && !request.tools.is_empty());
        let before = &asked[at - 1];
        let part = &request.messages[..request.messages.len() - 1];
        assert_eq!(
            part,
            &before.messages[..part.len()],
            "it begins as the request before, for the provider's cache"
        );
        let next = &asked[at + 1];
        assert_eq!((next.turn, next.call, next.purpose), (request.turn, 1, Purpose::Work));
        assert_eq!(next.messages[0], asked[0].messages[0], "the assignment");
        assert!(said(&next.messages[1]).contains(SUMMARY));
        let kept = before.messages.len() - part.len();
        assert_eq!(next.messages[2..2 + kept], before.messages[part.len()..], "the newest turns");
    }
    recorded_as_sent(&world, &ended);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compacted_run_is_replayed_event_by_event() {
    let world = World::new(talk).with_facts(FACTS);
    let first = world.run(world.spec()).await;
    let second = again(&world, world.spec(), &first).await;
    assert_same(&first, &second);
    assert_same(&first, &again(&world, world.spec(), &second).await);
}

/// The last request of each turn, as text.
fn last_requests(world: &World) -> BTreeMap<(u32, bool), String> {
    let asked = world.asked_by("0").into_iter();
    asked
        .map(|request| ((request.turn, request.place().summary), format!("{:?}", request.messages)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_death_around_a_summary_the_same_requests_are_made() {
    let world = World::new(talk).with_facts(FACTS);
    let whole = world.run(world.spec()).await;
    let expected = last_requests(&world);
    let at = world.asked_by("0").iter().position(|request| request.purpose == Purpose::Summary).expect("one");
    let call = at as u64 + 1;
    for point in ["engine.model.before_send", "engine.model.after_reply"] {
        for pass in call - 1..=call + 1 {
            let world = World::new(talk).with_facts(FACTS);
            let dead = CrashPoint { point, pass };
            let recovering = CrashPoint { point: "engine.recover.after_fold", pass: 1 };
            let ended = dies_at(&world, world.spec(), &[dead, recovering]).await;
            assert_eq!(ended.status(), "completed", "{point} {pass}: {}", ended.text());
            assert_eq!(last_requests(&world), expected, "{point} {pass}");
            let summaries = |ended: &EndedRun| compactions(ended, "0").map(|e| e.turn).collect::<Vec<_>>();
            assert_eq!(summaries(&ended), summaries(&whole), "{point} {pass}");
            // The call that the death cut off is not repeated.
            let replayed = again(&world, world.spec(), &ended).await;
            assert_eq!(
                (replayed.status(), requests(&replayed)),
                ("completed", requests(&ended)),
                "{point} {pass}"
            );
        }
    }
    for pass in 2 * call - 2..=2 * call + 4 {
        for point in ["engine.commit.before", "engine.commit.after"] {
            let world = World::new(talk).with_facts(FACTS);
            let ended = dies_at(&world, world.spec(), &[CrashPoint { point, pass }]).await;
            assert_eq!(ended.status(), "completed", "{point} {pass}: {}", ended.text());
            assert_eq!(last_requests(&world), expected, "{point} {pass}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_summary_call_is_made_again_and_everything_is_charged() {
    let usage = |tokens| Usage { input_tokens: tokens, output_tokens: 1, ..Usage::ZERO };
    let world = World::new(move |request| match (request.purpose, request.call) {
        (Purpose::Summary, 1) => {
            let again = Retry { after: Duration::from_millis(100), limited: false };
            ScriptedAnswer::error(Some(529), "overloaded").retry(again)
        }
        (Purpose::Summary, _) => text(SUMMARY).usage(usage(70_000)),
        _ => talk(request).usage(usage(10)),
    })
    .with_facts(FACTS)
    .in_virtual_time();
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    let summaries = compactions(&ended, "0").count() as u64;
    assert_eq!(compactions(&ended, "0").next().and_then(|compacted| compacted.call), Some(2));
    let spent = ended.run.ledger.own(&ended.run.id.root()).expect("the root's").usage;
    assert_eq!(spent.input_tokens, 70_000 * summaries + 10 * (u64::from(TURNS) + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_that_the_budget_does_not_allow_ends_the_work_with_a_report() {
    let usage = |tokens| Usage { input_tokens: tokens, output_tokens: 1, ..Usage::ZERO };
    let world = World::new(move |request| match request.purpose {
        Purpose::Summary => text(SUMMARY),
        Purpose::Report => text("What I found."),
        // The calls are cheap until the conversation is too long.
        Purpose::Work => {
            long_turn(request.turn).usage(usage(if tokens_of(request) < 6_000 { 10 } else { 9_000 }))
        }
    })
    .with_facts(ModelFacts { context_tokens: 10_450, ..FACTS });
    let mut spec = world.spec();
    spec.budget.tokens = Some(18_000);
    let ended = world.run(spec.clone()).await;
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED"), "{}", ended.text());
    let last = world.asked_by("0").pop().expect("asked");
    assert_eq!((last.purpose, last.messages.len()), (Purpose::Report, 1), "the short report turn");
    assert_same(&ended, &again(&world, spec, &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_conversation_is_compacted_and_sent_once_more() {
    let world = World::new(|request| match (request.purpose, request.turn, request.call) {
        (Purpose::Work, 8, 1) => too_long(),
        (Purpose::Work, 9.., _) => text("done"),
        _ => talk(request),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    let asked: Vec<_> = world.asked_by("0").iter().skip(7).map(ModelRequest::place).collect();
    let calls: Vec<_> = asked.iter().map(|place| (place.turn, place.call, place.summary)).collect();
    assert_eq!(calls, [(8, 1, false), (8, 1, true), (8, 2, false), (9, 1, false)]);
    let compacted = compactions(&ended, "0").next().expect("compacted");
    assert!(compacted.tokens_after <= compacted.tokens_before / 2, "{compacted:?}");
    recorded_as_sent(&world, &ended);
    assert_same(&ended, &again(&world, world.spec(), &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_no_summary_can_be_written_the_host_writes_one() {
    let world = World::new(|request| match (request.purpose, request.turn, request.call) {
        (Purpose::Summary, ..) | (Purpose::Work, 8, 1) => too_long(),
        (Purpose::Work, 9.., _) => text("done"),
        _ => talk(request),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    let compacted = compactions(&ended, "0").next().expect("compacted");
    assert_eq!(compacted.call, None);
    let summaries: Vec<u64> =
        world.asked_by("0").iter().filter(|r| r.place().summary).map(tokens_of).collect();
    assert!(summaries.len() == 2 && summaries[1] < summaries[0] * 2 / 3, "{summaries:?}");
    let last = world.asked_by("0").pop().expect("asked");
    assert!(said(&last.messages[1]).contains("The model wrote no summary."), "{}", said(&last.messages[1]));
    recorded_as_sent(&world, &ended);
    assert_same(&ended, &again(&world, world.spec(), &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_calls_tools_instead_of_a_summary_is_no_summary() {
    let world = World::new(|request| match request.purpose {
        Purpose::Summary => text("").call("strike", json!({})),
        _ => talk(request),
    })
    .with_facts(FACTS);
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    assert_eq!(ended.results("0").len(), TURNS as usize, "nothing but the probes ran");
    let compacted = compactions(&ended, "0").next().expect("compacted");
    assert!(compacted.summary.to_shared().starts_with("The model wrote no summary."));
    assert_same(&ended, &again(&world, world.spec(), &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_names_the_result_that_is_too_long() {
    let world = World::new(|request| match (request.purpose, request.turn) {
        (Purpose::Summary, _) => text(SUMMARY),
        (_, 1) => text("").call("probe", json!({"turn": 1})),
        (_, 2) => text("").call("probe", json!({"turn": 2, "pad": "x".repeat(9_000)})),
        _ => too_long(),
    });
    let ended = world.run(world.spec()).await;
    let error = ended.text();
    assert!(
        error.starts_with(
            "CONTEXT_OVERFLOW: prompt is too long; even the newest turn does not fit into the model's context: the \
             result of `probe` (call "
        ) && error.ends_with(" bytes"),
        "{error}"
    );
    assert_same(&ended, &again(&world, world.spec(), &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn children_share_and_continue_a_compacted_conversation() {
    let world = World::new(|request| match (request.purpose, request.agent.relative(), request.turn) {
        (Purpose::Summary, ..) => text(SUMMARY),
        (_, "0", 10) => {
            let mut input = child("scout", "Look too.");
            input["share_history"] = json!(true);
            text("").call("task", input)
        }
        (_, "0", 11) => {
            let mut input = child("scout", "Look again.");
            input["task_id"] = json!("1");
            text("").call("task", input)
        }
        (_, "0", turn @ 1..=9) | (_, "1", turn @ 1..=8) => long_turn(turn),
        _ => text("done"),
    })
    .with_facts(FACTS);
    let spec = || {
        let mut spec = world.spec();
        spec.may_share_history = true;
        spec
    };
    let ended = world.run(spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    assert!(compactions(&ended, "0").count() >= 1 && compactions(&ended, "1").count() >= 1);
    let of_parent =
        world.asked_by("0").into_iter().find(|request| request.turn == 10 && !request.place().summary);
    let of_parent = of_parent.expect("asked");
    let of_child = &world.asked_by("1")[0];
    let shared = of_parent.messages.len().min(of_child.messages.len() - 1);
    assert_eq!(of_child.messages[..shared], of_parent.messages[..shared]);
    let last = world.asked_by("1").pop().expect("asked");
    let continued = &world.asked_by("2")[0];
    assert_eq!(continued.messages[..last.messages.len()], last.messages[..]);
    recorded_as_sent(&world, &ended);
    assert_same(&ended, &again(&world, spec(), &ended).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_no_longer_than_a_reply_is_used_as_well() {
    let facts = ModelFacts { context_tokens: 9_000, max_output_tokens: 9_000, ..DEFAULT_FACTS };
    let world = World::new(talk).with_facts(facts);
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    assert!(compactions(&ended, "0").count() > 0);
    for request in world.asked_by("0") {
        assert!(tokens_of(&request) + request.max_output_tokens <= facts.context_tokens);
    }
}
