//! A stream that becomes silent is cut and requested again: pings and single bytes do not count as events. The tests
//! execute whole runs over real connections. Only the two minutes of silence are skipped.

use std::sync::Arc;
use std::time::Duration;

use posse::{EventKind, NewRun, Posse};
use posse_engine::ports::{Model, ModelError, Models};
use posse_models::Format;
use posse_testkit::mock::{
    Answer, FaultMoment, FaultType, LogEntry, Mock, MockRequest, Options, Outcome, WireFormat,
};
use serde_json::{Value, json};

use crate::support::{FORMATS, KEY, PATIENCE, model};

/// Longer than any model may be silent.
const SILENCE: Duration = Duration::from_mins(3);
/// Limit of skipped silences until the silence must be noticed.
const SILENCES_MAX: usize = 20;

struct OneModel(Arc<dyn Model>);

impl Models for OneModel {
    fn resolve(&self, _: &str) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.0.clone())
    }
}

/// Whether this many requests were answered in time.
async fn heard(mock: &Arc<Mock>, patience: Duration, count: usize) -> bool {
    let mock = mock.clone();
    let enough = move |log: &[LogEntry]| log.iter().filter(|one| one.status == 200).count() >= count;
    tokio::task::spawn_blocking(move || mock.wait(patience, enough)).await.expect("waited")
}

/// The journalled model calls of a run whose first answer is this one and whose second succeeds.
async fn run(format: Format, wire_format: WireFormat, name: &str, first: Answer) -> Vec<Value> {
    let options = Options { key: Some(KEY.to_owned()), ..Options::default() };
    let source =
        move |asked: &MockRequest| if asked.number == 1 { first.clone() } else { Answer::text("done") };
    let mock = Arc::new(Mock::with(source, options).expect("a server"));
    let home = tempfile::tempdir().expect("a directory");
    let posse = Posse::builder()
        .state_dir(home.path().join("state"))
        .models(Arc::new(OneModel(model(format, name, &mock.url()))))
        .open()
        .expect("a store");
    let handle = posse.start(NewRun::new("hello").model("mock/x").dir(home.path())).await.expect("a run");
    assert!(heard(&mock, PATIENCE, 1).await, "{wire_format:?}: no request");
    // Data that was still in transit after the skipped time restarts the silence.
    for _ in 0..SILENCES_MAX {
        tokio::time::pause();
        tokio::time::advance(SILENCE).await;
        tokio::time::resume();
        if heard(&mock, Duration::from_secs(1), 2).await {
            break;
        }
    }
    tokio::time::timeout(PATIENCE, handle.ended()).await.expect("the run ends").expect("an end");
    assert_eq!(
        posse.wait(handle.id()).await.expect("an outcome").status,
        posse::RunStatus::Completed,
        "{wire_format:?}"
    );
    let log = mock.requests();
    assert_eq!(log.len(), 2, "{wire_format:?}: one more call and no third");
    assert_eq!(
        log[0].ended.map(|(_, how)| how),
        Some(Outcome::Left),
        "{wire_format:?}: its stream was closed"
    );
    let mut events = posse.events(handle.id(), 0);
    let mut calls = Vec::new();
    while let Some(event) = events.try_next().await.expect("an event") {
        if matches!(event.kind, EventKind::ModelCalled | EventKind::ModelReplied) {
            calls.push(json!({"kind": event.kind.as_str(), "detail": event.detail}));
        }
    }
    calls
}

#[tokio::test]
async fn silence_is_cut_and_counted_as_all_that_was_reserved() {
    let silences = [
        ("a stall", Answer::text("well, let me see").fault(FaultMoment::Event(3), FaultType::Stall)),
        (
            "pings",
            Answer::text("well, let me see")
                .fault(FaultMoment::Event(3), FaultType::Ping(Duration::from_millis(5))),
        ),
        ("single bytes", Answer::text("well, let me see").drip(Duration::from_millis(20))),
    ];
    for (format, wire_format, name) in FORMATS {
        for (what, first) in &silences {
            let calls = run(format, wire_format, name, first.clone()).await;
            let kinds: Vec<&Value> = calls.iter().map(|call| &call["kind"]).collect();
            let (called, replied) = ("agent.model_called", "agent.model_replied");
            assert_eq!(kinds, [called, replied, called, replied], "{wire_format:?}, {what}");
            let (reserved, cut) = (&calls[0]["detail"]["reserved"], &calls[1]["detail"]);
            assert_eq!(
                (&cut["error"]["code"], &cut["error"]["again"]),
                (&json!("TIMEOUT"), &json!(true)),
                "{cut}"
            );
            assert_eq!(cut["estimated"], true, "{wire_format:?}, {what}");
            let tokens = |usage: &Value| {
                usage["input_tokens"].as_u64().unwrap_or(0) + usage["output_tokens"].as_u64().unwrap_or(0)
            };
            assert_eq!(tokens(&cut["usage"]), tokens(reserved), "{wire_format:?}, {what}: {calls:#?}");
            assert_eq!(calls[2]["detail"]["call"], 2, "{wire_format:?}, {what}");
            assert_eq!(tokens(&calls[3]["detail"]["usage"]), 120, "{wire_format:?}, {what}");
        }
    }
}
