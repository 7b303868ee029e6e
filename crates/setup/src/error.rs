//! What is wrong with what a user set up: settings, files, models, a request.
//!
//! The library states what is wrong and which remedy there is; what to type for it is for each front end to say
//! ([`Remedy`]), because a flag means nothing to a page or a protocol.

use std::fmt;
use std::path::PathBuf;

use posse::discovery::Holds;

/// Why something could not be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SetupError {
    /// By what a user can do about it.
    pub kind: SetupErrorKind,
    /// The part of a request that it is about, if it is about one.
    pub subject: Option<Subject>,
    message: String,
    /// What to do next.
    pub remedy: Option<Remedy>,
}

/// The kinds of errors, by what a user can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupErrorKind {
    /// What was asked for, or a file it needs, cannot be right; nothing was done.
    Usage,
    /// A key is missing or cannot be one; nothing was done.
    Unauthenticated,
    /// It could not be carried out.
    Failed,
}

/// The parts of a request that an error can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The definition of the root.
    Agent,
    /// Definitions that were given with the request.
    Agents,
    /// The skill that was named.
    Skill,
    /// The working directory.
    Dir,
}

/// What a user can do about an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// A change of a file or a setting, in words that fit every front end.
    Hint(String),
    /// State a directory for runs.
    SetStateDir,
    /// Make the state directory writable, or state another one.
    MakeStateDirWritable,
    /// Look at the settings that exist, or unset a variable that is not meant as one.
    ListSettings,
    /// Name the model that is at the given address.
    NameModelAtAddress,
    /// Set the key of a provider, for example in one of these variables, or name a model.
    SetKeyOrModel(Vec<&'static str>),
    /// Set the price of a model with this entry of the settings, if it can have one, or do without the limit.
    SetPrice(Option<String>),
    /// Write the plan to a file and read it before a run carries it out.
    ReadPlanFirst,
    /// Take trust back from some files.
    RevokeTrust,
    /// Look at the skills that exist.
    ListSkills,
    /// Name a file or folder that such a check reads.
    NameFileFor(Holds),
    /// Check this file as one of the other kind.
    CheckAs(Holds),
    /// Read the log of a process in the background.
    ReadLog(PathBuf),
}

impl SetupError {
    fn new(kind: SetupErrorKind, message: impl Into<String>) -> Self {
        Self { kind, subject: None, message: message.into(), remedy: None }
    }

    /// What was asked for cannot be right.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(SetupErrorKind::Usage, message)
    }

    /// A key is missing or cannot be one.
    pub fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(SetupErrorKind::Unauthenticated, message)
    }

    /// It could not be carried out.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(SetupErrorKind::Failed, message)
    }

    /// A part of a request cannot be right.
    pub fn about(subject: Subject, message: impl Into<String>) -> Self {
        Self { subject: Some(subject), ..Self::usage(message) }
    }

    /// The same error with a remedy.
    pub fn remedy(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// The same error with a remedy whose words fit every front end.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        self.remedy(Remedy::Hint(hint.into()))
    }

    /// What is wrong, without the part of the request that it is about and without a remedy.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// All of it, for tests.
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
    /// The settings are wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The directory cannot be opened.
    #[error(transparent)]
    Posse(#[from] posse::Error),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Subject::Agent => "agent",
            Subject::Agents => "agents",
            Subject::Skill => "skill",
            Subject::Dir => "dir",
        })
    }
}
