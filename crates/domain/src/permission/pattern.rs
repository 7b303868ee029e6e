//! Patterns of rules: `tool`, `tool:specifier`, or `*`.
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | every operation of every tool |
//! | `bash`, `bash:*` | every operation of the tool |
//! | `bash:git status*` | specifiers with this beginning; `*` is anything, `/` and line ends too |
//! | `webfetch:docs.rs`, `task:explore` | exactly this specifier |
//! | `write:src/*.rs` | for [`PATH_TOOLS`](super::PATH_TOOLS): `*` stays within one name |
//! | `write:src/**` | `**` crosses `/`; a closing `/**` matches the directory itself too |
//! | `read:**/.env` | `**/` is any number of directories, including zero |
//! | `bash@sub:make` | exactly this command, started in that directory of the workspace |
//! | `bash:echo \*` | `\*` and `\\` are a star and a backslash |
//! | `todo:\` | a lone backslash: the tool used without a specifier |
//!
//! No other character is special: `?`, `[` and `{` match themselves, and case matters.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use super::matcher::{Matcher, escape};
use super::operation::{
    BASH, IN_DIR, Operation, decoded, encoded, has_parent_directory, is_from_elsewhere, is_path_tool,
    one_spelling,
};
use super::tool::{InvalidToolName, ToolName};
use crate::skill::{DELEGATE_TO_AGENT, SKILL_TOOL};
use crate::text::clip;

/// Maximum length of a pattern: the longest path fits, and no user types more.
pub const PATTERN_MAX_BYTES: usize = 4096;
/// Maximum length of a pattern in an error message.
const SHOWN_MAX_CHARS: usize = 80;

/// The tools whose specifier is the name of a skill.
const SKILL_TOOLS: [&str; 2] = [SKILL_TOOL, DELEGATE_TO_AGENT];

/// A text that is not a valid pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{pattern}` is not a permission pattern: {problem}")]
pub struct InvalidPattern {
    /// The text, shortened if it is long.
    pub pattern: String,
    #[source]
    pub problem: PatternProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternProblem {
    #[error("it has more than {PATTERN_MAX_BYTES} bytes")]
    TooLong,
    /// The text before the colon is not a tool name.
    #[error(transparent)]
    Tool(#[from] InvalidToolName),
    /// `*:something`.
    #[error("`*` stands for every tool and takes no specifier")]
    EveryToolSpecifier,
    /// `bash:`.
    #[error("nothing follows the colon; write the tool alone for all of its uses")]
    EmptySpecifier,
    /// A backslash before a character other than a star or a backslash.
    #[error("a backslash stands only before `*` or another backslash; write `\\\\` for the character itself")]
    Escape,
    /// A path with `..`, which never matches.
    #[error("a path with `..` is always denied, so the pattern would never match")]
    ParentDirectory,
    /// A path from outside the workspace, which never matches.
    #[error(
        "paths are relative to the workspace; any other is always denied, so the pattern would never match"
    )]
    NotBeneath,
    /// `write:src/`.
    #[error("a path that ends in `/` would never match; write `/**` for all that is beneath")]
    ClosingSlash,
}

/// The operations that a rule is about. Cheap to clone. Patterns are equal if their texts are.
#[derive(Clone)]
pub struct Pattern(Arc<PatternParts>);

struct PatternParts {
    /// The text of the pattern, with normalised paths.
    text: Box<str>,
    /// None matches every tool.
    tool: Option<ToolName>,
    /// The start directory. None matches any.
    workdir: Option<Box<str>>,
    matcher: Matcher,
}

impl Pattern {
    /// The pattern that matches exactly this operation, for a stored "always": a text from a model never becomes a
    /// wildcard. Fails only for operations that are denied anyway or too long to store.
    pub fn literal(operation: &Operation<'_>) -> Result<Self, InvalidPattern> {
        let specifier = escape(operation.specifier().unwrap_or_default());
        let dir = operation.workdir().map(|dir| format!("{IN_DIR}{}", encoded(dir))).unwrap_or_default();
        format!("{}{dir}:{specifier}", operation.tool()).parse()
    }

    pub fn matches(&self, operation: &Operation<'_>) -> bool {
        let tool_fits = self.0.tool.as_ref().is_none_or(|tool| tool.as_str() == operation.tool());
        let dir_fits = self.0.workdir.is_none() || self.0.workdir.as_deref() == operation.workdir();
        tool_fits && dir_fits && self.0.matcher.matches(operation.specifier().unwrap_or_default())
    }

