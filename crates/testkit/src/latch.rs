//! A model that delays its callers until it is opened, to inspect a tree while all agents wait.

use std::sync::Arc;

use futures::future::BoxFuture;
use posse::ports::{Model, ModelFacts, ModelFailure, ModelReply, ModelRequest, StreamSink};
use tokio::sync::{Semaphore, watch};

/// Delays the calls that `holds` selects, and counts them.
pub struct Latch<M> {
    inner: Arc<M>,
    holds: Arc<dyn Fn(&ModelRequest) -> bool + Send + Sync>,
    waiting: watch::Sender<usize>,
    open: Arc<Semaphore>,
}

impl<M: Model> Latch<M> {
    /// A closed latch in front of `inner`.
    pub fn new(inner: M, holds: impl Fn(&ModelRequest) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::new(inner),
            holds: Arc::new(holds),
            waiting: watch::Sender::new(0),
            open: Arc::new(Semaphore::new(0)),
        })
    }

    /// Waits until this many calls wait at the latch.
    pub async fn until_waiting(&self, count: usize) {
        let mut waiting = self.waiting.subscribe();
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(waiting.wait_for(|waiting| *waiting >= count).await);
    }

    /// Lets all callers pass, now and later.
    pub fn open(&self) {
        self.open.close();
    }
}

/// A shared latch as a model.
pub struct LatchedModel<M>(pub Arc<Latch<M>>);

impl<M: Model> Model for LatchedModel<M> {
    fn facts(&self) -> ModelFacts {
        self.0.inner.facts()
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        if !(self.0.holds)(&request) {
            return self.0.inner.call(request, sink);
        }
        let latch = self.0.clone();
        Box::pin(async move {
            latch.waiting.send_modify(|waiting| *waiting += 1);
            // No permit is ever added, so this ends when the latch is opened.
            drop(latch.open.clone().acquire_owned().await);
            latch.inner.call(request, sink).await
        })
    }
}
