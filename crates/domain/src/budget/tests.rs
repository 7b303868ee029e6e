//! Property tests: random trees of spending, checked after every step against sums computed from scratch.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::Config;

use super::*;
use crate::id::AgentId;

const PRICE: Price = Price { cached: 300_000, ..Price::plain(3_000_000, 15_000_000) };

/// One operation on a ledger. The indices select among what is open or in flight at that moment.
#[derive(Debug, Clone)]
enum Step {
    Open(Index, Budget),
    Reserve(Index, CallEstimate, Purpose),
    Settle(Index, u64),
    Forfeit(Index),
    Record(Index, Figures),
    Close(Index),
}

fn budgets() -> impl Strategy<Value = Budget> {
    let tokens = prop::option::of(prop_oneof![Just(0), 1..200_000_u64]);
    let usd = prop::option::weighted(0.3, (0..2_000_000_u64).prop_map(Usd::from_micros));
    let agents = prop::option::of(0..12_u64);
    (tokens, usd, agents).prop_map(|(tokens, usd, agents)| Budget { tokens, usd, agents, wall_ms: None })
}

fn wants() -> impl Strategy<Value = CallEstimate> {
    let price = prop::option::weighted(0.9, Just(PRICE));
    (0..8000_u64, 0..6000_u64, price).prop_map(|(input_tokens, max_output_tokens, price)| CallEstimate {
        input_tokens,
        max_output_tokens,
        price,
    })
}

fn purposes() -> impl Strategy<Value = Purpose> {
    prop_oneof![3 => Just(Purpose::Work), 1 => Just(Purpose::Report)]
}

