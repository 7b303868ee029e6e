//! The Chat Completions format: requests as they are written, and recorded streams as they are read.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use posse_agent::conversation::Message;
use posse_domain::message::{Image, MediaType, RawReply};
use posse_engine::ports::StreamPart;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::wire::fixture::{self, assistant, request, result, target};
use crate::wire::{Answer, ModelFeatures, ProblemKind, StopReason, StreamEvent};

const MODEL: &str = "openai/gpt-4o";

fn openai() -> Chat {
    Chat::at("https://api.openai.com/v1", "gpt-4o")
}

fn local() -> Chat {
    Chat::at("http://localhost:11434/v1", "qwen3")
}

fn body(chat: &Chat, messages: Vec<Message>) -> Value {
    fixture::body(chat, &target(MODEL), &request(messages))
}

#[test]
fn recorded_streams_are_read_as_expected() {
    fixture::streams_are_read_as_expected("chat", &openai(), &target(MODEL));
}

#[test]
fn a_stream_cut_at_any_byte_is_never_read_in_part() {
    fixture::cut_streams_are_never_read_in_part("chat", &openai(), &target(MODEL));
}

#[test]
fn however_the_bytes_come_the_answer_is_the_same() {
    fixture::chunks_do_not_matter("chat", &openai(), &target(MODEL));
}

#[test]
fn a_key_that_a_server_echoes_in_any_field_is_taken_out() {
    fixture::a_key_in_any_field_is_taken_out("chat", &openai(), &target(MODEL));
}

#[test]
fn a_first_request_has_everything_in_its_place() {
    let sent = openai().request(&target(MODEL), &request(vec![Message::User("Go.".into())]));
    assert_eq!(sent.path, "/chat/completions");
    let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
    let tool = |name: &str| json!({ "type": "function", "function": { "name": name, "description": format!("To {name}."), "parameters": schema } });
    let expected = json!({
        "model": "gpt-4o",
        "stream": true,
        "stream_options": { "include_usage": true },
        "tools": [tool("read"), tool("write")],
        "messages": [{ "role": "system", "content": "Be brief." }, { "role": "user", "content": "Go." }],
        "max_completion_tokens": 1024,
    });
    assert_eq!(serde_json::from_slice::<Value>(&sent.body).unwrap(), expected);
}

#[test]
fn servers_get_the_format_they_take() {
    let go = || vec![Message::User("Go.".into())];
    let sent = body(&local(), go());
    assert_eq!((&sent["max_tokens"], sent.get("max_completion_tokens")), (&json!(1024), None));
    let mistral = body(&Chat::at("https://api.mistral.ai/v1", "mistral-small-latest"), go());
    assert_eq!(mistral.get("stream_options"), None);
    let claude = body(&Chat::at("https://openrouter.ai/api/v1", "anthropic/claude-sonnet-4.5"), go());
    assert_eq!(claude["cache_control"], json!({ "type": "ephemeral" }));
    assert_eq!(sent.get("cache_control"), None);
    // Only the domain counts, not the look of a name or path.
    let other = body(&Chat::at("https://api.openai.com.example.org/v1", "gpt"), go());
    assert_eq!(other["max_tokens"], 1024);
}

