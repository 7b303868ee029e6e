//! A model without tool calls, like small local ones.

use posse_testkit::mock::{Answer, MockRequest};
use serde_json::json;

use crate::models_world::{MODELS, World, of_kind};

/// Refuses tools, and calls them in text.
fn plain(asked: &MockRequest) -> Answer {
    if !asked.tools().is_empty() {
        return Answer::refuse(400, "mock-large does not support tools");
    }
    let call = json!({"name": "read", "arguments": {"path": "hello.txt"}});
    match asked.turn() {
        1 => Answer::text(format!("I look.\n\n```tool_call\n{call}\n```\n")),
        _ => Answer::text(format!("It says: {}", asked.last_text())),
    }
}

#[test]
fn a_model_that_takes_no_tools_calls_them_in_text() {
    let (_, model) = MODELS[2];
    let world = World::new(model, "", plain);
    let result = world.run(&["--json", "read it"]).exits(0).result();
    let text = result["text"].as_str().expect("a text");
    assert!(text.contains("hello from the file"), "{text}");
    let journal = world.journal();
    assert_eq!(of_kind(&journal, "agent.tool_finished").len(), 1, "the call in the text was made");
    let replied = of_kind(&journal, "agent.model_replied");
    assert_eq!(replied[0]["detail"]["error"]["again"], true, "the refusal of tools is a failed call");
    assert_eq!(replied[0]["detail"]["usage"]["output_tokens"], 0, "which cost nothing");
    let refused = |world: &World| world.mock.requests().iter().filter(|logged| logged.status == 400).count();
    assert_eq!((refused(&world), world.mock.requests().len()), (1, 3), "it is tried once");
}
