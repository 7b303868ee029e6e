//! The ready set: agents, merge queues and the plan for which something changed in this round.
//!
//! Code that makes one of them able to go on marks it, and the loop drains the set. So no agent goes on in the middle of a
//! decision about another one, an agent that several changes concern is looked at once, and a tree of any depth or width
//! costs no depth of calls.
//!
//! Why it is like this: `docs/decisions/engine-ready-set.md`.

use std::collections::{HashSet, VecDeque};

use posse_domain::id::AgentId;

use super::Driver;

/// What may be able to go on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Candidate {
    /// An agent, as its machine says.
    Agent(AgentId),
    /// The queue of merges into an agent's files.
    MergeQueue(AgentId),
    /// Steps of the plan that could start.
    Plan,
}

/// Candidates in the order in which they were marked, each once.
#[derive(Debug, Default)]
pub(super) struct ReadySet {
    order: VecDeque<Candidate>,
    marked: HashSet<Candidate>,
}

impl ReadySet {
    fn mark(&mut self, candidate: Candidate) {
        if self.marked.insert(candidate.clone()) {
            self.order.push_back(candidate);
        }
    }

    pub(super) fn take(&mut self) -> Option<Candidate> {
        let next = self.order.pop_front()?;
        self.marked.remove(&next);
        Some(next)
    }
}

impl Driver {
    /// The agent may be able to go on, or to end.
    pub(super) fn mark_ready(&mut self, id: &AgentId) {
        self.ready.mark(Candidate::Agent(id.clone()));
    }

    /// The queue of merges into the agent's files may be able to go on.
    pub(super) fn mark_merge_queue(&mut self, id: &AgentId) {
        self.ready.mark(Candidate::MergeQueue(id.clone()));
    }

    /// Steps of the plan may be able to start.
    pub(super) fn mark_plan(&mut self) {
        self.ready.mark(Candidate::Plan);
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
        // Marked while the set is drained: looked at again, after the others.
        ready.mark(first.clone());
        assert_eq!(ready.take(), Some(second));
        assert_eq!(ready.take(), Some(Candidate::Plan));
        assert_eq!(ready.take(), Some(first));
        assert_eq!(ready.take(), None);
    }
}
