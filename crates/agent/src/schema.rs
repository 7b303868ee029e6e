//! JSON Schemas that a model may have written, compiled and checked within limits.
//!
//! A schema of a few lines can ask for more work than there is time: each reference may stand for two others, patterns
//! can be matched in exponentially many ways, and a deep schema fills the stack. A validator cannot be stopped, so what
//! it would do is bounded before: by the shape of the schema here, by the steps that it takes for one answer in `steps`.
//!
//! Why it is like this: `docs/decisions/conversions-bounds.md`.

mod steps;
#[cfg(test)]
mod tests;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use thiserror::Error;

pub use steps::{DEPTH_MAX, STEPS_MAX};

/// Most lists and maps of a schema.
const NODES_MAX: usize = 20_000;
/// Deepest that a schema may be nested, all that it refers to included: compiling and checking go as deep on the stack.
const LEVELS_MAX: usize = 300;
/// Most patterns of a schema.
const PATTERNS_MAX: usize = 200;
/// Largest pattern once it is compiled, and as much again for its tables.
const PATTERN_MAX_BYTES: usize = 64 * 1024;
/// Largest answer that is checked.
const ANSWER_MAX_BYTES: usize = 1024 * 1024;
/// Words by which a schema refers to others in ways whose work cannot be counted beforehand.
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
    #[error("it is nested more than {LEVELS_MAX} levels deep, with what its references stand for")]
    Levels,
    /// Beyond `PATTERNS_MAX`.
    #[error("it has more than {PATTERNS_MAX} patterns")]
    Patterns,
    /// A reference that is not `#` or `#/…`, or leads nowhere.
    #[error("`$ref` is {0:?}; a reference must be `#` or `#/` and the way to a part of the same schema")]
    Reference(String),
    /// One of `UNCOUNTED`.
    #[error("it has `{0}` below its beginning; name parts under `$defs` and refer to them by `#/$defs/…`")]
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
pub struct Schema<'a> {
    root: &'a Value,
    validator: Validator,
}

impl<'a> Schema<'a> {
    /// Compiles a schema.
    pub fn compile(root: &'a Value) -> Result<Self, SchemaProblem> {
        shape(root)?;
        // Patterns that look ahead or back can be matched in exponentially many ways; this engine has none of these.
        let patterns =
            PatternOptions::regex().size_limit(PATTERN_MAX_BYTES).dfa_size_limit(PATTERN_MAX_BYTES);
        let validator = jsonschema::options().with_pattern_options(patterns).build(root);
        let validator = validator.map_err(|error| SchemaProblem::Invalid(error.to_string()))?;
        Ok(Self { root, validator })
    }

    /// The first `most` things that are wrong with a value, each at its place.
    pub fn problems(&self, value: &Value, most: usize) -> Result<Vec<String>, SchemaProblem> {
        steps::check(self.root, value)?;
        if self.validator.is_valid(value) {
            return Ok(Vec::new());
        }
        let problems = self.validator.iter_errors(value).take(most).map(|error| {
            let path = error.instance_path().to_string();
            if path.is_empty() { error.to_string() } else { format!("at {path}: {error}") }
        });
        Ok(problems.collect())
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
