//! API types of discovered agents and skills, for the `agents` and `skills` commands.

use std::path::Path;

use posse_definitions::Severity;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Decision, Definition, Skill};

/// Where a definition or a skill comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionSource {
    /// A file of the project, whose author may not be the user.
    Project,
    /// A file of the user.
    User,
    /// Part of Posse.
    BuiltIn,
}

/// Whether a definition is the one that its name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DefinitionStanding {
    /// Its name refers to it.
    Used,
    /// Another definition of the same name comes before it.
    Shadowed,
    /// It would come before another of the same name, but the user does not trust it yet.
    WaitsForTrust,
}

/// How important a finding about a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    /// For information.
    Note,
    /// Something in the file is wrong.
    Problem,
}

/// A finding about a definition or skill file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileFinding<'a> {
    file: &'a str,
    /// The line, from 1; null if the finding is about the whole file.
    line: Option<u64>,
    level: FindingLevel,
    problem: &'a str,
    /// What the user can do about it.
    fix: Option<&'a str>,
}

impl<'a> FileFinding<'a> {
    /// Converts the findings of a parser.
    pub fn list(warnings: &'a [posse_definitions::Warning]) -> Vec<Self> {
        warnings.iter().map(Self::new).collect()
    }

    /// Converts one finding of a parser.
    pub fn new(warning: &'a posse_definitions::Warning) -> Self {
        Self {
            file: &warning.file,
            line: warning.line,
            level: match warning.level {
                Severity::Note => FindingLevel::Note,
                Severity::Problem => FindingLevel::Problem,
            },
            problem: &warning.problem,
            fix: warning.fix.as_deref(),
        }
    }
}

/// An agent definition or a skill in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DefinitionEntry<'a> {
    /// The name by which requests and agents use it.
    pub name: &'a str,
    /// When to use it.
    pub description: &'a str,
    /// Where it comes from.
    pub origin: DefinitionSource,
    /// Its file; null for a built-in one.
    pub path: Option<&'a Path>,
    /// Whether its name refers to it.
    pub standing: DefinitionStanding,
    /// The file of the definition that shadows it, if one does.
    pub shadowed_by: Option<&'a Path>,
    /// Whether the user trusts its content.
    pub trusted: bool,
    /// Problems and notes about its file.
    pub warnings: Vec<FileFinding<'a>>,
}

/// The agents of a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentList<'a> {
    /// Discovered ones in the order of their search directories, then the built-in ones.
    pub agents: Vec<DefinitionEntry<'a>>,
    /// Why files that look like agents cannot be used.
    pub unusable: Vec<FileFinding<'a>>,
}

/// The skills of a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillList<'a> {
    /// In the order of their search directories.
    pub skills: Vec<DefinitionEntry<'a>>,
    /// Why files that look like skills cannot be used.
    pub unusable: Vec<FileFinding<'a>>,
}

/// One agent definition as its agents have it in a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentDetail<'a> {
    /// The definition with the rules that a run adds.
    pub definition: &'a Definition,
    /// Where it comes from.
    pub origin: DefinitionSource,
    /// Its file; null for a built-in one.
    pub path: Option<&'a Path>,
    /// Whether the user trusts its content.
    pub trusted: bool,
    /// A model that its file names but that is not used.
    pub unused_model: Option<&'a str>,
    /// Problems and notes about its file.
    pub warnings: Vec<FileFinding<'a>>,
    /// The file whose text a run adds to the prompt.
    pub agents_md: Option<&'a Path>,
}

/// One skill.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkillDetail<'a> {
    /// The skill as its file describes it.
    pub skill: &'a Skill,
    /// Where it comes from.
    pub origin: DefinitionSource,
    /// Its file.
    pub path: &'a Path,
    /// Whether the user trusts its content.
    pub trusted: bool,
    /// A model that its file names but that is not used.
    pub unused_model: Option<&'a str>,
    /// Problems and notes about its file.
    pub warnings: Vec<FileFinding<'a>>,
    /// The definition of a forked skill's sub-agent in a run; null if the skill is not forked.
    pub definition: Option<&'a Definition>,
    /// The file whose text a run adds to the prompt.
    pub agents_md: Option<&'a Path>,
    /// The decision of a rule about its use in any run here; null if no rule matches.
    pub decision: Option<Decision>,
    /// The rule that decides, in words.
    pub because: Option<String>,
}

/// The result of a strict check of definition or skill files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DefinitionCheck<'a> {
    /// Whether no file has a problem.
    pub ok: bool,
    /// How many files were checked.
    pub files: usize,
    /// All findings, notes included.
    pub problems: Vec<FileFinding<'a>>,
}
