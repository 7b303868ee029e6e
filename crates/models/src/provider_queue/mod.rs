//! The line in front of a provider and key, shared by all agents of the process: limits, pauses and the breaker.
//!
//! [`gate::Gate`] decides, as plain state over times that are passed in. [`ProviderQueue`] puts it behind a lock and hands the
//! turns out: whoever changes the state lets those go that may, so that a turn costs one lock and one wake-up however
//! many wait. One task per line, alive while anybody waits, is the only timer.

mod breaker;
mod gate;
mod notice;
mod pace;
mod permit;
mod queues;
mod retry;

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
use gate::{Gate, PermitGrant, QueueStep, Ticket};
use permit::{CallPermit, HeldPermit};
pub(crate) use queues::ProviderQueues;

/// The line in front of one provider and key.
#[derive(Debug)]
pub(crate) struct ProviderQueue {
    provider: Arc<str>,
    /// Times are counted from here.
    origin: Instant,
    state: Mutex<State>,
    /// Tells the timer that it is to look again.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    gate: Gate,
    seeds: RandomState,
    drawn: u64,
    /// Whom to wake when its turn comes.
    wakers: HashMap<Ticket, Waker>,
    /// Turns that have come and were not taken yet.
    come: HashMap<Ticket, PermitGrant>,
    timer: Timer,
}

/// What the line's timer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// There is none: nobody waits, or nobody has begun to.
    Off,
    /// It wakes at this time; without one, only when told.
    Until(Option<Duration>),
}

impl ProviderQueue {
    /// A line with nobody in it.
    pub(crate) fn new(provider: Arc<str>, limits: Limits) -> Arc<Self> {
        let state = State {
            gate: Gate::new(limits),
            seeds: RandomState::new(),
            drawn: 0,
            wakers: HashMap::new(),
            come: HashMap::new(),
            timer: Timer::Off,
        };
        Arc::new(Self { provider, origin: Instant::now(), state: Mutex::new(state), changed: Notify::new() })
    }

    /// Asks for leave to make a call of this size.
    pub(crate) fn admit(self: &Arc<Self>, size: CallSize) -> Admission {
        let tokens = size.input_tokens.saturating_add(size.output_tokens);
        let asked = self.with(|state, now| {
            let asked = state.gate.ask(now, tokens);
            asked.map_err(|ticket| (ticket, state.gate.foreseen(now)))
        });
        match asked {
            Ok(grant) => Admission::Go(Permit::holding(HeldPermit::new(self.clone(), grant))),
            Err((ticket, (cause, expected))) => Admission::Wait(QueuedCall {
                turn: Box::pin(CallPermit::new(self.clone(), ticket)),
                notice: notice::of(cause, expected),
            }),
        }
    }

    /// An answer has begun: the provider is there. Whether all of it comes is for [`ProviderQueue::succeeded`] and
    /// [`ProviderQueue::failed`] to say.
    pub(crate) fn answering(&self) {
        self.with(|state, now| state.gate.answering(now));
    }

    /// A call was answered, and cost so much, if that is known.
    pub(crate) fn succeeded(&self, usage: Option<&Usage>) {
        let closed = self.with(|state, now| {
            if let Some(usage) = usage {
                state.gate.used(now, usage.tokens());
            }
            state.gate.answered(now)
        });
        if closed {
            tracing::info!(provider = %self.provider, "it answers again");
        }
    }

    /// A call failed: what everybody is to know of it, and when the same call may be worth making again. `call` is its
    /// number in its turn, from 1.
    pub(crate) fn failed(&self, problem: &Problem, call: u32) -> Option<Retry> {
        let (opened, retry) = self.with(|state, now| {
            if let Some(usage) = &problem.usage {
                state.gate.used(now, usage.tokens());
            }
            let (everybody, own) = (state.chance(), state.chance());
            let opened = state.gate.failed(now, problem.kind, call, everybody);
            (opened, retry::retry(problem.kind, call, own))
        });
        if opened {
            tracing::warn!(provider = %self.provider, "it does not answer; nobody calls it for now");
        }
        retry
    }

    /// Changes the state, then lets everybody go who may.
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
        // After the lock: whoever wakes may ask at once.
        wake.into_iter().for_each(Waker::wake);
        result
    }
}

impl State {
    /// Lets those go who may, and says what happens next.
    fn let_go(&mut self, now: Duration, wake: &mut Vec<Waker>) -> QueueStep {
        loop {
            match self.gate.next(now) {
                QueueStep::Go(ticket, grant) => {
                    self.come.insert(ticket, grant);
                    wake.extend(self.wakers.remove(&ticket));
                }
                next => return next,
            }
        }
    }

    /// A number from 0 up to but without 1.
    fn chance(&mut self) -> f64 {
        self.drawn = self.drawn.wrapping_add(1);
        let [.., a, b, c, d] = self.seeds.hash_one(self.drawn).to_le_bytes();
        f64::from(u32::from_le_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
    }
}
