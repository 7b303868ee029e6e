//! Progress without a terminal: one line on standard error per state change of an agent.

use posse::view::ProviderWait;
use posse::{EventBody, JournalEvent};

use crate::blocked::on_provider;
use crate::output::note;
use crate::term;

/// Prints an event, if it is a state change.
pub(super) fn event(event: &JournalEvent) {
    match &event.body {
        EventBody::ProviderWaitStarted(e) => {
            let wait = ProviderWait::new(&event.agent_id, e);
            note(&format!("{} {}", event.agent_id, on_provider(&wait)));
        }
        body if is_printed(body) => note(&format!("{} {}", event.agent_id, term::line(&event.summary))),
        _ => {}
    }
}

/// Turns and tool calls are not printed, because `posse logs` has them; nor is the run's end, because the lines after
/// it have more.
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
