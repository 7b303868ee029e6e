//! Permits of the provider queue: waiting for one, holding one, and the timer task.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use posse_engine::ports::Permit;

use super::scheduler::{PermitGrant, QueueStep, Ticket};
use super::{ProviderQueue, Timer};

/// A grant that is returned when it is dropped.
pub(super) struct HeldPermit {
    queue: Arc<ProviderQueue>,
    grant: PermitGrant,
}

impl HeldPermit {
    pub(super) fn new(queue: Arc<ProviderQueue>, grant: PermitGrant) -> Self {
        Self { queue, grant }
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        self.queue.with(|state, now| state.scheduler.give_back(now, &self.grant));
    }
}

/// A position in the queue. Resolves when it is the call's turn. Dropping it leaves the queue, also if a grant has just
/// arrived.
pub(super) struct CallPermit {
    queue: Arc<ProviderQueue>,
    /// `None` after the grant was taken.
    ticket: Option<Ticket>,
}

impl CallPermit {
    pub(super) fn new(queue: Arc<ProviderQueue>, ticket: Ticket) -> Self {
        Self { queue, ticket: Some(ticket) }
    }
}

impl Future for CallPermit {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let Some(ticket) = self.ticket else { return Poll::Pending };
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grant) = state.come.remove(&ticket) {
            drop(state);
            self.ticket = None;
            return Poll::Ready(Permit::holding(HeldPermit::new(self.queue.clone(), grant)));
        }
        state.wakers.insert(ticket, context.waker().clone());
        let starts = state.timer == Timer::Off;
        if starts {
            state.timer = Timer::Until(None);
        }
        // A runtime that shuts down drops a task that is spawned on it at once, and the timer's drop needs the lock.
        drop(state);
        if starts {
            tokio::spawn(TimerTask { queue: self.queue.clone(), ended: false }.run());
        }
        Poll::Pending
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        self.queue.with(|state, now| {
            state.wakers.remove(&ticket);
            if let Some(grant) = state.come.remove(&ticket) {
                state.scheduler.give_back(now, &grant);
            } else {
                state.scheduler.leave(ticket);
            }
        });
    }
}

/// The timer of a queue: sleeps until a call may start, as long as any call waits.
struct TimerTask {
    queue: Arc<ProviderQueue>,
    /// Whether it has ended because no call waits any more.
    ended: bool,
}

impl TimerTask {
    async fn run(mut self) {
        loop {
            let until = match self.queue.poll_permit() {
                QueueStep::Empty => break,
                QueueStep::At(at) => Some(self.queue.origin + at),
                _ => None,
            };
            let changed = self.queue.changed.notified();
            match until {
                // In both cases the state is read again.
                Some(until) => drop(tokio::time::timeout_at(until, changed).await),
                None => changed.await,
            }
        }
        self.ended = true;
    }
}

impl Drop for TimerTask {
    /// If the timer ends with its runtime, calls that wait on another runtime start a new timer.
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.timer = Timer::Off;
        let wakers: Vec<Waker> = state.wakers.drain().map(|(_, waker)| waker).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl ProviderQueue {
    /// Releases the calls that may start, and sets the timer.
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
