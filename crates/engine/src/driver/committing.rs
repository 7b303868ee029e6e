//! Collects the decisions of a round for the driver. They are applied to the state at once and handed to the store as
//! one commit. Their effects start when that commit is durable.

use std::collections::{BTreeSet, VecDeque};

use futures::future::BoxFuture;
use posse_domain::event::Event;
use posse_domain::id::AgentId;

use super::Stop;
use super::core::Core;
use super::effects::Effect;
use crate::ports::{Basis, Commit, CommitReceipt, Epoch, StoreError};

/// Limit of commits that the store has received and that are not yet durable.
const COMMITS_IN_FLIGHT_MAX: usize = 4;
/// A batch with at least this many events is handed to the store before the end of the round. A reply with many calls
/// therefore makes several commits.
const COMMIT_TARGET_EVENTS: usize = 1_024;

/// The decisions of a round that the store has not received yet.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    pub(crate) touched: BTreeSet<AgentId>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) run_changed: bool,
    pub(crate) mail_taken: Option<u64>,
}

impl Batch {
    /// Whether the batch must be handed to the store before the end of the round.
    pub(crate) fn is_full(&self) -> bool {
        self.events.len() >= COMMIT_TARGET_EVENTS
    }
}

/// A commit that is not yet durable, and the effects that may start once it is.
struct InFlight {
    commit: BoxFuture<'static, Result<CommitReceipt, StoreError>>,
    effects: Vec<Effect>,
}

/// The commits of a run: the end of its journal, and the commits that are not yet durable.
pub(super) struct Commits {
    /// The epoch of the lease. `None` before the first commit of a new run.
    pub(super) epoch: Option<Epoch>,
    head: u64,
    in_flight: VecDeque<InFlight>,
}

impl Commits {
    pub(super) fn new(epoch: Option<Epoch>, head: u64) -> Self {
        Self { epoch, head, in_flight: VecDeque::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether the store may receive another commit.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.len() < COMMITS_IN_FLIGHT_MAX
    }

    /// Hands the batch to the store as one commit. Returns effects that need not wait for any commit.
    pub(super) fn submit(&mut self, core: &mut Core) -> Vec<Effect> {
        if core.stop.is_some() {
            return Vec::new();
        }
        if core.batch.events.is_empty() && core.batch.mail_taken.is_none() {
            let effects = std::mem::take(&mut core.batch.effects);
            let Some(last) = self.in_flight.back_mut() else { return effects };
            last.effects.extend(effects);
            return Vec::new();
        }
        let Batch { events, touched, effects, run_changed, mail_taken } = std::mem::take(&mut core.batch);
        core.rt.parts.faults.hit("engine.commit.before");
        let count = events.len() as u64;
        let mut blobs = Vec::new();
        let agents = core.projection.rows(&core.run, with_ancestors(touched));
        let encoded: Result<Vec<_>, _> = events.into_iter().map(|event| event.encode(&mut blobs)).collect();
        let encoded = match encoded {
            Ok(encoded) => encoded,
            Err(error) => {
                core.stop = Some(Stop::Inconsistent(error.to_string()));
                return Vec::new();
            }
        };
        let basis = match self.epoch {
            None => Basis::New,
            Some(epoch) => Basis::Held { head: self.head, epoch },
        };
        // The first commit of a new run acquires epoch 1. Later commits may be handed over before it is durable.
        self.epoch.get_or_insert(1);
        let run = run_changed.then(|| core.projection.run_row(&core.run));
        let commit = Commit { key: core.key.clone(), basis, events: encoded, blobs, agents, run, mail_taken };
        self.head += count;
        self.in_flight.push_back(InFlight { commit: core.rt.parts.store.commit(commit), effects });
        Vec::new()
    }

    /// Waits for the oldest commit. Returns the effects that may start because it is durable.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<Effect>, StoreError>> {
        let result = (&mut self.in_flight.front_mut()?.commit).await;
        let done = self.in_flight.pop_front()?;
        Some(result.map(|_| done.effects))
    }
}

/// Adds all ancestors. The spending of an agent counts in the figures of every subtree that contains it.
fn with_ancestors(touched: BTreeSet<AgentId>) -> BTreeSet<AgentId> {
    let mut all = touched.clone();
    for id in touched {
        let mut above = id.parent();
        // If an ancestor is in the set already, its own ancestors are added in its own iteration.
        while let Some(next) = above.filter(|next| !all.contains(next)) {
            above = next.parent();
            all.insert(next);
        }
    }
    all
}
