//! Matches the tools and sub-agents that a hook is called for, by the names of Posse or of other programs.

use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use posse_definitions::spelled_elsewhere;
use posse_engine::ports::Moment;

const MATCHER_MAX_BYTES: usize = 4 * 1024;
/// Maximum memory of a compiled expression.
const REGEX_MAX_BYTES: usize = 1024 * 1024;

/// The tools or sub-agents that a hook is called for.
#[derive(Debug, Clone)]
pub struct Matcher {
    kind: MatcherType,
    /// Whether it matches tools. Otherwise it matches definitions, whose names ignore case.
    about_tools: bool,
}

#[derive(Debug, Clone)]
enum MatcherType {
    All,
    Names(Vec<String>),
    Regex(RegexMatcher),
}

impl Matcher {
    /// Parses the matcher of a hook for this moment. None and `*` match everything, words separated by `|` match whole
    /// names, and any other text is a regular expression that matches anywhere in the name.
    pub fn parse(moment: Moment, text: Option<&str>) -> Result<Self, String> {
        let about_tools = moment.is_about_calls();
        let of = |kind| Self { kind, about_tools };
        let text = text.unwrap_or_default().trim();
        if text.is_empty() || text == "*" {
            return Ok(of(MatcherType::All));
        }
        if text.len() > MATCHER_MAX_BYTES {
            return Err(format!("the matcher is longer than {MATCHER_MAX_BYTES} bytes"));
        }
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '|' | ' ');
        if text.chars().all(is_plain) {
            let names = text.split('|').map(str::trim).filter(|name| !name.is_empty());
            let names: Vec<String> = names.map(str::to_owned).collect();
            if names.is_empty() {
                return Err(format!("the matcher `{text}` names nothing; omit it to match everything"));
            }
            return Ok(of(MatcherType::Names(names)));
        }
        let mut regex = RegexMatcherBuilder::new();
        regex.size_limit(REGEX_MAX_BYTES).dfa_size_limit(REGEX_MAX_BYTES).case_insensitive(!about_tools);
        regex.build(text).map(|regex| of(MatcherType::Regex(regex))).map_err(|error| {
            format!("the matcher `{text}` is neither names with `|` between them nor a regular expression: {error}")
        })
    }

    /// The listed names. Empty if it matches everything or is an expression.
    pub fn names(&self) -> &[String] {
        match &self.kind {
            MatcherType::Names(names) => names,
            MatcherType::All | MatcherType::Regex(_) => &[],
        }
    }

    pub fn is_expression(&self) -> bool {
        matches!(self.kind, MatcherType::Regex(_))
    }

    /// Whether it matches the tool or definition of this name.
    pub fn matches(&self, name: &str) -> bool {
        let same = |known: &str, name: &str| {
            if self.about_tools { known == name } else { known.eq_ignore_ascii_case(name) }
        };
        let one = |name: &str| match &self.kind {
            MatcherType::All => true,
            MatcherType::Names(names) => names.iter().any(|known| same(known, name)),
            MatcherType::Regex(regex) => regex.is_match(name.as_bytes()).unwrap_or(true),
        };
        one(name) || self.about_tools && spelled_elsewhere(name).iter().any(|name| one(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_our_names_and_by_those_of_others() {
        let heard = |text: &str, name: &str| {
            Matcher::parse(Moment::PreToolUse, Some(text)).expect(text).matches(name)
        };
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
        ] {
            assert!(heard(text, name), "{text} and {name}");
        }
        for (text, name) in [
            ("Bash", "webfetch"),
            ("Bas", "bash"),
            ("Write", "edit"),
            ("BASH", "bash"),
            ("^Web$", "webfetch"),
        ] {
            assert!(!heard(text, name), "{text} and {name}");
        }
        assert!(Matcher::parse(Moment::PreToolUse, None).expect("all").matches("bash"));
    }

    #[test]
    fn definitions_are_found_in_capitals_and_without() {
        for (text, name, heard) in [
            ("Explore", "explore", true),
            ("explore|Code-Reviewer", "code-reviewer", true),
            ("^Expl.*", "explore", true),
            ("explore", "explorer", false),
            ("Bash", "run_bash", false),
            ("Task", "task", true),
            ("Agent", "task", false),
        ] {
            let matcher = Matcher::parse(Moment::SubagentStop, Some(text)).expect(text);
            assert_eq!(matcher.matches(name), heard, "{text} and {name}");
        }
    }

    #[test]
    fn what_is_no_expression_is_said_to_be_none() {
        for text in ["(", "a{99999999}", "[z-a]", "|", " | ", &"x.".repeat(MATCHER_MAX_BYTES)] {
            let problem = Matcher::parse(Moment::PreToolUse, Some(text)).expect_err(text);
            assert!(problem.contains("matcher"), "{problem}");
        }
    }
}
