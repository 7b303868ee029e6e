//! Progress without a terminal: one line on standard error for each change of somebody's state.

use posse::{EventBody, JournalEvent};

use crate::blocked::on_provider;
use crate::output::note;
use crate::term;

/// Tells an event, if it is a change of state.
pub(super) fn event(event: &JournalEvent) {
    match &event.body {
        EventBody::ProviderWaitStarted(e) => {
            note(&format!("{} {}", event.agent_id, on_provider(&e.provider, &e.reason, e.until_ms)));
        }
        body if is_printed(body) => note(&format!("{} {}", event.agent_id, term::line(&event.summary))),
        _ => {}
    }
}

/// Turns and tool calls are not told, `posse logs` has them; nor is the run's end, because what follows it says
/// more.
fn is_printed(body: &EventBody) -> bool {
    match body {
        EventBody::RunStarted(_)
        | EventBody::RunPlanned(_)
        | EventBody::RunResumed(_)
        | EventBody::SubagentCreated(_)
        | EventBody::SubagentQueued(_)
        | EventBody::SubagentStarted(_)
        | EventBody::SubagentAttempt(_)
        | EventBody::SubagentWaitingForMerge(_)
        | EventBody::SubagentFailed(_)
        | EventBody::SubagentClosed(_)
        | EventBody::SubagentRefused(_)
        | EventBody::IntegrationFailed(_)
        | EventBody::ChecksFailed(_)
        | EventBody::ChecksPassed(_)
        | EventBody::WorktreeConflicted(_)
        | EventBody::WorktreeMerged(_)
        | EventBody::ToolInterrupted(_)
        | EventBody::ProviderWaitStarted(_)
        | EventBody::InputRequested(_)
        | EventBody::InputAnswered(_)
        | EventBody::CancelRequested(_) => true,
        EventBody::RunCompleted(_)
        | EventBody::RunFailed(_)
        | EventBody::RunCancelled(_)
        | EventBody::IntegrationPassed(_)
        | EventBody::WorkspaceMade(_)
        | EventBody::WorkspaceSalvaged(_)
        | EventBody::WorkspaceRemoved(_)
        | EventBody::ModelCalled(_)
        | EventBody::ModelReplied(_)
        | EventBody::ToolIntended(_)
        | EventBody::ToolFinished(_)
        | EventBody::PermissionDecided(_)
        | EventBody::MessageReceived(_)
        | EventBody::ContextTrimmed(_)
        | EventBody::ProviderWaitEnded(_)
        | EventBody::TodoChanged(_) => false,
    }
}
