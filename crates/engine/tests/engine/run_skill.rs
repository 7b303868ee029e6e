//! A run that consists of one forked skill: the root calls no model, and its only child does the work.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{CatalogueText, EventBody};
use posse_domain::permission::{Decision, Rule};
use posse_engine::{RequestField, RunRequest, TaskEvent, TaskState, TaskView};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::crash::survives_everywhere;
use crate::skills::{skill, spec, with_terms};
use crate::world::{EndedRun, World, is_error, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn one(world: &World, name: &str) -> RunRequest {
    with_terms(spec(world, [skill("deep"), skill("leaf")]), |terms| terms.skill = Some(name.to_owned()))
}

/// The task events of the run's root.
fn task(ended: &EndedRun) -> Vec<TaskEvent> {
    let mut view = TaskView::new(ended.run.id.root());
    ended.events.iter().flat_map(|event| view.push(&event.agent, &event.body)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_forked_skill_makes_no_model_call_at_its_root_and_ends_with_the_summary() {
    let long = "word ".repeat(200);
    let report = long.clone();
    let world = World::new(move |_| text(&report));
    let ended = world.run(one(&world, "Deep")).await;
    assert_eq!(ended.status(), "completed");
    assert_eq!((world.asked_by_depth(0), world.asked_by_depth(1)), (0, 1));
    let child = ended.run.id.root().child(1);
    let first: String = long.chars().take(500).collect();
    let summary = format!("Sub-agent completed: {first}... (truncated)");
    assert_eq!(ended.text(), format!("{summary}\n\nFull trace: {child}"));
    assert_eq!(newest(&world.asked_by("1")[0]), "Do it.");
    assert_eq!(
        task(&ended)[1..],
        [
            TaskEvent::Status {
                state: TaskState::Running,
                message: "Spawning sub-agent for skill: deep".to_owned()
            },
            TaskEvent::Message { parts: vec![summary, format!("Full trace: {child}")] },
            TaskEvent::Done { final_state: TaskState::Completed },
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_skill_that_fails_fails_with_its_code() {
    let world = World::new(|_| ScriptedAnswer::error(None, "the model broke"));
    let ended = world.run(one(&world, "deep")).await;
    assert_eq!(ended.status(), "failed");
    assert_eq!(ended.text(), "MODEL_ERROR: required sub-agent 1 failed: the model broke");
    let child = ended.run.id.root().child(1);
    let events = task(&ended);
    let failed = format!("required sub-agent 1 failed: {}", "the model broke");
    assert_eq!(
        events[2..],
        [
            TaskEvent::Message {
                parts: vec!["Failed: the model broke".to_owned(), format!("Full trace: {child}")]
            },
            TaskEvent::Error { error_code: Code::ModelError, error_message: failed },
            TaskEvent::Done { final_state: TaskState::Failed },
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_skill_beyond_the_depth_is_refused_with_that_code() {
    let world = World::new(|_| text("never"));
    let ended = world.run(RunRequest { max_depth: 0, ..one(&world, "deep") }).await;
    assert_eq!(ended.run.agent_count(), 1);
    let reason = "maximum depth 0 reached: an agent at depth 0 cannot spawn";
    assert_eq!(ended.text(), format!("MAX_DEPTH_EXCEEDED: {reason}"));
    assert!(ended.kinds("0").contains(&"subagent_refused"));
    assert_eq!(
        task(&ended)[1..],
        [
            TaskEvent::Error { error_code: Code::MaxDepthExceeded, error_message: reason.to_owned() },
            TaskEvent::Done { final_state: TaskState::Failed },
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_that_denies_a_skill_binds_a_run_of_it_too() {
    let world = World::new(|_| text("never"));
    let rule = Rule { pattern: "skill:deep".parse().expect("pattern"), decision: Decision::Deny };
    let denied = with_terms(one(&world, "deep"), |terms| terms.operator_rules = vec![rule].into());
    let process = world.process();
    let called = with_terms(denied.clone(), |terms| {
        (terms.skill, terms.loaded_skill) = (None, Some("Deep".to_owned()));
    });
    for spec in [denied, called] {
        assert!(is_error(&process.runtime.start(spec).await, RequestField::Skill));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_skill_that_is_not_there_does_not_start() {
    let world = World::new(|_| text("never"));
    let process = world.process();
    assert!(is_error(&process.runtime.start(one(&world, "dep")).await, RequestField::Skill));
}

#[tokio::test(flavor = "multi_thread")]
async fn below_a_run_of_a_skill_its_sub_agents_delegate_on() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (1, 1) => text("").call("delegate_to_agent", json!({"skill_name": "leaf", "task": "Go."})),
        (1, _) => text(&format!("Heard {}", newest(request))),
        _ => text("leaf"),
    });
    let ended = world.run(one(&world, "deep")).await;
    let heard = r#"Heard {"status":"ok","skill":"leaf","result":"leaf","depth":2}"#;
    assert!(ended.text().contains(heard), "{}", ended.text());
}

/// A task shows the events of sub-agents only if `include_sub_agent_events` is set for the run or the skill.
#[tokio::test(flavor = "multi_thread")]
async fn the_events_of_sub_agents_are_told_with_whose_they_are_if_that_is_asked_for() {
    for (by_run, by_skill) in [(false, false), (true, false), (false, true)] {
        let world = World::new(|_| text("found"));
        let mut spec = with_terms(one(&world, "deep"), |terms| terms.include_sub_agent_events = by_run);
        let mut catalogue = Arc::unwrap_or_clone(spec.discovered().expect("here"));
        catalogue.skills[0].include_sub_agent_events = by_skill;
        spec.catalogue = CatalogueText::of(catalogue);
        let ended = world.run(spec).await;
        let child = ended.run.id.root().child(1);
        let told: Vec<_> = task(&ended)
            .into_iter()
            .filter_map(|event| match event {
                TaskEvent::SubAgent { agent_id, event } => Some((agent_id, *event)),
                _ => None,
            })
            .collect();
        assert_eq!(told.is_empty(), !by_run && !by_skill, "{told:?}");
        if !told.is_empty() {
            assert!(told.iter().all(|(agent, _)| *agent == child));
            let said = TaskEvent::Message { parts: vec!["found".to_owned()] };
            assert!(told.iter().any(|(_, event)| *event == said), "{told:?}");
            let done = TaskEvent::Done { final_state: TaskState::Completed };
            assert_eq!(told.last().map(|(_, event)| event), Some(&done));
        }
    }
}

/// The run dies at every fault point, and again after the resume. The result is the same, and no finished call is
/// repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_a_skill_survives_a_crash_at_any_moment() {
    let world = || {
        World::new(|request| match (request.depth, request.turn) {
            (1, 1) => text("").call("probe", json!({"name": "x"})),
            (1, 2) => text("").call("delegate_to_agent", json!({"skill_name": "leaf", "task": "Go."})),
            (1, _) => text("whole"),
            _ => text("leaf"),
        })
    };
    let ends_well = |ended: &EndedRun, _: &World, what: &str| {
        assert_eq!(ended.status(), "completed", "{what}: {}", ended.text());
        assert!(
            ended.text().starts_with("Sub-agent completed: whole\n\nFull trace: "),
            "{what}: {}",
            ended.text()
        );
        assert!(!ended.of("0").any(|event| matches!(event.body, EventBody::ModelCalled(_))), "{what}");
        assert_eq!(ended.run.agent_count(), 3, "{what}");
    };
    let deaths = survives_everywhere(world, |world| one(world, "deep"), ends_well).await;
    assert!(deaths > 20, "{deaths} deaths");
}
