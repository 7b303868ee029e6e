//! The limits of the server. Each has a name, and is part of the OpenAPI document where a client can meet it.

use std::time::Duration;

/// Connections that are open at the same time. More wait until one is closed.
pub(super) const CONNECTIONS_MAX: usize = 1_024;
/// Streams that are open at the same time; the other connections stay free for requests.
pub(super) const STREAMS_MAX: usize = 768;
/// Requests of one token: so many at once,
pub(super) const REQUESTS_BURST: f64 = 1_000.0;
/// and then so many each second.
pub(super) const REQUESTS_PER_SECOND: f64 = 500.0;
/// Requests of one token that are being answered at the same time: as many as it may have streams, which all begin anew
/// when a server has been started again.
pub(super) const REQUESTS_OF_TOKEN_MAX: usize = STREAMS_OF_TOKEN_MAX;
/// Streams of one token that are open at the same time.
pub(super) const STREAMS_OF_TOKEN_MAX: usize = 640;
/// Bodies that one token sends at the same time.
pub(super) const BODIES_OF_TOKEN_MAX: usize = 32;
/// Tokens whose use is counted; those that are not used are forgotten first.
pub(super) const TOKENS_COUNTED_MAX: usize = 2_048;
/// Runs that are followed for the webhook at the same time.
pub(super) const WEBHOOK_RUNS_MAX: usize = 1_000;
/// Messages that are sent to the webhook at the same time.
pub(super) const WEBHOOK_SENDS_MAX: usize = 8;
/// How often new runs are looked for, for the webhook.
pub(super) const WEBHOOK_POLL: Duration = Duration::from_secs(2);
/// How many of the newest runs are looked at then. If all of them are new, all runs are.
pub(super) const WEBHOOK_NEW_RUNS: u32 = 50;
/// How long the server waits before it sends a message again; each time twice as long,
pub(super) const WEBHOOK_PAUSE_FIRST: Duration = Duration::from_secs(1);
/// up to this.
pub(super) const WEBHOOK_PAUSE_MAX: Duration = Duration::from_mins(5);
/// Runs that are exported at the same time.
pub(super) const EXPORTS_MAX: usize = 2;
/// Tenants whose runs a server has opened. Each has connections of its own to the database.
pub(super) const TENANTS_MAX: usize = 64;
/// Runs that this process executes at the same time.
pub(super) const RUNS_MAX: usize = 64;

/// How long a client may take to agree on TLS.
pub(super) const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// The line and the headers of a request.
pub(super) const HEADERS_MAX_BYTES: usize = 16 * 1024;
/// How many headers a request has.
pub(super) const HEADERS_MAX: usize = 64;
/// What is read of them at most. A request with more than that gets no problem document: it is not read to its end.
pub(super) const READ_HEADERS_MAX_BYTES: usize = 2 * HEADERS_MAX_BYTES;
/// The same, for their number.
pub(super) const READ_HEADERS_MAX: usize = 2 * HEADERS_MAX;
/// How long a client may take to send the headers of its next request.
pub(super) const HEADERS_TIMEOUT: Duration = Duration::from_secs(30);
/// The body of a request: the longest task with the longest context fits.
pub(super) const BODY_MAX_BYTES: usize = 2 * posse::REQUEST_MAX_BYTES + 64 * 1024;
/// How long a client may take to send a body.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may not read what is written to it. Then its connection is closed, and it can resume.
pub(super) const WRITE_STALL: Duration = Duration::from_mins(1);
/// How often a stream without news shows that it is open.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// How much of a journal is put into one piece of a stream.
pub(super) const PIECE_MAX_BYTES: usize = 64 * 1024;

/// How much of the newest events of a run is kept for all clients that follow it,
pub(super) const FEED_MAX_BYTES: usize = 4 * 1024 * 1024;
/// and how much of all runs.
pub(super) const FEEDS_MAX_BYTES: usize = 16 * 1024 * 1024;
/// How many events before the newest one a feed begins with, if its first client has not read them.
pub(super) const FEED_PAST_EVENTS_MAX: u64 = 2_000;

/// How long a browser stays logged in to the page.
pub(super) const SESSION_LIFETIME: Duration = Duration::from_hours(30 * 24);

/// Runs on a page, unless a client says how many.
pub(super) const RUNS_PAGE: u64 = 50;
/// The most runs on a page.
pub(super) const RUNS_PAGE_MAX: u64 = 500;
/// Limit of runs that are searched for those of a page.
pub(super) const RUNS_SEARCHED_MAX: u32 = 10_000;
/// How many runs may start while a page is made, without a run of the page being missed.
pub(super) const RUNS_MEANWHILE_MAX: u32 = 64;
/// Limit of runs in the sums of all runs.
pub(super) const RUNS_COUNTED_MAX: u32 = 10_000;
/// Events on a page, unless a client says how many.
pub(super) const EVENTS_PAGE: u64 = 100;
/// The most events on a page.
pub(super) const EVENTS_PAGE_MAX: u64 = 1_000;
/// A page ends after the event that makes it longer than this.
pub(super) const EVENTS_PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Events that are looked at for one page, whether the filters leave them out or not.
pub(super) const EVENTS_LOOKED_AT_MAX: u64 = 20_000;

/// Entries of a conversation on a page, unless a client says how many.
pub(super) const CONVERSATION_PAGE: u64 = 100;
/// The most entries of a conversation on a page.
pub(super) const CONVERSATION_PAGE_MAX: u64 = 1_000;
/// Entries of the audit log, unless a client says how many.
pub(super) const AUDIT_PAGE: u64 = 100;
/// The most entries of the audit log.
pub(super) const AUDIT_PAGE_MAX: u64 = 1_000;
/// How much of a bundle is in one piece of a response.
pub(super) const BUNDLE_PIECE_BYTES: usize = 64 * 1024;

/// How long a browser remembers what pages of a named origin may send.
pub(super) const PREFLIGHT_LIFETIME: Duration = Duration::from_mins(10);

/// An idempotency key.
pub(super) const KEY_MAX_BYTES: usize = 128;
/// Idempotency keys that are remembered with their answers. Those of started runs are in the journal.
pub(super) const KEYS_MAX: usize = 1_024;
/// Limit of runs that are searched for an idempotency key, the newest first.
pub(super) const KEYED_RUNS_MAX: u32 = 10_000;

/// How long requests that have begun may take once the server drains.
pub(super) const DRAIN_PATIENCE: Duration = Duration::from_secs(5);
/// How long a run may take to stop once the server drains. Its journal is complete at every moment.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(10);
