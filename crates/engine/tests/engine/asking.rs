//! Calls that wait for a user: the question, the answer, and the effect of a crash, a cancel or a deadline meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use posse_domain::definition::Trust;
use posse_domain::event::{AnsweredBy, Event, EventBody, InputRequested, QuestionAnswer};
use posse_domain::hash::Hash;
use posse_domain::id::{AgentId, RunId};
use posse_domain::permission::{Answer, Decision, OnAsk, Rule, Rules};
use posse_engine::ports::{MailCommand, Store};
use posse_engine::{FAULT_POINTS, ResumeOutcome, RunHandle, RunRequest};
use posse_models::scripted::ScriptedAnswer;
use serde_json::json;

use crate::checks;
use crate::crash::dies_at;
use crate::power::CrashPoint;
use crate::world::{EndedRun, Process, World, child, listing};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

fn asks(pattern: &str) -> Rule {
    Rule { pattern: pattern.parse().expect(pattern), decision: Decision::Ask }
}

/// A run whose definitions ask before any agent calls `strike`.
pub(crate) fn striking(world: &World) -> RunRequest {
    let mut spec = world.spec();
    for definition in &mut spec.definitions {
        definition.rules = vec![asks("strike")];
    }
    spec
}

pub(crate) fn escalating(spec: RunRequest) -> RunRequest {
    RunRequest { on_ask: OnAsk::Escalate, ..spec }
}

fn open(events: &[Event]) -> Vec<(AgentId, InputRequested)> {
    open_at(events).into_iter().map(|(_, agent, asked)| (agent, asked)).collect()
}

/// The open questions with their positions, because call ids repeat.
fn open_at(events: &[Event]) -> Vec<(usize, AgentId, InputRequested)> {
    let mut open: Vec<(usize, AgentId, InputRequested)> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let call_id = match &event.body {
            EventBody::InputRequested(e) => {
                open.push((at, event.agent.clone(), (**e).clone()));
                continue;
            }
            EventBody::InputAnswered(e) => &e.call_id,
            EventBody::ToolFinished(e) => &e.call_id,
            EventBody::ToolInterrupted(e) => &e.call_id,
            _ => continue,
        };
        open.retain(|(_, agent, asked)| *agent != event.agent || asked.call_id != *call_id);
    }
    open
}

/// Waits for the next open question of a run.
pub(crate) async fn asked(world: &World, run: &RunId) -> (AgentId, InputRequested) {
    let mut pulse = world.store().watch(&world.key(run));
    loop {
        pulse.borrow_and_update();
        if let Some(found) = open(&world.store_events(run).await).pop() {
            return found;
        }
        pulse.changed().await.expect("the store lives");
    }
}

pub(crate) async fn say(world: &World, (agent, asked): &(AgentId, InputRequested), answer: Answer) {
    let command = MailCommand::Answer {
        agent: agent.clone(),
        call_id: asked.call_id.clone(),
        approval: asked.approval,
        answer,
    };
    world.post(&agent.run(), command).await;
}

fn answers(ended: &EndedRun) -> Vec<(QuestionAnswer, bool, AnsweredBy)> {
    let answer = |event: &Event| match &event.body {
        EventBody::InputAnswered(e) => Some((e.decision, e.always, e.by)),
        _ => None,
    };
    ended.events.iter().filter_map(answer).collect()
}

fn count(ended: &EndedRun, kind: &str) -> usize {
    ended.events.iter().filter(|event| event.body.kind() == kind).count()
}

async fn start(process: &Process, spec: RunRequest) -> RunHandle {
    process.runtime.start(spec).await.expect("it starts")
}

