//! Interprets error answers of providers, in the many formats that exist.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::{Problem, ProblemKind};

/// Limit of characters of a provider's text that are shown.
const MAX_MESSAGE_CHARS: usize = 600;
/// Larger numbers are times since 1970 in milliseconds, not in seconds.
const EPOCH_MS_FROM: f64 = 1e11;
/// Larger numbers are times since 1970, not durations.
const EPOCH_SECONDS_FROM: f64 = 1e9;
/// Longest accepted duration. Beyond it a provider's clock or arithmetic is wrong.
const MAX_AFTER: Duration = Duration::from_hours(31 * 24);

/// Phrases of providers for a conversation that is too long.
const OVERFLOW: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size",
    "maximum context length",
    "max context length",
    "context length",
    "context window",
    "context size",
    "model's context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length and `max_tokens` exceed",
    "input token count",
    "too many tokens",
    "too many input tokens",
    "maximum prompt length",
    "maximum number of tokens",
    "reduce the length",
    "request_too_large",
    "request too large",
    "string_above_max_length",
];

/// Phrases of providers for a usage limit of the account that is exhausted until a certain time.
const USAGE_LIMIT: &[&str] = &[
    "usage limit",
    "usage_limit",
    "per day",
    "per-day",
    "perday",
    "(rpd)",
    "(tpd)",
    "daily",
    "weekly",
    "per month",
    "monthly",
    "hourly limit",
    "limit will reset at",
];

/// Phrases of providers for an account without money, which no waiting fixes.
const NO_CREDIT: &[&str] = &[
    "insufficient_quota",
    "insufficient balance",
    "insufficient credit",
    "insufficient funds",
    "credit balance is too low",
    "requires more credits",
    "exceeded your current quota, please check your plan and billing",
    "billing_hard_limit",
];

/// How a message about an answer begins that has no message of its own.
pub(crate) const IT_ANSWERED: &str = "it answered";

/// An answer with an error status.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorResponse<'a> {
    pub(crate) status: u16,
    pub(crate) headers: &'a HeaderMap,
    /// The body, truncated at a limit.
    pub(crate) body: &'a [u8],
    /// The time of arrival, for headers that contain times.
    pub(crate) now: SystemTime,
}

impl ErrorResponse<'_> {
    /// The body as JSON, if it is JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        let value = serde_json::from_slice(self.body).ok()?;
        match value {
            // Google's format.
            Value::Array(mut items) if items.len() == 1 => items.pop(),
            other => Some(other),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// The wait that the usual headers request.
    pub(crate) fn after(&self) -> Option<Duration> {
        if let Some(ms) = self.header("retry-after-ms").and_then(|text| text.parse::<f64>().ok()) {
            return span(ms / 1000.0);
        }
        self.header("retry-after").and_then(|text| self.until(text))
    }

    /// The duration until a time that is given as seconds from now, as seconds or milliseconds since 1970, or as a
    /// date.
    pub(crate) fn until(&self, text: &str) -> Option<Duration> {
        if let Ok(number) = text.parse::<f64>() {
            let at = match number {
                number if number >= EPOCH_MS_FROM => number / 1000.0,
                number if number >= EPOCH_SECONDS_FROM => number,
                seconds => return span(seconds),
            };
            let now = self.now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            return span((at - now.as_secs_f64()).max(0.0));
        }
        let at: Timestamp = match text.parse() {
            Ok(at) => at,
            Err(_) => jiff::fmt::rfc2822::parse(text).ok()?.timestamp(),
        };
        let left = SystemTime::from(at).duration_since(self.now).unwrap_or_default();
        Some(left.min(MAX_AFTER))
    }

    /// The problem of an error answer in OpenAI's format, which many servers use.
    pub(crate) fn problem(&self) -> Problem {
        let said = ErrorText::read(self);
        let kind = self.kind(&said);
        let message = match kind {
            ProblemKind::Foreign => format!("{}; is the base URL right?", said.text),
            _ => said.text,
        };
        let problem = Problem { status: Some(self.status), ..Problem::free(kind, message) };
        // A proxy did not wait for the answer. The model may have given it, and the provider may charge for it.
        if matches!(self.status, 408 | 502 | 504 | 522 | 524) {
            Problem { usage: None, ..problem }
        } else {
            problem
        }
    }

    fn kind(&self, said: &ErrorText) -> ProblemKind {
        let after = || self.after().or(said.after);
        if said.foreign {
            return match self.status {
                429 => ProblemKind::RateLimit { after: after() },
                408 | 500.. => ProblemKind::Unwell { after: after() },
                _ => ProblemKind::Foreign,
            };
        }
        match self.status {
            402 => ProblemKind::Request,
            429 if said.has(NO_CREDIT) => ProblemKind::Request,
            429 if said.has(USAGE_LIMIT) => ProblemKind::UsageLimit {
                after: after().or_else(|| self.header("x-ratelimit-reset").and_then(|text| self.until(text))),
            },
            429 => ProblemKind::RateLimit { after: after() },
            408 | 409 | 425 => ProblemKind::Unwell { after: after() },
            413 => ProblemKind::Overflow,
            401 => ProblemKind::Key,
            _ if said.has(OVERFLOW) => ProblemKind::Overflow,
            500.. => ProblemKind::Unwell { after: after() },
            403 => ProblemKind::Key,
            _ if said.names_no_model() => ProblemKind::NoModel,
            400 if said.has(NO_CREDIT) => ProblemKind::Request,
            400 if said.rejects_key() => ProblemKind::Key,
            404 => ProblemKind::Foreign,
            _ => ProblemKind::Request,
        }
    }
}

