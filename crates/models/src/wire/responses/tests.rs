//! The Responses format: requests as they are written, and recorded streams as they are read.

use std::sync::Arc;
use std::time::Duration;

use posse_domain::budget::Usage;
use posse_domain::message::MediaType;
use posse_engine::ports::StreamPart;
use reqwest::header::HeaderMap;
use serde_json::json;

use super::*;
use crate::wire::fixture;
use crate::wire::sample::{assistant, body, read, request, result, shown_text, target, user};
use crate::wire::{Answer, ProblemKind, StopReason};

const STREAMS: [(&str, &[u8]); 10] = [
    ("text", include_bytes!("../../../tests/streams/responses/text.sse")),
    ("one_tool", include_bytes!("../../../tests/streams/responses/one_tool.sse")),
    ("parallel_tools", include_bytes!("../../../tests/streams/responses/parallel_tools.sse")),
    ("reasoning", include_bytes!("../../../tests/streams/responses/reasoning.sse")),
    ("refusal", include_bytes!("../../../tests/streams/responses/refusal.sse")),
    ("incomplete", include_bytes!("../../../tests/streams/responses/incomplete.sse")),
    ("content_filter", include_bytes!("../../../tests/streams/responses/content_filter.sse")),
    ("failed", include_bytes!("../../../tests/streams/responses/failed.sse")),
    ("error", include_bytes!("../../../tests/streams/responses/error.sse")),
    ("overflow", include_bytes!("../../../tests/streams/responses/overflow.sse")),
];

fn stream(name: &str) -> &'static [u8] {
    STREAMS.iter().find(|(found, _)| *found == name).expect("a stream").1
}

fn answer(name: &str) -> (Answer, Vec<StreamPart>) {
    let (answer, shown) = read(&Responses, &request(Vec::new()), stream(name));
    (answer.expect(name), shown)
}

fn calls(answer: &Answer) -> Vec<(&str, &str, String)> {
    let calls = answer.reply.calls.iter();
    calls.map(|call| (call.id.as_str(), call.name.as_str(), call.input.to_string())).collect()
}

fn used(input_tokens: u64, output_tokens: u64, cached_tokens: u64, reasoning_tokens: u64) -> Usage {
    Usage { input_tokens, output_tokens, cached_tokens, reasoning_tokens, micro_usd: None, ..Usage::ZERO }
}

#[test]
fn text_is_shown_as_it_comes_and_kept_whole() {
    let (answer, shown) = answer("text");
    let text = "The entry point is `src/main.rs` — größer 🦀.";
    assert_eq!(&*answer.reply.text.to_shared(), text);
    assert_eq!(shown_text(&shown), text);
    assert_eq!(shown.iter().filter(|part| matches!(part, StreamPart::Text(_))).count(), 7);
    assert_eq!((answer.stop, answer.usage), (StopReason::Done, Some(used(412, 11, 384, 0))));
    assert_eq!(answer.reply.raw, None, "text says it all");
}

