//! The Messages format: requests as they are written, and recorded streams as they are read.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use posse_agent::conversation::Message;
use posse_domain::event::Purpose;
use posse_domain::message::{Image, MediaType, RawReply};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::wire::fixture::{self, assistant, request, result, target};
use crate::wire::{Answer, ModelFeatures, StopReason, StreamEvent};

const MODEL: &str = "anthropic/claude-sonnet-4-5";

fn body(messages: Vec<Message>) -> Value {
    fixture::body(&Anthropic, &target(MODEL), &request(messages))
}

#[test]
fn recorded_streams_are_read_as_expected() {
    fixture::streams_are_read_as_expected("anthropic", &Anthropic, &target(MODEL));
}

#[test]
fn a_stream_cut_at_any_byte_is_never_read_in_part() {
    fixture::cut_streams_are_never_read_in_part("anthropic", &Anthropic, &target(MODEL));
}

#[test]
fn however_the_bytes_come_the_answer_is_the_same() {
    fixture::chunks_do_not_matter("anthropic", &Anthropic, &target(MODEL));
}

#[test]
fn a_key_that_a_server_echoes_in_any_field_is_taken_out() {
    fixture::a_key_in_any_field_is_taken_out("anthropic", &Anthropic, &target(MODEL));
}

#[test]
fn a_first_request_has_the_tools_the_system_prompt_and_the_prompt() {
    let sent = Anthropic.request(&target(MODEL), &request(vec![Message::User("Go.".into())]));
    assert_eq!(sent.path, "/v1/messages");
    assert_eq!(sent.headers, [("anthropic-version", "2023-06-01".to_owned())]);
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let cached = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "claude-sonnet-4-5",
        "stream": true,
        "tools": [
            { "name": "read", "description": "To read.", "input_schema": schema },
            { "name": "write", "description": "To write.", "input_schema": schema, "cache_control": cached },
        ],
        "system": [{ "type": "text", "text": "Be brief.", "cache_control": cached }],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "Go.", "cache_control": cached }] },
        ],
        "max_tokens": 1024,
    });
    assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), expected);
}

fn conversation() -> Vec<Message> {
    vec![
        Message::User("Go.".into()),
        Message::User(" ".into()),
        Message::User("Now.".into()),
        assistant("", &[("toolu_1", "read", json!({ "path": "a" })), ("call_1~2", "read", json!("{oops"))]),
        Message::Results(vec![result("toolu_1", true, "A"), result("call_1~2", false, "no JSON")]),
        Message::User("Hurry.".into()),
    ]
}

#[test]
fn roles_take_turns_and_what_is_empty_is_left_out() {
    let messages = body(conversation())["messages"].take();
    let cached = json!({ "type": "ephemeral" });
    let expected = json!([
        { "role": "user", "content": [
            { "type": "text", "text": "Go." },
            { "type": "text", "text": "Now.", "cache_control": cached },
        ] },
        { "role": "assistant", "content": [
            { "type": "tool_use", "id": "toolu_1", "name": "read", "input": { "path": "a" } },
            { "type": "tool_use", "id": "call_1_2", "name": "read", "input": { "input": "{oops" } },
        ] },
        { "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": "A" }] },
            { "type": "tool_result", "tool_use_id": "call_1_2", "is_error": true,
              "content": [{ "type": "text", "text": "no JSON" }] },
            { "type": "text", "text": "Hurry.", "cache_control": cached },
        ] },
    ]);
    assert_eq!(messages, expected);
}

/// The blocks before each cache point, without the points themselves.
fn cached_prefixes(body: &Value) -> Vec<Vec<Value>> {
    let mut blocks: Vec<(Value, bool)> = Vec::new();
    let mut add = |block: &Value, role: &str| {
        let mut block = block.clone();
        let marked = block.as_object_mut().unwrap().remove("cache_control").is_some();
        blocks.push((json!([role, block]), marked));
    };
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for role in ["tools", "system"] {
        for block in all(&body[role]) {
            add(&block, role);
        }
    }
    for message in all(&body["messages"]) {
        let role = message["role"].as_str().unwrap().to_owned();
        for block in all(&message["content"]) {
            add(&block, &role);
        }
    }
    let prefix = |end: usize| blocks[..=end].iter().map(|(block, _)| block.clone()).collect();
    (0..blocks.len()).filter(|&at| blocks[at].1).map(prefix).collect()
}

#[test]
fn what_one_request_has_cached_the_next_one_asks_for() {
    let mut messages = vec![Message::User("Go.".into())];
    let mut before: Option<Vec<Vec<Value>>> = None;
    for turn in 0..6 {
        let points = cached_prefixes(&body(messages.clone()));
        assert!(points.len() <= 4, "{} points in turn {turn}", points.len());
        if let Some(before) = before {
            let written = before.last().unwrap();
            assert!(points.contains(written), "turn {turn} asks for what was written in the one before");
            assert_eq!(points[..2], before[..2], "tools and system prompt");
        }
        before = Some(points);
        let ids: Vec<String> = (0..30).map(|call| format!("toolu_{turn}_{call}")).collect();
        let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "read", json!({}))).collect();
        messages.push(assistant("Reading.", &calls));
        messages.push(Message::Results(ids.iter().map(|id| result(id, true, "text")).collect()));
    }
}

