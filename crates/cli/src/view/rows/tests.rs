//! Trees as they are drawn, from the events of real runs.

use posse::scripted::ScriptedModel;
use posse::{EventKind, NewRun, Posse};

use super::*;
use crate::view::width::cut;

/// Executes a run with this script in memory, and passes its tree to `look` after every event.
fn trees(script: &str, mut look: impl FnMut(&RunView)) {
    let mut tree = RunView::default();
    events(script, |event| {
        tree.apply(event);
        look(&tree);
    });
}

/// Executes a run with this script in memory, and passes every event to `take`.
fn events(script: &str, mut take: impl FnMut(&posse::JournalEvent)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let script = ScriptedModel::from_yaml(script, "script.yaml").expect("a script");
        let posse = Posse::builder().model("scripted/test", script).in_memory().open().expect("open");
        let run = NewRun::new("Look at it").model("scripted/test").dir(".").parallel(4);
        let run = run.budget(posse::Budget { agents: Some(1_000), ..posse::Budget::NONE });
        let handle = posse.start(run).await.expect("started");
        let mut events = posse.events(handle.id(), 0);
        loop {
            let event = events.next().await.expect("an event");
            take(&event);
            if event.kind.ends_run() {
                break;
            }
        }
    });
}

#[test]
fn who_waits_for_a_person_is_shown_as_blocked_on_one_line() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let script = r#"
- when: {turn: 1}
  reply: {tool_calls: [{name: list, input: {path: "a\n\u202eb"}}]}
- reply: {text: done}
"#;
        let script = ScriptedModel::from_yaml(script, "script.yaml").expect("a script");
        let posse = Posse::builder().model("scripted/test", script).in_memory().open().expect("open");
        let ask = posse::Rule { pattern: "list".parse().expect("pattern"), decision: posse::Decision::Ask };
        let run = NewRun::new("Look at it").model("scripted/test").dir(".").run_rules(vec![ask].into());
        let handle = posse.start(run.attended(true)).await.expect("started");
        let mut events = posse.events(handle.id(), 0);
        let mut tree = RunView::default();
        let mut saw = Vec::new();
        loop {
            let event = events.next().await.expect("an event");
            tree.apply(&event);
            saw.push(drawn(&tree, 10).remove(0));
            if event.kind == EventKind::InputRequested {
                let questions = posse.pending_questions(handle.id()).await.expect("questions");
                posse.answer(&questions[0], posse::Answer::Once).await.expect("answered");
            }
            if event.kind.ends_run() {
                break;
            }
        }
        let blocked = saw.iter().filter(|row| row.contains("needs your approval")).collect::<Vec<_>>();
        assert!(blocked[0].ends_with(r"needs your approval: list:a\n\u{202e}b"), "{blocked:?}");
        assert_eq!(blocked.len(), 1, "until it is answered: {saw:?}");
    });
}

#[test]
fn the_cost_of_an_agent_is_shown_before_the_whole_of_its_title() {
    let script = "
facts: {price: {input: 3, output: 15, cached: 0.3}}
rules:
- when: {turn: 1}
  reply: {tool_calls: [{name: list, input: {path: .}}]}
- reply: {text: done}
";
    let mut shown = Vec::new();
    trees(script, |tree| {
        if tree.usage().known_micro_usd() > 0 && tree.status().is_running() {
            shown.push(rows_of(tree, 10, 80)[0].text());
        }
    });
    assert!(!shown.is_empty() && shown.iter().all(|row| row.contains(", $0.0")), "{shown:#?}");
}

