//! Who may run a call now. A slot is held only while a model call or a non-delegate tool runs; what waits for
//! a child, a person, ownership or budget holds none, so no tree can deadlock on slots.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use posse_domain::id::AgentId;

/// What an agent wants to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// Its next model call.
    Model,
    /// One of its tool calls.
    Call(Arc<str>),
}

/// A wish for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRequest {
    pub(crate) agent: AgentId,
    pub(crate) kind: Arc<str>,
    pub(crate) what: SlotUse,
}

/// When a wish came: the place it keeps, wherever it waits.
type Ticket = u64;

#[derive(Debug, Default)]
struct KindSlots {
    limit: Option<usize>,
    running: usize,
    parked: VecDeque<(Ticket, SlotRequest)>,
}

/// Slots of one run: first come, first served, with a limit for the run and one for each definition.
#[derive(Debug)]
pub(crate) struct Scheduler {
    limit: usize,
    running: usize,
    tickets: Ticket,
    ready: BTreeMap<Ticket, SlotRequest>,
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
        Self { limit: limit.max(1) as usize, running: 0, tickets: 0, ready: BTreeMap::new(), kinds }
    }

    /// Queues a wish.
    pub(crate) fn request(&mut self, want: SlotRequest) {
        self.tickets += 1;
        self.ready.insert(self.tickets, want);
    }

    /// Takes the next wish that has a slot, and the slot with it.
    pub(crate) fn take(&mut self) -> Option<SlotRequest> {
        while self.running < self.limit {
            let (ticket, want) = self.ready.pop_first()?;
            let kind = self.kinds.entry(want.kind.clone()).or_default();
            if kind.limit.is_some_and(|limit| kind.running >= limit) {
                // Set aside so that it does not hold up others; it keeps its ticket.
                kind.parked.push_back((ticket, want));
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
            if let Some((ticket, want)) = kind.parked.pop_front() {
                self.ready.insert(ticket, want);
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
    use proptest::prelude::*;

    use super::*;

    fn want(agent: u32, kind: &str) -> SlotRequest {
        let root: AgentId = "k3f9ab2c".parse().unwrap();
        SlotRequest { agent: root.child(agent), kind: kind.into(), what: SlotUse::Model }
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

    #[test]
    fn two_slots_given_back_at_once_go_to_those_who_came_first() {
        let mut scheduler = Scheduler::new(8, [("explore".into(), Some(2))].into_iter());
        for n in 1..=4 {
            scheduler.request(want(n, "explore"));
        }
        while scheduler.take().is_some() {}
        scheduler.release(&"explore".into());
        scheduler.release(&"explore".into());
        assert_eq!(scheduler.take(), Some(want(3, "explore")));
        assert_eq!(scheduler.take(), Some(want(4, "explore")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the order of wishes and returns: no limit is passed, nobody waits beside a free slot, nobody
        /// is forgotten, and among agents of one definition it is first come, first served.
        #[test]
        fn slots_are_kept_and_the_queue_is_fair(
            limit in 1..5_u32,
            kind_limits in prop::collection::vec(prop::option::of(1..3_u32), 3),
            steps in prop::collection::vec((0..3_usize, any::<bool>()), 1..80),
        ) {
            const KINDS: [&str; 3] = ["a", "b", "c"];
            let kinds = KINDS.iter().zip(&kind_limits).map(|(name, limit)| ((*name).into(), *limit));
            let mut scheduler = Scheduler::new(limit, kinds);
            let mut running = [0_usize; 3];
            let mut waiting = [const { VecDeque::new() }; 3];
            let mut asked = 0;
            // As many wishes as steps, then returns until nobody is left.
            let rest = steps.len() + 1;
            for (kind, asks) in steps.into_iter().chain((0..rest * 3).map(|n| (n % 3, false))) {
                if asks {
                    asked += 1;
                    scheduler.request(want(asked, KINDS[kind]));
                    waiting[kind].push_back(asked);
                } else if running[kind] > 0 {
                    running[kind] -= 1;
                    scheduler.release(&KINDS[kind].into());
                }
                while let Some(granted) = scheduler.take() {
                    let at = KINDS.iter().position(|name| **name == *granted.kind).expect("a kind");
                    let first = waiting[at].pop_front();
                    prop_assert_eq!(granted.agent.number(), first);
                    running[at] += 1;
                }
                let total: usize = running.iter().sum();
                prop_assert_eq!(scheduler.running(), total);
                prop_assert!(total <= limit as usize);
                for at in 0..3 {
                    let full = kind_limits[at].is_some_and(|most| running[at] >= most as usize);
                    prop_assert!(kind_limits[at].is_none_or(|most| running[at] <= most as usize));
                    prop_assert!(waiting[at].is_empty() || full || total == limit as usize, "a slot is free");
                }
            }
            prop_assert!(waiting.iter().all(VecDeque::is_empty), "everybody had a turn");
        }
    }
}
