//! Invariants that every run of these tests must satisfy.

use std::collections::{HashMap, HashSet};

use posse_domain::event::{EffectClass, Event, EventBody, OrderChecker, Sender};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{Node, Run};
use posse_domain::text::BlobRef;
use posse_engine::ports::{RunKey, Store};
use posse_engine::{read_events, verify};

use crate::world::listing;

/// All events of a run, with their long texts.
pub(crate) async fn read(store: &dyn Store, key: &RunKey) -> Vec<Event> {
    let mut events = Vec::new();
    read_events(store, key, 0, |stored| {
        events.push(Event::decode(&stored).expect("decoded"));
        Ok(())
    })
    .await
    .expect("read");
    for event in &mut events {
        let mut texts: HashMap<_, String> = HashMap::new();
        for BlobRef { blob, .. } in event.body.missing() {
            let bytes = store.get_blob(&key.tenant, &blob).await.expect("the blob is there");
            texts.insert(blob, String::from_utf8(bytes).expect("text"));
        }
        event.body.fill(&mut |at| texts.get(&at.blob).cloned()).expect("filled");
    }
    events
}

/// Checks an ended run, and returns its events and its state.
pub(crate) async fn check(store: &dyn Store, key: &RunKey) -> (Vec<Event>, Run) {
    let events = read(store, key).await;
    let run = whole(&events);
    let outcome = run.outcome.as_ref();
    assert!(outcome.is_some(), "the run has not ended:\n{}", listing(&events));
    let entry = store.runs(&key.tenant, key.run.as_str(), 1).await.expect("runs").remove(0);
    assert_eq!(Some(entry.row.status), outcome.map(posse_domain::lifecycle::Outcome::status));
    if let Err(error) = verify(store, key).await {
        panic!("{error}, in:\n{}", listing(&events));
    }
    (events, run)
}

/// Checks the events of a run, ended or not, and returns its state.
pub(crate) fn whole(events: &[Event]) -> Run {
    let mut order = OrderChecker::default();
    let mut run = Run::begin(&events[0]).expect("begins");
    let mut calls = Calls::default();
    let mut stopped: HashSet<AgentId> = HashSet::new();
    for (at, event) in events.iter().enumerate() {
        let wrong = |problem: &str| format!("{problem} at event {}:\n{}", at + 1, listing(&events[..=at]));
        order
            .push(&event.agent, event.body.kind())
            .unwrap_or_else(|breach| panic!("{}", wrong(&breach.to_string())));
        if at > 0 {
            run.apply(event).unwrap_or_else(|illegal| panic!("{}", wrong(&illegal.to_string())));
        }
        if let Err(problem) = calls.event(event) {
            panic!("{}", wrong(&problem));
        }
        let begins = matches!(
            event.body,
            EventBody::ToolIntended(_)
                | EventBody::ModelCalled(_)
                | EventBody::SubagentCreated(_)
                | EventBody::SubagentStarted(_)
                | EventBody::SubagentAttempt(_)
        );
        let late = begins && stopped.iter().any(|above| above.contains(&event.agent));
        assert!(!late, "{}", wrong("something begins after a cancel"));
        if matches!(event.body, EventBody::CancelRequested(_)) {
            stopped.insert(event.agent.clone());
        }
    }
    if run.outcome.is_some() {
        assert_eq!(order.open().count(), 0, "open children:\n{}", listing(events));
        delivered_once(events);
        balanced(&run, events);
    }
    run
}

/// Every call of a reply has exactly one result, before the agent's next model call or its end.
#[derive(Default)]
struct Calls {
    open: HashMap<AgentId, HashMap<String, bool>>,
    place: HashMap<AgentId, (u32, u32, u32)>,
}