#[test]
fn where_the_model_has_to_speak_first_it_does() {
    let mistral = Chat::at("http://localhost:8000/v1", "Devstral-Small-2");
    let roles = |chat: &Chat| -> Vec<String> {
        let sent = body(chat, conversation());
        let messages = sent["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(&mistral), ["system", "user", "assistant", "tool", "tool", "assistant", "user"]);
    assert_eq!(roles(&local()), ["system", "user", "assistant", "tool", "tool", "user"]);
}

fn conversation() -> Vec<Message> {
    vec![
        Message::User("Go.".into()),
        Message::User(" ".into()),
        Message::User("Now.".into()),
        assistant(
            "Reading.",
            &[("call_1", "read", json!({ "path": "a" })), ("call_2", "read", json!("{oops"))],
        ),
        Message::Results(vec![result("call_1", true, "A"), result("call_2", false, "no JSON")]),
        assistant("", &[]),
        Message::User("Hurry.".into()),
    ]
}

#[test]
fn a_conversation_has_its_calls_and_results() {
    let call = |id: &str, arguments: &str| json!({ "id": id, "type": "function", "function": { "name": "read", "arguments": arguments } });
    let expected = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Go.\n\nNow." },
        { "role": "assistant", "content": "Reading.",
          "tool_calls": [call("call_1", r#"{"path":"a"}"#), call("call_2", r#"{"input":"{oops"}"#)] },
        { "role": "tool", "tool_call_id": "call_1", "content": "A" },
        { "role": "tool", "tool_call_id": "call_2", "content": "no JSON" },
        { "role": "user", "content": "Hurry." },
    ]);
    assert_eq!(body(&openai(), conversation())["messages"], expected);
}

#[test]
fn a_conversation_that_grew_begins_with_the_same_bytes() {
    let bytes = |messages| openai().request(&target(MODEL), &request(messages)).body;
    let short = bytes(conversation());
    let mut longer = conversation();
    longer.push(assistant("Done.", &[]));
    longer.push(Message::User("Thanks.".into()));
    let end = short.windows(8).rposition(|window| window == b"Hurry.\"}").unwrap() + 8;
    assert!(bytes(longer).starts_with(&short[..end]));
}

#[test]
fn pictures_follow_the_results_or_are_told_of() {
    let mut shown = result("call_1", true, "a.png");
    shown.images.push(Image { media_type: MediaType::Jpeg, base64: "AAAA".into() });
    let messages = vec![
        Message::User("Look.".into()),
        assistant("", &[("call_1", "read", json!({}))]),
        Message::Results(vec![shown]),
    ];
    let sent = body(&openai(), messages.clone());
    assert_eq!(sent["messages"][2]["content"], Value::Null);
    assert_eq!(sent["messages"][3]["content"], "a.png");
    let picture = json!({ "type": "image_url", "image_url": { "url": "data:image/jpeg;base64,AAAA" } });
    assert_eq!(sent["messages"][4]["content"][1], picture);
    let blind = Target { abilities: ModelFeatures { images: false, sampling: true }, ..target(MODEL) };
    let sent = fixture::body(&openai(), &blind, &request(messages));
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(4));
    assert_eq!(sent["messages"][3]["content"], "a.png\n[a picture (image/jpeg) that you cannot be shown]");
}

fn read(chat: &Chat, events: &[Value]) -> Result<Answer, Problem> {
    let mut reader = chat.reader(&target(MODEL), &request(Vec::new()));
    for event in events {
        reader.event(StreamEvent { event: "", data: &event.to_string() }, &mut |_| {})?;
    }
    reader.finish()
}

fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

#[test]
fn thinking_goes_back_where_it_is_wanted() {
    let events = [
        chunk(&json!({ "reasoning_content": "Hm." }), None),
        chunk(
            &json!({ "tool_calls": [{ "index": 0, "id": "c1", "function": { "name": "read", "arguments": "{}" } }] }),
            None,
        ),
        chunk(&json!({}), Some("tool_calls")),
    ];
    let deepseek = Chat::at("https://api.deepseek.com", "deepseek-reasoner");
    let raw = read(&deepseek, &events).unwrap().reply.raw.unwrap();
    assert_eq!(raw.content["reasoning_content"], "Hm.");
    let said = Message::Assistant { text: "".into(), calls: Arc::new([]), raw: Some(raw.clone()) };
    let sent = body(&deepseek, vec![Message::User("Go.".into()), said.clone()]);
    assert_eq!(sent["messages"][2], raw.content);
    // Another model never receives it, and other servers have no use for it.
    let foreign = RawReply { model: "openai/other".into(), content: raw.content.clone() };
    let said = Message::Assistant { text: "Hi".into(), calls: Arc::new([]), raw: Some(Arc::new(foreign)) };
    assert_eq!(body(&deepseek, vec![said])["messages"][1], json!({ "role": "assistant", "content": "Hi" }));
    assert_eq!(read(&local(), &events).unwrap().reply.raw, None);
}

#[test]
fn pieces_of_thinking_are_put_together_for_who_wants_them_back() {
    let detail = |text: &str| json!([{ "type": "reasoning.text", "text": text, "index": 0, "format": "x" }]);
    let signed = json!([{ "type": "reasoning.text", "signature": "sig", "index": 0 }]);
    let answer = read(
        &local(),
        &[
            chunk(&json!({ "reasoning": "a", "reasoning_details": detail("a") }), None),
            chunk(&json!({ "reasoning": "b", "reasoning_details": detail("b") }), None),
            chunk(&json!({ "reasoning_details": signed }), None),
            chunk(&json!({ "content": "Yes." }), Some("stop")),
        ],
    );
    let raw = answer.unwrap().reply.raw.unwrap();
    let expected =
        json!([{ "type": "reasoning.text", "text": "ab", "index": 0, "format": "x", "signature": "sig" }]);
    assert_eq!(raw.content["reasoning_details"], expected);
}

#[test]
fn parts_are_text_and_thinking() {
    let mut shown = Vec::new();
    let mut reader = local().reader(&target(MODEL), &request(Vec::new()));
    let parts = json!([
        { "type": "thinking", "thinking": [{ "type": "text", "text": "Hm." }] },
        { "type": "text", "text": "Yes." },
        7,
    ]);
    let data = chunk(&json!({ "content": parts }), Some("stop")).to_string();
    reader.event(StreamEvent { event: "", data: &data }, &mut |part| shown.push(part)).unwrap();
    assert_eq!(shown, [StreamPart::Thinking("Hm.".into()), StreamPart::Text("Yes.".into())]);
    assert_eq!(&*reader.finish().unwrap().reply.text.to_shared(), "Yes.");
}

#[test]
fn arguments_come_as_objects_and_without_ids_too() {
    let calls = json!([
        { "function": { "name": "read", "arguments": { "path": "a" } } },
        { "function": { "name": "read", "arguments": { "path": "b" } } },
        { "function": { "name": "list", "arguments": null } },
    ]);
    let answer =
        read(&local(), &[chunk(&json!({ "content": null, "tool_calls": calls }), Some("tool_calls"))])
            .unwrap();
    let read: Vec<_> = answer.reply.calls.iter().map(|call| (call.id.as_str(), call.input.clone())).collect();
    let expected =
        [("call_1", json!({ "path": "a" })), ("call_2", json!({ "path": "b" })), ("call_3", json!({}))];
    assert_eq!(read, expected);
}

#[test]
fn arguments_that_are_no_json_stay_text() {
    let calls =
        json!([{ "index": 0, "id": "c", "function": { "name": "read", "arguments": "{\"path\": oops" } }]);
    let answer = read(&local(), &[chunk(&json!({ "tool_calls": calls }), Some("tool_calls"))]).unwrap();
    assert_eq!(answer.reply.calls[0].input, json!("{\"path\": oops"));
}

#[test]
fn arguments_without_end_are_cut() {
    let piece = "x".repeat(1024 * 1024);
    let calls = json!([{ "index": 0, "id": "c", "function": { "name": "read", "arguments": piece } }]);
    let events = vec![chunk(&json!({ "tool_calls": calls }), None); 9];
    let problem = read(&local(), &events).unwrap_err();
    assert_eq!(problem.kind, ProblemKind::Cut);
    assert!(problem.message.contains("8388608 bytes"), "{}", problem.message);
}

#[test]
fn an_answer_that_is_no_stream_is_read_too() {
    let answer = json!({
        "object": "chat.completion",
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "role": "assistant", "content": "Hello" } }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 },
    });
    let mut reader = local().reader(&target(MODEL), &request(Vec::new()));
    reader.whole(answer.to_string().as_bytes(), &mut |_| {}).unwrap();
    let answer = reader.finish().unwrap();
    assert_eq!((&*answer.reply.text.to_shared(), answer.stop), ("Hello", StopReason::Done));
    assert_eq!(answer.usage.map(|usage| usage.tokens()), Some(5));
}

