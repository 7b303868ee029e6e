//! Calls over real connections.

mod echo;
mod secure;
mod server;

use std::sync::Mutex;
use std::time::Duration;

use posse_agent::conversation::Message;
use posse_engine::ports::ModelReply;
use serde_json::json;

use self::server::{AfterReply, Server, answer, chunked};
use super::*;
use crate::Proxy;
use crate::endpoint::{Limits, ToolCalls};
use crate::wire::fixture;

const SECRET: &str = "sk-test-0123456789abcdef";
const FACTS: ModelFacts = ModelFacts { context_tokens: 100_000, max_output_tokens: 4096, price: None };
/// Longer than any call here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn stream(format: &str, name: &str) -> Vec<u8> {
    let path = format!("{}/tests/streams/{format}/{name}.sse", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(path).expect("a stream")
}

fn endpoint(format: Format, base_url: &str) -> Endpoint {
    Endpoint {
        provider: "vendor".to_owned(),
        format,
        base_url: base_url.to_owned(),
        key: Some(Key::new(SECRET, "VENDOR_API_KEY")),
        limits: Limits::default(),
        tools: ToolCalls::Native,
    }
}

#[derive(Default)]
struct ShownParts(Mutex<Vec<StreamPart>>);

impl StreamSink for ShownParts {
    fn part(&self, part: StreamPart) {
        self.0.lock().unwrap().push(part);
    }
}

