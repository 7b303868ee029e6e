//! The ledger that the engine checks every model call and every spawn of a run against.
//!
//! Each agent has one node with what its subtree has spent, reserved and created, so every query walks from an agent up
//! to the root. Nodes of closed agents stay, because their figures are read long afterwards. The ledger is never
//! stored: it is folded from the journal like all other state.
//!
//! Why it is like this: `docs/decisions/budget-unanswered-calls.md`.

use std::collections::HashMap;
use std::iter::successors;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::amount::{Amount, Price};
use super::reserve::{
    CallEstimate, CapTotals, CappedAgent, ExhaustedCap, LOW_PERCENT, Limit, LimitUsage, LowBudget, Purpose,
    Reservation, quote, report_sums,
};
use super::terms::Budget;
use super::usage::{Figures, Usage};
use crate::id::AgentId;

/// Why the ledger refuses an operation. All but `Exhausted` are bugs of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// A cap forbids another agent.
    #[error(transparent)]
    Exhausted(#[from] ExhaustedCap),
    /// The ledger has no such agent.
    #[error("{0} is not in the ledger")]
    Unknown(AgentId),
    /// The agent was opened before.
    #[error("{0} is in the ledger already")]
    Doubled(AgentId),
    /// A closed agent cannot spend.
    #[error("{0} is closed")]
    Closed(AgentId),
    /// The agent has no such reservation.
    #[error("{0} has not reserved that much")]
    NotReserved(AgentId),
    /// The agent has a call in flight.
    #[error("{0} cannot be closed with a call in flight")]
    InFlight(AgentId),
    /// The agent has open children, which must close first.
    #[error("{0} cannot be closed before its children")]
    OpenChildren(AgentId),
}

/// The totals of all agents of one depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AtDepth {
    /// How many agents were created.
    pub agents: u64,
    pub figures: Figures,
}

/// The caps, spending and reservations of a run's agents. The cost of every operation depends on the depth, not on the
/// number of agents.
#[derive(Debug, Clone)]
pub struct Ledger {
    nodes: Vec<Node>,
    indices: HashMap<AgentId, usize>,
    depths: Vec<AtDepth>,
}

#[derive(Debug, Clone)]
struct Node {
    agent: AgentId,
    /// None for the root.
    parent: Option<usize>,
    depth: usize,
    budget: Budget,
    closed: bool,
    own: Figures,
    /// Reserved by this agent itself.
    in_flight: CapTotals,
    /// The maximum cost of the agent's own report, as far as its model's price is known.
    report: CapTotals,
    /// Whether the agent still has to write its report.
    owes: ReportDue,
    /// The totals of the subtree from here on, this agent included.
    subtree: Figures,
    /// Spending as caps count it. A call of unknown price counts the money that it had reserved.
    spent: CapTotals,
    /// The part of `spent` that exceeded the reservations.
    unforeseen: CapTotals,
    reserved: CapTotals,
    /// Reserved for the reports that agents still have to write.
    owed: CapTotals,
    created: u64,
    open: u64,
}

/// The state of an agent's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportDue {
    /// The agent still has to write it.
    Yes,
    /// The call in flight writes it.
    Now,
    /// It is written, or the agent will not write one.
    No,
}

impl Ledger {
    /// Creates the ledger of a new run with its root agent.
    pub fn open_root(root: &AgentId, budget: &Budget) -> Result<Self, LedgerError> {
        let mut ledger = Self { nodes: Vec::new(), indices: HashMap::new(), depths: Vec::new() };
        check_itself(root, budget)?;
        ledger.add(root, None, budget);
        Ok(ledger)
    }

    /// Checks every cap on agents from the child's own up to the root's for room for one more.
    pub fn check_spawn(&self, child: &AgentId, budget: &Budget) -> Result<(), LedgerError> {
        self.slot_for(child, budget).map(|_| ())
    }

    /// Opens a child, whose id names its parent. Fails when [`check_spawn`](Self::check_spawn) fails.
    pub fn open_child(&mut self, child: &AgentId, budget: &Budget) -> Result<(), LedgerError> {
        let parent = self.slot_for(child, budget)?;
        self.add(child, Some(parent), budget);
        Ok(())
    }

    /// Checks that a child with this budget and model price leaves enough for the report of every open agent and its
    /// own, under its own cap and all caps above. Reservations count in full, because calls may use all of them.
    pub fn check_room(
        &self,
        parent: &AgentId,
        child: &AgentId,
        budget: &Budget,
        price: Option<Price>,
    ) -> Result<(), LedgerError> {
        let parent = self.open_slot(parent)?;
        let more = report_sums(price);
        let own = Node::new(child.clone(), None, 0, *budget);
        let mut nodes = std::iter::once(&own).chain(self.upwards(parent).map(|at| &self.nodes[at]));
        nodes.find_map(|node| node.lacks_room(more)).map_or(Ok(()), |exhausted| Err(exhausted.into()))
    }

