//! The server as a client sees it, byte by byte.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;

/// Longer than any test here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn connect(mock: &Mock) -> TcpStream {
    let stream = TcpStream::connect(mock.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn request(path: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!("POST {path} HTTP/1.1\r\nhost: mock\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn ask(wire_format: WireFormat, stream: bool) -> Vec<u8> {
    let entries = if wire_format == WireFormat::Responses { "input" } else { "messages" };
    let mut body = json!({"model": "m", "stream": stream, entries: [{"role": "user", "content": "hello"}]});
    body["stream_options"] = json!({"include_usage": true});
    request(wire_format.path(), &body)
}

/// One answer from the stream: status, head and body.
fn answer(stream: &mut TcpStream) -> (u16, String, Vec<u8>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = Vec::new();
    if let Some(length) = head.lines().find_map(|line| line.strip_prefix("content-length: ")) {
        body.resize(length.parse().unwrap(), 0);
        stream.read_exact(&mut body).expect("a body");
        return (status, head, body);
    }
    loop {
        let size = usize::from_str_radix(&line(stream), 16).expect("a size");
        let mut piece = vec![0; size];
        stream.read_exact(&mut piece).expect("a chunk");
        assert_eq!(line(stream), "");
        if size == 0 {
            return (status, head, body);
        }
        body.extend(piece);
    }
}

fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap().trim_end().to_owned()
}

/// Everything until the server closes.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("the server closes");
    all
}

fn events(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

#[test]
fn requests_that_come_together_are_answered_in_their_order_on_one_connection() {
    let mock = Mock::start(|asked: &MockRequest| Answer::text(format!("number {}", asked.number))).unwrap();
    let mut stream = connect(&mock);
    let mut both = ask(WireFormat::Chat, false);
    both.extend(ask(WireFormat::Messages, true));
    both.extend_from_slice(b"GET /v1/models HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n\r\n");
    // Cut in the middle of the second head: requests that arrive together need not arrive whole.
    let (one, two) = both.split_at(ask(WireFormat::Chat, false).len() + 30);
    stream.write_all(one).unwrap();
    let (status, _, body) = answer(&mut stream);
    let reply: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((status, &reply["choices"][0]["message"]["content"]), (200, &json!("number 1")));
    stream.write_all(two).unwrap();
    let (_, head, body) = answer(&mut stream);
    assert!(head.contains("text/event-stream") && head.contains("chunked"), "{head}");
    assert_eq!(events(&body)[0]["type"], "message_start");
    let (_, head, body) = answer(&mut stream);
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["object"], "list");
    assert_eq!(rest(&mut stream), b"");
    let figures = mock.stats();
    assert_eq!((figures.requests, figures.connections), (3, 1));
    assert!(figures.cpu > Duration::ZERO);
}

#[test]
fn a_body_in_chunks_is_put_together() {
    let mock = Mock::start(|asked: &MockRequest| Answer::text(asked.first_text())).unwrap();
    let mut stream = connect(&mock);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "in pieces"}]}).to_string();
    let (one, two) = body.split_at(11);
    let chunks =
        format!("{:x};name=value\r\n{one}\r\n{:x}\r\n{two}\r\n0\r\ntrailer: x\r\n\r\n", one.len(), two.len());
    let head =
        "POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!((line(&mut stream).as_str(), line(&mut stream).as_str()), ("HTTP/1.1 100 Continue", ""));
    stream.write_all(chunks.as_bytes()).unwrap();
    let reply: Value = serde_json::from_slice(&answer(&mut stream).2).unwrap();
    assert_eq!(reply["choices"][0]["message"]["content"], "in pieces");
}

#[test]
fn what_is_not_http_is_told_so_and_hung_up_on() {
    let mock = Mock::start(|_: &MockRequest| Answer::text("never")).unwrap();
    for wrong in ["\x16\x03\x01\r\n\r\n", "POST /v1/messages HTTP/1.1\r\ncontent-length: many\r\n\r\n"] {
        let mut stream = connect(&mock);
        stream.write_all(wrong.as_bytes()).unwrap();
        assert_eq!(answer(&mut stream).0, 400, "{wrong:?}");
        assert_eq!(rest(&mut stream), b"");
    }
    assert_eq!(mock.stats().requests, 0);
}

