//! Children that begin with their parent's conversation, and children that must not see any of it, checked in the
//! requests to the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use posse_agent::conversation::Message;
use posse_domain::definition::Definition;
use posse_domain::event::EventBody;
use posse_engine::ports::{ModelFacts, ModelRequest};
use posse_engine::{Recording, RunRequest};
use posse_models::scripted::{DEFAULT_FACTS, ScriptedAnswer};
use serde_json::{Value, json};

use crate::crash::dies_at;
use crate::power::CrashPoint;
use crate::replaying::{again, assert_same};
use crate::world::{EndedRun, World, child};

/// Only the root, and the agents that it shares its conversation with, may ever read this.
const CANARY: &str = "the canary sings at dawn";

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn shared(definition: &str, prompt: &str) -> Value {
    let mut input = child(definition, prompt);
    input["share_history"] = json!(true);
    input
}

fn in_background(mut input: Value) -> Value {
    input["run_in_background"] = json!(true);
    input
}

/// A run whose root may share, whose request is the canary, and whose leads may share if `may_share_history` is set.
fn spec(world: &World, may_share_history: bool) -> RunRequest {
    let definitions = world.spec().definitions.into_iter();
    let definitions =
        definitions.map(|known| Definition { may_share_history: known.name == "lead", ..known }).collect();
    RunRequest { text: CANARY.into(), may_share_history, max_depth: 3, definitions, ..world.spec() }
}

fn first_of(world: &World, agent: &str) -> ModelRequest {
    world.asked_by(agent).into_iter().next().expect("asked")
}

fn user_text(message: &Message) -> &str {
    match message {
        Message::User(text) => text,
        other => panic!("{other:?}"),
    }
}

/// Asserts that the child's request begins with the parent's, byte for byte, and returns the rest.
fn after_prefix<'a>(of_parent: &ModelRequest, of_child: &'a ModelRequest) -> &'a [Arc<Message>] {
    assert_eq!(of_child.system, of_parent.system);
    let tools = |request: &ModelRequest| serde_json::to_string(&request.tools).expect("JSON");
    assert_eq!(tools(of_child), tools(of_parent));
    let bytes = |messages: &[Arc<Message>]| serde_json::to_string(messages).expect("JSON");
    let (prefix, rest) = of_child.messages.split_at(of_parent.messages.len());
    assert_eq!(bytes(prefix), bytes(&of_parent.messages));
    rest
}

/// All texts of a request as one text.
fn said(request: &ModelRequest) -> String {
    let messages = serde_json::to_string(&request.messages).expect("JSON");
    format!("{}\n{}\n{messages}", request.system, serde_json::to_string(&request.tools).expect("JSON"))
}