fn figures() -> impl Strategy<Value = Figures> {
    (0..3_u64, 0..5_u64, 0..1000_u64).prop_map(|(turns, tool_calls, wall_ms)| Figures {
        turns,
        tool_calls,
        wall_ms,
        ..Figures::default()
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let index = any::<Index>;
    prop_oneof![
        3 => (index(), budgets()).prop_map(|(parent, budget)| Step::Open(parent, budget)),
        6 => (index(), wants(), purposes()).prop_map(|(at, want, purpose)| Step::Reserve(at, want, purpose)),
        4 => (index(), 0..=100_u64).prop_map(|(call, percent)| Step::Settle(call, percent)),
        1 => index().prop_map(Step::Forfeit),
        1 => (index(), figures()).prop_map(|(agent, figures)| Step::Record(agent, figures)),
        1 => index().prop_map(Step::Close),
    ]
}

/// The ledger and an independent model of its state, without running sums.
struct Model {
    ledger: Ledger,
    agents: Vec<ModelAgent>,
    in_flight: Vec<(AgentId, Amount, Purpose)>,
}

struct ModelAgent {
    id: AgentId,
    budget: Budget,
    open: bool,
    children: u32,
    own: Figures,
    /// Money as caps count it: an unknown cost counts as its reservation.
    micro_usd: u64,
    /// Whether the agent has a report to write and no call in flight for it.
    owes: bool,
}

impl ModelAgent {
    fn new(id: AgentId, budget: Budget) -> Self {
        Self { id, budget, open: true, children: 0, own: Figures::default(), micro_usd: 0, owes: true }
    }
}

impl Model {
    fn new(budget: Budget) -> Option<Self> {
        let root: AgentId = "k3f9ab2c".parse().expect("agent id");
        let mut ledger = match Ledger::open_root(&root, &budget) {
            Ok(ledger) => ledger,
            Err(refused) => {
                assert_eq!(budget.agents, Some(0), "{refused}");
                return None;
            }
        };
        ledger.set_price(&root, Some(PRICE));
        // A run without room for a report is not started.
        let has_room = ledger.has_room_for_report(&root);
        has_room.then(|| Self { ledger, agents: vec![ModelAgent::new(root, budget)], in_flight: Vec::new() })
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Open(parent, budget) => self.open(parent.index(self.agents.len()), *budget),
            Step::Reserve(agent, want, purpose) => {
                self.reserve(agent.index(self.agents.len()), want, *purpose);
            }
            Step::Settle(..) | Step::Forfeit(_) if self.in_flight.is_empty() => {}
            Step::Settle(call, percent) => self.settle(call.index(self.in_flight.len()), Some(*percent)),
            Step::Forfeit(call) => self.settle(call.index(self.in_flight.len()), None),
            Step::Record(agent, figures) => {
                let at = agent.index(self.agents.len());
                let known = &mut self.agents[at];
                if self.ledger.record(&known.id, *figures).is_ok() {
                    known.own += *figures;
                }
            }
            Step::Close(agent) => self.close(agent.index(self.agents.len())),
        }
        self.check();
    }

    fn open(&mut self, parent: usize, budget: Budget) {
        let id = self.agents[parent].id.child(self.agents[parent].children + 1);
        let full = |known: &ModelAgent| known.budget.agents.is_some_and(|cap| self.created(&known.id) >= cap);
        let fits = budget.agents != Some(0) && !self.above(&id).any(full);
        let expected = self.agents[parent].open && fits;
        assert_eq!(self.ledger.check_spawn(&id, &budget).is_ok(), expected, "the cap on agents is exact");
        let room = self.agents[parent].open && self.has_room(&id, &budget);
        let answer = self.ledger.check_room(&self.agents[parent].id, &id, &budget, Some(PRICE));
        assert_eq!(answer.is_ok(), room, "the room for reports is exact: {answer:?}");
        if !room {
            return;
        }
        let opened = self.ledger.open_child(&id, &budget);
        assert_eq!(opened.is_ok(), expected);
        if expected {
            self.agents[parent].children += 1;
            self.ledger.set_price(&id, Some(PRICE));
            self.agents.push(ModelAgent::new(id, budget));
        }
    }

    /// Whether one more report fits under every cap.
    fn has_room(&self, child: &AgentId, budget: &Budget) -> bool {
        let new = ModelAgent::new(child.clone(), *budget);
        std::iter::once(&new).chain(self.above(child)).all(|known| {
            let (tokens, micro_usd) = self.taken(&known.id);
            let reports = 1 + self.beneath(&known.id).filter(|below| below.open && below.owes).count() as u64;
            let report_usd = PRICE.worst(REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS);
            known.budget.tokens.is_none_or(|cap| tokens + reports * REPORT_TOKENS <= cap)
                && known.budget.usd.is_none_or(|cap| micro_usd + reports * report_usd <= cap.micros())
        })
    }

    /// What the subtree has spent and reserved.
    fn taken(&self, id: &AgentId) -> (u64, u64) {
        let spent: u64 = self.beneath(id).map(|below| below.own.usage.tokens()).sum();
        let spent_usd: u64 = self.beneath(id).map(|below| below.micro_usd).sum();
        let calls = || self.in_flight.iter().filter(|(owner, ..)| id.contains(owner));
        let reserved: u64 = calls().map(|(_, amount, _)| amount.tokens()).sum();
        let reserved_usd: u64 = calls().filter_map(|(_, amount, _)| amount.micro_usd).sum();
        (spent + reserved, spent_usd + reserved_usd)
    }

    /// Every open agent that has a report to write can write it now, however the others spend.
    fn check_reports(&self) {
        let want = CallEstimate {
            input_tokens: REPORT_INPUT_TOKENS,
            max_output_tokens: 4 * REPORT_OUTPUT_TOKENS,
            price: Some(PRICE),
        };
        for known in self.agents.iter().filter(|known| known.open && known.owes) {
            let answer = self.ledger.quote(&known.id, &want, Purpose::Report);
            let granted = matches!(&answer, Ok(Reservation::Granted(amount)) if amount.output_tokens >= REPORT_OUTPUT_TOKENS);
            assert!(granted, "{} cannot write its report: {answer:?}", known.id);
        }
    }

    fn reserve(&mut self, agent: usize, want: &CallEstimate, purpose: Purpose) {
        let id = self.agents[agent].id.clone();
        // An agent makes one call at a time.
        if self.in_flight.iter().any(|(owner, ..)| *owner == id) {
            return;
        }
        let idle = self.with_nothing_in_flight();
        match self.ledger.reserve(&id, want, purpose) {
            Ok(Reservation::Granted(amount)) => {
                let most = want.max_output_tokens.max(1);
                assert!((MIN_OUTPUT_TOKENS.min(most)..=most).contains(&amount.output_tokens), "{amount:?}");
                assert!(!self.above(&id).any(|known| known.budget.tokens == Some(0)), "zero means zero");
                self.agents[agent].owes &= purpose == Purpose::Work;
                self.in_flight.push((id, amount, purpose));
            }
            Ok(Reservation::Wait { owner }) => {
                assert!(
                    self.ledger.reserved_tokens(&owner) > Some(0),
                    "somebody is in flight who will settle"
                );
                let answer = idle.quote(&id, want, purpose).expect("open");
                assert!(matches!(answer, Reservation::Granted(_)), "waits, but would not fit: {answer:?}");
            }
            Ok(Reservation::Exhausted(exhausted)) => {
                assert!(exhausted.owner.contains(&id), "the owner stands above: {exhausted}");
                let answer = idle.quote(&id, want, purpose).expect("open");
                assert_eq!(answer, Reservation::Exhausted(exhausted), "would fit with nothing in flight");
            }
            Err(refused) => assert!(!self.agents[agent].open, "{refused}"),
        }
    }

    /// Charges a part of the reservation, or forfeits all of it.
    fn settle(&mut self, call: usize, percent: Option<u64>) {
        let (id, reserved, purpose) = self.in_flight.swap_remove(call);
        let usage = match percent {
            None => {
                self.ledger.forfeit(&id, reserved).expect("reserved");
                reserved.as_usage().as_cut_off()
            }
            Some(percent) => {
                let mut usage = Usage {
                    input_tokens: reserved.input_tokens * percent / 100,
                    output_tokens: reserved.output_tokens * percent / 100,
                    ..Usage::ZERO
                };
                // One in eleven replies has no cost.
                usage.micro_usd = reserved.micro_usd.filter(|_| percent % 11 > 0).map(|_| PRICE.cost(&usage));
                self.ledger.charge(&id, reserved, usage).expect("reserved");
                usage
            }
        };
        let known = self.agents.iter_mut().find(|known| known.id == id).expect("known");
        known.own += usage.into();
        let micro_usd = usage.micro_usd.or(reserved.micro_usd).unwrap_or(0);
        known.micro_usd += micro_usd;
        // A call without usage wrote nothing.
        known.owes |= purpose == Purpose::Report && (usage.tokens(), micro_usd) == (0, 0);
    }

    fn close(&mut self, agent: usize) {
        let id = self.agents[agent].id.clone();
        let busy = self.in_flight.iter().any(|(owner, ..)| id.contains(owner));
        let open_below = self.beneath(&id).filter(|known| known.open).count() > 1;
        let expected = self.agents[agent].open && !busy && !open_below;
        assert_eq!(self.ledger.close(&id).is_ok(), expected);
        self.agents[agent].open &= !expected;
    }

    /// Ends all agents, the deepest first.
    fn finish(mut self) {
        while !self.in_flight.is_empty() {
            self.settle(0, Some(50));
        }
        let mut order: Vec<usize> = (0..self.agents.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.agents[at].id.depth()));
        for at in order {
            self.close(at);
        }
        self.check();
        assert!(self.agents.iter().all(|known| !known.open));
        let root = &self.agents[0].id;
        let all: Figures = self.agents.iter().map(|known| known.own).sum();
        assert_eq!(self.ledger.subtree(root), Some(&all), "it balances");
        let by_depth: Figures = self.ledger.by_depth().iter().map(|depth| depth.figures).sum();
        assert_eq!(by_depth, all);
        assert_eq!(self.ledger.reserved_tokens(root), Some(0));
        assert_eq!(self.ledger.open(root), Some(0));
    }

    fn check(&self) {
        self.check_reports();
        for known in &self.agents {
            let own = self.ledger.own(&known.id);
            assert_eq!(own, Some(&known.own), "{}", known.id);
            let all: Figures = self.beneath(&known.id).map(|below| below.own).sum();
            assert_eq!(self.ledger.subtree(&known.id), Some(&all), "{}", known.id);
            assert_eq!(self.ledger.created(&known.id), Some(self.created(&known.id)));
            self.check_caps(known, all.usage.tokens());
        }
    }

    fn check_caps(&self, known: &ModelAgent, spent_tokens: u64) {
        let calls = || self.in_flight.iter().filter(|(owner, ..)| known.id.contains(owner));
        let reserved: u64 = calls().map(|(_, amount, _)| amount.tokens()).sum();
        assert_eq!(self.ledger.reserved_tokens(&known.id), Some(reserved));
        if let Some(cap) = known.budget.tokens {
            assert!(spent_tokens + reserved <= cap, "{} overspends its tokens", known.id);
        }
        if let Some(cap) = known.budget.usd {
            let reserved: u64 = calls().filter_map(|(_, amount, _)| amount.micro_usd).sum();
            let spent: u64 = self.beneath(&known.id).map(|below| below.micro_usd).sum();
            assert!(spent + reserved <= cap.micros(), "{} overspends its money", known.id);
        }
        if let Some(cap) = known.budget.agents {
            assert!(self.created(&known.id) <= cap, "{} has too many agents", known.id);
        }
    }

    /// The same ledger after every call in flight came back without usage.
    fn with_nothing_in_flight(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        for (id, amount, purpose) in &self.in_flight {
            ledger.charge(id, *amount, Usage::ZERO).expect("reserved");
            if *purpose == Purpose::Report {
                ledger.report_over(id);
            }
        }
        ledger
    }

    fn created(&self, id: &AgentId) -> u64 {
        self.beneath(id).count() as u64
    }

    /// The agent and all agents below it.
    fn beneath<'a>(&'a self, id: &AgentId) -> impl Iterator<Item = &'a ModelAgent> {
        self.agents.iter().filter(move |known| id.contains(&known.id))
    }

    /// The agents whose caps apply to this one, itself included.
    fn above<'a>(&'a self, id: &AgentId) -> impl Iterator<Item = &'a ModelAgent> {
        self.agents.iter().filter(move |known| known.id.contains(id))
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, cases: 2000, ..Config::default() })]

    #[test]
    fn the_ledger_never_overspends_and_always_balances(budget in budgets(), steps in vec(steps(), 0..80)) {
        if let Some(mut model) = Model::new(budget) {
            for step in &steps {
                model.take(step);
            }
            model.finish();
        }
    }
}
