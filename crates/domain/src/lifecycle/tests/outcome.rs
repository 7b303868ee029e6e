//! How attempts, children and runs end.

use super::fixture::{PlayedRun, failure, id, request};
use crate::budget::Budget;
use crate::code::Code;
use crate::event::{Change, EventBody, FinalStatus};
use crate::lifecycle::{
    AgentState, Attempt, Cancel, CommandRefused, FailKind, Finish, Outcome, RunEnd, SpawnRequest,
};

const KINDS: [FailKind; 6] = [
    FailKind::Execution,
    FailKind::Policy,
    FailKind::Timeout,
    FailKind::Budget,
    FailKind::Integration,
    FailKind::Cancelled,
];

fn done() -> RunEnd {
    RunEnd::Done { report: "all of it".into(), turns_exhausted: false }
}

#[test]
fn only_execution_and_timeout_are_retried_and_only_so_often() {
    for kind in KINDS {
        let retried = matches!(kind, FailKind::Execution | FailKind::Timeout);
        assert_eq!(kind.is_retried(), retried);
        let mut played = PlayedRun::new(2, Budget::NONE);
        let child = played.spawn("0", "scout");
        assert_eq!(played.run.open(&child).expect("open").contract.execution.max_retries, 1);
        played.start(&child);
        if retried {
            let Some(Attempt::Again((_, body))) = played.fail(&child, kind) else {
                panic!("{kind:?} is retried")
            };
            let EventBody::SubagentAttempt(again) = body else { panic!("an attempt") };
            assert_eq!((again.n, again.kind), (2, kind));
        }
        assert!(matches!(played.fail(&child, kind), Some(Attempt::Over(_))), "{kind:?}");
        assert_eq!(played.fail(&child, kind), None, "past failing");
    }
}

#[test]
fn a_child_that_never_started_fails_without_another_attempt() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let child = played.spawn("0", "scout");
    assert!(matches!(played.fail(&child, FailKind::Timeout), Some(Attempt::Over(_))));
    assert!(played.close(&child));
}

#[test]
fn a_cancelled_child_is_not_retried() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let child = played.spawn("0", "scout");
    played.start(&child);
    let cancel = Cancel { by: "user".to_owned(), reason: "enough".to_owned(), kill: false };
    let decided = played.run.cancel(&id("0"), cancel).expect("cancelled");
    played.put(decided);
    assert!(!played.run.retries(&child, &failure(FailKind::Execution)), "one above it is to end");
    assert!(matches!(played.fail(&child, FailKind::Execution), Some(Attempt::Over(_))));
}

#[test]
fn a_child_that_has_ended_cannot_be_cancelled_any_more() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let (well, badly) = (played.spawn("0", "scout"), played.spawn("0", "scout"));
    played.start(&well);
    assert!(played.finish(&well) && played.fail(&badly, FailKind::Policy).is_some());
    for (child, state) in [(well, AgentState::Completed), (badly, AgentState::Failed)] {
        let cancel = Cancel { by: "user".to_owned(), reason: "enough".to_owned(), kill: true };
        assert_eq!(played.run.cancel(&child, cancel), Err(CommandRefused::State(state)));
    }
}

#[test]
fn the_root_has_no_events_of_a_sub_agent() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    assert_eq!(played.fail(&id("0"), FailKind::Execution), None);
    assert!(!played.finish(&id("0")) && !played.close(&id("0")));
    assert_eq!(played.run.start(&id("0"), None), Err(CommandRefused::State(AgentState::Running)));
    assert!(!played.run.retries(&id("0"), &failure(FailKind::Execution)));
}

#[test]
fn nothing_ends_while_a_child_is_open_or_its_model_is_asked() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    let scout = played.spawn("1", "scout");
    played.start(&scout);
    assert!(!played.finish(&lead));
    assert_eq!(played.fail(&lead, FailKind::Execution), None);
    assert!(!played.close(&lead));
    assert_eq!(played.run.end(done(), None, 9_999), Err(CommandRefused::OpenChildren));
    assert!(played.call(&scout));
    assert!(!played.finish(&scout));
    assert_eq!(played.fail(&scout, FailKind::Timeout), None, "the call is settled first");
    assert!(played.reply(&scout, true));
    assert!(played.finish(&scout) && played.close(&scout));
    assert!(played.finish(&lead) && played.close(&lead));
    assert!(!played.close(&lead), "closed once");
    let decided = played.run.end(done(), None, played.now_ms()).expect("it can end");
    played.put(decided);
    assert_eq!(played.run.end(done(), None, 9_999), Err(CommandRefused::RunEnded));
    assert_eq!(played.open_children(), 0);
}

