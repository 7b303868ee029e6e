//! Conversations that outgrow the model's context: they are compacted, and the run continues.

use std::fmt::Write as _;

use serde_json::Value;

use crate::models_world::of_kind;
use crate::replays::assert_replays;
use crate::support::{Home, run_of};

const SUMMARY: &str = "Asked to look around. Found nothing. Changed nothing. Left: the last room.";
/// Turns of about 2,000 tokens, which the context does not hold all.
const TURNS: usize = 14;
/// Longer than any test: a call with this latency waits until it is killed.
const FOR_EVER: u32 = 3_600_000;

/// A root that says much in each turn. Its summaries take `latency_ms`.
fn script(latency_ms: u32) -> String {
    let mut script = format!(
        "facts: {{context_tokens: 24000, max_output_tokens: 1000, price: {{input: 3, output: 15}}}}\nrules:\n- when: \
         {{purpose: summary}}\n  reply: {{text: \"{SUMMARY}\"}}\n  latency_ms: {latency_ms}\n- when: {{contains: what \
         now}}\n  reply: {{text: The last room is empty.}}\n"
    );
    for turn in 1..=TURNS {
        let text = format!("Room {turn}: {}", "words ".repeat(1_300));
        // Writing to a string cannot fail.
        let _ = writeln!(
            script,
            "- when: {{turn: {turn}}}\n  reply: {{text: \"{text}\", tool_calls: [{{name: list, input: {{}}}}]}}"
        );
    }
    script.push_str("- reply: {text: All rooms are empty.}\n");
    script
}

fn home(latency_ms: u32) -> Home {
    let home = Home::new();
    home.write_own("script.yaml", &script(latency_ms));
    home
}

fn journal(home: &Home, run: &str) -> Vec<Value> {
    home.posse(&["logs", "--json", run]).exits(0).json_lines()
}

const RUN: [&str; 4] = ["run", "--json", "--model", "scripted/../script.yaml"];

fn run(home: &Home) -> Value {
    home.posse(&[&RUN[..], &["look around"]].concat()).exits(0).result()
}

#[test]
fn a_long_run_is_compacted_shown_in_full_and_replayed() {
    let home = home(0);
    let result = run(&home);
    let run = run_of(&result);
    assert_eq!((&result["text"], &result["turns"]), (&"All rooms are empty.".into(), &(TURNS + 1).into()));
    let events = journal(&home, &run);
    let compacted = of_kind(&events, "agent.context_compacted");
    assert!(!compacted.is_empty(), "{events:#?}");
    for event in &compacted {
        let detail = &event["detail"];
        assert!(detail["tokens_after"].as_u64() < detail["tokens_before"].as_u64(), "{detail}");
        assert_eq!(detail["summary"], SUMMARY);
        let line = event["summary"].as_str().expect("a line");
        assert!(line.starts_with("conversation compacted: a summary replaced "), "{line}");
    }
    let called = of_kind(&events, "agent.model_called");
    assert!(called.iter().all(|event| event["detail"]["reserved"]["input_tokens"].as_u64() <= Some(24_000)));

    let trace = home.posse(&["trace", &run]).exits(0).stdout;
    for turn in 1..=TURNS {
        assert!(trace.contains(&format!("Room {turn}: words")), "turn {turn} is in full");
    }
    let at = |text: &str| trace.find(text).unwrap_or_else(|| panic!("no `{text}` in {trace}"));
    let (asked, wrote) = (at("to summarise the conversation"), at(": summarised the conversation in "));
    let (place, summary) = (at("conversation compacted: a summary replaced "), at(SUMMARY));
    assert!(asked < wrote && wrote < place && place < summary);
    let cost = trace[wrote..].lines().next().expect("a line");
    assert!(cost.contains('$') && cost.contains("tokens"), "{cost}");
    let logs = home.posse(&["logs", &run]).exits(0).stdout;
    assert!(logs.contains("conversation compacted: a summary replaced "), "{logs}");
    home.posse(&["verify", &run]).exits(0);
    assert_replays(&home, &run, 0);
}

#[test]
fn a_run_that_was_killed_during_a_summary_asks_for_it_again_and_is_charged_for_both() {
    let home = home(FOR_EVER);
    let mut going = home.start(&[&RUN[..], &["look around"]].concat());
    let asked = going.until(|event| event["detail"]["purpose"] == "summary");
    let run = run_of(&asked);
    going.kill();
    home.write_own("script.yaml", &script(0));
    let done = home.posse(&["resume", "--json", &run]).exits(0).result();
    assert_eq!((&done["text"], &done["turns"]), (&"All rooms are empty.".into(), &(TURNS + 1).into()));
    let events = journal(&home, &run);
    let replied = of_kind(&events, "agent.model_replied");
    let mut summaries =
        replied.iter().map(|event| &event["detail"]).filter(|detail| detail["summary"] == true);
    let cut = summaries.next().expect("the call that was cut off");
    assert_eq!((&cut["error"]["code"], &cut["estimated"]), (&"INTERRUPTED".into(), &true.into()));
    let again = summaries.next().expect("the call that was made again");
    assert_eq!((&again["turn"], &again["call"]), (&cut["turn"], &2.into()));
    assert_eq!(of_kind(&events, "agent.context_compacted").len(), summaries.count() + 1);
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_follow_up_begins_with_the_compacted_conversation() {
    let home = home(0);
    let first = run_of(&run(&home));
    let follow_up = home.posse(&["continue", &first, "what now", "--json"]).exits(0).result();
    assert_eq!(follow_up["text"], "The last room is empty.");
    let second = run_of(&follow_up);
    let of = |run: &str| home.posse(&["trace", "--json", run]).exits(0).json_lines();
    let started = &of(&second)[0]["detail"];
    let conversation = started["continues"]["conversation"].as_str().expect("a conversation");
    let conversation: Vec<Value> = serde_json::from_str(conversation).expect("messages");
    assert_eq!(conversation[0]["User"], "look around", "the assignment");
    assert!(
        conversation[1]["User"].as_str().is_some_and(|text| text.contains(SUMMARY)),
        "{:#?}",
        conversation[1]
    );
    let last = conversation.last().expect("messages");
    assert_eq!(last["Assistant"]["text"], "All rooms are empty.");
    assert!(!conversation.iter().any(|message| message.to_string().contains("Room 1: ")), "only its summary");
    home.posse(&["verify", &second]).exits(0);
}

#[test]
fn the_result_that_no_context_holds_is_named() {
    let home = Home::new();
    home.write("long.txt", &"a line of a long file that nobody can hold\n".repeat(2_000));
    home.write_own(
        "script.yaml",
        "facts: {context_tokens: 14000, max_output_tokens: 1000}\nrules:\n- when: {turn: 1}\n  reply: {tool_calls: \
         [{name: read, input: {path: long.txt}}]}\n- reply: {text: read}\n",
    );
    let result = home.posse(&[&RUN[..], &["read it"]].concat()).exits(1).result();
    let error = result.to_string();
    assert!(error.contains("CONTEXT_OVERFLOW") && error.contains("prompt is too long: "), "{error}");
    let named = "even the newest turn does not fit into the model's context: the result of `read` (call call_1_1) has ";
    assert!(error.contains(named), "{error}");
}
