//! The order in which the work of an agent's children comes together, as a pure machine.
//!
//! A [`MergeQueue`] belongs to the files of one agent. It knows who holds them (the agent's own changes share them;
//! snapshots, merges and updates need them alone), whose turn it is, and how far the integration under way has come.
//! It decides on what to do next and is told what happened; it does nothing itself, so that every order of finishing,
//! failing, cancelling and crashing can be tried without a file.
//!
//! Order: children with a change integrate by rank within their group, and a child that fails or leaves frees its
//! place at once. A group is what one reply asked for in the foreground, or the steps of a plan; a background child
//! is a group of its own, and never keeps a foreground one waiting.
//!
//! Why it is like this: `docs/decisions/integration-order.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often the checks of a child are run anew because its parent's files moved meanwhile, before the files are
/// held while they run.
pub const RECHECKS_MAX: u32 = 3;

/// Children whose integrations have a fixed order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The steps of a plan.
    Plan,
    /// What one reply asked for, in the foreground.
    Reply(Arc<str>),
    /// A child by itself: in the background, or of a plan that merges as steps finish.
    Alone(u32),
}

/// A child's place in the order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    /// Its group.
    pub group: Group,
    /// Its rank in the group.
    pub rank: u32,
    /// Whether its parent waits for it.
    pub foreground: bool,
}

/// What to do next. Each is begun once, and told of when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeEffect {
    /// Commit the agent's files.
    Snapshot,
    /// Gate and merge the child's change.
    Merge(u32),
    /// Run the child's command criteria on the merged tree.
    Check(u32),
    /// End the checks of this child; another goes first.
    StopCheck(u32),
    /// Journal the merge, then bring the files up to date.
    Update(u32),
    /// There is nothing to bring up to date: the child is accepted.
    Accept(u32),
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A child that may come to be integrated exists.
    Joined(u32, QueuePosition),
    /// It will not be integrated any more: it failed, was cancelled, has no change, or is done.
    Left(u32),
    /// Steps of the plan from this rank on wait: the one of this rank is still to be created.
    PlanWaitsFrom(Option<u32>),
    /// It has ended its work and waits.
    Ready {
        /// The child.
        child: u32,
        /// Whether it has command criteria.
        checks: bool,
        /// Whether its merge is in the journal: then only the files are left to bring up to date.
        merged: bool,
    },
    /// A snapshot of the files is wanted.
    SnapshotWanted,
    /// A change by the agent itself has begun.
    ChangeBegan,
    /// It is over.
    ChangeEnded,
    /// An action was begun.
    Began(MergeEffect),
    /// A snapshot was taken; false if it could not be.
    SnapshotTaken(bool),
    /// The merge of this child is made. It changes nothing if `same`.
    Merged {
        /// The child.
        child: u32,
        /// Whether the merged files are the parent's.
        same: bool,
    },
    /// The checks of this child passed.
    Checked(u32),
    /// The checks of this child were ended before they were over.
    CheckStopped(u32),
    /// The files are up to date with this child's work.
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
    /// Merged, its checks not begun.
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
    /// All is well; only the files are to be brought up to date, if they are still what was merged with.
    Passed {
        child: u32,
        at: u64,
        same: bool,
        alone: bool,
    },
    Updating(u32),
}

/// The integrations into one agent's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeQueue {
    /// Moves with every change of the files.
    generation: u64,
    /// The generation that the newest snapshot is of.
    snapshot: Option<u64>,
    snapshotting: bool,
    wanted: bool,
    changing: u32,
    seats: BTreeMap<u32, QueuePosition>,
    /// Who still has a place, by group and rank.
    places: BTreeMap<Group, BTreeSet<(u32, u32)>>,
    waiting: BTreeMap<u32, MergeWait>,
    /// The rank of the first step of the plan that is still to be created; it has its place already.
    due: Option<u32>,
    stage: Stage,
    stopping: bool,
}

impl MergeQueue {
    /// A lane of files that have not changed since they were snapshot, or of which that is not known.
    pub fn new(unchanged: bool) -> Self {
        Self {
            generation: 0,
            snapshot: unchanged.then_some(0),
            snapshotting: false,
            wanted: false,
            changing: 0,
            seats: BTreeMap::new(),
            places: BTreeMap::new(),
            waiting: BTreeMap::new(),
            due: None,
            stage: Stage::Free,
            stopping: false,
        }
    }