#[test]
fn what_a_model_is_saying_is_shown_while_it_says_it() {
    let mut tree = RunView::default();
    let mut saw = Vec::new();
    let script =
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: list, input: {path: .}}]}\n- reply: {text: done}\n";
    events(script, |event| {
        tree.apply(event);
        let say = |tree: &mut RunView, part, content: &str| {
            let (agent_id, parent_id) = (event.agent_id.clone(), None);
            let turn = tree.agents().root().map_or(0, |root| root.turn);
            let call = posse::DeltaCall { attempt: 1, turn, call: 1 };
            tree.apply_delta(&posse::Delta { agent_id, parent_id, part, content: content.to_owned(), call });
        };
        if event.kind == EventKind::ModelCalled {
            say(&mut tree, posse::DeltaPart::Text, "First line\nI look\u{1b}[2");
            say(&mut tree, posse::DeltaPart::Text, "J around");
            saw.push(drawn(&tree, 10).remove(0));
            assert_eq!(tree.agents().root().expect("root").last_lines(5), ["First line", "I look around"]);
            say(&mut tree, posse::DeltaPart::Tool, "list");
            saw.push(drawn(&tree, 10).remove(0));
            say(&mut tree, posse::DeltaPart::Text, &"long ".repeat(100_000));
            let kept: usize =
                tree.agents().root().expect("root").last_lines(usize::MAX).iter().map(String::len).sum();
            assert!(kept < 10_000);
        } else {
            say(&mut tree, posse::DeltaPart::Text, "too late");
            assert!(!drawn(&tree, 10).concat().contains("too late"));
        }
    });
    assert!(saw[0].ends_with("  I look around") && saw[1].ends_with("  calls list"), "{saw:?}");
}

/// Pieces of replies arrive separately from events, possibly before them.
#[test]
fn the_words_of_two_turns_are_not_joined() {
    let script =
        "- when: {turn: 1}\n  reply: {tool_calls: [{name: list, input: {path: .}}]}\n- reply: {text: done}\n";
    let mut tree = RunView::default();
    let mut saw = Vec::new();
    events(script, |event| {
        tree.apply(event);
        let say = |tree: &mut RunView, turn, content: &str| {
            let call = posse::DeltaCall { attempt: 1, turn, call: 1 };
            let (part, content) = (posse::DeltaPart::Text, content.to_owned());
            tree.apply_delta(&posse::Delta {
                agent_id: event.agent_id.clone(),
                parent_id: None,
                part,
                content,
                call,
            });
        };
        let turn = tree.agents().root().map_or(0, |root| root.turn);
        if event.kind == EventKind::ModelCalled && turn == 1 {
            say(&mut tree, 1, "fin red");
            // A piece of the second turn arrives before the end of the first.
            say(&mut tree, 2, "fin ");
            say(&mut tree, 1, "too late");
        } else if event.kind == EventKind::ModelCalled {
            say(&mut tree, 2, "blue");
            saw = tree.agents().root().expect("root").last_lines(5);
        }
    });
    assert_eq!(saw, ["fin blue"]);
}

#[test]
fn who_waits_for_a_provider_is_shown_with_until_when() {
    let script = "- times: 1\n  error: {status: 429, message: slow down, retry_after_ms: 1100, limited: true}\n- reply: {text: done}\n";
    let mut saw = Vec::new();
    trees(script, |tree| saw.push(drawn(tree, 10).remove(0)));
    let waits: Vec<&String> =
        saw.iter().filter(|row| row.contains("waits for the model: slow down, retry 1 of 29 in ")).collect();
    assert_eq!(waits.len(), 1, "{saw:?}");
}

fn drawn(tree: &RunView, max: usize) -> Vec<String> {
    rows_of(tree, max, 200).iter().map(|row| without_times(&row.text())).collect()
}

/// The rows at a moment when every agent has worked for 12.3 s.
fn rows_of(tree: &RunView, max: usize, columns: usize) -> Vec<Row> {
    let run = tree.agents().root().expect("a root").id.as_str().to_owned();
    let (folded, now_ms) = (HashSet::new(), tree.started_at_ms() + 12_300);
    let drawing = DrawOptions { frame: 0, now_ms, columns, folded: &folded, selected: None };
    let mut rows = rows(tree, max, drawing);
    for (_, text) in rows.iter_mut().flat_map(|row| &mut row.pieces) {
        *text = text.replace(&run, "k3f9ab2c");
    }
    rows
}

/// The text with every duration replaced by one of the same length.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    for at in 1..words.len() {
        let is_unit = matches!(words[at].trim_end_matches(','), "ms" | "s");
        if is_unit && words[at - 1].starts_with(|c: char| c.is_ascii_digit()) {
            words[at - 1] = "T".to_owned();
            words[at] = words[at].replace("ms", "s");
        }
    }
    words.join(" ")
}

