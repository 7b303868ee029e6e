//! Journals that Posse did not write: dropped, doubled, swapped or altered events are refused, or change nothing.

use super::fixture::{PlayedRun, definitions, id, request, started};
use crate::budget::Budget;
use crate::event::{ContextCompacted, Event, EventBody, OrderChecker, Purpose, SummaryScope};
use crate::lifecycle::{Cancel, FailKind, IllegalEvent, Run, RunEnd, SpawnRequest};

/// A run in which every kind of lifecycle event happens.
fn story() -> Vec<Event> {
    let mut played = PlayedRun::new(2, Budget { agents: Some(6), ..Budget::NONE });
    let lead = played.spawn("0", "lead");
    let decided = played.run.queue(&lead, crate::event::QueuedFor::Slot).expect("queued");
    played.put(decided);
    played.start(&lead);
    assert!(played.call(&lead) && played.reply(&lead, false));
    played.whole("1", &SpawnRequest { required: true, ..request("scout") }, Some(FailKind::Timeout));
    let repairs = SpawnRequest { repairs: Some("1.1".to_owned()), ..request("scout") };
    played.whole("1", &repairs, None);
    assert!(played.try_spawn(&id("1"), &request("nobody")).is_err());
    assert!(played.tool(&lead));
    let victim = played.spawn("0", "builder");
    let cancel = Cancel { by: "user".to_owned(), reason: "enough".to_owned(), kill: false };
    let decided = played.run.cancel(&victim, cancel).expect("cancelled");
    played.put(decided);
    played.fail(&victim, FailKind::Cancelled);
    assert!(played.close(&victim));
    assert!(played.finish(&lead) && played.close(&lead));
    assert!(played.call(&id("0")) && played.reply(&id("0"), false));
    let end = RunEnd::Done { report: "done".into(), turns_exhausted: false };
    let decided = played.run.end(end, None, played.now_ms()).expect("it can end");
    played.put(decided);
    played.events
}

fn fold(events: &[Event]) -> Result<Run, IllegalEvent> {
    let mut run = Run::begin(&events[0])?;
    events[1..].iter().try_for_each(|event| run.apply(event))?;
    Ok(run)
}

fn in_order(events: &[Event]) -> bool {
    let mut order = OrderChecker::default();
    events.iter().all(|event| order.push(&event.agent, event.body.kind()).is_ok())
        && order.open().count() == 0
}

/// Kinds whose presence or position does not affect the state: they are records, not transitions.
fn is_record(event: &Event) -> bool {
    matches!(
        event.body,
        EventBody::SubagentRefused(_)
            | EventBody::SubagentQueued(_)
            | EventBody::ToolFinished(_)
            | EventBody::CancelRequested(_)
    )
}

#[test]
fn the_story_itself_is_legal() {
    let events = story();
    assert!(in_order(&events));
    let run = fold(&events).expect("legal");
    assert_eq!(run.outcome.map(|outcome| outcome.status()), Some(crate::lifecycle::RunStatus::Completed));
}

#[test]
fn a_dropped_event_is_noticed() {
    let events = story();
    for at in 0..events.len() {
        let mut broken = events.clone();
        let dropped = broken.remove(at);
        let noticed =
            broken.is_empty() || fold(&broken).is_err() || !in_order(&broken) || at + 1 == events.len();
        // A call without its reply is noticed, and a reply without its call. The hash chain covers records.
        assert!(noticed || is_record(&dropped), "{at}: {} was dropped", dropped.body.kind());
    }
}

#[test]
fn a_doubled_event_is_noticed() {
    let events = story();
    for at in 0..events.len() {
        let mut broken = events.clone();
        broken.insert(at, events[at].clone());
        let noticed = fold(&broken).is_err() || !in_order(&broken);
        let record = is_record(&events[at]) && !matches!(events[at].body, EventBody::SubagentQueued(_));
        assert!(noticed || record, "{at}: {} was doubled", events[at].body.kind());
    }
}

#[test]
fn swapped_events_of_one_agent_are_noticed() {
    let events = story();
    for at in 1..events.len() - 1 {
        if events[at].agent != events[at + 1].agent || is_record(&events[at]) || is_record(&events[at + 1]) {
            continue;
        }
        let mut broken = events.clone();
        broken.swap(at, at + 1);
        assert!(
            fold(&broken).is_err() || !in_order(&broken),
            "{at}: {} before {}",
            events[at + 1].body.kind(),
            events[at].body.kind()
        );
    }
}

