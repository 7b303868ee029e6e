//! Replies of models, and how they are read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use posse_agent::conversation::{CallResult, Message};
use posse_domain::budget::Usage;
use posse_domain::code::Code;
use posse_domain::message::{Image, MediaType};
use posse_engine::ports::{ModelReply, StreamPart};
use posse_testkit::mock::{
    Answer, CallOrder, FaultMoment, FaultType, MockReply, Outcome, Stop, Tokens, WireFormat,
};
use serde_json::{Value, json};

use crate::support::{PATIENCE, cases, cases_of, hello, request};

/// Long enough for several events, with characters of more than one byte.
const TEXT: &str = "Hello, wörld 🙂! This is long enough to come in pieces.\nAnd here is a second line.";

fn calls(reply: &ModelReply) -> Vec<(&str, &Value)> {
    reply.reply.calls.iter().map(|call| (call.name.as_str(), &call.input)).collect()
}

#[tokio::test]
async fn text_comes_whole_and_is_shown_as_it_comes() {
    for case in cases(&Answer::text(TEXT)) {
        let (reply, shown) = case.reply().await;
        assert_eq!(&*reply.reply.text.to_shared(), TEXT, "{:?}", case.wire_format);
        assert_eq!(shown.text(), TEXT);
        assert!(shown.parts().len() > 2, "{:?}: {:?}", case.wire_format, shown.parts());
        let usage = Usage { input_tokens: 100, output_tokens: 20, micro_usd: None, ..Usage::ZERO };
        assert_eq!(reply.usage, usage, "{:?}", case.wire_format);
    }
}

#[tokio::test]
async fn calls_come_whole_however_their_pieces_are_woven() {
    let (one, two) = (json!({"path": "src/main.rs", "limit": 20}), json!({"path": "Cargo.toml — ünïcode"}));
    for weave in [CallOrder::InOrder, CallOrder::Interleaved, CallOrder::Repeated] {
        let say = MockReply::text("I look.").call("read", &one).call("read", &two).call("list", &json!({}));
        for case in cases(&say.weave(weave).into()) {
            let place = format!("{:?} {weave:?}", case.wire_format);
            let (result, shown) = case.call(hello()).await;
            let reply = match result {
                Ok(reply) => reply,
                // No known server closes a block twice. Failing is as good as ignoring it.
                Err(failure) => {
                    assert_eq!(
                        (case.wire_format, weave),
                        (WireFormat::Messages, CallOrder::Repeated),
                        "{failure:?}"
                    );
                    assert_eq!(failure.usage, None, "{place}: what it cost is not known");
                    continue;
                }
            };
            let expected = [("read", &one), ("read", &two), ("list", &json!({}))];
            assert_eq!(calls(&reply), expected, "{place}");
            assert_eq!(&*reply.reply.text.to_shared(), "I look.");
            let ids: BTreeSet<_> = reply.reply.calls.iter().map(|call| &call.id).collect();
            assert_eq!(ids.len(), 3, "{place}: {ids:?}");
            assert!(shown.parts().contains(&StreamPart::Tool("list".to_owned())), "{place}");
        }
    }
}

#[tokio::test]
async fn a_call_and_its_result_are_sent_back_as_they_were() {
    let first = MockReply::text("I look.").call("read", &json!({"path": "a.txt"}));
    for case in cases_of(move |n| if n == 1 { first.clone().into() } else { Answer::text("done") }) {
        let (reply, _) = case.reply().await;
        let id = reply.reply.calls[0].id.clone();
        case.call(request(turn_after(&reply, vec![]))).await.0.expect("a reply");
        let body = case.mock.requests()[1].json();
        let entries = body.get("messages").or(body.get("input")).expect("a conversation").to_string();
        assert_eq!(
            entries.matches(&id).count(),
            2,
            "{:?}: the call and its result: {entries}",
            case.wire_format
        );
        assert!(entries.contains("a.txt") && entries.contains("what was read"), "{entries}");
    }
}

