//! Reply sources of the mock server, for whole runs.

use std::time::Duration;

use serde_json::json;

use super::ReplySource;
use super::answer::{
    Answer, CallOrder, FaultMoment, FaultType, MockReply, Refusal, RetryAfter, Stop, Tokens,
};
use super::request::{MockRequest, WireFormat};

/// The request by which [`fanout`] recognises the root.
pub const FANOUT: &str = "Look at every part.";

/// A root with `width` children that each read one file and report: the same as [`crate::fanout`], over HTTP.
pub fn fanout(width: usize, latency: Duration) -> impl ReplySource {
    let task = |n: usize| json!({"subagent_type": "explore", "description": format!("look {n}"), "prompt": format!("Look at part {n}.")});
    let split = (0..width).fold(MockReply::text("I will split this."), |say, n| say.call("task", &task(n)));
    let split = Answer::from(split);
    let look = Answer::from(MockReply::text("Looking.").call("read", &json!({"path": "hello.txt"})));
    let (found, done) = (Answer::text("Found it in hello.txt."), Answer::text("All parts were looked at."));
    move |asked: &MockRequest| {
        let answer = match (asked.contains(FANOUT), has_results(asked)) {
            (true, false) => &split,
            (true, true) => &done,
            (false, false) => &look,
            (false, true) => &found,
        };
        answer.clone().latency(latency)
    }
}

/// Whether the conversation has a tool result, without parsing it as JSON: no text can contain a bare quote.
fn has_results(asked: &MockRequest) -> bool {
    let mark: &[u8] = match asked.wire_format {
        WireFormat::Messages => b"\"tool_use_id\"",
        WireFormat::Responses => b"\"function_call_output\"",
        WireFormat::Chat => b"\"tool_call_id\"",
    };
    asked.body.windows(mark.len()).any(|window| window == mark)
}

/// Answers by the name of the requested model, with one answer of every kind, to try out clients. The official SDKs
/// check these answers in `xtask/src/sdks/honesty.py`.
pub fn by_name(asked: &MockRequest) -> Answer {
    const COUNTED: Tokens =
        Tokens { input: 1_000, output: 200, cached: 600, cache_write: 300, reasoning: 120 };
    let text = MockReply::text("Hello, wörld 🙂! This comes in several pieces.").tokens(COUNTED);
    let tools = MockReply::text("I will look.").call("read", &json!({"path": "src/main.rs", "limit": 20}));
    let tools = tools.call("list", &json!({}));
    match asked.model.as_str() {
        "tools" => tools.into(),
        "woven" => tools.weave(CallOrder::Interleaved).into(),
        "thinking" => text.thinking("Where could it be? Maybe in src/main.rs.", "c2VhbA==").into(),
        "length" => text.stop(Stop::Length).into(),
        "limit" => Answer::refuse_for(429, "slow down", RetryAfter::Seconds(2)),
        "overflow" => Answer::overflow(),
        "key" => Answer::refuse(401, "invalid key"),
        "busy" => Answer::refuse(529, "Overloaded"),
        "failing" => {
            Answer::from(text).fault(FaultMoment::Event(4), FaultType::Error(Refusal::new(529, "Overloaded")))
        }
        "stalling" => Answer::from(text).fault(FaultMoment::Event(4), FaultType::Stall),
        _ => text.into(),
    }
}
