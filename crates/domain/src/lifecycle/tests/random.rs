//! Random commands: every decision is legal and in order, and the journal folds to the same state.

use std::collections::{BTreeMap, HashMap};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::Config;

use super::fixture::{PlayedRun, failure, request};
use crate::budget::{Budget, Figures};
use crate::event::{AnsweredBy, Event, EventBody, QueuedFor, StoredEvent};
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::{
    Attempt, Cancel, CommandRefused, FailKind, Node, NotAnswered, OpenState, Question, QuestionState, Run,
    RunEnd, SpawnRequest,
};
use crate::permission::{Answer, Approvals, Decision, Layer, LayerName, Operation, Rules, decide};

#[derive(Debug, Clone)]
enum Command {
    Spawn { parent: Index, request: Box<SpawnRequest>, names: Index },
    Queue(Index),
    Start(Index),
    Call(Index),
    Reply(Index, bool),
    Tool(Index),
    Ask(Index, u8),
    Answer(Index, u8, u8),
    Fail(Index, FailKind),
    Finish(Index),
    Cancel(Index, bool),
    Close(Index),
    End(Option<FailKind>),
}

fn kinds() -> impl Strategy<Value = FailKind> {
    select(
        &[FailKind::Execution, FailKind::Policy, FailKind::Timeout, FailKind::Budget, FailKind::Cancelled][..],
    )
}

fn requests() -> impl Strategy<Value = SpawnRequest> {
    let definition = select(&["lead", "lead", "lead", "scout", "builder", "boss", "nobody"][..]);
    let budget = prop::option::weighted(
        0.2,
        (0..4_u64).prop_map(|agents| Budget { agents: Some(agents), ..Budget::NONE }),
    );
    (definition, any::<bool>(), prop::bool::weighted(0.3), budget).prop_map(
        |(definition, background, required, budget)| SpawnRequest {
            background: Some(background),
            budget,
            required,
            ..request(definition)
        },
    )
}

fn commands() -> impl Strategy<Value = Command> {
    let at = any::<Index>;
    prop_oneof![
        6 => (at(), requests(), at()).prop_map(|(parent, request, names)| Command::Spawn { parent, request: Box::new(request), names }),
        1 => at().prop_map(Command::Queue),
        6 => at().prop_map(Command::Start),
        4 => at().prop_map(Command::Call),
        4 => (at(), prop::bool::weighted(0.2)).prop_map(|(at, error)| Command::Reply(at, error)),
        2 => at().prop_map(Command::Tool),
        3 => (at(), 0..3_u8).prop_map(|(at, call)| Command::Ask(at, call)),
        3 => (at(), 0..3_u8, 0..5_u8).prop_map(|(at, call, say)| Command::Answer(at, call, say)),
        3 => (at(), kinds()).prop_map(|(at, kind)| Command::Fail(at, kind)),
        4 => at().prop_map(Command::Finish),
        1 => (at(), any::<bool>()).prop_map(|(at, kill)| Command::Cancel(at, kill)),
        4 => at().prop_map(Command::Close),
        1 => prop::option::of(kinds()).prop_map(Command::End),
    ]
}

/// Every agent of the run, also closed ones, because commands name them too.
fn everybody(run: &Run) -> Vec<AgentId> {
    let mut all: Vec<AgentId> = run.iter().map(|(id, _)| id.clone()).collect();
    all.sort();
    all
}

