//! A view is held against the engine's own state after every event of real runs, and against the rows of current
//! state.

use std::fmt::Write;

use posse_domain::event::Event;
use posse_domain::id::RunId;
use posse_domain::lifecycle::{Node, Run};
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
    /// All events, with everything in them; each question is answered as `answer` says.
    async fn events(&self, answer: Answer) -> Vec<JournalEvent> {
        let mut events = self.posse.events(&self.run, 0).with_found();
        let mut all = Vec::new();
        loop {
            let event = events.next().await.expect("an event");
            let (is_question, ends) = (event.kind == "agent.input_requested", is_end(event.kind));
            all.push(event);
            if is_question {
                for request in self.posse.requests(&self.run).await.expect("requests") {
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

/// A part that reads only the events that it needs.
#[derive(Default)]
struct Frugal<P>(P);

impl<P: ViewPart> Frugal<P> {
    fn offer(&mut self, event: &JournalEvent) {
        if self.0.needs(event.kind) {
            self.0.apply(&event.into());
        }
    }
}

/// Applies the events one by one, and holds the view against the engine's state after each.
fn held_against_the_engine(events: &[JournalEvent]) -> RunView {
    let mut view = RunView::default();
    let mut run: Option<Run> = None;
    let mut parts = Frugal::<((OpenQuestions, ProviderWaits), (RunFiles, PlanView))>::default();
    for event in events {
        let domain = Event { agent: event.agent_id.clone(), at_ms: event.at_ms, body: event.body.clone() };
        match &mut run {
            None => run = Some(Run::begin(&domain).expect("it begins")),
            Some(run) => run.apply(&domain).expect("it goes on"),
        }
        view.apply(event);
        // An event that comes twice changes nothing.
        view.apply(event);
        parts.offer(event);
        let ((questions, waits), (files, plan)) = &parts.0;
        assert_eq!((questions, waits), (&view.questions, &view.waits), "{}", event.seq);
        assert_eq!((files, plan), (&view.files, &view.plan), "{}", event.seq);
        same_as_engine(&view, run.as_ref().expect("a run"), event.seq);
    }
    view
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
        assert_eq!(view.waits().of(&agent.id).is_some(), waits.is_some(), "{seq} {}", agent.id);
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
    assert!(view.timeline().iter().count() <= TIMELINE_MAX_ENTRIES);
}

/// What rows hold of an agent.
fn row_values(agent: &AgentView) -> impl PartialEq + std::fmt::Debug {
    let names = (&agent.id, &agent.definition, &agent.skill, &agent.title, &agent.model);
    let names = format!("{names:?}");
    let ends = (agent.state, agent.final_status, agent.close_reason, agent.failure.clone());
    let times = (agent.created_at_ms, agent.completed_at_ms);
    (names, ends, agent.own, agent.subtree, times, agent.children.clone(), agent.open_children)
}

fn same_rows(one: &RunView, two: &RunView) {
    assert_eq!(one.last_seq(), two.last_seq());
    assert_eq!(one.agents().counts(), two.agents().counts());
    for agent in one.agents().iter() {
        let other = two.agents().get(&agent.id).expect("both have it");
        assert_eq!(row_values(agent), row_values(other));
    }
    assert_eq!((&one.questions, &one.waits), (&two.questions, &two.waits));
}

/// A script that `seed` makes: children that look, break, wait for a provider, run out of turns, or are refused.
fn script(seed: u64) -> String {
    // Numbers in no visible order: multiplied by an odd constant, and the high bits taken.
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
    assert!(events.iter().any(|event| event.kind == "agent.provider_wait_started"));
    held_against_the_engine(&events);
}

#[tokio::test]
async fn a_view_that_starts_from_rows_and_goes_on_is_the_view_of_the_whole_journal() {
    // The root asks: no person answers for a child here.
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
        // From its question on nothing happens before the answer.
        let mut events = story.posse.events(&story.run, 0);
        while events.next().await.expect("an event").kind != "agent.input_requested" {}
        let mut view = story.posse.view(&story.run).await.expect("a view");
        assert_eq!(view.questions().iter().count(), 1);
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
        assert!(view.questions().is_empty());
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