    /// Whether the budget allows another report of this agent, which a new attempt would write.
    pub fn has_room_for_report(&self, agent: &AgentId) -> bool {
        let Ok(at) = self.open_slot(agent) else { return false };
        let more =
            if self.nodes[at].owes == ReportDue::Yes { CapTotals::default() } else { self.nodes[at].report };
        self.upwards(at).all(|at| self.nodes[at].lacks_room(more).is_none())
    }

    /// Sets the price of an agent's model. The journal does not contain prices: the driver sets them when the agent
    /// opens.
    pub fn set_price(&mut self, agent: &AgentId, price: Option<Price>) {
        let Ok(at) = self.open_slot(agent) else { return };
        let owes = self.nodes[at].owes;
        self.set_owes(at, ReportDue::No);
        self.nodes[at].report = report_sums(price);
        self.set_owes(at, owes);
    }

    /// Releases the report's reserve, because the agent's work has ended.
    pub fn report_over(&mut self, agent: &AgentId) {
        if let Ok(at) = self.open_slot(agent) {
            self.set_owes(at, ReportDue::No);
        }
    }

    /// Reserves for a report again, because the agent starts a new attempt.
    pub fn report_again(&mut self, agent: &AgentId) {
        if let Ok(at) = self.open_slot(agent) {
            self.set_owes(at, ReportDue::Yes);
        }
    }

    fn set_owes(&mut self, at: usize, owes: ReportDue) {
        let Node { report, owes: before, .. } = self.nodes[at];
        self.nodes[at].owes = owes;
        match (before == ReportDue::Yes, owes == ReportDue::Yes) {
            (true, false) => self.each_upwards(at, |node| node.owed = node.owed.less(report)),
            (false, true) => self.each_upwards(at, |node| node.owed = node.owed.plus(report)),
            _ => {}
        }
    }

    /// The result of [`reserve`](Self::reserve) without a reservation.
    pub fn quote(
        &self,
        agent: &AgentId,
        want: &CallEstimate,
        purpose: Purpose,
    ) -> Result<Reservation, LedgerError> {
        let at = self.open_slot(agent)?;
        let own = match (purpose, self.nodes[at].owes) {
            (Purpose::Report, ReportDue::Yes) => self.nodes[at].report,
            _ => CapTotals::default(),
        };
        let capped = self.upwards(at).map(|at| self.nodes[at].capped(purpose, own));
        Ok(quote(capped, want, purpose))
    }

    /// Whether a cap on money applies to the agent. Such a cap refuses every model of unknown price.
    pub fn limits_money(&self, agent: &AgentId) -> bool {
        self.open_slot(agent).is_ok_and(|at| self.upwards(at).any(|at| self.nodes[at].budget.usd.is_some()))
    }

    /// The nearest budget that is mostly spent, from the agent's own up to the root's.
    pub fn low(&self, agent: &AgentId) -> Option<LowBudget> {
        let at = self.open_slot(agent).ok()?;
        self.upwards(at).find_map(|at| self.nodes[at].low())
    }

    /// Reserves the worst case of a model call under every cap above it, before the call is sent.
    pub fn reserve(
        &mut self,
        agent: &AgentId,
        want: &CallEstimate,
        purpose: Purpose,
    ) -> Result<Reservation, LedgerError> {
        let reservation = self.quote(agent, want, purpose)?;
        if let Reservation::Granted(amount) = reservation {
            self.hold(agent, amount, purpose)?;
        }
        Ok(reservation)
    }

    /// Records a reservation that the journal has. It was granted before, so it counts even beyond a cap.
    pub fn hold(&mut self, agent: &AgentId, amount: Amount, purpose: Purpose) -> Result<(), LedgerError> {
        let at = self.open_slot(agent)?;
        if purpose == Purpose::Report {
            self.set_owes(at, ReportDue::Now);
        }
        self.nodes[at].in_flight = self.nodes[at].in_flight.plus(amount.into());
        self.each_upwards(at, |node| node.reserved = node.reserved.plus(amount.into()));
        Ok(())
    }

    /// Replaces a call's reservation with its actual usage.
    pub fn charge(&mut self, agent: &AgentId, reserved: Amount, actual: Usage) -> Result<(), LedgerError> {
        let at = self.open_slot(agent)?;
        let released = CapTotals::from(reserved);
        let left = self.nodes[at].in_flight.minus(released);
        self.nodes[at].in_flight = left.ok_or_else(|| LedgerError::NotReserved(agent.clone()))?;
        let micro_usd = actual.micro_usd.unwrap_or(released.micro_usd);
        let spent = CapTotals { tokens: actual.tokens(), micro_usd };
        let beyond = spent.less(released);
        self.each_upwards(at, |node| {
            // An ancestor's reservation includes the agent's, so this never underflows.
            node.reserved = node.reserved.minus(released).unwrap_or_default();
            node.spent = node.spent.plus(spent);
            node.unforeseen = node.unforeseen.plus(beyond);
        });
        if self.nodes[at].owes == ReportDue::Now {
            // A call without usage wrote nothing, so the report is still due.
            self.set_owes(at, if spent == CapTotals::default() { ReportDue::Yes } else { ReportDue::No });
        }
        self.count(at, actual.into());
        Ok(())
    }