async fn start_attended(process: &Process, spec: RunRequest) -> RunHandle {
    process.runtime.start_attended(spec).await.expect("it starts")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_lets_one_call_happen_and_the_next_asks_again() {
    let world = World::new(|request| match request.turn {
        1 | 2 => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    });
    let process = world.process();
    let handle = start_attended(&process, striking(&world)).await;
    let first = asked(&world, handle.id()).await;
    assert_eq!((first.1.operation.as_str(), first.1.layer.as_deref()), ("strike:a", Some("definition boss")));
    assert_eq!(world.outside.count("strike"), 0, "nothing happens before the answer");
    say(&world, &first, Answer::Once).await;
    world.until(handle.id(), |event| matches!(&event.body, EventBody::ModelCalled(e) if e.turn == 2)).await;
    let second = asked(&world, handle.id()).await;
    assert_eq!(second.1.approval, first.1.approval, "the same operation, and still a question of its own");
    say(&world, &second, Answer::Deny { reason: Some("once is enough".to_owned()) }).await;
    let ended = world.ended(&handle).await;
    assert_eq!(world.outside.count("strike"), 1);
    let results = ended.results("0");
    assert!(results[0].1, "{results:?}");
    assert_eq!(results[1].2, "PERMISSION_DENIED: the user denied `strike:a`: once is enough");
    let said = [
        (QuestionAnswer::Allow, false, AnsweredBy::Person),
        (QuestionAnswer::Deny, false, AnsweredBy::Person),
    ];
    assert_eq!(answers(&ended), said);
    let kinds = ended.kinds("0");
    let at = kinds.iter().position(|kind| *kind == "permission_decided").expect("decided");
    assert_eq!(
        kinds[at..at + 4],
        ["permission_decided", "input_requested", "input_answered", "tool_intended"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn always_holds_for_the_run_and_for_exactly_this_operation() {
    let world = World::new(|request| match request.turn {
        1 | 2 => text("").call("strike", json!({"on": "a"})),
        3 => text("").call("strike", json!({"on": "a b"})),
        _ => text("done"),
    });
    let process = world.process();
    let handle = start_attended(&process, striking(&world)).await;
    say(&world, &asked(&world, handle.id()).await, Answer::Always).await;
    let is_longer =
        |event: &Event| matches!(&event.body, EventBody::InputRequested(e) if e.operation == "strike:a b");
    world.until(handle.id(), is_longer).await;
    let longer = asked(&world, handle.id()).await;
    say(&world, &longer, Answer::Deny { reason: None }).await;
    let ended = world.ended(&handle).await;
    assert_eq!((world.outside.count("strike"), count(&ended, "agent.input_requested")), (2, 2));
    let kept: Vec<String> = ended.run.terms.approvals.iter().map(ToString::to_string).collect();
    assert_eq!(kept, ["strike:a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn always_answers_the_same_question_of_others_too() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")).call("strike", json!({"on": "a"})),
        (1, 1) => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    });
    let process = world.process();
    let handle = start(&process, escalating(striking(&world))).await;
    let run = handle.id().clone();
    world
        .until(&run, |event| event.agent.relative() == "1" && event.body.kind() == "agent.input_requested")
        .await;
    world.until(&run, |event| event.agent.is_root() && event.body.kind() == "agent.input_requested").await;
    let questions = open(&world.store_events(&run).await);
    assert_eq!(questions.len(), 2);
    say(&world, &questions[0], Answer::Always).await;
    let ended = world.ended(&handle).await;
    assert_eq!(world.outside.count("strike"), 2);
    let said =
        [(QuestionAnswer::Allow, true, AnsweredBy::Person), (QuestionAnswer::Allow, false, AnsweredBy::Host)];
    assert_eq!(answers(&ended), said);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_another_question_or_to_none_changes_nothing() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    });
    let process = world.process();
    let handle = start_attended(&process, striking(&world)).await;
    let question = asked(&world, handle.id()).await;
    let mut forged = question.clone();
    forged.1.approval = Hash::of(b"strike:b");
    say(&world, &forged, Answer::Once).await;
    let mut stranger = question.clone();
    stranger.1.call_id = "nobody".to_owned();
    say(&world, &stranger, Answer::Once).await;
    say(&world, &(question.0.child(7), question.1.clone()), Answer::Always).await;
    say(&world, &question, Answer::Deny { reason: None }).await;
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert_eq!(world.outside.count("strike"), 0);
    assert_eq!(answers(&ended), [(QuestionAnswer::Deny, false, AnsweredBy::Person)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_settles_the_ask_of_every_layer_and_the_deny_of_none() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})).call("strike", json!({"on": "b"})),
        _ => text("done"),
    });
    let mut spec = striking(&world);
    let deny = Rule { decision: Decision::Deny, ..asks("strike:b") };
    spec.terms.operator_rules = Rules::from(vec![asks("strike:*")]);
    spec.terms.run_rules = Rules::from(vec![asks("strike"), deny]);
    let process = world.process();
    let handle = start_attended(&process, spec).await;
    let question = asked(&world, handle.id()).await;
    assert_eq!(question.1.layer.as_deref(), Some("operator"), "the first that asks is named");
    say(&world, &question, Answer::Always).await;
    let ended = world.ended(&handle).await;
    assert_eq!((world.outside.count("strike"), count(&ended, "agent.input_requested")), (1, 1));
    assert!(
        ended.results("0")[1].2.contains("deny: run, by the rule `strike:b`"),
        "{:?}",
        ended.results("0")
    );
    assert_eq!(
        answers(&ended),
        [(QuestionAnswer::Allow, false, AnsweredBy::Person)],
        "the operator asks every time"
    );
    assert!(ended.run.terms.approvals.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_can_be_asked_the_agent_is_told_what_would_have_helped() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a*"})).call("strike", json!({"on": "b"})),
        _ => text("done"),
    });
    let mut spec = striking(&world);
    spec.terms.operator_rules = Rules::from(vec![asks("strike:b")]);
    let ended = world.run(spec).await;
    let said: Vec<String> = ended.results("0").into_iter().map(|(_, _, said)| said).collect();
    assert!(said[0].ends_with(r"a user can allow `strike:a\*` in advance"), "{said:?}");
    assert!(said[1].contains("no user can be asked") && !said[1].contains("in advance"), "{said:?}");
    assert_eq!(count(&ended, "agent.input_requested"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_call_keeps_its_place_and_lets_the_others_go_on() {
    let world = World::new(|request| match request.turn {
        1 => text("")
            .call("probe", json!({"on": "ask"}))
            .call("probe", json!({"on": "go"}))
            .call("write", json!({"path": "after.txt", "content": "x"})),
        _ => text("done"),
    });
    let mut spec = world.spec();
    spec.terms.run_rules = Rules::from(vec![asks("probe:ask")]);
    let process = world.process();
    let handle = start_attended(&process, spec).await;
    let question = asked(&world, handle.id()).await;
    world.until(handle.id(), |event| event.body.kind() == "agent.tool_finished").await;
    assert_eq!(world.outside.count("probe"), 1, "the other look");
    assert!(!world.dir.path().join("after.txt").exists(), "a change waits for every look before it");
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert!(ended.results("0").iter().all(|(_, ok, _)| *ok));
    assert!(world.dir.path().join("after.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_reaches_what_the_tool_asks_about_the_same_file() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("read", json!({"path": "a.txt"})),
        2 => text("").call("edit", json!({"path": "a.txt", "old_text": "one", "new_text": "two"})),
        _ => text("done"),
    });
    std::fs::write(world.dir.path().join("a.txt"), "one").expect("a file");
    let mut spec = world.spec();
    spec.definitions[0].trust = Trust::Untrusted;
    let process = world.process();
    let handle = start_attended(&process, spec).await;
    say(&world, &asked(&world, handle.id()).await, Answer::Once).await;
    world.until(handle.id(), |event| matches!(&event.body, EventBody::ModelCalled(e) if e.turn == 2)).await;
    let question = asked(&world, handle.id()).await;
    assert_eq!(question.1.operation, "edit:a.txt");
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert!(ended.results("0").iter().all(|(_, ok, _)| *ok), "{:?}", ended.results("0"));
    assert_eq!(std::fs::read_to_string(world.dir.path().join("a.txt")).expect("a file"), "two");
}

#[tokio::test(start_paused = true)]
async fn no_clock_runs_while_a_person_thinks() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => {
            let mut input = child("builder", "x");
            input["timeout_ms"] = json!(60_000);
            input["budget"] = json!({"wall_ms": 60_000});
            text("").call("task", input)
        }
        (1, 1) => text("").call("strike", json!({"on": "a"})).latency(Duration::from_secs(25)),
        _ => text("done"),
    })
    .in_virtual_time();
    let process = world.process();
    let handle = start(&process, escalating(striking(&world))).await;
    let question = asked(&world, handle.id()).await;
    tokio::time::advance(Duration::from_hours(30)).await;
    assert_eq!(open(&world.store_events(handle.id()).await).len(), 1, "it still waits");
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert_eq!(
        (ended.status(), world.outside.count("strike")),
        ("completed", 1),
        "{}",
        listing(&ended.events)
    );
    assert!(ended.results("1").iter().all(|(_, ok, _)| *ok));
}

