//! Spawning: rights, depth, the child's contract, and refusals.

use super::fixture::{PlayedRun, class_of, definition, definitions, id, request, started};
use crate::budget::{Budget, DEFAULT_MAX_DEPTH};
use crate::code::Code;
use crate::contract::{CommandCriterion, Criterion};
use crate::definition::Definition;
use crate::event::EventBody;
use crate::id::AgentId;
use crate::lifecycle::{
    AgentState, Attempt, Cancel, CommandRefused, FailKind, OpenState, RunEnd, SpawnFrom, SpawnRequest,
};

fn refusal(played: &mut PlayedRun, parent: &str, request: &SpawnRequest) -> (Code, String) {
    let before = played.run.open(&id(parent)).map(|agent| agent.children);
    let refusal = played.try_spawn(&id(parent), request).expect_err("refused");
    assert_eq!(played.run.open(&id(parent)).map(|agent| agent.children), before, "a refusal uses no number");
    (refusal.code, refusal.reason)
}

/// The refusal of a child, without its event, which not every parent may have.
fn refusal_of_spawn(played: &PlayedRun, parent: &AgentId) -> (Code, String) {
    let from = SpawnFrom { parent, call_id: "c", message_id: Some("m"), step: None };
    let refusal = played.run.spawn(from, &request("scout"), &class_of).expect_err("refused");
    (refusal.code, refusal.reason)
}

#[test]
fn a_child_begins_as_created_with_its_parent_and_the_depth_of_its_caller() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let child = played.spawn("0", "lead");
    assert_eq!(child, id("1"));
    let agent = played.run.open(&child).expect("open");
    assert_eq!(agent.state, OpenState::Created { queued: false });
    assert_eq!(agent.state.name(), AgentState::Created);
    let context = &agent.contract.context;
    assert_eq!((context.depth, context.max_depth), (1, 2));
    assert_eq!(context.parent_task_id, Some(id("0")));
    assert_eq!(context.root_task_id, Some(id("0")));
    assert_eq!(agent.contract.parent.agent_id, id("0"));
    assert_eq!((agent.contract.parent.step_idx, &*agent.call_id), (0, "call_1"));
    assert_eq!(agent.contract.parent.message_id.as_deref(), Some("m1"));
    played.start(&child);
    let grandchild = played.spawn("1", "scout");
    let context = &played.run.open(&grandchild).expect("open").contract.context;
    assert_eq!((context.depth, context.parent_task_id.clone()), (2, Some(id("1"))));
    assert_eq!(context.root_task_id, Some(id("0")));
    let EventBody::SubagentCreated(created) = &played.events[1].body else { panic!("created") };
    assert_eq!((created.depth, created.parent_id.clone(), created.root_id.clone()), (1, id("0"), id("0")));
    assert_eq!(created.turn_limit, Some(7), "15 halved");
}

#[test]
fn turns_halve_with_depth_from_a_base_of_15() {
    let mut played = PlayedRun::new(3, Budget::NONE);
    let mut turns = vec![played.run.open(&id("0")).expect("open").contract.execution.max_turns];
    let mut at = "0".to_owned();
    for _ in 0..3 {
        let child = played.spawn(&at, "lead");
        played.start(&child);
        turns.push(played.run.open(&child).expect("open").contract.execution.max_turns);
        child.relative().clone_into(&mut at);
    }
    assert_eq!(turns, [Some(15), Some(7), Some(3), Some(3)]);
}

#[test]
fn a_refusal_at_the_limit_names_the_limit_and_the_depth() {
    for (limit, path) in [(0, vec![]), (1, vec!["1"]), (2, vec!["1", "1.1"])] {
        let mut played = PlayedRun::new(limit, Budget::NONE);
        let mut parent = "0";
        for child in path {
            let id = played.spawn(parent, "lead");
            played.start(&id);
            parent = child;
        }
        let (code, reason) = refusal(&mut played, parent, &request("scout"));
        assert_eq!(code, Code::MaxDepthExceeded);
        assert!(reason.contains(&format!("maximum depth {limit} reached")), "{reason}");
        assert!(reason.contains(&format!("an agent at depth {limit} cannot spawn")), "{reason}");
    }
    assert_eq!(DEFAULT_MAX_DEPTH, 2);
}

