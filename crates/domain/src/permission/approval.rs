//! Operations that a user allowed in advance.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::operation::{NETWORK, Operation};
use super::pattern::Pattern;

/// Maximum number of approvals of a run. No user approves more, and each is compared for every `ask`.
pub const APPROVALS_MAX: usize = 1_000;

/// A user's `--allow` patterns and the literals stored by an answer of "always".
///
/// They hold for a whole run. They only lift an `ask` of a definition, the agent's own or an ancestor's. They are not a
/// layer: a layer could only lower the decision. The answer to a single question is not here either: it is bound to one
/// call and stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Approvals(Arc<[Pattern]>);

impl Approvals {
    pub fn none() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn with(&self, pattern: Pattern) -> Self {
        self.0.iter().cloned().chain([pattern]).collect()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The pattern that approves the operation.
    pub fn find(&self, operation: &Operation<'_>) -> Option<&Pattern> {
        // The network is not a tool, so a wildcard for all tools does not approve it.
        let meant = |pattern: &&Pattern| operation.tool() != NETWORK || pattern.as_str() == NETWORK;
        self.0.iter().filter(meant).find(|pattern| pattern.approves(operation))
    }

    /// The pattern that names the operation's target: it matches from the beginning of the specifier, so a wildcard for
    /// everything names nothing. Only a named target opens a protected name or an address that is not public.
    pub fn naming(&self, operation: &Operation<'_>) -> Option<&Pattern> {
        self.0.iter().find(|pattern| pattern.names_something() && pattern.matches(operation))
    }

    /// The patterns in the order in which they were added.
    pub fn iter(&self) -> std::slice::Iter<'_, Pattern> {
        self.0.iter()
    }
}

impl FromIterator<Pattern> for Approvals {
    fn from_iter<I: IntoIterator<Item = Pattern>>(patterns: I) -> Self {
        Self(patterns.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Approvals {
    type Item = &'a Pattern;
    type IntoIter = std::slice::Iter<'a, Pattern>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::approvals;
    use super::*;

    #[test]
    fn what_was_approved_word_for_word_is_approved_where_it_was_started() {
        for (approved, operation, covered) in [
            ("bash:make", "bash:make", true),
            ("bash:make", "bash@sub:make", false),
            ("bash@sub:make", "bash@sub:make", true),
            ("bash@sub:make", "bash:make", false),
            ("bash@sub:make", "bash@sub/deeper:make", false),
            ("bash@sub:make", "bash@sub:make all", false),
            ("bash@a%3Ab:make", "bash@a%3Ab:make", true),
            // A wildcard for commands matches in every directory.
            ("bash", "bash@sub:make", true),
            ("bash:*", "bash@sub:make", true),
            ("bash:make*", "bash@sub:make", true),
            ("bash@sub:make*", "bash:make", false),
            ("*", "bash@sub:make", true),
            ("bash@sub:*", "bash@sub:rm", true),
        ] {
            let found = approvals(&[approved]).find(&Operation::parse(operation)).is_some();
            assert_eq!(found, covered, "{approved} and {operation}");
        }
    }

    #[test]
    fn what_always_keeps_names_the_directory() {
        for (operation, kept) in [
            (Operation::new("bash", Some("make")), "bash:make"),
            (Operation::new("bash", Some("make")).in_dir(Some("sub")), "bash@sub:make"),
            (Operation::new("bash", Some("echo *")).in_dir(Some("a b")), r"bash@a b:echo \*"),
        ] {
            let literal = Pattern::literal(&operation).expect("a literal");
            assert_eq!(literal.as_str(), kept);
            assert!(Approvals::none().with(literal.clone()).find(&operation).is_some(), "{kept}");
            let text = literal.as_str().parse::<Pattern>().expect(kept);
            assert_eq!(text, literal, "it reads as it is written");
        }
        assert!("write@sub:a".parse::<Pattern>().is_err(), "only commands start somewhere");
    }

    #[test]
    fn a_rule_is_about_a_command_wherever_it_starts() {
        let rule: Pattern = "bash:rm*".parse().expect("a pattern");
        assert!(rule.matches(&Operation::parse("bash@sub:rm -r x")));
    }
}