#[test]
fn nothing_follows_the_end() {
    let events = story();
    for event in &events[1..] {
        let mut run = fold(&events).expect("legal");
        assert!(run.apply(event).is_err(), "{}", event.body.kind());
    }
}

#[test]
fn a_run_begins_with_run_started_and_only_once() {
    let events = story();
    for event in &events[1..] {
        assert!(Run::begin(event).is_err(), "{}", event.body.kind());
    }
    let mut run = Run::begin(&events[0]).expect("begins");
    assert!(run.apply(&events[0]).is_err());
}

/// Changes to the event of a created child that would give it more than its parent granted.
#[test]
fn an_altered_contract_is_refused() {
    type Alter = fn(&mut crate::event::SubagentCreated);
    let table: [(&str, Alter, &str); 8] = [
        ("depth", |created| created.contract.context.depth = 0, "not one of a child"),
        ("max depth", |created| created.contract.context.max_depth = 9, "not one of a child"),
        ("parent", |created| created.contract.context.parent_task_id = None, "not one of a child"),
        ("definition", |created| created.contract.execution.definition = "lead".into(), "not one of a child"),
        (
            "tools",
            |created| {
                created.contract.permissions.allowed_tools =
                    crate::permission::ToolSet::parse(["rm"]).expect("set");
            },
            "wider than its parent's",
        ),
        (
            "delegation",
            |created| created.contract.permissions.max_delegation_depth = 9,
            "wider than its parent's",
        ),
        (
            "escalation",
            |created| created.contract.permissions.on_ask = crate::permission::OnAsk::Escalate,
            "wider",
        ),
        ("history", |created| created.contract.permissions.may_share_history = true, "wider"),
    ];
    for (name, alter, said) in table {
        let mut played = PlayedRun::new(2, Budget::NONE);
        let from =
            crate::lifecycle::SpawnFrom { parent: &id("0"), call_id: "c", message_id: Some("m"), step: None };
        let (agent, body) =
            played.run.spawn(from, &request("scout"), &super::fixture::class_of).expect("spawned");
        let EventBody::SubagentCreated(mut created) = body else { panic!("created") };
        alter(&mut created);
        // Without a new hash, and with one.
        let mut event = Event { agent, at_ms: 1, body: EventBody::SubagentCreated(created.clone()) };
        let illegal = played.run.apply(&event).expect_err(name);
        assert!(illegal.problem.contains("does not match its hash"), "{name}: {illegal}");
        created.contract_hash = created.contract.hash();
        event.body = EventBody::SubagentCreated(created);
        let illegal = played.run.apply(&event).expect_err(name);
        assert!(illegal.problem.contains(said), "{name}: {illegal}");
        // The refused event changed nothing: the real child can still be created.
        assert_eq!(played.spawn("0", "scout"), id("1"), "{name}");
    }
}

#[test]
fn an_altered_beginning_is_refused() {
    let mut event = started(definitions(), 2, Budget::NONE);
    let EventBody::RunStarted(begun) = &mut event.body else { panic!("started") };
    begun.contract.context.max_depth = 9;
    assert!(Run::begin(&event).expect_err("altered").problem.contains("does not match its hash"));
    let EventBody::RunStarted(begun) = &mut event.body else { panic!("started") };
    begun.contract_hash = begun.contract.hash();
    assert!(Run::begin(&event).is_ok());
    let mut deeper = event.clone();
    deeper.agent = deeper.agent.child(1);
    assert!(Run::begin(&deeper).is_err());
}

#[test]
fn attempts_beyond_the_contract_are_refused() {
    let mut played = PlayedRun::new(2, Budget::NONE);
    let child = played.spawn("0", "scout");
    played.start(&child);
    let attempt = |n, kind| Event {
        agent: child.clone(),
        at_ms: 1,
        body: crate::event::SubagentAttempt {
            n,
            kind,
            code: FailKind::code(kind),
            reason: String::new(),
            in_place: false,
        }
        .into(),
    };
    for (n, kind) in
        [(1, FailKind::Execution), (3, FailKind::Execution), (2, FailKind::Policy), (2, FailKind::Budget)]
    {
        assert!(played.run.apply(&attempt(n, kind)).is_err(), "{n} {kind:?}");
    }
    assert!(played.run.apply(&attempt(2, FailKind::Timeout)).is_ok());
    assert!(played.run.apply(&attempt(3, FailKind::Timeout)).is_err(), "max_retries is 1");
}

