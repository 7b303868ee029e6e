//! Describes what blocked agents wait for, at the user's time and in their time zone.

use jiff::tz::TimeZone;
use posse::AgentId;
use posse::view::{BlockedAgents, ProviderWait};

use crate::text::now_ms;

/// What an agent waits for, for a list; `None` if it is not blocked.
pub(crate) fn words(blocked: &BlockedAgents, agent: &AgentId) -> Option<String> {
    blocked.of(agent).map(|on| on.words(now_ms(), &TimeZone::system()))
}

/// A wait for a provider, with its reason and its end.
pub(crate) fn on_provider(wait: &ProviderWait) -> String {
    wait.words(now_ms(), &TimeZone::system())
}
