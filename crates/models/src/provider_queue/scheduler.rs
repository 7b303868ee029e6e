//! Decides which call may start next: the whole state of a provider queue. Times and random numbers are passed in, and
//! nothing waits here.

use std::collections::BTreeMap;
use std::time::Duration;

use super::breaker::{Breaker, BreakerOpening};
use super::pace::{Pace, SlowStart};
use super::retry::{pause, with_jitter};
use crate::endpoint::Limits;
use crate::wire::ProblemKind;

/// Estimated duration of a call before any call has ended.
const CALL_AT_FIRST: Duration = Duration::from_secs(5);
/// The latest call has this fraction of the weight in the mean.
const MEAN_SHARE: u32 = 8;

#[derive(Debug)]
pub(super) struct CallScheduler {
    limits: Limits,
    calls: Option<Pace>,
    tokens: Option<Pace>,
    under_way: u32,
    /// Calls whose actual token usage is known, and whose grants are not returned yet.
    settled: u32,
    pause: Pause,
    slow: SlowStart,
    breaker: Breaker,
    /// Mean duration of a call.
    mean: Duration,
    /// The waiting calls in order of arrival, with their tokens. The number of agents limits it, because each waits for
    /// one call.
    queue: BTreeMap<Ticket, u64>,
    queued_tokens: u64,
    last: Ticket,
}

/// A position in the queue. Later tickets are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

/// The permit for one call. It must be returned with [`CallScheduler::give_back`].
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PermitGrant {
    tokens: u64,
    /// Whether it is the trial call of an open breaker.
    trial: bool,
    since: Duration,
}

/// The next step of the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueueStep {
    /// The first call in the queue may start.
    Go(Ticket, PermitGrant),
    /// No call may start before this time.
    At(Duration),
    /// No call may start before another one ends.
    WhenOneEnds,
    Empty,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pause {
    until: Duration,
    asked: Duration,
    why: PauseReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PauseReason {
    /// The provider's rate limit was exceeded.
    Rate,
    /// The usage limit of the account is exhausted.
    Usage,
    /// The provider is failing, and stated when to retry.
    Unwell,
}

/// The reason why a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The breaker, after this many failures in a row.
    Breaker(u32),
    /// A pause that the provider requested.
    Pause(PauseReason, Duration),
    /// The slow start after such a pause.
    SlowStart,
    /// The user's limit of calls a minute.
    Calls(u32),
    /// The user's limit of tokens a minute.
    Tokens(u64),
    /// The user's limit of concurrent calls.
    Concurrent(u32),
}

enum NextFree {
    At(Duration),
    WhenOneEnds,
}

impl CallScheduler {
    /// A scheduler without waiting calls.
    pub(super) fn new(limits: Limits) -> Self {
        // Settings refuse a limit of zero. If one comes all the same, a slow queue is better than one that hangs.
        let concurrent = limits.concurrent.map(|most| most.max(1));
        Self {
            limits: Limits { concurrent, ..limits },
            calls: limits.requests_per_minute.map(Pace::of_calls),
            tokens: limits.tokens_per_minute.map(Pace::of_tokens),
            under_way: 0,
            settled: 0,
            pause: Pause { until: Duration::ZERO, asked: Duration::ZERO, why: PauseReason::Rate },
            slow: SlowStart::default(),
            breaker: Breaker::new(),
            mean: CALL_AT_FIRST,
            queue: BTreeMap::new(),
            queued_tokens: 0,
            last: Ticket(0),
        }
    }

    /// Requests a permit for a call: a grant if the call may start now, or else a ticket in the queue.
    pub(super) fn ask(&mut self, now: Duration, tokens: u64) -> Result<PermitGrant, Ticket> {
        if self.queue.is_empty() && self.is_free(now, tokens) {
            return Ok(self.grant(now, tokens));
        }
        self.last.0 += 1;
        self.queue.insert(self.last, tokens);
        self.queued_tokens = self.queued_tokens.saturating_add(tokens);
        Err(self.last)
    }

    /// Lets the first call in the queue start, if it may.
    pub(super) fn next(&mut self, now: Duration) -> QueueStep {
        let Some((&ticket, &tokens)) = self.queue.first_key_value() else { return QueueStep::Empty };
        match self.free(tokens) {
            NextFree::At(at) if at <= now => {
                self.leave(ticket);
                QueueStep::Go(ticket, self.grant(now, tokens))
            }
            NextFree::At(at) => QueueStep::At(at),
            NextFree::WhenOneEnds => QueueStep::WhenOneEnds,
        }
    }

    /// Removes a ticket from the queue. Returns whether it was still there.
    pub(super) fn leave(&mut self, ticket: Ticket) -> bool {
        let left = self.queue.remove(&ticket);
        self.queued_tokens = self.queued_tokens.saturating_sub(left.unwrap_or(0));
        left.is_some()
    }

    /// Takes back the grant of a call that has ended or was never made.
    pub(super) fn give_back(&mut self, now: Duration, grant: &PermitGrant) {
        self.under_way = self.under_way.saturating_sub(1);
        if grant.trial {
            self.breaker.trial_ended(now);
        }
        let took = now.saturating_sub(grant.since);
        self.mean = (self.mean * (MEAN_SHARE - 1) + took) / MEAN_SHARE;
        // A call with known usage has paid for it already. Any other call keeps its reserved tokens, which may have
        // been used.
        if self.settled > 0 {
            self.settled -= 1;
            if let Some(pace) = &mut self.tokens {
                pace.put_back(grant.tokens);
            }
        }
    }

