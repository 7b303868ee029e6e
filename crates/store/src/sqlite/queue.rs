//! The queue of requests in front of the writer. Requests are written in the order of their arrival.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use posse_engine::ports::StoreError;

use super::options::QUEUE_MAX_REQUESTS;
use super::request::Request;

#[derive(Debug, Default)]
pub(super) struct Queue {
    line: Mutex<QueueState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    requests: VecDeque<Request>,
    /// The number of requests for which the writer sleeps. `None` if it is awake. Waking it costs more than a push, so
    /// callers wake it only when there are enough.
    sleeps_for: Option<usize>,
    /// Set when the queue accepts no more requests.
    closed: Option<StoreError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeReason {
    Work,
    /// No request arrived in the given time.
    Idle,
    /// The queue is closed and empty.
    Closed,
}

impl Queue {
    fn line(&self) -> MutexGuard<'_, QueueState> {
        // A panic elsewhere leaves the queue valid, because every change to it is atomic.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a request. If the queue is closed or full, refuses it at once.
    pub(super) fn push(&self, request: Request) {
        let mut line = self.line();
        let refusal = match &line.closed {
            Some(reason) => Some(reason.clone()),
            None if line.requests.len() >= QUEUE_MAX_REQUESTS => {
                Some(StoreError::Failed(format!("{QUEUE_MAX_REQUESTS} commits wait for the disk already")))
            }
            None => None,
        };
        if let Some(error) = refusal {
            drop(line);
            request.refuse(error);
            return;
        }
        line.requests.push_back(request);
        if line.sleeps_for.is_some_and(|enough| line.requests.len() >= enough) {
            line.sleeps_for = None;
            self.wake.notify_one();
        }
    }

    /// Sleeps until there is work, or for `idle`.
    pub(super) fn wait(&self, idle: Duration) -> WakeReason {
        let line = self.sleep(1, idle);
        match (line.requests.is_empty(), &line.closed) {
            (false, _) => WakeReason::Work,
            (true, Some(_)) => WakeReason::Closed,
            (true, None) => WakeReason::Idle,
        }
    }

    /// Sleeps until `enough` requests are queued, or for `at_most`.
    pub(super) fn linger(&self, enough: usize, at_most: Duration) {
        drop(self.sleep(enough, at_most));
    }

    fn sleep(&self, enough: usize, at_most: Duration) -> MutexGuard<'_, QueueState> {
        let until = Instant::now() + at_most;
        let mut line = self.line();
        while line.requests.len() < enough && line.closed.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            line.sleeps_for = Some(enough);
            (line, _) = self.wake.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner);
        }
        line.sleeps_for = None;
        line
    }

    /// Moves all queued requests to `requests`.
    pub(super) fn take_all(&self, requests: &mut VecDeque<Request>) {
        requests.append(&mut self.line().requests);
    }

    /// Closes the queue for new requests. Queued requests stay.
    pub(super) fn close(&self, reason: StoreError) {
        let mut line = self.line();
        line.closed.get_or_insert(reason);
        self.wake.notify_all();
    }

    /// Closes the queue for new requests and refuses the queued ones.
    pub(super) fn fail(&self, reason: &StoreError) {
        self.close(reason.clone());
        let refused = std::mem::take(&mut self.line().requests);
        for request in refused {
            request.refuse(reason.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;
    use posse_engine::ports::{RunKey, TenantId};
    use tokio::sync::oneshot;

    use super::*;

    fn request(epoch: u64) -> (Request, oneshot::Receiver<Result<(), StoreError>>) {
        let (answer, heard) = oneshot::channel();
        let key = RunKey { tenant: TenantId::local(), run: RunId::from_random(1) };
        (Request::Release(key, epoch, answer), heard)
    }

    #[test]
    fn jobs_leave_in_the_order_they_came() {
        let queue = Queue::default();
        let mut heard = Vec::new();
        for epoch in 0..10 {
            let (request, answer) = request(epoch);
            queue.push(request);
            heard.push(answer);
        }
        assert_eq!(queue.wait(Duration::ZERO), WakeReason::Work);
        let mut requests = VecDeque::new();
        queue.take_all(&mut requests);
        let epochs: Vec<u64> = requests
            .iter()
            .map(|request| if let Request::Release(_, epoch, _) = request { *epoch } else { 99 })
            .collect();
        assert_eq!(epochs, (0..10).collect::<Vec<_>>());
        assert_eq!(queue.wait(Duration::ZERO), WakeReason::Idle);
    }

    #[test]
    fn a_closed_line_is_emptied_and_takes_no_more() {
        let queue = Queue::default();
        let (first, _heard) = request(1);
        queue.push(first);
        queue.close(StoreError::Failed("over".to_owned()));
        let (late, mut refused) = request(2);
        queue.push(late);
        assert_eq!(refused.try_recv().unwrap(), Err(StoreError::Failed("over".to_owned())));
        assert_eq!(queue.wait(Duration::ZERO), WakeReason::Work);
        queue.take_all(&mut VecDeque::new());
        assert_eq!(queue.wait(Duration::ZERO), WakeReason::Closed);
    }

    #[test]
    fn the_writer_is_woken_once_there_is_enough() {
        let queue = std::sync::Arc::new(Queue::default());
        let writer = {
            let queue = queue.clone();
            std::thread::spawn(move || {
                queue.linger(3, Duration::from_mins(1));
                let mut requests = VecDeque::new();
                queue.take_all(&mut requests);
                requests.len()
            })
        };
        for epoch in 0..3 {
            queue.push(request(epoch).0);
        }
        assert_eq!(writer.join().unwrap(), 3);
    }
}
