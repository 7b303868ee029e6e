//! Compares a view with the engine's own state after every event of real runs, and with the rows of current state.

use std::fmt::Write;

use posse_domain::event::{AnsweredBy, Event, InputAnswered, InputRequested, QuestionAnswer};
use posse_domain::id::RunId;
use posse_domain::lifecycle::{Node, Run};
use posse_domain::permission::{Operation, Pattern};
use posse_models::scripted::ScriptedModel;

use super::*;
use crate::{Answer, Decision, NewRun, Posse, Rule};

/// A run of a script in memory.
struct Story {
    posse: Posse,
    run: RunId,
}

async fn started(script: &str, asks: &[&str]) -> Story {
    let script = ScriptedModel::from_yaml(script, "script.yaml").expect("a script");
    let posse = Posse::builder().model("scripted/test", script).in_memory().open().expect("open");
    let ask = |pattern: &&str| Rule { pattern: pattern.parse().expect("pattern"), decision: Decision::Ask };
    let rules: Vec<Rule> = asks.iter().map(ask).collect();
    let run = NewRun::new("Look at it").model("scripted/test").dir(".").parallel(3).run_rules(rules.into());
    let handle = posse.start(run.attended(true)).await.expect("started");
    let run = handle.id().clone();
    Story { posse, run }
}

impl Story {
    /// All events with their contents. Each question is answered with `answer`.
    async fn events(&self, answer: Answer) -> Vec<JournalEvent> {
        let mut events = self.posse.events(&self.run, 0).with_found();
        let mut all = Vec::new();
        loop {
            let event = events.next().await.expect("an event");
            let (is_question, ends) = (event.kind == EventKind::InputRequested, event.kind.ends_run());
            all.push(event);
            if is_question {
                for request in self.posse.pending_questions(&self.run).await.expect("questions") {
                    if !request.is_answered {
                        self.posse.answer(&request, answer.clone()).await.expect("answered");
                    }
                }
            }
            if ends {
                return all;
            }
        }
    }
}

/// Applies the events one by one, and compares the view with the engine's state after each.
fn held_against_the_engine(events: &[JournalEvent]) -> RunView {
    let mut view = RunView::default();
    let mut run: Option<Run> = None;
    // These get every event, whether they need it or not.
    let mut questions = OpenQuestions::default();
    let mut waits = ProviderWaits::default();
    let mut files = AgentCommits::default();
    let mut plan = PlanView::default();
    for event in events {
        let domain = Event { agent: event.agent_id.clone(), at_ms: event.at_ms, body: event.body.clone() };
        match &mut run {
            None => run = Some(Run::begin(&domain).expect("it begins")),
            Some(run) => run.apply(&domain).expect("it continues"),
        }
        view.apply(event);
        // A repeated event changes nothing.
        view.apply(event);
        questions.apply(&event.into());
        waits.apply(&event.into());
        files.apply(&event.into());
        plan.apply(&event.into());
        assert_eq!((&questions, &waits), (&view.blocked.questions, &view.blocked.waits), "{}", event.seq);
        assert_eq!((&files, &plan), (&view.files, &view.plan), "{}", event.seq);
        let run = run.as_ref().expect("a run");
        same_as_engine(&view, run, event.seq);
        let (blocked, plan) = parts_by_events_in_force(run, events);
        assert_eq!(plan, view.plan, "{}", event.seq);
        if run.outcome.is_none() {
            assert_eq!(blocked, view.blocked, "{}", event.seq);
        }
    }
    view
}

/// What agents wait for and the plan, by the events that the engine's state names as being in force.
fn parts_by_events_in_force(run: &Run, events: &[JournalEvent]) -> (BlockedAgents, PlanView) {
    let in_force: Vec<u64> = run.iter().flat_map(|(id, _)| run.events_in_force(id)).chain([1]).collect();
    let (mut blocked, mut plan) = (BlockedAgents::default(), PlanView::default());
    for event in events.iter().filter(|event| in_force.contains(&event.seq)) {
        blocked.take(&event.into());
        plan.take(&event.into());
    }
    (blocked, plan)
}

