//! JSON Schemas that a model may have written, compiled and checked within limits.
//!
//! A schema of a few lines can ask for more work than there is time: each reference may stand for two others, and a deep
//! schema fills the stack. So the shape of a schema is bounded here before anything walks over it, and a check counts its
//! own steps and levels (`meter`) and ends at the limits. Patterns are matched in linear time.
//!
//! The draft is 2020-12 unless `$schema` names 2019-09, 7, 6 or 4. `format` is an annotation in every draft.
//!
//! Why it is like this: `docs/decisions/conversions-bounds.md`.

mod check;
mod compile;
mod draft;
mod equality;
mod meter;
mod node;
mod number;
mod pattern;
mod pointer;
#[cfg(test)]
mod tests;
mod words;

use serde_json::Value;
use thiserror::Error;

use self::node::CompiledSchema;

/// Most steps of one check.
pub const STEPS_MAX: usize = 200_000;
/// Deepest that a check may go: levels of the answer, and at each of them levels of the schema.
pub const DEPTH_MAX: usize = 600;

/// Most lists and maps of a schema.
const NODES_MAX: usize = 20_000;
/// Deepest that a schema may be nested, all that it refers to included: compiling and checking go as deep on the stack.
const LEVELS_MAX: usize = 300;
/// Most patterns of a schema.
const PATTERNS_MAX: usize = 200;
/// Largest answer that is checked.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
/// Words by which a schema refers to others in ways that the validator does not follow. `$id` may be at its beginning.
const UNCOUNTED: [&str; 6] =
    ["$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"];
/// The same in the fourth draft.
const DRAFT_4: &str = "draft-04";

/// Why a schema or an answer is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaProblem {
    /// Beyond `NODES_MAX`.
    #[error("it has more than {NODES_MAX} parts")]
    Nodes,
    /// Beyond `LEVELS_MAX`.
    #[error("it is nested more than {LEVELS_MAX} levels deep, counting the schemas it refers to")]
    Levels,
    /// Beyond `PATTERNS_MAX`.
    #[error("it has more than {PATTERNS_MAX} patterns")]
    Patterns,
    /// A reference that is not `#` or `#/…`, or leads nowhere.
    #[error(
        "`$ref` is {0:?}; a reference must be `#`, or `#/` followed by the path of a part of the same schema"
    )]
    Reference(String),
    /// One of `UNCOUNTED`.
    #[error("it has `{0}` below its root; name parts under `$defs` and refer to them by `#/$defs/…`")]
    Uncounted(String),
    /// No schema.
    #[error("{0}")]
    Invalid(String),
    /// Beyond `ANSWER_MAX_BYTES`.
    #[error("the answer is longer than {ANSWER_MAX_BYTES} bytes, the most that is checked against a schema")]
    Answer,
    /// Beyond `DEPTH_MAX`.
    #[error("checking the answer against the schema goes more than {DEPTH_MAX} levels deep")]
    Depth,
    /// Beyond `STEPS_MAX`.
    #[error("checking the answer against the schema takes more than {STEPS_MAX} steps")]
    Steps,
}

/// A schema that can be checked in bounded time.
#[derive(Debug)]
pub struct Schema(CompiledSchema);

impl Schema {
    pub fn compile(root: &Value) -> Result<Self, SchemaProblem> {
        shape(root)?;
        compile::compile(root).map(Self)
    }

    /// The first `most` problems of a value, but at least one, each at its place. A valid value has none.
    pub fn problems(&self, value: &Value, most: usize) -> Result<Vec<String>, SchemaProblem> {
        check::problems(&self.0, value, most).map_err(SchemaProblem::from)
    }
}

/// Whether an answer is short enough to be read.
pub(crate) fn check_size(answer: &str) -> Result<(), SchemaProblem> {
    if answer.len() > ANSWER_MAX_BYTES { Err(SchemaProblem::Answer) } else { Ok(()) }
}

/// Checks the shape of a schema before anything walks over it that uses the stack.
fn shape(root: &Value) -> Result<(), SchemaProblem> {
    let draft_4 = root.get("$schema").and_then(Value::as_str).is_some_and(|text| text.contains(DRAFT_4));
    let mut seen = SchemaSurvey { draft_4, ..SchemaSurvey::default() };
    let mut levels = seen.depth(root, true)?;
    let mut targets = std::mem::take(&mut seen.references);
    targets.sort_unstable();
    targets.dedup();
    // A way through the schema enters each part at most once before it goes in a circle, so it is no longer than this.
    for reference in targets {
        let part = target(root, reference).ok_or_else(|| SchemaProblem::Reference(reference.to_owned()))?;
        levels += SchemaSurvey::default().depth(part, std::ptr::eq(part, root))?;
        if levels > LEVELS_MAX {
            return Err(SchemaProblem::Levels);
        }
    }
    Ok(())
}

/// What one walk over a schema saw.
#[derive(Default)]
struct SchemaSurvey<'a> {
    draft_4: bool,
    nodes: usize,
    patterns: usize,
    references: Vec<&'a str>,
}

impl<'a> SchemaSurvey<'a> {
    /// How deep a part is nested. The walk has its own stack, so it cannot fill the thread's.
    fn depth(&mut self, part: &'a Value, is_root: bool) -> Result<usize, SchemaProblem> {
        let mut deepest = 0;
        let mut open = vec![(part, 1)];
        while let Some((value, depth)) = open.pop() {
            deepest = depth.max(deepest);
            self.nodes += 1;
            match value {
                _ if depth > LEVELS_MAX => return Err(SchemaProblem::Levels),
                _ if self.nodes > NODES_MAX => return Err(SchemaProblem::Nodes),
                Value::Array(items) => {
                    open.extend(items.iter().filter(|item| is_container(item)).map(|item| (item, depth + 1)));
                }
                Value::Object(fields) => {
                    for (name, field) in fields {
                        self.keyword(name, field, is_root && depth == 1)?;
                        if is_container(field) {
                            open.push((field, depth + 1));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(deepest)
    }

    /// Notes what a field is, if it is a keyword: a property of that name has a schema for its value, which is no text.
    fn keyword(&mut self, name: &str, field: &'a Value, is_first: bool) -> Result<(), SchemaProblem> {
        let is_name = name == "$id" || name == "id" && self.draft_4;
        let uncounted = UNCOUNTED.contains(&name) || is_name;
        if uncounted && !is_container(field) && !(is_name && is_first) {
            return Err(SchemaProblem::Uncounted(name.to_owned()));
        }
        match (name, field) {
            ("$ref", Value::String(reference)) => self.references.push(reference),
            ("pattern", Value::String(_)) => self.patterns += 1,
            ("patternProperties", Value::Object(patterns)) => self.patterns += patterns.len(),
            _ => {}
        }
        if self.patterns > PATTERNS_MAX { Err(SchemaProblem::Patterns) } else { Ok(()) }
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// The part of a schema that a reference is about.
fn target<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let pointer = reference.strip_prefix('#')?;
    // Another spelling of a name would be another name here.
    if pointer.contains('%') { None } else { root.pointer(pointer) }
}