    /// Charges the tokens that a call has used. Its reserved tokens are returned with its grant.
    pub(super) fn used(&mut self, now: Duration, tokens: u64) {
        if let Some(pace) = &mut self.tokens
            && self.settled < self.under_way
        {
            self.settled += 1;
            pace.take(now, tokens);
        }
    }

    pub(super) fn answering(&mut self, now: Duration) {
        if self.breaker.record_answer_begun() {
            self.start_slowly(now);
        }
    }

    /// Records an answered call. Returns whether that closed the breaker.
    pub(super) fn answered(&mut self, now: Duration) -> bool {
        let closed = self.breaker.record_answer();
        if closed {
            self.start_slowly(now);
        }
        closed
    }

    /// Records a failed call. Returns whether that opened the breaker.
    pub(super) fn failed(&mut self, now: Duration, kind: ProblemKind, call: u32, chance: f64) -> bool {
        let opened = match kind {
            ProblemKind::Unwell { .. } | ProblemKind::Unreachable | ProblemKind::Cut => {
                self.breaker.record_failure(now, chance)
            }
            // A server answered, but not necessarily the provider; or there is none.
            ProblemKind::Foreign | ProblemKind::NoServer => false,
            // Whatever the error is, the provider answers.
            _ => {
                self.answered(now);
                false
            }
        };
        let why = match kind {
            ProblemKind::UsageLimit { .. } => PauseReason::Usage,
            ProblemKind::Unwell { .. } => PauseReason::Unwell,
            _ => PauseReason::Rate,
        };
        if let Some(asked) = pause(kind, call) {
            self.pause(now, Pause { until: now + with_jitter(asked, chance), asked, why });
        }
        opened
    }

    fn pause(&mut self, now: Duration, pause: Pause) {
        if pause.until > self.pause.until {
            self.pause = pause;
        }
        self.slow.after_pause(now, self.pause.until);
    }

    fn start_slowly(&mut self, now: Duration) {
        self.slow.start(now, now.max(self.pause.until));
    }

    fn is_free(&self, now: Duration, tokens: u64) -> bool {
        matches!(self.free(tokens), NextFree::At(at) if at <= now)
    }

    /// When a call with this many tokens may start, if it is the first in the queue.
    fn free(&self, tokens: u64) -> NextFree {
        if self.limits.concurrent.is_some_and(|most| self.under_way >= most) {
            return NextFree::WhenOneEnds;
        }
        let BreakerOpening::At(opening) = self.breaker.opening() else { return NextFree::WhenOneEnds };
        let calls = self.calls.as_ref().map_or(Duration::ZERO, |pace| pace.free_at(1));
        let tokens = self.tokens.as_ref().map_or(Duration::ZERO, |pace| pace.free_at(tokens));
        NextFree::At(opening.max(self.pause.until).max(self.slow.free_at()).max(calls).max(tokens))
    }

    fn grant(&mut self, now: Duration, tokens: u64) -> PermitGrant {
        self.under_way += 1;
        self.slow.take(now);
        if let Some(pace) = &mut self.calls {
            pace.take(now, 1);
        }
        if let Some(pace) = &mut self.tokens {
            pace.take(now, tokens);
        }
        PermitGrant { tokens, trial: self.breaker.take(), since: now }
    }

    /// Why the last call in the queue waits, and how long, as far as that can be estimated.
    pub(super) fn foreseen(&self, now: Duration) -> (Cause, Duration) {
        let waiting = self.queue.len();
        let held = self.held_until(now);
        let from = held.map_or(now, |(_, until)| until.max(now));
        let slow = from.max(self.slow.free_at()).saturating_sub(now)
            + self.slow.time_of(from, waiting.saturating_sub(1));
        let mut longest = (Cause::SlowStart, slow);
        let mut longer = |cause, wait: Duration| {
            if wait > longest.1 {
                longest = (cause, wait);
            }
        };
        if let Some((pace, most)) = self.calls.as_ref().zip(self.limits.requests_per_minute) {
            let rest = pace.time_of(waiting.saturating_sub(1) as u64);
            longer(Cause::Calls(most), pace.free_at(1).saturating_add(rest).saturating_sub(now));
        }
        if let Some((pace, most)) = self.tokens.as_ref().zip(self.limits.tokens_per_minute) {
            longer(Cause::Tokens(most), pace.free_at(self.queued_tokens).saturating_sub(now));
        }
        if let Some(most) = self.limits.concurrent {
            let rounds = (waiting + self.under_way as usize).saturating_sub(1) / most as usize;
            let rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
            longer(Cause::Concurrent(most), self.mean.saturating_mul(rounds));
        }
        // Reports the cause that stops all calls, whatever follows it.
        match held {
            Some((cause, _)) => (cause, longest.1),
            None => longest,
        }
    }

    /// The cause that stops all calls, and until when.
    fn held_until(&self, now: Duration) -> Option<(Cause, Duration)> {
        let paused = (self.pause.until > now)
            .then_some((Cause::Pause(self.pause.why, self.pause.asked), self.pause.until));
        let open = self.breaker.is_open().then(|| {
            let until = match self.breaker.opening() {
                BreakerOpening::At(until) => until,
                BreakerOpening::AfterTrial => now + self.mean,
            };
            (Cause::Breaker(self.breaker.failures()), until)
        });
        [paused, open].into_iter().flatten().max_by_key(|(_, until)| *until)
    }
}
