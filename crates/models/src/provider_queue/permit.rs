//! Waiting for a turn, holding it, and the timer behind it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use posse_engine::ports::Permit;

use super::gate::{PermitGrant, QueueStep, Ticket};
use super::{ProviderQueue, Timer};

/// A grant that is given back when it is dropped.
pub(super) struct HeldPermit {
    line: Arc<ProviderQueue>,
    grant: PermitGrant,
}

impl HeldPermit {
    pub(super) fn new(line: Arc<ProviderQueue>, grant: PermitGrant) -> Self {
        Self { line, grant }
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        self.line.with(|state, now| state.gate.give_back(now, &self.grant));
    }
}

/// A place in the line. Comes when it is its turn; dropping it gives the place up, also if the turn has just come.
pub(super) struct CallPermit {
    line: Arc<ProviderQueue>,
    /// None once the turn was taken.
    ticket: Option<Ticket>,
}

impl CallPermit {
    pub(super) fn new(line: Arc<ProviderQueue>, ticket: Ticket) -> Self {
        Self { line, ticket: Some(ticket) }
    }
}

impl Future for CallPermit {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let mut state = self.line.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grant) = state.come.remove(&ticket) {
            drop(state);
            self.ticket = None;
            return Poll::Ready(Permit::holding(HeldPermit::new(self.line.clone(), grant)));
        }
        state.wakers.insert(ticket, context.waker().clone());
        let starts = state.timer == Timer::Off;
        if starts {
            state.timer = Timer::Until(None);
        }
        // A runtime that ends drops what is spawned on it at once, and the timer needs the lock then.
        drop(state);
        if starts {
            tokio::spawn(TimerTask { line: self.line.clone(), ended: false }.run());
        }
        Poll::Pending
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.line.with(|state, now| {
            state.wakers.remove(&ticket);
            if let Some(grant) = state.come.remove(&ticket) {
                state.gate.give_back(now, &grant);
            } else {
                state.gate.leave(ticket);
            }
        });
    }
}

/// The timer of a line: sleeps until somebody may go, as long as anybody waits.
struct TimerTask {
    line: Arc<ProviderQueue>,
    /// Whether it has ended because nobody waits any more.
    ended: bool,
}

impl TimerTask {
    async fn run(mut self) {
        loop {
            let until = match self.line.poll_permit() {
                QueueStep::Empty => break,
                QueueStep::At(at) => Some(self.line.origin + at),
                _ => None,
            };
            let changed = self.line.changed.notified();
            match until {
                // However it ends, the next thing is to look again.
                Some(until) => drop(tokio::time::timeout_at(until, changed).await),
                None => changed.await,
            }
        }
        self.ended = true;
    }
}

impl Drop for TimerTask {
    /// If it ends with the runtime that it was started on, those who wait elsewhere start another.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut state = self.line.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.timer = Timer::Off;
        let wakers: Vec<Waker> = state.wakers.drain().map(|(_, waker)| waker).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl ProviderQueue {
    /// Lets those go who may, and sets the timer.
    fn poll_permit(&self) -> QueueStep {
        let mut wake = Vec::new();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.let_go(self.origin.elapsed(), &mut wake);
        state.timer = match next {
            QueueStep::Empty => Timer::Off,
            QueueStep::At(at) => Timer::Until(Some(at)),
            _ => Timer::Until(None),
        };
        drop(state);
        wake.into_iter().for_each(Waker::wake);
        next
    }
}
