//! The permissions of a request: what it allows, asks and denies.

use posse::{Approvals, Decision, Pattern, Rule, Rules};
use posse_definitions::about_no_tool;
use posse_domain::permission::{APPROVALS_MAX, RULES_MAX};

use crate::error::{Remedy, SetupError, Subject};

/// The permissions of one run.
#[derive(Debug, Clone, Default)]
pub struct RunPermissions {
    /// The operations that the user allows in advance.
    pub allow: Vec<Pattern>,
    /// The run's own rules, in order: the last rule that matches an operation wins.
    pub rules: Vec<Rule>,
}

impl RunPermissions {
    /// Refuses a pattern for a tool that does not exist, because a misspelled rule would protect nothing, and one that is
    /// both allowed and denied.
    pub fn check(&self, tools: &[&'static str]) -> Result<(), SetupError> {
        let rules = self.rules.iter().map(|rule| (rule.decision, &rule.pattern));
        let allowed = self.allow.iter().map(|pattern| (Decision::Allow, pattern));
        for (decision, pattern) in allowed.chain(rules) {
            if let Some(problem) = about_no_tool(pattern, tools) {
                return Err(SetupError::about(Subject::Permission(decision), problem));
            }
        }
        let is_denied = |pattern: &&Pattern| {
            self.rules.iter().any(|rule| rule.decision == Decision::Deny && rule.pattern == **pattern)
        };
        if let Some(pattern) = self.allow.iter().find(is_denied) {
            let problem = format!("`{pattern}` is also denied, and a denied operation stays denied");
            return Err(SetupError::about(Subject::Permission(Decision::Allow), problem)
                .remedy(Remedy::Hint("remove one of the two; nothing was started".to_owned())));
        }
        Ok(())
    }

    /// The rules of the run, and all approvals: of the request, and those stored for its directory.
    pub(super) fn with_stored(self, stored: &Approvals) -> Result<(Rules, Approvals), SetupError> {
        let too_many = |decision, most| {
            SetupError::about(Subject::Permission(decision), format!("more than {most} patterns"))
        };
        if self.rules.len() > RULES_MAX {
            return Err(too_many(Decision::Deny, RULES_MAX));
        }
        if self.allow.len() > APPROVALS_MAX {
            return Err(too_many(Decision::Allow, APPROVALS_MAX));
        }
        let approvals = self.allow.into_iter().chain(stored.iter().cloned()).take(APPROVALS_MAX).collect();
        Ok((self.rules.into(), approvals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_does_not_exist_is_refused_with_the_one_that_was_meant() {
        let tools = ["bash", "write"];
        let rule = |pattern: &str, decision| RunPermissions {
            rules: vec![Rule { pattern: pattern.parse().expect("a pattern"), decision }],
            ..RunPermissions::default()
        };
        for (pattern, decision) in
            [("bash:rm *", Decision::Deny), ("*", Decision::Ask), ("gh__x", Decision::Deny)]
        {
            assert_eq!(rule(pattern, decision).check(&tools), Ok(()), "{pattern}");
        }
        let allowed = RunPermissions {
            allow: vec!["network".parse().expect("a pattern")],
            ..RunPermissions::default()
        };
        assert_eq!(allowed.check(&tools), Ok(()));
        let error = rule("Bash:rm *", Decision::Deny).check(&tools).expect_err("no such tool");
        assert_eq!(error.subject, Some(Subject::Permission(Decision::Deny)));
        assert!(error.message().contains("`Bash` (did you mean `bash`?)"), "{error}");
    }

    #[test]
    fn a_pattern_that_is_both_allowed_and_denied_is_refused() {
        let pattern = |text: &str| -> Pattern { text.parse().expect("a pattern") };
        let both = |allowed: &str, decision| RunPermissions {
            allow: vec![pattern(allowed)],
            rules: vec![Rule { pattern: pattern("bash"), decision }],
        };
        let error = both("bash", Decision::Deny).check(&["bash"]).expect_err("both");
        assert!(error.message().contains("`bash` is also denied"), "{error}");
        assert_eq!(both("bash:ls", Decision::Deny).check(&["bash"]), Ok(()), "a part of it");
        assert_eq!(both("bash", Decision::Ask).check(&["bash"]), Ok(()));
    }

    #[test]
    fn what_is_stored_for_a_directory_counts_beside_what_the_request_allows() {
        let pattern = |text: &str| -> Pattern { text.parse().expect("a pattern") };
        let permissions = RunPermissions { allow: vec![pattern("network")], rules: Vec::new() };
        let stored: Approvals = [pattern("list:.")].into_iter().collect();
        let (_, approvals) = permissions.with_stored(&stored).expect("permissions");
        assert_eq!(approvals.iter().map(Pattern::as_str).collect::<Vec<_>>(), ["network", "list:."]);
        let many = RunPermissions { allow: vec![pattern("network"); APPROVALS_MAX + 1], rules: Vec::new() };
        let error = many.with_stored(&stored).expect_err("too many");
        assert_eq!(error.subject, Some(Subject::Permission(Decision::Allow)));
    }
}
