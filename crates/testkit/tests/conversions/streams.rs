//! Answers of a hostile provider, which chooses every byte.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use posse_agent::conversation::Message;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::Purpose;
use posse_domain::hash::Hash;
use posse_engine::ports::{ModelFacts, ModelRequest, StreamPart, StreamSink};
use posse_models::{Endpoint, Format, Http, Limits, ToolCalls, remote};
use serde_json::json;

use crate::bounded::rows;

struct NoSink;

impl StreamSink for NoSink {
    fn part(&self, _: StreamPart) {}
}

fn request() -> ModelRequest {
    let tool = ToolSpec {
        name: "read".to_owned(),
        description: "Reads a file.".to_owned(),
        input_schema: json!({"type": "object"}),
    };
    ModelRequest {
        agent: "k3f9ab2c".parse().expect("an id"),
        definition: "coder".into(),
        depth: 0,
        attempt: 1,
        turn: 1,
        call: 1,
        hash: Hash::of(b"request"),
        purpose: Purpose::Work,
        system: "Be brief.".into(),
        tools: vec![Arc::new(tool)].into(),
        messages: vec![Arc::new(Message::User("hello".into()))].into_iter().collect(),
        max_output_tokens: 1_000,
        temperature: None,
        top_p: None,
        tags: Arc::default(),
    }
}

/// The outcome of an answer with these headers and this body.
fn answered(format: Format, tools: ToolCalls, headers: &str, body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let base_url = format!("http://{}", listener.local_addr().expect("an address"));
    let head =
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut asked = vec![0; 64 * 1024];
        assert!(stream.read(&mut asked).expect("a request") > 0);
        // A client that has read enough closes the connection.
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
    });
    let endpoint = Endpoint {
        provider: "mock".to_owned(),
        format,
        base_url,
        key: None,
        limits: Limits::default(),
        tools,
    };
    let facts = ModelFacts { context_tokens: 100_000, max_output_tokens: 4_096, price: None };
    let model = remote(&endpoint, "m", facts, &Http::new());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match runtime.block_on(model.call(request(), Arc::new(NoSink))) {
        Ok(reply) => {
            format!("{} bytes of text, {} calls", reply.reply.text.len_bytes(), reply.reply.calls.len())
        }
        Err(failure) => failure.error.message.clone(),
    }
}

fn chat(tools: ToolCalls, events: &[String]) -> String {
    let mut body = String::new();
    for event in events {
        write!(body, "data: {event}\n\n").expect("text");
    }
    body.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    answered(Format::Chat, tools, "", body.into_bytes())
}

/// One event of the chat format with this text.
fn saying(text: &str) -> String {
    json!({"choices": [{"delta": {"content": text}}]}).to_string()
}

/// Three hundred events that differ only in their number.
fn numbered(before: &str, after: &str) -> Vec<u8> {
    let mut body = String::new();
    for number in 0..300 {
        write!(body, "{before}{number}{after}\n\n").expect("text");
    }
    body.into_bytes()
}

fn gzip_of_zeros(bytes: usize) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(b"data: ").expect("packed");
    for _ in 0..bytes / 1_000_000 {
        packed.write_all(&vec![b'0'; 1_000_000]).expect("packed");
    }
    packed.finish().expect("packed")
}

/// The beginning of a brotli stream with a window of a gigabyte, and a first part of 16 megabytes.
fn brotli_with_a_large_window() -> Vec<u8> {
    // From the lowest bit up: the mark of a large window, its size of 30 bits, a bit for "not the last part", six
    // digits of its length, the length, not compressed.
    let bits = 0x11_u64 | 30 << 8 | 2 << 15 | 0x00ff_ffff << 17 | 1 << 41;
    let mut stream = bits.to_le_bytes()[..6].to_vec();
    stream.resize(16 * 1024 * 1024, b'0');
    stream
}

const MANY_VALUES: &str = "JSON values";

rows! {
    fences_that_may_close_a_call: || chat(
        ToolCalls::Text, &[saying(&format!("```tool_call\n{}", "x}```\n".repeat(600_000)))],
    ) => "1 calls";
    spaces_one_by_one: || chat(ToolCalls::Text, &vec![saying(" "); 200_000]) => "200000 bytes of text";
    calls_without_number: || chat(
        ToolCalls::Text, &[saying(&format!("```tool_call\n[{}1]\n```\n", "1,".repeat(3_500_000)))],
    ) => "1 calls";
    blocks_without_number: || chat(
        ToolCalls::Text, &[saying(&"<tool_call>{\"name\":\"read\"}</tool_call>\n".repeat(100_000))],
    ) => "more than 1024 calls";
    a_call_that_is_nested_deeply: || chat(
        ToolCalls::Text, &[saying(&format!("```tool_call\n{}\n```\n", "[".repeat(1_000_000)))],
    ) => "1 calls";
    small_objects_in_thinking: || {
        let details = format!("[{}{{}}]", "{\"\":0},".repeat(900_000));
        let event = format!("{{\"choices\":[{{\"delta\":{{\"content\":\"x\",\"reasoning_details\":{details}}}}}]}}");
        chat(ToolCalls::Native, &[event.clone(), event])
    } => MANY_VALUES;
    small_objects_in_thinking_bit_by_bit: || {
        let details = format!("[{}{{}}]", "{\"index\":0},{\"index\":1},".repeat(5_000));
        let event = format!("{{\"choices\":[{{\"delta\":{{\"content\":\"x\",\"reasoning_details\":{details}}}}}]}}");
        chat(ToolCalls::Native, &vec![event; 300])
    } => MANY_VALUES;
    small_objects_in_blocks: || {
        let start = r#"event: content_block_start|data: {"index":"#.replace('|', "\n");
        let block = format!(r#","content_block":{{"type":"other","parts":[{}0]}}}}"#, "{\"\":0},".repeat(10_000));
        answered(Format::Anthropic, ToolCalls::Native, "", numbered(&start, &block))
    } => MANY_VALUES;
    small_objects_in_items: || {
        let start = r#"data: {"type":"response.output_item.done","output_index":"#;
        let item = format!(r#","item":{{"parts":[{}0]}}}}"#, "{\"\":0},".repeat(10_000));
        answered(Format::Responses, ToolCalls::Native, "", numbered(start, &item))
    } => MANY_VALUES;
    a_whole_answer_of_small_lists: || {
        let body = format!("{{\"output\":[{}0]}}", "[0],".repeat(8_000_000));
        answered(Format::Responses, ToolCalls::Native, "", body.into_bytes())
    } => MANY_VALUES;
    an_answer_that_unpacks_to_much: || answered(
        Format::Chat, ToolCalls::Native, "Content-Encoding: gzip\r\n", gzip_of_zeros(600_000_000),
    ) => "longer than";
    an_answer_with_a_large_window: || answered(
        Format::Chat, ToolCalls::Native, "Content-Encoding: br\r\n", brotli_with_a_large_window(),
    ) => "in a format that is not its own";
}