struct ErrorText {
    /// For users.
    text: String,
    /// Text and codes in lower case, to search for phrases.
    words: String,
    /// The requested wait, if the text states it.
    after: Option<Duration>,
    /// Whether the answer has another format.
    foreign: bool,
}

impl ErrorText {
    fn read(refused: &ErrorResponse<'_>) -> Self {
        let Some(json) = refused.json() else { return Self::of_text(refused) };
        let error = json.get("error").unwrap_or(&json);
        let message = [error.get("message"), json.get("message"), json.get("detail"), Some(error)]
            .into_iter()
            .flatten()
            .find_map(Value::as_str)
            .map_or_else(|| json.to_string(), ToOwned::to_owned);
        let upstream = error.pointer("/metadata/raw").and_then(Value::as_str);
        let mut words = message.to_lowercase();
        for field in ["code", "type", "status"] {
            if let Some(word) = error.get(field).and_then(Value::as_str) {
                words.push('\n');
                words.push_str(&word.to_lowercase());
            }
        }
        let message = match upstream {
            Some(upstream) => {
                words.push('\n');
                words.push_str(&upstream.to_lowercase());
                format!("{message}: {upstream}")
            }
            None => message,
        };
        let after = retry_delay(error).or_else(|| try_again_in(&words));
        Self { text: short(&message), words, after, foreign: false }
    }

    fn of_text(refused: &ErrorResponse<'_>) -> Self {
        let text = String::from_utf8_lossy(refused.body);
        let trimmed = text.trim_start();
        let page = trimmed.starts_with('<');
        let text = match (page, trimmed.is_empty()) {
            (true, _) => format!("{IT_ANSWERED} {} with a web page", refused.status),
            (false, true) => format!("{IT_ANSWERED} {} without a message", refused.status),
            (false, false) => short(trimmed),
        };
        let words = if page { String::new() } else { trimmed.to_lowercase() };
        let foreign = page || (refused.status == 404 && !words.contains("model"));
        Self { text, words, after: None, foreign }
    }

    fn has(&self, spellings: &[&str]) -> bool {
        spellings.iter().any(|spelling| self.words.contains(spelling))
    }

    fn names_no_model(&self) -> bool {
        self.words.contains("model")
            && self.has(&[
                "not found",
                "not_found",
                "does not exist",
                "not a valid model",
                "unknown model",
                "invalid model",
                "no such model",
            ])
    }

    fn rejects_key(&self) -> bool {
        self.has(&["api key", "api_key", "apikey"])
            && self.has(&["invalid", "not valid", "incorrect", "expired", "missing", "unauthorized"])
    }
}

/// Google's `RetryInfo`.
fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    span(delay.strip_suffix('s')?.parse().ok()?)
}

/// `try again in 7m12.5s`, as several providers write it.
fn try_again_in(words: &str) -> Option<Duration> {
    let rest = words.split("try again in ").nth(1)?;
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
    let mut rest = rest[..end].trim_end_matches('.');
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let number: f64 = rest[..digits].parse().ok()?;
        let unit_end =
            rest[digits..].find(|c: char| !c.is_ascii_alphabetic()).map_or(rest.len(), |at| digits + at);
        seconds += number
            * match &rest[digits..unit_end] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    span(seconds)
}

fn span(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().map(|span| span.min(MAX_AFTER))
}

/// A provider's text for display: one line, without control characters, of limited length.
pub(crate) fn short(text: &str) -> String {
    let mut short = String::new();
    let mut count = 0;
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if count > 0 {
            short.push(' ');
            count += 1;
        }
        for c in word.chars() {
            if count >= MAX_MESSAGE_CHARS {
                short.push('…');
                return short;
            }
            short.push(c);
            count += 1;
        }
    }
    short
}