fn refused(status: u16, headers: &[(&'static str, &str)], body: &str) -> Problem {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
        .collect();
    // Sat, 01 Jan 2000 00:00:00 GMT.
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(262_968);
    openai().refusal(&ErrorResponse { status, headers: &headers, body: body.as_bytes(), now })
}

fn said(status: u16, message: &str, code: &str) -> ProblemKind {
    refused(status, &[], &json!({ "error": { "message": message, "code": code } }).to_string()).kind
}

#[test]
fn a_conversation_that_is_too_long_is_known_by_many_words() {
    let spellings = [
        (400, "This model's maximum context length is 128000 tokens.", "context_length_exceeded"),
        (400, "the request exceeds the available context size, try increasing it", ""),
        (400, "Please reduce the length of the messages or completion.", ""),
        (
            400,
            "This endpoint's maximum context length is 32768 tokens. However, you requested about 40000",
            "",
        ),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", ""),
        (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", ""),
        (
            413,
            "Request too large for model `llama` on tokens per minute (TPM): Limit 6000, Requested 9000",
            "",
        ),
        (500, "context length exceeded", ""),
        (422, "Prompt is too long", ""),
    ];
    for (status, message, code) in spellings {
        assert_eq!(said(status, message, code), ProblemKind::Overflow, "{message}");
    }
}

#[test]
fn refusals_are_told_apart() {
    assert_eq!(said(401, "Incorrect API key provided: sk-***.", "invalid_api_key"), ProblemKind::Key);
    assert_eq!(said(400, "API key not valid. Please pass a valid API key.", ""), ProblemKind::Key);
    assert_eq!(said(403, "forbidden", ""), ProblemKind::Key);
    assert_eq!(said(404, "The model `gpt-9` does not exist", "model_not_found"), ProblemKind::NoModel);
    assert_eq!(said(404, "model 'qwen9' not found", ""), ProblemKind::NoModel);
    assert_eq!(said(400, "foo/bar is not a valid model ID", ""), ProblemKind::NoModel);
    assert_eq!(said(400, "Invalid type for 'messages'", ""), ProblemKind::Request);
    assert_eq!(said(402, "Insufficient Balance", ""), ProblemKind::Request);
    assert_eq!(said(429, "You exceeded your current quota", "insufficient_quota"), ProblemKind::Request);
    assert_eq!(said(429, "Slow down", ""), ProblemKind::RateLimit { after: None });
    assert_eq!(said(500, "Oops", ""), ProblemKind::Unwell { after: None });
    assert_eq!(said(503, "Oops", ""), ProblemKind::Unwell { after: None });
}

#[test]
fn pages_and_other_apis_are_told_as_such() {
    let page = refused(404, &[], "<!doctype html><html>");
    assert_eq!(page.kind, ProblemKind::Foreign);
    assert_eq!(page.message, "it answered 404 with a web page; is the base URL right?");
    assert_eq!(refused(404, &[], "404 page not found").kind, ProblemKind::Foreign);
    assert_eq!(refused(502, &[], "<html>Bad gateway").kind, ProblemKind::Unwell { after: None });
    assert_eq!(refused(500, &[], "").message, "it answered 500 without a message");
}

#[test]
fn the_time_to_come_back_is_read_in_all_its_forms() {
    let after = |headers: &[(&'static str, &str)], body: &str| match refused(429, headers, body).kind {
        ProblemKind::RateLimit { after } => after,
        other => panic!("{other:?}"),
    };
    let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    assert_eq!(after(&[("retry-after", "2")], "{}"), seconds(2.0));
    assert_eq!(after(&[("retry-after", "1.5")], "{}"), seconds(1.5));
    assert_eq!(after(&[("retry-after", "Sat, 01 Jan 2000 00:00:30 GMT")], "{}"), seconds(30.0));
    assert_eq!(after(&[("retry-after", "Fri, 31 Dec 1999 23:00:00 GMT")], "{}"), seconds(0.0));
    assert_eq!(after(&[("retry-after-ms", "250"), ("retry-after", "1")], "{}"), seconds(0.25));
    assert_eq!(after(&[("retry-after", "-3")], "{}"), None);
    assert_eq!(after(&[("retry-after", "soon")], "{}"), None);
    let text = json!({ "error": { "message": "Rate limit reached. Please try again in 1m2.5s. Visit us" } });
    assert_eq!(after(&[], &text.to_string()), seconds(62.5));
    let text = json!({ "error": { "message": "Please try again in 320ms." } });
    assert_eq!(after(&[], &text.to_string()), seconds(0.32));
    let google =
        json!([{ "error": { "message": "Slow", "details": [{ "@type": "x" }, { "retryDelay": "37.5s" }] } }]);
    assert_eq!(after(&[], &google.to_string()), seconds(37.5));
}

#[test]
fn a_limit_of_the_day_is_no_limit_a_minute() {
    let groq = json!({ "error": {
        "message": "Rate limit reached for model `x` on tokens per day (TPD): Limit 100000. Please try again in 7m12s.",
        "code": "rate_limit_exceeded" } });
    let limit = ProblemKind::UsageLimit { after: Some(Duration::from_secs(432)) };
    assert_eq!(refused(429, &[], &groq.to_string()).kind, limit);
    let openrouter =
        json!({ "error": { "code": 429, "message": "Rate limit exceeded: free-models-per-day" } });
    let kind = refused(429, &[("x-ratelimit-reset", "946688400000")], &openrouter.to_string()).kind;
    assert_eq!(kind, ProblemKind::UsageLimit { after: Some(Duration::from_hours(1)) });
}
