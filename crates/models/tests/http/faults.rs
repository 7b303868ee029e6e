//! Faults of servers and connections, and the failures that they become.

use std::time::Duration;

use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_engine::ports::ModelFailure;
use posse_testkit::mock::{
    Answer, FaultMoment, FaultType, MockReply, Refusal, RetryAfter, WireFormat, refused_url,
};
use serde_json::json;

use crate::support::{Case, FORMATS, cases, model};

/// A reply with a text and a call, parts of which can be lost.
fn reply() -> Answer {
    MockReply::text("I will look for it there.")
        .call("read", &json!({"path": "some/where/far/away.txt"}))
        .into()
}

struct ExpectedFailure {
    code: Code,
    status: Option<u16>,
    /// Whether the cost is zero. Otherwise it is unknown.
    free: bool,
    /// Whether a retry may succeed, and after what time at least.
    again: Option<Duration>,
    /// Whether the provider requested the pause.
    limited: bool,
    says: &'static [&'static str],
}

const FINAL: ExpectedFailure = ExpectedFailure {
    code: Code::ModelError,
    status: None,
    free: true,
    again: None,
    limited: false,
    says: &[],
};
const AGAIN: ExpectedFailure = ExpectedFailure { again: Some(Duration::ZERO), ..FINAL };
/// A stream that broke, so its cost cannot be known.
const CUT: ExpectedFailure = ExpectedFailure { free: false, ..AGAIN };

#[track_caller]
fn check(what: &str, case: &Case, failure: &ModelFailure, expected: &ExpectedFailure) {
    let place = format!("{:?}, {what}: {failure:?}", case.wire_format);
    assert_eq!(failure.usage, expected.free.then_some(Usage::ZERO), "{place}");
    check_kind(what, case, failure, expected);
}

/// Checks a failure without its cost.
#[track_caller]
fn check_kind(what: &str, case: &Case, failure: &ModelFailure, expected: &ExpectedFailure) {
    let place = format!("{:?}, {what}: {failure:?}", case.wire_format);
    assert_eq!(failure.error.code, expected.code, "{place}");
    if expected.status.is_some() {
        assert_eq!(failure.error.status, expected.status, "{place}");
    }
    assert_eq!(failure.retry.is_some(), expected.again.is_some(), "{place}");
    if let (Some(retry), Some(least)) = (failure.retry, expected.again) {
        assert!(retry.after >= least && retry.after <= least + Duration::from_mins(2), "{place}");
        assert_eq!(retry.limited, expected.limited, "{place}");
    }
    for word in expected.says {
        assert!(failure.error.message.contains(word), "{word}: {place}");
    }
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let seconds = Duration::from_secs;
    let limit = |again| ExpectedFailure { status: Some(429), again: Some(again), limited: true, ..AGAIN };
    let busy = |status| ExpectedFailure { status: Some(status), ..AGAIN };
    // A proxy did not wait for the answer.
    let lost = |status| ExpectedFailure { free: false, ..busy(status) };
    let key =
        ExpectedFailure { code: Code::Unauthenticated, status: Some(401), says: &["MOCK_API_KEY"], ..FINAL };
    let no_model =
        Refusal { code: Some("model_not_found".to_owned()), ..Refusal::new(404, "model: nope not found") };
    let table: Vec<(&str, Answer, ExpectedFailure)> = vec![
        ("429", Answer::refuse(429, "slow down"), limit(Duration::ZERO)),
        ("429 in seconds", Answer::refuse_for(429, "slow down", RetryAfter::Seconds(7)), limit(seconds(7))),
        // A date has whole seconds, so up to one of the seven may have passed when it is read.
        ("429 until a date", Answer::refuse_for(429, "slow down", RetryAfter::Date(7)), limit(seconds(5))),
        (
            "429 in ms",
            Answer::refuse_for(429, "slow", RetryAfter::Millis(1_500)),
            limit(Duration::from_millis(1_500)),
        ),
        ("500", Answer::refuse(500, "Internal server error"), busy(500)),
        ("503", Answer::refuse(503, "Service Unavailable"), busy(503)),
        ("529", Answer::refuse(529, "Overloaded"), busy(529)),
        ("502 page", Answer::raw(502, "text/html", "<html><h1>Bad Gateway</h1></html>"), lost(502)),
        ("401", Answer::refuse(401, "invalid key"), key),
        (
            "404 model",
            no_model.into(),
            ExpectedFailure { status: Some(404), says: &["has no model"], ..FINAL },
        ),
        (
            "400",
            Answer::refuse(400, "tools.0: bad"),
            ExpectedFailure { status: Some(400), says: &["tools.0: bad"], ..FINAL },
        ),
        (
            "overflow",
            Answer::overflow(),
            ExpectedFailure { code: Code::ContextOverflow, status: Some(400), ..FINAL },
        ),
        ("page", Answer::page(), ExpectedFailure { says: &["web page", "base URL"], ..FINAL }),
        (
            "not JSON",
            Answer::raw(200, "text/plain", "Nothing here.\n"),
            ExpectedFailure { says: &["base URL"], ..FINAL },
        ),
        (
            "404 page",
            Answer::raw(404, "text/html", "<html>no</html>"),
            ExpectedFailure { says: &["base URL"], ..FINAL },
        ),
        (
            "redirect",
            Answer::redirect("https://elsewhere.example/v1"),
            ExpectedFailure { status: Some(307), says: &["elsewhere.example", "redirect"], ..FINAL },
        ),
    ];
    for (what, answer, expected) in table {
        for case in cases(&answer) {
            let failure = case.failure().await;
            check(what, &case, &failure, &expected);
            assert_eq!(case.mock.requests().len(), 1, "{what}: one call is one request");
        }
    }
}

