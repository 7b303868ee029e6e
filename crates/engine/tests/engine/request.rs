//! The request of a run: every field reaches the journal and comes back, also from a journal of an older version.

use std::collections::BTreeSet;

use posse_domain::budget::Budget;
use posse_domain::event::{CatalogueText, EventBody};
use posse_domain::permission::{Decision, OnAsk, Rule, Rules};
use posse_domain::plan::{Author, IntegrationOrder, OnFailure, Plan, Step, UnownedWriters};
use posse_domain::skill::DiscoveredDefinitions;
use posse_engine::ports::{Commit, Store as _};
use posse_engine::{Continuation, GivenBaseUrl, Recording, RunRequest, RunTerms};
use posse_models::scripted::ScriptedAnswer;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::crash::dies_at;
use crate::power::CrashPoint;
use crate::replaying::again;
use crate::skills::skill;
use crate::world::{EndedRun, World, child};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn rules(pattern: &str) -> Rules {
    vec![Rule { pattern: pattern.parse().expect("a pattern"), decision: Decision::Deny }].into()
}

/// A request in which every field has a value other than the default. A new field must be added here.
fn full(world: &World) -> RunRequest {
    let RunRequest { definition, model, dir, definitions, .. } = world.spec();
    let discovered =
        DiscoveredDefinitions { skills: vec![skill("deep")], ..DiscoveredDefinitions::default() };
    RunRequest {
        text: "Do this.".into(),
        definition,
        model,
        dir,
        session_id: Some("session".to_owned()),
        prompt: Some("Do exactly this.".into()),
        definitions: [definitions, vec![crate::world::definition("general", &["probe"], &[])]].concat(),
        catalogue: CatalogueText::of(discovered),
        agents_md: Some("Be brief.".into()),
        max_depth: 1,
        budget: Budget { agents: Some(9), tokens: Some(9_000_000), wall_ms: Some(90_000_000), usd: None },
        idle_timeout_ms: 77_000,
        may_share_history: true,
        on_ask: OnAsk::Escalate,
        terms: RunTerms {
            base_turns: Some(33),
            parallel: 3,
            close_on_completion: false,
            operator_rules: rules("bash:a"),
            run_rules: rules("bash:b"),
            approvals: std::iter::once("bash:c".parse().expect("a pattern")).collect(),
            unowned_writers: UnownedWriters::Parallel,
            base_url: Some(GivenBaseUrl { provider: "p".to_owned(), url: "http://localhost".to_owned() }),
            project_rules: std::iter::once(rules("bash:d")).collect(),
            skill: Some("deep".to_owned()),
            loaded_skill: Some("deep".to_owned()),
            include_sub_agent_events: true,
            recorded_model: Some("recorded/model".to_owned()),
        },
        plan: None,
        continues: Some(Continuation {
            agent: "k3f9ab2c.1".parse().expect("an agent"),
            conversation: Some(r#"[{"User": "earlier"}]"#.into()),
            files: None,
            is_retry: true,
        }),
    }
}

/// The same request with a plan instead of the skills.
fn planned(world: &World) -> RunRequest {
    let step = Step {
        title: "Look".to_owned(),
        description: "Look at it.".to_owned(),
        agent: "scout".to_owned(),
        ..Step::default()
    };
    let plan = Plan {
        goal: "All is seen.".to_owned(),
        on_failure: OnFailure::Stop,
        integration: IntegrationOrder::AsFinished,
        unowned_writers: UnownedWriters::Parallel,
        steps: vec![step],
        author: Author::Person,
    };
    let request = full(world);
    let terms = RunTerms { skill: None, loaded_skill: None, ..request.terms.clone() };
    RunRequest { plan: Some(plan), terms, ..request }
}

/// The paths at which two values are equal, below keys that both have.
fn common(one: &Value, other: &Value, path: &str, same: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                if let Some(other) = other.get(key) {
                    common(value, other, &format!("{path}/{key}"), same);
                }
            }
        }
        _ if one == other => same.push(path.to_owned()),
        _ => {}
    }
}