fn obey(played: &mut PlayedRun, command: Command) {
    let all = everybody(&played.run);
    let over = played.run.outcome.is_some();
    match command {
        Command::Spawn { parent, mut request, names } => {
            let parent = parent.get(&all).clone();
            // Sometimes the request names another agent, in any state.
            let named = names.get(&all);
            if names.index(5) == 0 {
                request.repairs = Some(named.relative().to_owned());
            } else if names.index(7) == 0 {
                request.continues = Some(named.relative().to_owned());
            }
            let before = played.run.open(&parent).map(|agent| agent.children);
            match played.try_spawn(&parent, &request) {
                Ok(child) => assert_eq!(child.number(), before.map(|count| count + 1), "gapless"),
                Err(_) => assert_eq!(played.run.open(&parent).map(|agent| agent.children), before),
            }
        }
        Command::Queue(at) => {
            if let Ok(decided) = played.run.queue(at.get(&all), QueuedFor::Slot) {
                played.put(decided);
            }
        }
        Command::Start(at) => {
            if let Ok(decided) = played.run.start(at.get(&all), None) {
                played.put(decided);
            }
        }
        Command::Call(at) => drop(played.call(at.get(&all))),
        Command::Reply(at, error) => drop(played.reply(at.get(&all), error)),
        Command::Tool(at) => drop(played.tool(at.get(&all))),
        Command::Ask(at, call) => ask(played, at.get(&all), call),
        Command::Answer(at, call, say) => answer(played, at.get(&all), call, say),
        Command::Fail(at, kind) => fail(played, at.get(&all), kind),
        Command::Finish(at) => drop(played.finish(at.get(&all))),
        Command::Cancel(at, kill) => {
            let cancel = Cancel { by: "user".to_owned(), reason: "chance".to_owned(), kill };
            if let Ok(decided) = played.run.cancel(at.get(&all), cancel) {
                played.put(decided);
            }
        }
        Command::Close(at) => drop(played.close(at.get(&all))),
        Command::End(kind) => end(played, kind),
    }
    assert!(!over || played.run.outcome.is_some());
}

/// Asks about a call of a running agent, unless it was asked before.
fn ask(played: &mut PlayedRun, agent: &AgentId, call: u8) {
    let running = played.run.open(agent).is_some_and(|a| matches!(a.state, OpenState::Running { .. }));
    if !running || played.run.outcome.is_some() {
        return;
    }
    let (call_id, specifier) = (format!("call_{call}"), format!("make {call}"));
    let operation = Operation::new("bash", Some(&specifier));
    let verdict = decide(
        [&Layer {
            name: LayerName::Definition { definition: "lead".into() },
            rules: Rules::default(),
            default: Some(Decision::Ask),
        }],
        &Approvals::none(),
        &operation,
    );
    let approval = Hash::of(specifier.as_bytes());
    let arguments = "{}".into();
    let question =
        Question { call_id: &call_id, operation: &operation, verdict: &verdict, arguments, approval };
    let asked = played.run.open(agent).is_some_and(|agent| agent.questions.contains_key(&call_id));
    match played.run.ask(agent, question) {
        Ok(decided) => {
            assert!(!asked);
            played.put(decided);
        }
        Err(reason) => assert_eq!((asked, reason), (true, CommandRefused::AlreadyAsked)),
    }
}

/// Answers the question about this call, or one about another call.
fn answer(played: &mut PlayedRun, agent: &AgentId, call: u8, say: u8) {
    let approval = Hash::of(format!("make {}", if say == 4 { call + 1 } else { call }).as_bytes());
    let said = match say {
        0 => Answer::Deny { reason: None },
        1 => Answer::Always,
        _ => Answer::Once,
    };
    let call_id = format!("call_{call}");
    let open = played.run.open_questions().any(|(id, open, _)| id == agent && open == call_id);
    match played.run.answer(agent, &call_id, &approval, said, AnsweredBy::Person) {
        Ok(decided) => {
            assert!(open && say != 4 && played.run.outcome.is_none());
            played.put(decided);
        }
        Err(NotAnswered::OtherQuestion) => assert!(open && say == 4),
        Err(NotAnswered::NotOpen) => assert!(!open || played.run.outcome.is_some()),
    }
}

/// Ends every call that was asked about, as the engine does before it ends an agent.
fn settle(played: &mut PlayedRun, agent: &AgentId) {
    let calls: Vec<String> =
        played.run.open(agent).iter().flat_map(|agent| agent.questions.keys().cloned()).collect();
    for call in calls {
        played.tool_finished(agent, &call);
    }
}

fn fail(played: &mut PlayedRun, child: &AgentId, kind: FailKind) {
    if played.run.outcome.is_none() && kind != FailKind::Policy {
        settle(played, child);
    }
    let standing =
        played.run.open(child).map(|agent| (agent.state.clone(), agent.contract.execution.max_retries));
    let retries = played.run.retries(child, &failure(kind));
    match played.fail(child, kind) {
        Some(Attempt::Again(_)) => {
            let Some((OpenState::Running { attempt }, max_retries)) = standing else {
                panic!("it was not running")
            };
            assert!(
                matches!(kind, FailKind::Execution | FailKind::Timeout) && attempt <= max_retries && retries
            );
        }
        Some(Attempt::Over(_)) => assert!(!retries),
        None => {}
    }
}

