//! Who may run a call now. A slot is held only while a model call or a non-delegate tool runs; what waits for
//! a child, a person, ownership or budget holds none, so no tree can deadlock on slots.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use posse_domain::id::AgentId;

/// What an agent wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// Its next model call.
    Model,
    /// One of its tool calls.
    Call(Arc<str>),
}

/// A wish for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) agent: AgentId,
    pub(crate) kind: Arc<str>,
    pub(crate) what: What,
}

#[derive(Debug, Default)]
struct KindSlots {
    limit: Option<usize>,
    running: usize,
    parked: VecDeque<Want>,
}

/// Slots of one run: first come, first served, with a limit for the run and one for each definition.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limit: usize,
    running: usize,
    ready: VecDeque<Want>,
    kinds: HashMap<Arc<str>, KindSlots>,
}

impl Scheduler {
    pub(crate) fn new(limit: u32, kinds: impl Iterator<Item = (Arc<str>, Option<u32>)>) -> Self {
        let kinds = kinds
            .map(|(name, limit)| {
                // Zero would be a wait without end: a definition that may not run at all is not offered instead.
                let limit = limit.map(|limit| limit.max(1) as usize);
                (name, KindSlots { limit, ..KindSlots::default() })
            })
            .collect();
        Self { limit: limit.max(1) as usize, running: 0, ready: VecDeque::new(), kinds }
    }

    /// Queues a wish.
    pub(crate) fn request(&mut self, want: Want) {
        self.ready.push_back(want);
    }

    /// Takes the next wish that has a slot, and the slot with it.
    pub(crate) fn take(&mut self) -> Option<Want> {
        while self.running < self.limit {
            let want = self.ready.pop_front()?;
            let kind = self.kinds.entry(want.kind.clone()).or_default();
            if kind.limit.is_some_and(|limit| kind.running >= limit) {
                // Set aside so that it does not hold up others; it keeps its place among its own kind.
                kind.parked.push_back(want);
                continue;
            }
            kind.running += 1;
            self.running += 1;
            return Some(want);
        }
        None
    }

    /// Takes a slot over the limit, for what a crash cut off in the middle.
    pub(crate) fn force(&mut self, kind: &Arc<str>) {
        self.running += 1;
        self.kinds.entry(kind.clone()).or_default().running += 1;
    }

    /// Gives a slot back.
    pub(crate) fn release(&mut self, kind: &Arc<str>) {
        self.running = self.running.saturating_sub(1);
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.running = kind.running.saturating_sub(1);
            if let Some(want) = kind.parked.pop_front() {
                self.ready.push_front(want);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(agent: u32, kind: &str) -> Want {
        let root: AgentId = "k3f9ab2c".parse().unwrap();
        Want { agent: root.child(agent), kind: kind.into(), what: What::Model }
    }

    #[test]
    fn the_run_s_limit_holds_and_the_queue_is_fair() {
        let mut scheduler = Scheduler::new(2, std::iter::empty());
        for n in 1..=4 {
            scheduler.request(want(n, "explore"));
        }
        assert_eq!(scheduler.take(), Some(want(1, "explore")));
        assert_eq!(scheduler.take(), Some(want(2, "explore")));
        assert_eq!(scheduler.take(), None);
        scheduler.release(&"explore".into());
        assert_eq!(scheduler.take(), Some(want(3, "explore")));
        assert_eq!(scheduler.running(), 2);
    }

    #[test]
    fn a_definition_at_its_limit_does_not_hold_up_others() {
        let mut scheduler =
            Scheduler::new(8, [("explore".into(), Some(1)), ("general".into(), None)].into_iter());
        for want in [want(1, "explore"), want(2, "explore"), want(3, "explore"), want(4, "general")] {
            scheduler.request(want);
        }
        assert_eq!(scheduler.take(), Some(want(1, "explore")));
        assert_eq!(scheduler.take(), Some(want(4, "general")));
        assert_eq!(scheduler.take(), None);
        scheduler.release(&"explore".into());
        assert_eq!(
            scheduler.take(),
            Some(want(2, "explore")),
            "first come, first served within a definition"
        );
    }
}