#[tokio::test(start_paused = true)]
async fn the_clock_goes_on_after_the_answer() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})).latency(Duration::from_secs(25)),
        _ => text("never").latency(Duration::from_secs(20)),
    })
    .in_virtual_time();
    let mut spec = striking(&world);
    spec.budget.wall_ms = Some(60_000);
    let process = world.process();
    let handle = start_attended(&process, spec).await;
    let question = asked(&world, handle.id()).await;
    tokio::time::advance(Duration::from_hours(2)).await;
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert!(ended.text().starts_with("BUDGET_EXHAUSTED: "), "{}", ended.text());
    assert_eq!(world.outside.count("strike"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_one_slot_a_deep_tree_of_questions_never_deadlocks() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (depth @ 0..=3, 1) => {
            let kind = if depth == 3 { "builder" } else { "lead" };
            text("").call("task", child(kind, "down")).call("probe", json!({"on": "a"}))
        }
        (4, 1) => text("").call("strike", json!({"on": "a"})).call("probe", json!({"on": "a"})),
        _ => text("done"),
    });
    let mut spec = escalating(striking(&world));
    let everything = spec.definitions[0].tools.clone();
    for definition in &mut spec.definitions {
        definition.rules = vec![asks("probe"), asks("strike")];
        definition.tools.clone_from(&everything);
        definition.parallel = Some(1);
    }
    (spec.terms.parallel, spec.max_depth) = (1, 4);
    let approver = Approver::attends(&world);
    let ended = world.run(spec).await;
    drop(approver);
    assert_eq!(ended.status(), "completed", "{}", listing(&ended.events));
    assert_eq!((world.outside.count("strike"), world.outside.count("probe")), (1, 5));
    assert_eq!(count(&ended, "agent.input_requested"), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_somebody_is_asked_answers_every_call_once() {
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")).call("strike", json!({"on": "b"})),
        (1, 1) => text("").call("strike", json!({"on": "a"})).call("probe", json!({})),
        _ => text("done"),
    });
    let process = world.process();
    let handle = start(&process, escalating(striking(&world))).await;
    let run = handle.id().clone();
    for agent in ["0", "1"] {
        let is_it =
            |event: &Event| event.agent.relative() == agent && event.body.kind() == "agent.input_requested";
        world.until(&run, is_it).await;
    }
    let questions = open(&world.store_events(&run).await);
    world.cancel(&run.root()).await;
    let ended = world.ended(&handle).await;
    assert_eq!((ended.status(), world.outside.count("strike")), ("cancelled", 0));
    assert!(answers(&ended).is_empty());
    assert_eq!(ended.run.open_questions().count(), 0);
    assert_eq!(questions.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_sees_what_its_child_waits_for() {
    let latch = crate::tools::Latch::closed();
    let held = latch.clone();
    let world = World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", crate::world::background("builder", "x")),
        (0, 2) => text("").call("task_status", json!({"task_id": "1"})),
        (1, 1) => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    })
    .holding(move |request| (request.depth == 0 && request.turn == 2).then(|| held.clone()));
    let process = world.process();
    let handle = start(&process, escalating(striking(&world))).await;
    let question = asked(&world, handle.id()).await;
    latch.open();
    let is_told =
        |event: &Event| matches!(&event.body, EventBody::ToolFinished(e) if e.tool == "task_status");
    world.until(handle.id(), is_told).await;
    say(&world, &question, Answer::Once).await;
    let ended = world.ended(&handle).await;
    let told = ended.results("0");
    assert!(told[1].2.contains("waits for a person: strike:a"), "{told:?}");
}

