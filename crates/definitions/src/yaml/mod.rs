//! Parses YAML to a tree with line numbers, within limits on how far a small text can expand.

mod node;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, MessageFormatter, UserMessageFormatter};

pub use node::{Key, Node, Value};

/// The limits of an expanded text.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub nodes: usize,
    /// Maximum number of nodes that aliases expand to: only aliases make a short text large.
    pub aliased_nodes: usize,
    pub depth: usize,
}

/// A text that cannot be parsed.
#[derive(Debug)]
pub struct YamlError {
    /// The line, if it is known.
    pub line: Option<u64>,
    pub problem: String,
    /// Whether the text expands beyond its limits. Then no other parser should try it.
    pub beyond_limits: bool,
}

/// Parses one document. `what` is its name in errors.
pub fn read(
    text: &str,
    what: &str,
    limits: Limits,
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<Node, YamlError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * limits.nodes,
            max_nodes: limits.nodes,
            max_depth: limits.depth,
            max_recorded_anchor_events: limits.aliased_nodes,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: limits.aliased_nodes },
        duplicate_keys: duplicate_keys,
        // A title `no` or `on` is a word, as in YAML 1.2.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let cause = innermost(&error);
        let line = cause.location().or_else(|| error.location()).map(|at| at.line());
        let (problem, beyond_limits) = describe(cause, what);
        YamlError { line: line.filter(|line| *line > 0), problem, beyond_limits }
    })
}

/// The cause inside errors about an alias or a snippet.
pub fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

/// The problem, and whether a limit was reached.
fn describe(error: &Error, what: &str) -> (String, bool) {
    match error {
        Error::Eof { .. } => (format!("the {what} is empty"), false),
        Error::DuplicateMappingKey { key: Some(key), .. } => {
            (format!("the key `{key}` is written twice"), false)
        }
        Error::MultipleDocuments { .. } => {
            (format!("a {what} is one YAML document; here begins another"), false)
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            (format!("the {what} is nested too deeply to be read safely"), true)
        }
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
            let problem =
                format!("the {what}, with what its aliases stand for, is larger than can be read safely");
            (problem, true)
        }
        other => (UserMessageFormatter.format_message(other).into_owned(), false),
    }
}
