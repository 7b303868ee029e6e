//! Questions to a user: asked once, answered once, bound to one call.

use serde_json::{Value, json};

use super::fixture::{PlayedRun, definitions, id, started};
use crate::budget::Budget;
use crate::event::{AnsweredBy, Event, EventBody, InputAnswered, QuestionAnswer, RunResumed};
use crate::hash::Hash;
use crate::id::AgentId;
use crate::lifecycle::{CommandRefused, NotAnswered, Question, QuestionState, Run};
use crate::permission::{Answer, Decision, OnAsk, Operation, Rule, approval_hash};

/// A run whose root definition asks before a write, and whose operator's rules ask before any agent reads a secret.
fn played(on_ask: OnAsk) -> PlayedRun {
    let mut event = started(definitions(), 2, Budget { wall_ms: Some(1_000), ..Budget::NONE });
    let EventBody::RunStarted(started) = &mut event.body else { panic!("it starts") };
    let rule = |pattern: &str| Rule { pattern: pattern.parse().expect(pattern), decision: Decision::Ask };
    started.request.definitions[0].rules = vec![rule("write")];
    started.request.terms.operator_rules = vec![rule("read:secret")].into();
    started.contract.permissions.on_ask = on_ask;
    started.contract_hash = started.contract.hash();
    PlayedRun::with(event)
}

fn hash_of(run: &Run, agent: &AgentId, operation: &Operation<'_>, input: &Value) -> Hash {
    approval_hash(operation.tool(), input, &run.open(agent).expect("open").contract.hash())
}

/// Asks about an operation, and returns the hash that an answer must name.
fn ask(played: &mut PlayedRun, agent: &AgentId, call_id: &str, operation: &str) -> Hash {
    let operation = Operation::parse(operation);
    let approvals = &played.run.terms.approvals;
    let verdict = played.run.open(agent).expect("open").authority.decide(approvals, &operation);
    assert_eq!(verdict.decision, Decision::Ask, "{verdict}");
    let input = json!({"path": operation.specifier(), "content": "x"});
    let approval = hash_of(&played.run, agent, &operation, &input);
    let arguments = input.to_string().into();
    let question = Question { call_id, operation: &operation, verdict: &verdict, arguments, approval };
    let decided = played.run.ask(agent, question).expect("it can ask");
    played.put(decided);
    approval
}

fn answer(played: &mut PlayedRun, agent: &AgentId, call_id: &str, hash: &Hash, answer: Answer) {
    let decided = played.run.answer(agent, call_id, hash, answer, AnsweredBy::Person).expect("it is open");
    played.put(decided);
}

fn state(run: &Run, agent: &AgentId, call_id: &str) -> Option<QuestionState> {
    run.open(agent).and_then(|agent| agent.questions.get(call_id)).map(|question| question.state.clone())
}

/// The state after a crash: folded again from the events.
fn refolded(played: &PlayedRun) -> Run {
    let mut run = Run::begin(&played.events[0]).expect("begins");
    for event in &played.events[1..] {
        run.apply(event).expect("legal");
    }
    run
}

#[test]
fn a_question_is_answered_once_and_only_by_its_hash() {
    let mut played = played(OnAsk::Deny);
    let root = id("0");
    let hash = ask(&mut played, &root, "c1", "write:a");
    let question_again = Question {
        call_id: "c1",
        operation: &Operation::parse("write:a"),
        verdict: &played
            .run
            .open(&root)
            .expect("open")
            .authority
            .decide(&played.run.terms.approvals, &Operation::parse("write:a")),
        arguments: "".into(),
        approval: hash,
    };
    assert_eq!(played.run.ask(&root, question_again), Err(CommandRefused::AlreadyAsked));
    let open: Vec<_> = played.run.open_questions().map(|(agent, call, _)| (agent.clone(), call)).collect();
    assert_eq!(open, [(root.clone(), "c1")]);
    assert_eq!(played.run.events_in_force(&root), [played.events.len() as u64]);
    let say =
        |run: &Run, call: &str, hash: &Hash| run.answer(&root, call, hash, Answer::Once, AnsweredBy::Person);
    assert_eq!(say(&played.run, "c1", &Hash::ZERO), Err(NotAnswered::OtherQuestion));
    assert_eq!(say(&played.run, "c2", &hash), Err(NotAnswered::NotOpen));
    answer(&mut played, &root, "c1", &hash, Answer::Once);
    assert_eq!(state(&played.run, &root, "c1"), Some(QuestionState::Allowed));
    assert_eq!(say(&played.run, "c1", &hash), Err(NotAnswered::NotOpen));
    assert_eq!(played.run.open_questions().count(), 0);
    assert!(
        played.run.events_in_force(&root).is_empty(),
        "an answer to one call has no effect on later ones"
    );
    assert!(played.run.terms.approvals.is_empty(), "a yes to one call is kept nowhere else");
    assert_eq!(state(&refolded(&played), &root, "c1"), Some(QuestionState::Allowed));
}

