use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posse_agent::conversation::{CallResult, Message};
use posse_domain::message::{Image, MediaType};
use posse_engine::ports::{ModelFacts, ModelFailure, ModelReply, StreamSink};
use serde_json::json;

use super::*;
use crate::endpoint::{Format, Limits, ToolCalls};
use crate::wire::sample::{assistant, request, result, shown_text, target, user};

/// How long a test waits for a connection or for bytes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that gives one answer to every request and keeps what it was sent.
struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    fn answering(status: &'static str, headers: &'static str, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        // It ends with the process: a test has no use for its end.
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = take_request(&stream) else { continue };
                seen.lock().unwrap().push(request);
                let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n");
                let mut stream = &stream;
                drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
            }
        });
        Self { address, requests }
    }

    fn streaming(events: &[Value]) -> Self {
        let body: Vec<String> = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
        Self::answering("200 OK", "content-type: text/event-stream\r\n", body.concat().into_bytes())
    }

    fn endpoint(&self, provider: &str) -> Endpoint {
        Endpoint {
            provider: provider.into(),
            format: Format::Genai,
            base_url: format!("http://{}/v1beta", self.address),
            key: Some(Key::new("secret-key-0123456789", "TEST_KEY")),
            limits: Limits::default(),
            tools: ToolCalls::Native,
        }
    }
}

/// The head and the body of a request.
fn take_request(mut stream: &TcpStream) -> Option<(String, Value)> {
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
        if bytes.len() >= end + 4 + length {
            return Some((head, serde_json::from_slice(&bytes[end + 4..]).ok()?));
        }
    }
}

#[derive(Default)]
struct Sink(Mutex<Vec<StreamPart>>);

impl StreamSink for Sink {
    fn part(&self, part: StreamPart) {
        self.0.lock().unwrap().push(part);
    }
}

fn call(endpoint: &Endpoint, request: ModelRequest) -> (Result<ModelReply, ModelFailure>, Vec<StreamPart>) {
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 4_096, price: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let model = crate::remote(endpoint, "gemini-test", facts, &Http::new());
    let sink = Arc::new(Sink::default());
    let answer = runtime.block_on(async {
        tokio::time::timeout(PATIENCE, model.call(request, sink.clone())).await.expect("in time")
    });
    let shown = std::mem::take(&mut *sink.0.lock().unwrap());
    (answer, shown)
}

fn gemini(parts: &Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = json!(finish);
    }
    json!({
        "candidates": [candidate], "modelVersion": "gemini-test",
        "usageMetadata": {
            "promptTokenCount": 100, "candidatesTokenCount": 20, "thoughtsTokenCount": 7,
            "cachedContentTokenCount": 64, "totalTokenCount": 127,
        },
    })
}

