//! Decides for the file desk in which order children's changes are merged into an agent's files, as a pure state
//! machine.
//!
//! Each agent has one [`MergeQueue`] for its files. The queue records the current users of the files (the agent's own
//! changes share them, while snapshots, merges and updates need exclusive access), the next child, and the progress of
//! the current integration. It takes facts and decides on the next effect but executes nothing, so tests can try every
//! order of ends, failures, cancels and crashes without a file.
//!
//! Children with a change are integrated by rank within their group. A child that fails or leaves frees its position at
//! once. The foreground children of one reply are a group, and so are the steps of a plan. A background child is its
//! own group, and no foreground child ever waits for it.
//!
//! Why it is like this: `docs/decisions/integration-order.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often a child's checks are repeated because its parent's files changed while they ran. After that, the checks
/// run with exclusive access to the files.
pub const RECHECKS_MAX: u32 = 3;

/// Children whose integrations have a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Plan,
    /// The foreground children that one reply requested.
    Reply(Arc<str>),
    /// A single child: a background child, or a step of a plan that merges steps in the order in which they finish.
    Alone(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    pub group: Group,
    /// The rank of the child within its group. A lower rank is merged first.
    pub rank: u32,
    /// Whether the parent waits for the child.
    pub foreground: bool,
}

/// The next operation of the driver. The driver starts each effect once, and applies a [`Fact`] when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeEffect {
    /// Commit the agent's files.
    Snapshot,
    /// Check the child's change against the gate, and merge it.
    Merge(u32),
    /// Run the child's command criteria on the merged tree.
    Check(u32),
    /// Stop the checks of this child, because a foreground child is merged first.
    StopCheck(u32),
    /// Journal the merge of this child, then write it to the parent's files.
    Update(u32),
    /// Accept this child, because its merge does not change the parent's files.
    Accept(u32),
}

/// An event that changes the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A child was created that may need integration.
    Enqueued(u32, QueuePosition),
    /// This child leaves the queue: it failed, was cancelled, has no change, or is integrated.
    Left(u32),
    /// The plan step with this rank is not created yet. Steps with a higher rank wait for it.
    PlanWaitsFrom(Option<u32>),
    /// A child has ended its work and waits for its integration.
    Ready {
        child: u32,
        /// Whether the child has command criteria.
        checks: bool,
        /// Whether the merge is already journalled and must only be written to the parent's files.
        merged: bool,
    },
    /// A new child needs a snapshot of the files to start from.
    SnapshotRequested,
    /// The agent has begun to change its files itself.
    ChangeBegan,
    /// A change by the agent has ended.
    ChangeEnded,
    Began(MergeEffect),
    /// A snapshot was taken (true) or failed (false).
    SnapshotTaken(bool),
    /// The merge commit for this child exists and is not journalled yet.
    Merged {
        child: u32,
        /// Whether the merged files equal the parent's files.
        same: bool,
    },
    Checked(u32),
    /// The checks of this child were stopped before their end.
    CheckStopped(u32),
    /// The parent's files have the changes of this child.
    Updated(u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MergeWait {
    checks: bool,
    merged: bool,
    rechecks: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Free,
    Merging(u32),
    /// The merge exists, and its checks have not started.
    Merged {
        child: u32,
        at: u64,
        same: bool,
    },
    Checking {
        child: u32,
        at: u64,
        same: bool,
        alone: bool,
    },
    /// The checks passed. The merge can be written to the files if they have not changed since the merge.
    Passed {
        child: u32,
        at: u64,
        same: bool,
        alone: bool,
    },
    Updating(u32),
}

/// The queue of merges into the files of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeQueue {
    /// Incremented with every change of the files.
    generation: u64,
    /// The generation of the files in the newest snapshot.
    snapshot: Option<u64>,
    snapshotting: bool,
    snapshot_requested: bool,
    changing: u32,
    positions: BTreeMap<u32, QueuePosition>,
    /// The children in the queue, by group, as (rank, child).
    groups: BTreeMap<Group, BTreeSet<(u32, u32)>>,
    waiting: BTreeMap<u32, MergeWait>,
    /// The rank of the first plan step that is not created yet. Later steps wait for it.
    due: Option<u32>,
    stage: Stage,
    stopping: bool,
}

