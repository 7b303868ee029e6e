//! Fixtures for the tests of all formats: requests, and recorded streams with their expected replies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::budget::Usage;
use posse_domain::event::Purpose;
use posse_domain::hash::Hash;
use posse_domain::message::ToolCall;
use posse_engine::ports::{ModelRequest, StreamPart};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Flow, ModelFeatures, Problem, ProblemKind, StopReason, Target, ToolLists, Wire};
use crate::endpoint::Key;
use crate::scrub::{Scrub, ScrubbedParts};
use crate::sse::Decoder;

/// A model with all features.
pub(crate) fn target(full_name: &str) -> Target {
    let (_, model) = full_name.split_once('/').expect("provider/model");
    Target {
        full_name: full_name.to_owned(),
        model: model.to_owned(),
        abilities: ModelFeatures { images: true, sampling: true },
        tool_lists: ToolLists::default(),
    }
}

pub(crate) fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        agent: "k3f9ab2c.2.1".parse().expect("an id"),
        definition: "general".into(),
        depth: 0,
        attempt: 1,
        turn: 1,
        call: 1,
        hash: Hash::ZERO,
        purpose: Purpose::Work,
        system: "Be brief.".into(),
        tools: Arc::new([tool("read"), tool("write")]),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output_tokens: 1024,
        temperature: None,
        top_p: None,
        tags: Arc::default(),
    }
}

fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.to_owned(),
        description: format!("To {name}."),
        input_schema: json!({ "type": "object", "properties": { "path": { "type": "string" } } }),
    })
}

pub(crate) fn assistant(text: &str, calls: &[(&str, &str, Value)]) -> Message {
    let calls = calls.iter().map(|(id, name, input)| ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        input: input.clone(),
    });
    Message::Assistant { text: text.into(), calls: calls.collect(), raw: None }
}

pub(crate) fn result(call_id: &str, ok: bool, text: &str) -> CallResult {
    CallResult { call_id: call_id.into(), tool: "read".into(), ok, text: text.into(), images: Vec::new() }
}

pub(crate) fn body(wire: &dyn Wire, target: &Target, request: &ModelRequest) -> Value {
    serde_json::from_slice(&wire.request(target, request).body).expect("JSON")
}

/// The expected reply of a stream. See the README beside the streams.
#[derive(Debug, Deserialize)]
struct ExpectedReply {
    stop: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<ToolCall>,
    raw: Option<Value>,
    problem: Option<String>,
    usage: Option<Usage>,
}

fn streams(format: &str) -> BTreeMap<String, (Vec<u8>, ExpectedReply)> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "streams", format].iter().collect();
    let expected = std::fs::read(folder.join("expected.json")).expect("expected.json");
    let expected: BTreeMap<String, ExpectedReply> =
        serde_json::from_slice(&expected).expect("what is expected");
    let files = std::fs::read_dir(&folder).expect("the folder").filter(|file| {
        file.as_ref().is_ok_and(|file| file.path().extension().is_some_and(|extension| extension == "sse"))
    });
    assert_eq!(files.count(), expected.len(), "every stream of {format} has its expectation");
    let read = |(name, expected)| {
        let bytes = std::fs::read(folder.join(format!("{name}.sse"))).expect("a stream");
        (name, (bytes, expected))
    };
    expected.into_iter().map(read).collect()
}

/// An answer with the parts that were shown of it.
type ReadReply = (Result<Answer, Problem>, Vec<StreamPart>);

fn read<'a>(wire: &dyn Wire, target: &Target, chunks: impl IntoIterator<Item = &'a [u8]>) -> ReadReply {
    let mut reader = wire.reader(target, &request(Vec::new()));
    let mut decoder = Decoder::default();
    let mut shown = Vec::new();
    for chunk in chunks {
        match decoder.feed(chunk, |event| reader.event(event, &mut |part| shown.push(part))) {
            Ok(Flow::On) => {}
            Ok(Flow::End) => break,
            Err(problem) => return (Err(problem), shown),
        }
    }
    (reader.finish(), shown)
}

fn kind(problem: &Problem) -> &'static str {
    match problem.kind {
        ProblemKind::Key => "key",
        ProblemKind::Overflow => "overflow",
        ProblemKind::NoModel => "no_model",
        ProblemKind::Request => "request",
        ProblemKind::NoTools => "no_tools",
        ProblemKind::RateLimit { .. } => "rate_limit",
        ProblemKind::UsageLimit { .. } => "usage_limit",
        ProblemKind::Unwell { .. } => "unwell",
        ProblemKind::Unreachable => "unreachable",
        ProblemKind::NoServer => "no_server",
        ProblemKind::Cut => "cut",
        ProblemKind::Foreign => "foreign",
    }
}