fn scout_that_is_told_all() -> World {
    World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("I look.").call("probe", json!({})),
        ("0", 2) => {
            let mut input = shared("scout", "Find the door.");
            input["success_criteria"] = json!(["the door is found"]);
            input["context"] = json!("It is green.");
            text("I delegate.").call("task", input)
        }
        ("1", 1) => {
            text("").call("strike", json!({})).call("probe", json!({})).call("task", child("scout", "x"))
        }
        ("1", 2) => text("found it"),
        ("1", 3) => text("found it\n\nCriterion 1: met, it is green"),
        _ => text("done"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_shares_begins_with_its_parents_request_and_then_reads_its_contract() {
    let world = scout_that_is_told_all();
    let ended = world.run(spec(&world, true)).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    let of_parent = &world.asked_by("0")[1];
    assert!(said(of_parent).contains(CANARY));
    let first = first_of(&world, "1");
    let rest = after_prefix(of_parent, &first);
    assert_eq!(rest.len(), 1, "one message of ours");
    let told = user_text(&rest[0]);
    assert!(
        told.starts_with("Everything above is the conversation of the agent that delegates work to you"),
        "{told}"
    );
    for part in [
        "You are a scout.",
        "You are a sub-agent (scout) at depth 1. Agent `0` gave you the work",
        "Tools: `ask_net`, `boom`, `list`, `probe`, `read`. Calls to any other are refused, also to those that are offered",
        "you cannot spawn any",
        "1. the door is found",
    ] {
        assert!(told.contains(part), "{part} is not in: {told}");
    }
    assert!(told.ends_with("# Your assignment\n\nFind the door.\n\n## Context\n\nIt is green."), "{told}");
    for request in world.asked_by("1") {
        after_prefix(of_parent, &request);
    }
    let EventBody::SubagentCreated(created) = &ended.of("1").next().expect("created").body else {
        panic!("created")
    };
    assert!(created.contract.execution.share_history);
    assert_eq!(created.contract.parent.message_id.as_deref(), Some("m2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_outside_the_grant_are_refused_though_the_parents_tools_are_offered() {
    let world = scout_that_is_told_all();
    let ended = world.run(spec(&world, true)).await;
    let offered = first_of(&world, "1").tools.iter().any(|tool| tool.name == "strike");
    assert!(offered, "the list is the parent's");
    let results = ended.results("1");
    let of = |tool: &str| {
        let found = results.iter().find(|(name, ..)| name == tool).expect("a result");
        (found.1, found.2.split([':', ' ']).next().unwrap_or_default())
    };
    assert_eq!(of("strike"), (false, "PERMISSION_DENIED"));
    assert_eq!(of("task"), (false, "SPAWN_NOT_ALLOWED"));
    assert_eq!(of("probe"), (true, "probe"));
    assert!(!world.outside.all().iter().any(|(tool, ..)| tool == "strike"), "nothing was struck");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_grant_it_is_refused_and_nothing_reaches_a_child() {
    let world = scout_that_is_told_all();
    let ended = world.run(spec(&world, false)).await;
    let results = ended.results("0");
    let (_, ok, refusal) = &results[1];
    assert!(!ok && refusal.starts_with("PERMISSION_DENIED: "), "{refusal}");
    assert!(
        refusal.contains("(`may_share_history`)") && refusal.contains("(`agent.may_share_history`)"),
        "{refusal}"
    );
    assert_eq!(world.asked_by_depth(1), 0, "no child was made");
    assert_eq!(ended.run.agent_count(), 1);
}

/// The grant alone shares nothing: the call must request it.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_does_not_share_reads_nothing_of_its_parents_conversation() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("I know a secret: 4711.").call("read", json!({"path": "secret.txt"})),
        ("0", 2) => text("").call("task", child("lead", "Find the door.")),
        ("1", 1) => text("").call("task", child("scout", "Look.")),
        _ => text("done"),
    });
    std::fs::write(world.dir.path().join("secret.txt"), "the nest is in the oak").expect("written");
    let ended = world.run(spec(&world, true)).await;
    assert!(said(&world.asked_by("0")[1]).contains("the nest is in the oak"), "{:?}", ended.results("0"));
    for agent in ["1", "1.1"] {
        for request in world.asked_by(agent) {
            let said = said(&request);
            for canary in [CANARY, "4711", "the nest is in the oak"] {
                assert!(!said.contains(canary), "{agent}: {said}");
            }
        }
        assert!(!world.asked_by(agent).is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sharing_and_continuing_exclude_each_other() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("").call("task", child("scout", "Look.")),
        ("0", 2) => {
            let mut both = shared("scout", "Go on.");
            both["task_id"] = json!("1");
            text("").call("task", both)
        }
        _ => text("done"),
    });
    let ended = world.run(spec(&world, true)).await;
    let (_, ok, refusal) = &ended.results("0")[1];
    assert!(!ok && refusal.starts_with("INVALID_INPUT: "), "{refusal}");
    assert!(refusal.contains("`share_history` and `task_id` exclude each other"), "{refusal}");
}

/// A background lead, which shares the conversation that was shared with it and fails once, beside a scout. The root
/// continues.
fn family() -> World {
    World::new(|request| match (request.agent.relative(), request.attempt, request.turn) {
        ("0", _, 1) => text("I look.").call("probe", json!({})),
        ("0", _, 2) => text("I delegate.")
            .call("task", in_background(shared("lead", "Lead.")))
            .call("task", shared("scout", "Scout.")),
        ("0", _, 3) => text("And on.").call("probe", json!({})),
        ("1", 1, 1) => text("I look too.").call("probe", json!({})),
        ("1", 1, 2) => text("I delegate too.").call("task", shared("scout", "Scout below.")),
        ("1", 1, 3) => ScriptedAnswer::error(None, "broken"),
        ("2" | "1.1", _, 1) => text("").call("probe", json!({})),
        _ => text("done"),
    })
}

type AgentTurn = (String, u32, u32);

/// The requests of each child's calls. A repeated call must make the same request.
fn asked_of_children(world: &World) -> BTreeMap<AgentTurn, String> {
    let mut by_place: BTreeMap<AgentTurn, String> = BTreeMap::new();
    for request in &*world.asked.lock().expect("no panic while it is held") {
        if request.depth > 0 {
            let place = (request.agent.relative().to_owned(), request.attempt, request.turn);
            let said = format!("{}\n{}", request.hash, said(request));
            let known = by_place.entry(place.clone()).or_insert_with(|| said.clone());
            assert_eq!(*known, said, "{place:?}");
        }
    }
    by_place
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_shared_can_be_shared_on_where_the_definition_says_so() {
    let world = family();
    let ended = world.run(spec(&world, true)).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    let of_root = &world.asked_by("0")[1];
    assert_eq!(after_prefix(of_root, &first_of(&world, "1")).len(), 1);
    assert_eq!(after_prefix(of_root, &first_of(&world, "2")).len(), 1);
    let of_lead = &world.asked_by("1")[1];
    let below = first_of(&world, "1.1");
    let rest = after_prefix(of_lead, &below);
    assert!(user_text(&rest[0]).contains("Agent `1` gave you the work"));
    assert!(
        user_text(&of_lead.messages[of_root.messages.len()])
            .contains("Agents that you may spawn: `lead`, `scout`")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_attempt_begins_with_the_same_conversation() {
    let world = family();
    world.run(spec(&world, true)).await;
    let (first, retried) = (first_of(&world, "1"), world.asked_by("1").pop().expect("asked"));
    assert_eq!((retried.attempt, retried.turn), (2, 1));
    let rest = after_prefix(&first, &retried);
    assert_eq!(rest.len(), 1, "one paragraph on why the last attempt ended");
    assert!(user_text(&rest[0]).contains("ended: broken"), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_death_at_any_point_the_same_requests_are_made() {
    let world = family();
    world.run(spec(&world, true)).await;
    let expected = asked_of_children(&world);
    assert_eq!(expected.len(), 8, "{:?}", expected.keys());
    let points = [
        "engine.commit.before",
        "engine.commit.after",
        "engine.model.before_send",
        "engine.model.after_reply",
        "engine.read.after_run",
    ];
    for point in points {
        for pass in 1..=10 {
            let world = family();
            let again = CrashPoint { point: "engine.recover.after_fold", pass: 1 };
            let ended = dies_at(&world, spec(&world, true), &[CrashPoint { point, pass }, again]).await;
            assert_eq!(ended.status(), "completed", "{point} {pass}: {}", ended.text());
            assert_eq!(asked_of_children(&world), expected, "{point} {pass}");
        }
    }
}

/// The parent omits old outputs from its conversation. The child gets the same conversation as the parent's model.
#[tokio::test(flavor = "multi_thread")]
async fn a_trimmed_conversation_is_shared_as_it_was_sent() {
    // Outputs are large, so that omitting one makes room for the child's prompt.
    let look = |turn: u32| text("").call("probe", json!({"turn": turn, "pad": "x".repeat(8_000)}));
    let make = move || {
        World::new(move |request| match (request.agent.relative(), request.turn) {
            ("0", 5) => text("").call("task", in_background(shared("scout", "Look."))),
            ("0", turn @ 1..=6) => look(turn),
            ("1", 1) => text("").call("probe", json!({})),
            _ => text("done"),
        })
        .with_facts(ModelFacts { context_tokens: 20_000, max_output_tokens: 500, ..DEFAULT_FACTS })
    };
    let world = make();
    let ended = world.run(spec(&world, true)).await;
    let of_parent = &world.asked_by("0")[4];
    assert!(said(of_parent).contains("output left out"), "{:?}", ended.kinds("0"));
    assert_eq!(after_prefix(of_parent, &first_of(&world, "1")).len(), 1);
    let expected = asked_of_children(&world);
    for pass in 4..=18 {
        let world = make();
        dies_at(&world, spec(&world, true), &[CrashPoint { point: "engine.commit.before", pass }]).await;
        assert_eq!(asked_of_children(&world), expected, "{pass}");
    }
}

/// A closed child that had shared is continued. Its whole conversation is read from the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_shared_can_be_continued() {
    let world = World::new(|request| match (request.agent.relative(), request.turn) {
        ("0", 1) => text("I look.").call("probe", json!({})),
        ("0", 2) => text("").call("task", shared("scout", "Look.")),
        ("0", 3) => {
            let mut input = child("scout", "Look again.");
            input["task_id"] = json!("1");
            text("").call("task", input)
        }
        ("1", 1) => text("").call("probe", json!({})),
        _ => text("done"),
    });
    let ended = world.run(spec(&world, true)).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    let before = world.asked_by("1").pop().expect("asked");
    let continued = first_of(&world, "2");
    assert_eq!(continued.messages[..before.messages.len()], before.messages[..]);
    assert_eq!(continued.messages.len(), before.messages.len() + 2, "its report, and the new assignment");
    assert_ne!(continued.system, before.system, "a system prompt of its own");
    recorded_as_sent(&world, &ended);
}

/// The requests that are folded from the journal equal the requests that were made.
fn recorded_as_sent(world: &World, ended: &EndedRun) {
    let recording = Recording::new(ended.events.clone()).expect("a recording");
    for request in &*world.asked.lock().expect("no panic while it is held") {
        let (agent, place) = (request.agent.relative(), request.place());
        let call = recording.call(agent, place).expect("recorded");
        let recorded = recording.request(agent, call);
        assert_eq!(recorded.messages, request.messages, "{agent} {place:?}");
        assert_eq!(recorded.system.as_deref(), Some(&*request.system), "{agent} {place:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_shares_is_replayed_request_by_request() {
    let world = scout_that_is_told_all();
    let first = world.run(spec(&world, true)).await;
    recorded_as_sent(&world, &first);
    assert_same(&first, &again(&world, spec(&world, true), &first).await);
    let world = family();
    let first = world.run(spec(&world, true)).await;
    recorded_as_sent(&world, &first);
    let second = again(&world, spec(&world, true), &first).await;
    assert_eq!(crate::repeatable::requests(&first), crate::repeatable::requests(&second));
}
