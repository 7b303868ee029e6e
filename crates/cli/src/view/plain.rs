//! Progress without a terminal: one line on standard error per state change of an agent, the text of sub-agents as it
//! arrives, and their reports.

use posse::view::ProviderWait;
use posse::{Delta, EventBody, FilesProgress, JournalEvent};

use super::files_progress::ProgressLines;
use super::stream::{StreamedText, panel};
use crate::blocked::on_provider;
use crate::display::{Detail, Display};
use crate::output::{error_width, note};
use crate::questions::write_out;
use crate::term;

/// Prints a run as lines.
pub(super) struct LineView {
    display: Display,
    progress: ProgressLines,
    streamed: StreamedText,
}

impl LineView {
    pub(super) fn new(display: Display) -> Self {
        let is_verbose = display.detail >= Detail::Verbose;
        Self {
            display,
            progress: ProgressLines::default(),
            streamed: StreamedText::new(display.is_coloured, is_verbose, error_width()),
        }
    }

    fn is_quiet(&self) -> bool {
        self.display.detail == Detail::Quiet
    }

    /// Prints an event, if it is a state change.
    pub(super) fn event(&mut self, event: &JournalEvent) {
        if self.is_quiet() {
            return;
        }
        if let EventBody::ModelReplied(_) = &event.body {
            write_out(&self.streamed.end(&event.agent_id));
        }
        match &event.body {
            EventBody::ProviderWaitStarted(e) => {
                let wait = ProviderWait::new(&event.agent_id, e);
                note(&format!("{} {}", event.agent_id, on_provider(&wait)));
            }
            body if is_printed(body) || self.display.detail >= Detail::Verbose => {
                note(&format!("{} {}", event.agent_id, term::line(&event.summary)));
            }
            _ => {}
        }
        if let EventBody::SubagentWaitingForMerge(e) = &event.body {
            let is_coloured = self.display.is_coloured;
            write_out(&panel(&event.agent_id, &e.report.to_shared(), is_coloured, error_width()));
        }
    }

    /// Prints pieces of replies in progress.
    pub(super) fn deltas(&mut self, deltas: &[Delta]) {
        if !self.is_quiet() {
            write_out(&deltas.iter().map(|delta| self.streamed.take(delta)).collect::<String>());
        }
    }

    /// Prints how far a long operation on files is.
    pub(super) fn progress(&mut self, report: Option<&FilesProgress>) {
        if !self.is_quiet() {
            self.progress.print(report);
        }
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
        | EventBody::ContextCompacted(_)
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