fn end(played: &mut PlayedRun, kind: Option<FailKind>) {
    let root = played.run.id.root();
    let blocked = played.run.open(&root).is_some_and(|agent| !agent.open_children.is_empty());
    let end = match kind {
        Some(kind) => RunEnd::Failed(failure(kind)),
        None => RunEnd::Done { report: "all of it ".repeat(400).into(), turns_exhausted: false },
    };
    // The engine ends a call before it ends its agent.
    while played.reply(&root, true) {}
    if played.run.outcome.is_none() {
        settle(played, &root);
    }
    let over = played.run.outcome.is_some();
    match played.run.end(end, None, played.now_ms()) {
        Ok(decided) => {
            assert!(!blocked && !over);
            played.put(decided);
        }
        Err(CommandRefused::RunEnded) => assert!(over),
        Err(CommandRefused::OpenChildren) => assert!(blocked && !over),
        Err(other) => panic!("{other}"),
    }
}

/// Invariants that hold after every step.
fn holds(run: &Run) {
    for (id, node) in run.iter() {
        let Some(parent) = id.parent() else { continue };
        if let Node::Open(_) = node {
            let above = run.open(&parent).expect("a child never outlives its parent");
            assert!(above.open_children.contains(&id.number().expect("a child")));
        }
    }
    for (id, node) in run.iter() {
        let Node::Open(agent) = node else { continue };
        let asks = agent.questions.values().any(|question| question.state == QuestionState::Open);
        assert_eq!(agent.deadline.waits(), asks, "{id}: its time stands still while it asks");
        assert!(!asks || run.is_stopped(id));
    }
    assert!(
        run.open_questions()
            .all(|(id, call, _)| run.open(id).is_some_and(|agent| agent.questions.contains_key(call)))
    );
    let open = run.iter().filter(|(_, node)| matches!(node, Node::Open(_))).count();
    assert_eq!(open, run.open_count());
    assert_eq!(run.open_in_order().len(), open);
}

/// Ends all open agents, children first.
fn wind_up(played: &mut PlayedRun) {
    let mut order = played.run.open_in_order();
    order.reverse();
    for id in order.iter().filter(|id| !id.is_root()) {
        while played.reply(id, true) {}
        settle(played, id);
        while matches!(played.fail(id, FailKind::Execution), Some(Attempt::Again(_))) {}
        assert!(played.close(id), "{id}");
    }
    if played.run.outcome.is_none() {
        end(played, None);
    }
    assert_eq!(played.open_children(), 0);
    assert!(played.run.outcome.is_some());
}

/// The state that two folds of the same events must agree on.
#[derive(Debug, PartialEq)]
struct FoldSummary {
    states: BTreeMap<AgentId, String>,
    open: Vec<AgentId>,
    figures: BTreeMap<AgentId, (Figures, Figures)>,
    reserved: Option<u64>,
    failed: Vec<crate::event::FailedChild>,
    repaired: Vec<AgentId>,
    outcome: Option<crate::lifecycle::Outcome>,
}

fn shown(run: &Run) -> FoldSummary {
    let state = |node: &Node| match node {
        Node::Open(agent) => format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {} {} {}",
            agent.questions,
            agent.deadline,
            agent.state,
            agent.cancel,
            agent.calling,
            agent.open_children,
            agent.children,
            agent.writer,
            agent.changed
        ),
        Node::Closed(agent) => format!("closed {:?} {:?} {:?}", agent.failure, agent.fail_kind, agent.grant),
    };
    let figures = |id: &AgentId| {
        (run.ledger.own(id).copied().unwrap_or_default(), run.ledger.subtree(id).copied().unwrap_or_default())
    };
    FoldSummary {
        states: run.iter().map(|(id, node)| (id.clone(), state(node))).collect(),
        open: run.open_in_order(),
        figures: run.iter().map(|(id, _)| (id.clone(), figures(id))).collect(),
        reserved: run.ledger.reserved_tokens(&run.id.root()),
        failed: run.failed.clone(),
        repaired: run.repaired.iter().cloned().collect(),
        outcome: run.outcome.clone(),
    }
}

