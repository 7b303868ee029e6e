//! Reads a `run.started` of an older format, in which only the root's contract has some parts of the request.

use posse_domain::budget::Budget;
use posse_domain::event::{Event, EventBody, RunStarted, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::Run;
use posse_domain::permission::OnAsk;
use posse_domain::request::RunRequest;
use serde_json::Value;

/// The first event of a real run's journal, and the definitions it had discovered.
const OLD: &str = include_str!("fixtures/run_started_before_request.json");

fn old() -> (StoredEvent, String) {
    let fixture: Value = serde_json::from_str(OLD).expect("JSON");
    let text = |name: &str| fixture[name].as_str().expect(name).to_owned();
    let stored = StoredEvent {
        seq: fixture["seq"].as_u64().expect("a number"),
        agent: text("agent").parse().expect("an id"),
        kind: text("kind").into(),
        at_ms: fixture["at_ms"].as_i64().expect("a time"),
        version: 1,
        payload: text("payload"),
        hash: text("hash").parse().expect("a hash"),
    };
    (stored, text("catalogue"))
}

fn decoded(stored: &StoredEvent, catalogue: &str) -> Event {
    let mut event = Event::decode(stored).expect("decoded");
    event.body.fill(&mut |_| Some(catalogue.to_owned())).expect("filled");
    event
}

fn started(event: &Event) -> &RunStarted {
    let EventBody::RunStarted(started) = &event.body else { panic!("{event:?}") };
    started
}

#[test]
fn an_old_beginning_is_read_with_the_whole_request() {
    let (stored, catalogue) = old();
    let event = decoded(&stored, &catalogue);
    let RunStarted { request, contract, contract_hash, base } = started(&event);
    assert_eq!(contract.hash(), *contract_hash, "the contract is what it was");
    assert!(base.is_some());
    assert_eq!(request.text, "/notes take these".into());
    assert_eq!(request.definition, "general");
    assert_eq!(request.model, "scripted//tmp/posse-fixture/script.yaml");
    assert_eq!(request.dir, "/tmp/posse-fixture/project");
    assert_eq!(request.prompt, Some(contract.step.description.as_str().into()));
    assert_eq!(request.agents_md, Some("Write short sentences.\n".into()));
    assert_eq!(request.max_depth, 3);
    let budget = Budget { tokens: Some(900_000), usd: None, agents: Some(200), wall_ms: Some(7_200_000) };
    assert_eq!(request.budget, budget);
    assert_eq!(request.idle_timeout_ms, 120_000);
    assert!(request.may_share_history);
    assert_eq!(request.on_ask, OnAsk::Escalate);
    assert_eq!((request.terms.base_turns, request.terms.parallel), (Some(25), 8));
    assert_eq!(request.terms.loaded_skill.as_deref(), Some("notes"));
    assert!(request.terms.include_sub_agent_events);
    assert_eq!(request.discovered().expect("read").skills[0].name, "notes");
    let run = Run::begin(&event).expect("it begins");
    assert_eq!((run.terms, run.dir), (request.terms.clone(), request.dir.clone()));
}

#[test]
fn its_hash_is_still_that_of_the_chain() {
    let (stored, _) = old();
    let run = stored.agent.run();
    assert_eq!(stored.expected_hash(&Hash::ZERO, "local", &run), stored.hash);
    let altered = StoredEvent { at_ms: stored.at_ms + 1, ..stored.clone() };
    assert_ne!(altered.expected_hash(&Hash::ZERO, "local", &run), stored.hash);
}

#[test]
fn what_is_written_now_has_all_that_was_written_then() {
    let (stored, catalogue) = old();
    let event = decoded(&stored, &catalogue);
    let now = event.clone().encode(&mut Vec::new()).expect("encoded");
    let then: Value = serde_json::from_str(&stored.payload).expect("JSON");
    let mut written: Value = serde_json::from_str(&now.payload).expect("JSON");
    let fields = written.as_object_mut().expect("an object");
    for added in [
        "budget",
        "definition",
        "idle_timeout_ms",
        "max_depth",
        "may_share_history",
        "model",
        "on_ask",
        "prompt",
    ] {
        assert!(fields.remove(added).is_some(), "{added}");
    }
    assert_eq!(written, then);
}

#[test]
fn a_request_and_a_beginning_refuse_what_they_do_not_know() {
    let (stored, _) = old();
    let mut payload: Value = serde_json::from_str(&stored.payload).expect("JSON");
    payload["sudo"] = true.into();
    let wrong = StoredEvent { payload: payload.to_string(), ..stored };
    assert!(Event::decode(&wrong).expect_err("unknown").to_string().contains("unknown field `sudo`"));
    let mut request = serde_json::to_value(RunRequest::new("x")).expect("JSON");
    assert_eq!(serde_json::from_value::<RunRequest>(request.clone()).expect("read"), RunRequest::new("x"));
    request["sudo"] = true.into();
    let refused = serde_json::from_value::<RunRequest>(request).expect_err("unknown");
    assert!(refused.to_string().contains("unknown field `sudo`"), "{refused}");
}