impl ShownParts {
    fn text(&self) -> String {
        let parts = self.0.lock().unwrap();
        let text = parts.iter().filter_map(|part| match part {
            StreamPart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        text.collect()
    }
}

fn go() -> ModelRequest {
    fixture::request(vec![Message::User("Go.".into())])
}

async fn call(model: &dyn Model) -> Result<ModelReply, ModelFailure> {
    let call = model.call(go(), Arc::new(ShownParts::default()));
    tokio::time::timeout(PATIENCE, call).await.expect("an end")
}

async fn call_at(format: Format, base_url: &str) -> Result<ModelReply, ModelFailure> {
    call(&*remote(&endpoint(format, base_url), "some-model", FACTS, &Http::new())).await
}

async fn failure(server: &Server) -> ModelFailure {
    call_at(Format::Chat, &server.base_url).await.expect_err("a failure")
}

#[test]
fn a_header_that_cannot_be_sent_is_told_and_not_left_out() {
    let endpoint = endpoint(Format::Chat, "https://h.example/v1");
    let queue = ProviderQueue::new("vendor".into(), endpoint.limits);
    let model = Remote::new(&endpoint, "some-model", FACTS, &Http::new(), queue, &TextModels::default());
    let sent = model.shared.headers(&[("x-version", "1".to_owned())]).expect("headers");
    assert_eq!(sent["x-version"], "1");
    let problem = model.shared.headers(&[("x-version", "1\n2".to_owned())]).expect_err("a line break");
    assert!(problem.message.contains("header `x-version`"), "{}", problem.message);
}

#[tokio::test]
async fn an_answer_is_shown_as_it_comes_and_given_whole() {
    let server = Server::start(|_| {
        (chunked("text/event-stream", &stream("anthropic", "one_tool"), 7), AfterReply::Stay)
    })
    .await;
    let model = remote(&endpoint(Format::Anthropic, &server.base_url), "claude-x", FACTS, &Http::new());
    let shown = Arc::new(ShownParts::default());
    let reply = model.call(go(), shown.clone()).await.expect("a reply");
    assert_eq!(&*reply.reply.text.to_shared(), "I'll read the file.");
    assert_eq!(reply.reply.calls[0].input, json!({ "path": "src/main.rs", "limit": 20 }));
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (412, 89));
    assert_eq!(shown.text(), "I'll read the file.");
    assert!(shown.0.lock().unwrap().contains(&StreamPart::Tool("read".into())));
    let head = server.heads().remove(0);
    assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("x-api-key: {SECRET}\r\n")), "{head}");
    assert!(head.contains("anthropic-version: 2023-06-01\r\n"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
}

#[tokio::test]
async fn keys_of_other_formats_are_bearers() {
    let server =
        Server::start(|_| (answer("text/event-stream", &stream("chat", "text")), AfterReply::Stay)).await;
    let reply = call_at(Format::Chat, &format!("{}/v1/", server.base_url)).await.expect("a reply");
    assert_eq!(&*reply.reply.text.to_shared(), "Hello, wörld 🙂!\n");
    let head = server.heads().remove(0);
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: Bearer {SECRET}\r\n")), "{head}");
}

#[tokio::test]
async fn a_version_in_the_base_url_is_not_said_twice() {
    let server =
        Server::start(|_| (answer("text/event-stream", &stream("anthropic", "text")), AfterReply::Stay))
            .await;
    call_at(Format::Anthropic, &format!("{}/v1", server.base_url)).await.expect("a reply");
    assert!(server.heads()[0].starts_with("POST /v1/messages "));
}

#[tokio::test]
async fn connections_are_kept_and_shared_by_models() {
    let server =
        Server::start(|_| (chunked("text/event-stream", &stream("chat", "text"), 1000), AfterReply::Stay))
            .await;
    let http = Http::new();
    for model in ["one", "two", "three", "four"] {
        let model = remote(&endpoint(Format::Chat, &server.base_url), model, FACTS, &http);
        call(&*model).await.expect("a reply");
        // The end of the answer is read in the background.
        server.quiet().await;
    }
    assert_eq!((server.heads().len(), server.connections()), (4, 1));
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood_whatever_it_calls_its_answer() {
    let body = br#" {"choices":[{"message":{"content":"Hello"},"finish_reason":"stop"}]}"#;
    let server = Server::start(|_| (answer("text/event-stream", body), AfterReply::Stay)).await;
    let reply = call_at(Format::Chat, &server.base_url).await.expect("a reply");
    assert_eq!(&*reply.reply.text.to_shared(), "Hello");
    assert!(reply.usage.input_tokens > 50 && reply.usage.output_tokens == 2, "estimated: {:?}", reply.usage);
}

#[tokio::test]
async fn a_web_page_is_no_answer() {
    let server =
        Server::start(|_| (answer("text/html", b"\n<!doctype html><title>Log in"), AfterReply::Stay)).await;
    let failure = failure(&server).await;
    assert_eq!(failure.error.message, "vendor: it answered with a web page; is the base URL right?");
    assert_eq!((failure.error.code, failure.usage), (Code::ModelError, Some(Usage::ZERO)));
    assert_eq!(failure.retry, None);
}

#[tokio::test]
async fn redirects_are_told_and_not_followed() {
    let other =
        Server::start(|_| (answer("text/event-stream", &stream("chat", "text")), AfterReply::Stay)).await;
    let to = other.base_url.clone();
    let server = Server::start(move |_| {
        (
            format!("HTTP/1.1 307 Moved\r\nlocation: {to}/v2\r\ncontent-length: 0\r\n\r\n").into_bytes(),
            AfterReply::Stay,
        )
    });
    let message = failure(&server.await).await.error.message;
    assert!(message.contains(&format!("points to {}/v2", other.base_url)), "{message}");
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_bad_key_is_named_by_where_it_came_from_and_never_shown() {
    let body = json!({ "error": { "message": format!("Incorrect API key provided: {SECRET}. Check it.") } })
        .to_string();
    let echo = format!("HTTP/1.1 401 No\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let server = Server::start(move |_| (echo.clone().into_bytes(), AfterReply::Stay)).await;
    let failure = failure(&server).await;
    let expected =
        "vendor does not accept the key from VENDOR_API_KEY: Incorrect API key provided: [key]. Check it.";
    assert_eq!(failure.error.message, expected);
    assert_eq!((failure.error.code, failure.error.status), (Code::Unauthenticated, Some(401)));
    assert_eq!(failure.retry, None);
}

#[tokio::test]
async fn a_key_that_is_echoed_in_part_or_in_a_stream_is_not_shown_either() {
    let long = format!("{}{SECRET}", "x".repeat(590));
    let body = format!("data: {}\n\n", json!({ "error": { "message": long, "type": "server_error" } }));
    let server =
        Server::start(move |_| (answer("text/event-stream", body.as_bytes()), AfterReply::Stay)).await;
    let message = failure(&server).await.error.message;
    assert!(!message.contains(&SECRET[..6]), "{message}");
    assert!(message.ends_with("[key]…"), "{message}");
}

#[tokio::test]
async fn a_key_that_is_echoed_in_a_reply_is_not_in_it() {
    let arguments = json!({ "header": format!("Bearer {SECRET}") }).to_string();
    let call = json!({ "id": "a", "function": { "name": "read", "arguments": arguments } });
    let message = json!({ "content": format!("You sent {SECRET}."), "tool_calls": [call] });
    let body = json!({ "choices": [{ "message": message, "finish_reason": "tool_calls" }] }).to_string();
    let server =
        Server::start(move |_| (answer("application/json", body.as_bytes()), AfterReply::Stay)).await;
    let reply = call_at(Format::Chat, &server.base_url).await.expect("a reply").reply;
    assert_eq!(&*reply.text.to_shared(), "You sent [key].");
    assert_eq!(reply.calls[0].input, json!({ "header": "Bearer [key]" }));
}

#[tokio::test]
async fn a_key_that_no_header_takes_is_told() {
    let mut endpoint = endpoint(Format::Chat, "http://127.0.0.1:9");
    endpoint.key = Some(Key::new("sk-two\nlines-of-it", "VENDOR_API_KEY"));
    let failure = call(&*remote(&endpoint, "m", FACTS, &Http::new())).await.expect_err("a failure");
    assert_eq!(failure.error.code, Code::Unauthenticated);
    assert!(failure.error.message.contains("VENDOR_API_KEY: it has characters"), "{}", failure.error.message);
}

#[tokio::test]
async fn what_a_broken_answer_costs_is_unknown() {
    let whole = stream("anthropic", "parallel_tools");
    for bytes in [whole.len() / 2, whole.len() - 1] {
        let part = chunked("text/event-stream", &whole[..bytes], 100);
        // Without the last chunk: the connection breaks in the middle.
        let part = part[..part.len() - b"0\r\n\r\n".len()].to_vec();
        let server = Server::start(move |_| (part.clone(), AfterReply::Close)).await;
        let failure = call_at(Format::Anthropic, &server.base_url).await.expect_err("a failure");
        assert_eq!((failure.error.code, failure.usage), (Code::ModelError, None));
        assert!(failure.error.message.contains("broke"), "{}", failure.error.message);
        assert!(failure.retry.is_some(), "worth another call");
    }
    let server = Server::start(|_| (Vec::new(), AfterReply::Close)).await;
    let failure = failure(&server).await;
    assert_eq!(failure.usage, None);
    assert!(
        failure.error.message.contains("closed the connection without an answer"),
        "{}",
        failure.error.message
    );
}

#[tokio::test]
async fn a_stream_that_ends_well_in_the_middle_is_cut_too() {
    let whole = stream("anthropic", "one_tool");
    let part = answer("text/event-stream", &whole[..whole.len() - 60]);
    let server = Server::start(move |_| (part.clone(), AfterReply::Stay)).await;
    let failure = call_at(Format::Anthropic, &server.base_url).await.expect_err("a failure");
    assert_eq!(
        (failure.error.message.as_str(), failure.usage),
        ("vendor: the answer ended before its end", None)
    );
}

#[tokio::test]
async fn dropping_a_call_closes_its_connection() {
    let part = chunked("text/event-stream", &stream("chat", "text")[..400], 400);
    let part = part[..part.len() - b"0\r\n\r\n".len()].to_vec();
    let server = Server::start(move |_| (part.clone(), AfterReply::Wait)).await;
    let model = remote(&endpoint(Format::Chat, &server.base_url), "m", FACTS, &Http::new());
    let shown = Arc::new(ShownParts::default());
    let call = model.call(go(), shown.clone());
    tokio::select! {
        _ = call => panic!("it never ends"),
        () = server.written() => {}
    }
    tokio::time::timeout(PATIENCE, server.closed()).await.expect("the server sees the end");
}

#[tokio::test]
async fn nobody_there_and_no_url_are_told() {
    // A port without a listener: it was just released.
    let port = Server::free_port().await;
    let failure = call_at(Format::Chat, &format!("http://127.0.0.1:{port}/v1")).await.expect_err("a failure");
    let expected =
        format!("vendor: 127.0.0.1:{port} cannot be reached: connection refused; is the server running?");
    assert_eq!(failure.error.message, expected);
    assert_eq!(failure.retry, None, "no server starts because a client waits");
    for bad in ["", "localhost:11434", "ftp://host", "http:"] {
        let failure = call_at(Format::Chat, bad).await.expect_err("a failure");
        let expected = format!("vendor: invalid base URL `{bad}`");
        assert!(failure.error.message.starts_with(&expected), "{}", failure.error.message);
        assert_eq!(failure.retry, None);
    }
}

#[tokio::test]
async fn a_refused_request_is_told_with_its_status() {
    for (status, said, told) in [
        (400, r#"{"error":{"message":"too hot"}}"#, "refused the request (400): too hot"),
        (404, r#"{"error":{"message":"nope"}}"#, "refused the request (404): nope; is the base URL right?"),
        (404, "<html>", "it answered 404 with a web page; is the base URL right?"),
    ] {
        let head = format!("HTTP/1.1 {status} No\r\ncontent-length: {}\r\n\r\n{said}", said.len());
        let server = Server::start(move |_| (head.clone().into_bytes(), AfterReply::Stay)).await;
        let message = failure(&server).await.error.message.clone();
        assert!(message.starts_with("vendor") && message.ends_with(told), "{message}");
    }
}

#[tokio::test]
async fn a_reply_that_was_cut_off_says_so_and_a_refusal_is_a_failure_that_cost() {
    let server =
        Server::start(|_| (answer("text/event-stream", &stream("chat", "length")), AfterReply::Stay)).await;
    let reply = call_at(Format::Chat, &server.base_url).await.expect("a reply");
    assert!(reply.cut_off);
    assert_eq!(&*reply.reply.text.to_shared(), "Writing the file now.");
    assert_eq!(reply.reply.calls.len(), 1);
    let server =
        Server::start(|_| (answer("text/event-stream", &stream("anthropic", "refusal")), AfterReply::Stay))
            .await;
    let failure = call_at(Format::Anthropic, &server.base_url).await.expect_err("a failure");
    assert_eq!(failure.error.message, "vendor/some-model refused to answer: This request was declined.");
    assert_eq!((failure.usage.map(|usage| usage.tokens()), failure.retry), (Some(37), None));
}

#[tokio::test]
async fn an_error_without_end_is_read_to_a_limit() {
    let head = b"HTTP/1.1 500 Oops\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let piece = format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(4);
    let endless = [head, piece.into_bytes()].concat();
    let server = Server::start(move |_| (endless.clone(), AfterReply::Wait)).await;
    let failure = failure(&server).await;
    assert_eq!(failure.error.status, Some(500));
    assert!(failure.error.message.chars().count() < 700, "{}", failure.error.message);
}

#[tokio::test(start_paused = true)]
async fn an_error_whose_text_never_comes_is_told_by_its_head() {
    let head = b"HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 100\r\n\r\n".to_vec();
    let server = Server::start(move |_| (head.clone(), AfterReply::Wait)).await;
    let failure = failure(&server).await;
    assert_eq!(failure.error.status, Some(429));
    assert!(failure.retry.is_some_and(|retry| retry.limited && retry.after >= Duration::from_secs(7)));
}

#[tokio::test]
async fn a_proxy_is_asked_in_place_of_the_server_unless_excepted() {
    let proxy =
        Server::start(|_| (answer("text/event-stream", &stream("chat", "text")), AfterReply::Stay)).await;
    let settings = Proxy { url: proxy.base_url.clone(), except: Some("127.0.0.1".to_owned()) };
    let http = Http::through(&settings).expect("a proxy");
    let through = remote(&endpoint(Format::Chat, "http://vendor.test/v1"), "m", FACTS, &http);
    call(&*through).await.expect("a reply");
    assert!(
        proxy.heads()[0].starts_with("POST http://vendor.test/v1/chat/completions "),
        "{:?}",
        proxy.heads()
    );
    let server =
        Server::start(|_| (answer("text/event-stream", &stream("chat", "text")), AfterReply::Stay)).await;
    call(&*remote(&endpoint(Format::Chat, &server.base_url), "m", FACTS, &http)).await.expect("a reply");
    assert_eq!((proxy.heads().len(), server.heads().len()), (1, 1));
    let bad = Proxy { url: "::".to_owned(), except: None };
    assert!(Http::through(&bad).err().is_some_and(|error| error.contains("the proxy `::` cannot be used")));
}