#[test]
fn a_child_that_cannot_spawn_is_told_so_before_its_depth_is_looked_at() {
    let mut played = PlayedRun::new(1, Budget::NONE);
    let scout = played.spawn("0", "scout");
    played.start(&scout);
    // The depth limit is reached too, but the right to spawn is checked first, and the definition's existence last.
    for asked in ["scout", "nobody"] {
        let (code, reason) = refusal(&mut played, "1", &request(asked));
        assert_eq!(code, Code::SpawnNotAllowed, "{reason}");
    }
}

#[test]
fn an_unknown_agent_is_never_replaced_by_another() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    for unknown in ["nobody", "", "scout ", "scouts", "generall", &"x".repeat(500)] {
        let (code, reason) = refusal(&mut played, "0", &request(unknown));
        assert_eq!(code, Code::UnknownAgent);
        assert!(reason.len() < 200, "a hostile name does not fill the text: {reason}");
    }
    let child = played.try_spawn(&id("0"), &request("SCOUT")).expect("names match whatever their case");
    assert_eq!(played.run.open(&child).expect("open").contract.execution.definition, "scout");
}

#[test]
fn what_is_not_listed_or_only_a_root_cannot_be_spawned() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    assert_eq!(refusal(&mut played, "0", &request("secret")).0, Code::SpawnNotAllowed);
    assert_eq!(refusal(&mut played, "0", &request("boss")).0, Code::SpawnNotAllowed);
}

#[test]
fn a_definition_that_exists_and_is_out_of_reach_is_not_unknown() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    played.run.out_of_reach = vec!["code-reviewer".to_owned()];
    let (code, reason) = refusal(&mut played, "0", &request("Code-Reviewer"));
    assert_eq!(code, Code::SpawnNotAllowed, "{reason}");
    assert!(
        reason.contains("`spawns` of `boss`") && reason.contains("a run with `code-reviewer`"),
        "{reason}"
    );
    assert_eq!(refusal(&mut played, "0", &request("code-reviewers")).0, Code::UnknownAgent);
}

#[test]
fn requests_only_shorten() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let long = SpawnRequest { max_turns: Some(100), timeout_ms: Some(u64::MAX), ..request("scout") };
    let child = played.try_spawn(&id("0"), &long).expect("spawned");
    let execution = &played.run.open(&child).expect("open").contract.execution;
    assert_eq!((execution.max_turns, execution.attempt_timeout_ms), (Some(7), Some(600_000)));
    let short = SpawnRequest { max_turns: Some(2), timeout_ms: Some(9), ..request("scout") };
    let child = played.try_spawn(&id("0"), &short).expect("spawned");
    let execution = &played.run.open(&child).expect("open").contract.execution;
    assert_eq!((execution.max_turns, execution.attempt_timeout_ms), (Some(2), Some(9)));
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    let mut played = PlayedRun::new(2, Budget { agents: Some(3), ..Budget::NONE });
    let command = Criterion::Command(CommandCriterion { command: "true".to_owned(), timeout_ms: None });
    let table = [
        (SpawnRequest { success_criteria: vec![command], ..request("scout") }, Code::Unsupported),
        (SpawnRequest { share_history: true, ..request("scout") }, Code::PermissionDenied),
        (SpawnRequest { max_turns: Some(0), ..request("scout") }, Code::InvalidInput),
        (SpawnRequest { owns: vec!["../x".to_owned()], ..request("builder") }, Code::InvalidInput),
        (SpawnRequest { result_schema: Some(serde_json::json!([])), ..request("scout") }, Code::InvalidInput),
        (SpawnRequest { continues: Some("7".to_owned()), ..request("scout") }, Code::UnknownTask),
        (SpawnRequest { repairs: Some("0".to_owned()), ..request("scout") }, Code::UnknownTask),
        (
            SpawnRequest { budget: Some(Budget { agents: Some(0), ..Budget::NONE }), ..request("scout") },
            Code::BudgetExhausted,
        ),
    ];
    for (asked, code) in table {
        let (found, reason) = refusal(&mut played, "0", &asked);
        assert_eq!(found, code, "{reason}");
    }
    let words = Criterion::Words("the door is found".to_owned());
    played
        .try_spawn(&id("0"), &SpawnRequest { success_criteria: vec![words], ..request("scout") })
        .expect("spawned");
    played.spawn("0", "scout");
    let (code, reason) = refusal(&mut played, "0", &request("scout"));
    assert_eq!(code, Code::BudgetExhausted);
    assert!(reason.contains("3 agents"), "{reason}");
}