/// The conversation after a reply whose call was answered.
fn turn_after(reply: &ModelReply, images: Vec<Image>) -> Vec<Message> {
    let call = &reply.reply.calls[0];
    vec![
        Message::User("hello".into()),
        Message::Assistant {
            text: reply.reply.text.to_shared(),
            calls: reply.reply.calls.clone().into(),
            raw: reply.reply.raw.clone(),
        },
        Message::Results(vec![CallResult {
            call_id: call.id.as_str().into(),
            tool: call.name.as_str().into(),
            ok: true,
            text: "what was read".into(),
            images,
        }]),
    ]
}

#[tokio::test]
async fn thinking_is_shown_kept_and_sent_back_where_the_provider_wants_it() {
    const SEAL: &str = "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrk";
    let first = MockReply::text("I look.").thinking("Where could it be? Maybe in a.txt.", SEAL);
    let first = first.call("read", &json!({"path": "a.txt"}));
    for case in cases_of(move |n| if n == 1 { first.clone().into() } else { Answer::text("done") }) {
        let (reply, shown) = case.reply().await;
        assert_eq!(shown.thinking(), "Where could it be? Maybe in a.txt.", "{:?}", case.wire_format);
        assert_eq!(&*reply.reply.text.to_shared(), "I look.", "thinking is no text");
        case.call(request(turn_after(&reply, vec![]))).await.0.expect("a reply");
        let body = case.mock.requests()[1].json().to_string();
        // Chat Completions has no seal, and only some servers expect thinking in later requests.
        assert_eq!(
            body.contains(SEAL),
            case.wire_format != WireFormat::Chat,
            "{:?}: {body}",
            case.wire_format
        );
    }
}

#[tokio::test]
async fn pictures_reach_the_model() {
    const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ";
    let first = MockReply::text("").call("read", &json!({"path": "a.png"}));
    for case in cases_of(move |n| if n == 1 { first.clone().into() } else { Answer::text("a dot") }) {
        let (reply, _) = case.reply().await;
        let image = Image { media_type: MediaType::Png, base64: Arc::<str>::from(PICTURE).into() };
        case.call(request(turn_after(&reply, vec![image]))).await.0.expect("a reply");
        let body = case.mock.requests()[1].json().to_string();
        assert!(body.contains(PICTURE) && body.contains("image/png"), "{:?}: {body}", case.wire_format);
    }
}

#[tokio::test]
async fn a_reply_that_is_too_long_has_no_part_of_a_call() {
    let say = MockReply::text("I look.")
        .call("read", &json!({"path": "a.txt"}))
        .call("read", &json!({"path": "never whole"}));
    for case in cases(&say.stop(Stop::Length).into()) {
        let (reply, _) = case.reply().await;
        let text = reply.reply.text.to_shared();
        assert!(reply.cut_off && &*text == "I look.", "{:?}: {text}", case.wire_format);
        for (_, input) in calls(&reply) {
            assert_eq!(*input, json!({"path": "a.txt"}), "{:?}", case.wire_format);
        }
        assert_eq!(reply.usage.output_tokens, 20);
    }
}

#[tokio::test]
async fn a_refusal_is_no_reply_and_is_counted() {
    for case in cases(&MockReply::text("I").stop(Stop::Refused).into()) {
        let failure = case.failure().await;
        assert_eq!(failure.error.code, Code::ModelError, "{:?}", case.wire_format);
        assert!(failure.error.message.contains("refused"), "{}", failure.error.message);
        assert_eq!(failure.usage.map(|usage| usage.tokens()), Some(120), "{:?}", case.wire_format);
        assert_eq!(failure.retry, None);
    }
}

#[tokio::test]
async fn every_figure_that_the_provider_gives_is_counted() {
    let tokens = Tokens { input: 1_000, output: 200, cached: 600, cache_write: 300, reasoning: 120 };
    for case in cases(&MockReply::text("counted").thinking("hm", "seal").tokens(tokens).into()) {
        let (reply, _) = case.reply().await;
        let usage = Usage {
            input_tokens: 1_000,
            output_tokens: 200,
            cached_tokens: 600,
            cache_write_tokens: 300,
            reasoning_tokens: 120,
            micro_usd: None,
            ..Usage::ZERO
        };
        assert_eq!(reply.usage, usage, "{:?}", case.wire_format);
    }
}