/// No command emits this event yet, but a journal may have it: work that was not accepted.
#[test]
fn an_integration_that_failed_ends_the_child_without_a_second_failure() {
    use crate::event::{IntegrationFailed, SubagentWaitingForMerge};
    use crate::lifecycle::AgentState;
    let mut played = PlayedRun::new(2, Budget::NONE);
    let child = played.spawn("0", "scout");
    played.start(&child);
    let event = |body: EventBody| Event { agent: child.clone(), at_ms: 9_000, body };
    let refused = |kind: FailKind| {
        event(
            IntegrationFailed {
                from: AgentState::WaitingForMerge,
                to: AgentState::Failed,
                kind,
                code: kind.code(),
                reason: "it does not merge".to_owned(),
            }
            .into(),
        )
    };
    assert!(played.run.apply(&refused(FailKind::Integration)).is_err(), "there is nothing to integrate yet");
    let waiting = SubagentWaitingForMerge {
        from: AgentState::Running,
        to: AgentState::WaitingForMerge,
        report: "found".into(),
        turns_exhausted: false,
        change: None,
    };
    played.run.apply(&event(waiting.into())).expect("legal");
    assert_eq!(played.fail(&child, FailKind::Execution), None, "it is past failing by itself");
    assert!(
        played.run.apply(&refused(FailKind::Execution)).is_err(),
        "an integration ends with `integration` or `cancelled`"
    );
    played.run.apply(&refused(FailKind::Integration)).expect("legal");
    assert!(played.run.apply(&refused(FailKind::Integration)).is_err());
    let (_, body) = played.run.close(&child, 9_001).expect("it closes");
    let EventBody::SubagentClosed(closed) = &body else { panic!("closed") };
    assert_eq!(closed.close_reason.as_str(), "integration");
    played.run.apply(&event(body)).expect("legal");
    assert_eq!(played.run.failed[0].code, crate::code::Code::IntegrationConflict);
}

#[test]
fn a_conversation_is_compacted_only_between_model_calls_of_a_running_agent() {
    let compacted = |agent: &str| Event {
        agent: id(agent),
        at_ms: 1,
        body: EventBody::ContextCompacted(ContextCompacted {
            attempt: 1,
            turn: 2,
            call: Some(1),
            replaced: 4,
            kept: 2,
            summary: "We looked.".into(),
            tokens_before: 900,
            tokens_after: 90,
        }),
    };
    let mut played = PlayedRun::new(2, Budget::NONE);
    let lead = played.spawn("0", "lead");
    let problem =
        |played: &mut PlayedRun| played.run.apply(&compacted("1")).map_err(|illegal| illegal.problem);
    assert_eq!(problem(&mut played), Err("it is not running".to_owned()));
    played.start(&lead);
    assert!(played.call(&lead));
    assert_eq!(problem(&mut played), Err("a call is under way".to_owned()));
    assert!(played.reply(&lead, false));
    assert_eq!(problem(&mut played), Ok(()));
}

#[test]
fn only_a_summary_call_says_what_it_summarises() {
    let events = story();
    let at = events.iter().position(|event| matches!(event.body, EventBody::ModelCalled(_))).expect("a call");
    let scope = Some(SummaryScope { messages: 3, input_tokens: 100 });
    for (purpose, scope, is_legal) in [
        (Purpose::Work, None, true),
        (Purpose::Work, scope, false),
        (Purpose::Report, scope, false),
        (Purpose::Summary, None, false),
        (Purpose::Summary, scope, true),
    ] {
        let mut altered = events[..=at].to_vec();
        let EventBody::ModelCalled(called) = &mut altered[at].body else { panic!("a call") };
        (called.purpose, called.scope) = (purpose, scope);
        assert_eq!(fold(&altered).is_ok(), is_legal, "{purpose:?} {scope:?}");
    }
}

#[test]
fn a_summary_costs_and_is_no_turn() {
    let events = story();
    let own = |events: &[Event]| *fold(events).expect("legal").ledger.own(&id("0")).expect("the root's");
    let mut altered = events.clone();
    let is_roots = |event: &&mut Event| event.agent.is_root();
    for event in altered.iter_mut().filter(is_roots) {
        if let EventBody::ModelReplied(replied) = &mut event.body {
            replied.summary = true;
        }
    }
    let (turns, summaries) = (own(&events[..events.len() - 1]), own(&altered[..events.len() - 1]));
    assert_eq!((turns.turns, summaries.turns), (1, 0));
    assert_eq!(turns.usage, summaries.usage);
}