fn fan_out(children: usize) -> String {
    let call = "{name: task, input: {subagent_type: explore, description: look, prompt: look}}";
    let calls = vec![call; children].join(", ");
    format!(
        "- when: {{definition: coder, turn: 1}}\n  reply: {{tool_calls: [{calls}]}}\n- reply: {{text: seen, usage: \
         {{input_tokens: 10, output_tokens: 1}}}}\n"
    )
}

#[test]
fn a_tree_shows_refusals_attempts_and_endings() {
    let script = r"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find it, prompt: one}}
      - {name: task, input: {subagent_type: general, description: break it, prompt: two}}
      - {name: task, input: {subagent_type: nobody, description: refused, prompt: three}}
    usage: {input_tokens: 1000, output_tokens: 100}
- when: {definition: general}
  error: {status: 500, message: broken}
- reply: {text: found, usage: {input_tokens: 100, output_tokens: 10}}
";
    let mut last = Vec::new();
    trees(script, |tree| last = drawn(tree, 40));
    insta::assert_snapshot!(last.join("\n"));
}

#[test]
fn a_wide_tree_never_takes_more_rows_than_there_are() {
    let (mut widest, mut hidden) = (0, 0);
    let mut last = Vec::new();
    trees(&fan_out(300), |tree| {
        let rows = drawn(tree, 12);
        assert!(rows.len() <= 13, "{rows:#?}");
        hidden += usize::from(rows.iter().any(|row| row.contains(" more agents")));
        widest = widest.max(tree.agents().counts().all());
        last = rows;
    });
    assert_eq!(widest, 301);
    assert!(hidden > 0, "there was no moment with more agents than rows");
    assert_eq!(last.len(), 2, "the children have left the tree: {last:#?}");
    assert!(last[1].contains("301 agents · 301 completed · "), "{last:#?}");
}

#[test]
fn those_at_work_are_shown_before_those_that_have_ended() {
    let mut seen = false;
    trees(&fan_out(100), |tree| {
        let at_work: Vec<&AgentView> = tree
            .agents()
            .iter()
            .filter(|agent| !agent.id.is_root() && agent.stage() == Stage::Running)
            .collect();
        let over = tree.agents().counts().completed;
        if at_work.len() < 6 && !at_work.is_empty() && over > 20 {
            seen = true;
            let text = drawn(tree, 12).join("\n");
            for agent in at_work {
                assert!(text.contains(&format!(" {} explore", agent.id.relative())), "{text}");
            }
        }
    });
    assert!(seen, "there was such a moment");
}

const BUSY: &str = r"
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: find every place that reads the clock, prompt: one}}
      - {name: task, input: {subagent_type: general, description: replace the clock by a port of the engine, prompt: two}}
      - {name: task, input: {subagent_type: general, description: break it, prompt: three}}
    usage: {input_tokens: 12000, output_tokens: 800}
- when: {definition: explore, turn: 1}
  reply:
    text: I read the clock of the scheduler first, because everything else depends on it.
    tool_calls: [{name: list, input: {path: .}}]
    usage: {input_tokens: 1000, output_tokens: 10}
- when: {definition: explore}
  reply: {text: found}
  latency_ms: 2000
- when: {contains: three}
  error: {status: 400, message: broken}
- reply: {text: done, usage: {input_tokens: 100, output_tokens: 10}}
";

/// What a user needs of each agent survives on a narrow terminal: sign, id, definition, time and activity.
#[test]
fn a_row_keeps_the_essentials_at_every_width() {
    let mut shown = [60, 80, 120].map(|columns| (columns, String::new()));
    trees(BUSY, |tree| {
        let has_turn = tree.agents().iter().any(|agent| agent.definition == "explore" && agent.turn == 2);
        if has_turn && tree.agents().counts().failed > 0 {
            for (columns, text) in shown.iter_mut().filter(|(_, text)| text.is_empty()) {
                let rows = rows_of(tree, 20, *columns);
                let texts = rows.iter().map(|row| without_times(&cut(row, *columns).text()));
                *text = texts.collect::<Vec<_>>().join("\n");
            }
        }
    });
    let [narrow, usual, wide] = shown.map(|(_, text)| text);
    insta::assert_snapshot!("rows_at_60_columns", narrow);
    insta::assert_snapshot!("rows_at_80_columns", usual);
    insta::assert_snapshot!("rows_at_120_columns", wide);
}
