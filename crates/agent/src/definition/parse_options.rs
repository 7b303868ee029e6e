//! What reading a definition or a skill gives: the value, and what was odd about its text.

use std::fmt;

use posse_domain::permission::Decision;

/// Most warnings about one file; what follows says nothing new.
pub const WARNINGS_MAX: usize = 50;

/// How much a warning weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing, but nothing is wrong: a strict check passes.
    Note,
    /// Something is wrong with the text; a strict check fails.
    Problem,
}

/// One thing that is odd about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// How much it weighs.
    pub level: Severity,
    /// The file, as its reader was told to call it.
    pub file: String,
    /// The line, from 1; none if the file as a whole is meant.
    pub line: Option<u64>,
    /// What is odd, with the key's name.
    pub problem: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// Whether more is allowed because of it than its writer meant.
    pub widens: bool,
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

/// What came of a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ParsedFile<T> {
    /// The definition or the skill; none if the file cannot be used, and then a warning says why.
    pub value: Option<T>,
    /// What was odd, in the order of its lines.
    pub warnings: Vec<Warning>,
    /// The model that it names and that is not used.
    pub unused_model: Option<UnusedModel>,
    /// The names of others that it gives, for [`cross_check`](super::cross_check).
    pub mentions: Vec<Mention>,
}

/// A model that a file names; its parent's is used in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedModel {
    /// The name, as it is written.
    pub name: String,
    /// Why it is not used, as the end of a sentence.
    pub why: String,
    /// Whether that is nobody's intention: it cannot be used.
    pub is_wrong: bool,
}

/// What a mentioned name has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A definition that it may spawn.
    Spawns,
    /// The definition that a skill is carried out by.
    Agent,
    /// A skill that an agent may use.
    Skill,
    /// A skill that a skill may delegate to.
    SubAgent,
}

/// A name of another definition or skill, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// What it has to be.
    pub role: Role,
    /// The name, as it was understood.
    pub name: String,
    /// The line, from 1, if it is known.
    pub line: Option<u64>,
}

/// Tells whether a model can be used: its full name, or why not.
pub type ModelCheck<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// How a file is to be read.
#[derive(Clone, Copy)]
pub struct ParseOptions<'a> {
    /// What warnings call the file.
    pub file: &'a str,
    /// The tools that exist.
    pub known_tools: &'a [&'a str],
    /// What holds for its tools where no rule matches. Anything but allow means that nobody trusted the content:
    /// then no rule of its own says more than that, its tools are met with those of the built-in `coder`, and its
    /// model is not used.
    pub default: Decision,
    /// Tells whether a model can be used; a name that cannot is left out with a warning. None: every name that is
    /// not known to be another tool's abbreviation is taken as it is.
    pub model: Option<&'a ModelCheck<'a>>,
}

impl fmt::Debug for ParseOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, known_tools, default, model } = self;
        let model = model.map(|_| "given");
        f.debug_struct("Reading")
            .field("file", file)
            .field("known_tools", known_tools)
            .field("default", default)
            .field("model", &model)
            .finish()
    }
}

impl ParseOptions<'_> {
    /// Whether somebody trusted the content.
    pub(super) fn trusted(&self) -> bool {
        self.default == Decision::Allow
    }
}
