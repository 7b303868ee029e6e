//! Tool calls in plain text: which text is a call, mistakes that are repaired, and what only looks like a call.

use std::sync::{Arc, Mutex};

use posse_agent::conversation::Message;
use reqwest::header::HeaderMap;
use serde_json::json;

use super::*;
use crate::endpoint::{Format, Limits};
use crate::wire::chat::Chat;
use crate::wire::sample::{assistant, body, read, request, result, shown_text, target, user};

const MODEL: &str = "openai/gpt-test";

fn text_tools(form: Form) -> TextTools<Chat> {
    TextTools { wire: Chat::at("http://localhost/v1", "x"), form }
}

/// A stream of Chat Completions with this text in pieces of `size` characters.
fn stream(text: &str, size: usize, finish: &str) -> Vec<u8> {
    let chars: Vec<char> = text.chars().collect();
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        format!("data: {}\n\n", json!({"id": "c", "object": "chat.completion.chunk", "choices": [choice]}))
    };
    let pieces = chars.chunks(size).map(|piece| piece.iter().collect::<String>());
    let mut stream: String = pieces.map(|piece| chunk(json!({ "content": piece }), Value::Null)).collect();
    stream.push_str(&chunk(json!({}), json!(finish)));
    stream.push_str("data: [DONE]\n\n");
    stream.into_bytes()
}

fn said_in(form: Form, text: &str, size: usize, finish: &str) -> (Answer, Vec<StreamPart>) {
    let stream = stream(text, size, finish);
    let (answer, shown) = read(&text_tools(form), &request(vec![user("x")]), &stream);
    (answer.expect("an answer"), shown)
}

/// Text and calls of a model's text, however it is streamed.
fn said(text: &str) -> (String, Vec<(String, String, Value)>) {
    let [first, rest @ ..] = [1, 3, 7, 10_000].map(|size| {
        let (answer, _) = said_in(Form::Fenced, text, size, "stop");
        let calls = answer.reply.calls.into_iter().map(|call| (call.id, call.name, call.input));
        (answer.reply.text.to_shared().to_string(), calls.collect::<Vec<_>>())
    });
    assert!(rest.iter().all(|other| *other == first), "{text}");
    first
}

fn calls(text: &str) -> Vec<(String, Value)> {
    said(text).1.into_iter().map(|(_, name, input)| (name, input)).collect()
}

fn path(path: &str) -> (String, Value) {
    ("read".to_owned(), json!({ "path": path }))
}

#[test]
fn a_marked_block_is_a_call_and_the_text_around_it_is_kept() {
    let (text, calls) = said(
        "I look at both.\n```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```\n\
         ```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"b\"}}\n```\nThen I decide.",
    );
    assert_eq!(text, "I look at both.\nThen I decide.");
    let ids: Vec<&str> = calls.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["text_3_1", "text_3_2"], "by turn and place");
    assert_eq!(calls[0].2, json!({"path": "a"}));
    assert_eq!(calls[1].2, json!({"path": "b"}));
}

#[test]
fn a_call_is_not_shown_as_text() {
    let text = "Look `here`:\n  ```tool_call\n{\"name\": \"read\", \"arguments\": {}}\n```\nand `there`.\n";
    for size in [1, 2, 5, 1_000] {
        let (_, shown) = said_in(Form::Fenced, text, size, "stop");
        assert_eq!(shown_text(&shown), "Look `here`:\nand `there`.\n", "{size}");
        assert!(shown.contains(&StreamPart::Tool("read".into())), "{size}");
    }
    let (_, shown) = said_in(Form::Fenced, "Hi there", 1, "stop");
    assert_eq!(
        shown.iter().filter(|part| matches!(part, StreamPart::Text(_))).count(),
        8,
        "text is not held back"
    );
}

#[test]
fn what_is_only_quoted_is_never_a_call() {
    let call = "{\"name\": \"bash\", \"arguments\": {\"command\": \"rm -rf .\"}}";
    for text in [
        format!("```json\n{call}\n```"),
        format!("```\n{call}\n```"),
        call.to_owned(),
        format!("Write `{call}`."),
        format!("A call looks like ```tool_call {call}``` here."),
        format!("````markdown\n```tool_call\n{call}\n```\n````"),
        format!("```markdown\n```tool_call\n{call}\n```\n"),
        format!("~~~\n<tool_call>\n{call}\n</tool_call>\n~~~"),
        format!("    ```tool_call\n    {call}\n    ```"),
        format!("> ```tool_call\n> {call}\n> ```"),
        format!("~~~tool_call\n{call}\n~~~"),
        format!("```tool_call_example\n{call}\n```"),
        format!("Say <tool_call>{call}</tool_call>."),
    ] {
        assert_eq!(said(&text), (text.clone(), Vec::new()));
    }
}

