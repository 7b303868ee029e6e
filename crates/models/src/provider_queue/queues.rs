//! The lines of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use posse_domain::hash::Hash;

use super::ProviderQueue;
use crate::endpoint::{Endpoint, Key};

/// The lines of a process: one for each provider, place and key, because that is what providers limit.
#[derive(Debug, Default)]
pub(crate) struct ProviderQueues(Mutex<HashMap<Hash, Arc<ProviderQueue>>>);

impl ProviderQueues {
    /// The line in front of an endpoint. Its limits are those of whoever came first.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Arc<ProviderQueue> {
        // Only a hash of the key is kept.
        let key = endpoint.key.as_ref().map_or("", Key::secret);
        let name = Hash::of_parts([&endpoint.provider, &endpoint.base_url, key].map(str::as_bytes));
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = lines
            .entry(name)
            .or_insert_with(|| ProviderQueue::new(endpoint.provider.as_str().into(), endpoint.limits));
        line.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Format, Limits, ToolCalls};

    fn endpoint(base_url: &str, key: &str) -> Endpoint {
        Endpoint {
            provider: "acme".into(),
            format: Format::Chat,
            base_url: base_url.into(),
            key: (!key.is_empty()).then(|| Key::new(key, "ACME_API_KEY")),
            limits: Limits::default(),
            tools: ToolCalls::Native,
        }
    }

    #[test]
    fn a_place_and_a_key_have_one_line() {
        let lines = ProviderQueues::default();
        let first = lines.of(&endpoint("http://a", "secret"));
        assert!(Arc::ptr_eq(&first, &lines.of(&endpoint("http://a", "secret"))));
        for other in [endpoint("http://b", "secret"), endpoint("http://a", "other"), endpoint("http://a", "")]
        {
            assert!(!Arc::ptr_eq(&first, &lines.of(&other)), "{other:?}");
        }
        assert!(!format!("{lines:?}").contains("secret"));
    }
}
