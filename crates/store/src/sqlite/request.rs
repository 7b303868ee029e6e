//! What the writer is asked to do.

use posse_engine::ports::{Claim, Commit, CommitReceipt, Epoch, Head, RunKey, StoreError};
use tokio::sync::oneshot;

/// Where an answer goes. Nobody may be there to hear it: a caller can give up, its commit still counts.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// One request. Each is carried out whole or not at all.
#[derive(Debug)]
pub(super) enum Request {
    Commit(Box<Commit>, Answer<CommitReceipt>),
    Claim(RunKey, Answer<Claim>),
    Heartbeat(RunKey, Epoch, Answer<()>),
    Release(RunKey, Epoch, Answer<()>),
    Post(RunKey, String, Answer<u64>),
    Remove(RunKey, Answer<Head>),
}

impl Request {
    /// How much of a group it takes.
    pub(super) fn weight(&self) -> usize {
        match self {
            Request::Commit(commit, _) => commit.events.len().max(1),
            _ => 1,
        }
    }

    /// Answers that it was not done.
    pub(super) fn refuse(self, error: StoreError) {
        // A caller that no longer listens is not told.
        match self {
            Request::Commit(_, answer) => drop(answer.send(Err(error))),
            Request::Claim(_, answer) => drop(answer.send(Err(error))),
            Request::Post(_, _, answer) => drop(answer.send(Err(error))),
            Request::Remove(_, answer) => drop(answer.send(Err(error))),
            Request::Heartbeat(_, _, answer) | Request::Release(_, _, answer) => {
                drop(answer.send(Err(error)));
            }
        }
    }
}

/// An outcome that may be told once its group is durable, or an error if the group failed.
pub(super) type Reply = Box<dyn FnOnce(Option<StoreError>)>;

/// What a request in a group that failed would hear, if it were not told why the group failed.
pub(super) fn not_reached() -> StoreError {
    StoreError::Failed("the group of commits failed".to_owned())
}

/// Holds `outcome` back until the fate of the group is known.
pub(super) fn hold_back<T: 'static>(answer: Answer<T>, outcome: Result<T, StoreError>) -> Reply {
    Box::new(move |failure| drop(answer.send(failure.map_or(outcome, Err))))
}