    /// Charges the whole reservation of a call whose usage is unknown, as after a crash.
    pub fn forfeit(&mut self, agent: &AgentId, reserved: Amount) -> Result<(), LedgerError> {
        self.charge(agent, reserved, reserved.as_usage().as_cut_off())
    }

    /// Counts turns, tool calls and wall time. Usage normally goes through [`charge`](Self::charge). Usage that is
    /// given here was not reserved, and counts too.
    pub fn record(&mut self, agent: &AgentId, figures: Figures) -> Result<(), LedgerError> {
        let at = self.open_slot(agent)?;
        let usage = figures.usage;
        let spent = CapTotals { tokens: usage.tokens(), micro_usd: usage.micro_usd.unwrap_or(0) };
        self.each_upwards(at, |node| node.spent = node.spent.plus(spent));
        self.count(at, figures);
        Ok(())
    }

    /// Closes an agent that has no call in flight and no open child.
    pub fn close(&mut self, agent: &AgentId) -> Result<(), LedgerError> {
        let at = self.open_slot(agent)?;
        let node = &self.nodes[at];
        if node.open > 1 {
            return Err(LedgerError::OpenChildren(agent.clone()));
        }
        if node.reserved != CapTotals::default() {
            return Err(LedgerError::InFlight(agent.clone()));
        }
        self.set_owes(at, ReportDue::No);
        self.nodes[at].closed = true;
        self.each_upwards(at, |node| node.open -= 1);
        Ok(())
    }

    /// The agent's own figures.
    pub fn own(&self, agent: &AgentId) -> Option<&Figures> {
        self.node(agent).map(|node| &node.own)
    }

    /// The figures of the agent and all agents below it.
    pub fn subtree(&self, agent: &AgentId) -> Option<&Figures> {
        self.node(agent).map(|node| &node.subtree)
    }

    /// The totals of each depth, from the root down.
    pub fn by_depth(&self) -> &[AtDepth] {
        &self.depths
    }

    /// How many agents were ever created in the agent's subtree, itself included.
    pub fn created(&self, agent: &AgentId) -> Option<u64> {
        self.node(agent).map(|node| node.created)
    }

    /// How many agents of the subtree are open, the agent itself included.
    pub fn open(&self, agent: &AgentId) -> Option<u64> {
        self.node(agent).map(|node| node.open)
    }

    /// How many tokens the subtree has reserved for calls in flight.
    pub fn reserved_tokens(&self, agent: &AgentId) -> Option<u64> {
        self.node(agent).map(|node| node.reserved.tokens)
    }

    /// The index of the parent's node, if the child may be created.
    fn slot_for(&self, child: &AgentId, budget: &Budget) -> Result<usize, LedgerError> {
        if self.indices.contains_key(child) {
            return Err(LedgerError::Doubled(child.clone()));
        }
        let parent = child.parent().ok_or_else(|| LedgerError::Doubled(child.clone()))?;
        let parent = self.open_slot(&parent)?;
        check_itself(child, budget)?;
        let full = self.upwards(parent).find_map(|at| self.nodes[at].full());
        full.map_or(Ok(parent), |exhausted| Err(exhausted.into()))
    }

    fn add(&mut self, agent: &AgentId, parent: Option<usize>, budget: &Budget) {
        let at = self.nodes.len();
        let depth = parent.map_or(0, |parent| self.nodes[parent].depth + 1);
        self.indices.insert(agent.clone(), at);
        self.nodes.push(Node::new(agent.clone(), parent, depth, *budget));
        if self.depths.len() == depth {
            self.depths.push(AtDepth::default());
        }
        self.depths[depth].agents += 1;
        self.each_upwards(at, |node| {
            node.created += 1;
            node.open += 1;
        });
        self.set_owes(at, ReportDue::Yes);
    }

    fn count(&mut self, at: usize, figures: Figures) {
        self.nodes[at].own += figures;
        let depth = self.nodes[at].depth;
        self.depths[depth].figures += figures;
        self.each_upwards(at, |node| node.subtree += figures);
    }

    fn node(&self, agent: &AgentId) -> Option<&Node> {
        self.indices.get(agent).map(|&at| &self.nodes[at])
    }

    fn open_slot(&self, agent: &AgentId) -> Result<usize, LedgerError> {
        let at = *self.indices.get(agent).ok_or_else(|| LedgerError::Unknown(agent.clone()))?;
        if self.nodes[at].closed { Err(LedgerError::Closed(agent.clone())) } else { Ok(at) }
    }

    /// The indices from an agent up to the root.
    fn upwards(&self, from: usize) -> impl Iterator<Item = usize> {
        successors(Some(from), |&at| self.nodes[at].parent)
    }

    fn each_upwards(&mut self, from: usize, mut change: impl FnMut(&mut Node)) {
        let mut next = Some(from);
        while let Some(at) = next {
            change(&mut self.nodes[at]);
            next = self.nodes[at].parent;
        }
    }
}

