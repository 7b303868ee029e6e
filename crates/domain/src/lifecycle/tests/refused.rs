//! Commands that do not apply name the reason.

use super::fixture::{PlayedRun, failure, id};
use crate::budget::Budget;
use crate::code::Code;
use crate::event::QueuedFor;
use crate::id::AgentId;
use crate::lifecycle::{AgentState, Cancel, CommandRefused, FailKind, Finish};

/// The refusal of each command for an agent. `None` where the command applies.
#[derive(Debug, PartialEq)]
struct Reasons {
    queue: Option<CommandRefused>,
    start: Option<CommandRefused>,
    finish: Option<CommandRefused>,
    fail: Option<CommandRefused>,
    abandon: Option<CommandRefused>,
    accept: Option<CommandRefused>,
    reject: Option<CommandRefused>,
    cancel: Option<CommandRefused>,
    close: Option<CommandRefused>,
}

impl Reasons {
    fn all(reason: CommandRefused) -> Self {
        let reason = Some(reason);
        Self {
            queue: reason,
            start: reason,
            finish: reason,
            fail: reason,
            abandon: reason,
            accept: reason,
            reject: reason,
            cancel: reason,
            close: reason,
        }
    }
}

fn reasons(played: &PlayedRun, agent: &AgentId) -> Reasons {
    let run = &played.run;
    let finish = Finish { report: "found".into(), turns_exhausted: false, change: None };
    let cancel = Cancel { by: "user".to_owned(), reason: "enough".to_owned(), kill: false };
    let rejected = run.reject(agent, FailKind::Integration, Code::IntegrationConflict, "no".to_owned());
    Reasons {
        queue: run.queue(agent, QueuedFor::Slot).err(),
        start: run.start(agent, None).err(),
        finish: run.finish(agent, finish).err(),
        fail: run.fail(agent, failure(FailKind::Policy)).err(),
        abandon: run.abandon(agent).err(),
        accept: run.accept(agent, Vec::new()).err(),
        reject: rejected.err(),
        cancel: run.cancel(agent, cancel).err(),
        close: run.close(agent, 9).err(),
    }
}

#[test]
fn every_state_has_its_commands_and_is_the_reason_for_the_others() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let unknown = id("9");
    assert_eq!(reasons(&played, &unknown), Reasons::all(CommandRefused::UnknownAgent));

    let child = played.spawn("0", "scout");
    let created = CommandRefused::State(AgentState::Created);
    let expected = Reasons {
        queue: None,
        start: None,
        fail: None,
        abandon: None,
        cancel: None,
        ..Reasons::all(created)
    };
    assert_eq!(reasons(&played, &child), expected);
    let queued = played.run.queue(&child, QueuedFor::Slot).expect("queued");
    played.put(queued);
    assert_eq!(reasons(&played, &child).queue, Some(CommandRefused::AlreadyQueued));

    played.start(&child);
    let running = CommandRefused::State(AgentState::Running);
    let expected = Reasons { finish: None, fail: None, cancel: None, ..Reasons::all(running) };
    assert_eq!(reasons(&played, &child), expected);

    // The child has nothing to merge, so it is accepted when it ends.
    assert!(played.finish(&child));
    let completed = CommandRefused::State(AgentState::Completed);
    assert_eq!(reasons(&played, &child), Reasons { close: None, ..Reasons::all(completed) });

    assert!(played.close(&child));
    assert_eq!(reasons(&played, &child), Reasons::all(CommandRefused::State(AgentState::Closed)));

    let child = played.spawn("0", "scout");
    assert!(played.fail(&child, FailKind::Policy).is_some());
    let failed = CommandRefused::State(AgentState::Failed);
    assert_eq!(reasons(&played, &child), Reasons { close: None, ..Reasons::all(failed) });
}

#[test]
fn what_is_under_way_is_the_reason_why_an_agent_cannot_end() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    played.start(&lead);
    let scout = played.spawn("1", "scout");
    let busy = |played: &PlayedRun, agent| {
        let reasons = reasons(played, agent);
        (reasons.finish, reasons.fail)
    };
    let children = Some(CommandRefused::OpenChildren);
    assert_eq!(busy(&played, &lead), (children, children));
    played.start(&scout);
    assert!(played.call(&scout));
    let call = Some(CommandRefused::ModelCall);
    assert_eq!(busy(&played, &scout), (call, call));
}

#[test]
fn the_root_is_ended_by_its_run_alone() {
    let played = PlayedRun::new(2, Budget::NONE);
    let reasons = reasons(&played, &id("0"));
    let root = Some(CommandRefused::Root);
    assert_eq!((reasons.finish, reasons.fail, reasons.close), (root, root, root));
    assert_eq!(reasons.abandon, root);
    assert_eq!(reasons.cancel, None);
}
