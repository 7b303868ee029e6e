//! Whole runs over HTTP, with children, in every format; and one whose process is killed in the middle of a stream.

use std::sync::atomic::{AtomicBool, Ordering};

use posse_testkit::mock::{Answer, FaultMoment, FaultType, MockReply, MockRequest, Tokens};
use serde_json::{Value, json};

use crate::models_world::{MODELS, World, of_agent, of_kind, tokens};
use crate::support::run_of;

const REQUEST: &str = "Find out about both parts.";

/// A root that starts two children; each reads a file and reports its content.
fn family(asked: &MockRequest) -> Answer {
    let task = |part: &str| json!({"subagent_type": "explore", "description": part, "prompt": format!("Look at {part}.")});
    let say = match (asked.first_text().contains(REQUEST), asked.turn()) {
        (true, 1) => MockReply::text("I split this.").call("task", &task("one")).call("task", &task("two")),
        (true, _) => {
            let told: Vec<String> = asked.results().into_iter().map(|result| result.text).collect();
            MockReply::text(format!("Both: {}", told.join("\n")))
        }
        (false, 1) => MockReply::text("I look.").call("read", &json!({"path": "hello.txt"})),
        (false, _) => MockReply::text(format!("It says: {}", asked.results()[0].text)),
    };
    say.tokens(Tokens { cached: 50, ..Tokens::new(100, 20) }).into()
}

#[test]
fn a_run_with_children_goes_over_http_in_every_format() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", family);
        let result = world.run(&["--json", REQUEST]).exits(0).result();
        assert_eq!((&result["status"], &result["agents"]), (&json!("completed"), &json!(3)), "{result}");
        let text = result["text"].as_str().expect("a text");
        assert_eq!(text.matches("hello from the file").count(), 2, "{wire_format:?}: {text}");

        let log = world.mock.requests();
        assert_eq!(log.len(), 6, "{wire_format:?}: two turns of each agent, and nothing twice");
        assert!(log.iter().all(|logged| logged.wire_format == Some(wire_format) && logged.status == 200));
        // A child's connection is reused for the next call.
        assert!(world.mock.stats().connections <= 4, "{wire_format:?}: {:?}", world.mock.stats());
        let usage = &result["usage"];
        assert_eq!(
            (&usage["input_tokens"], &usage["output_tokens"]),
            (&json!(600), &json!(120)),
            "{wire_format:?}"
        );
        let journal = world.journal();
        let replies = of_kind(&journal, "agent.model_replied");
        assert!(
            replies.iter().all(|reply| reply["detail"]["usage"]["cached_tokens"] == 50),
            "{wire_format:?}"
        );
        assert!(world.home.posse(&["verify", &run_of(&result)]).exits(0).stderr.is_empty());
    }
}

#[test]
fn a_stream_that_a_kill_cut_is_asked_for_again_and_both_calls_are_counted() {
    for (wire_format, model) in MODELS {
        let first = AtomicBool::new(true);
        let world = World::new(model, "", move |asked: &MockRequest| {
            let answer = family(asked);
            let report = !asked.first_text().contains(REQUEST) && asked.turn() == 2;
            if report && first.swap(false, Ordering::Relaxed) {
                return answer.fault(FaultMoment::Event(3), FaultType::Stall);
            }
            answer
        });
        let mut going = world.start(&["--json", REQUEST]);
        let run = run_of(&going.until_event("", "agent.model_called"));
        // The other child has ended durably; a reply that is not in the journal yet would be requested again too.
        going.until(|event| event["kind"] == "agent.subagent_closed");
        world.wait(|log| log.len() == 5 && log.iter().all(|logged| logged.status == 200));
        let stuck =
            world.mock.requests().iter().find(|logged| logged.ended.is_none()).map(|logged| logged.number);
        going.kill();
        world.wait(|log| log.iter().all(|logged| logged.ended.is_some()));

        let result = world.home.posse(&["resume", "--json", &run]).exits(0).result();
        assert_eq!(
            (&result["status"], &result["agents"]),
            (&json!("completed"), &json!(3)),
            "{wire_format:?}"
        );
        let log = world.mock.requests();
        assert_eq!(log.len(), 7, "{wire_format:?}: the call that was cut, again, and the root's second turn");
        let cut = &log[usize::try_from(stuck.expect("one is stuck")).expect("small") - 1];
        assert_eq!(cut.json(), log[5].json(), "{wire_format:?}: the same request");

        let journal = world.journal();
        let (called, replied) =
            (of_kind(&journal, "agent.model_called"), of_kind(&journal, "agent.model_replied"));
        assert_eq!(
            (called.len(), replied.len()),
            (7, 7),
            "{wire_format:?}: every request has its two events"
        );
        let again =
            called.iter().find(|event| event["detail"]["call"] == 2).expect("a call that was made again");
        let agent = again["agent_id"].as_str().and_then(|id| id.get(8..)).expect("an agent");
        let (called, replied) = (
            of_agent(&journal, agent, "agent.model_called"),
            of_agent(&journal, agent, "agent.model_replied"),
        );
        let (reserved, cut) = (&called[1]["detail"]["reserved"], &replied[1]["detail"]);
        assert_eq!((&called[1]["detail"]["turn"], &called[2]["detail"]["turn"]), (&json!(2), &json!(2)));
        assert_eq!(cut["estimated"], true, "{wire_format:?}: {cut}");
        assert_eq!(tokens(&cut["usage"]), tokens(reserved), "{wire_format:?}: all that was set aside");
        let counted: u64 = of_kind(&journal, "agent.model_replied")
            .iter()
            .map(|event| tokens(&event["detail"]["usage"]))
            .sum();
        let cut_off = result["usage"]["cut_off_tokens_at_most"].as_u64().expect("a number");
        assert_eq!(cut_off, tokens(reserved), "{wire_format:?}: known apart from what was answered");
        assert_eq!(tokens(&result["usage"]) + cut_off, counted, "{wire_format:?}: nothing is left out");
        assert!(counted >= 6 * 120 + tokens(reserved), "{wire_format:?}");
        world.home.posse(&["verify", &run]).exits(0);
    }
}

#[test]
fn a_stream_that_breaks_is_asked_for_again_and_says_so_in_the_journal() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", move |asked: &MockRequest| {
            let answer = Answer::from(MockReply::text("I look.").call("read", &json!({"path": "hello.txt"})));
            match asked.number {
                // The call is complete except for its end: none of it may be run.
                1 => answer.fault(FaultMoment::Event(6), FaultType::Close),
                2 => answer,
                _ => Answer::text("done"),
            }
        });
        let result = world.run(&["--json", "read it"]).exits(0).result();
        assert_eq!(result["text"], "done", "{wire_format:?}");
        let journal = world.journal();
        let replied = of_kind(&journal, "agent.model_replied");
        assert_eq!(replied.len(), 3, "{wire_format:?}");
        let cut = &replied[0]["detail"];
        assert_eq!(
            (&cut["error"]["again"], &cut["estimated"]),
            (&json!(true), &json!(true)),
            "{wire_format:?}: {cut}"
        );
        assert_eq!(
            cut.get("reply").unwrap_or(&Value::Null),
            &Value::Null,
            "{wire_format:?}: no part of a reply"
        );
        assert_eq!(
            of_kind(&journal, "agent.tool_finished").len(),
            1,
            "{wire_format:?}: the file is read once"
        );
    }
}