#[test]
fn a_conversation_is_shared_by_whom_it_is_granted_to_and_never_with_a_continued_task() {
    let may = |name: &str, may_share_history| Definition {
        may_share_history,
        ..definition(name, &["read"], Some(&["open", "shut"]))
    };
    let mut beginning = started(vec![may("open", true), may("shut", false)], 4, Budget::NONE);
    if let EventBody::RunStarted(begun) = &mut beginning.body {
        begun.contract.permissions.may_share_history = true;
        begun.contract_hash = begun.contract.hash();
    }
    let mut played = PlayedRun::with(beginning);
    let shared = |name| SpawnRequest { share_history: true, ..request(name) };
    let open = played.try_spawn(&id("0"), &shared("open")).expect("the root may");
    assert!(played.run.open(&open).expect("open").contract.execution.share_history);
    played.start(&open);
    let shut = played.try_spawn(&open, &shared("shut")).expect("its definition says so, and its parent may");
    played.start(&shut);
    assert_eq!(refusal(&mut played, shut.relative(), &shared("open")).0, Code::PermissionDenied);
    // A right that was lost on the way down does not come back.
    let below = played.try_spawn(&shut, &request("open")).expect("spawned");
    assert!(!played.run.open(&below).expect("open").authority.grant().may_share_history);
    let both = SpawnRequest { continues: Some("1".to_owned()), ..shared("open") };
    let (code, reason) = refusal(&mut played, "0", &both);
    assert_eq!(code, Code::InvalidInput);
    assert!(reason.contains("`share_history` and `task_id` exclude each other"), "{reason}");
}

#[test]
fn what_a_child_owns_lies_within_what_its_parent_owns() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let owns = |paths: &[&str]| SpawnRequest {
        owns: paths.iter().map(ToString::to_string).collect(),
        ..request("lead")
    };
    let child = played.try_spawn(&id("0"), &owns(&["src/**"])).expect("spawned");
    played.start(&child);
    assert_eq!(refusal(&mut played, "1", &owns(&["docs/**"])).0, Code::OwnershipViolation);
    let narrow = played.try_spawn(&child, &owns(&["src/auth/**"])).expect("spawned");
    assert_eq!(played.run.open(&narrow).expect("open").contract.step.owns, ["src/auth/**"]);
    let same = played.try_spawn(&child, &request("builder")).expect("spawned");
    assert_eq!(
        played.run.open(&same).expect("open").contract.step.owns,
        ["src/**"],
        "all that its parent owns"
    );
}

#[test]
fn only_what_changes_the_workspace_is_a_writer() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    for (definition, writer) in [("scout", false), ("builder", true), ("lead", true)] {
        let child = played.spawn("0", definition);
        assert_eq!(played.run.open(&child).expect("open").writer, writer, "{definition}");
    }
}

#[test]
fn nothing_is_spawned_or_started_after_a_cancel() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    let waiting = played.spawn("1", "scout");
    let cancel = |kill| Cancel { by: "user".to_owned(), reason: "enough".to_owned(), kill };
    let decided = played.run.cancel(&id("0"), cancel(false)).expect("cancelled");
    played.put(decided);
    assert!(played.run.is_cancelled(&waiting), "the whole subtree");
    let (code, reason) = refusal(&mut played, "1", &request("scout"));
    assert_eq!(
        (code, reason.as_str()),
        (Code::Cancelled, "this agent is ending and starts nothing any more")
    );
    let of_waiting = refusal_of_spawn(&played, &waiting);
    assert_eq!(of_waiting, (code, reason), "also of an agent that has not started");
    assert_eq!(played.run.start(&waiting, None), Err(CommandRefused::Cancelled));
    let queued = played.run.queue(&waiting, crate::event::QueuedFor::Slot);
    assert_eq!(queued, Err(CommandRefused::Cancelled));
    assert_eq!(played.run.cancel(&id("0"), cancel(false)), Err(CommandRefused::Cancelled));
    assert!(played.run.cancel(&id("0"), cancel(true)).is_ok(), "a kill overtakes a cancel");
    assert_eq!(played.run.subtree(&id("0")), [id("1.1"), id("1"), id("0")], "children first");
}