fn same_as_engine(view: &RunView, run: &Run, seq: u64) {
    let status = run.outcome.as_ref().map_or(RunStatus::Running, posse_domain::lifecycle::Outcome::status);
    assert_eq!(view.status(), status, "{seq}");
    let mut counts = StageCounts::default();
    for agent in view.agents().iter() {
        let node = run.get(&agent.id).expect("the engine knows it");
        let state = match node {
            Node::Open(open) if !agent.id.is_root() || run.outcome.is_none() => open.state.name(),
            _ => posse_domain::lifecycle::AgentState::Closed,
        };
        assert_eq!(agent.state, state, "{seq} {}", agent.id);
        assert_eq!(Some(&agent.own), run.ledger.own(&agent.id), "{seq} {}", agent.id);
        assert_eq!(Some(&agent.subtree), run.ledger.subtree(&agent.id), "{seq} {}", agent.id);
        let waits = run.open(&agent.id).filter(|_| run.outcome.is_none());
        let waits = waits.and_then(|open| open.provider_wait.as_ref());
        assert_eq!(view.blocked().waits().of(&agent.id).is_some(), waits.is_some(), "{seq} {}", agent.id);
        let open = agent
            .children
            .iter()
            .filter(|id| view.agents().get(id).is_some_and(|child| !child.stage().is_over()));
        assert_eq!(agent.open_children, open.count() as u64, "{seq} {}", agent.id);
        match agent.stage() {
            Stage::Queued => counts.queued += 1,
            Stage::Running | Stage::WaitingForMerge => counts.running += 1,
            Stage::Completed => counts.completed += 1,
            Stage::Failed => counts.failed += 1,
            Stage::Cancelled => counts.cancelled += 1,
        }
    }
    assert_eq!(view.agents().counts(), counts, "{seq}");
    if run.outcome.is_none() {
        let questions = view.blocked().questions();
        let mut asked: Vec<(&AgentId, &str)> =
            questions.iter().map(|question| (&question.agent, question.asked.call_id.as_str())).collect();
        asked.sort();
        let open: Vec<(&AgentId, &str)> =
            run.open_questions().map(|(agent, call, _)| (agent, call)).collect();
        assert_eq!((asked, questions.approvals()), (open, &run.terms.approvals), "{seq}");
    }
    assert!(view.timeline().iter().count() <= TIMELINE_MAX_ENTRIES);
}

/// The fields of an agent that rows have.
fn row_values(agent: &AgentView) -> impl PartialEq + std::fmt::Debug {
    let names = (&agent.id, &agent.definition, &agent.skill, &agent.title, &agent.model);
    let names = format!("{names:?}");
    let ends = (agent.state, agent.final_status, agent.close_reason, agent.failure.clone());
    let times = (agent.created_at_ms, agent.completed_at_ms);
    let children = (agent.children.clone(), agent.open_children, agent.turn_limit);
    (names, ends, agent.own, agent.subtree, times, children)
}

fn same_rows(one: &RunView, two: &RunView) {
    assert_eq!(one.last_seq(), two.last_seq());
    assert_eq!(one.agents().counts(), two.agents().counts());
    for agent in one.agents().iter() {
        let other = two.agents().get(&agent.id).expect("both have it");
        assert_eq!(row_values(agent), row_values(other));
    }
    assert_eq!((&one.blocked, &one.plan, &one.timeline), (&two.blocked, &two.plan, &two.timeline));
    assert_eq!((one.title(), one.dir(), one.status()), (two.title(), two.dir(), two.status()));
    assert_eq!((one.last_at_ms(), one.ended_at_ms()), (two.last_at_ms(), two.ended_at_ms()));
    let ids = |view: &RunView| view.agents().iter().map(|agent| agent.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(one), ids(two));
}

