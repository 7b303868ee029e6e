//! Agents that wait for the provider of their model.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse_domain::event::{EventBody, EventKind, ProviderWaitStarted};
use posse_domain::id::AgentId;
use posse_domain::printable;

use super::{ViewEvent, ViewPart};
use crate::api::timestamp;

/// Longest reason in the words about a wait.
const REASON_MAX_CHARS: usize = 120;
/// How much of that is the end of a longer reason.
const REASON_END_CHARS: usize = 20;

/// A wait that ends later than this is shown with its date, because a time of day would be ambiguous.
const FAR_MS: i64 = 12 * 60 * 60 * 1_000;

/// An agent that waits for the provider of its model: for a limit, or because the provider does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderWait {
    /// The waiting agent.
    pub agent: AgentId,
    /// The provider's name.
    pub provider: String,
    /// Why it waits, as the provider or the client states it.
    pub reason: String,
    /// When the wait is expected to end, in milliseconds since 1970.
    pub until_ms: i64,
}

impl ProviderWait {
    /// The wait of an agent that starts with this event.
    pub fn new(agent: &AgentId, started: &ProviderWaitStarted) -> Self {
        let ProviderWaitStarted { provider, reason, until_ms } = started;
        Self { agent: agent.clone(), provider: provider.clone(), reason: reason.clone(), until_ms: *until_ms }
    }

    /// The wait with its reason and its end as of `now_ms`, in one line without control characters. A time of day is in
    /// the reader's time zone.
    pub fn words(&self, now_ms: i64, zone: &TimeZone) -> String {
        let reason = shortened(&printable::line(&self.reason));
        let is_far = self.until_ms.saturating_sub(now_ms) > FAR_MS;
        let until = if is_far { timestamp(self.until_ms) } else { time_of_day(self.until_ms, zone) };
        format!("waits for {}: {reason} (until {until})", printable::line(&self.provider))
    }
}

/// A reason of limited length. A long one keeps its end, which has the number of the retry.
fn shortened(reason: &str) -> String {
    let length = reason.chars().count();
    if length <= REASON_MAX_CHARS {
        return reason.to_owned();
    }
    let start: String = reason.chars().take(REASON_MAX_CHARS - REASON_END_CHARS).collect();
    let end: String = reason.chars().skip(length - REASON_END_CHARS + 1).collect();
    format!("{start}…{end}")
}

/// A time of day in this time zone, with milliseconds.
pub fn time_of_day(at_ms: i64, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or(Timestamp::UNIX_EPOCH);
    at.to_zoned(zone.clone()).strftime("%H:%M:%S%.3f").to_string()
}

/// The agents that wait for a provider, at most one wait for each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ProviderWaits(BTreeMap<AgentId, ProviderWait>);

impl ProviderWaits {
    /// The wait of this agent, if it waits.
    pub fn of(&self, agent: &AgentId) -> Option<&ProviderWait> {
        self.0.get(agent)
    }

    /// All waits, in the order of the agents' ids.
    pub fn iter(&self) -> impl Iterator<Item = &ProviderWait> {
        self.0.values()
    }
}

impl ViewPart for ProviderWaits {
    fn needs(&self, kind: EventKind) -> bool {
        let ends_wait = kind == EventKind::ProviderWaitEnded || kind.ends_run();
        kind == EventKind::ProviderWaitStarted || (ends_wait && !self.0.is_empty())
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        match event.body {
            EventBody::ProviderWaitStarted(e) => {
                self.0.insert(event.agent.clone(), ProviderWait::new(event.agent, e));
            }
            EventBody::ProviderWaitEnded(_) => {
                self.0.remove(event.agent);
            }
            body if EventKind::from(body).ends_run() => self.0.clear(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_described_with_its_reason_and_its_end() {
        let agent: AgentId = "aaaaaaaa.1".parse().expect("an agent");
        let wait = |until_ms| {
            let (provider, reason) = ("acme".to_owned(), "slow\u{1b}[2J down".to_owned());
            ProviderWait::new(&agent, &ProviderWaitStarted { provider, reason, until_ms })
        };
        let hour_ms = 60 * 60 * 1_000;
        let east = TimeZone::fixed(jiff::tz::offset(2));
        let soon = wait(12 * hour_ms).words(0, &east);
        assert_eq!(soon, "waits for acme: slow down (until 14:00:00.000)");
        let long = format!("{}, retry 3 of 29", "slow ".repeat(40));
        assert_eq!(shortened(&long).chars().count(), REASON_MAX_CHARS);
        assert!(shortened(&long).ends_with(", retry 3 of 29"), "{}", shortened(&long));
        let tomorrow = wait(24 * hour_ms).words(0, &east);
        assert_eq!(tomorrow, "waits for acme: slow down (until 1970-01-02T00:00:00.000Z)");
    }
}