impl MergeQueue {
    /// An empty queue. `unchanged` states that the files equal their last snapshot.
    pub fn new(unchanged: bool) -> Self {
        Self {
            generation: 0,
            snapshot: unchanged.then_some(0),
            snapshotting: false,
            snapshot_requested: false,
            changing: 0,
            positions: BTreeMap::new(),
            groups: BTreeMap::new(),
            waiting: BTreeMap::new(),
            due: None,
            stage: Stage::Free,
            stopping: false,
        }
    }

    /// Whether the newest snapshot equals the current files.
    pub fn is_snapshot(&self) -> bool {
        self.snapshot == Some(self.generation) && self.changing == 0
    }

    /// Whether no snapshot and no integration is under way.
    pub fn is_quiet(&self) -> bool {
        !self.snapshotting && matches!(self.stage, Stage::Free)
    }

    /// Whether the agent may begin to change its files now. It may not while another operation has exclusive access or
    /// waits for it. Otherwise a busy agent could make its children wait for ever.
    pub fn may_change(&self) -> bool {
        !self.is_alone() && !self.wants_alone()
    }

    /// Whether the merge of this child is being written to the files. It can no longer be rejected.
    pub fn is_updating(&self, child: u32) -> bool {
        self.stage == Stage::Updating(child)
    }

    /// Whether a snapshot, a merge, a check or an update has exclusive access to the files.
    pub fn is_alone(&self) -> bool {
        self.snapshotting
            || match self.stage {
                Stage::Free | Stage::Merged { .. } | Stage::Passed { alone: false, .. } => false,
                Stage::Checking { alone, .. } => alone,
                Stage::Merging(_) | Stage::Updating(_) | Stage::Passed { alone: true, .. } => true,
            }
    }

    fn wants_alone(&self) -> bool {
        let wants_snapshot = self.snapshot_requested && !self.is_snapshot();
        wants_snapshot
            || match self.stage {
                Stage::Free => self.next_child().is_some(),
                Stage::Passed { .. } | Stage::Merged { .. } => true,
                _ => false,
            }
    }

    /// The child to integrate next, by rank: first children whose merge is journalled, then foreground children, then
    /// the others.
    fn next_child(&self) -> Option<u32> {
        let first = |child: &u32| {
            let position = self.positions.get(child)?;
            let next = self.groups.get(&position.group)?.first()?;
            let behind = position.group == Group::Plan && self.due.is_some_and(|due| due < position.rank);
            (next.1 == *child && !behind).then_some(position)
        };
        let order = |(child, waiting): (&u32, &MergeWait)| {
            let position = first(child).filter(|_| !waiting.merged).cloned();
            match (waiting.merged, position) {
                (true, _) => Some(((false, false, Group::Alone(0), 0), *child)),
                (false, Some(position)) => {
                    Some(((true, !position.foreground, position.group, position.rank), *child))
                }
                (false, None) => None,
            }
        };
        self.waiting.iter().filter_map(order).min().map(|(_, child)| child)
    }

    /// The effect to start next. `None` if nothing can start now.
    pub fn decide(&self) -> Option<MergeEffect> {
        let free = self.changing == 0 && !self.snapshotting;
        let stale = self.snapshot != Some(self.generation);
        match &self.stage {
            Stage::Free => {
                if !free {
                    return None;
                }
                match self.next_child() {
                    Some(child) if self.waiting[&child].merged => Some(MergeEffect::Update(child)),
                    Some(_) if stale => Some(MergeEffect::Snapshot),
                    Some(child) => Some(MergeEffect::Merge(child)),
                    None => (self.snapshot_requested && stale).then_some(MergeEffect::Snapshot),
                }
            }
            Stage::Merging(_) | Stage::Updating(_) => None,
            Stage::Merged { child, .. } => Some(MergeEffect::Check(*child)),
            Stage::Checking { child, alone, .. } => {
                let overtaken = !self.stopping
                    && self.next_child().is_some_and(|next| {
                        next != *child && self.is_foreground(next) && !self.is_foreground(*child)
                    });
                if overtaken {
                    return Some(MergeEffect::StopCheck(*child));
                }
                (self.snapshot_requested && stale && free && !alone).then_some(MergeEffect::Snapshot)
            }
            Stage::Passed { child, same, .. } => {
                if *same {
                    return Some(MergeEffect::Accept(*child));
                }
                free.then_some(MergeEffect::Update(*child))
            }
        }
    }

