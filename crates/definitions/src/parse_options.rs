//! The options and the result of parsing a definition or a skill: the value, and warnings about its text.

use std::fmt;

use posse_domain::definition::Trust;

/// Maximum number of warnings about one file. More would add nothing new.
pub const WARNINGS_MAX: usize = 50;

/// The severity of a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, but not wrong: a strict check passes.
    Note,
    /// The text is wrong: a strict check fails.
    Problem,
}

/// A warning about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    pub level: Severity,
    /// The file's name in errors.
    pub file: String,
    /// The line, from 1. None for the whole file.
    pub line: Option<u64>,
    /// The problem, with the key's name.
    pub problem: String,
    /// What the user can do about it.
    pub fix: Option<String>,
    /// Whether the problem allows more than the author meant.
    pub widens: bool,
    /// Whether trusting the file resolves the warning.
    pub needs_trust: bool,
}

/// `file:line: problem (fix)`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.problem)?;
        self.fix.as_ref().map_or(Ok(()), |fix| write!(f, " ({fix})"))
    }
}

/// The result of parsing a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile<T> {
    /// The definition or the skill. None if the file cannot be used. Then a warning has the reason.
    pub value: Option<T>,
    /// The warnings, ordered by line.
    pub warnings: Vec<Warning>,
    /// The model that the file names but that is not used.
    pub unused_model: Option<UnusedModel>,
    /// The names of other files that this file refers to, for [`cross_check`](super::cross_check).
    pub mentions: Vec<Mention>,
}

/// A model that a file names but that is not used. The parent's is used instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedModel {
    /// The name as written in the file.
    pub name: String,
    /// Why it is not used, as the end of a sentence.
    pub why: String,
    /// Whether the model check refused the name. Short names and untrusted files are no problem, only a note.
    pub is_wrong: bool,
}

/// The required type of a mentioned name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A definition that the file may spawn.
    Spawns,
    /// The definition that executes a skill.
    Agent,
    /// A skill that an agent may use.
    Skill,
    /// A skill that a skill may delegate to.
    SubAgent,
}

/// A reference to another definition or skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub role: Role,
    /// The name after normalisation.
    pub name: String,
    /// The line, from 1, if it is known.
    pub line: Option<u64>,
}

/// Checks whether a model can be used. Returns its full name, or the reason against it.
pub type ModelCheck<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// How to parse a file.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// The file's name in warnings.
    pub file: &'a str,
    pub known_tools: &'a [&'a str],
    /// Whether the user confirmed the content. If not, its rules allow nothing, its tools are met with those of the
    /// built-in `coder`, and its model is not used.
    pub trust: Trust,
    /// Checks model names. A model that cannot be used is dropped with a warning. Without a check, every name is
    /// accepted except known short names of other tools.
    pub model: Option<&'a ModelCheck<'a>>,
}

impl fmt::Debug for ParseOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, known_tools, trust, model } = self;
        let model = model.map(|_| "given");
        f.debug_struct("ParseOptions")
            .field("file", file)
            .field("known_tools", known_tools)
            .field("trust", trust)
            .field("model", &model)
            .finish()
    }
}

impl ParseOptions<'_> {
    pub(super) fn trusted(&self) -> bool {
        self.trust == Trust::Trusted
    }
}
