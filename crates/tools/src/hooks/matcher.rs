//! Which tools and sub-agents a hook hears of, in the spelling of Posse or of others.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use posse_agent::definition::spelled_elsewhere;

/// Longest matcher.
const MATCHER_MAX_BYTES: usize = 4 * 1024;
/// Most memory that a compiled expression may take.
const REGEX_MAX_BYTES: usize = 1024 * 1024;

/// Which tools or sub-agents a hook hears of.
#[derive(Debug, Clone)]
pub struct Matcher(Kind);

#[derive(Debug, Clone)]
enum Kind {
    All,
    Names(Vec<String>),
    Regex(RegexMatcher),
}

impl Matcher {
    /// Reads one as it is written: nothing and `*` are all; words with `|` between them are whole names; anything else is
    /// a regular expression that matches somewhere in the name.
    pub fn parse(text: Option<&str>) -> Result<Self, String> {
        let text = text.unwrap_or_default().trim();
        if text.is_empty() || text == "*" {
            return Ok(Self(Kind::All));
        }
        if text.len() > MATCHER_MAX_BYTES {
            return Err(format!("the matcher is longer than {MATCHER_MAX_BYTES} bytes"));
        }
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '|' | ' ');
        if text.chars().all(is_plain) {
            let names = text.split('|').map(str::trim).filter(|name| !name.is_empty());
            return Ok(Self(Kind::Names(names.map(str::to_owned).collect())));
        }
        let mut regex = RegexMatcherBuilder::new();
        let regex = regex.size_limit(REGEX_MAX_BYTES).dfa_size_limit(REGEX_MAX_BYTES).build(text);
        regex.map(|regex| Self(Kind::Regex(regex))).map_err(|error| {
            format!("the matcher `{text}` is neither names with `|` between them nor a regular expression: {error}")
        })
    }

    /// The whole names that it is about; none if it is about all or is an expression.
    pub fn names(&self) -> &[String] {
        match &self.0 {
            Kind::Names(names) => names,
            Kind::All | Kind::Regex(_) => &[],
        }
    }

    /// Whether it is about the tool or definition of this name.
    pub fn matches(&self, name: &str) -> bool {
        let one = |name: &str| match &self.0 {
            Kind::All => true,
            Kind::Names(names) => names.iter().any(|known| known == name),
            Kind::Regex(regex) => regex.is_match(name.as_bytes()).unwrap_or(true),
        };
        one(name) || spelled_elsewhere(name).iter().any(|name| one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_our_names_and_by_those_of_others() {
        let heard = |text: &str, name: &str| Matcher::parse(Some(text)).expect(text).matches(name);
        for (text, name) in [
            ("Bash", "bash"),
            ("bash", "bash"),
            ("Write|Edit|MultiEdit", "edit"),
            ("Edit | Write", "write"),
            ("Task", "task"),
            ("Agent", "task"),
            ("delegate_to_agent", "delegate_to_agent"),
            ("*", "anything"),
            ("", "anything"),
            (".*", "anything"),
            ("^Bash$", "bash"),
            ("Web.*", "webfetch"),
            ("mcp__.*__write.*", "mcp__files__write_all"),
            ("code-reviewer", "code-reviewer"),
        ] {
            assert!(heard(text, name), "{text} and {name}");
        }
        for (text, name) in [
            ("Bash", "webfetch"),
            ("Bas", "bash"),
            ("Write", "edit"),
            ("BASH", "bash"),
            ("^Web$", "webfetch"),
            ("|", "bash"),
        ] {
            assert!(!heard(text, name), "{text} and {name}");
        }
        assert!(Matcher::parse(None).expect("all").matches("bash"));
    }

    #[test]
    fn what_is_no_expression_is_said_to_be_none() {
        for text in ["(", "a{99999999}", "[z-a]", &"x.".repeat(MATCHER_MAX_BYTES)] {
            let problem = Matcher::parse(Some(text)).expect_err(text);
            assert!(problem.contains("matcher"), "{problem}");
        }
    }
}
