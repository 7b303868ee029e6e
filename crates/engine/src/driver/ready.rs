//! The ready set of the driver: agents, merge queues and the plan for which something changed in this round.
//!
//! Code that lets one of them continue only marks it, and the loop drains the set. No agent continues in the middle of
//! a decision about another agent, several changes advance an agent once, and the call stack does not grow with the
//! depth or width of the tree.
//!
//! Why it is like this: `docs/decisions/engine-ready-set.md`.

use std::collections::{HashSet, VecDeque};

use posse_domain::id::AgentId;

/// An item that may be able to continue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Candidate {
    Agent(AgentId),
    /// The queue of merges into an agent's files.
    MergeQueue(AgentId),
    Plan,
}

/// Candidates in the order in which they were marked, each once.
#[derive(Debug, Default)]
pub(crate) struct ReadySet {
    order: VecDeque<Candidate>,
    marked: HashSet<Candidate>,
}

impl ReadySet {
    fn mark(&mut self, candidate: Candidate) {
        if self.marked.insert(candidate.clone()) {
            self.order.push_back(candidate);
        }
    }

    pub(super) fn mark_agent(&mut self, id: &AgentId) {
        self.mark(Candidate::Agent(id.clone()));
    }

    pub(super) fn mark_merge_queue(&mut self, id: &AgentId) {
        self.mark(Candidate::MergeQueue(id.clone()));
    }

    pub(super) fn mark_plan(&mut self) {
        self.mark(Candidate::Plan);
    }

    pub(super) fn take(&mut self) -> Option<Candidate> {
        let next = self.order.pop_front()?;
        self.marked.remove(&next);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;

    use super::*;

    #[test]
    fn a_candidate_is_taken_once_in_the_order_of_its_first_mark() {
        let root = RunId::from_random(1).root();
        let (first, second) = (Candidate::Agent(root.child(1)), Candidate::Agent(root.child(2)));
        let mut ready = ReadySet::default();
        for candidate in [&first, &second, &first, &Candidate::Plan] {
            ready.mark(candidate.clone());
        }
        assert_eq!(ready.take(), Some(first.clone()));
        // Marked while the set is drained: it is taken again, after the others.
        ready.mark(first.clone());
        assert_eq!(ready.take(), Some(second));
        assert_eq!(ready.take(), Some(Candidate::Plan));
        assert_eq!(ready.take(), Some(first));
        assert_eq!(ready.take(), None);
    }
}