/// A script generated from `seed`: children that read, fail, wait for a provider, run out of turns, or are refused.
fn script(seed: u64) -> String {
    // Pseudo-random numbers: multiplied by an odd constant, and the high bits taken.
    let pick = |at: u64, of: u64| ((seed * 31 + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % of;
    let mut calls = String::new();
    for child in 0..=pick(0, 6) {
        let kind = match pick(child + 1, 3) {
            0 => "explore",
            1 => "general",
            _ => "nobody",
        };
        let _ = write!(
            calls,
            "\n      - {{name: task, input: {{subagent_type: {kind}, description: c{child}, prompt: look}}}}"
        );
    }
    let general = match pick(7, 3) {
        0 => "  error: {status: 500, message: broken}",
        1 => "  reply: {text: made, usage: {input_tokens: 7, output_tokens: 3}}",
        _ => {
            "  reply: {tool_calls: [{name: list, input: {path: .}}], usage: {input_tokens: 5, output_tokens: 2}}"
        }
    };
    format!(
        "- when: {{definition: coder, turn: 1}}\n  reply:\n    tool_calls:{calls}\n- when: {{definition: general, turn: 1}}\n{general}\n\
         - when: {{definition: explore, turn: 1}}\n  reply: {{tool_calls: [{{name: list, input: {{path: .}}}}]}}\n\
         - reply: {{text: seen, usage: {{input_tokens: 10, output_tokens: 1}}}}\n"
    )
}

#[tokio::test]
async fn after_every_event_a_view_is_what_the_engine_has() {
    for seed in 0..24 {
        let story = started(&script(seed), &[]).await;
        let events = story.events(Answer::Once).await;
        let view = held_against_the_engine(&events);
        same_rows(&story.posse.view(&story.run).await.expect("a view"), &view);
    }
}

#[tokio::test]
async fn waits_for_a_provider_begin_and_end() {
    let script = "- times: 1\n  error: {status: 429, message: slow down, retry_after_ms: 1100, limited: true}\n- reply: {text: done}\n";
    let story = started(script, &[]).await;
    let events = story.events(Answer::Once).await;
    assert!(events.iter().any(|event| event.kind == EventKind::ProviderWaitStarted));
    held_against_the_engine(&events);
}

#[tokio::test]
async fn a_view_that_starts_from_rows_and_goes_on_is_the_view_of_the_whole_journal() {
    // The root asks: an attended run has no approver for a child.
    let script = "
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: one, prompt: one}}
- when: {definition: coder, turn: 2}
  reply: {tool_calls: [{name: list, input: {path: .}}], usage: {input_tokens: 9, output_tokens: 4}}
- when: {definition: coder, turn: 3}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: general, description: two, prompt: two}}
- reply: {text: seen, usage: {input_tokens: 10, output_tokens: 1}}
";
    for answer in [Answer::Once, Answer::Deny { reason: None }] {
        let story = started(script, &["list"]).await;
        // After its question nothing happens before the answer.
        let mut events = story.posse.events(&story.run, 0);
        while events.next().await.expect("an event").kind != EventKind::InputRequested {}
        let mut view = story.posse.view(&story.run).await.expect("a view");
        assert_eq!(view.blocked().questions().len(), 1);
        let from = view.last_seq();
        let all = story.events(answer).await;
        let mut whole = RunView::default();
        all.iter().filter(|event| event.seq <= from).for_each(|event| whole.apply(event));
        same_rows(&view, &whole);
        for event in all.iter().filter(|event| event.seq > from) {
            view.apply(event);
            whole.apply(event);
            same_rows(&view, &whole);
        }
        assert!(view.blocked().questions().is_empty());
        assert_eq!(view.status(), RunStatus::Completed);
        held_against_the_engine(&all);
    }
}

#[test]
fn a_timeline_has_the_last_events_alone() {
    let mut timeline = Timeline::default();
    let agent: AgentId = "k3f9ab2c".parse().expect("an id");
    let resumed = posse_domain::event::RunResumed { epoch: 1, unowned_ms: 0 };
    let body = EventBody::RunResumed(resumed);
    for seq in 1..=TIMELINE_MAX_ENTRIES as u64 + 5 {
        let event = Event { agent: agent.clone(), at_ms: 0, body: body.clone() };
        timeline.apply(&ViewEvent::new(seq, &event));
    }
    let seqs: Vec<u64> = timeline.iter().map(|entry| entry.seq).collect();
    assert_eq!((seqs.len(), seqs[0]), (TIMELINE_MAX_ENTRIES, 6));
}

#[test]
fn an_answer_of_always_is_kept_with_its_exact_operation() {
    let agent: AgentId = "k3f9ab2c".parse().expect("an id");
    let approval = posse_domain::hash::Hash::of(b"a question");
    let asked = InputRequested {
        call_id: "c1".to_owned(),
        operation: "bash:make *".to_owned(),
        tool: "bash".to_owned(),
        arguments: "{}".into(),
        layer: None,
        rule: None,
        reason: None,
        approval,
    };
    let answered = |always| InputAnswered {
        call_id: "c1".to_owned(),
        approval,
        decision: QuestionAnswer::Allow,
        always,
        by: AnsweredBy::Person,
        reason: None,
    };
    for always in [false, true] {
        let mut questions = OpenQuestions::default();
        let bodies = [EventBody::from(Box::new(asked.clone())), answered(always).into()];
        for (body, (seq, open)) in bodies.into_iter().zip([(2, 1), (3, 0)]) {
            questions.take(&ViewEvent::new(seq, &Event { agent: agent.clone(), at_ms: 0, body }));
            assert_eq!(questions.len(), open, "{seq}");
        }
        let kept: Vec<String> = questions.approvals().iter().map(ToString::to_string).collect();
        let literal = Pattern::literal(&Operation::parse("bash:make *")).expect("a pattern").to_string();
        assert_eq!(kept, if always { vec![literal] } else { Vec::new() });
    }
}
