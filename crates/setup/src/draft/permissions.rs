//! The permissions of a request: what it allows, asks and denies.

use posse::{Approvals, Decision, Pattern, Rule, Rules};
use posse_definitions::about_no_tool;
use posse_domain::permission::{APPROVALS_MAX, RULES_MAX};

use crate::error::{SetupError, Subject};

/// The permissions of one run.
#[derive(Debug, Clone, Default)]
pub struct RunPermissions {
    /// The operations that the user allows in advance.
    pub allow: Vec<Pattern>,
    /// The run's own rules, in order: the last rule that matches an operation wins.
    pub rules: Vec<Rule>,
}

impl RunPermissions {
    /// Refuses a pattern for a tool that does not exist: a misspelled rule would protect nothing.
    pub fn check(&self, tools: &[&'static str]) -> Result<(), SetupError> {
        let rules = self.rules.iter().map(|rule| (rule.decision, &rule.pattern));
        let allowed = self.allow.iter().map(|pattern| (Decision::Allow, pattern));
        for (decision, pattern) in allowed.chain(rules) {
            if let Some(problem) = about_no_tool(pattern, tools) {
                return Err(SetupError::about(Subject::Permission(decision), problem));
            }
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