impl Node {
    fn new(agent: AgentId, parent: Option<usize>, depth: usize, budget: Budget) -> Self {
        Self {
            agent,
            parent,
            depth,
            budget,
            closed: false,
            own: Figures::default(),
            in_flight: CapTotals::default(),
            report: report_sums(None),
            owes: ReportDue::No,
            subtree: Figures::default(),
            spent: CapTotals::default(),
            unforeseen: CapTotals::default(),
            reserved: CapTotals::default(),
            owed: CapTotals::default(),
            created: 0,
            open: 0,
        }
    }

    /// The cap that applies to a call. `own` is the reserve of the report that the call writes.
    fn capped(&self, purpose: Purpose, own: CapTotals) -> CappedAgent<'_> {
        let spent = match purpose {
            Purpose::Work => self.spent,
            Purpose::Report => self.spent.less(self.unforeseen),
        };
        CappedAgent {
            owner: &self.agent,
            tokens: self.budget.tokens,
            usd: self.budget.usd,
            spent,
            reserved: self.reserved,
            kept: self.owed.less(own),
        }
    }

    /// The cap that has not enough room for all outstanding reports and `more`.
    fn lacks_room(&self, more: CapTotals) -> Option<ExhaustedCap> {
        let Self { spent, reserved, owed, budget, .. } = self;
        let lacks = |cap: u64, used: u64, reserved: u64, kept: u64, asked: u64| {
            let all = [used, reserved, kept, asked].into_iter().fold(0, u64::saturating_add);
            (all > cap).then_some(LimitUsage { used, kept, reserved, asked })
        };
        let tokens = budget.tokens.and_then(|cap| {
            let taken = lacks(cap, spent.tokens, reserved.tokens, owed.tokens, more.tokens)?;
            Some((Limit::Tokens(cap), taken))
        });
        let usd = budget.usd.and_then(|cap| {
            let taken =
                lacks(cap.micros(), spent.micro_usd, reserved.micro_usd, owed.micro_usd, more.micro_usd)?;
            Some((Limit::Usd(cap), taken))
        });
        let (limit, taken) = tokens.or(usd)?;
        Some(ExhaustedCap { owner: self.agent.clone(), limit, taken: Some(taken) })
    }

    fn low(&self) -> Option<LowBudget> {
        // A budget of zero is never spent.
        let is_low = |spent: u64, cap: u64| {
            cap > 0 && u128::from(spent) * 100 >= u128::from(cap) * u128::from(LOW_PERCENT)
        };
        let tokens = self.budget.tokens.filter(|cap| is_low(self.spent.tokens, *cap)).map(Limit::Tokens);
        let usd = self.budget.usd.filter(|cap| is_low(self.spent.micro_usd, cap.micros())).map(Limit::Usd);
        let limit = tokens.or(usd)?;
        Some(LowBudget { owner: self.agent.clone(), limit })
    }

    /// The cap on agents, if it is reached.
    fn full(&self) -> Option<ExhaustedCap> {
        let limit = self.budget.agents.filter(|&limit| self.created >= limit)?;
        Some(ExhaustedCap { owner: self.agent.clone(), limit: Limit::Agents(limit), taken: None })
    }
}

