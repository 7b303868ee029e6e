//! What the tests of all formats share: requests, and recorded streams with what they are to be read as.

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

use super::{Abilities, Answer, Flow, Problem, ProblemKind, StopReason, Target, Wire};
use crate::sse::Decoder;

/// A model that can do everything.
pub(crate) fn target(full_name: &str) -> Target {
    let (_, model) = full_name.split_once('/').expect("provider/model");
    Target {
        full_name: full_name.to_owned(),
        model: model.to_owned(),
        abilities: Abilities { images: true, sampling: true },
    }
}

/// A request with this conversation.
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

/// What the model said.
pub(crate) fn assistant(text: &str, calls: &[(&str, &str, Value)]) -> Message {
    let calls = calls.iter().map(|(id, name, input)| ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        input: input.clone(),
    });
    Message::Assistant { text: text.into(), calls: calls.collect(), raw: None }
}

/// What a call gave.
pub(crate) fn result(call_id: &str, ok: bool, text: &str) -> CallResult {
    CallResult { call_id: call_id.into(), tool: "read".into(), ok, text: text.into(), images: Vec::new() }
}

/// The body of a request, as JSON.
pub(crate) fn body(wire: &dyn Wire, target: &Target, request: &ModelRequest) -> Value {
    serde_json::from_slice(&wire.request(target, request).body).expect("JSON")
}

/// What a stream is to be read as; see the README beside the streams.
#[derive(Debug, Deserialize)]
struct Expected {
    stop: Option<String>,
    #[serde(default)]
    text: String,
    #[serde(default)]
    calls: Vec<ToolCall>,
    raw: Option<Value>,
    problem: Option<String>,
    usage: Option<Usage>,
}

fn streams(format: &str) -> BTreeMap<String, (Vec<u8>, Expected)> {
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "tests", "streams", format].iter().collect();
    let expected = std::fs::read(folder.join("expected.json")).expect("expected.json");
    let expected: BTreeMap<String, Expected> = serde_json::from_slice(&expected).expect("what is expected");
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

/// An answer with what was shown of it.
type Read = (Result<Answer, Problem>, Vec<StreamPart>);

fn read<'a>(wire: &dyn Wire, target: &Target, chunks: impl IntoIterator<Item = &'a [u8]>) -> Read {
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
        ProblemKind::Cut => "cut",
        ProblemKind::Foreign => "foreign",
    }
}

/// Every stream is read as it is to be, and what was shown is what was said.
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

/// A stream that is cut at any byte is a failure, or the very same answer; no part of a call is ever a call.
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

/// However the bytes come, the answer is the same.
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
