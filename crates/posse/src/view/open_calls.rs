//! The model calls of a run that have no reply yet, with their reserves.

use std::collections::BTreeMap;

use posse_domain::budget::Usage;
use posse_domain::event::{EventBody, EventKind};
use posse_domain::id::AgentId;

use super::{ViewEvent, ViewPart};

/// The reserve of the open model call of each agent that has one.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct OpenModelCalls(BTreeMap<AgentId, Usage>);

impl OpenModelCalls {
    /// The agents with what their calls cost if no process executes the run: the calls were cut off.
    pub(crate) fn as_cut_off(&self) -> impl Iterator<Item = (&AgentId, Usage)> {
        self.0.iter().map(|(agent, reserved)| (agent, reserved.as_cut_off()))
    }

    /// Whether the price of a call is unknown.
    pub(crate) fn has_unknown_price(&self) -> bool {
        self.0.values().any(|reserved| reserved.micro_usd.is_none())
    }
}

impl ViewPart for OpenModelCalls {
    fn needs(&self, kind: EventKind) -> bool {
        let ends_call = kind == EventKind::ModelReplied || kind.ends_run();
        kind == EventKind::ModelCalled || (ends_call && !self.0.is_empty())
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::ModelCalled(e) => {
                self.0.insert(event.agent.clone(), e.reserved.as_usage());
            }
            EventBody::ModelReplied(_) => {
                self.0.remove(event.agent);
            }
            body if EventKind::from(body).ends_run() => self.0.clear(),
            _ => {}
        }
    }
}
