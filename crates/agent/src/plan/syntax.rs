//! From text to a tree, with limits on what a small text can stand for.

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, MessageFormatter, UserMessageFormatter};

use super::PLAN_MAX_BYTES;
use super::node::Node;

/// Most nodes of a plan.
const NODES_MAX: usize = 200_000;
/// Most nodes that aliases may stand for: only they make much from little.
const ALIASED_NODES_MAX: usize = 10_000;
/// Deepest nesting. A plan needs six levels, the schema of an answer some more.
const DEPTH_MAX: usize = 64;

/// Reads one document; an error has its line, if it has one.
pub(super) fn read(text: &str) -> Result<Node, (Option<u64>, String)> {
    if text.len() > PLAN_MAX_BYTES {
        return Err((None, format!("the plan has more than the {PLAN_MAX_BYTES} bytes accepted")));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 2 * NODES_MAX,
            max_nodes: NODES_MAX,
            max_depth: DEPTH_MAX,
            max_recorded_anchor_events: ALIASED_NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: ALIASED_NODES_MAX },
        // A title `no` or `on` is a word, as in YAML 1.2.
        strict_booleans: true,
        emit_comments: false,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let cause = innermost(&error);
        let line = cause.location().or_else(|| error.location()).map(|at| at.line());
        (line.filter(|line| *line > 0), describe(cause))
    })
}

/// What went wrong beneath what wraps it: an alias, a snippet.
pub fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } | Error::WithSnippet { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn describe(error: &Error) -> String {
    match error {
        Error::Eof { .. } => "the plan is empty".to_owned(),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` is written twice"),
        Error::MultipleDocuments { .. } => "a plan is one YAML document; here begins another".to_owned(),
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
            "the plan is nested too deeply to be read safely".to_owned()
        }
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
            "the plan, with what its aliases stand for, is larger than can be read safely".to_owned()
        }
        other => UserMessageFormatter.format_message(other).into_owned(),
    }
}
