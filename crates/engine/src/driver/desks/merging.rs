//! The merge desk: holds the merge queue of each agent's files, the merges that are not yet journalled, and the checks
//! that run on them. The [`MergeQueue`] decides on the next effect, and the file desk executes it.
//!
//! Why it is like this: `docs/decisions/engine-desks.md`.

use std::collections::HashMap;

use posse_domain::id::AgentId;
use posse_domain::lifecycle::Run;
use posse_domain::object_id::ObjectId;
use tokio::sync::watch;

use crate::integrate::{Fact, Group, MergeEffect, MergeQueue, QueuePosition};
use crate::ports::{StopSignal, Urgency};

/// A completed merge that is not yet in the parent's files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MergeResult {
    pub(crate) ours: ObjectId,
    pub(crate) commit: ObjectId,
    pub(crate) tree: ObjectId,
    pub(crate) paths: u64,
}

#[derive(Debug, Default)]
pub(crate) struct MergeDesk {
    /// For each agent, the users of its files and the child that is merged next.
    queues: HashMap<AgentId, MergeQueue>,
    /// Merges that are not yet journalled, by the child whose work was merged.
    results: HashMap<AgentId, MergeResult>,
    /// Stop signals of running checks, by the child whose work they check.
    checks: HashMap<AgentId, watch::Sender<Urgency>>,
    /// Files of the parent that conflicted with a child's changes and were not changed, by child, until the parent is
    /// answered.
    kept: HashMap<AgentId, String>,
}

impl MergeDesk {
    /// The queue of merges into an agent's files. `unchanged` initialises a new queue: whether the files equal their
    /// last commit.
    pub(crate) fn queue(&mut self, id: &AgentId, unchanged: bool) -> &mut MergeQueue {
        self.queues.entry(id.clone()).or_insert_with(|| MergeQueue::new(unchanged))
    }

    /// The next effect of an agent's merge queue.
    pub(crate) fn decide(&self, id: &AgentId) -> Option<MergeEffect> {
        self.queues.get(id).and_then(MergeQueue::decide)
    }

    /// Whether no merge, check, snapshot or update of the agent's files is under way.
    pub(crate) fn is_quiet(&self, id: &AgentId) -> bool {
        self.queues.get(id).is_none_or(MergeQueue::is_quiet)
    }

    /// Whether a snapshot, a merge, a check or an update has exclusive access to the agent's files.
    pub(crate) fn is_alone(&self, id: &AgentId) -> bool {
        self.queues.get(id).is_some_and(MergeQueue::is_alone)
    }

    /// Whether a call of the agent may begin to change its files.
    pub(crate) fn may_change(&self, id: &AgentId) -> bool {
        self.queues.get(id).is_none_or(MergeQueue::may_change)
    }

    /// Removes an agent's queue, because a new attempt has new files and begins with an empty queue.
    pub(crate) fn forget_queue(&mut self, id: &AgentId) {
        self.queues.remove(id);
    }

    /// Removes a child from its queue, because it is integrated or will not be. The next child is merged only after the
    /// parent was answered, because the end of the last child also ends the run.
    pub(crate) fn leave(&mut self, child: &AgentId) {
        let (Some(parent), Some(number)) = (child.parent(), child.number()) else { return };
        self.results.remove(child);
        self.stop_check(child);
        self.checks.remove(child);
        if let Some(queue) = self.queues.get_mut(&parent) {
            queue.apply(Fact::Left(number));
        }
        self.queues.remove(child);
    }

    pub(crate) fn keep_result(&mut self, child: &AgentId, result: MergeResult) {
        self.results.insert(child.clone(), result);
    }

    pub(crate) fn result_of(&self, child: &AgentId) -> Option<MergeResult> {
        self.results.get(child).copied()
    }

    pub(crate) fn take_result(&mut self, child: &AgentId) -> Option<MergeResult> {
        self.results.remove(child)
    }

    /// Begins the checks of a child and returns their stop signal.
    pub(crate) fn begin_check(&mut self, child: &AgentId) -> StopSignal {
        let (sender, signal) = StopSignal::new();
        self.checks.insert(child.clone(), sender);
        signal
    }

    pub(crate) fn stop_check(&self, child: &AgentId) {
        if let Some(stop) = self.checks.get(child) {
            stop.send_replace(Urgency::AtOnce);
        }
    }

    /// Whether the result of a child's checks is not needed: the checks were asked to stop, or the child has left the
    /// queue.
    pub(crate) fn is_check_stopped(&self, child: &AgentId) -> bool {
        self.checks.get(child).is_none_or(|stop| *stop.borrow() != Urgency::None)
    }

    pub(crate) fn end_check(&mut self, child: &AgentId) {
        self.checks.remove(child);
    }

    pub(crate) fn is_checking(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Records files of the parent that conflicted with a child's changes and were not changed.
    pub(crate) fn keep_note(&mut self, child: &AgentId, files: String) {
        self.kept.insert(child.clone(), files);
    }

    /// Removes and returns the files that conflicted with a child's changes, for the answer to its parent.
    pub(crate) fn take_note(&mut self, child: &AgentId) -> Option<String> {
        self.kept.remove(child)
    }
}

/// The queue position of a child. `None` for a child that can change nothing and has no checks.
pub(crate) fn position_of(child: &AgentId, run: &Run) -> Option<QueuePosition> {
    let agent = run.open(child).filter(|_| run.is_isolated())?;
    // A step that only reads has a position too. Steps that depend on it start when it ends, from the files that are
    // merged by then. These files are the same in every run only if no child behind it is merged first.
    let step = agent.contract.parent.message_id.is_none();
    if !agent.writer && !step && agent.contract.checks().next().is_none() {
        return None;
    }
    let number = child.number()?;
    Some(match (&agent.contract.parent.message_id, agent.background) {
        (Some(message), false) => {
            QueuePosition { group: Group::Reply(message.as_str().into()), rank: number, foreground: true }
        }
        (Some(_), true) => QueuePosition { group: Group::Alone(number), rank: 0, foreground: false },
        (None, _) => match run.step_rank(agent.contract.parent.step_idx) {
            Some(rank) => QueuePosition { group: Group::Plan, rank, foreground: true },
            None => QueuePosition { group: Group::Alone(number), rank: 0, foreground: true },
        },
    })
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;

    use super::*;

    #[test]
    fn a_check_that_was_told_to_stop_has_no_result() {
        let child = RunId::from_random(1).root().child(1);
        let mut desk = MergeDesk::default();
        assert!(desk.is_check_stopped(&child), "none is under way");
        let signal = desk.begin_check(&child);
        assert!(!desk.is_check_stopped(&child) && desk.is_checking());
        desk.stop_check(&child);
        assert_eq!(signal.now(), Urgency::AtOnce);
        assert!(desk.is_check_stopped(&child));
        desk.end_check(&child);
        assert!(!desk.is_checking());
    }

    #[test]
    fn a_child_that_leaves_takes_its_merge_and_its_check_with_it() {
        let child = RunId::from_random(1).root().child(1);
        let mut desk = MergeDesk::default();
        let commit = "1".repeat(40).parse::<ObjectId>().expect("an id");
        desk.keep_result(&child, MergeResult { ours: commit, commit, tree: commit, paths: 1 });
        let signal = desk.begin_check(&child);
        desk.leave(&child);
        assert_eq!(signal.now(), Urgency::AtOnce);
        assert!(desk.result_of(&child).is_none() && !desk.is_checking());
    }
}
