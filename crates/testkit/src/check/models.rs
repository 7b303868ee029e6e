//! Checks model calls: each is answered once, and an answered call is never repeated.

use std::collections::{BTreeMap, BTreeSet};

use posse::{AgentId, EventBody};

use super::{Findings, Harm, Journal};

/// Attempt, turn, number of the call in the turn, and whether it is for a summary.
type CallPosition = (u32, u32, u32, bool);

#[derive(Default)]
struct CallCounts {
    /// The call that has no answer yet.
    waiting: Option<CallPosition>,
    /// Attempts and turns that have their answer.
    answered: BTreeSet<(u32, u32)>,
}

pub(super) fn check(journal: &Journal, findings: &mut Findings) {
    let mut agents: BTreeMap<&AgentId, CallCounts> = BTreeMap::new();
    for event in &journal.events {
        let (agent, seq) = (&event.agent_id, event.seq);
        match &event.body {
            EventBody::ModelCalled(called) => {
                let asked = agents.entry(agent).or_default();
                let is_summary = called.scope.is_some();
                let place = (called.attempt, called.turn, called.call, is_summary);
                if let Some(waiting) = asked.waiting.replace(place) {
                    findings.add(
                        Harm::Lost,
                        format!("{agent}: the call {waiting:?} has no answer at event {seq}"),
                    );
                }
                findings.expect(
                    !asked.answered.contains(&(called.attempt, called.turn)),
                    Harm::Doubled,
                    || format!("{agent}: event {seq} asks again what was answered, at {place:?}"),
                );
            }
            EventBody::ModelReplied(replied) => {
                let asked = agents.entry(agent).or_default();
                let place = (replied.attempt, replied.turn, replied.call, replied.summary);
                let waiting = asked.waiting.take();
                findings.expect(waiting == Some(place), Harm::Doubled, || {
                    format!("{agent}: event {seq} answers {place:?}, but {waiting:?} was asked")
                });
                if replied.is_turn() {
                    asked.answered.insert((replied.attempt, replied.turn));
                }
            }
            _ => {}
        }
    }
    for (agent, asked) in agents {
        findings.expect(asked.waiting.is_none(), Harm::Lost, || {
            format!("{agent}: the call {:?} never got an answer", asked.waiting)
        });
    }
}
