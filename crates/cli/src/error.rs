//! What went wrong, for people: what happened, where, and what to do next.
//!
//! Libraries give each operation its own errors; here they are folded into the few kinds that a person, or a
//! script looking at the exit code, can act on.

use std::io::Write;
use std::process::ExitCode;

use posse::discovery::Holds;
use posse::ports::StoreError;
use posse_setup::{OpenError, Remedy, SetupError, SetupErrorKind, Subject};
use serde::{Deserialize, Serialize};

use crate::commands::apply::not_applied;
use crate::exit::Exit;
use crate::term;

/// Why the command did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CliError {
    kind: ErrorClass,
    message: String,
    hint: Option<String>,
}

/// The kinds of errors, by what a person can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ErrorClass {
    /// What was typed cannot be right; nothing was done.
    Usage,
    /// A key is missing or cannot be one; nothing was done.
    Unauthenticated,
    /// It could not be carried out.
    Failed,
    /// No process is running the run.
    Interrupted,
    /// Whoever read the output has gone: not worth a word.
    ReaderGone,
}

impl CliError {
    fn new(kind: ErrorClass, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// What happened, without what to do about it.
    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What was typed cannot be right.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Usage, message)
    }

    /// A key is missing or cannot be one.
    pub(crate) fn unauthenticated(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Unauthenticated, message)
    }

    /// It could not be carried out.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Failed, message)
    }

    /// No process is running the run.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Interrupted, message)
    }

    /// Whoever read the output has gone.
    pub(crate) fn reader_gone() -> Self {
        Self::new(ErrorClass::ReaderGone, "the reader of the output has gone")
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether the reader of the output has gone.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.kind == ErrorClass::ReaderGone
    }

    /// The exit code that goes with it.
    pub(crate) fn exit(&self) -> Exit {
        match self.kind {
            ErrorClass::Usage => Exit::USAGE,
            ErrorClass::Unauthenticated => Exit::UNAUTHENTICATED,
            ErrorClass::Failed => Exit::FAILED,
            ErrorClass::Interrupted => Exit::INTERRUPTED,
            ErrorClass::ReaderGone => Exit::DONE,
        }
    }

    /// The text on a terminal.
    pub(crate) fn text(&self) -> String {
        let message = term::clean(&self.message);
        match &self.hint {
            Some(hint) => format!("error: {}\nhint: {}\n", message.trim_end(), term::clean(hint)),
            None => format!("error: {}\n", message.trim_end()),
        }
    }

    /// Prints it, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != ErrorClass::ReaderGone {
            // Standard error may be gone too; then nobody is left to tell.
            drop(std::io::stderr().write_all(self.text().as_bytes()));
        }
        self.exit().into()
    }
}

impl From<SetupError> for CliError {
    fn from(error: SetupError) -> Self {
        let message = match error.subject {
            Some(subject) => format!("{}: {}", flag_of(subject), error.message()),
            None => error.message().to_owned(),
        };
        let kind = match error.kind {
            SetupErrorKind::Usage => ErrorClass::Usage,
            SetupErrorKind::Unauthenticated => ErrorClass::Unauthenticated,
            SetupErrorKind::Failed => ErrorClass::Failed,
        };
        Self { kind, message, hint: error.remedy.map(|remedy| remedy_text(&remedy)) }
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Setup(error) => error.into(),
            OpenError::Posse(error) => error.into(),
        }
    }
}

/// The flag with which that part of a request is typed.
fn flag_of(subject: Subject) -> &'static str {
    match subject {
        Subject::Agent => "--agent",
        Subject::Agents => "--agents",
        Subject::Skill => "--skill",
        Subject::Dir => "--dir",
    }
}

/// What to type for a remedy.
fn remedy_text(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Hint(text) => text.clone(),
        Remedy::SetStateDir => "set POSSE_HOME to a directory of your own".to_owned(),
        Remedy::MakeStateDirWritable => "make it writable, or set POSSE_HOME to another directory".to_owned(),
        Remedy::ListSettings => {
            "`posse settings` lists those there are; unset the variable if it is not meant for Posse"
                .to_owned()
        }
        Remedy::NameModelAtAddress => {
            "name it with --model, for example --model openai-compatible/<name>".to_owned()
        }
        Remedy::SetKeyOrModel(variables) => format!(
            "set {} or another provider's key, or name a model with --model provider/name; `posse doctor` lists the \
             providers, and `posse demo` needs none",
            variables.join(", ")
        ),
        Remedy::SetPrice(entry) => {
            let price = entry.as_ref().map(|entry| {
                format!("set it in your own settings, in dollars for a million tokens: `{entry}`; or ")
            });
            let price = price.unwrap_or_default();
            format!("{price}run without this limit: --max-usd none (--max-tokens limits tokens)")
        }
        Remedy::ReadPlanFirst => {
            "write the plan to a file with `posse plan -o`, and read it first".to_owned()
        }
        Remedy::RevokeTrust => "take some back with `posse trust --revoke DIR`; nothing was kept".to_owned(),
        Remedy::ListSkills => "`posse skills` lists what there is, and where from".to_owned(),
        Remedy::NameFileFor(Holds::Agents) => "name a Markdown file, or a folder of them".to_owned(),
        Remedy::NameFileFor(Holds::Skills) => {
            "name a SKILL.md, a folder with one, a YAML skill, or a folder of these".to_owned()
        }
        Remedy::CheckAs(Holds::Agents) => "use `posse agents validate`".to_owned(),
        Remedy::CheckAs(Holds::Skills) => "use `posse skills validate`".to_owned(),
        Remedy::ReadLog(path) => format!("its last words may be in {}", path.display()),
    }
}

