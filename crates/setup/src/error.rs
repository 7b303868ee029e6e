//! Errors in what a user set up: settings, files, models, a request.
//!
//! The library states the problem and its remedy. Each front end has its own words for the remedy ([`Remedy`]), because
//! a flag means nothing to a page or a protocol.

use std::fmt;
use std::path::PathBuf;

use posse::Decision;
use posse::discovery::DefinitionType;

/// Why a preparation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    /// The class of the error, by what a user can do about it.
    pub kind: SetupErrorKind,
    /// The part of the request that caused it, if any.
    pub subject: Option<Subject>,
    message: String,
    /// What the user can do next.
    pub remedy: Option<Remedy>,
}

/// The kinds of errors, by what a user can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupErrorKind {
    /// The request, or a file that it needs, is invalid. Nothing was done.
    Usage,
    /// A key is missing or malformed. Nothing was done.
    Unauthenticated,
    /// The operation failed.
    Failed,
}

/// The parts of a request that an error or a note can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The text of the task.
    Text,
    /// The definition of the root.
    Agent,
    /// Definitions that were given with the request.
    Agents,
    /// The named skill.
    Skill,
    /// The working directory.
    Dir,
    /// Patterns of operations with this decision.
    Permission(Decision),
}

/// What a user can do about an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// A change of a file or a setting, as text that fits every front end.
    Hint(String),
    /// Set a directory for runs.
    SetStateDir,
    /// Name the directory of the run if this one is meant.
    NameDir(String),
    /// Make the state directory writable, or set another one.
    MakeStateDirWritable,
    /// List the existing settings, or unset a variable that is not meant as one.
    ListSettings,
    /// Name the model that is at the given base URL.
    NameModelAtAddress,
    /// Set the key of a provider, for example in one of these variables, or name a model.
    SetKeyOrModel(Vec<&'static str>),
    /// Set the price of a model with this entry of the settings, if it can have one, or remove the limit.
    SetPrice(Option<String>),
    /// Write the plan to a file and read it before a run executes it.
    ReadPlanFirst,
    /// Revoke the trust of some files.
    RevokeTrust,
    /// List the existing skills.
    ListSkills,
    /// Name a file or folder that such a check reads.
    NameFileFor(DefinitionType),
    /// Check this file as one of the other kind.
    CheckAs(DefinitionType),
    /// Read the log of a process in the background.
    ReadLog(PathBuf),
    /// Read the project's files that are not trusted, and trust them.
    TrustProject,
    /// Read the settings, including those without effect.
    ShowSettings,
    /// Name another model in the request or in the settings.
    NameOtherModel,
    /// Name a model of this provider.
    NameModelOf(String),
    /// Limit tokens instead of money.
    LimitTokens,
    /// Validate the files of these kinds.
    Validate(Vec<DefinitionType>),
    /// Read the pages of definitions and skills.
    ShowDefinitions,
}

impl SetupError {
    fn new(kind: SetupErrorKind, message: impl Into<String>) -> Self {
        Self { kind, subject: None, message: message.into(), remedy: None }
    }

    /// An error of the kind [`SetupErrorKind::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(SetupErrorKind::Usage, message)
    }

    /// An error of the kind [`SetupErrorKind::Unauthenticated`].
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(SetupErrorKind::Unauthenticated, message)
    }

    /// An error of the kind [`SetupErrorKind::Failed`].
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(SetupErrorKind::Failed, message)
    }

    /// A usage error about one part of the request.
    pub fn about(subject: Subject, message: impl Into<String>) -> Self {
        Self { subject: Some(subject), ..Self::usage(message) }
    }

    /// Adds a remedy.
    pub fn remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Adds a remedy as text that fits every front end.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.remedy(Remedy::Hint(hint.into()))
    }

    /// The problem alone, without the subject and the remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The whole error, for tests.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        let hint = match &self.remedy {
            Some(Remedy::Hint(hint)) => format!("\nhint: {hint}"),
            Some(other) => format!("\nhint: {other:?}"),
            None => String::new(),
        };
        format!("error: {}{hint}\n", self.message)
    }
}

/// Why a state directory could not be opened with a user's settings.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The settings are invalid.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The directory cannot be opened.
    #[error(transparent)]
    Posse(#[from] posse::Error),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Text => "request",
            Subject::Agent => "agent",
            Subject::Agents => "agents",
            Subject::Skill => "skill",
            Subject::Dir => "dir",
            Subject::Permission(Decision::Allow) => "allow",
            Subject::Permission(Decision::Ask) => "ask",
            Subject::Permission(Decision::Deny) => "deny",
        })
    }
}