    fn is_foreground(&self, child: u32) -> bool {
        self.positions.get(&child).is_some_and(|position| position.foreground)
    }

    pub fn apply(&mut self, fact: Fact) {
        match fact {
            Fact::Enqueued(child, position) => {
                self.groups.entry(position.group.clone()).or_default().insert((position.rank, child));
                self.positions.insert(child, position);
            }
            Fact::Left(child) => self.leave(child),
            Fact::Ready { child, checks, merged } => {
                self.waiting.insert(child, MergeWait { checks, merged, rechecks: 0 });
            }
            Fact::PlanWaitsFrom(due) => self.due = due,
            Fact::SnapshotRequested => self.snapshot_requested = true,
            Fact::ChangeBegan => {
                self.changing += 1;
                self.generation += 1;
            }
            Fact::ChangeEnded => self.changing = self.changing.saturating_sub(1),
            Fact::Began(action) => self.begin(action),
            Fact::SnapshotTaken(taken) => {
                self.snapshotting = false;
                self.snapshot_requested = false;
                if taken {
                    self.snapshot = Some(self.generation);
                }
            }
            Fact::Merged { child, same } if self.stage == Stage::Merging(child) => {
                let at = self.generation;
                self.stage = if self.waiting.get(&child).is_some_and(|waiting| waiting.checks) {
                    Stage::Merged { child, at, same }
                } else {
                    Stage::Passed { child, at, same, alone: true }
                };
            }
            Fact::Checked(child) => self.checked(child),
            Fact::CheckStopped(child) => {
                if matches!(self.stage, Stage::Checking { child: checking, .. } if checking == child) {
                    self.stage = Stage::Free;
                    self.stopping = false;
                }
            }
            Fact::Updated(child) if self.stage == Stage::Updating(child) => {
                // The files now equal the merge commit, which serves as their snapshot.
                self.generation += 1;
                self.snapshot = Some(self.generation);
                self.stage = Stage::Free;
                self.leave(child);
            }
            Fact::Merged { .. } | Fact::Updated(_) => {}
        }
    }

    fn begin(&mut self, action: MergeEffect) {
        match (action, self.stage.clone()) {
            (MergeEffect::Snapshot, _) => self.snapshotting = true,
            (MergeEffect::Merge(child), _) => self.stage = Stage::Merging(child),
            (MergeEffect::Update(child), _) => self.stage = Stage::Updating(child),
            (MergeEffect::Check(_), Stage::Merged { child, at, same }) => {
                let rechecks = self.waiting.get(&child).map_or(0, |waiting| waiting.rechecks);
                let alone = rechecks >= RECHECKS_MAX;
                self.stage = Stage::Checking { child, at, same, alone };
            }
            (MergeEffect::StopCheck(_), _) => self.stopping = true,
            (MergeEffect::Accept(child), _) => {
                self.stage = Stage::Free;
                self.leave(child);
            }
            (MergeEffect::Check(_), _) => {}
        }
    }

    fn checked(&mut self, child: u32) {
        let Stage::Checking { child: checking, at, same, alone } = self.stage else { return };
        if checking != child {
            return;
        }
        self.stopping = false;
        if at == self.generation {
            self.stage = Stage::Passed { child, at, same, alone };
            return;
        }
        // The files changed while the checks ran, so the checked merge is outdated.
        self.stage = Stage::Free;
        if let Some(waiting) = self.waiting.get_mut(&child) {
            waiting.rechecks += 1;
        }
    }

    fn leave(&mut self, child: u32) {
        self.waiting.remove(&child);
        if let Some(position) = self.positions.remove(&child)
            && let Some(group) = self.groups.get_mut(&position.group)
        {
            group.remove(&(position.rank, child));
            if group.is_empty() {
                self.groups.remove(&position.group);
            }
        }
        let under_way = match self.stage {
            Stage::Free => None,
            Stage::Merging(child) | Stage::Updating(child) => Some(child),
            Stage::Merged { child, .. } | Stage::Checking { child, .. } | Stage::Passed { child, .. } => {
                Some(child)
            }
        };
        if under_way == Some(child) {
            self.stage = Stage::Free;
            self.stopping = false;
        }
    }
}

#[cfg(test)]
mod tests;