#[test]
fn a_brain_sees_the_turn_and_the_results_in_every_format() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "grep", "arguments": "{}"}});
    let talks = [
        (
            WireFormat::Messages,
            json!({"model": "m", "system": [{"type": "text", "text": "Be good."}], "tools": [{"name": "grep"}], "messages": [
                {"role": "user", "content": [{"type": "text", "text": "find it"}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "grep", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "here"}]}]},
            ]}),
        ),
        (
            WireFormat::Responses,
            json!({"model": "m", "instructions": "Be good.", "tools": [{"type": "function", "name": "grep"}], "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "find it"}]},
                {"type": "reasoning", "id": "rs", "summary": []},
                {"type": "function_call", "call_id": "c1", "name": "grep", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "here"},
            ]}),
        ),
        (
            WireFormat::Chat,
            json!({"model": "m", "tools": [{"type": "function", "function": {"name": "grep"}}], "messages": [
                {"role": "system", "content": "Be good."},
                {"role": "user", "content": "find it"},
                {"role": "assistant", "content": null, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": "here"},
            ]}),
        ),
    ];
    let mock = Mock::start(|asked: &MockRequest| {
        let seen = json!([
            asked.turn(),
            asked.system(),
            asked.first_text(),
            asked.last_text(),
            asked.tools(),
            asked
                .results()
                .iter()
                .map(|result| [result.call.clone(), result.text.clone()])
                .collect::<Vec<_>>(),
        ]);
        Answer::raw(200, "application/json", seen.to_string())
    })
    .unwrap();
    let mut stream = connect(&mock);
    for (wire_format, body) in talks {
        stream.write_all(&request(wire_format.path(), &body)).unwrap();
        let seen: Value = serde_json::from_slice(&answer(&mut stream).2).unwrap();
        assert_eq!(
            seen,
            json!([2, "Be good.", "find it", "here", ["grep"], [["c1", "here"]]]),
            "{wire_format:?}"
        );
    }
}

#[test]
fn faults_come_where_they_were_ordered() {
    let cases: [(&str, FaultMoment, FaultType); 5] = [
        ("close", FaultMoment::Byte(40), FaultType::Close),
        ("end", FaultMoment::Byte(40), FaultType::End),
        ("insert", FaultMoment::Event(1), FaultType::Insert(b": hello\n\n".to_vec())),
        ("error", FaultMoment::Event(2), FaultType::Error(Refusal::new(529, "Overloaded"))),
        ("stall", FaultMoment::Event(1), FaultType::Stall),
    ];
    let mock = Mock::start(move |asked: &MockRequest| {
        let at = usize::try_from(asked.number).unwrap() - 1;
        Answer::text("some text").fault(cases[at].1, cases[at].2.clone())
    })
    .unwrap();
    let ask = || {
        let mut stream = connect(&mock);
        stream.write_all(&ask(WireFormat::Messages, true)).unwrap();
        stream
    };
    let cut = rest(&mut ask());
    assert!(cut.ends_with(b"\r\n") && !cut.ends_with(b"0\r\n\r\n"), "the chunk is whole, the body is not");
    assert_eq!(answer(&mut ask()).2.len(), 40, "a body that only looks whole");
    let inserted = answer(&mut ask()).2;
    assert_eq!(
        String::from_utf8(inserted).unwrap().matches(": hello\n\nevent: content_block_start").count(),
        1
    );
    let failed = events(&answer(&mut ask()).2);
    assert_eq!(failed.len(), 3);
    assert_eq!(failed[2]["error"], json!({"type": "overloaded_error", "message": "Overloaded"}));
    let mut stalled = ask();
    let mut byte = [0];
    stalled.read_exact(&mut byte).unwrap();
    drop(stalled);
    let left = |log: &[LogEntry]| log.len() == 5 && log[4].ended.is_some();
    assert!(mock.wait(PATIENCE, left));
    let outcomes: Vec<Outcome> = mock.requests().iter().filter_map(|logged| Some(logged.ended?.1)).collect();
    assert_eq!(outcomes, [Outcome::Broken, Outcome::Sent, Outcome::Sent, Outcome::Broken, Outcome::Left]);
}

