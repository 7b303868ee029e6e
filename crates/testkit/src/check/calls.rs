//! Checks that every call of every reply has exactly one result, and that every child is reported to its parent exactly
//! once.

use std::collections::{BTreeMap, BTreeSet};

use posse::{AgentId, EventBody};
use posse_domain::event::Sender;

use super::{Findings, Harm, Journal};

/// A call as the journal refers to it.
type CallKey = (AgentId, String);

pub(super) fn check(journal: &Journal, findings: &mut Findings) {
    results(journal, findings);
    spawns(journal, findings);
    deliveries(journal, findings);
    readings(journal, findings);
}

fn results(journal: &Journal, findings: &mut Findings) {
    // The calls of each agent's last reply that have no result yet.
    let mut open: BTreeMap<&AgentId, BTreeSet<&str>> = BTreeMap::new();
    for event in &journal.events {
        let agent = &event.agent_id;
        match &event.body {
            EventBody::ModelReplied(replied) => {
                let Some(reply) = &replied.reply else { continue };
                let before = open.insert(agent, reply.calls.iter().map(|call| call.id.as_str()).collect());
                for call in before.into_iter().flatten() {
                    findings
                        .add(Harm::Lost, format!("{agent}: `{call}` had no result at event {}", event.seq));
                }
            }
            EventBody::ToolFinished(finished) => {
                result(open.get_mut(agent), agent, &finished.call_id, event.seq, findings);
            }
            EventBody::ToolInterrupted(interrupted) => {
                result(open.get_mut(agent), agent, &interrupted.call_id, event.seq, findings);
            }
            _ => {}
        }
    }
    for (agent, calls) in open {
        for call in calls {
            findings.add(Harm::Lost, format!("{agent}: `{call}` never got a result"));
        }
    }
}

fn result(open: Option<&mut BTreeSet<&str>>, agent: &AgentId, call: &str, seq: u64, findings: &mut Findings) {
    let expected = open.is_some_and(|open| open.remove(call));
    findings.expect(expected, Harm::Doubled, || {
        format!("{agent}: event {seq} is a result of `{call}`, which had one already or was never made")
    });
}

/// Each intended `task` call led to one child or one refusal.
fn spawns(journal: &Journal, findings: &mut Findings) {
    let mut led_to: BTreeMap<CallKey, u32> = BTreeMap::new();
    let mut intended: BTreeSet<CallKey> = BTreeSet::new();
    for event in &journal.events {
        match &event.body {
            EventBody::SubagentCreated(created) => {
                *led_to.entry((created.parent_id.clone(), created.call_id.clone())).or_default() += 1;
            }
            EventBody::SubagentRefused(refused) => {
                *led_to.entry((event.agent_id.clone(), refused.call_id.clone())).or_default() += 1;
            }
            EventBody::ToolIntended(tool) if tool.tool == "task" => {
                intended.insert((event.agent_id.clone(), tool.call_id.clone()));
            }
            _ => {}
        }
    }
    for (agent, call) in &intended {
        let count = led_to.remove(&(agent.clone(), call.clone())).unwrap_or(0);
        let harm = if count == 0 { Harm::Lost } else { Harm::Doubled };
        findings
            .expect(count == 1, harm, || format!("{agent}: `{call}` led to {count} children or refusals"));
    }
    for ((agent, call), _) in led_to {
        findings.add(Harm::Broken, format!("{agent}: `{call}` led to a child without an intent"));
    }
}

/// A foreground child is the result of its call, and a background child is one message. A parent that has ended
/// receives nothing more.
fn deliveries(journal: &Journal, findings: &mut Findings) {
    let mut results: BTreeMap<&AgentId, u32> = BTreeMap::new();
    let mut messages: BTreeMap<&AgentId, u32> = BTreeMap::new();
    let mut children: BTreeMap<&AgentId, (bool, &AgentId)> = BTreeMap::new();
    for event in &journal.events {
        match &event.body {
            EventBody::SubagentCreated(created) => {
                children.insert(&event.agent_id, (created.background, &created.parent_id));
            }
            EventBody::ToolFinished(finished) => {
                if let Some(child) = &finished.child {
                    *results.entry(child).or_default() += 1;
                }
            }
            EventBody::MessageReceived(received) => {
                if let Sender::Child(child) = &received.from {
                    *messages.entry(child).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let cancelled: BTreeSet<&AgentId> = journal
        .events
        .iter()
        .filter(|event| matches!(event.body, EventBody::CancelRequested(_)))
        .map(|event| &event.agent_id)
        .collect();
    for (child, (background, parent)) in children {
        // An ended attempt answers its own open calls. Agents below it have no parent to report to.
        if cancelled.iter().any(|target| target.contains(parent)) {
            continue;
        }
        let expected = if background { (0, 1) } else { (1, 0) };
        let found = (results.remove(child).unwrap_or(0), messages.remove(child).unwrap_or(0));
        let harm = if found.0 + found.1 > 1 { Harm::Doubled } else { Harm::Lost };
        findings.expect(found == expected, harm, || {
            format!("{child}: results and messages to its parent are {found:?}, expected {expected:?}")
        });
    }
}

/// A child's report comes after its end and is read: by the next turn of its parent, or, if there is none, by the
/// reader of its parent's report, to which the host has added it.
fn readings(journal: &Journal, findings: &mut Findings) {
    let mut ended: BTreeSet<&AgentId> = BTreeSet::new();
    // The results that no turn of the agent has read yet.
    let mut unread: BTreeMap<&AgentId, Vec<(&AgentId, String)>> = BTreeMap::new();
    for event in &journal.events {
        let agent = &event.agent_id;
        let report = match &event.body {
            EventBody::IntegrationPassed(_) | EventBody::IntegrationFailed(_) => {
                ended.insert(agent);
                continue;
            }
            EventBody::SubagentFailed(failed) => {
                ended.insert(agent);
                // A cancelled or failed attempt has no report to which the host could add anything.
                let Some(report) = &failed.report else {
                    unread.remove(agent);
                    continue;
                };
                report
            }
            EventBody::ToolFinished(finished) => {
                if let Some(child) = &finished.child {
                    reported_after_its_end(&ended, child, event.seq, findings);
                }
                continue;
            }
            EventBody::MessageReceived(received) => {
                if let Sender::Child(child) = &received.from {
                    reported_after_its_end(&ended, child, event.seq, findings);
                    unread.entry(agent).or_default().push((child, received.text.to_shared().to_string()));
                }
                continue;
            }
            // A summary call does not read them.
            EventBody::ModelCalled(called) if called.scope.is_some() => continue,
            EventBody::ModelCalled(_) | EventBody::SubagentAttempt(_) | EventBody::RunCancelled(_) => {
                unread.remove(agent);
                continue;
            }
            EventBody::SubagentWaitingForMerge(waiting) => &waiting.report,
            EventBody::RunCompleted(completed) => &completed.text,
            EventBody::RunFailed(failed) => match &failed.text {
                Some(text) => text,
                None => continue,
            },
            _ => continue,
        };
        let report = report.to_shared();
        for (child, text) in unread.remove(agent).into_iter().flatten() {
            findings.expect(report.contains(text.trim()), Harm::Lost, || {
                format!("{agent}: what {child} said was read by no turn and is not in the report")
            });
        }
    }
}

fn reported_after_its_end(ended: &BTreeSet<&AgentId>, child: &AgentId, seq: u64, findings: &mut Findings) {
    findings.expect(ended.contains(child), Harm::Broken, || {
        format!("event {seq} tells how {child} ended, which it had not")
    });
}