#[test]
fn calls_are_read_in_the_order_of_the_answer_even_if_they_end_in_another() {
    let (one, shown) = answer("one_tool");
    assert_eq!(calls(&one), [("call_a1", "read", r#"{"path":"src/main.rs","limit":40}"#.to_owned())]);
    assert_eq!(one.stop, StopReason::Done);
    assert!(shown.contains(&StreamPart::Tool("read".into())));
    assert!(shown.contains(&StreamPart::Alive), "arguments are a sign of life");

    let (several, _) = answer("parallel_tools");
    assert_eq!(&*several.reply.text.to_shared(), "Looking at both.");
    assert_eq!(
        calls(&several),
        [
            ("call_b1", "grep", r#"{"pattern":"fn main"}"#.to_owned()),
            ("call_b2", "read", r#"{"path":"a \"b\".txt"}"#.to_owned()),
        ]
    );
}

#[test]
fn thinking_goes_back_intact_and_only_to_the_model_it_came_from() {
    let (answer, shown) = answer("reasoning");
    assert_eq!(answer.usage, Some(used(900, 212, 768, 170)));
    assert!(shown.contains(&StreamPart::Thinking("**Finding".into())));
    let raw = answer.reply.raw.clone().expect("raw");
    assert_eq!(raw.model, "openai/gpt-test");
    let reply = Message::Assistant {
        text: answer.reply.text.to_shared(),
        calls: answer.reply.calls.clone().into(),
        raw: Some(raw.clone()),
    };
    let request = request(vec![reply, Message::Results(vec![result("call_c1", "list", true, "a")])]);
    let sent = body(&Responses, &target(), &request);
    let kinds: Vec<_> = sent["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call_output"]);
    assert_eq!(sent["input"][0]["encrypted_content"], raw.content[0]["encrypted_content"]);
    assert_eq!(sent["input"][0]["id"], "rs_0001");
    assert!(sent["input"][0].get("status").is_none(), "what is null is left out");

    let other = Target { full_name: "openai/other".into(), ..target() };
    let sent = body(&Responses, &other, &request);
    let kinds: Vec<_> = sent["input"].as_array().unwrap().iter().map(|item| item["type"].clone()).collect();
    assert_eq!(kinds, ["message", "function_call", "function_call_output"]);
}

#[test]
fn thinking_that_is_not_given_is_not_sent_back() {
    let stream = String::from_utf8(stream("reasoning").to_vec()).unwrap();
    let without = stream.replace("\"encrypted_content\":\"gAAAA", "\"other\":\"gAAAA");
    let (answer, _) = read(&Responses, &request(Vec::new()), without.as_bytes());
    assert_eq!(answer.expect("an answer").reply.raw, None);
}

#[test]
fn a_refusal_an_answer_that_is_too_long_and_a_filtered_one_are_told_apart() {
    let (refusal, _) = answer("refusal");
    let said = "I'm sorry, but I cannot help with that.";
    assert_eq!(refusal.stop, StopReason::Refused(said.into()));
    assert_eq!(&*refusal.reply.text.to_shared(), said);

    let (cut, _) = answer("incomplete");
    assert_eq!(cut.stop, StopReason::Length);
    assert_eq!(calls(&cut), [("call_d1", "read", r#"{"path":"a"}"#.to_owned())], "half a call is none");
    assert_eq!(cut.usage, Some(used(300, 4096, 0, 0)));

    let (filtered, _) = answer("content_filter");
    assert_eq!(filtered.stop, StopReason::Refused("content_filter".into()));
    assert_eq!(&*filtered.reply.text.to_shared(), "The recipe begins");
}

#[test]
fn errors_in_a_stream_are_the_problems_they_would_be_as_a_status() {
    let problem = |name| read(&Responses, &request(Vec::new()), stream(name)).0.expect_err(name);
    let failed = problem("failed");
    assert_eq!((failed.kind, failed.usage), (ProblemKind::Unwell { after: None }, None));
    assert!(failed.message.starts_with("An error occurred while processing"), "{}", failed.message);
    let limited = problem("error");
    assert_eq!(limited.kind, ProblemKind::RateLimit { after: Some(Duration::from_millis(1400)) });
    assert_eq!(problem("overflow").kind, ProblemKind::Overflow);

    let data = r#"{"type":"error","error":{"type":"insufficient_quota","message":"You have no credit."}}"#;
    let nested = format!("event: error\ndata: {data}\n\n");
    let nested = read(&Responses, &request(Vec::new()), nested.as_bytes()).0.expect_err("an error");
    assert_eq!((nested.kind, nested.message.as_str()), (ProblemKind::Request, "You have no credit."));
}

#[test]
fn recorded_streams_are_read_as_expected() {
    fixture::streams_are_read_as_expected("responses", &Responses, &target());
}

#[test]
fn a_stream_cut_at_any_byte_is_never_read_in_part() {
    fixture::cut_streams_are_never_read_in_part("responses", &Responses, &target());
}

#[test]
fn it_does_not_matter_how_the_bytes_come() {
    fixture::chunks_do_not_matter("responses", &Responses, &target());
}

#[test]
fn a_key_that_a_server_echoes_in_any_field_is_taken_out() {
    fixture::a_key_in_any_field_is_taken_out("responses", &Responses, &target());
}

#[test]
fn nonsense_is_no_answer() {
    let begun = r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call"}}"#;
    let done = r#"{"type":"response.completed","response":{"output":[],"usage":null}}"#;
    for stream in [
        "data: <html>\n\n".to_owned(),
        "data: []\n\n".to_owned(),
        "data: [DONE]\n\n".to_owned(),
        "event: ping\ndata: {}\n\n".to_owned(),
        format!("data: {begun}\n\ndata: {done}\n\n"),
    ] {
        let (answer, _) = read(&Responses, &request(Vec::new()), stream.as_bytes());
        assert_eq!(answer.expect_err("no answer").kind, ProblemKind::Cut, "{stream}");
    }
    let (_, shown) =
        read(&Responses, &request(Vec::new()), b"event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n");
    assert_eq!(shown, [], "a ping is no sign of life");
}

#[test]
fn a_whole_answer_is_read_as_a_stream_is() {
    let stream = str::from_utf8(stream("parallel_tools")).unwrap();
    let last = stream.lines().rfind(|line| line.starts_with("data: ")).unwrap();
    let event: Value = serde_json::from_str(&last[6..]).unwrap();
    let mut reader = Responses.reader(&target(), &request(Vec::new()));
    let mut shown = Vec::new();
    reader.whole(event["response"].to_string().as_bytes(), &mut |part| shown.push(part)).expect("read");
    assert_eq!(reader.finish().expect("an answer"), answer("parallel_tools").0);
    assert_eq!(shown_text(&shown), "Looking at both.");

    for (body, kind) in [
        (r#"{"object":"list","data":[]}"#, ProblemKind::Foreign),
        ("<html>", ProblemKind::Cut),
        (
            r#"{"status":"failed","error":{"code":"server_error","message":"x"}}"#,
            ProblemKind::Unwell { after: None },
        ),
    ] {
        let mut reader = Responses.reader(&target(), &request(Vec::new()));
        assert_eq!(reader.whole(body.as_bytes(), &mut |_| {}).expect_err(body).kind, kind, "{body}");
    }
}

#[test]
fn a_request_has_all_there_is_to_say() {
    let picture = Image { media_type: MediaType::Png, base64: "aWNr".into() };
    let shown = CallResult { images: vec![picture], ..result("c1", "read", true, "a picture") };
    let request = request(vec![
        user("Look."),
        assistant("Looking.", &[("c1", "read", json!({"path": "a.png"})), ("c2", "read", json!("{\"pa"))]),
        Message::Results(vec![shown, result("c2", "read", false, "no JSON")]),
    ]);
    let sent = Responses.request(&target(), &request);
    assert_eq!((sent.path.as_str(), sent.headers.len()), ("/responses", 0));
    let expected = json!({
        "model": "gpt-test", "stream": true, "store": false, "instructions": "You are careful.",
        "tools": [{
            "type": "function", "name": "read", "description": "Reads a file.\n\n- Read it whole.", "strict": false,
            "parameters": {"type": "object", "required": ["path"], "properties": {"path": {"type": "string"}}},
        }],
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{\"path\":\"a.png\"}"},
            {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{\"pa"},
            {"type": "function_call_output", "call_id": "c1", "output": [
                {"type": "input_text", "text": "a picture"},
                {"type": "input_image", "image_url": "data:image/png;base64,aWNr", "detail": "auto"},
            ]},
            {"type": "function_call_output", "call_id": "c2", "output": "no JSON"},
        ],
        "max_output_tokens": 4096, "temperature": 0.5,
    });
    assert_eq!(body(&Responses, &target(), &request), expected);
}

#[test]
fn a_model_that_thinks_is_asked_for_its_thinking_and_not_for_a_temperature() {
    let mut thinks = target();
    thinks.abilities.sampling = false;
    let sent = body(&Responses, &thinks, &request(vec![user("x")]));
    assert_eq!(sent["include"], json!(["reasoning.encrypted_content"]));
    assert!(sent.get("temperature").is_none());
    assert!(body(&Responses, &target(), &request(vec![user("x")])).get("include").is_none());
}

#[test]
fn a_model_that_sees_nothing_is_told_of_pictures() {
    let mut blind = target();
    blind.abilities.images = false;
    let picture = Image { media_type: MediaType::Webp, base64: "aWNr".into() };
    let shown = CallResult { images: vec![picture], ..result("c1", "read", true, "a picture") };
    let sent = body(&Responses, &blind, &request(vec![Message::Results(vec![shown])]));
    let note = "[a picture (image/webp) that you cannot be shown]";
    assert_eq!(sent["input"][0]["output"][1], json!({"type": "input_text", "text": note}));
}

#[test]
fn a_conversation_that_only_grew_begins_with_the_same_bytes() {
    let short = vec![user("One."), assistant("Two.", &[])];
    let mut long = short.clone();
    long.push(user("Three."));
    let end = b"],\"max_output_tokens\"";
    let sent = |messages| Responses.request(&target(), &request(messages)).body;
    let (short, long) = (sent(short), sent(long));
    let at = short.windows(end.len()).position(|window| window == end).expect("the end of the input");
    assert_eq!(short[..at], long[..at]);
}

#[test]
fn a_refused_request_is_read_as_openai_writes_it() {
    let refuse = |status, body: &str| {
        let headers = HeaderMap::new();
        let now = std::time::SystemTime::UNIX_EPOCH;
        Responses.refusal(&ErrorResponse { status, headers: &headers, body: body.as_bytes(), now }).kind
    };
    let error = |code: &str, message: &str| json!({"error": {"code": code, "message": message}}).to_string();
    assert_eq!(refuse(401, &error("invalid_api_key", "Incorrect API key provided")), ProblemKind::Key);
    assert_eq!(
        refuse(
            404,
            &error("model_not_found", "The model `x` does not exist or you do not have access to it.")
        ),
        ProblemKind::NoModel
    );
    assert_eq!(refuse(400, &error("context_length_exceeded", "Too long.")), ProblemKind::Overflow);
    assert_eq!(refuse(503, "upstream"), ProblemKind::Unwell { after: None });
}

#[test]
fn what_the_reply_says_survives_the_way_back() {
    let (answer, _) = answer("parallel_tools");
    let calls: Arc<[ToolCall]> = answer.reply.calls.into();
    let said = Message::Assistant { text: answer.reply.text.to_shared(), calls, raw: None };
    let sent = body(&Responses, &target(), &request(vec![said]));
    assert_eq!(sent["input"][2]["arguments"], r#"{"path":"a \"b\".txt"}"#);
}