#[test]
fn a_key_that_is_wanted_is_looked_for_where_the_format_has_it() {
    let options = Options { key: Some("secret".to_owned()), ..Options::default() };
    let mock = Mock::with(|_: &MockRequest| Answer::text("in"), options).unwrap();
    let status = |wire_format: WireFormat, header: &str| {
        let mut stream = connect(&mock);
        let text = String::from_utf8(ask(wire_format, false)).unwrap();
        stream.write_all(text.replacen("\r\n", &format!("\r\n{header}\r\n"), 1).as_bytes()).unwrap();
        answer(&mut stream).0
    };
    assert_eq!(status(WireFormat::Messages, "X-Api-Key: secret"), 200);
    assert_eq!(status(WireFormat::Messages, "x-api-key: other"), 401);
    assert_eq!(status(WireFormat::Chat, "Authorization: Bearer secret"), 200);
    assert_eq!(status(WireFormat::Responses, "x-api-key: secret"), 401);
}

#[test]
fn a_script_answers_with_its_first_rule_that_fits() {
    let script = Script::parse(
        "- when: {turn: 2}\n  reply: {text: later}\n\
         - times: 1\n  error: {status: 429, message: slow down, retry_after_ms: 1500}\n\
         - when: {contains: nowhere}\n  reply: {text: unexpected}\n\
         - reply: {text: first, tool_calls: [{name: grep, input: {pattern: x}}]}\n",
        "replies.yaml",
    )
    .unwrap();
    let mock = Mock::start(script).unwrap();
    let mut stream = connect(&mock);
    stream.write_all(&ask(WireFormat::Chat, false)).unwrap();
    let (status, head, _) = answer(&mut stream);
    assert!(status == 429 && head.contains("retry-after: 2\r\n"), "{head}");
    stream.write_all(&ask(WireFormat::Responses, false)).unwrap();
    let reply: Value = serde_json::from_slice(&answer(&mut stream).2).unwrap();
    assert_eq!(
        (&reply["output"][0]["content"][0]["text"], &reply["output"][1]["name"]),
        (&json!("first"), &json!("grep"))
    );
    let error = Script::parse("- times: 1\n", "replies.yaml").unwrap_err().to_string();
    assert_eq!(error, "replies.yaml:1: the rule has neither `reply` nor `error`");
}

#[test]
fn a_thousand_connections_are_held_at_once() {
    const CONNECTIONS: usize = 1_000;
    let mock =
        Mock::start(|_: &MockRequest| Answer::text("held").fault(FaultMoment::Event(1), FaultType::Stall))
            .unwrap();
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| connect(&mock)).collect();
    for stream in &mut streams {
        stream.write_all(&ask(WireFormat::Chat, true)).unwrap();
    }
    assert!(
        mock.wait(PATIENCE, |log| log.iter().filter(|logged| logged.status == 200).count() == CONNECTIONS)
    );
    assert_eq!(mock.stats().open, CONNECTIONS);
    drop(streams);
    assert!(mock.wait(PATIENCE, |log| log.iter().all(|logged| logged.ended.is_some())));
}

#[test]
fn a_compressed_stream_is_readable_event_by_event() {
    let mock = Mock::start(|_: &MockRequest| Answer::text("squeezed").gzip()).unwrap();
    let mut stream = connect(&mock);
    stream.write_all(&ask(WireFormat::Messages, true)).unwrap();
    let (_, head, body) = answer(&mut stream);
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&body[..]).read_to_end(&mut plain).unwrap();
    assert_eq!(events(&plain).last().unwrap()["type"], "message_stop");
}