    /// Whether the pattern approves the operation. A literal command, which "always" stores, approves it only in the
    /// directory where it was started. A pattern with a wildcard approves a class of commands in every directory.
    pub(super) fn approves(&self, operation: &Operation<'_>) -> bool {
        let same_dir = self.0.workdir.as_deref() == operation.workdir();
        self.matches(operation) && (same_dir || !matches!(self.0.matcher, Matcher::Exact(_)))
    }

    /// Whether the specifier begins with a literal and not with a wildcard.
    pub(super) fn names_something(&self) -> bool {
        let specifier = self.as_str().split_once(':').map_or("", |(_, specifier)| specifier);
        !specifier.is_empty() && !specifier.starts_with('*')
    }

    /// Whether the pattern can match an operation of any of these tools.
    pub fn is_about_any(&self, tools: &[&str]) -> bool {
        self.0.tool.as_ref().is_none_or(|tool| tools.contains(&tool.as_str()))
    }

    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let parsed = parse(text)
            .map_err(|problem| InvalidPattern { pattern: clip(text, SHOWN_MAX_CHARS), problem })?;
        Ok(Self(Arc::new(parsed)))
    }
}

fn parse(text: &str) -> Result<PatternParts, PatternProblem> {
    if text.len() > PATTERN_MAX_BYTES {
        return Err(PatternProblem::TooLong);
    }
    match text.split_once(':') {
        None if text == "*" => {
            Ok(PatternParts { text: text.into(), tool: None, workdir: None, matcher: Matcher::Every })
        }
        None => {
            let tool = Some(text.parse()?);
            Ok(PatternParts { text: text.into(), tool, workdir: None, matcher: Matcher::Every })
        }
        Some(("*", _)) => Err(PatternProblem::EveryToolSpecifier),
        Some((_, "")) => Err(PatternProblem::EmptySpecifier),
        Some((tool, specifier)) => match tool.split_once(IN_DIR) {
            // Only commands have a start directory.
            Some((BASH, dir)) if !dir.is_empty() => {
                let parsed = parse_specified(BASH.parse()?, specifier)?;
                let text = format!("{tool}:{specifier}").into();
                Ok(PatternParts { text, workdir: Some(decoded(dir).into()), ..parsed })
            }
            _ => parse_specified(tool.parse()?, specifier),
        },
    }
}