#[tokio::test]
async fn the_full_request_differs_from_the_usual_one_everywhere() {
    let world = World::new(|_| text("done"));
    let usual = serde_json::to_value(RunRequest::new("")).expect("JSON");
    let mut same = Vec::new();
    common(&serde_json::to_value(full(&world)).expect("JSON"), &usual, "", &mut same);
    assert_eq!(same, ["/budget/usd"], "no model of this world has a price");
}

/// The names of all fields of a type in JSON, also of those that are omitted for their default: the error for a field
/// that the type does not have lists them.
fn fields<T: DeserializeOwned>() -> BTreeSet<String> {
    let error = serde_json::from_value::<T>(json!({"sudo": true})).err().expect("it has no such field");
    error
        .to_string()
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| *name != "sudo")
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn no_field_of_the_full_request_is_omitted_for_its_default() {
    let world = World::new(|_| text("done"));
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    let full = serde_json::to_value(full(&world)).expect("JSON");
    assert_eq!(keys(&full["terms"]), fields::<RunTerms>());
    let planned = serde_json::to_value(planned(&world)).expect("JSON");
    assert_eq!(&keys(&full) | &keys(&planned), fields::<RunRequest>(), "only a plan is in one of them alone");
}

/// The request as the journal has it.
fn journalled(ended: &EndedRun) -> RunRequest {
    Recording::new(ended.events.clone()).expect("a recording").run_request()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_request_reaches_the_journal_and_comes_back() {
    let world = World::new(|_| text("done"));
    for request in [full(&world), planned(&world)] {
        let json = serde_json::to_string(&request).expect("JSON");
        let handed_over: RunRequest = serde_json::from_str(&json).expect("read by another process");
        assert_eq!(handed_over, request);
        let ended = world.run(handed_over).await;
        assert_eq!(ended.status(), "completed", "{}", ended.text());
        assert_eq!(journalled(&ended), request);
        let second = again(&world, journalled(&ended), &ended).await;
        assert_eq!(journalled(&second), request, "a replay is asked for the same");
    }
}

/// Writes `run.started` like older versions, in which only the root's contract contained parts of the request.
fn as_before(commit: &mut Commit) {
    for event in commit.events.iter_mut().filter(|event| event.kind == "run.started") {
        let mut fields: Value = serde_json::from_str(&event.payload).expect("JSON");
        let all = fields.as_object_mut().expect("an object");
        let added = ["definition", "model", "prompt", "max_depth", "budget", "idle_timeout_ms", "on_ask"];
        added.into_iter().chain(["may_share_history"]).for_each(|field| drop(all.remove(field)));
        event.payload = fields.to_string();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_of_before_is_read_verified_resumed_and_replayed() {
    let world = World::new(|request| match (&*request.definition, request.turn) {
        ("boss", 1) => text("").call("task", child("scout", "look")),
        ("scout", 1) => text("").call("probe", json!({"on": "x"})),
        _ => text("done"),
    })
    .rewriting(as_before);
    let full = full(&world);
    let terms = RunTerms { skill: None, loaded_skill: None, close_on_completion: true, ..full.terms };
    let request = RunRequest { terms, ..full };
    // The end of the run is verified, and the durable events from before the crash are still there.
    let death = CrashPoint { point: "engine.model.before_send", pass: 3 };
    let ended = dies_at(&world, request.clone(), &[death]).await;
    assert_eq!(ended.status(), "completed", "{}", ended.text());
    assert!(ended.events.iter().any(|event| matches!(event.body, EventBody::RunResumed(_))));
    let first = world.store().read(&world.key(&ended.run.id), 0, 1).await.expect("read").remove(0);
    let fields: Value = serde_json::from_str(&first.payload).expect("JSON");
    assert_eq!((fields.get("model"), fields.get("prompt")), (None, None), "it is of before");
    assert_eq!(journalled(&ended), request);
    let second = again(&world, journalled(&ended), &ended).await;
    assert_eq!((second.status(), second.text()), (ended.status(), ended.text()));
}
