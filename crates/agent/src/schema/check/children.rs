//! Checks the keywords that apply other schemas to the properties and items of a value.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::meter::Limit;
use super::super::node::{Contains, NodeId, PropertySchemas};
use super::super::pointer::Token;
use super::super::words;
use super::{Checker, Scope};

impl<'s, 'v> Checker<'s, 'v> {
    pub(super) fn properties(
        &mut self,
        schemas: &'s PropertySchemas,
        fields: &'v Map<String, Value>,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let reported = self.problems.len();
        let mut unexpected = Vec::new();
        let mut is_valid = true;
        for (name, field) in fields {
            self.meter.take_name(name)?;
            let mut is_known = false;
            if let Some(id) = schemas.named.get(name) {
                is_known = true;
                is_valid &= self.child(Token::Name(name), *id, field)?;
            }
            for (pattern, id) in &schemas.patterns {
                if self.matches(*pattern, name)? {
                    is_known = true;
                    is_valid &= self.child(Token::Name(name), *id, field)?;
                }
            }
            if !is_known && let Some(id) = schemas.additional {
                is_known = true;
                is_valid &= self.expected(Token::Name(name), id, field, &mut unexpected)?;
            }
            if is_known && scope.tracks {
                self.evaluated.names.push(name);
            }
            if !is_valid && self.is_full() {
                break;
            }
        }
        self.report_unexpected("Additional properties", reported, &unexpected);
        Ok(is_valid)
    }

    /// Checks a child that no other keyword knows. If there must be none, the child is added to the list, because one
    /// problem can name all of them.
    fn expected(
        &mut self,
        token: Token<'v>,
        id: NodeId,
        value: &'v Value,
        unexpected: &mut Vec<String>,
    ) -> Result<bool, Limit> {
        if !self.schema.is_never(id) {
            return self.child(token, id, value);
        }
        self.meter.take(1)?;
        if !self.is_full() && unexpected.len() <= words::SHOWN_MAX {
            unexpected.push(match token {
                Token::Name(name) => format!("'{}'", words::shorten(name)),
                Token::Index(_) => words::quote(value),
            });
        }
        Ok(false)
    }

    /// Reports the children that must not be there before the problems that this keyword found within others.
    fn report_unexpected(&mut self, what: &str, reported: usize, unexpected: &[String]) {
        if !unexpected.is_empty() && reported < self.most {
            let problem = self.problem(&words::unexpected(what, unexpected));
            self.problems.insert(reported, problem);
            self.problems.truncate(self.most);
        }
    }

    /// Checks names as values. They are made for this check only, so it has its own path and problems.
    pub(super) fn property_names(
        &mut self,
        id: NodeId,
        fields: &'v Map<String, Value>,
    ) -> Result<bool, Limit> {
        let mut is_valid = true;
        for name in fields.keys() {
            self.meter.take_text(name.len())?;
            let name = Value::String(name.clone());
            let mut checker = Checker::new(self.schema, self.meter, usize::from(!self.is_full()));
            checker.caches = std::mem::take(&mut self.caches);
            checker.is_explanation = self.is_explanation;
            is_valid &= checker.check(id, &name, false)?;
            let problem = checker.problems.pop();
            (self.meter, self.caches) = (checker.meter, checker.caches);
            if let Some(problem) = problem {
                self.report(|| format!("property name: {}", problem.text));
            }
            if !is_valid && self.is_full() {
                break;
            }
        }
        Ok(is_valid)
    }

    pub(super) fn items(
        &mut self,
        prefix: &'s [NodeId],
        rest: Option<NodeId>,
        items: &'v [Value],
        scope: Scope,
    ) -> Result<bool, Limit> {
        let reported = self.problems.len();
        let mut unexpected = Vec::new();
        let mut is_valid = true;
        for (index, item) in items.iter().enumerate() {
            is_valid &= match (prefix.get(index), rest) {
                (Some(id), _) => self.child(Token::Index(index), *id, item)?,
                (None, Some(id)) => self.expected(Token::Index(index), id, item, &mut unexpected)?,
                (None, None) => break,
            };
            if scope.tracks {
                self.evaluated.indices.push(index);
            }
            if !is_valid && self.is_full() {
                break;
            }
        }
        self.report_unexpected("Additional items", reported, &unexpected);
        Ok(is_valid)
    }

    pub(super) fn contains(
        &mut self,
        contains: &'s Contains,
        items: &'v [Value],
        value: &'v Value,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let evaluates = contains.evaluates && scope.tracks;
        let mut count = 0;
        for (index, item) in items.iter().enumerate() {
            if !evaluates && contains.at_most.is_none() && count >= contains.at_least {
                break;
            }
            if self.verdict(contains.node, item, false)? {
                count += 1;
                if evaluates {
                    self.evaluated.indices.push(index);
                }
            }
        }
        let is_valid = count >= contains.at_least && contains.at_most.is_none_or(|most| count <= most);
        if !is_valid {
            self.report(|| words::wrong_count(contains, value, count));
        }
        Ok(is_valid)
    }

    pub(super) fn unevaluated_items(
        &mut self,
        id: NodeId,
        items: &'v [Value],
        scope: Scope,
    ) -> Result<bool, Limit> {
        let evaluated = &self.evaluated.indices[scope.indices_from..];
        self.meter.take(evaluated.len())?;
        let evaluated: BTreeSet<usize> = evaluated.iter().copied().collect();
        let reported = self.problems.len();
        let mut unexpected = Vec::new();
        let mut is_valid = true;
        for (index, item) in items.iter().enumerate().filter(|(index, _)| !evaluated.contains(index)) {
            is_valid &= self.expected(Token::Index(index), id, item, &mut unexpected)?;
            self.evaluated.indices.push(index);
            if !is_valid && self.is_full() {
                break;
            }
        }
        self.report_unexpected("Unevaluated items", reported, &unexpected);
        Ok(is_valid)
    }

    pub(super) fn unevaluated_properties(
        &mut self,
        id: NodeId,
        fields: &'v Map<String, Value>,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let evaluated = &self.evaluated.names[scope.names_from..];
        self.meter.take(evaluated.len())?;
        let evaluated: BTreeSet<&str> = evaluated.iter().copied().collect();
        let reported = self.problems.len();
        let mut unexpected = Vec::new();
        let mut is_valid = true;
        for (name, field) in fields.iter().filter(|(name, _)| !evaluated.contains(name.as_str())) {
            is_valid &= self.expected(Token::Name(name), id, field, &mut unexpected)?;
            self.evaluated.names.push(name);
            if !is_valid && self.is_full() {
                break;
            }
        }
        self.report_unexpected("Unevaluated properties", reported, &unexpected);
        Ok(is_valid)
    }
}
