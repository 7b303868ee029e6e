//! Agents that wait for the provider of their model.

use std::collections::BTreeMap;

use posse_domain::event::EventBody;
use posse_domain::id::AgentId;

use super::{ViewEvent, ViewPart, is_end};

/// An agent that waits for the provider of its model: for a limit, or because it does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderWait {
    /// The agent.
    pub agent: AgentId,
    /// The provider.
    pub provider: String,
    /// Why.
    pub reason: String,
    /// When it is thought to end, in milliseconds since 1970.
    pub until_ms: i64,
}

/// The agents that wait for a provider, at most one wait for each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProviderWaits(BTreeMap<AgentId, ProviderWait>);

impl ProviderWaits {
    /// The wait of an agent.
    pub fn of(&self, agent: &AgentId) -> Option<&ProviderWait> {
        self.0.get(agent)
    }

    /// All of them, by agent.
    pub fn iter(&self) -> impl Iterator<Item = &ProviderWait> {
        self.0.values()
    }

    pub(crate) fn into_vec(self) -> Vec<ProviderWait> {
        self.0.into_values().collect()
    }
}

impl ViewPart for ProviderWaits {
    fn needs(&self, kind: &str) -> bool {
        kind == "agent.provider_wait_started"
            || (!self.0.is_empty() && (kind == "agent.provider_wait_ended" || is_end(kind)))
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::ProviderWaitStarted(e) => {
                let wait = ProviderWait {
                    agent: event.agent.clone(),
                    provider: e.provider.clone(),
                    reason: e.reason.clone(),
                    until_ms: e.until_ms,
                };
                self.0.insert(event.agent.clone(), wait);
            }
            EventBody::ProviderWaitEnded(_) => {
                self.0.remove(event.agent);
            }
            body if is_end(body.kind()) => self.0.clear(),
            _ => {}
        }
    }
}
