//! The log of the mock server: requests and their times.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::request::WireFormat;

/// Limit of logged requests. Later ones are only counted.
const LOG_MAX: usize = 1_000_000;

#[derive(Debug, Clone)]
pub struct LogEntry {
    /// The number of the request, from 1.
    pub number: u64,
    /// The arrival of its last byte, since the server's start.
    pub at: Duration,
    /// The format. `None` for anything except a model call.
    pub wire_format: Option<WireFormat>,
    pub path: String,
    /// The headers, if bodies are kept.
    pub headers: Vec<(String, String)>,
    /// The body, if bodies are kept.
    pub body: Vec<u8>,
    /// The status of its answer, or 0 if it has none.
    pub status: u16,
    /// How and when its answer ended. `None` while it is being sent.
    pub ended: Option<(Duration, Outcome)>,
}

impl LogEntry {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A header by its name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value.as_str()))
    }

    /// Without its body, for a line of the log.
    pub(super) fn line(&self) -> Value {
        json!({
            "number": self.number,
            "at_us": u64::try_from(self.at.as_micros()).unwrap_or(u64::MAX),
            "path": self.path,
            "status": self.status,
            "ended_us": self.ended.map(|(at, _)| u64::try_from(at.as_micros()).unwrap_or(u64::MAX)),
            "outcome": self.ended.map(|(_, outcome)| format!("{outcome:?}").to_lowercase()),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The answer was sent completely.
    Sent,
    /// The server aborted the answer, as its reply source decided.
    Broken,
    /// The client disconnected first.
    Left,
}

#[derive(Debug)]
pub(super) struct Log {
    began: Instant,
    entries: Mutex<Vec<LogEntry>>,
    changed: Condvar,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), entries: Mutex::default(), changed: Condvar::new() }
    }

    /// A poisoned log is still valid: the panic was reported already.
    fn entries(&self) -> MutexGuard<'_, Vec<LogEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn arrived(&self, logged: LogEntry) {
        let mut entries = self.entries();
        if entries.len() < LOG_MAX {
            entries.push(logged);
        }
        drop(entries);
        self.changed.notify_all();
    }

    /// Changes the entry with this number.
    fn change(&self, number: u64, change: impl FnOnce(&mut LogEntry)) {
        let mut entries = self.entries();
        if let Ok(at) = entries.binary_search_by_key(&number, |logged| logged.number) {
            change(&mut entries[at]);
        }
        drop(entries);
        self.changed.notify_all();
    }

    pub(super) fn answered(&self, number: u64, status: u16) {
        self.change(number, |logged| logged.status = status);
    }

    pub(super) fn ended(&self, number: u64, outcome: Outcome) {
        let now = self.now();
        self.change(number, |logged| logged.ended = Some((now, outcome)));
    }

    pub(super) fn all(&self) -> Vec<LogEntry> {
        self.entries().clone()
    }

    /// Waits until the log satisfies `enough`. Returns whether it did in time.
    pub(super) fn wait(&self, patience: Duration, enough: impl Fn(&[LogEntry]) -> bool) -> bool {
        let until = Instant::now() + patience;
        let mut entries = self.entries();
        loop {
            if enough(&entries) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            entries = self.changed.wait_timeout(entries, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