#[test]
fn a_report_turn_finds_what_the_turns_before_it_have_cached() {
    let work = request(conversation());
    let report = ModelRequest { purpose: Purpose::Report, ..request(conversation()) };
    let (work, report) = (
        fixture::body(&Anthropic, &target(MODEL), &work),
        fixture::body(&Anthropic, &target(MODEL), &report),
    );
    assert_eq!(report["tool_choice"], json!({ "type": "none" }));
    assert_eq!(cached_prefixes(&report), cached_prefixes(&work));
}

#[test]
fn equal_requests_have_equal_bytes() {
    let bytes = |messages| Anthropic.request(&target(MODEL), &request(messages)).body;
    assert_eq!(bytes(conversation()), bytes(conversation()));
}

#[test]
fn thinking_goes_back_to_its_own_model_only() {
    let content = json!([
        { "type": "thinking", "thinking": "Hm.", "signature": "abc=" },
        { "type": "tool_use", "id": "toolu_1", "name": "read", "input": {} },
    ]);
    let raw = RawReply { model: MODEL.to_owned(), content: content.clone() };
    let Message::Assistant { text, calls, .. } = assistant("", &[("toolu_1", "read", json!({}))]) else {
        unreachable!("assistant gives one")
    };
    let said = Message::Assistant { text, calls, raw: Some(Arc::new(raw)) };
    let messages =
        vec![Message::User("Go.".into()), said, Message::Results(vec![result("toolu_1", true, "A")])];
    assert_eq!(body(messages.clone())["messages"][1]["content"], content);
    let other = fixture::body(&Anthropic, &target("anthropic/claude-haiku-4-5"), &request(messages));
    assert_eq!(other["messages"][1]["content"].as_array().map(Vec::len), Some(1));
    assert_eq!(other["messages"][1]["content"][0]["type"], "tool_use");
}

#[test]
fn pictures_are_in_results_or_told_of() {
    let image = Image { media_type: MediaType::Png, base64: "iVBORw0=".into() };
    let mut shown = result("toolu_1", true, "");
    shown.images.push(image);
    let messages = vec![
        Message::User("Look.".into()),
        assistant("", &[("toolu_1", "read", json!({}))]),
        Message::Results(vec![shown]),
    ];
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "iVBORw0=" });
    let content = &body(messages.clone())["messages"][2]["content"][0]["content"];
    assert_eq!(*content, json!([{ "type": "image", "source": source }]));
    let blind = Target { abilities: ModelFeatures { images: false, sampling: true }, ..target(MODEL) };
    let content =
        &fixture::body(&Anthropic, &blind, &request(messages))["messages"][2]["content"][0]["content"];
    assert_eq!(
        *content,
        json!([{ "type": "text", "text": "[a picture (image/png) that you cannot be shown]" }])
    );
}

#[test]
fn a_report_names_the_tools_of_the_conversation_and_may_use_none() {
    let mut report = request(conversation());
    report.purpose = Purpose::Report;
    report.tools = Arc::new([]);
    let sent = fixture::body(&Anthropic, &target(MODEL), &report);
    assert_eq!(sent["tools"][0]["name"], "read");
    assert_eq!(sent["tools"].as_array().map(Vec::len), Some(1));
    assert_eq!(sent["tool_choice"], json!({ "type": "none" }));
}

#[test]
fn a_temperature_is_sent_alone_and_only_to_who_takes_one() {
    let mut warm = request(vec![Message::User("Go.".into())]);
    (warm.temperature, warm.top_p) = (Some(0.5), Some(0.9));
    let sent = fixture::body(&Anthropic, &target(MODEL), &warm);
    assert_eq!((&sent["temperature"], sent.get("top_p")), (&json!(0.5), None));
    let thinker = Target { abilities: ModelFeatures { images: true, sampling: false }, ..target(MODEL) };
    let sent = fixture::body(&Anthropic, &thinker, &warm);
    assert_eq!((sent.get("temperature"), sent.get("top_p")), (None, None));
}

#[test]
fn an_answer_that_is_no_stream_is_read_too() {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [
            { "type": "text", "text": "Reading." },
            { "type": "tool_use", "id": "toolu_1", "name": "read", "input": { "path": "a" } },
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": { "input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7 },
    });
    let mut reader = Anthropic.reader(&target(MODEL), &request(Vec::new()));
    reader.whole(answer.to_string().as_bytes(), &mut |_| {}).unwrap();
    let read = reader.finish().unwrap();
    assert_eq!(read.stop, StopReason::Done);
    assert_eq!(read.reply.calls[0].input, json!({ "path": "a" }));
    assert_eq!(
        read.usage.map(|usage| (usage.input_tokens, usage.cached_tokens, usage.output_tokens)),
        Some((15, 5, 7))
    );

    let mut reader = Anthropic.reader(&target(MODEL), &request(Vec::new()));
    let error =
        reader.whole(br#"{"type":"error","error":{"type":"api_error","message":"Oops"}}"#, &mut |_| {});
    assert_eq!(error.unwrap_err().kind, ProblemKind::Unwell { after: None });
}

