//! A brain from a file: rules in YAML, the first that fits answers.
//!
//! ```yaml
//! - when: {contains: "Where is main?", turn: 1}
//!   say: {text: I will look., calls: [{name: grep, input: {pattern: fn main}}]}
//! - when: {turn: 2}
//!   times: 1
//!   refuse: {status: 429, message: slow down, retry_after_s: 2}
//! - say: {text: In src/main.rs.}
//!   latency_ms: 200
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::Brain;
use super::answer::{Answer, Call, FaultMoment, FaultType, MockReply, Refusal, RetryAfter, Thinking, Tokens};
use super::request::{Dialect, MockRequest};

/// Rules in their order.
#[derive(Debug)]
pub struct Script {
    rules: Vec<(Rule, AtomicU64)>,
}

/// A script that cannot be used.
#[derive(Debug)]
pub struct ScriptError(String);

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default)]
    when: Fits,
    /// How often it answers; then it is passed over.
    times: Option<u64>,
    say: Option<ScriptedText>,
    refuse: Option<ScriptedRefusal>,
    #[serde(default)]
    latency_ms: u64,
    #[serde(default)]
    gap_ms: u64,
    stall_after_events: Option<usize>,
    cut_at_byte: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fits {
    /// A text anywhere in the request.
    contains: Option<String>,
    /// A text in the first message of the user.
    first: Option<String>,
    turn: Option<usize>,
    number: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedText {
    #[serde(default)]
    text: String,
    thinking: Option<String>,
    #[serde(default)]
    calls: Vec<SpokenCall>,
    tokens: Option<ScriptedUsage>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SpokenCall {
    name: String,
    #[serde(default)]
    input: Value,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedUsage {
    input: u64,
    output: u64,
    #[serde(default)]
    cached: u64,
    #[serde(default)]
    cache_write: u64,
    #[serde(default)]
    reasoning: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedRefusal {
    status: u16,
    #[serde(default)]
    message: String,
    code: Option<String>,
    retry_after_s: Option<u64>,
}

impl Script {
    /// Reads rules.
    pub fn parse(yaml: &str) -> Result<Self, ScriptError> {
        let rules: Vec<Rule> =
            serde_saphyr::from_str(yaml).map_err(|error| ScriptError(error.to_string()))?;
        if let Some(at) = rules.iter().position(|rule| rule.say.is_some() == rule.refuse.is_some()) {
            let text = format!("rule {} needs `say` or `refuse`, and not both", at + 1);
            return Err(ScriptError(text));
        }
        Ok(Self { rules: rules.into_iter().map(|rule| (rule, AtomicU64::new(0))).collect() })
    }
}

impl Brain for Script {
    fn answer(&self, asked: &MockRequest) -> Answer {
        let takes = |(rule, used): &&(Rule, AtomicU64)| {
            rule.when.fits(asked)
                && rule.times.is_none_or(|times| used.fetch_add(1, Ordering::Relaxed) < times)
        };
        match self.rules.iter().find(takes) {
            Some((rule, _)) => rule.answer(),
            None => Answer::refuse(400, "the mock's script has no rule for this request"),
        }
    }
}

impl Fits {
    fn fits(&self, asked: &MockRequest) -> bool {
        self.number.is_none_or(|number| number == asked.number)
            && self.contains.as_ref().is_none_or(|text| asked.contains(text))
            && self.first.as_ref().is_none_or(|text| asked.first_text().contains(text))
            && self.turn.is_none_or(|turn| turn == asked.turn())
    }
}

impl Rule {
    fn answer(&self) -> Answer {
        let mut answer = match (&self.say, &self.refuse) {
            (Some(say), _) => Answer::from(say.reply()),
            (None, Some(refuse)) => Answer::from(refuse.refusal()),
            (None, None) => Answer::text(""),
        };
        answer =
            answer.latency(Duration::from_millis(self.latency_ms)).gap(Duration::from_millis(self.gap_ms));
        if let Some(events) = self.stall_after_events {
            answer = answer.fault(FaultMoment::Event(events), FaultType::Stall);
        }
        if let Some(byte) = self.cut_at_byte {
            answer = answer.fault(FaultMoment::Byte(byte), FaultType::Close);
        }
        answer
    }
}

impl ScriptedText {
    fn reply(&self) -> MockReply {
        let mut say = MockReply::text(self.text.as_str());
        say.calls = self.calls.iter().map(|call| Call::new(call.name.as_str(), &call.input)).collect();
        let seal = |text: &String| Thinking { text: text.clone(), signature: "bW9jaw==".to_owned() };
        say.thinking = self.thinking.as_ref().map(seal);
        if let Some(ScriptedUsage { input, output, cached, cache_write, reasoning }) = self.tokens {
            say.tokens = Some(Tokens { input, output, cached, cache_write, reasoning });
        }
        say
    }
}

impl ScriptedRefusal {
    fn refusal(&self) -> Refusal {
        Refusal {
            code: self.code.clone(),
            retry_after: self.retry_after_s.map(RetryAfter::Seconds),
            ..Refusal::new(self.status, self.message.as_str())
        }
    }
}

impl Dialect {
    /// The name of the format, for people.
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Messages => "messages",
            Dialect::Responses => "responses",
            Dialect::Chat => "chat",
        }
    }
}
