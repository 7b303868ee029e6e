//! Recorded streams, whole and cut. The unit tests of the formats cut them at every byte. These tests cut them over
//! real connections, at the edges of events and at a few positions in between.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use posse_engine::ports::{ModelFailure, ModelReply};
use posse_models::Format;
use posse_testkit::mock::{Answer, FaultMoment, FaultType, Mock, MockRequest, Options, WireFormat};
use serde_json::Value;

use crate::support::{Case, FORMATS, KEY, hello, model};

/// The number of positions in the middle of events at which each stream is cut.
const PLACES: usize = 16;

struct RecordedStream {
    name: String,
    body: Vec<u8>,
    expected: Value,
}

fn folder(format: Format) -> PathBuf {
    let name = match format {
        Format::Anthropic => "anthropic",
        Format::Responses => "responses",
        Format::Chat => "chat",
    };
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../models/tests/streams")).join(name)
}

fn recorded(format: Format) -> Vec<RecordedStream> {
    let folder = folder(format);
    let expected = fs::read(folder.join("expected.json")).expect("what is expected");
    let expected: Value = serde_json::from_slice(&expected).expect("JSON");
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "sse") {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let body = fs::read(&path).expect("a stream");
            all.push(RecordedStream { expected: expected[&name].clone(), name, body });
        }
    }
    all.sort_by(|one, two| one.name.cmp(&two.name));
    all
}

/// A format with a server whose next answer can be set.
fn prepared(format: Format, wire_format: WireFormat, name: &str) -> (Case, Arc<Mutex<Answer>>) {
    let next = Arc::new(Mutex::new(Answer::text("")));
    let given = next.clone();
    let options = Options { key: Some(KEY.to_owned()), keep_bodies: false, ..Options::default() };
    let mock = Mock::with(move |_: &MockRequest| given.lock().expect("an answer").clone(), options)
        .expect("a server");
    let model = model(format, name, &mock.url());
    (Case { wire_format, mock, model }, next)
}

/// Compares a reply with the expected one.
#[track_caller]
fn compare(reply: &ModelReply, expected: &Value, place: &str) {
    let calls = serde_json::to_value(&reply.reply.calls).expect("JSON");
    assert_eq!(calls, expected["calls"], "{place}");
    let text = reply.reply.text.to_shared();
    let wanted = expected["text"].as_str().unwrap_or_default();
    // A reply that reached its limit ends with a note to the reader.
    let whole = expected["stop"] == "done";
    assert!(if whole { &*text == wanted } else { text.starts_with(wanted) }, "{place}");
    if let Some(usage) = expected["usage"].as_object() {
        let found = serde_json::to_value(reply.usage).expect("JSON");
        for (figure, count) in usage {
            assert_eq!(found.get(figure).unwrap_or(&Value::from(0)), count, "{figure}: {place}");
        }
    }
}

#[tokio::test]
async fn there_are_at_least_twenty_recorded_streams() {
    let count: usize = FORMATS.iter().map(|(format, ..)| recorded(*format).len()).sum();
    assert!(count >= 20, "{count}");
}

#[tokio::test]
async fn recorded_streams_are_read_as_what_they_are() {
    for (format, wire_format, name) in FORMATS {
        let (case, next) = prepared(format, wire_format, name);
        for stream in recorded(format) {
            *next.lock().expect("an answer") = Answer::recorded(stream.body.clone());
            let result = case.call(hello()).await.0;
            let place = format!("{wire_format:?} {}: {result:?}", stream.name);
            let stop = stream.expected["stop"].as_str();
            match (&result, stop) {
                (Ok(reply), Some("done" | "length")) => compare(reply, &stream.expected, &place),
                (Err(failure), Some("refused")) => {
                    assert!(failure.error.message.contains("refused"), "{place}");
                }
                (Err(_), None) => assert!(stream.expected["problem"].is_string(), "{place}"),
                _ => panic!("{place}: {}", stream.expected),
            }
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_anywhere_is_a_failure_or_whole() {
    for (format, wire_format, name) in FORMATS {
        let (case, next) = prepared(format, wire_format, name);
        for stream in recorded(format) {
            *next.lock().expect("an answer") = Answer::recorded(stream.body.clone());
            let whole = case.call(hello()).await.0;
            for at in places(&stream.body) {
                // Closed in the middle, and ended like a complete answer.
                for then in [FaultType::Close, FaultType::End] {
                    let cut =
                        Answer::recorded(stream.body.clone()).fault(FaultMoment::Byte(at), then.clone());
                    *next.lock().expect("an answer") = cut;
                    let result = case.call(hello()).await.0;
                    let place = format!("{wire_format:?} {} at {at} {then:?}: {result:?}", stream.name);
                    whole_or_nothing(&result, &whole, &place);
                }
            }
        }
    }
}

fn whole_or_nothing(
    result: &Result<ModelReply, ModelFailure>,
    whole: &Result<ModelReply, ModelFailure>,
    place: &str,
) {
    let Ok(reply) = result else { return };
    let Ok(whole) = whole else { panic!("a part says more than all of it: {place}") };
    assert_eq!((&reply.reply.text, &reply.reply.calls), (&whole.reply.text, &whole.reply.calls), "{place}");
}

/// Both sides of each event's end, and some positions between.
fn places(body: &[u8]) -> BTreeSet<usize> {
    let edges = (1..body.len()).filter(|at| body[..*at].ends_with(b"\n\n")).flat_map(|at| [at - 1, at]);
    let between = (0..PLACES).map(|n| n * body.len() / PLACES);
    edges.chain(between).collect()
}
