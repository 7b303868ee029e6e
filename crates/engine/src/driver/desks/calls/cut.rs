//! Cuts calls short for the driver, because the attempt ends or the agent's time is up.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_domain::id::AgentId;

use super::{CallDesk, CallInFlight, CallStage, PendingHooks};
use crate::driver::core::Core;
use crate::driver::desks::files::FilesDesk;
use crate::ports::{ToolFailure, Urgency};

impl CallDesk {
    /// Drops the calls of an ending attempt that only read or ask, or that wait. A running command is asked to end with
    /// this urgency, and the agent waits for it: an agent has ended only when its last process has. A write is short,
    /// and half a write is worse than a late one.
    pub(crate) fn cut_short(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        urgency: Urgency,
    ) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        for call in agent.calls.values() {
            call.hurry(urgency);
        }
        for hooked in &agent.hooks {
            hooked.hurry(urgency);
        }
        agent.parked.clear();
        let calls = agent.calls.iter();
        let dropped = calls.filter(|(call_id, call)| is_dropped(call_id, call, &agent.hooks));
        let dropped: Vec<Arc<str>> = dropped.map(|(call_id, _)| call_id.clone()).collect();
        self.drop_calls(core, files, id, &dropped);
    }

    /// Drops calls that only read or have not begun, because the agent's time is up, and returns them. Running commands
    /// are asked to end.
    pub(crate) fn cut_for_report(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
    ) -> Vec<Arc<str>> {
        let Some(agent) = self.agents.get(id) else { return Vec::new() };
        for call in agent.calls.values() {
            call.hurry(Urgency::Gently);
        }
        let cut = agent.calls.iter().filter(|(_, call)| is_cut(call));
        let cut: Vec<Arc<str>> = cut.map(|(call_id, _)| call_id.clone()).collect();
        self.drop_calls(core, files, id, &cut);
        cut
    }

    /// Drops calls with their tasks, and releases their files and slots.
    fn drop_calls(&mut self, core: &mut Core, files: &mut FilesDesk, id: &AgentId, dropped: &[Arc<str>]) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let (mut slots, mut held) = (0, 0);
        for call_id in dropped {
            let Some(call) = agent.calls.remove(call_id) else { continue };
            agent.parked.retain(|parked| parked != call_id);
            held += usize::from(call.holds);
            match call.stage {
                CallStage::Running(task) => {
                    task.abort();
                    slots += 1;
                }
                CallStage::Committing => slots += 1,
                CallStage::Queued
                | CallStage::Parked
                | CallStage::Waiting
                | CallStage::Asking
                | CallStage::Hooking => {}
            }
        }
        for _ in 0..held {
            files.end_change(core, id, true);
        }
        for _ in 0..slots {
            core.release_slot(id);
        }
    }
}

/// Whether a call is dropped when its attempt ends.
fn is_dropped(call_id: &str, call: &CallInFlight, hooks: &[PendingHooks]) -> bool {
    match &call.stage {
        // The files of the call are released when its hooks have ended.
        CallStage::Hooking => !hooks.iter().any(|hooked| hooked.is_about_call(call_id)),
        CallStage::Running(_) => match call.class {
            EffectClass::Read | EffectClass::Net => true,
            EffectClass::Exec | EffectClass::Write | EffectClass::Delegate | EffectClass::Journal => false,
        },
        CallStage::Queued
        | CallStage::Parked
        | CallStage::Committing
        | CallStage::Waiting
        | CallStage::Asking => true,
    }
}

/// Whether a call is dropped when time is up: it only reads, or has not begun. A call that waits for a child gets that
/// child's result.
fn is_cut(call: &CallInFlight) -> bool {
    match (&call.stage, call.class) {
        (CallStage::Hooking | CallStage::Asking | CallStage::Waiting, _) => false,
        (CallStage::Queued | CallStage::Parked, _) => true,
        (CallStage::Running(_) | CallStage::Committing, class) => {
            matches!(class, EffectClass::Read | EffectClass::Net)
        }
    }
}

/// The result of a call that is not executed because time is up.
pub(crate) fn time_is_up() -> ToolFailure {
    ToolFailure { code: Code::Timeout, text: "not executed: the time limit was reached".to_owned() }
}