#[tokio::test]
async fn a_529_that_says_when_is_believed() {
    let answer = Answer::refuse_for(529, "Overloaded", RetryAfter::Seconds(3));
    for case in cases(&answer) {
        let retry = case.failure().await.retry.expect("another call");
        assert!(retry.after >= Duration::from_secs(3), "{:?}: {retry:?}", case.wire_format);
    }
}

#[tokio::test]
async fn streams_that_break_are_failures_of_unknown_cost() {
    let overloaded = Refusal::new(529, "Overloaded");
    let broken = "{\"type\":\"content_block_delta\",\"choices\":[{\"delta\":{\"content\":\"\n\n";
    let table: Vec<(&str, FaultType)> = vec![
        ("closed", FaultType::Close),
        ("reset", FaultType::Reset),
        ("ended", FaultType::End),
        ("error", FaultType::Error(overloaded)),
        ("malformed", FaultType::Insert(format!("data: {broken}").into_bytes())),
        ("endless event", FaultType::EndlessEvent),
    ];
    for (what, then) in table {
        for case in cases(&reply().fault(FaultMoment::Event(4), then.clone())) {
            let failure = case.failure().await;
            check(what, &case, &failure, &CUT);
        }
    }
}

#[tokio::test]
async fn an_error_in_a_stream_means_what_it_would_mean_as_a_status() {
    let limited = || ExpectedFailure { limited: true, ..AGAIN };
    let overflow = || ExpectedFailure { code: Code::ContextOverflow, ..FINAL };
    let nested =
        |code: &str| json!({"type": "error", "sequence_number": 2, "error": {"code": code, "message": "no"}});
    let flat = |code: &str| json!({"type": "error", "sequence_number": 2, "code": code, "message": "no"});
    let of_kind = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "no"}});
    let table = [
        (WireFormat::Messages, of_kind("rate_limit_error"), limited()),
        (WireFormat::Messages, of_kind("overloaded_error"), CUT),
        (WireFormat::Messages, of_kind("api_error"), CUT),
        (WireFormat::Responses, flat("rate_limit_exceeded"), limited()),
        (WireFormat::Responses, nested("too_many_requests"), limited()),
        (WireFormat::Responses, nested("context_length_exceeded"), overflow()),
        (WireFormat::Responses, flat("server_error"), CUT),
        (WireFormat::Chat, json!({"error": {"code": 429, "message": "no"}}), limited()),
        (
            WireFormat::Chat,
            json!({"error": {"code": "context_length_exceeded", "message": "no"}}),
            overflow(),
        ),
        (WireFormat::Chat, json!({"error": {"type": "server_error", "message": "no"}}), CUT),
    ];
    for (wire_format, error, expected) in table {
        let event = format!("event: error\ndata: {error}\n\n");
        let answer = Answer::recorded(event);
        let case = cases(&answer).find(|case| case.wire_format == wire_format).expect("a case");
        let failure = case.failure().await;
        // Providers differ in whether they charge for the little that was done.
        check_kind(&error.to_string(), &case, &failure, &expected);
    }
}

#[tokio::test]
async fn an_endless_stream_is_ended() {
    for case in cases(&reply().fault(FaultMoment::Event(4), FaultType::EndlessStream)) {
        let failure = case.failure().await;
        check("endless stream", &case, &failure, &CUT);
    }
}

#[tokio::test]
async fn a_request_that_was_sent_may_have_cost_something_and_one_that_was_not_has_not() {
    for case in cases(&Answer::reset()) {
        let failure = case.failure().await;
        check("reset", &case, &failure, &CUT);
    }
    for case in cases(&reply().fault(FaultMoment::AtOnce, FaultType::Close)) {
        let failure = case.failure().await;
        check("closed", &case, &failure, &CUT);
    }
    for (format, _, name) in FORMATS {
        let url = refused_url().expect("a port");
        let case = cases(&Answer::text("")).next().expect("a case");
        let case = Case { model: model(format, name, &url), ..case };
        let failure = case.failure().await;
        // No server listens on this machine, which waiting does not change.
        check("refused", &case, &failure, &FINAL);
        assert!(failure.error.message.contains(url.strip_prefix("http://").expect("a host")), "{failure:?}");
    }
}

#[tokio::test]
async fn a_base_url_that_is_none_is_said_to_be_none() {
    for (format, _, name) in FORMATS {
        for url in ["localhost:11434", "not a url", "ftp://files.example", ""] {
            let case = cases(&Answer::text("")).next().expect("a case");
            let case = Case { model: model(format, name, url), ..case };
            let failure = case.failure().await;
            check(url, &case, &failure, &ExpectedFailure { says: &["base URL", "https://"], ..FINAL });
        }
    }
}