#[test]
fn a_closed_child_says_how_it_ended_and_what_it_and_those_below_it_spent() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    let scout = played.spawn("1", "scout");
    played.start(&scout);
    for agent in [&lead, &scout, &scout] {
        assert!(played.call(agent) && played.reply(agent, false));
    }
    assert!(played.tool(&scout));
    assert!(matches!(played.fail(&scout, FailKind::Cancelled), Some(Attempt::Over(_))));
    assert!(played.close(&scout));
    assert!(played.finish(&lead) && played.close(&lead));
    let closed: Vec<_> = played
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::SubagentClosed(closed) => Some(closed.clone()),
            _ => None,
        })
        .collect();
    assert_eq!((closed[0].final_status, closed[0].close_reason.as_str()), (FinalStatus::Failed, "cancelled"));
    assert_eq!(
        (closed[1].final_status, closed[1].close_reason.as_str()),
        (FinalStatus::Completed, "integrated")
    );
    assert_eq!(
        (closed[0].usage.turns, closed[0].usage.tool_calls, closed[0].usage.usage.tokens()),
        (2, 1, 200)
    );
    assert_eq!((closed[1].usage.turns, closed[1].usage.usage.tokens()), (1, 100));
    assert_eq!((closed[1].subtree_usage.turns, closed[1].subtree_usage.usage.tokens()), (3, 300));
    assert!(closed[1].usage.wall_ms > closed[0].usage.wall_ms);
}

#[test]
fn a_change_is_said_only_where_something_may_have_changed() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    played.whole("0", &request("builder"), None);
    let change = played.events.iter().find_map(|event| match &event.body {
        EventBody::IntegrationPassed(passed) => Some(passed.change),
        _ => None,
    });
    assert_eq!(change, Some(Change::None), "it could write and did not");
}

#[test]
fn a_failed_required_child_fails_the_run_unless_a_later_child_repaired_it() {
    // required, repaired, completed
    let table = [(false, false, true), (true, false, false), (true, true, true)];
    for (required, repaired, completes) in table {
        let mut played = PlayedRun::new(2, Budget::NONE);
        let asked = SpawnRequest { required, ..request("scout") };
        let failed = played.whole("0", &asked, Some(FailKind::Execution));
        if repaired {
            let repairs = SpawnRequest { repairs: Some(failed.relative().to_owned()), ..request("scout") };
            played.whole("0", &repairs, None);
        }
        let decided = played.run.end(done(), None, played.now_ms()).expect("it can end");
        played.put(decided);
        let outcome = played.run.outcome.clone().expect("ended");
        assert_eq!(
            outcome.status() == crate::lifecycle::RunStatus::Completed,
            completes,
            "{required} {repaired}: {outcome:?}"
        );
        assert_eq!(played.run.failed.len(), 1, "the result lists every failed child");
    }
}

#[test]
fn a_repair_that_fails_repairs_nothing() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let failed =
        played.whole("0", &SpawnRequest { required: true, ..request("scout") }, Some(FailKind::Policy));
    let repairs = SpawnRequest { repairs: Some(failed.relative().to_owned()), ..request("scout") };
    played.whole("0", &repairs, Some(FailKind::Policy));
    let decided = played.run.end(done(), None, played.now_ms()).expect("it can end");
    played.put(decided);
    assert!(
        matches!(&played.run.outcome, Some(Outcome::Failed { reason, .. }) if reason.contains("sub-agent 1 failed"))
    );
    assert_eq!(played.run.failed.len(), 2);
}

#[test]
fn a_required_child_deep_in_the_tree_counts_too() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    played.whole("1", &SpawnRequest { required: true, ..request("scout") }, Some(FailKind::Policy));
    assert!(played.finish(&lead) && played.close(&lead));
    let decided = played.run.end(done(), None, played.now_ms()).expect("it can end");
    played.put(decided);
    assert_eq!(played.run.outcome.as_ref().map(Outcome::status), Some(crate::lifecycle::RunStatus::Failed));
}

#[test]
fn a_run_ends_as_its_root_ended() {
    for kind in KINDS {
        let mut played = PlayedRun::new(2, Budget::NONE);
        let decided =
            played.run.end(RunEnd::Failed(failure(kind)), None, played.now_ms()).expect("it can end");
        played.put(decided);
        let expected = if kind == FailKind::Cancelled { "cancelled" } else { "failed" };
        assert_eq!(
            played.run.outcome.as_ref().map(|outcome| outcome.status().as_str()),
            Some(expected),
            "{kind:?}"
        );
    }
}

fn required(definition: &str) -> SpawnRequest {
    SpawnRequest { required: true, ..request(definition) }
}

#[test]
fn a_limit_that_ended_a_required_child_ends_the_run() {
    for kind in KINDS.into_iter().filter(|kind| *kind != FailKind::Integration) {
        let mut played = PlayedRun::new(2, Budget::NONE);
        let child = played.try_spawn(&id("0"), &required("scout")).expect("spawned");
        played.start(&child);
        while matches!(played.fail(&child, kind), Some(Attempt::Again(_))) {}
        assert!(played.close(&child));
        let (_, body) = played.run.end(done(), None, played.now_ms()).expect("it can end");
        let EventBody::RunFailed(failed) = body else { panic!("{kind:?}: {body:?}") };
        let expected = match kind {
            FailKind::Budget | FailKind::Timeout => (kind, kind.code()),
            _ => (FailKind::Execution, Code::SubagentError),
        };
        assert_eq!((failed.kind, failed.code), expected, "{kind:?}");
    }
}

