//! Checks the ledger of tokens and money: every figure is the sum of the figures in the events.

use std::collections::BTreeMap;

use posse::{AgentId, EventBody, Figures, Usage};

use super::{Findings, Harm, Journal};

pub(super) fn check(journal: &Journal, findings: &mut Findings) {
    let agents = &journal.agents;
    let mut spent: BTreeMap<&AgentId, Usage> = BTreeMap::new();
    for event in &journal.events {
        if let EventBody::ModelReplied(replied) = &event.body {
            *spent.entry(&event.agent_id).or_default() += replied.charged();
        }
    }
    for agent in agents {
        let replies = spent.get(&agent.id).copied().unwrap_or_default();
        findings.expect(tokens(agent.own) == tokens(replies.into()), Harm::Broken, || {
            format!("{} spent {:?}, its replies cost {replies:?}", agent.id, agent.own.usage)
        });
        let below: Figures =
            agents.iter().filter(|below| agent.id.contains(&below.id)).map(|below| below.own).sum();
        findings.expect(counted(agent.subtree) == counted(below), Harm::Broken, || {
            format!("the subtree of {} says {:?}, its agents sum to {below:?}", agent.id, agent.subtree)
        });
    }
    let total: Figures = agents.iter().map(|agent| agent.own).sum();
    let said = journal.events.last().and_then(|event| match &event.body {
        EventBody::RunCompleted(end) => Some(end.figures),
        EventBody::RunFailed(end) => Some(end.figures),
        EventBody::RunCancelled(end) => Some(end.figures),
        _ => None,
    });
    findings.expect(said.is_some_and(|said| counted(said) == counted(total)), Harm::Broken, || {
        format!("the run's end says {said:?}, its agents sum to {total:?}")
    });
}

fn tokens(figures: Figures) -> (u64, u64, u64) {
    (figures.usage.input_tokens, figures.usage.output_tokens, figures.usage.cached_tokens)
}

/// Without wall time, which changes while the figures are read.
fn counted(figures: Figures) -> (u64, u64, (u64, u64, u64)) {
    (figures.turns, figures.tool_calls, tokens(figures))
}