    /// Whether the newest snapshot is of the files as they are.
    pub fn is_snapshot(&self) -> bool {
        self.snapshot == Some(self.generation) && self.changing == 0
    }

    /// Whether nothing is under way that touches the files.
    pub fn is_quiet(&self) -> bool {
        !self.snapshotting && matches!(self.stage, Stage::Free)
    }

    /// Whether the agent may begin a change of its own now. Not while something needs the files alone, and not
    /// before something that waits for them: otherwise a busy agent could keep its children waiting for ever.
    pub fn may_change(&self) -> bool {
        !self.is_alone() && !self.wants_alone()
    }

    /// Whether this child's files are being brought up to date: then it is merged, whatever else happens.
    pub fn is_updating(&self, child: u32) -> bool {
        self.stage == Stage::Updating(child)
    }

    /// Whether something has the files alone.
    pub fn is_alone(&self) -> bool {
        self.snapshotting
            || match self.stage {
                Stage::Free | Stage::Merged { .. } | Stage::Passed { alone: false, .. } => false,
                Stage::Checking { alone, .. } => alone,
                Stage::Merging(_) | Stage::Updating(_) | Stage::Passed { alone: true, .. } => true,
            }
    }

    fn wants_alone(&self) -> bool {
        let wants_snapshot = self.wanted && !self.is_snapshot();
        wants_snapshot
            || match self.stage {
                Stage::Free => self.next_child().is_some(),
                Stage::Passed { .. } | Stage::Merged { .. } => true,
                _ => false,
            }
    }

    /// Whose turn it is: those whose merge is journalled, then the foreground, then the rest; by rank.
    fn next_child(&self) -> Option<u32> {
        let first = |child: &u32| {
            let seat = self.seats.get(child)?;
            let place = self.places.get(&seat.group)?.first()?;
            let behind = seat.group == Group::Plan && self.due.is_some_and(|due| due < seat.rank);
            (place.1 == *child && !behind).then_some(seat)
        };
        let order = |(child, waiting): (&u32, &MergeWait)| {
            let seat = first(child).filter(|_| !waiting.merged).cloned();
            match (waiting.merged, seat) {
                (true, _) => Some(((false, false, Group::Alone(0), 0), *child)),
                (false, Some(seat)) => Some(((true, !seat.foreground, seat.group, seat.rank), *child)),
                (false, None) => None,
            }
        };
        self.waiting.iter().filter_map(order).min().map(|(_, child)| child)
    }

    /// What to do next, if anything can be done now.
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
                    None => (self.wanted && stale).then_some(MergeEffect::Snapshot),
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
                (self.wanted && stale && free && !alone).then_some(MergeEffect::Snapshot)
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
        self.seats.get(&child).is_some_and(|seat| seat.foreground)
    }

    /// Takes what happened.
    pub fn apply(&mut self, fact: Fact) {
        match fact {
            Fact::Joined(child, seat) => {
                self.places.entry(seat.group.clone()).or_default().insert((seat.rank, child));
                self.seats.insert(child, seat);
            }
            Fact::Left(child) => self.leave(child),
            Fact::Ready { child, checks, merged } => {
                self.waiting.insert(child, MergeWait { checks, merged, rechecks: 0 });
            }
            Fact::PlanWaitsFrom(due) => self.due = due,
            Fact::SnapshotWanted => self.wanted = true,
            Fact::ChangeBegan => {
                self.changing += 1;
                self.generation += 1;
            }
            Fact::ChangeEnded => self.changing = self.changing.saturating_sub(1),
            Fact::Began(action) => self.begin(action),
            Fact::SnapshotTaken(taken) => {
                self.snapshotting = false;
                self.wanted = false;
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
                // The files are now those of the merge commit, which is a snapshot of them.
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
        // The files moved while the checks ran: what was checked is not what would be merged.
        self.stage = Stage::Free;
        if let Some(waiting) = self.waiting.get_mut(&child) {
            waiting.rechecks += 1;
        }
    }

    fn leave(&mut self, child: u32) {
        self.waiting.remove(&child);
        if let Some(seat) = self.seats.remove(&child)
            && let Some(places) = self.places.get_mut(&seat.group)
        {
            places.remove(&(seat.rank, child));
            if places.is_empty() {
                self.places.remove(&seat.group);
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
