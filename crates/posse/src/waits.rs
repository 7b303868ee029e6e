//! Agents that wait for the provider of their model.

use std::collections::BTreeMap;

use posse_domain::event::EventBody;
use posse_domain::id::{AgentId, RunId};

use crate::{Error, Posse};

/// An agent that waits for the provider of its model: for a limit, or because it does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderWait {
    /// The agent.
    pub agent: AgentId,
    /// Who is waited for.
    pub provider: String,
    /// Why.
    pub reason: String,
    /// When it is thought to end, in milliseconds since 1970.
    pub until_ms: i64,
}

impl Posse {
    /// The agents of a run that wait for the provider of their model, by id.
    pub async fn provider_waits(&self, run: &RunId) -> Result<Vec<ProviderWait>, Error> {
        let mut open = BTreeMap::new();
        let key = self.key(run);
        posse_engine::read_events(&*self.store, &key, 0, |stored| {
            // Almost every event is about something else, and is not decoded.
            match &*stored.kind {
                "agent.provider_wait_started" => {}
                "agent.provider_wait_ended" => {
                    open.remove(&stored.agent);
                    return Ok(());
                }
                "run.completed" | "run.failed" | "run.cancelled" => {
                    open.clear();
                    return Ok(());
                }
                _ => return Ok(()),
            }
            let event = posse_engine::decode(&key, &stored)?;
            if let EventBody::ProviderWaitStarted(e) = event.body {
                let wait = ProviderWait {
                    agent: event.agent.clone(),
                    provider: e.provider,
                    reason: e.reason,
                    until_ms: e.until_ms,
                };
                open.insert(event.agent, wait);
            }
            Ok(())
        })
        .await?;
        Ok(open.into_values().collect())
    }
}