impl From<posse::Error> for CliError {
    fn from(error: posse::Error) -> Self {
        let message = error.to_string();
        match error {
            posse::Error::Invalid { field, .. } => about_field(field, message),
            posse::Error::NoRun(_) => CliError::usage(message).hint("`posse ps --all` lists the runs"),
            posse::Error::Ambiguous { .. } => CliError::usage(message).hint("give more letters of the id"),
            posse::Error::NoAgent(agent) => {
                CliError::usage(message).hint(format!("`posse show {}` lists the agents", agent.run()))
            }
            posse::Error::Ended { run, .. } => {
                CliError::failed(message).hint(format!("`posse show {run}` tells how it went"))
            }
            posse::Error::Removed { .. } => {
                CliError::usage(message).hint("an exported copy can be compared with that hash")
            }
            posse::Error::StillRunning(run) => CliError::failed(message).hint(format!(
                "`posse wait {run}` waits for its end; if no process is running it, `posse resume {run}` goes on with it"
            )),
            posse::Error::NotCompleted { run, .. } => CliError::failed(message)
                .hint(format!("look at it with `posse diff {run}`, then `posse apply --unfinished {run}`")),
            posse::Error::InPlace(run) => {
                CliError::failed(message).hint(format!("`posse report {run}` prints what it found"))
            }
            posse::Error::Files { run, .. } => CliError::failed(message)
                .hint(format!("nothing was changed; the journal is whole: `posse show {run}`")),
            posse::Error::Cleaning(_) => CliError::failed(message).hint("fix that, and clean again"),
            posse::Error::NotApplied { run, problem, .. } => not_applied(&run, message, &problem),
            posse::Error::NotAsked { .. } => {
                CliError::failed(message).hint("it was answered meanwhile, or its agent has ended")
            }
            posse::Error::ExportExists(_) => CliError::failed(message)
                .hint("it was left as it is; `--force` replaces it, `--output FILE` writes another"),
            posse::Error::NotExported { .. } => CliError::failed(message)
                .hint("no file was written; fix that, or name a file elsewhere with `--output FILE`"),
            posse::Error::Bundle(posse::BundleError::Newer { .. }) => {
                CliError::usage(message).hint("replay it with the Posse that wrote it, or a newer one")
            }
            posse::Error::Bundle(_) => {
                CliError::usage(message).hint("export the run again with `posse export`; nothing was done with this file")
            }
            posse::Error::Workspace(_) => CliError::failed(message),
            posse::Error::Store(error)
            | posse::Error::History(posse_engine::HistoryError::Store(error)) => error.into(),
            posse::Error::Runtime(error) => error.into(),
            posse::Error::History(posse_engine::HistoryError::Event { run, .. }) => {
                CliError::failed(message).hint(format!("`posse verify {run}` checks it; nothing was changed"))
            }
            posse::Error::History(_) => {
                CliError::failed(message).hint("`posse verify --all` tells which journals are damaged")
            }
        }
    }
}

/// Something in what a run was given is wrong.
fn about_field(field: &str, message: String) -> CliError {
    let error = CliError::usage(message);
    match field {
        "max-tokens" | "max-usd" | "max-time" => error
            .hint(format!("nothing was started; give --{field} more, or lift the limit with --{field} none")),
        _ => error,
    }
}

impl From<posse_engine::RuntimeError> for CliError {
    fn from(error: posse_engine::RuntimeError) -> Self {
        use posse_engine::RuntimeError;
        let message = error.to_string();
        match error {
            RuntimeError::Invalid { field, .. } => about_field(field, message),
            RuntimeError::Store(error) => error.into(),
            RuntimeError::Damaged { run, .. } => {
                CliError::failed(message).hint(format!("`posse verify {run}` checks it; nothing was changed"))
            }
            RuntimeError::Unavailable { run, .. } => CliError::failed(message).hint(format!(
                "put it back and `posse resume {run}`, or end the run with `posse cancel {run}`"
            )),
            RuntimeError::Inconsistent { run, .. } => CliError::failed(message)
                .hint(format!("this is a fault of Posse: please report it with `posse logs --json {run}`")),
            RuntimeError::Stopped { .. } => CliError::interrupted(message),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        let failed = CliError::failed(message);
        match error {
            StoreError::Newer { .. } => failed.hint(
                "use the Posse that wrote it, or set POSSE_HOME to another directory; it was left as it is",
            ),
            StoreError::Full(_) => failed.hint("make room; what is written is safe, and runs can be resumed"),
            StoreError::ReadOnly(_) => {
                failed.hint("make it writable, or set POSSE_HOME to another directory")
            }
            StoreError::Corrupt { .. } => failed.hint(
                "it was left as it is; bring back a copy of the directory, or set POSSE_HOME to another",
            ),
            StoreError::Damaged { run, .. } => {
                failed.hint(format!("`posse verify {run}` checks it; nothing was changed"))
            }
            StoreError::Fenced { run, .. } => {
                failed.hint(format!("another process goes on with it: `posse logs -f {run}` follows"))
            }
            StoreError::UnknownRun(_) => {
                CliError::usage(failed.message).hint("`posse ps --all` lists the runs")
            }
            _ => failed,
        }
    }
}