#[test]
fn the_mistakes_that_models_make_do_not_matter() {
    for text in [
        "```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\",},}\n```",
        "```tool_call\n{\"name\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"a\\\"}\"}\n```",
        "```tool_call\n{\"tool\": \"read\", \"input\": {\"path\": \"a\"}}\n```",
        "```tool_call\n{\"name\": \"read\", \"path\": \"a\"}\n```",
        "```tool_call\n{\"type\": \"function\", \"function\": {\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}}\n```",
        "```tool_call\n{\"function\": \"read\", \"parameters\": {\"path\": \"a\"}}\n```",
        "```tool_call {\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}```",
        "```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}```\n",
        "```tool_call\n[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]\n```",
        // Nothing closes the block.
        "```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}",
        "```tool_call\n{\"name\": \"read\",\n \"arguments\": {\"path\": \"a\"}}\n",
        "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>",
        "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>",
        "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}",
    ] {
        assert_eq!(calls(text), [path("a")], "{text}");
    }
    let two = "```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n\
               {\"name\": \"read\", \"arguments\": {\"path\": \"b\"}}\n```";
    assert_eq!(calls(two), [path("a"), path("b")]);
    let lines = "```tool_call\n{\"name\": \"write\", \"arguments\": {\"content\": \"one\n\ttwo, }\"}}\n```";
    assert_eq!(calls(lines), [("write".to_owned(), json!({"content": "one\n\ttwo, }"}))]);
}

#[test]
fn what_is_no_json_is_a_call_with_text_as_input() {
    for (text, name) in [
        ("```tool_call\n{'name': 'read'}\n```", "unknown"),
        ("```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \n```", "read"),
        ("```tool_call\nread a\n```", "unknown"),
        ("```tool_call\n{\"arguments\": {}}\n```", "unknown"),
        ("```tool_call\n{\"name\": \"read\", \"arguments\": \"a\"}\n```", "read"),
        ("```tool_call\n42\n```", "unknown"),
    ] {
        let [(found, Value::String(_))] = &calls(text)[..] else { panic!("{text}: {:?}", calls(text)) };
        assert_eq!(found, name, "{text}");
    }
    assert_eq!(calls("```tool_call\n```"), []);
}

#[test]
fn a_call_that_was_being_written_when_the_output_ended_is_none() {
    let whole = "Now.\n```tool_call\n{\"name\": \"write\", \"arguments\": {\"content\": \"half\"}}\n```";
    for (at, _) in whole.char_indices() {
        let (answer, _) = said_in(Form::Fenced, &whole[..=at], 4, "length");
        assert_eq!(answer.stop, StopReason::Length);
        for call in &answer.reply.calls {
            assert_eq!(call.input, json!({"content": "half"}), "{at}");
        }
        assert!(!answer.reply.text.to_shared().contains("half"), "{at}");
    }
}

#[test]
fn tools_and_results_are_told_in_text() {
    let conversation = vec![
        user("Look."),
        assistant(
            "Looking.",
            &[("text_1_1", "read", json!({"path": "a"})), ("text_1_2", "read", json!("{\"pa"))],
        ),
        Message::Results(vec![
            result("text_1_1", "read", true, "content"),
            result("text_1_2", "read", false, "bad"),
        ]),
        user("Hurry."),
    ];
    let sent = body(&text_tools(Form::Fenced), &target(), &request(conversation.clone()));
    assert!(sent.get("tools").is_none() && sent.get("response_format").is_none());
    let system = sent["messages"][0]["content"].as_str().unwrap();
    assert!(system.starts_with("You are careful.\n# Tools\n"), "{system}");
    assert!(
        system.ends_with(
            "\n- `read`: Reads a file. `{\"properties\":{\"path\":{\"type\":\"string\"}},\"required\":[\"path\"],\
             \"type\":\"object\"}`\n"
        ),
        "{system}"
    );
    assert_eq!(
        sent["messages"][2]["content"],
        "Looking.\n```tool_call\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```\n```tool_call\n{\"pa\n```"
    );
    assert_eq!(
        sent["messages"][3],
        json!({
            "role": "user",
            "content": "Result of call 1, `read`:\n\ncontent\n\nFailure of call 2, `read`:\n\nbad\n\nHurry.",
        })
    );
    assert_eq!(sent["messages"].as_array().unwrap().len(), 4, "user and assistant take turns");

    let sent = body(&text_tools(Form::Schema), &target(), &request(conversation));
    assert_eq!(
        sent["messages"][2]["content"].as_str().unwrap().split(",\"calls\"").next(),
        Some("{\"text\":\"Looking.\"")
    );
    let schema = &sent["response_format"]["json_schema"]["schema"];
    assert_eq!(schema["required"], json!(["text", "calls"]));
    let call = &schema["properties"]["calls"]["items"]["anyOf"][0];
    assert_eq!(call["properties"]["name"]["enum"], json!(["read"]));
    assert_eq!(call["properties"]["arguments"]["required"], json!(["path"]));
}

#[test]
fn a_report_is_plain_text() {
    let mut report = request(vec![user("Report.")]);
    report.tools = Arc::new([]);
    for form in [Form::Fenced, Form::Schema] {
        let sent = body(&text_tools(form), &target(), &report);
        assert_eq!(sent["messages"][0]["content"], "You are careful.");
        assert!(sent.get("response_format").is_none());
    }
}