/// Every stream is read as expected, and the shown text is the streamed text.
pub(crate) fn streams_are_read_as_expected(format: &str, wire: &dyn Wire, target: &Target) {
    for (name, (bytes, expected)) in streams(format) {
        let (answer, shown) = read(wire, target, [&bytes[..]]);
        match answer {
            Ok(answer) => {
                let stop = match &answer.stop {
                    StopReason::Done => "done",
                    StopReason::Length => "length",
                    StopReason::Refused(_) => "refused",
                };
                assert_eq!(Some(stop), expected.stop.as_deref(), "{name}");
                assert_eq!(&*answer.reply.text.to_shared(), expected.text, "{name}");
                assert_eq!(answer.reply.calls, expected.calls, "{name}");
                assert_eq!(answer.usage, expected.usage, "{name}");
                if let Some(raw) = &answer.reply.raw {
                    assert_eq!(raw.model, target.full_name, "{name}");
                }
                assert_eq!(
                    answer.reply.raw.as_ref().map(|raw| &raw.content),
                    expected.raw.as_ref(),
                    "{name}"
                );
            }
            Err(problem) => {
                assert_eq!(Some(kind(&problem)), expected.problem.as_deref(), "{name}: {problem:?}");
                let tokens = |usage: Option<Usage>| usage.map(|usage| usage.tokens());
                assert_eq!(tokens(problem.usage), tokens(expected.usage), "{name}");
            }
        }
        let text = shown.iter().filter_map(|part| match part {
            StreamPart::Text(text) => Some(text.as_str()),
            _ => None,
        });
        if expected.problem.is_none() {
            assert_eq!(text.collect::<String>(), expected.text, "{name}: what was shown");
        }
    }
}

/// A stream that is cut at any byte gives a failure or the same answer. A partial call is never a call.
pub(crate) fn cut_streams_are_never_read_in_part(format: &str, wire: &dyn Wire, target: &Target) {
    for (name, (bytes, _)) in streams(format) {
        let (whole, _) = read(wire, target, [&bytes[..]]);
        let mut cut = 0;
        for end in 0..bytes.len() {
            match (read(wire, target, [&bytes[..end]]).0, &whole) {
                (Err(problem), _) if problem.kind == ProblemKind::Cut => cut += 1,
                (Err(problem), Err(whole)) => assert_eq!(&problem, whole, "{name} cut at {end}"),
                (Ok(answer), Ok(whole)) => {
                    assert_eq!(
                        (&answer.reply, &answer.stop),
                        (&whole.reply, &whole.stop),
                        "{name} cut at {end}"
                    );
                    assert!(answer.usage.is_none() || answer.usage == whole.usage, "{name} cut at {end}");
                }
                (read, whole) => panic!("{name} cut at {end}: {read:?} instead of {whole:?}"),
            }
        }
        assert!(cut > bytes.len() / 4, "{name}: only {cut} of {} cuts are noticed", bytes.len());
    }
}

/// The answer is the same, however the bytes are split.
pub(crate) fn chunks_do_not_matter(format: &str, wire: &dyn Wire, target: &Target) {
    for (name, (bytes, _)) in streams(format) {
        let whole = read(wire, target, [&bytes[..]]);
        assert_eq!(read(wire, target, bytes.chunks(1)), whole, "{name} byte by byte");
        proptest!(ProptestConfig::with_cases(64), |(sizes in prop::collection::vec(1..200_usize, 1..80))| {
            let mut rest = &bytes[..];
            let mut chunks = Vec::new();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, after) = rest.split_at(rest.len().min(*size));
                chunks.push(chunk);
                rest = after;
            }
            prop_assert_eq!(&read(wire, target, chunks), &whole, "{}", &name);
        });
    }
}

/// A key that can only appear in an answer through an echo.
const CANARY: &str = "sk-canary-0123456789abcdef";

/// Whichever field of whichever event echoes the key, neither the answer, nor the problem, nor the shown text contains
/// it. Whole values are compared as `{:?}` writes them, so fields that are added later are compared too.
pub(crate) fn a_key_in_any_field_is_taken_out(format: &str, wire: &dyn Wire, target: &Target) {
    let scrub = Scrub::of(Some(&Key::new(CANARY, "CANARY")));
    let echoes =
        [CANARY.to_owned(), json!({ CANARY: [CANARY] }).to_string(), format!("Bearer {CANARY}, thanks")];
    let (mut cases, mut reached) = (0, 0);
    for (name, (bytes, _)) in streams(format) {
        for (stream, place) in echoing(&String::from_utf8(bytes).expect("UTF-8"), &echoes) {
            let (answer, parts) = read(wire, target, [stream.as_bytes()]);
            cases += 1;
            reached += usize::from(format!("{answer:?} {parts:?}").contains(CANARY));
            let mut shown = Vec::new();
            let mut scrubbed = ScrubbedParts::new(scrub.clone());
            for part in parts {
                scrubbed.part(part, &mut |part| shown.push(part));
            }
            scrubbed.finish(&mut |part| shown.push(part));
            let answer = answer.map(|answer| scrub.answer(answer)).map_err(|problem| scrub.problem(problem));
            let all = format!("{answer:?} {shown:?}");
            assert!(!all.contains(CANARY), "{name}, {place}: {all}");
        }
    }
    assert!(cases > 100 && reached > 20, "{format}: only {reached} of {cases} echoes reached an answer");
}

/// The stream once for each of its strings and each echo that replaces it, with the position.
fn echoing(stream: &str, echoes: &[String]) -> Vec<(String, String)> {
    let mut mutated = Vec::new();
    for (at, line) in stream.lines().enumerate() {
        let Some(event) =
            line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok())
        else {
            continue;
        };
        let mut places = Vec::new();
        strings(&event, String::new(), &mut places);
        for place in places {
            for echo in echoes {
                let mut event = event.clone();
                *event.pointer_mut(&place).expect("the place") = Value::String(echo.clone());
                let data = format!("data: {event}");
                let lines =
                    stream.lines().enumerate().map(|(n, line)| if n == at { data.as_str() } else { line });
                mutated.push((lines.collect::<Vec<_>>().join("\n") + "\n\n", format!("line {at}{place}")));
            }
        }
    }
    mutated
}

fn strings(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::String(_) => places.push(at),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| strings(item, format!("{at}/{n}"), places));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| strings(field, format!("{at}/{name}"), places));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