fn parse_specified(tool: ToolName, specifier: &str) -> Result<PatternParts, PatternProblem> {
    let (specifier, matcher) = if is_path_tool(tool.as_str()) {
        if has_parent_directory(specifier) {
            return Err(PatternProblem::ParentDirectory);
        }
        if specifier.len() > 1 && specifier.ends_with('/') {
            return Err(PatternProblem::ClosingSlash);
        }
        let specifier = one_spelling(specifier);
        // Checked after normalising: `./~/x` becomes `~/x`, which is not a pattern.
        if is_from_elsewhere(&specifier) {
            return Err(PatternProblem::NotBeneath);
        }
        let matcher = Matcher::path(&specifier)?;
        (specifier, matcher)
    } else if SKILL_TOOLS.contains(&tool.as_str()) {
        // Normalised as in operations: users write skills as commands, and in any case.
        let specifier = specifier.strip_prefix('/').unwrap_or(specifier).to_ascii_lowercase();
        let matcher = Matcher::text(&specifier)?;
        (specifier.into(), matcher)
    } else {
        (specifier.into(), Matcher::text(specifier)?)
    };
    let text = format!("{tool}:{specifier}").into();
    Ok(PatternParts { text, tool: Some(tool), workdir: None, matcher })
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pattern {}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "`tool`, `tool:specifier` with `*` and `**`, or `*` for every tool",
            "examples": ["bash:git push*", "write:src/**", "webfetch:docs.rs", "task:explore", "*"],
            "minLength": 1,
            "maxLength": PATTERN_MAX_BYTES,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, operation: &str) -> bool {
        let pattern: Pattern = pattern.parse().expect(pattern);
        pattern.matches(&Operation::parse(operation))
    }

    #[test]
    fn a_tool_alone_matches_all_of_its_uses() {
        for pattern in ["bash", "bash:*", "bash:**", "*"] {
            assert!(matches(pattern, "bash"), "{pattern}");
            assert!(matches(pattern, "bash:rm -rf /\nls"), "{pattern}");
        }
        assert!(!matches("bash", "bash2:ls") && !matches("bash:*", "read:ls"));
        assert!(matches("*", "server__tool"));
    }

    #[test]
    fn a_star_in_a_command_is_anything() {
        assert!(matches("bash:git status*", "bash:git status"));
        assert!(matches("bash:git status*", "bash:git status -s src/a"));
        assert!(!matches("bash:git status*", "bash:sudo git status"));
        assert!(matches("bash:*--force*main", "bash:git push --force origin main"));
        assert!(!matches("bash:*--force*main", "bash:git push --force origin main2"));
        assert!(!matches("bash:ab*ba", "bash:aba"), "the pieces do not overlap");
        assert!(matches("webfetch:docs.rs", "webfetch:docs.rs"));
        assert!(!matches("webfetch:docs.rs", "webfetch:docs.rs.evil.example"));
        assert!(!matches("task:explore", "task:explorer"));
    }

    #[test]
    fn a_star_in_a_path_stays_in_one_name() {
        assert!(matches("write:src/*.rs", "write:src/a.rs"));
        assert!(!matches("write:src/*.rs", "write:src/deep/a.rs"));
        assert!(matches("read:*", "read:a") && !matches("read:*", "read:a/b"));
        assert!(matches("write:*/gen/*", "write:a/gen/b") && !matches("write:*/gen/*", "write:a/b/gen/c"));
    }

    #[test]
    fn two_stars_cross_directories() {
        for path in ["src", "src/", "src/a", "src/a/b/c", "./src/a"] {
            assert!(matches("write:src/**", &format!("write:{path}")), "{path}");
        }
        assert!(!matches("write:src/**", "write:src2/a") && !matches("write:src/**", "write:a/src/b"));
        for path in [".env", "a/.env", "a/b/.env"] {
            assert!(matches("read:**/.env", &format!("read:{path}")), "{path}");
        }
        assert!(!matches("read:**/.env", "read:a.env") && !matches("read:**/.env", "read:a/x.env"));
        assert!(matches("read:a/**/b", "read:a/b") && matches("read:a/**/b", "read:a/x/y/b"));
        assert!(!matches("read:a/**/b", "read:a/xb"));
        assert!(matches("read:**", "read:.") && matches("read:**", "read:/etc/passwd"));
        assert!(matches("read:src/**.rs", "read:src/a/b.rs"));
    }

    #[test]
    fn a_path_pattern_has_one_spelling_too() {
        let pattern: Pattern = "write:./src//gen/**".parse().expect("pattern");
        assert_eq!(pattern.as_str(), "write:src/gen/**");
        assert!(matches("list:.", "list:./"));
    }

    #[test]
    fn a_bad_pattern_is_an_error_that_names_it() {
        let long = format!("bash:{}", "x".repeat(PATTERN_MAX_BYTES));
        for bad in [
            "",
            ":",
            "bash:",
            ":x",
            "*:x",
            "re*d",
            "a b:c",
            "bash:\\d",
            "bash:a\\",
            "read:../x",
            "read:/etc/**",
            "read:/",
            "write:~/x",
            "list:~",
            "write:src/",
            &long,
        ] {
            let error = bad.parse::<Pattern>().expect_err(bad).to_string();
            assert!(error.contains(&format!("`{}`", clip(bad, SHOWN_MAX_CHARS))), "{error}");
        }
    }

    #[test]
    fn a_skill_is_meant_however_its_name_is_written() {
        for pattern in ["skill:PDF", "skill:/pdf", "skill:/P*", "skill:pdf"] {
            assert!(matches(pattern, "skill:pdf"), "{pattern}");
        }
        assert!(matches("delegate_to_agent:Review", "delegate_to_agent:review"));
        assert!(!matches("bash:LS", "bash:ls"), "elsewhere case matters");
    }

    #[test]
    fn a_literal_matches_nothing_else() {
        let literal = |text| Pattern::literal(&Operation::parse(text)).expect(text);
        assert_eq!(literal("bash:rm *").as_str(), r"bash:rm \*");
        assert!(!literal("bash:rm *").matches(&Operation::parse("bash:rm x")));
        assert!(literal("todo").matches(&Operation::parse("todo")));
        assert!(!literal("todo").matches(&Operation::parse("todo:x")));
        for denied in ["read:../x", "read:/", "read:/etc/passwd", "read:~/x"] {
            assert!(Pattern::literal(&Operation::parse(denied)).is_err(), "{denied}");
        }
    }

    #[test]
    fn a_hostile_pattern_is_not_slow() {
        let pattern: Pattern = format!("read:{}b", "*a".repeat(1000)).parse().expect("pattern");
        let path = "a".repeat(4000);
        assert!(!pattern.matches(&Operation::new("read", Some(&path))));
        let pattern: Pattern = format!("bash:{}b", "*a".repeat(1000)).parse().expect("pattern");
        let command = "a".repeat(128 * 1024);
        assert!(!pattern.matches(&Operation::new("bash", Some(&command))));
    }
}