fn read(events: &[Value]) -> Result<Answer, Problem> {
    let mut reader = Anthropic.reader(&target(MODEL), &request(Vec::new()));
    for event in events {
        // Without the event's name: some proxies lose it, and the data has it too.
        reader.event(StreamEvent { event: "", data: &event.to_string() }, &mut |_| {})?;
    }
    reader.finish()
}

fn opens(index: u64, id: &str) -> Value {
    let block = json!({ "type": "tool_use", "id": id, "name": "read", "input": {} });
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn writes(index: u64, json: &str) -> Value {
    let delta = json!({ "type": "input_json_delta", "partial_json": json });
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn closes(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn ends() -> [Value; 2] {
    let delta = json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 1 } });
    [delta, json!({ "type": "message_stop" })]
}

#[test]
fn blocks_may_be_written_in_turns() {
    let events = [
        vec![opens(0, "a"), opens(1, "b"), writes(1, "{\"path\":"), writes(0, "{\"path\":\"a\"")],
        vec![writes(1, "\"b\"}"), closes(1), writes(0, "}"), closes(0)],
        ends().to_vec(),
    ];
    let calls = read(&events.concat()).unwrap().reply.calls;
    let read: Vec<_> = calls.iter().map(|call| (call.id.as_str(), call.input["path"].as_str())).collect();
    assert_eq!(read, [("a", Some("a")), ("b", Some("b"))]);
}

#[test]
fn a_stream_that_makes_no_sense_is_cut() {
    let [delta, stop] = ends();
    let streams = [
        vec![opens(0, "a"), opens(0, "b")],
        vec![writes(0, "{}")],
        vec![opens(0, "a"), closes(0), writes(0, "{}")],
        vec![opens(0, "a"), delta, stop.clone()],
        vec![stop],
        vec![json!({ "type": "content_block_delta", "index": "zero" })],
        vec![json!([])],
    ];
    for stream in streams {
        assert_eq!(read(&stream).unwrap_err().kind, ProblemKind::Cut, "{stream:?}");
    }
    assert!(
        read(&[opens(0, "a"), writes(0, &"x".repeat(9 * 1024 * 1024))]).is_err(),
        "arguments have a limit"
    );
}

fn refused(status: u16, headers: &[(&'static str, &str)], kind: &str, message: &str) -> Problem {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    let body = json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string();
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
    Anthropic.refusal(&ErrorResponse { status, headers: &headers, body: body.as_bytes(), now })
}

#[test]
fn refusals_are_told_apart() {
    let kind = |status, kind, message| refused(status, &[], kind, message).kind;
    assert_eq!(kind(401, "authentication_error", "invalid x-api-key"), ProblemKind::Key);
    assert_eq!(kind(403, "permission_error", "not allowed"), ProblemKind::Key);
    assert_eq!(kind(404, "not_found_error", "model: claude-x"), ProblemKind::NoModel);
    assert_eq!(kind(413, "request_too_large", "Request exceeds the maximum size"), ProblemKind::Overflow);
    let long = "prompt is too long: 210000 tokens > 200000 maximum";
    assert_eq!(kind(400, "invalid_request_error", long), ProblemKind::Overflow);
    let both = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000";
    assert_eq!(kind(400, "invalid_request_error", both), ProblemKind::Overflow);
    assert_eq!(kind(400, "invalid_request_error", "max_tokens: too large"), ProblemKind::Request);
    assert_eq!(kind(500, "api_error", "Internal server error"), ProblemKind::Unwell { after: None });
    assert_eq!(kind(529, "overloaded_error", "Overloaded"), ProblemKind::Unwell { after: None });
    assert_eq!(kind(402, "billing_error", "No credit"), ProblemKind::Request);
}

#[test]
fn a_limit_a_minute_is_told_from_one_of_the_account() {
    let kind =
        |headers: &[(&'static str, &str)], message| refused(429, headers, "rate_limit_error", message).kind;
    let minute = kind(&[("retry-after", "4")], "This request would exceed your rate limit");
    assert_eq!(minute, ProblemKind::RateLimit { after: Some(Duration::from_secs(4)) });
    let account = kind(
        &[
            ("anthropic-ratelimit-unified-status", "rejected"),
            ("anthropic-ratelimit-unified-reset", "1800003600"),
            ("retry-after", "3500"),
        ],
        "This request would exceed your account's rate limit",
    );
    assert_eq!(account, ProblemKind::UsageLimit { after: Some(Duration::from_hours(1)) });
    let allowed = kind(&[("anthropic-ratelimit-unified-status", "allowed")], "Number of requests");
    assert_eq!(allowed, ProblemKind::RateLimit { after: None });
    assert_eq!(kind(&[], "Usage limit reached"), ProblemKind::UsageLimit { after: None });
}
