//! Parses the text of a plan into a tree, within limits.

use serde_saphyr::DuplicateKeyPolicy;

use super::PLAN_MAX_BYTES;
use posse_definitions::yaml::{self, Limits, Node};

/// A plan needs six levels, the schema of an answer some more.
const LIMITS: Limits = Limits { nodes: 200_000, aliased_nodes: 10_000, depth: 64 };

/// Parses one document. An error has its line, if known.
pub(super) fn read(text: &str) -> Result<Node, (Option<u64>, String)> {
    if text.len() > PLAN_MAX_BYTES {
        return Err((None, format!("the plan has more than the {PLAN_MAX_BYTES} bytes accepted")));
    }
    yaml::read(text, "plan", LIMITS, DuplicateKeyPolicy::Error).map_err(|error| (error.line, error.problem))
}