#[test]
fn another_input_or_contract_is_another_question() {
    let mut played = played(OnAsk::Deny);
    let root = id("0");
    let hash = ask(&mut played, &root, "c1", "write:a");
    let operation = Operation::parse("write:a");
    for changed in [json!({"path": "a", "content": "y"}), json!({"path": "b", "content": "x"}), json!({})] {
        assert_ne!(hash_of(&played.run, &root, &operation, &changed), hash);
    }
    let forged = InputAnswered {
        call_id: "c1".to_owned(),
        approval: hash_of(&played.run, &root, &operation, &json!({})),
        decision: QuestionAnswer::Allow,
        always: false,
        by: AnsweredBy::Person,
        reason: None,
    };
    let event = Event { agent: root, at_ms: 9_000, body: forged.into() };
    assert!(played.run.apply(&event).is_err(), "also not from a journal");
}

#[test]
fn always_keeps_the_literal_where_a_definition_asks_and_is_once_elsewhere() {
    let mut played = played(OnAsk::Deny);
    let root = id("0");
    let hash = ask(&mut played, &root, "c1", "write:a*");
    answer(&mut played, &root, "c1", &hash, Answer::Always);
    for run in [&played.run, &refolded(&played)] {
        let literals: Vec<String> = run.terms.approvals.iter().map(ToString::to_string).collect();
        assert_eq!(literals, [r"write:a\*"]);
        let decide = |operation: &str| {
            let authority = &run.open(&root).expect("open").authority;
            authority.decide(&run.terms.approvals, &Operation::parse(operation)).decision
        };
        assert_eq!(decide("write:a*"), Decision::Allow);
        assert_eq!((decide("write:ab"), decide("write:a*b")), (Decision::Ask, Decision::Ask));
        // The question and its answer hold until the end of the run.
        let last = played.events.len() as u64;
        assert_eq!(run.events_in_force(&root), [last - 1, last]);
    }
    let hash = ask(&mut played, &root, "c2", "read:secret");
    answer(&mut played, &root, "c2", &hash, Answer::Always);
    let Some(EventBody::InputAnswered(last)) = played.events.last().map(|event| &event.body) else {
        panic!("answered")
    };
    assert!(!last.always, "the operator's rule asks every time");
    assert_eq!(played.run.terms.approvals.len(), 1);
}

#[test]
fn a_no_carries_a_bounded_reason() {
    let mut played = played(OnAsk::Deny);
    let root = id("0");
    let hash = ask(&mut played, &root, "c1", "write:a");
    answer(&mut played, &root, "c1", &hash, Answer::Deny { reason: Some("ä".repeat(4_000)) });
    let Some(QuestionState::Denied { by: AnsweredBy::Person, reason: Some(reason) }) =
        state(&played.run, &root, "c1")
    else {
        panic!("denied")
    };
    assert_eq!(reason.len(), 1024);
}

#[test]
fn who_reaches_a_person_depends_on_depth_attendance_and_the_grant() {
    for on_ask in [OnAsk::Deny, OnAsk::Escalate] {
        let mut played = played(on_ask);
        let child = played.spawn("0", "builder");
        let escalates = on_ask == OnAsk::Escalate;
        for attended in [false, true] {
            assert_eq!(played.run.may_ask(&id("0"), attended), attended || escalates);
            assert_eq!(played.run.may_ask(&child, attended), escalates, "sub-agents only escalate");
        }
    }
}

#[test]
fn the_deadline_stands_still_until_the_last_question_is_settled() {
    let mut played = played(OnAsk::Escalate);
    let (root, child) = (id("0"), played.spawn("0", "builder"));
    let before = played.run.deadline_ms(&root, played.now_ms()).expect("a deadline");
    assert!(!played.run.is_stopped(&child));
    let first = ask(&mut played, &root, "c1", "write:a");
    let second = ask(&mut played, &root, "c2", "write:b");
    assert!(played.run.is_stopped(&root) && played.run.is_stopped(&child), "one above it waits");
    let asked_ms = played.events[played.events.len() - 2].at_ms;
    played.pass(5_000 - 7);
    let resumed = RunResumed { epoch: 2, unowned_ms: 5_000 };
    played.put((root.clone(), resumed.into()));
    answer(&mut played, &root, "c1", &first, Answer::Once);
    assert!(played.run.is_stopped(&root), "one is open");
    played.tool_finished(&root, "c2");
    assert!(!played.run.is_stopped(&root));
    assert_eq!(state(&played.run, &root, "c2"), None, "a question goes with its call");
    let settled_ms = played.events.last().expect("events").at_ms;
    let after = played.run.deadline_ms(&root, settled_ms).expect("a deadline");
    assert_eq!(after - before, settled_ms - asked_ms, "time without an owner counts once");
    let answered = played.run.answer(&root, "c2", &second, Answer::Once, AnsweredBy::Person);
    assert_eq!(answered, Err(NotAnswered::NotOpen));
}