/// A budget of zero agents does not even allow its own agent.
fn check_itself(agent: &AgentId, budget: &Budget) -> Result<(), LedgerError> {
    match budget.agents {
        Some(0) => Err(ExhaustedCap { owner: agent.clone(), limit: Limit::Agents(0), taken: None }.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::reserve::{
        MIN_OUTPUT_TOKENS, REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS, REPORT_TOKENS,
    };
    use super::super::{Price, Usd};
    use super::*;

    /// A dollar per million tokens: one millionth each.
    const PRICE: Price = Price::plain(1_000_000, 1_000_000);

    fn agent(text: &str) -> AgentId {
        text.parse().expect("agent id")
    }

    fn root() -> AgentId {
        agent("k3f9ab2c")
    }

    fn tokens(tokens: u64) -> Budget {
        Budget { tokens: Some(tokens), ..Budget::NONE }
    }

    fn agents(agents: u64) -> Budget {
        Budget { agents: Some(agents), ..Budget::NONE }
    }

    fn want(input_tokens: u64, max_output_tokens: u64) -> CallEstimate {
        CallEstimate { input_tokens, max_output_tokens, price: Some(PRICE) }
    }

    fn usage(input_tokens: u64, output_tokens: u64) -> Usage {
        let micro_usd = Some(input_tokens + output_tokens);
        Usage { input_tokens, output_tokens, micro_usd, ..Usage::ZERO }
    }

    fn granted(reservation: Result<Reservation, LedgerError>) -> Amount {
        match reservation {
            Ok(Reservation::Granted(amount)) => amount,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// An exhausted cap on agents.
    fn exhausted(owner: &str, limit: Limit) -> ExhaustedCap {
        ExhaustedCap { owner: agent(owner), limit, taken: None }
    }

    /// The agent whose cap is exhausted, and the limit.
    fn refusal(answer: Reservation) -> (AgentId, Limit) {
        match answer {
            Reservation::Exhausted(ExhaustedCap { owner, limit, .. }) => (owner, limit),
            other => panic!("not exhausted: {other:?}"),
        }
    }

    #[test]
    fn without_a_cap_every_call_is_granted() {
        let mut ledger = Ledger::open_root(&root(), &Budget::NONE).expect("ledger");
        let unpriced = CallEstimate { price: None, ..want(1_000_000, 64_000) };
        let amount = granted(ledger.reserve(&root(), &unpriced, Purpose::Work));
        assert_eq!(amount, Amount { input_tokens: 1_000_000, output_tokens: 64_000, micro_usd: None });
        ledger.forfeit(&root(), amount).expect("settled");
        assert_eq!(ledger.own(&root()).map(|own| own.usage), Some(amount.as_usage().as_cut_off()));
    }

    #[test]
    fn a_budget_is_low_from_four_fifths_on() {
        let root: AgentId = "k3f9ab2c".parse().expect("id");
        let budget = Budget { tokens: Some(1_000), ..Budget::NONE };
        let mut ledger = Ledger::open_root(&root, &budget).expect("ledger");
        let child = root.child(1);
        ledger.open_child(&child, &Budget::NONE).expect("child");
        let spend = |tokens| Usage { input_tokens: tokens, ..Usage::ZERO }.into();
        ledger.record(&child, spend(799)).expect("open");
        assert_eq!(ledger.low(&child), None);
        ledger.record(&child, spend(1)).expect("open");
        let low = ledger.low(&child).expect("low").to_string();
        assert_eq!(low, "the budget of the run is used: its limit is 1000 tokens");
        let none = Ledger::open_root(&root, &Budget { tokens: Some(0), ..Budget::NONE }).expect("ledger");
        assert_eq!(none.low(&root), None, "exhausted, not low");
    }

    #[test]
    fn a_call_waits_for_what_is_in_flight() {
        let mut ledger = Ledger::open_root(&root(), &tokens(10_000 + REPORT_TOKENS)).expect("ledger");
        let first = granted(ledger.reserve(&root(), &want(2000, 4000), Purpose::Work));
        let second = ledger.reserve(&root(), &want(2000, 4000), Purpose::Work);
        assert_eq!(second, Ok(Reservation::Wait { owner: root() }));
        ledger.charge(&root(), first, usage(2000, 500)).expect("settled");
        let second = granted(ledger.reserve(&root(), &want(2000, 4000), Purpose::Work));
        assert_eq!((second.input_tokens, second.output_tokens), (2000, 4000));
    }

    #[test]
    fn the_output_is_lowered_to_a_floor_and_then_the_cap_is_exhausted() {
        let cap = 5000 + REPORT_TOKENS;
        let mut ledger = Ledger::open_root(&root(), &tokens(cap)).expect("ledger");
        let lowered = granted(ledger.reserve(&root(), &want(2000, 8000), Purpose::Work));
        assert_eq!(lowered.output_tokens, 3000, "as much as fits");
        ledger.charge(&root(), lowered, usage(2000, 1000)).expect("settled");
        let least = want(2000 - MIN_OUTPUT_TOKENS, 8000);
        assert_eq!(granted(ledger.quote(&root(), &least, Purpose::Work)).output_tokens, MIN_OUTPUT_TOKENS);
        let more = CallEstimate { input_tokens: least.input_tokens + 1, ..least };
        let refused = ledger.reserve(&root(), &more, Purpose::Work).expect("an answer");
        assert_eq!(refusal(refused), (root(), Limit::Tokens(cap)));
        let report = granted(ledger.reserve(&root(), &more, Purpose::Report));
        assert_eq!(report.output_tokens, 255 + REPORT_TOKENS, "the report may use the rest");
    }

    #[test]
    fn a_lowered_call_waits_too() {
        let mut ledger = Ledger::open_root(&root(), &tokens(5000 + REPORT_TOKENS)).expect("ledger");
        let first = granted(ledger.reserve(&root(), &want(500, 500), Purpose::Work));
        let waiting = ledger.reserve(&root(), &want(2000, 8000), Purpose::Work);
        assert_eq!(waiting, Ok(Reservation::Wait { owner: root() }));
        ledger.charge(&root(), first, Usage::ZERO).expect("settled");
        assert_eq!(granted(ledger.reserve(&root(), &want(2000, 8000), Purpose::Work)).output_tokens, 3000);
    }

    #[test]
    fn every_cap_above_binds_and_is_named() {
        let mut ledger = Ledger::open_root(&root(), &tokens(1_000_000)).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &tokens(3000)).expect("child");
        let grandchild = agent("k3f9ab2c.1.1");
        ledger.open_child(&grandchild, &tokens(500_000)).expect("grandchild");
        let refused = ledger.reserve(&grandchild, &want(2000, 1000), Purpose::Work).expect("an answer");
        let Reservation::Exhausted(expected) = &refused else { panic!("{refused:?}") };
        assert_eq!(
            expected.to_string(),
            "the budget of task 1 is exhausted: its limit is 3000 tokens, of which 0 are used, 8192 are kept for \
             reports; the next needs at least 2256"
        );
        assert_eq!(refusal(refused), (child, Limit::Tokens(3000)));
        assert!(matches!(
            ledger.reserve(&root(), &want(2000, 1000), Purpose::Work),
            Ok(Reservation::Granted(_))
        ));
    }

    #[test]
    fn the_last_part_is_for_the_reports_of_the_agents_open_now() {
        let mut ledger = Ledger::open_root(&root(), &tokens(4 * REPORT_TOKENS)).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &Budget::NONE).expect("child");
        assert_eq!(
            granted(ledger.quote(&root(), &want(0, 99_999), Purpose::Work)).output_tokens,
            2 * REPORT_TOKENS
        );
        ledger.close(&child).expect("closed");
        assert_eq!(
            granted(ledger.quote(&root(), &want(0, 99_999), Purpose::Work)).output_tokens,
            3 * REPORT_TOKENS
        );
    }

    /// The reserve that the ledger keeps for an agent's report.
    fn report() -> CallEstimate {
        want(REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS)
    }

    #[test]
    fn a_report_leaves_the_part_of_the_others_alone() {
        let mut ledger = Ledger::open_root(&root(), &tokens(3 * REPORT_TOKENS)).expect("ledger");
        let children = [agent("k3f9ab2c.1"), agent("k3f9ab2c.2")];
        for child in &children {
            ledger.open_child(child, &Budget::NONE).expect("child");
        }
        let much = want(REPORT_INPUT_TOKENS, 64_000);
        let refused = ledger.quote(&children[0], &want(100, 64_000), Purpose::Work).expect("an answer");
        assert_eq!(
            refusal(refused),
            (root(), Limit::Tokens(3 * REPORT_TOKENS)),
            "there is only room for reports"
        );
        for (at, who) in children.iter().chain([&root()]).enumerate() {
            let amount = granted(ledger.reserve(who, &much, Purpose::Report));
            assert_eq!(amount.output_tokens, REPORT_OUTPUT_TOKENS, "{at}");
            ledger.forfeit(who, amount).expect("settled");
        }
        let spent = ledger.subtree(&root()).map(|all| all.usage.tokens());
        assert_eq!(spent, Some(3 * REPORT_TOKENS));
    }

    #[test]
    fn a_report_is_still_to_come_after_a_call_that_took_nothing() {
        let mut ledger = Ledger::open_root(&root(), &tokens(2 * REPORT_TOKENS)).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &Budget::NONE).expect("child");
        for _ in 0..3 {
            let amount = granted(ledger.reserve(&child, &report(), Purpose::Report));
            ledger.charge(&child, amount, Usage::ZERO).expect("settled");
        }
        let refused = ledger.quote(&root(), &want(0, 300), Purpose::Work).expect("an answer");
        assert!(matches!(refused, Reservation::Exhausted(_)), "the child's is kept again");
        let amount = granted(ledger.reserve(&child, &report(), Purpose::Report));
        ledger.charge(&child, amount, usage(100, 100)).expect("settled");
        granted(ledger.quote(&root(), &want(0, 300), Purpose::Work));
        let over =
            ledger.quote(&child, &want(REPORT_INPUT_TOKENS, 64_000), Purpose::Report).expect("an answer");
        assert!(matches!(over, Reservation::Exhausted(_)), "it has had its report: {over:?}");
        assert!(!ledger.has_room_for_report(&child), "and there is no room for another");
    }

    #[test]
    fn what_a_provider_counts_beyond_an_estimate_is_not_taken_from_reports() {
        let cap = 2 * REPORT_TOKENS + 2_000;
        let mut ledger = Ledger::open_root(&root(), &tokens(cap)).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &Budget::NONE).expect("child");
        let amount = granted(ledger.reserve(&root(), &want(500, 500), Purpose::Work));
        ledger.charge(&root(), amount, usage(500_000, 400)).expect("settled");
        for who in [&child, &root()] {
            let work = ledger.quote(who, &want(10, 300), Purpose::Work).expect("an answer");
            assert!(matches!(work, Reservation::Exhausted(_)), "{work:?}");
            let amount = granted(ledger.reserve(who, &report(), Purpose::Report));
            ledger.charge(who, amount, usage(REPORT_INPUT_TOKENS, 900)).expect("settled");
        }
    }

    /// Children that leave no room for the report of every open agent are not created.
    #[test]
    fn a_child_needs_room_for_its_report_and_those_of_all_others() {
        let usd = |micros| Budget { usd: Some(Usd::from_micros(micros)), ..Budget::NONE };
        let dear = Price::plain(1_000_000, 5_000_000);
        let report_usd = PRICE.worst(REPORT_INPUT_TOKENS, REPORT_OUTPUT_TOKENS);
        for (name, root_budget, child_budget, price, spent, reserved, fits) in [
            ("no cap", Budget::NONE, Budget::NONE, None, 1_000_000, 1_000_000, true),
            ("room for both", tokens(2 * REPORT_TOKENS), Budget::NONE, None, 0, 0, true),
            ("a token too little", tokens(2 * REPORT_TOKENS - 1), Budget::NONE, None, 0, 0, false),
            ("what is spent counts", tokens(2 * REPORT_TOKENS + 99), Budget::NONE, None, 100, 0, false),
            ("what is reserved counts", tokens(2 * REPORT_TOKENS + 99), Budget::NONE, None, 0, 100, false),
            ("all of it fits", tokens(2 * REPORT_TOKENS + 200), Budget::NONE, None, 100, 100, true),
            ("its own cap is too small", Budget::NONE, tokens(REPORT_TOKENS - 1), None, 0, 0, false),
            ("its own cap is enough", Budget::NONE, tokens(REPORT_TOKENS), None, 0, 0, true),
            ("its own cap is zero", Budget::NONE, tokens(0), None, 0, 0, false),
            ("money for both", usd(2 * report_usd), Budget::NONE, Some(PRICE), 0, 0, true),
            ("money for one", usd(2 * report_usd - 1), Budget::NONE, Some(PRICE), 0, 0, false),
            ("its model is dearer", usd(2 * report_usd), Budget::NONE, Some(dear), 0, 0, false),
            ("its own money is too little", Budget::NONE, usd(report_usd - 1), Some(PRICE), 0, 0, false),
        ] {
            let mut ledger = Ledger::open_root(&root(), &root_budget).expect("ledger");
            ledger.set_price(&root(), Some(PRICE));
            ledger.record(&root(), usage(spent, 0).into()).expect("open");
            let held = Amount { input_tokens: reserved, output_tokens: 0, micro_usd: Some(0) };
            ledger.hold(&root(), held, Purpose::Work).expect("open");
            let child = agent("k3f9ab2c.1");
            let answer = ledger.check_room(&root(), &child, &child_budget, price);
            assert_eq!(answer.is_ok(), fits, "{name}: {answer:?}");
        }
    }

    #[test]
    fn money_is_a_cap_like_tokens() {
        let budget = Budget { usd: Some(Usd::from_micros(10_000 + REPORT_TOKENS)), ..Budget::NONE };
        let mut ledger = Ledger::open_root(&root(), &budget).expect("ledger");
        ledger.set_price(&root(), Some(PRICE));
        let first = granted(ledger.reserve(&root(), &want(2000, 4000), Purpose::Work));
        assert_eq!(first.micro_usd, Some(6000));
        let waiting = ledger.reserve(&root(), &want(2000, 4000), Purpose::Work);
        assert_eq!(waiting, Ok(Reservation::Wait { owner: root() }));
        ledger.charge(&root(), first, Usage { micro_usd: None, ..usage(2000, 100) }).expect("settled");
        let left = granted(ledger.reserve(&root(), &want(2000, 4000), Purpose::Work));
        assert_eq!(left.output_tokens, 2000, "a cost that came back unknown counts as reserved");
        assert_eq!(ledger.own(&root()).expect("root").usage.micro_usd, None, "and is shown as unknown");
    }

    #[test]
    fn an_unknown_price_never_passes_a_cap_on_money() {
        let usd = Usd::from_micros(1_500_000);
        let mut ledger =
            Ledger::open_root(&root(), &Budget { usd: Some(usd), ..Budget::NONE }).expect("ledger");
        let unpriced = CallEstimate { price: None, ..want(10, 10) };
        let refused = ledger.reserve(&root(), &unpriced, Purpose::Report).expect("an answer");
        assert_eq!(refusal(refused), (root(), Limit::UnknownPrice(usd)));
        ledger.open_child(&root().child(1), &Budget::NONE).expect("a child");
        assert!(ledger.limits_money(&root()) && ledger.limits_money(&root().child(1)));
        assert!(!Ledger::open_root(&root(), &Budget::NONE).expect("ledger").limits_money(&root()));
    }

    #[test]
    fn zero_means_zero() {
        let free = Price::plain(0, 0);
        for budget in [tokens(0), Budget { usd: Some(Usd::from_micros(0)), ..Budget::NONE }] {
            let mut ledger = Ledger::open_root(&root(), &budget).expect("ledger");
            for purpose in [Purpose::Work, Purpose::Report] {
                for want in
                    [want(1, 1), want(0, 1), want(0, 0), CallEstimate { price: Some(free), ..want(1, 1) }]
                {
                    let answer = ledger.reserve(&root(), &want, purpose);
                    assert!(matches!(answer, Ok(Reservation::Exhausted(_))), "{budget:?} {answer:?}");
                }
            }
        }
        let refused = Ledger::open_root(&root(), &agents(0)).expect_err("no agents");
        assert_eq!(refused, exhausted("k3f9ab2c", Limit::Agents(0)).into());
        let mut ledger = Ledger::open_root(&root(), &Budget::NONE).expect("ledger");
        let refused = ledger.open_child(&agent("k3f9ab2c.1"), &agents(0)).expect_err("no agents");
        assert_eq!(refused, exhausted("k3f9ab2c.1", Limit::Agents(0)).into());
    }

    #[test]
    fn the_cap_on_agents_counts_all_that_ever_were() {
        let mut ledger = Ledger::open_root(&root(), &agents(4)).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &agents(2)).expect("child");
        ledger.open_child(&child.child(1), &Budget::NONE).expect("grandchild");
        let refused = ledger.check_spawn(&child.child(2), &Budget::NONE).expect_err("the child's cap");
        assert_eq!(refused, exhausted("k3f9ab2c.1", Limit::Agents(2)).into());
        ledger.close(&child.child(1)).expect("closed");
        ledger.open_child(&child.child(2), &Budget::NONE).expect_err("closed agents count");
        ledger.open_child(&agent("k3f9ab2c.2"), &Budget::NONE).expect("the fourth");
        let refused = ledger.open_child(&agent("k3f9ab2c.3"), &Budget::NONE).expect_err("the root's cap");
        assert_eq!(refused.to_string(), "the budget of the run is exhausted: its limit is 4 agents");
        assert_eq!((ledger.created(&root()), ledger.open(&root())), (Some(4), Some(3)));
    }

    #[test]
    fn figures_are_kept_as_own_as_subtree_and_by_depth() {
        let mut ledger = Ledger::open_root(&root(), &Budget::NONE).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &Budget::NONE).expect("child");
        for (who, input) in [(&root(), 100), (&child, 10), (&child, 1)] {
            let amount = granted(ledger.reserve(who, &want(input, 50), Purpose::Work));
            ledger.charge(who, amount, usage(input, 5)).expect("settled");
            ledger
                .record(who, Figures { turns: 1, tool_calls: 2, wall_ms: 30, ..Figures::default() })
                .expect("counted");
        }
        let own = *ledger.own(&child).expect("child");
        assert_eq!(
            own,
            Figures { turns: 2, tool_calls: 4, wall_ms: 60, usage: usage(11, 10), ..Figures::default() }
        );
        let all = *ledger.subtree(&root()).expect("root");
        assert_eq!(all, own + *ledger.own(&root()).expect("root"));
        let depths = ledger.by_depth();
        assert_eq!(depths.iter().map(|depth| depth.agents).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(depths[1].figures, own);
        ledger.close(&child).expect("closed");
        assert_eq!(ledger.subtree(&child), Some(&own), "a closed agent's figures stay");
    }

    #[test]
    fn mistakes_are_refused_and_change_nothing() {
        let mut ledger = Ledger::open_root(&root(), &Budget::NONE).expect("ledger");
        let child = agent("k3f9ab2c.1");
        ledger.open_child(&child, &Budget::NONE).expect("child");
        let amount = granted(ledger.reserve(&child, &want(10, 10), Purpose::Work));
        let too_much = Amount { input_tokens: 11, ..amount };
        assert_eq!(
            ledger.charge(&child, too_much, Usage::ZERO),
            Err(LedgerError::NotReserved(child.clone()))
        );
        assert_eq!(ledger.charge(&root(), amount, Usage::ZERO), Err(LedgerError::NotReserved(root())));
        assert_eq!(ledger.close(&root()), Err(LedgerError::OpenChildren(root())));
        assert_eq!(ledger.close(&child), Err(LedgerError::InFlight(child.clone())));
        ledger.forfeit(&child, amount).expect("settled");
        ledger.close(&child).expect("closed");
        assert_eq!(ledger.close(&child), Err(LedgerError::Closed(child.clone())));
        assert_eq!(
            ledger.reserve(&child, &want(1, 1), Purpose::Report),
            Err(LedgerError::Closed(child.clone()))
        );
        assert_eq!(
            ledger.open_child(&child.child(1), &Budget::NONE),
            Err(LedgerError::Closed(child.clone()))
        );
        assert_eq!(ledger.open_child(&child, &Budget::NONE), Err(LedgerError::Doubled(child)));
        let stranger = agent("zzzzzzzz.1");
        assert_eq!(ledger.open_child(&stranger, &Budget::NONE), Err(LedgerError::Unknown(agent("zzzzzzzz"))));
        assert_eq!(
            ledger.open_child(&agent("zzzzzzzz"), &Budget::NONE),
            Err(LedgerError::Doubled(agent("zzzzzzzz")))
        );
    }

    #[test]
    fn a_journalled_reservation_is_a_fact() {
        let mut ledger = Ledger::open_root(&root(), &tokens(100)).expect("ledger");
        let amount = Amount { input_tokens: 500, output_tokens: 500, micro_usd: None };
        ledger.hold(&root(), amount, Purpose::Work).expect("held");
        assert_eq!(ledger.reserved_tokens(&root()), Some(1000));
        ledger.forfeit(&root(), amount).expect("settled");
        assert_eq!(ledger.subtree(&root()).map(|all| all.usage.tokens()), Some(1000));
    }
}