#[tokio::test]
async fn what_a_server_does_not_count_is_estimated_and_never_nothing() {
    let say = MockReply::text(TEXT).uncounted();
    for case in cases(&say.into()).filter(|case| case.wire_format != WireFormat::Messages) {
        let (reply, _) = case.reply().await;
        assert!(
            reply.usage.input_tokens > 10 && reply.usage.output_tokens > 10,
            "{:?}: {:?}",
            case.wire_format,
            reply.usage
        );
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let say = MockReply::text(TEXT).call("read", &json!({"path": "a.txt"}));
    for case in cases(&Answer::from(say).unstreamed()) {
        let (reply, shown) = case.reply().await;
        assert_eq!(&*reply.reply.text.to_shared(), TEXT, "{:?}", case.wire_format);
        assert_eq!(calls(&reply), [("read", &json!({"path": "a.txt"}))]);
        assert_eq!(reply.usage.tokens(), 120);
        assert_eq!(shown.text(), TEXT);
    }
}

#[tokio::test]
async fn packed_dripping_and_mislabelled_answers_are_understood() {
    let say = Answer::from(MockReply::text("über").call("read", &json!({"path": "a.txt"})));
    let manners = [
        ("gzip", say.clone().gzip()),
        ("byte by byte", say.clone().drip(Duration::ZERO)),
        ("head byte by byte", say.clone().head_drip(Duration::ZERO)),
        ("text/plain", say.clone().content_type("text/plain")),
        ("application/octet-stream", say.content_type("application/octet-stream")),
    ];
    for (manner, answer) in manners {
        for case in cases(&answer) {
            let (reply, _) = case.reply().await;
            assert_eq!(&*reply.reply.text.to_shared(), "über", "{:?} {manner}", case.wire_format);
            assert_eq!(
                calls(&reply),
                [("read", &json!({"path": "a.txt"}))],
                "{:?} {manner}",
                case.wire_format
            );
        }
    }
}

#[tokio::test]
async fn calls_one_after_the_other_share_connections() {
    for case in cases(&Answer::text("again")) {
        for _ in 0..20 {
            case.reply().await;
        }
        let figures = case.mock.stats();
        assert_eq!(figures.requests, 20);
        // The end of an answer may still be in transit when the next call is made.
        assert!(figures.connections <= 2, "{:?}: {figures:?}", case.wire_format);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_closes_its_stream() {
    for case in cases(&Answer::text("and then").fault(FaultMoment::Event(2), FaultType::Stall)) {
        let shown = Arc::new(crate::support::ShownParts::default());
        let call = tokio::spawn(case.model.call(hello(), shown));
        let (mock, wire_format) = (case.mock, case.wire_format);
        let waited = tokio::task::spawn_blocking(move || {
            assert!(
                mock.wait(PATIENCE, |log| log.iter().any(|logged| logged.status == 200)),
                "{wire_format:?}"
            );
            call.abort();
            assert!(
                mock.wait(PATIENCE, |log| log[0].ended.is_some()),
                "{wire_format:?}: the stream stays open"
            );
            mock.requests()[0].ended.expect("ended").1
        });
        assert_eq!(waited.await.expect("waited"), Outcome::Left);
    }
}

#[tokio::test]
async fn pings_are_no_sign_of_life_and_pieces_of_arguments_are() {
    let say = MockReply::text("")
        .call("read", &json!({"path": "a long path, so that its arguments come in pieces"}));
    for case in
        cases(&Answer::from(say).fault(FaultMoment::Event(6), FaultType::Ping(Duration::from_millis(1))))
    {
        let shown = Arc::new(crate::support::ShownParts::default());
        let call = case.model.call(hello(), shown.clone());
        // Hundreds of pings arrive in that time, but never the answer.
        assert!(
            tokio::time::timeout(Duration::from_millis(400), call).await.is_err(),
            "{:?}",
            case.wire_format
        );
        let parts = shown.parts();
        assert!(parts.contains(&StreamPart::Alive) || parts.len() >= 2, "{:?}: {parts:?}", case.wire_format);
        assert!(parts.len() <= 12, "{:?}: {} signs of life", case.wire_format, parts.len());
    }
}
