//! Checks the structure of the journal and of the tree of agents: numbers, order, ends.

use std::collections::{BTreeMap, BTreeSet};

use posse::{AgentId, EventBody, OrderChecker};

use super::{Findings, Harm, Journal};

/// The event numbers of cancels.
type CancelPositions = BTreeMap<AgentId, u64>;

pub(super) fn check(journal: &Journal, findings: &mut Findings) {
    numbers(journal, findings);
    order(journal, findings);
    ending(journal, findings);
    quiet_after_cancel(journal, findings);
    if let Some(holder) = &journal.holder {
        findings.add(Harm::Orphan, format!("the run has ended and {holder} still holds its lease"));
    }
}

fn numbers(journal: &Journal, findings: &mut Findings) {
    for (at, event) in journal.events.iter().enumerate() {
        let expected = at as u64 + 1;
        findings.expect(event.seq == expected, Harm::Lost, || {
            format!("event {expected} is numbered {}", event.seq)
        });
    }
}

fn order(journal: &Journal, findings: &mut Findings) {
    let mut order = OrderChecker::default();
    for event in &journal.events {
        if let Err(breach) = order.push(&event.agent_id, event.kind.as_str()) {
            findings.add(Harm::Broken, format!("event {}: {breach}", event.seq));
        }
    }
    for child in order.open() {
        findings.add(Harm::Orphan, format!("{child} is not closed though the run has ended"));
    }
}

fn ending(journal: &Journal, findings: &mut Findings) {
    let ends: Vec<u64> =
        journal.events.iter().filter(|event| event.kind.ends_run()).map(|event| event.seq).collect();
    let last = journal.events.last().map(|event| event.seq);
    findings.expect(ends.len() == 1 && ends.last() == last.as_ref(), Harm::Broken, || {
        format!("the run must end once, with its last event ({last:?}); it ends at {ends:?}")
    });
    for agent in &journal.agents {
        findings.expect(agent.state == posse::AgentState::Closed, Harm::Orphan, || {
            format!("the table says {} is {}", agent.id, agent.state)
        });
    }
    let named: BTreeSet<&AgentId> = journal.events.iter().map(|event| &event.agent_id).collect();
    let listed: BTreeSet<&AgentId> = journal.agents.iter().map(|agent| &agent.id).collect();
    findings.expect(named == listed, Harm::Lost, || format!("events of {named:?}, rows of {listed:?}"));
}

/// No agent of a subtree starts anything after its cancel.
fn quiet_after_cancel(journal: &Journal, findings: &mut Findings) {
    let mut cancelled = CancelPositions::new();
    for event in &journal.events {
        let starts = match &event.body {
            EventBody::CancelRequested(_) => {
                cancelled.entry(event.agent_id.clone()).or_insert(event.seq);
                continue;
            }
            EventBody::ModelCalled(_)
            | EventBody::ToolIntended(_)
            | EventBody::SubagentStarted(_)
            | EventBody::SubagentCreated(_) => true,
            _ => false,
        };
        if !starts {
            continue;
        }
        if let Some((target, at)) = cancelled.iter().find(|(target, _)| target.contains(&event.agent_id)) {
            let text = format!(
                "{} of {} at {}, after the cancel of {target} at {at}",
                event.kind, event.agent_id, event.seq
            );
            findings.add(Harm::Broken, text);
        }
    }
}
