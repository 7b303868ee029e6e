//! The queue in front of a provider and key, shared by all agents of the process: limits, pauses and the circuit
//! breaker.
//!
//! [`CallScheduler`] decides, as plain state over times that are passed in. [`ProviderQueue`] puts it behind a lock and
//! hands out the permits. Each change of the state also releases the calls that may start, so a permit costs one lock
//! and one wake-up however many calls wait. One task per queue, which lives while a call waits, is the only timer.

mod breaker;
mod notice;
mod pace;
mod permit;
mod queues;
mod retry;
mod scheduler;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use posse_domain::budget::Usage;
use posse_engine::ports::{Admission, CallSize, Permit, QueuedCall, Retry};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::endpoint::Limits;
use crate::wire::Problem;
use permit::{CallPermit, HeldPermit};
pub use queues::ProviderQueues;
use scheduler::{CallScheduler, PermitGrant, QueueStep, Ticket};

#[derive(Debug)]
pub(crate) struct ProviderQueue {
    provider: Arc<str>,
    /// The origin of all times.
    origin: Instant,
    state: Mutex<State>,
    /// Wakes the timer task to read the state again.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    scheduler: CallScheduler,
    seeds: RandomState,
    drawn: u64,
    /// The wakers of waiting calls.
    wakers: HashMap<Ticket, Waker>,
    /// Grants that no waiting call has taken yet.
    come: HashMap<Ticket, PermitGrant>,
    timer: Timer,
}

/// The state of the queue's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// No timer task is running, because no call waits or none was polled yet.
    Off,
    /// The timer wakes at this time. `None` if it only wakes when notified.
    Until(Option<Duration>),
}

impl ProviderQueue {
    pub(crate) fn new(provider: Arc<str>, limits: Limits) -> Arc<Self> {
        let state = State {
            scheduler: CallScheduler::new(limits),
            seeds: RandomState::new(),
            drawn: 0,
            wakers: HashMap::new(),
            come: HashMap::new(),
            timer: Timer::Off,
        };
        Arc::new(Self { provider, origin: Instant::now(), state: Mutex::new(state), changed: Notify::new() })
    }

    /// Requests a permit for a call of this size.
    pub(crate) fn admit(self: &Arc<Self>, size: CallSize) -> Admission {
        let tokens = size.input_tokens.saturating_add(size.output_tokens);
        let asked = self.with(|state, now| {
            let asked = state.scheduler.ask(now, tokens);
            asked.map_err(|ticket| (ticket, state.scheduler.foreseen(now)))
        });
        match asked {
            Ok(grant) => Admission::Go(Permit::holding(HeldPermit::new(self.clone(), grant))),
            Err((ticket, (cause, expected))) => Admission::Wait(QueuedCall {
                turn: Box::pin(CallPermit::new(self.clone(), ticket)),
                notice: notice::of(cause, expected),
            }),
        }
    }

    /// Records that an answer has begun, so the provider works. [`ProviderQueue::succeeded`] or
    /// [`ProviderQueue::failed`] records its end.
    pub(crate) fn answering(&self) {
        self.with(|state, now| state.scheduler.answering(now));
    }

    /// Records an answered call with its usage, if that is known.
    pub(crate) fn succeeded(&self, usage: Option<&Usage>) {
        let closed = self.with(|state, now| {
            if let Some(usage) = usage {
                state.scheduler.used(now, usage.tokens());
            }
            state.scheduler.answered(now)
        });
        if closed {
            tracing::info!(provider = %self.provider, "it answers again");
        }
    }

    /// Records a failed call for all callers. Returns when a retry of this call may succeed. `call` is its number in
    /// its turn, from 1.
    pub(crate) fn failed(&self, problem: &Problem, call: u32) -> Option<Retry> {
        let (opened, retry) = self.with(|state, now| {
            if let Some(usage) = &problem.usage {
                state.scheduler.used(now, usage.tokens());
            }
            let (everybody, own) = (state.chance(), state.chance());
            let opened = state.scheduler.failed(now, problem.kind, call, everybody);
            (opened, retry::retry(problem.kind, call, own))
        });
        if opened {
            tracing::warn!(provider = %self.provider, "it does not answer; calls to it are paused");
        }
        retry
    }

    /// Changes the state, then releases all calls that may start.
    fn with<R>(&self, change: impl FnOnce(&mut State, Duration) -> R) -> R {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.origin.elapsed();
        let result = change(&mut state, now);
        let mut wake = Vec::new();
        let next = state.let_go(now, &mut wake);
        let look_again = match state.timer {
            Timer::Off => false,
            Timer::Until(at) => match next {
                QueueStep::At(next) => at.is_none_or(|at| next < at),
                QueueStep::Empty => true,
                _ => false,
            },
        };
        drop(state);
        if look_again {
            self.changed.notify_one();
        }
        // After the lock is released, because a released call may request another permit at once.
        wake.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    /// Releases the calls that may start, and returns the next step.
    fn let_go(&mut self, now: Duration, wake: &mut Vec<Waker>) -> QueueStep {
        loop {
            match self.scheduler.next(now) {
                QueueStep::Go(ticket, grant) => {
                    self.come.insert(ticket, grant);
                    wake.extend(self.wakers.remove(&ticket));
                }
                next => return next,
            }
        }
    }

    /// A random number from 0 (inclusive) to 1 (exclusive).
    fn chance(&mut self) -> f64 {
        self.drawn = self.drawn.wrapping_add(1);
        let [.., a, b, c, d] = self.seeds.hash_one(self.drawn).to_le_bytes();
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}