fn answering() -> Server {
    Server::streaming(&[
        gemini(&json!([{"text": "Thinking it over.", "thought": true}]), None),
        gemini(&json!([{"text": "Looking "}]), None),
        gemini(&json!([{"text": "at it."}]), None),
        gemini(
            &json!([{"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "c2ln"}]),
            Some("STOP"),
        ),
    ])
}

#[test]
fn a_stream_of_another_vendor_is_an_answer_like_any_other() {
    let server = answering();
    let (reply, shown) = call(&server.endpoint("gemini-native"), request(vec![user("Look.")]));
    let ModelReply { reply, usage, .. } = reply.expect("a reply");
    assert_eq!(&*reply.text.to_shared(), "Looking at it.");
    assert_eq!((reply.calls[0].name.as_str(), &reply.calls[0].input), ("read", &json!({"path": "a"})));
    assert_eq!((usage.input_tokens, usage.output_tokens), (100, 27));
    assert_eq!((usage.cached_tokens, usage.reasoning_tokens), (64, 7));
    assert_eq!(shown_text(&shown), "Looking at it.");
    assert!(shown.contains(&StreamPart::Thinking("Thinking it over.".into())));
    assert!(shown.contains(&StreamPart::Tool("read".into())));

    let requests = server.requests.lock().unwrap();
    let [(head, body)] = &requests[..] else { panic!("{} requests", requests.len()) };
    assert!(head.starts_with("post /v1beta/models/gemini-test:streamgeneratecontent"), "{head}");
    assert!(head.contains("secret-key-0123456789"), "the key of the endpoint is sent");
    assert_eq!(body["contents"][0]["parts"][0]["text"], "Look.");
    assert!(body.to_string().contains("You are careful."));
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["name"], "read");
    assert_eq!(body["generationConfig"]["maxOutputTokens"], 4096);
}

#[test]
fn what_a_vendor_wants_back_goes_back_with_results_and_pictures() {
    let server = answering();
    let endpoint = server.endpoint("gemini-native");
    let first = call(&endpoint, request(vec![user("Look.")])).0.expect("a reply").reply;
    let raw = first.raw.clone().expect("the signature is kept");
    assert_eq!(raw.model, "gemini-native/gemini-test");
    let id = first.calls[0].id.clone();
    let picture = Image { media_type: MediaType::Png, base64: "aWNr".into() };
    let seen = CallResult { images: vec![picture], ..result(&id, "read", true, "a picture") };
    let conversation = vec![
        user("Look."),
        Message::Assistant { text: first.text.to_shared(), calls: first.calls.into(), raw: first.raw },
        Message::Results(vec![seen]),
    ];
    call(&endpoint, request(conversation)).0.expect("a reply");
    let requests = server.requests.lock().unwrap();
    let contents = requests[1].1["contents"].to_string();
    assert!(contents.contains(r#""thoughtSignature":"c2ln""#), "{contents}");
    assert!(contents.contains("functionResponse") && contents.contains("a picture"), "{contents}");
    assert!(contents.contains("aWNr"), "{contents}");
}

#[test]
fn a_stream_that_breaks_off_is_no_answer() {
    let events = [gemini(&json!([{"functionCall": {"name": "read", "args": {"path": "a"}}}]), None)];
    for events in [&events[..], &[]] {
        let server = Server::streaming(events);
        let failure = call(&server.endpoint("gemini-native"), request(vec![user("x")])).0.expect_err("cut");
        assert!(
            failure.error.message.contains("ended before the answer was complete"),
            "{:?}",
            failure.error
        );
        assert!(failure.retry.is_some() && failure.usage.is_none());
        assert_eq!(server.requests.lock().unwrap().len(), 1, "it does not try again by itself");
    }
}

#[test]
fn refusals_are_told_by_their_status() {
    let failure = |status, headers, body: Value| {
        let server = Server::answering(status, headers, body.to_string().into_bytes());
        let failure =
            call(&server.endpoint("gemini-native"), request(vec![user("x")])).0.expect_err("refused");
        assert_eq!(server.requests.lock().unwrap().len(), 1, "it does not try again by itself");
        failure
    };
    let json = "content-type: application/json\r\n";
    let error =
        |code: u16, message: &str| json!({"error": {"code": code, "message": message, "status": "X"}});

    let limited = failure(
        "429 Too Many Requests",
        "content-type: application/json\r\nretry-after: 7\r\n",
        error(429, "slow"),
    );
    assert_eq!(limited.error.status, Some(429));
    let retry = limited.retry.expect("later");
    assert!(retry.limited && retry.after >= Duration::from_secs(7), "{retry:?}");

    let key = failure("400 Bad Request", json, error(400, "API key not valid: secret-key-0123456789"));
    assert!(key.retry.is_none());
    assert!(key.error.message.contains("TEST_KEY"), "{}", key.error.message);
    assert!(!key.error.message.contains("secret-key"), "{}", key.error.message);

    let gone = failure("404 Not Found", json, error(404, "models/x is not found for API version v1beta"));
    assert!(gone.error.message.contains("has no model `gemini-test`"), "{}", gone.error.message);
    let unwell = failure("503 Service Unavailable", json, error(503, "overloaded"));
    assert!(unwell.retry.is_some());
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let mut endpoint = answering().endpoint("gemini-native");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    endpoint.base_url = format!("http://{free}/v1beta");
    let failure = call(&endpoint, request(vec![user("x")])).0.expect_err("nobody there");
    assert!(failure.retry.is_some());
    assert_eq!(failure.usage, Some(Usage::ZERO));
    assert!(!failure.error.message.contains("secret"), "{}", failure.error.message);
}

#[test]
fn without_a_key_or_a_known_vendor_nothing_is_sent() {
    let server = answering();
    let endpoint = Endpoint { key: None, ..server.endpoint("gemini-native") };
    let failure = call(&endpoint, request(vec![user("x")])).0.expect_err("no key");
    assert!(failure.error.message.contains("wants a key"), "{}", failure.error.message);
    let failure = call(&server.endpoint("nobody"), request(vec![user("x")])).0.expect_err("no vendor");
    assert!(failure.error.message.contains("no vendor `nobody`"), "{}", failure.error.message);
    assert!(server.requests.lock().unwrap().is_empty());
}

#[test]
fn a_vendor_whose_tools_are_not_known_is_told_of_them_in_text() {
    let said = "Now.\n```tool_call\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```";
    let mut events = vec![json!({"is_finished": false, "event_type": "stream-start"})];
    for piece in said.split_inclusive(' ') {
        events.push(json!({"is_finished": false, "event_type": "text-generation", "text": piece}));
    }
    let tokens = json!({"meta": {"tokens": {"input_tokens": 10, "output_tokens": 5}}});
    events.push(json!({"is_finished": true, "event_type": "stream-end", "finish_reason": "COMPLETE", "response": tokens}));
    let body: Vec<String> = events.iter().map(|event| format!("{event}\n")).collect();
    let server =
        Server::answering("200 OK", "content-type: application/stream+json\r\n", body.concat().into_bytes());
    let conversation = vec![
        user("Look."),
        assistant("", &[("text_1_1", "read", json!({"path": "b"}))]),
        Message::Results(vec![result("text_1_1", "read", true, "content of b")]),
    ];
    let (reply, shown) = call(&server.endpoint("cohere"), request(conversation));
    let reply = reply.expect("a reply").reply;
    assert_eq!(&*reply.text.to_shared(), "Now.");
    assert_eq!((reply.calls[0].id.as_str(), &reply.calls[0].input), ("text_3_1", &json!({"path": "a"})));
    assert_eq!(shown_text(&shown), "Now.\n");
    let requests = server.requests.lock().unwrap();
    let sent = requests[0].1.to_string();
    assert!(sent.contains("```tool_call") && sent.contains("content of b"), "{sent}");
}

#[test]
fn arguments_that_are_no_json_stay_text() {
    let chunk = |text: &str| {
        ChatStreamEvent::ToolCallChunk(genai::chat::ToolChunk {
            tool_call: GenaiCall {
                call_id: "c1".into(),
                fn_name: "write".into(),
                fn_arguments: json!(text),
                thought_signatures: None,
            },
        })
    };
    let end = |reason: genai::chat::StopReason| StreamEnd {
        captured_stop_reason: Some(reason),
        captured_content: Some(MessageContent::from_tool_calls(vec![GenaiCall {
            call_id: "c1".into(),
            fn_name: "write".into(),
            // What one of the adapters makes of arguments that it cannot read.
            fn_arguments: json!({}),
            thought_signatures: None,
        }])),
        ..StreamEnd::default()
    };
    let mut streamed = StreamProgress::default();
    let mut shown = Vec::new();
    for text in ["{\"path\": ", "{\"path\": \"half"] {
        assert!(streamed.take(chunk(text), &mut |part| shown.push(part)).is_none());
    }
    assert_eq!(shown, [StreamPart::Tool("write".into()), StreamPart::Alive]);
    let done =
        streamed.answer(&target(), end(genai::chat::StopReason::ToolCall("tool_use".into()))).expect("done");
    assert_eq!(done.reply.calls[0].input, json!("{\"path\": \"half"));
    let cut = streamed
        .answer(&target(), end(genai::chat::StopReason::MaxTokens("max_tokens".into())))
        .expect("cut");
    assert_eq!((cut.stop, cut.reply.calls.len()), (StopReason::Length, 0));
}
