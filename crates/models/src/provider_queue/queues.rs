//! The provider queues of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use posse_domain::hash::Hash;

use super::ProviderQueue;
use crate::endpoint::{Endpoint, Key};

/// The provider queues of a process: one for each provider, base URL and key, because providers limit by these.
///
/// Clones share the queues. A process with several registries gives each of them a clone, so that a pause, a limit or
/// the circuit breaker of a provider applies to the calls of all of them.
#[derive(Debug, Clone, Default)]
pub struct ProviderQueues(Arc<Mutex<HashMap<Hash, Arc<ProviderQueue>>>>);

impl ProviderQueues {
    /// The queue of an endpoint, with the limits of its first caller.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Arc<ProviderQueue> {
        // Only a hash of the key is stored.
        let key = endpoint.key.as_ref().map_or("", Key::secret);
        let name = Hash::of_parts([&endpoint.provider, &endpoint.base_url, key].map(str::as_bytes));
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues
            .entry(name)
            .or_insert_with(|| ProviderQueue::new(endpoint.provider.as_str().into(), endpoint.limits));
        queue.clone()
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
    fn a_base_url_and_a_key_have_one_queue_in_every_clone() {
        let queues = ProviderQueues::default();
        let first = queues.of(&endpoint("http://a", "secret"));
        assert!(Arc::ptr_eq(&first, &queues.of(&endpoint("http://a", "secret"))));
        assert!(Arc::ptr_eq(&first, &queues.clone().of(&endpoint("http://a", "secret"))));
        for other in [endpoint("http://b", "secret"), endpoint("http://a", "other"), endpoint("http://a", "")]
        {
            assert!(!Arc::ptr_eq(&first, &queues.of(&other)), "{other:?}");
        }
        assert!(!format!("{queues:?}").contains("secret"));
    }
}
