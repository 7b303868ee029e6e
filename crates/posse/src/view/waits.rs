//! Agents that wait for the provider of their model.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posse_domain::event::{EventBody, EventKind, ProviderWaitStarted};
use posse_domain::id::AgentId;
use posse_domain::printable;

use super::{ViewEvent, ViewPart};

/// Longest reason in the words about a wait.
const REASON_MAX_CHARS: usize = 120;
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

    /// The wait with its reason and its end as of `now_ms`, in one line without control characters. The time of day is in
    /// the reader's time zone.
    pub fn words(&self, now_ms: i64, zone: &TimeZone) -> String {
        let is_far = self.until_ms.saturating_sub(now_ms) > FAR_MS;
        let form = if is_far { "%Y-%m-%d %H:%M" } else { "%H:%M:%S" };
        let at = Timestamp::from_millisecond(self.until_ms).unwrap_or(Timestamp::UNIX_EPOCH);
        let at = at.to_zoned(zone.clone()).strftime(form).to_string();
        self.words_with(&format!("at {at}"), &format!("until {at}"))
    }

    /// The same for a view that is drawn again and again: how long it still waits.
    pub fn words_now(&self, now_ms: i64) -> String {
        // Rounded up: the wait is not over as long as it is shown.
        let seconds = self.until_ms.saturating_sub(now_ms).max(0).saturating_add(999) / 1_000;
        let left = match seconds {
            0..60 => format!("{seconds} s"),
            60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
            _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        };
        self.words_with(&format!("in {left}"), &format!("for {left}"))
    }

    /// What happened, the retry and its time first, and then the words of the provider, which may be long.
    fn words_with(&self, retry_at: &str, waits_until: &str) -> String {
        let reason = printable::line(&self.reason);
        let (reason, retry) = match reason.rsplit_once(", retry ") {
            Some((reason, retry)) => (reason, format!(", retry {retry} {retry_at}")),
            None => (reason.as_str(), format!(", {waits_until}")),
        };
        let (what, more) = reason.split_once(": ").unwrap_or((reason, ""));
        let what = first_words(what, REASON_MAX_CHARS);
        let left = REASON_MAX_CHARS.saturating_sub(what.chars().count());
        let more = if more.is_empty() { String::new() } else { format!(": {}", first_words(more, left)) };
        format!("waits for {}: {what}{retry}{more}", printable::line(&self.provider))
    }
}

/// The first words of a text, at most this many characters of it.
fn first_words(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let start: String = text.chars().take(most.saturating_sub(1)).collect();
    let whole = start.rsplit_once(' ').map_or(start.as_str(), |(words, _)| words);
    format!("{}…", whole.trim_end_matches([',', ';', ' ']))
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
        assert_eq!(soon, "waits for acme: slow down, until 14:00:00");
        let tomorrow = wait(24 * hour_ms).words(0, &east);
        assert_eq!(tomorrow, "waits for acme: slow down, until 1970-01-02 02:00");
        assert_eq!(wait(90_001).words_now(0), "waits for acme: slow down, for 1 min 31 s");
    }

    #[test]
    fn a_retry_is_named_before_the_words_of_the_provider_which_are_cut_between_words() {
        let agent: AgentId = "aaaaaaaa.1".parse().expect("an agent");
        let wait = |reason: String| {
            ProviderWait::new(
                &agent,
                &ProviderWaitStarted { provider: "acme".to_owned(), reason, until_ms: 3_500 },
            )
        };
        let limited = wait("rate limited (429): nope, retry 3 of 29".to_owned());
        let utc = TimeZone::UTC;
        assert_eq!(limited.words_now(0), "waits for acme: rate limited (429), retry 3 of 29 in 4 s: nope");
        assert_eq!(
            limited.words(0, &utc),
            "waits for acme: rate limited (429), retry 3 of 29 at 00:00:03: nope"
        );
        assert_eq!(
            limited.words_now(9_000),
            "waits for acme: rate limited (429), retry 3 of 29 in 0 s: nope"
        );
        let long = wait(format!("rate limited (429): {}, retry 3 of 29", "slow down ".repeat(40).trim_end()));
        let words = long.words_now(0);
        assert!(words.ends_with(" slow down…") || words.ends_with(" slow…"), "{words}");
        assert!(
            words.starts_with("waits for acme: rate limited (429), retry 3 of 29 in 4 s: slow down "),
            "{words}"
        );
        assert!(words.chars().count() < 190, "{words}");
    }
}