#[test]
fn what_an_attempt_that_has_ended_asked_for_does_not_count_against_the_run() {
    for again in [true, false] {
        let mut played = PlayedRun::new(2, Budget::NONE);
        let lead = played.spawn("0", "lead");
        played.start(&lead);
        let scout = played.try_spawn(&lead, &required("scout")).expect("spawned");
        played.start(&scout);
        assert!(matches!(played.fail(&scout, FailKind::Cancelled), Some(Attempt::Over(_))));
        assert!(played.close(&scout));
        if again {
            assert!(matches!(played.fail(&lead, FailKind::Execution), Some(Attempt::Again(_))));
        }
        assert!(played.finish(&lead) && played.close(&lead));
        let (_, body) = played.run.end(done(), None, played.now_ms()).expect("it can end");
        match body {
            EventBody::RunCompleted(completed) if again => {
                assert_eq!(completed.failed.len(), 1, "it is listed all the same");
            }
            EventBody::RunFailed(failed) if !again => {
                assert!(failed.reason.contains("1.1"), "{}", failed.reason);
            }
            other => panic!("{again}: {other:?}"),
        }
    }
}

#[test]
fn a_run_lists_the_children_that_ran_out_of_turns() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    for wanted in [required("scout"), request("scout"), request("scout")] {
        let child = played.try_spawn(&id("0"), &wanted).expect("spawned");
        played.start(&child);
        let turns_exhausted = child.number() != Some(3);
        let finish = Finish { report: "half".into(), turns_exhausted, change: None };
        for decided in played.run.finish(&child, finish).expect("finished") {
            played.put(decided);
        }
        assert!(played.close(&child));
    }
    let end = RunEnd::Done { report: "all".into(), turns_exhausted: true };
    let decided = played.run.end(end, None, played.now_ms()).expect("it can end");
    let EventBody::RunCompleted(completed) = &decided.1 else { panic!("{decided:?}") };
    let limited: Vec<(&str, bool)> =
        completed.turn_limited.iter().map(|child| (child.id.relative(), child.required)).collect();
    assert_eq!(limited, [("1", true), ("2", false)]);
    assert_eq!((completed.turns_exhausted, completed.figures.turn_limited), (true, 3));
    assert!(decided.1.summary().starts_with("run completed at its turn limit"), "{}", decided.1.summary());
    played.put(decided);
    let own = |at: &str| played.run.ledger.own(&id(at)).map(|own| own.turn_limited);
    assert_eq!([own("0"), own("1"), own("3")], [Some(1), Some(1), Some(0)]);
    let closed = played.events.iter().find(|event| matches!(event.body, EventBody::SubagentClosed(_)));
    let closed = closed.expect("closed").body.summary();
    assert_eq!(closed, "closed: completed at its turn limit");
}

#[test]
fn a_cancelled_child_is_cancelled_to_people() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let child = played.spawn("0", "scout");
    played.start(&child);
    assert!(matches!(played.fail(&child, FailKind::Cancelled), Some(Attempt::Over(_))));
    assert!(played.close(&child));
    let told: Vec<String> = played.events.iter().rev().take(2).map(|event| event.body.summary()).collect();
    assert_eq!(told[0], "closed: cancelled");
    assert!(told[1].starts_with("cancelled: ") && !told[1].contains("failed"), "{}", told[1]);
}

#[test]
fn deadlines_are_the_earliest_above_and_stand_still_while_nobody_owns_the_run() {
    let mut played = PlayedRun::new(2, Budget { wall_ms: Some(10_000), ..Budget::NONE });
    let later =
        SpawnRequest { budget: Some(Budget { wall_ms: Some(60_000), ..Budget::NONE }), ..request("lead") };
    let sooner =
        SpawnRequest { budget: Some(Budget { wall_ms: Some(50), ..Budget::NONE }), ..request("lead") };
    let (later, sooner) = (
        played.try_spawn(&id("0"), &later).expect("spawned"),
        played.try_spawn(&id("0"), &sooner).expect("spawned"),
    );
    let root = played.run.deadline_ms(&id("0"), 0).expect("a deadline");
    assert_eq!(root, 11_000);
    // An agent without its own limit must end before its parent's report is due.
    let report = played.run.report_at_ms(&id("0"), 0).expect("a moment");
    assert_eq!(report, 6_000);
    assert_eq!(played.run.deadline_ms(&later, 0), Some(report));
    assert!(played.run.report_at_ms(&later, 0) < Some(report), "a child writes its report before");
    assert_eq!(
        played.run.time_used_up(&later, 0),
        "the wall time of the run is used up: its limit is 10000 ms"
    );
    assert_eq!(played.run.time_used_up(&sooner, 0), "the wall time of task 2 is used up: its limit is 50 ms");
    let own = played.run.deadline_ms(&sooner, 0).expect("a deadline");
    assert!(own < root);
    let resumed = crate::event::RunResumed { epoch: 2, unowned_ms: 500 };
    played.put((id("0"), resumed.into()));
    assert_eq!(played.run.deadline_ms(&sooner, 0), Some(own + 500));
    assert_eq!(played.run.deadline_ms(&later, 0), Some(report + 500));
}