impl Calls {
    fn event(&mut self, event: &Event) -> Result<(), String> {
        let open = self.open.entry(event.agent.clone()).or_default();
        match &event.body {
            // A summary call is no turn. It comes between the turns, with no call open.
            EventBody::ModelCalled(e) if e.scope.is_some() => quiet(open, "asks for a summary"),
            EventBody::ModelCalled(e) => {
                let before = self.place.insert(event.agent.clone(), (e.attempt, e.turn, e.call));
                let (attempt, turn, call) = before.unwrap_or((1, 0, 1));
                let again = (attempt, turn, call + 1);
                let next = (attempt, turn + 1, 1);
                let retry = (attempt + 1, 1, 1);
                if ![again, next, retry].contains(&(e.attempt, e.turn, e.call)) {
                    return Err(format!("call {:?} after {before:?}", (e.attempt, e.turn, e.call)));
                }
                quiet(open, "asks again")
            }
            EventBody::ModelReplied(e) => {
                for call in e.reply.iter().flat_map(|reply| &reply.calls) {
                    if open.insert(call.id.clone(), false).is_some() {
                        return Err(format!("two calls are `{}`", call.id));
                    }
                }
                Ok(())
            }
            EventBody::ToolIntended(e) => match open.get_mut(&e.call_id) {
                Some(intended) => {
                    *intended |= matches!(e.class, EffectClass::Write | EffectClass::Exec);
                    Ok(())
                }
                None => Err(format!("an intent for `{}`, which is no open call", e.call_id)),
            },
            EventBody::ToolFinished(e) => result(open, &e.call_id),
            EventBody::ToolInterrupted(e) => result(open, &e.call_id),
            EventBody::SubagentWaitingForMerge(_)
            | EventBody::SubagentFailed(_)
            | EventBody::SubagentAttempt(_)
            | EventBody::RunCompleted(_)
            | EventBody::RunFailed(_)
            | EventBody::RunCancelled(_) => quiet(open, "ends"),
            _ => Ok(()),
        }
    }
}

fn quiet(open: &HashMap<String, bool>, does: &str) -> Result<(), String> {
    if open.is_empty() { Ok(()) } else { Err(format!("it {does} while calls have no result: {open:?}")) }
}

fn result(open: &mut HashMap<String, bool>, call_id: &str) -> Result<(), String> {
    open.remove(call_id).map(|_| ()).ok_or_else(|| format!("a result for `{call_id}`, which is no open call"))
}

/// Every child's end reaches its parent once, as the result of its call or as a message. Of the steps of a plan, only
/// those that started and failed are reported to the root.
fn delivered_once(events: &[Event]) {
    let mut deliveries: HashMap<&AgentId, usize> = HashMap::new();
    let mut background: HashMap<&AgentId, bool> = HashMap::new();
    let mut silent: HashSet<&AgentId> = HashSet::new();
    for event in events {
        match &event.body {
            EventBody::SubagentCreated(e) => {
                background.insert(&event.agent, e.background);
                deliveries.insert(&event.agent, 0);
                if e.contract.parent.message_id.is_none() {
                    silent.insert(&event.agent);
                }
            }
            // A step that started and failed is reported. An abandoned step never started.
            EventBody::SubagentStarted(_) if silent.contains(&event.agent) => {
                deliveries.insert(&event.agent, 0);
            }
            EventBody::IntegrationPassed(_) if silent.contains(&event.agent) => {
                deliveries.remove(&event.agent);
            }
            EventBody::SubagentFailed(e)
                if silent.contains(&event.agent)
                    && e.from == posse_domain::lifecycle::AgentState::Created =>
            {
                deliveries.remove(&event.agent);
            }
            EventBody::ToolFinished(e) => {
                if let Some(child) = &e.child {
                    assert_eq!(background.get(child), Some(&false), "{child} answers a call");
                    *deliveries.entry(child).or_default() += 1;
                }
            }
            EventBody::MessageReceived(e) => {
                if let Sender::Child(child) = &e.from {
                    assert_eq!(background.get(child), Some(&true), "{child} sends a message");
                    assert_eq!(child.parent().as_ref(), Some(&event.agent));
                    if deliveries.contains_key(child) || !silent.contains(child) {
                        *deliveries.entry(child).or_default() += 1;
                    }
                }
            }
            _ => {}
        }
    }
    for (child, count) in deliveries {
        assert_eq!(count, 1, "{child} was delivered {count} times:\n{}", listing(events));
    }
}

/// The spending of the tree is the sum of its agents' spending, and no reserve remains.
fn balanced(run: &Run, events: &[Event]) {
    let root = run.id.root();
    let total = run.ledger.subtree(&root).copied().expect("the root is in the ledger");
    let mut sum = posse_domain::budget::Usage::ZERO;
    let (mut turns, mut calls) = (0, 0);
    for event in events {
        match &event.body {
            EventBody::ModelReplied(e) => {
                sum += e.charged();
                turns += u64::from(e.is_turn());
            }
            EventBody::ToolFinished(_) | EventBody::ToolInterrupted(_) => calls += 1,
            _ => {}
        }
    }
    assert_eq!((total.usage, total.turns, total.tool_calls), (sum, turns, calls), "{}", listing(events));
    assert_eq!(run.ledger.reserved_tokens(&root), Some(0));
    assert!(run.iter().all(|(id, node)| id.is_root() || matches!(node, Node::Closed(_))));
    let by_depth: u64 = run.ledger.by_depth().iter().map(|at| at.agents).sum();
    assert_eq!(by_depth, run.agent_count() as u64);
}
