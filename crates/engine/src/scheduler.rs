//! Decides for the driver which calls may run now. A slot is held only while a model call, or a tool call that is not a
//! delegation, runs. A call that waits for a child, a user, ownership or a budget holds no slot, so agents cannot
//! deadlock on slots.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use posse_domain::id::AgentId;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotUse {
    Model,
    Call(Arc<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotRequest {
    pub(crate) agent: AgentId,
    pub(crate) definition: Arc<str>,
    pub(crate) what: SlotUse,
}

/// The number of a request. It preserves the order of requests, also of parked ones.
type Ticket = u64;

#[derive(Debug, Default)]
struct DefinitionSlots {
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
    definitions: HashMap<Arc<str>, DefinitionSlots>,
}

impl Scheduler {
    pub(crate) fn new(limit: u32, definitions: impl Iterator<Item = (Arc<str>, Option<u32>)>) -> Self {
        let definitions = definitions
            .map(|(name, limit)| {
                // With a limit of 0 its agents would wait for ever. A definition that may not run is not offered to
                // agents at all.
                let limit = limit.map(|limit| limit.max(1) as usize);
                (name, DefinitionSlots { limit, ..DefinitionSlots::default() })
            })
            .collect();
        Self { limit: limit.max(1) as usize, running: 0, tickets: 0, ready: BTreeMap::new(), definitions }
    }

    pub(crate) fn request(&mut self, request: SlotRequest) {
        self.tickets += 1;
        self.ready.insert(self.tickets, request);
    }

    /// Takes the next request for which a slot is free, together with the slot.
    pub(crate) fn take(&mut self) -> Option<SlotRequest> {
        while self.running < self.limit {
            let (ticket, request) = self.ready.pop_first()?;
            let slots = self.definitions.entry(request.definition.clone()).or_default();
            if slots.limit.is_some_and(|limit| slots.running >= limit) {
                // The limit of its definition is reached. The request is parked with its ticket, so that requests of
                // other definitions do not wait behind it.
                slots.parked.push_back((ticket, request));
                continue;
            }
            slots.running += 1;
            self.running += 1;
            return Some(request);
        }
        None
    }

    /// Takes a slot even beyond the limit, for a call that a crash interrupted.
    pub(crate) fn force(&mut self, definition: &Arc<str>) {
        self.running += 1;
        self.definitions.entry(definition.clone()).or_default().running += 1;
    }

    pub(crate) fn release(&mut self, definition: &Arc<str>) {
        self.running = self.running.saturating_sub(1);
        if let Some(slots) = self.definitions.get_mut(definition) {
            slots.running = slots.running.saturating_sub(1);
            if let Some((ticket, request)) = slots.parked.pop_front() {
                self.ready.insert(ticket, request);
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

    fn want(agent: u32, definition: &str) -> SlotRequest {
        let root: AgentId = "k3f9ab2c".parse().unwrap();
        SlotRequest { agent: root.child(agent), definition: definition.into(), what: SlotUse::Model }
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

        /// For every order of requests and releases: no limit is exceeded, no request waits while a slot for it is
        /// free, every request is granted, and requests of one definition are granted in their order.
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
            // One request for each step at most, then releases until no request waits.
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
                    let at = KINDS.iter().position(|name| **name == *granted.definition).expect("a definition");
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
            prop_assert!(waiting.iter().all(VecDeque::is_empty), "every request was granted");
        }
    }
}
