//! A server that echoes the key over real connections, in any field and any encoding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use serde_json::Value;

use super::*;

fn chunk(delta: &Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] }))
}

/// A stream of Chat Completions with these pieces.
fn streamed(deltas: &[Value]) -> Vec<u8> {
    let pieces: String = deltas.iter().map(|delta| chunk(delta, None)).collect();
    let end = chunk(&json!({}), Some(if pieces.contains("tool_calls") { "tool_calls" } else { "stop" }));
    answer("text/event-stream", format!("{pieces}{end}data: [DONE]\n\n").as_bytes())
}

fn tool_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({ "tool_calls": [{ "index": 0, "id": id, "function": { "name": name, "arguments": arguments } }] })
}

fn refused(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn error(message: &str) -> String {
    json!({ "error": { "message": message, "type": "server_error", "code": message } }).to_string()
}

/// Answers of a server, by the field in which they echo the key.
fn echoes() -> Vec<(&'static str, Vec<u8>)> {
    let (first, second) = SECRET.split_at(11);
    let urlencoded = SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat();
    let escaped = SECRET.bytes().map(|byte| format!("\\u{byte:04x}")).collect::<Vec<_>>().concat();
    let in_base64 = STANDARD.encode(format!("Bearer {SECRET}"));
    let finished = chunk(&json!({ "content": "x" }), Some(SECRET)) + "data: [DONE]\n\n";
    let in_stream = format!("{}data: {}\n\n", chunk(&json!({ "content": "x" }), None), error(SECRET));
    let named = json!({ "id": SECRET, "model": SECRET, "system_fingerprint": SECRET, "choices": [{ "message":
        { "content": "x", "refusal": SECRET }, "finish_reason": "stop" }], "usage": { "prompt_tokens": SECRET } });
    vec![
        ("tool name", streamed(&[tool_call("a", SECRET, "{}")])),
        ("call id", streamed(&[tool_call(SECRET, "read", "{}")])),
        ("argument", streamed(&[tool_call("a", "read", &json!({ "path": SECRET }).to_string())])),
        ("key of an argument", streamed(&[tool_call("a", "read", &json!({ SECRET: [1] }).to_string())])),
        ("arguments that are no JSON", streamed(&[tool_call("a", "read", SECRET)])),
        (
            "escaped arguments that are no JSON",
            streamed(&[tool_call("a", "read", &format!("{{\"{escaped}"))]),
        ),
        ("text", streamed(&[json!({ "content": format!("You sent {SECRET}.") })])),
        ("two pieces", streamed(&[json!({ "content": first }), json!({ "content": second })])),
        ("thinking", streamed(&[json!({ "reasoning_content": SECRET }), json!({ "content": "x" })])),
        (
            "thinking in two pieces",
            streamed(&[json!({ "reasoning": first }), json!({ "reasoning": second })]),
        ),
        ("refusal", streamed(&[json!({ "refusal": format!("No: {SECRET}") })])),
        ("text, in base64", streamed(&[json!({ "content": in_base64 })])),
        ("text, as in a URL", streamed(&[json!({ "content": urlencoded })])),
        ("reason to stop", answer("text/event-stream", finished.as_bytes())),
        ("error within a stream", answer("text/event-stream", in_stream.as_bytes())),
        ("names and counts of a whole answer", answer("application/json", named.to_string().as_bytes())),
        ("error", refused("500 Oops", "", &error(SECRET))),
        ("error that is no JSON", refused("502 Bad", "", &format!("<p>upstream {SECRET}</p>"))),
        ("error in base64", refused("400 Bad", "", &error(&format!("header {in_base64}")))),
        ("error as in a URL", refused("404 None", "", &error(&format!("?key={urlencoded}")))),
        (
            "header",
            refused("429 Slow", &format!("retry-after: {SECRET}\r\nx-request-id: {SECRET}\r\n"), "{}"),
        ),
        ("redirect", refused("307 Moved", &format!("location: https://h.example/?k={SECRET}\r\n"), "")),
        ("reason of a status", refused(&format!("418 {SECRET}"), "", "")),
        ("another format", answer("text/plain", format!("zzz {SECRET}").as_bytes())),
    ]
}

#[tokio::test]
async fn a_key_that_is_echoed_in_any_field_is_in_no_reply_error_or_piece() {
    let lowest =
        |text: &str| STANDARD.encode(text).trim_end_matches('=').get(4..20).unwrap_or_default().to_owned();
    for (name, response) in echoes() {
        let server = Server::start(move |_| (response.clone(), AfterReply::Close)).await;
        let model = remote(&endpoint(Format::Chat, &server.base_url), "m", FACTS, &Http::new());
        let shown = Arc::new(ShownParts::default());
        let result = tokio::time::timeout(PATIENCE, model.call(go(), shown.clone())).await.expect("an end");
        let parts = shown.0.lock().unwrap();
        // Concatenated, as a user sees them.
        let pieces = parts.iter().map(|part| format!("{part:?}")).collect::<Vec<_>>().concat();
        let text: String = parts
            .iter()
            .filter_map(|part| match part {
                StreamPart::Text(text) | StreamPart::Thinking(text) => Some(text.as_str()),
                StreamPart::Tool(_) | StreamPart::Alive => None,
            })
            .collect();
        let all = format!("{result:?} {pieces} {text}");
        for form in [SECRET, &lowest(&format!("Bearer {SECRET}")), "%2d%30%31", "u0030", "0123456789"] {
            assert!(!all.contains(form), "{name}: {form} is in {all}");
        }
    }
}
