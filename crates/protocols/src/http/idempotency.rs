//! Repeated requests: a request with an idempotency key takes effect once, and its repetitions get the same answer.
//!
//! The newest keys are kept in memory. The key of a started run is also in the run's journal, because a client that
//! repeats such a request after the server was killed must not start a second run.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::OnceCell;

use super::limits::KEY_MAX_BYTES;
use super::problem::{Problem, ProblemCode};

/// The header with the key.
pub(super) const HEADER: &str = "Idempotency-Key";
/// The beginning of the session of a run that was started with a key.
const SESSION: &str = "http";
/// How much of a hash is part of a session.
const HASH_CHARS: usize = 32;

/// A key with a summary of the request that it was sent with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestKey {
    key: String,
    /// A hash of the method, the path and the body.
    request: String,
}

impl RequestKey {
    /// The key of a request, if it has one. The keys of other tokens have nothing to do with it.
    pub(super) fn of(
        headers: &HeaderMap,
        token: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Option<Self>, Problem> {
        let mut given = headers.get_all(HEADER).iter();
        let Some(key) = given.next() else { return Ok(None) };
        let wrong = |detail: String| Problem::parameter(HEADER, detail);
        if given.next().is_some() {
            return Err(wrong("the header is given twice".to_owned()));
        }
        let key = key.to_str().ok().filter(|key| (1..=KEY_MAX_BYTES).contains(&key.len()));
        let key = key.ok_or_else(|| {
            wrong(format!("expected 1 to {KEY_MAX_BYTES} letters, digits and other printable characters"))
        })?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(path.as_bytes()).update(b"\0").update(body);
        // A token's name has no space.
        Ok(Some(Self { key: format!("{token} {key}"), request: short(&hasher.finalize()) }))
    }

    /// The session of a run that is started with this key.
    pub(super) fn session(&self) -> String {
        format!("{}{}", self.session_prefix(), self.request)
    }

    /// Whether a run was started with this key: `Some(true)` by the same request.
    pub(super) fn started(&self, session: Option<&str>) -> Option<bool> {
        let request = session?.strip_prefix(&self.session_prefix())?;
        Some(request == self.request)
    }

    fn session_prefix(&self) -> String {
        format!("{SESSION}:{}:", short(&blake3::hash(self.key.as_bytes())))
    }

    /// The problem with a key that was used for another request.
    pub(super) fn conflict() -> Problem {
        let detail = "the key was used for another request; nothing was done";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::KeyConflict, detail)
            .field(HEADER)
            .remedy("use a new key for every request that is not a repetition")
    }
}

fn short(hash: &blake3::Hash) -> String {
    hash.to_hex()[..HASH_CHARS].to_owned()
}

/// An answer that is kept for repetitions.
#[derive(Debug, Clone)]
pub(super) struct KeptReply {
    pub(super) status: StatusCode,
    pub(super) content: HeaderValue,
    pub(super) body: Bytes,
}

/// An answer, once there is one. A repetition that arrives before waits for it.
pub(super) type ReplySlot = Arc<OnceCell<KeptReply>>;

/// The newest keys with their answers.
pub(super) struct Keys {
    known: Mutex<KnownKeys>,
    max: usize,
}

#[derive(Default)]
struct KnownKeys {
    slots: HashMap<String, (String, ReplySlot)>,
    /// The oldest first.
    order: VecDeque<String>,
}

impl Keys {
    pub(super) fn new(max: usize) -> Self {
        Self { known: Mutex::default(), max }
    }

    /// Where the answer of a request is kept.
    pub(super) fn slot(&self, key: &RequestKey) -> Result<ReplySlot, Problem> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((request, slot)) = known.slots.get(&key.key) {
            return if *request == key.request { Ok(Arc::clone(slot)) } else { Err(RequestKey::conflict()) };
        }
        while known.order.len() >= self.max {
            let oldest = known.order.pop_front();
            oldest.and_then(|oldest| known.slots.remove(&oldest));
        }
        let slot = ReplySlot::default();
        known.slots.insert(key.key.clone(), (key.request.clone(), Arc::clone(&slot)));
        known.order.push_back(key.key.clone());
        Ok(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, body: &str) -> RequestKey {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, key.parse().expect("a value"));
        RequestKey::of(&headers, "ci", "/path", body.as_bytes()).expect("a key").expect("a key")
    }

    #[test]
    fn a_key_stands_for_one_request() {
        let keys = Keys::new(2);
        let slot = keys.slot(&key("a", "one")).expect("new");
        assert!(Arc::ptr_eq(&slot, &keys.slot(&key("a", "one")).expect("known")));
        assert_eq!(keys.slot(&key("a", "two")).expect_err("another").code, ProblemCode::KeyConflict);
        keys.slot(&key("b", "")).expect("new");
        keys.slot(&key("c", "")).expect("new");
        let anew = keys.slot(&key("a", "one")).expect("the oldest was forgotten");
        assert!(!Arc::ptr_eq(&slot, &anew));
    }

    #[test]
    fn the_session_of_a_run_tells_its_key_and_its_request() {
        let first = key("a", "one");
        assert_eq!(first.started(Some(&first.session())), Some(true));
        assert_eq!(key("a", "two").started(Some(&first.session())), Some(false));
        assert_eq!(key("b", "one").started(Some(&first.session())), None);
        assert_eq!(first.started(None), None);
        assert_eq!(first.started(Some("another front end")), None);
    }

    #[test]
    fn the_keys_of_two_tokens_are_different_keys() {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, "a".parse().expect("a value"));
        let of = |token| RequestKey::of(&headers, token, "/", b"").expect("a key").expect("a key");
        assert_ne!(of("one"), of("two"));
        assert_eq!(of("two").started(Some(&of("one").session())), None);
    }

    #[test]
    fn a_request_has_at_most_one_key_of_limited_length() {
        let of = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HEADER, value.parse().expect("a value"));
            }
            RequestKey::of(&headers, "ci", "/", b"").map(|key| key.is_some())
        };
        assert_eq!(of(&[]), Ok(false));
        assert_eq!(of(&["a"]), Ok(true));
        for wrong in [&["a", "a"][..], &[""], &[&"a".repeat(KEY_MAX_BYTES + 1)]] {
            assert_eq!(of(wrong).expect_err("wrong").field.as_deref(), Some(HEADER));
        }
    }
}
