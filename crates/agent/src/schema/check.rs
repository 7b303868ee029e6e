//! Checks a value against a compiled schema, for [`super::Schema::problems`], and counts its work as it does so.
//!
//! A check goes as deep on the stack as [`super::DEPTH_MAX`] allows. Each keyword has its own function, so that a level
//! of the recursion has small frames also in a build without optimisation.

mod applicators;
mod assertions;
mod children;

use std::collections::BTreeMap;

use regex_automata::hybrid::dfa::Cache;
use serde_json::Value;

use super::meter::{Limit, Meter};
use super::node::{CompiledSchema, Keyword, NodeId, PatternId};
use super::pointer::{Token, pointer};

/// The first `most` problems of a value; none if it is valid.
pub(super) fn problems(schema: &CompiledSchema, value: &Value, most: usize) -> Result<Vec<String>, Limit> {
    // An invalid value always has one problem to show, so that it is never taken for a valid one.
    let mut checker = Checker::new(schema, Meter::new(), most.max(1));
    checker.check(CompiledSchema::ROOT, value, false)?;
    Ok(checker.problems.into_iter().map(|problem| problem.text).collect())
}

struct Checker<'s, 'v> {
    schema: &'s CompiledSchema,
    meter: Meter,
    caches: BTreeMap<PatternId, Cache>,
    /// The place of the value that is checked.
    path: Vec<Token<'v>>,
    evaluated: EvaluationLog<'v>,
    problems: Vec<Problem>,
    /// Most problems to collect. With 0 only the verdict is of interest, and a check ends at the first problem.
    most: usize,
    /// Whether this check already explains why an alternative failed: the alternatives within it are not explained.
    is_explanation: bool,
}

struct Problem {
    depth: usize,
    text: String,
}

/// The names and indices that the keywords of the open nodes evaluated: a node whose keywords fail takes its
/// entries back.
#[derive(Default)]
struct EvaluationLog<'v> {
    names: Vec<&'v str>,
    indices: Vec<usize>,
}

/// A place in the log, and whether the keywords of a node write to it.
#[derive(Clone, Copy)]
struct Scope {
    names_from: usize,
    indices_from: usize,
    tracks: bool,
}

impl<'s, 'v> Checker<'s, 'v> {
    fn new(schema: &'s CompiledSchema, meter: Meter, most: usize) -> Self {
        Self {
            schema,
            meter,
            caches: BTreeMap::new(),
            path: Vec::new(),
            evaluated: EvaluationLog::default(),
            problems: Vec::new(),
            most,
            is_explanation: false,
        }
    }

    /// Whether a value is valid. With `tracks`, the log keeps what was evaluated of a valid value.
    fn check(&mut self, id: NodeId, value: &'v Value, tracks: bool) -> Result<bool, Limit> {
        self.meter.enter()?;
        let node = &self.schema.nodes[id.0];
        let scope = self.scope(tracks || node.tracks);
        let mut is_valid = true;
        for keyword in &node.keywords {
            if !is_valid && keyword.is_unevaluated() {
                // It would complain about everything that the failed keywords did not evaluate.
                break;
            }
            if !self.keyword(keyword, value, scope)? {
                is_valid = false;
                // A value of another type has only this problem that is worth reading.
                if self.is_full() || matches!(keyword, Keyword::Type(_)) {
                    break;
                }
            }
        }
        if !is_valid || !tracks {
            self.forget(scope);
        }
        self.meter.leave();
        Ok(is_valid)
    }

    fn keyword(&mut self, keyword: &'s Keyword, value: &'v Value, scope: Scope) -> Result<bool, Limit> {
        match (keyword, value) {
            (Keyword::Reference(id), _) => self.check(*id, value, scope.tracks),
            (Keyword::AllOf(ids), _) => self.all_of(ids, value, scope),
            (Keyword::AnyOf(ids), _) => self.any_of(ids, value, scope),
            (Keyword::OneOf(ids), _) => self.one_of(ids, value, scope),
            (Keyword::Not(id), _) => self.not(*id, value),
            (Keyword::Condition { test, then, otherwise }, _) => {
                self.condition(*test, *then, *otherwise, value, scope)
            }
            (Keyword::DependentSchemas(schemas), Value::Object(fields)) => {
                self.dependent_schemas(schemas, fields, value, scope)
            }
            (Keyword::PropertyNames(id), Value::Object(fields)) => self.property_names(*id, fields),
            (Keyword::Properties(schemas), Value::Object(fields)) => self.properties(schemas, fields, scope),
            (Keyword::Items { prefix, rest }, Value::Array(items)) => self.items(prefix, *rest, items, scope),
            (Keyword::Contains(contains), Value::Array(items)) => {
                self.contains(contains, items, value, scope)
            }
            (Keyword::UnevaluatedItems(id), Value::Array(items)) => self.unevaluated_items(*id, items, scope),
            (Keyword::UnevaluatedProperties(id), Value::Object(fields)) => {
                self.unevaluated_properties(*id, fields, scope)
            }
            (keyword, value) => self.assertion(keyword, value),
        }
    }

    /// Only the verdict about a value.
    fn verdict(&mut self, id: NodeId, value: &'v Value, tracks: bool) -> Result<bool, Limit> {
        let most = std::mem::take(&mut self.most);
        let is_valid = self.check(id, value, tracks)?;
        self.most = most;
        Ok(is_valid)
    }

    /// Checks a child of the value.
    fn child(&mut self, token: Token<'v>, id: NodeId, value: &'v Value) -> Result<bool, Limit> {
        self.path.push(token);
        let is_valid = self.check(id, value, false)?;
        self.path.pop();
        Ok(is_valid)
    }

    /// Whether there is nothing to gain from looking for more problems.
    fn is_full(&self) -> bool {
        self.problems.len() >= self.most
    }

    /// Notes a problem of the value that is checked. The text is made only if it is kept.
    fn report(&mut self, text: impl FnOnce() -> String) {
        if !self.is_full() {
            let problem = self.problem(&text());
            self.problems.push(problem);
        }
    }

    fn problem(&self, text: &str) -> Problem {
        let place = pointer(&self.path);
        let text = if place.is_empty() { text.to_owned() } else { format!("at {place}: {text}") };
        Problem { depth: self.path.len(), text }
    }

    fn scope(&self, tracks: bool) -> Scope {
        let EvaluationLog { names, indices } = &self.evaluated;
        Scope { names_from: names.len(), indices_from: indices.len(), tracks }
    }

    fn forget(&mut self, scope: Scope) {
        self.evaluated.names.truncate(scope.names_from);
        self.evaluated.indices.truncate(scope.indices_from);
    }

    fn matches(&mut self, id: PatternId, text: &str) -> Result<bool, Limit> {
        let pattern = &self.schema.patterns[id.0];
        let cache = self.caches.entry(id).or_insert_with(|| pattern.cache());
        pattern.search(text, cache, &mut self.meter)
    }
}

impl Keyword {
    fn is_unevaluated(&self) -> bool {
        matches!(self, Self::UnevaluatedItems(_) | Self::UnevaluatedProperties(_))
    }
}
