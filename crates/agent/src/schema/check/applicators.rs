//! Checks the keywords that apply other schemas to the same value.

use serde_json::{Map, Value};

use super::super::meter::Limit;
use super::super::node::NodeId;
use super::super::words;
use super::{Checker, Scope};

/// Most alternatives of which the first problem is shown.
const REASONS_MAX: usize = 3;
/// Most steps to find the problem of one alternative. They do not count: the verdict is known before.
const REASON_STEPS_MAX: usize = 5_000;

impl<'s, 'v> Checker<'s, 'v> {
    pub(super) fn all_of(
        &mut self,
        ids: &'s [NodeId],
        value: &'v Value,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let mut is_valid = true;
        for id in ids {
            if !self.check(*id, value, scope.tracks)? {
                is_valid = false;
                if self.is_full() {
                    break;
                }
            }
        }
        Ok(is_valid)
    }

    pub(super) fn any_of(
        &mut self,
        ids: &'s [NodeId],
        value: &'v Value,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let mut is_valid = false;
        for id in ids {
            is_valid |= self.verdict(*id, value, scope.tracks)?;
            // Each alternative that is valid evaluates something else.
            if is_valid && !scope.tracks {
                break;
            }
        }
        if !is_valid && !self.is_full() {
            let reasons = self.reasons(ids, value);
            self.report(|| words::no_alternative("anyOf", value, &reasons));
        }
        Ok(is_valid)
    }

    pub(super) fn one_of(
        &mut self,
        ids: &'s [NodeId],
        value: &'v Value,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let mut first = None;
        for (index, id) in ids.iter().enumerate() {
            if !self.verdict(*id, value, scope.tracks)? {
                continue;
            }
            if let Some(first) = first {
                self.report(|| words::two_alternatives(value, first, index));
                return Ok(false);
            }
            first = Some(index);
        }
        if first.is_none() && !self.is_full() {
            let reasons = self.reasons(ids, value);
            self.report(|| words::no_alternative("oneOf", value, &reasons));
        }
        Ok(first.is_some())
    }

    /// Why the first alternatives failed, with the ones that fit best first: a problem deep in the value says more than
    /// one at its beginning. Alternatives within alternatives have no reasons, so a check takes at most twice its time.
    fn reasons(&mut self, ids: &'s [NodeId], value: &'v Value) -> Vec<String> {
        if self.is_explanation {
            return Vec::new();
        }
        let (meter, most, depth, scope) = (self.meter, self.most, self.path.len(), self.scope(false));
        let problems = std::mem::take(&mut self.problems);
        let mut found = Vec::new();
        (self.is_explanation, self.most) = (true, 1);
        for (index, id) in ids.iter().take(REASONS_MAX).enumerate() {
            self.meter = meter.with_steps(REASON_STEPS_MAX);
            // An alternative that takes more steps than that has no reason to show.
            let _ = self.check(*id, value, false);
            found.extend(self.problems.pop().map(|problem| (index, problem)));
            self.problems.clear();
            self.path.truncate(depth);
            self.forget(scope);
            self.most = 1;
        }
        (self.is_explanation, self.most, self.meter, self.problems) = (false, most, meter, problems);
        found.sort_by_key(|(_, problem)| std::cmp::Reverse(problem.depth));
        found.into_iter().map(|(index, problem)| words::reason(index, &problem.text)).collect()
    }

    pub(super) fn not(&mut self, id: NodeId, value: &'v Value) -> Result<bool, Limit> {
        let is_valid = !self.verdict(id, value, false)?;
        if !is_valid {
            self.report(|| format!("{} is valid under the schema of the 'not' keyword", words::quote(value)));
        }
        Ok(is_valid)
    }

    pub(super) fn condition(
        &mut self,
        test: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
        value: &'v Value,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let branch = if self.verdict(test, value, scope.tracks)? { then } else { otherwise };
        branch.map_or(Ok(true), |branch| self.check(branch, value, scope.tracks))
    }

    pub(super) fn dependent_schemas(
        &mut self,
        schemas: &'s [(String, NodeId)],
        fields: &'v Map<String, Value>,
        value: &'v Value,
        scope: Scope,
    ) -> Result<bool, Limit> {
        let mut is_valid = true;
        for (name, id) in schemas {
            self.meter.take_name(name)?;
            if fields.contains_key(name) && !self.check(*id, value, scope.tracks)? {
                is_valid = false;
                if self.is_full() {
                    break;
                }
            }
        }
        Ok(is_valid)
    }
}
