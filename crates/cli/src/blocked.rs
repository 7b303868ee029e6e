//! What the agents of a run wait for, if that is a person or a provider.

use std::collections::BTreeSet;

use posse::api::timestamp;
use posse::{AgentId, Posse, ProviderWait, Request, RunId};

use crate::error::CliError;
use crate::term;
use crate::text::{clock, now_ms};

/// Characters of an operation or a reason that a list shows.
const SHOWN_MAX_CHARS: usize = 120;

/// From here on a time of day does not say which day's it is.
const FAR_MS: i64 = 12 * 60 * 60 * 1_000;

/// What agents wait for.
#[derive(Debug, Default)]
pub(crate) struct BlockedAgents {
    /// Calls that wait for a person.
    pub(crate) requests: Vec<Request>,
    /// Agents that wait for a provider.
    pub(crate) waits: Vec<ProviderWait>,
}

impl BlockedAgents {
    /// What the agents of a run that goes on wait for.
    pub(crate) async fn of(posse: &Posse, run: &RunId) -> Result<Self, CliError> {
        let (requests, waits) = posse.blocked(run).await?;
        Ok(Self { requests, waits })
    }

    /// These, and those of another run.
    pub(crate) fn add(&mut self, other: Self) {
        self.requests.extend(other.requests);
        self.waits.extend(other.waits);
    }

    /// Everybody who waits.
    pub(crate) fn agents(&self) -> BTreeSet<&AgentId> {
        let asking = self.requests.iter().map(|request| &request.agent);
        asking.chain(self.waits.iter().map(|wait| &wait.agent)).collect()
    }

    /// What an agent waits for, in words for a list; none if it does not.
    pub(crate) fn on(&self, agent: &AgentId) -> Option<String> {
        self.on_person(agent).or_else(|| {
            let wait = self.waits.iter().find(|wait| wait.agent == *agent)?;
            Some(on_provider(&wait.provider, &wait.reason, wait.until_ms))
        })
    }

    fn on_person(&self, agent: &AgentId) -> Option<String> {
        let mut own = self.requests.iter().filter(|request| request.agent == *agent);
        let first = own.next()?;
        let shown: String = first.operation.chars().take(SHOWN_MAX_CHARS).collect();
        let cut = if shown.len() < first.operation.len() { "…" } else { "" };
        let more = match own.count() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let answered = if first.is_answered { " (answered)" } else { "" };
        Some(format!("waits for a person: {}{cut}{more}{answered}", term::visible_line(&shown)))
    }
}

/// That somebody waits for a provider, and until when.
pub(crate) fn on_provider(provider: &str, reason: &str, until_ms: i64) -> String {
    let reason: String = term::line(reason).chars().take(SHOWN_MAX_CHARS).collect();
    let far = until_ms.saturating_sub(now_ms()) > FAR_MS;
    let until = if far { timestamp(until_ms) } else { clock(until_ms) };
    format!("waits for {}: {reason} (until {until})", term::line(provider))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_with_its_reason_and_its_end() {
        let agent: AgentId = "k3f9ab2c.1".parse().expect("id");
        let wait = ProviderWait {
            agent: agent.clone(),
            provider: "acme".to_owned(),
            reason: "slow\u{1b}[2J down".to_owned(),
            until_ms: 0,
        };
        let blocked = BlockedAgents { waits: vec![wait], ..BlockedAgents::default() };
        let told = blocked.on(&agent).expect("it waits");
        assert!(told.starts_with("waits for acme: slow down (until "), "{told}");
        assert_eq!(blocked.on(&"k3f9ab2c.2".parse().expect("id")), None);
        assert_eq!(blocked.agents().len(), 1);
        let tomorrow = on_provider("acme", "slow down", now_ms() + 24 * 60 * 60 * 1_000);
        assert!(tomorrow.ends_with("Z)") && tomorrow.contains("(until 20"), "{tomorrow}");
    }
}
