//! Reads and parses script files. Parsing is strict, because a user named the file on the command line: everything
//! unknown, missing or contradictory is an error with its line.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use posse_domain::budget::{Price, Usage};
use posse_engine::ports::{ModelFacts, Retry};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::answer::{ScriptedAnswer, ScriptedCall};
use super::error::ScriptError;
use super::raw::{
    RawCall, RawError, RawFacts, RawFile, RawPrice, RawReply, RawRule, RawTokenPrices, RawUsage, RawWhen,
};
use super::rule::{Rule, RuleConditions};
use super::{DEFAULT_FACTS, problem};

const SCRIPT_MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Limit of nodes in a script. Ten thousand calls with ten fields each use a twentieth of it.
const NODES_MAX: usize = 4_000_000;
/// Limit of nodes that aliases may expand to. Only aliases can make a short script large, so their limit is low.
const ALIASED_NODES_MAX: usize = 100_000;

pub(super) fn read(path: &Path, name: &str) -> Result<String, ScriptError> {
    let unreadable = |source| ScriptError::Unreadable { file: name.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // The stated length of the file is not used, because the file may be a pipe.
    file.take(SCRIPT_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > SCRIPT_MAX_BYTES {
        return Err(ScriptError::TooLarge { file: name.to_owned(), max_bytes: SCRIPT_MAX_BYTES });
    }
    String::from_utf8(bytes).map_err(|_| not_a_script(name, "the script is not UTF-8 text"))
}

/// A script without its name.
pub(super) struct ParsedScript {
    pub(super) facts: ModelFacts,
    /// The length from which a request is refused.
    pub(super) context_tokens: Option<u64>,
    pub(super) rules: Vec<Rule>,
}

pub(super) fn parse(text: &str, name: &str) -> Result<ParsedScript, ScriptError> {
    // An empty text is not a YAML document. It gets the same message as an empty list.
    let empty = || not_a_script(name, "the script has no rules");
    let RawFile(script) = match serde_saphyr::from_str_with_options(text, options()) {
        Err(serde_saphyr::Error::Eof { .. }) => return Err(empty()),
        read => read.map_err(|error| problem::in_file(&error, text, name))?,
    };
    if script.rules.is_empty() {
        return Err(empty());
    }
    let context_tokens = script.facts.as_ref().and_then(|facts| facts.context_tokens);
    let facts = script.facts.map_or(DEFAULT_FACTS, facts_of);
    let rules = script.rules.into_iter().map(|raw| rule_of(raw, name)).collect::<Result<_, _>>()?;
    Ok(ParsedScript { facts, context_tokens, rules })
}

fn not_a_script(name: &str, problem: &str) -> ScriptError {
    ScriptError::NotAScript { file: name.to_owned(), problem: problem.to_owned() }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * NODES_MAX,
            max_nodes: NODES_MAX,
            max_recorded_anchor_events: ALIASED_NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_NODES_MAX },
        // A tool's argument `no` or `on` is a string, as in YAML 1.2.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    }
}

fn facts_of(raw: RawFacts) -> ModelFacts {
    ModelFacts {
        context_tokens: raw.context_tokens.unwrap_or(DEFAULT_FACTS.context_tokens),
        max_output_tokens: raw.max_output_tokens.unwrap_or(DEFAULT_FACTS.max_output_tokens),
        price: raw.price.map_or(DEFAULT_FACTS.price, RawPrice::price),
    }
}

impl RawPrice {
    fn price(self) -> Option<Price> {
        let Self::Known(RawTokenPrices { input, output, cached }) = self else { return None };
        Some(Price {
            cached: cached.unwrap_or(input).micros(),
            ..Price::plain(input.micros(), output.micros())
        })
    }
}

fn rule_of(raw: Spanned<RawRule>, file: &str) -> Result<Rule, ScriptError> {
    let line = raw.referenced.line();
    let wrong = |line, problem| ScriptError::Line { file: file.to_owned(), line, problem };
    let RawRule { when, reply, error, latency_ms, times } = raw.value;
    let answer = match (reply, error) {
        (Some(reply), None) => reply_of(reply),
        (None, Some(RawError { status, message, retry_after_ms, limited })) => {
            let error = ScriptedAnswer::error(status, message);
            match retry_after_ms {
                Some(after) => error.retry(Retry { after: Duration::from_millis(after), limited }),
                None if limited => {
                    return Err(wrong(line, "`limited` needs `retry_after_ms`".to_owned()));
                }
                None => error,
            }
        }
        (Some(_), Some(_)) => return Err(wrong(line, "the rule has both `reply` and `error`".to_owned())),
        (None, None) => return Err(wrong(line, "the rule has neither `reply` nor `error`".to_owned())),
    };
    let when = when_of(when.unwrap_or_default()).map_err(|(line, problem)| wrong(line, problem))?;
    if let Some(times) = times.as_ref().filter(|times| times.value == 0) {
        let problem = "times: must be at least 1; remove the rule instead".to_owned();
        return Err(wrong(times.referenced.line(), problem));
    }
    let answer = answer.latency(Duration::from_millis(latency_ms));
    Ok(Rule { when, answer, times: times.map(|times| times.value), line: Some(line) })
}

fn when_of(raw: RawWhen) -> Result<RuleConditions, (u64, String)> {
    let RawWhen { definition, depth, agent, turn, purpose, contains } = raw;
    let mut when = RuleConditions::any();
    if let Some(glob) = agent {
        let invalid = |error| (glob.referenced.line(), format!("agent: {error}"));
        when = when.agent(&glob.value).map_err(invalid)?;
    }
    if let Some(turn) = turn {
        if turn.value == 0 {
            return Err((turn.referenced.line(), "turn: turns are counted from 1".to_owned()));
        }
        when = when.turn(turn.value);
    }
    when.definition = definition;
    when.depth = depth;
    when.purpose = purpose;
    when.contains = contains;
    Ok(when)
}

fn reply_of(raw: RawReply) -> ScriptedAnswer {
    let answer = ScriptedAnswer::text(raw.text).calls(raw.tool_calls.into_iter().map(call_of));
    match raw.usage {
        None => answer,
        Some(RawUsage { input_tokens, output_tokens, cached_tokens }) => answer.usage(Usage {
            input_tokens,
            output_tokens,
            cached_tokens,
            micro_usd: None,
            cache_write_tokens: 0,
            reasoning_tokens: 0,
            ..Usage::ZERO
        }),
    }
}

fn call_of(RawCall { name, input, id }: RawCall) -> ScriptedCall {
    let call = match input {
        Value::String(text) => ScriptedCall::raw(name, text),
        value => ScriptedCall::new(name, value),
    };
    ScriptedCall { id, ..call }
}
