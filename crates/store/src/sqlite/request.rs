//! The requests to the writer, and their replies.

use posse_engine::ports::{Claim, Commit, CommitReceipt, Epoch, Head, RunKey, StoreError};
use tokio::sync::oneshot;

/// The channel for an answer. If the caller gives up, its commit still counts.
pub(super) type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// One request. It is executed whole or not at all.
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
    /// The part of a group's limit that the request uses.
    pub(super) fn weight(&self) -> usize {
        match self {
            Request::Commit(commit, _) => commit.events.len().max(1),
            _ => 1,
        }
    }

    /// Answers that the request was not executed.
    pub(super) fn refuse(self, error: StoreError) {
        // The caller may have given up.
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

/// An outcome that is sent when its group is durable, or an error if the group failed.
pub(super) type Reply = Box<dyn FnOnce(Option<StoreError>)>;

/// The error of a request in a failed group. The cause of the failure replaces it.
pub(super) fn not_reached() -> StoreError {
    StoreError::Failed("the group of commits failed".to_owned())
}

/// Delays `outcome` until the outcome of the group is known.
pub(super) fn hold_back<T: 'static>(answer: Answer<T>, outcome: Result<T, StoreError>) -> Reply {
    Box::new(move |failure| drop(answer.send(failure.map_or(outcome, Err))))
}
