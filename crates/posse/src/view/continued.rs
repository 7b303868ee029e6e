//! The agent of an earlier run that a run continues or retries.

use posse_domain::event::{EventBody, EventKind, RunStarted};
use posse_domain::id::AgentId;

use super::{ViewEvent, ViewPart};

/// The agent of an earlier run that a run continues or retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinuedAgent {
    /// The agent.
    pub agent: AgentId,
    /// Whether the run does its work again, instead of continuing its conversation with a new request.
    pub is_retry: bool,
}

impl ContinuedAgent {
    pub(super) fn of(started: &RunStarted) -> Option<Self> {
        let continued = started.request.continues.as_ref()?;
        Some(Self { agent: continued.agent.clone(), is_retry: continued.is_retry })
    }
}

/// What the first event of a run says about the run that it continues.
#[derive(Debug, Default)]
pub(crate) struct ContinuedPart(pub(crate) Option<ContinuedAgent>);

impl ViewPart for ContinuedPart {
    fn needs(&self, kind: EventKind) -> bool {
        kind == EventKind::RunStarted
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        if let EventBody::RunStarted(started) = event.body {
            self.0 = ContinuedAgent::of(started);
        }
    }
}