#[test]
fn an_answer_that_is_held_to_a_schema_has_text_and_calls() {
    let answer = r#"{"text": "Looking.", "calls": [{"name": "read", "arguments": {"path": "a"}}]}"#;
    for size in [1, 1_000] {
        let (answer, shown) = said_in(Form::Schema, answer, size, "stop");
        assert_eq!(&*answer.reply.text.to_shared(), "Looking.");
        assert_eq!(answer.reply.calls[0].input, json!({"path": "a"}));
        assert_eq!(answer.reply.calls[0].id, "text_3_1");
        assert!(shown.iter().all(|part| *part == StreamPart::Alive), "JSON is not shown: {shown:?}");
    }
    let (answer, _) = said_in(Form::Schema, r#"{"text": "Done.", "calls": []}"#, 9, "stop");
    assert_eq!((&*answer.reply.text.to_shared(), answer.reply.calls.len()), ("Done.", 0));
    // A result in JSON is a different object, and a server may not enforce the schema.
    let other = r#"{"text": "a", "calls": [], "more": 1}"#;
    let (answer, _) = said_in(Form::Schema, other, 9, "stop");
    assert_eq!((&*answer.reply.text.to_shared(), answer.reply.calls.len()), (other, 0));
    let fenced = "```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```";
    assert_eq!(said_in(Form::Schema, fenced, 9, "stop").0.reply.calls.len(), 1);
}

fn endpoint(tools: ToolCalls) -> Endpoint {
    Endpoint {
        provider: "openai".into(),
        format: Format::Chat,
        base_url: "http://localhost/v1".into(),
        key: None,
        limits: Limits::default(),
        tools,
    }
}

fn refuse(wire: &dyn Wire, status: u16, message: &str) -> ProblemKind {
    let body = json!({"error": {"message": message, "type": "api_error"}}).to_string();
    let (headers, now) = (HeaderMap::new(), std::time::SystemTime::UNIX_EPOCH);
    wire.refusal(&ErrorResponse { status, headers: &headers, body: body.as_bytes(), now }).kind
}

#[test]
fn a_probe_asks_natively_until_the_provider_says_that_there_are_no_tools() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    let known = TextModels::new([], move |name| hears.lock().unwrap().push(name.to_owned()));
    let chat = || Box::new(Chat::at("http://localhost/v1", "x"));
    let wire = with_tools(chat(), &endpoint(ToolCalls::Probe), MODEL, &known);
    let request = request(vec![user("x")]);
    assert!(body(&wire, &target(), &request).get("tools").is_some());

    assert_eq!(refuse(&wire, 400, "registry.ollama.ai/library/gemma:2b is too long"), ProblemKind::Request);
    assert!(body(&wire, &target(), &request).get("tools").is_some(), "another problem changes nothing");
    let native_reader = wire.reader(&target(), &request);

    for _ in 0..2 {
        let kind = refuse(&wire, 400, "registry.ollama.ai/library/gemma:2b does not support tools");
        assert_eq!(kind, ProblemKind::NoTools);
    }
    assert!(body(&wire, &target(), &request).get("tools").is_none());
    assert_eq!(*told.lock().unwrap(), [MODEL], "told once");
    assert_eq!(known.remembered(), [MODEL]);
    drop(native_reader);

    // The next process remembers the model, and other models are not affected.
    let known = TextModels::new(known.remembered(), |_| {});
    let wire = with_tools(chat(), &endpoint(ToolCalls::Probe), MODEL, &known);
    assert!(body(&wire, &target(), &request).get("tools").is_none());
    let other = with_tools(chat(), &endpoint(ToolCalls::Probe), "openai/other", &known);
    assert!(body(&other, &target(), &request).get("tools").is_some());
    let native = with_tools(chat(), &endpoint(ToolCalls::Native), MODEL, &known);
    assert_eq!(refuse(&native, 400, "x does not support tools"), ProblemKind::Request, "as the person said");
    assert!(body(&native, &target(), &request).get("tools").is_some());
}

#[test]
fn many_servers_say_that_there_are_no_tools() {
    for (status, message) in [
        (400, "registry.ollama.ai/library/tinyllama:latest does not support tools"),
        (404, "No endpoints found that support tool use. To learn more, see the documentation."),
        (400, "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"),
        (500, "tools param requires --jinja flag"),
        (400, "Function calling is not enabled for this model"),
    ] {
        let wire = with_tools(
            Box::new(Chat::at("http://localhost/v1", "x")),
            &endpoint(ToolCalls::Probe),
            MODEL,
            &TextModels::default(),
        );
        assert_eq!(refuse(&wire, status, message), ProblemKind::NoTools, "{message}");
    }
}

#[test]
fn a_native_call_is_not_lost_when_the_model_became_known_meanwhile() {
    let call =
        json!({"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let stream = format!("data: {delta}\n\ndata: {end}\n\ndata: [DONE]\n\n");
    let (answer, _) = read(&text_tools(Form::Fenced), &request(vec![user("x")]), stream.as_bytes());
    let calls = answer.expect("an answer").reply.calls;
    assert_eq!((calls.len(), calls[0].id.as_str()), (1, "c1"));
}
