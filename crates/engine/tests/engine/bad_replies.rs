//! Invalid replies of a model are answered and counted, and are never run in part.

use posse_domain::event::EventBody;
use posse_models::scripted::{ScriptedAnswer, ScriptedCall};
use serde_json::json;

use crate::world::{World, background, child, newest};

fn text(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text)
}

/// The root gives this reply on its first turn and reports on its second.
fn replying(reply: impl Fn() -> ScriptedAnswer + Send + Sync + 'static) -> World {
    World::new(move |request| match (request.depth, request.turn) {
        (0, 1) => reply(),
        _ => text("done"),
    })
}

fn named(id: &str, name: &str, input: serde_json::Value) -> ScriptedCall {
    ScriptedCall { id: Some(id.to_owned()), ..ScriptedCall::new(name, input) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_tool_is_answered_with_the_ones_there_are() {
    let world = replying(|| text("").call("teleport", json!({})).call("probe", json!({})));
    let ended = world.run(world.spec()).await;
    let results = ended.results("0");
    assert!(results.iter().any(|(tool, ok, said)| {
        tool == "teleport" && !ok && said.starts_with("UNKNOWN_TOOL: ") && said.contains("probe, put, read")
    }));
    assert_eq!(world.outside.count("probe"), 1, "the good call of the same reply runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_are_no_json_object_are_answered_and_not_run() {
    for raw in [r#"{"path": "#, "", "\"quoted\"", "[1, 2]", "null", "7"] {
        let world = replying(move || text("").calls([ScriptedCall::raw("strike", raw.to_owned())]));
        let ended = world.run(world.spec()).await;
        let (ok, said) = ended.result("0");
        assert!(!ok && said.starts_with("INVALID_INPUT: "), "{raw}: {said}");
        assert_eq!(world.outside.count("strike"), 0, "{raw}");
        assert_eq!(
            ended.run.ledger.own(&ended.run.id.root()).expect("figures").tool_calls,
            1,
            "it is counted"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_id_given_twice_is_answered_and_not_run() {
    // The last call has the repeated id: if the first is answered at once, the turn is over at once.
    for (tool, input) in [
        ("todo", json!({"items": [{"text": "a", "status": "pending"}]})),
        ("strike", json!({})),
        ("task", child("scout", "x")),
        ("task", background("scout", "x")),
        ("task", child("nobody", "x")),
        ("teleport", json!({})),
    ] {
        let given = input.clone();
        let world = replying(move || {
            text("").calls([named("a", tool, given.clone()), named("a", tool, given.clone())])
        });
        let ended = world.run(world.spec()).await;
        let twice: Vec<_> =
            ended.results("0").into_iter().filter(|(_, _, said)| said.contains("has the same id")).collect();
        assert_eq!(ended.results("0").len(), 2, "{tool} {input}");
        assert_eq!(twice.len(), 1, "{tool} {input}");
        assert!(world.outside.count("strike") <= 1, "{tool}");
        assert!(ended.run.agent_count() <= 2, "{tool} {input}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_may_repeat_from_turn_to_turn() {
    let world = World::new(|request| match request.turn {
        1..=3 => text("").calls([named("same", "probe", json!({"turn": request.turn}))]),
        _ => text("done"),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.results("0").len(), 3);
    assert_eq!(world.outside.count("probe"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_reply_is_answered_with_a_nudge() {
    let world = World::new(|request| match request.turn {
        1 => text("  "),
        _ => text(&newest(request)),
    });
    let ended = world.run(world.spec()).await;
    assert!(ended.text().contains("Your last reply was empty."), "{}", ended.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_only_gives_empty_replies_fails_after_its_turns() {
    let world = World::new(|_| text(""));
    let mut spec = world.spec();
    spec.terms.base_turns = Some(3);
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "failed");
    assert!(ended.text().contains("the report turn gave no text"), "{}", ended.text());
    assert_eq!(world.asked_by("0").len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_of_arguments_is_taken_whole_or_refused_whole() {
    let big = "x".repeat(1024 * 1024);
    let world = replying(move || {
        text("")
            .call("strike", json!({"pad": big}))
            .call("task", child("scout", &big))
            .call("todo", json!({"items": [{"text": big, "status": "pending"}]}))
            .calls([ScriptedCall::raw("probe", format!("{{\"pad\": \"{big}"))])
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "completed");
    let results = ended.results("0");
    assert_eq!(results.len(), 4);
    for (tool, ok, said) in &results {
        assert!(said.len() < 300_000, "{tool}: an output is cut");
        assert_eq!(*ok, tool == "strike", "{tool}: {}", said.chars().take(200).collect::<String>());
    }
    assert_eq!(world.outside.count("strike"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_on_the_report_turn_are_answered_and_not_run() {
    let world = World::new(|_| text("My report.").call("strike", json!({})));
    let mut spec = world.spec();
    spec.terms.base_turns = Some(1);
    let ended = world.run(spec).await;
    assert_eq!(ended.status(), "failed", "a reply that still calls tools is not a report");
    assert!(ended.text().contains("called tools"), "{}", ended.text());
    let (ok, said) = ended.result("0");
    assert!(!ok && said.contains("report turn"), "{said}");
    assert_eq!(world.outside.count("strike"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_call_failing_again_and_again_ends_the_attempt() {
    let world = World::new(|_| text("").call("boom", json!({"b": 1, "a": 2})));
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.status(), "failed");
    assert!(ended.text().contains("`boom` failed 3 times in a row"), "{}", ended.text());
    assert_eq!(world.outside.count("boom"), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_of_many_calls_is_one_turn_and_stored_once() {
    const WIDTH: usize = 3_000;
    let world = replying(|| {
        text("").calls((0..WIDTH).map(|n| {
            ScriptedCall::new("todo", json!({"items": [{"text": n.to_string(), "status": "pending"}]}))
        }))
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.results("0").len(), WIDTH);
    let replies =
        ended.events.iter().filter(|event| matches!(event.body, EventBody::ModelReplied(_))).count();
    assert_eq!(replies, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_calls_with_one_id_do_not_take_for_ever() {
    const WIDTH: usize = 20_000;
    let world = replying(|| text("").calls((0..WIDTH).map(|_| named("same", "todo", json!({"items": []})))));
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.results("0").len(), WIDTH);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_was_cut_off_is_no_report() {
    let world = World::new(|request| match request.turn {
        1 => ScriptedAnswer::text("I will now write the fi").cut_off(),
        2 => ScriptedAnswer::text("").call("probe", json!({})),
        _ => ScriptedAnswer::text("done"),
    });
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.text(), "done");
    assert!(newest(&world.asked_by("0")[1]).contains("cut off"), "it is told");
    // With no turn left, the truncated text is the report.
    let world = World::new(|_| ScriptedAnswer::text("So far I kn").cut_off());
    let mut spec = world.spec();
    spec.terms.base_turns = Some(2);
    let ended = world.run(spec).await;
    assert!(ended.text().starts_with("So far I kn\n\n[The report was cut off"), "{}", ended.text());
    assert_eq!(world.asked_by("0").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_only_gives_empty_or_cut_replies_is_not_asked_for_ever() {
    for reply in [|| text(""), || text("I will now").cut_off(), || text("").cut_off()] {
        let world = World::new(move |_| reply());
        let ended = world.run(world.spec()).await;
        assert_eq!(ended.text(), "SUBAGENT_ERROR: 3 replies in a row were empty or cut off");
        assert_eq!(world.asked_by("0").len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_reply_that_was_cut_off_are_made_and_the_model_is_told() {
    let world = replying(|| text("").call("probe", json!({})).cut_off());
    let ended = world.run(world.spec()).await;
    assert_eq!(ended.text(), "done");
    assert_eq!(ended.results("0").len(), 1);
    assert!(newest(&world.asked_by("0")[1]).contains("cut off"), "it is told");
}