/// Starts a run, waits for its question, and simulates a power loss.
async fn dead_with_a_question(
    world: &World,
    spec: RunRequest,
    attended: bool,
) -> (RunId, (AgentId, InputRequested)) {
    let dying = world.mortal(None);
    let handle = if attended { start_attended(&dying, spec).await } else { start(&dying, spec).await };
    let question = asked(world, handle.id()).await;
    dying.power.as_ref().expect("mortal").cut();
    (handle.id().clone(), question)
}

fn one_strike() -> World {
    World::new(|request| match request.turn {
        1 => text("").call("strike", json!({"on": "a"})),
        _ => text("done"),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_given_while_nobody_carries_the_run_counts_when_somebody_does() {
    for (answer, struck) in [(Answer::Once, 1), (Answer::Always, 1), (Answer::Deny { reason: None }, 0)] {
        let world = one_strike();
        let (run, question) = dead_with_a_question(&world, escalating(striking(&world)), false).await;
        say(&world, &question, answer.clone()).await;
        let heir = world.process();
        let handle = world.resume(&heir, &run).await.expect("it goes on");
        let ended = world.ended(&handle).await;
        assert_eq!(world.outside.count("strike"), struck, "{answer:?}");
        assert_eq!((count(&ended, "agent.input_requested"), count(&ended, "agent.input_answered")), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_survives_its_process_and_is_not_asked_twice() {
    let world = one_strike();
    let (run, before) = dead_with_a_question(&world, escalating(striking(&world)), false).await;
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    world.until(&run, |event| event.body.kind() == "run.resumed").await;
    let after = asked(&world, &run).await;
    assert_eq!(after, before);
    say(&world, &after, Answer::Once).await;
    let ended = world.ended(&handle).await;
    assert_eq!((world.outside.count("strike"), count(&ended, "agent.input_requested")), (1, 1));
    assert_eq!(count(&ended, "agent.permission_decided"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_the_root_is_a_no_once_nobody_attends_any_more() {
    let world = one_strike();
    let (run, _) = dead_with_a_question(&world, striking(&world), true).await;
    let heir = world.process();
    let handle = world.resume(&heir, &run).await.expect("it goes on");
    let ended = world.ended(&handle).await;
    assert_eq!(world.outside.count("strike"), 0);
    assert_eq!(answers(&ended), [(QuestionAnswer::Deny, false, AnsweredBy::Host)]);
    assert!(ended.result("0").1.contains("no user can be asked"), "{:?}", ended.result("0"));
    let world = one_strike();
    let (run, before) = dead_with_a_question(&world, striking(&world), true).await;
    let heir = world.process();
    let Ok(ResumeOutcome::Going(handle)) = heir.runtime.resume_attended(&run).await else {
        panic!("it goes on")
    };
    world.until(&run, |event| event.body.kind() == "run.resumed").await;
    assert_eq!(asked(&world, &run).await, before, "somebody attends again");
    say(&world, &before, Answer::Once).await;
    world.ended(&handle).await;
    assert_eq!(world.outside.count("strike"), 1);
}

/// A user who answers every question of a run, whichever process executes the run, until the value is dropped.
pub(crate) struct Approver(tokio::task::JoinHandle<()>);

impl Approver {
    /// Allows every operation.
    fn attends(world: &World) -> Self {
        Self::says(world, |_| Answer::Once)
    }

    /// Answers each question with `say`, which gets the question's position in the journal.
    pub(crate) fn says(world: &World, say: impl Fn(usize) -> Answer + Send + 'static) -> Self {
        let store = world.store().another_process();
        Self(tokio::spawn(async move {
            let tenant = posse_engine::ports::TenantId::local();
            let run = loop {
                // The store sends no hints about a run that does not exist yet.
                match store.runs(&tenant, "", 1).await.expect("runs").pop() {
                    Some(entry) => break entry.run,
                    None => tokio::task::yield_now().await,
                }
            };
            let key = posse_engine::ports::RunKey { tenant, run };
            let mut pulse = store.watch(&key);
            let mut answered: HashSet<usize> = HashSet::new();
            loop {
                pulse.borrow_and_update();
                for (at, agent, asked) in open_at(&checks::read(&store, &key).await) {
                    if answered.insert(at) {
                        let (call_id, approval) = (asked.call_id, asked.approval);
                        let command = MailCommand::Answer { agent, call_id, approval, answer: say(at) };
                        store.post(&key, command).await.expect("posted");
                    }
                }
                pulse.changed().await.expect("the store lives");
            }
        }))
    }
}

impl Drop for Approver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks questions at two depths, before a command and before a write.
fn asking() -> World {
    World::new(|request| match (request.depth, request.turn) {
        (0, 1) => text("").call("task", child("builder", "x")).call("strike", json!({"on": "root"})),
        (1, 1) => text("")
            .call("write", json!({"path": "asked.txt", "content": "by a child"}))
            .call("strike", json!({"on": "child"})),
        _ => text("done"),
    })
}

fn asking_spec(world: &World) -> RunRequest {
    let mut spec = escalating(world.spec());
    spec.terms.run_rules = Rules::from(vec![asks("strike"), asks("write")]);
    spec
}

/// Wherever the process dies, each question is asked and answered once, and its operation happens at most once.
#[tokio::test(flavor = "multi_thread")]
async fn questions_and_answers_survive_death_at_every_pass_of_every_point() {
    let world = asking();
    let approver = Approver::attends(&world);
    let process = world.mortal(None);
    let handle = start(&process, asking_spec(&world)).await;
    handle.ended().await.expect("it ends");
    drop(approver);
    let passes = process.power.expect("mortal").passes();
    for point in FAULT_POINTS {
        for pass in 1..=passes.get(point).copied().unwrap_or(0) {
            let world = asking();
            let approver = Approver::attends(&world);
            let ended = dies_at(&world, asking_spec(&world), &[CrashPoint { point, pass }]).await;
            drop(approver);
            let what = || format!("{point} {pass}:\n{}", listing(&ended.events));
            assert_eq!(ended.status(), "completed", "{}", what());
            let mut places = HashSet::new();
            for event in &ended.events {
                if let EventBody::InputRequested(e) = &event.body {
                    assert!(
                        places.insert((event.agent.clone(), e.call_id.clone())),
                        "asked twice at {}",
                        what()
                    );
                }
            }
            assert_eq!(places.len(), 3, "{}", what());
            assert_eq!(count(&ended, "agent.input_answered"), 3, "{}", what());
            let written = std::fs::read_to_string(world.dir.path().join("asked.txt"));
            assert_eq!(written.expect("a file"), "by a child", "{}", what());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_about_a_command_names_the_directory_that_it_starts_in() {
    let world = World::new(|request| match request.turn {
        1 => text("").call("bash", json!({"command": "make", "workdir": "/workspace/sub/"})),
        2 => text("").call("bash", json!({"command": "make", "workdir": "."})),
        _ => text("done"),
    });
    let process = world.process();
    let mut spec = world.spec();
    spec.definitions[0].tools.push("bash".to_owned());
    spec.definitions[0].rules = vec![asks("bash")];
    let handle = start_attended(&process, spec).await;
    for operation in ["bash@sub:make", "bash:make"] {
        let question = asked(&world, handle.id()).await;
        assert_eq!((question.1.operation.as_str(), question.1.tool.as_str()), (operation, "bash"));
        say(&world, &question, Answer::Deny { reason: None }).await;
        let call_id = question.1.call_id.clone();
        world
            .until(
                handle.id(),
                |event| matches!(&event.body, EventBody::ToolFinished(e) if e.call_id == call_id),
            )
            .await;
    }
    world.ended(&handle).await;
}