#[test]
fn a_parent_that_has_ended_has_no_more_children() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    let cancelled = |reason: &str| (Code::Cancelled, reason.to_owned());
    assert_eq!(
        refusal_of_spawn(&played, &lead),
        cancelled("this agent has not started and starts nothing yet")
    );
    played.start(&lead);
    assert!(played.finish(&lead));
    assert_eq!(
        refusal_of_spawn(&played, &lead),
        cancelled("this agent has finished its work and starts nothing any more")
    );
    assert!(played.close(&lead));
    assert_eq!(refusal_of_spawn(&played, &lead).0, Code::UnknownTask, "it is closed");
}

#[test]
fn a_parent_that_has_failed_has_no_more_children() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    assert!(matches!(played.fail(&lead, FailKind::Policy), Some(Attempt::Over(_))));
    let (code, reason) = refusal_of_spawn(&played, &lead);
    assert_eq!(code, Code::Cancelled);
    assert_eq!(reason, "this agent has failed and starts nothing any more");
}

#[test]
fn nothing_is_spawned_in_a_run_that_has_ended() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let end = RunEnd::Done { report: "all of it".into(), turns_exhausted: false };
    let decided = played.run.end(end, None, played.now_ms()).expect("it can end");
    played.put(decided);
    let (code, reason) = refusal_of_spawn(&played, &id("0"));
    assert_eq!(
        (code, reason.as_str()),
        (Code::Cancelled, "this agent is ending and starts nothing any more")
    );
}

#[test]
fn a_continued_child_has_no_more_than_the_closed_one_had() {
    let mut definitions = definitions();
    definitions[1].spawns = Some(vec!["scout".to_owned()]);
    let mut played = PlayedRun::with(started(definitions, 2, Budget::NONE));
    let first = played.whole("0", &request("scout"), None);
    let again = SpawnRequest { continues: Some(first.relative().to_owned()), ..request("lead") };
    let child = played.try_spawn(&id("0"), &again).expect("spawned");
    let grant = played.run.open(&child).expect("open").authority.grant().clone();
    assert!(
        !grant.can_spawn_children && grant.covers("read") && !grant.covers("write") && !grant.covers("task")
    );
    // An open child, or the child of another agent, cannot be continued.
    let open = SpawnRequest { continues: Some(child.relative().to_owned()), ..request("scout") };
    assert_eq!(refusal(&mut played, "0", &open).0, Code::InvalidInput);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    let others = SpawnRequest { continues: Some("1".to_owned()), ..request("scout") };
    assert_eq!(refusal(&mut played, lead.relative(), &others).0, Code::UnknownTask);
}

#[test]
fn an_unknown_task_is_told_with_the_own_ones() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let reason =
        |played: &PlayedRun| played.run.own_child(&id("0"), "the parser").expect_err("there is none").reason;
    assert_eq!(reason(&played), "`the parser` is not one of your tasks; you have started none");
    played.spawn("0", "scout");
    assert_eq!(reason(&played), "`the parser` is not one of your tasks; yours is `1`");
    played.spawn("0", "scout");
    played.spawn("0", "scout");
    assert_eq!(reason(&played), "`the parser` is not one of your tasks; yours are `1` to `3`");
}

#[test]
fn only_a_failed_child_can_be_repaired() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let well = played.whole("0", &request("scout"), None);
    let badly = played.whole("0", &request("scout"), Some(FailKind::Policy));
    let repairs = |of: &crate::id::AgentId| SpawnRequest {
        repairs: Some(of.relative().to_owned()),
        ..request("scout")
    };
    assert_eq!(refusal(&mut played, "0", &repairs(&well)).0, Code::InvalidInput);
    assert!(played.try_spawn(&id("0"), &repairs(&badly)).is_ok());
}

#[test]
fn a_child_works_in_the_background_if_its_definition_says_so_and_its_caller_nothing() {
    for (of_definition, asked, expected) in
        [(true, None, true), (true, Some(false), false), (false, None, false), (false, Some(true), true)]
    {
        let mut kinds = definitions();
        for kind in &mut kinds {
            kind.background = of_definition;
        }
        let mut played = PlayedRun::with(started(kinds, 2, Budget::NONE));
        let asked = SpawnRequest { background: asked, ..request("scout") };
        let child = played.try_spawn(&id("0"), &asked).expect("spawned");
        assert_eq!(played.run.open(&child).expect("open").background, expected);
    }
}