/// The events after a round trip through the journal, with long texts.
fn read_back(events: &[Event]) -> Vec<Event> {
    let mut texts: HashMap<Hash, String> = HashMap::new();
    let mut back = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let mut blobs = Vec::new();
        let encoded = event.clone().encode(&mut blobs).expect("encoded");
        for blob in blobs {
            assert_eq!(blob.hash, Hash::of(&blob.bytes));
            texts.insert(blob.hash, String::from_utf8(blob.bytes.to_vec()).expect("text"));
        }
        let stored = StoredEvent {
            seq: at as u64 + 1,
            agent: encoded.agent,
            kind: encoded.kind.into(),
            at_ms: encoded.at_ms,
            version: encoded.version,
            payload: encoded.payload,
            hash: Hash::ZERO,
        };
        let mut event = Event::decode(&stored).expect("decoded");
        let missing = event.body.missing().len();
        event.body.fill(&mut |at| texts.get(&at.blob).cloned()).expect("filled");
        assert_eq!(event.body.missing().len(), 0, "of {missing}");
        back.push(event);
    }
    back
}

fn fold(events: &[Event]) -> Run {
    let mut run = Run::begin(&events[0]).expect("begins");
    for event in &events[1..] {
        run.apply(event).expect("legal");
    }
    run
}

proptest! {
    #![proptest_config(Config { cases: 400, failure_persistence: None, ..Config::default() })]

    #[test]
    fn whatever_is_decided_can_happen_and_reads_the_same_afterwards(
        commands in vec(commands(), 0..120),
        max_depth in 0..4_u32,
        agents in prop::option::of(1..12_u64),
    ) {
        let mut played = PlayedRun::new(max_depth, Budget { agents, ..Budget::NONE });
        for command in commands {
            obey(&mut played, command);
            holds(&played.run);
        }
        let back = read_back(&played.events);
        prop_assert_eq!(&back, &played.events);
        prop_assert_eq!(shown(&fold(&back)), shown(&played.run));
        wind_up(&mut played);
        holds(&played.run);
        let back = read_back(&played.events);
        prop_assert_eq!(shown(&fold(&back)), shown(&played.run));
        // Every child was closed exactly once.
        let mut closed: BTreeMap<&AgentId, usize> = BTreeMap::new();
        for event in &played.events {
            if matches!(event.body, EventBody::SubagentClosed(_)) {
                *closed.entry(&event.agent).or_default() += 1;
            }
        }
        prop_assert_eq!(closed.len() + 1, played.run.agent_count());
        prop_assert!(closed.values().all(|count| *count == 1));
        if let Some(agents) = agents {
            prop_assert!(played.run.agent_count() as u64 <= agents);
        }
        prop_assert!(played.run.iter().all(|(id, _)| id.depth() <= max_depth));
        // After the end every command is refused.
        for id in everybody(&played.run) {
            prop_assert!(played.run.start(&id, None).is_err() && played.run.close(&id, 9).is_err());
            let cancel = Cancel { by: "user".to_owned(), reason: "late".to_owned(), kill: true };
            prop_assert!(played.run.cancel(&id, cancel).is_err());
            prop_assert!(played.try_spawn(&id, &request("scout")).is_err());
        }
    }

    /// Long texts that were not fetched do not change which events are legal.
    #[test]
    fn a_fold_without_its_long_texts_stands_the_same(commands in vec(commands(), 0..80)) {
        let mut played = PlayedRun::new(2, Budget::NONE);
        for command in commands {
            obey(&mut played, command);
        }
        let mut blobs = Vec::new();
        let thin: Vec<Event> = played
            .events
            .iter()
            .map(|event| {
                let encoded = event.clone().encode(&mut blobs).expect("encoded");
                let stored = StoredEvent {
                    seq: 1,
                    agent: encoded.agent,
                    kind: encoded.kind.into(),
                    at_ms: encoded.at_ms,
                    version: encoded.version,
                    payload: encoded.payload,
                    hash: Hash::ZERO,
                };
                Event::decode(&stored).expect("decoded")
            })
            .collect();
        let (thin, whole) = (shown(&fold(&thin)), shown(&played.run));
        prop_assert_eq!(thin.figures, whole.figures);
        prop_assert_eq!(thin.open, whole.open);
    }
}
