//! Errors of the command for users: what happened, where, and what to do next.
//!
//! Libraries have separate errors for each operation. Here they are mapped to the few kinds that a user, or a script
//! that reads the exit code, can act on.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use posse::discovery::DefinitionType;
use posse::ports::{StoreError, StorePart};
use posse::remote::ServerError;
use posse::{Decision, RequestField};
use posse_setup::{OpenError, Remedy, SetupError, SetupErrorKind, Subject};
use serde::{Deserialize, Serialize};

use crate::commands::apply::{NotApplied, not_undone};
use crate::exit::Exit;
use crate::output::fitting;
use crate::term;

/// Why the command failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CliError {
    kind: ErrorClass,
    message: String,
    hint: Option<String>,
    /// The part of the store that the error is about, until its file is named.
    part: Option<StorePart>,
}

/// The kinds of errors, by what a user can do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum ErrorClass {
    /// The input is invalid. Nothing was done.
    Usage,
    /// A key is missing or malformed. Nothing was done.
    Unauthenticated,
    /// The operation failed.
    Failed,
    /// No process is running the run.
    Interrupted,
    /// The reader of the output has gone: nothing is printed.
    ReaderGone,
}

impl CliError {
    fn new(kind: ErrorClass, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, part: None }
    }

    /// An error of the kind `Usage`.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Usage, message)
    }

    /// An error of the kind `Failed`.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Failed, message)
    }

    /// An error of the kind `Interrupted`.
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Interrupted, message)
    }

    /// An error of the kind `ReaderGone`.
    pub(crate) fn reader_gone() -> Self {
        Self::new(ErrorClass::ReaderGone, "the program that read the output has exited")
    }

    /// Adds what to do next.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Names the file of the store that the error is about. Errors of a store name none, because other front ends may
    /// show them on another machine.
    pub(crate) fn in_state_dir(mut self, dir: &Path) -> Self {
        if let Some(part) = self.part.take() {
            self.message = format!("{}: {}", posse::store_path(dir, part).display(), self.message);
        }
        self
    }

    pub(crate) fn is_reader_gone(&self) -> bool {
        self.kind == ErrorClass::ReaderGone
    }

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
        let message = without_error_numbers(&term::clean(&self.message));
        match &self.hint {
            Some(hint) => format!("error: {}\nhint: {}\n", message.trim_end(), term::clean(hint)),
            None => format!("error: {}\n", message.trim_end()),
        }
    }

    /// Prints the error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        if self.kind != ErrorClass::ReaderGone {
            // Standard error may be closed too. Then the text is lost.
            drop(std::io::stderr().write_all(fitting(&self.text()).as_bytes()));
        }
        self.exit().into()
    }
}

/// What the system library adds to the words of an error.
const ERROR_NUMBER: &str = " (os error ";

/// The text without the numbers of the system's errors, whose words begin with a small letter within a sentence.
fn without_error_numbers(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(ERROR_NUMBER) {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        let Some(behind) = after[digits..].strip_prefix(')').filter(|_| digits > 0) else {
            shown.push_str(before);
            shown.push_str(ERROR_NUMBER);
            rest = after;
            continue;
        };
        match before.rsplit_once(": ") {
            Some((lead, words)) => {
                shown.push_str(lead);
                shown.push_str(": ");
                let mut letters = words.chars();
                shown.extend(letters.next().into_iter().flat_map(char::to_lowercase));
                shown.push_str(letters.as_str());
            }
            None => shown.push_str(before),
        }
        rest = behind;
    }
    shown.push_str(rest);
    shown
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
        Self { hint: error.remedy.map(|remedy| remedy_text(&remedy)), ..Self::new(kind, message) }
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

/// The flag for a part of a request.
pub(crate) fn flag_of(subject: Subject) -> &'static str {
    match subject {
        Subject::Text => "REQUEST",
        Subject::Agent => "--agent",
        Subject::Agents => "--agents",
        Subject::Skill => "--skill",
        Subject::Dir => "--dir",
        Subject::Permission(Decision::Allow) => "--allow",
        Subject::Permission(Decision::Ask) => "--ask",
        Subject::Permission(Decision::Deny) => "--deny",
    }
}

/// What to type for a remedy.
pub(crate) fn remedy_text(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Hint(text) => text.clone(),
        Remedy::SetStateDir => "set POSSE_HOME to a directory of your own".to_owned(),
        Remedy::NameDir(dir) => {
            format!("change to the directory of a project, or confirm with --dir {dir}; nothing was started")
        }
        Remedy::MakeStateDirWritable => "make it writable, or set POSSE_HOME to another directory".to_owned(),
        Remedy::ListSettings => {
            "`posse settings` lists all settings; unset the variable if it is not meant for Posse".to_owned()
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
        Remedy::RevokeTrust => "revoke some with `posse trust --revoke DIR`; nothing was stored".to_owned(),
        Remedy::ListSkills => "`posse skills` lists the skills with their origins".to_owned(),
        Remedy::NameFileFor(DefinitionType::Agents) => "name a Markdown file, or a folder of them".to_owned(),
        Remedy::NameFileFor(DefinitionType::Skills) => {
            "name a SKILL.md, a folder with one, a YAML skill, or a folder of these".to_owned()
        }
        Remedy::CheckAs(DefinitionType::Agents) => "use `posse agents validate`".to_owned(),
        Remedy::CheckAs(DefinitionType::Skills) => "use `posse skills validate`".to_owned(),
        Remedy::ReadLog(path) => format!("its last lines may be in {}", path.display()),
        Remedy::TrustProject => "`posse trust` shows them".to_owned(),
        Remedy::ShowSettings => "`posse settings` shows them".to_owned(),
        Remedy::NameOtherModel => "change with --model or with `model` in the settings".to_owned(),
        Remedy::NameModelOf(provider) => format!("name one with --model {provider}/<model>"),
        Remedy::LimitTokens => "--max-tokens limits tokens".to_owned(),
        Remedy::Validate(kinds) => {
            let verb = |holds: &DefinitionType| match holds {
                DefinitionType::Agents => "`posse agents validate`",
                DefinitionType::Skills => "`posse skills validate`",
            };
            let verbs: Vec<&str> = kinds.iter().map(verb).collect();
            let shows = if verbs.len() > 1 { "show" } else { "shows" };
            format!("{} {shows} why", verbs.join(" and "))
        }
        Remedy::ShowDefinitions => "`posse agents show` and `posse skills show` show why".to_owned(),
    }
}

impl From<posse::Error> for CliError {
    fn from(error: posse::Error) -> Self {
        let message = error.to_string();
        match error {
            posse::Error::Invalid { field, problem } => about_field(field, &problem),
            posse::Error::Server(ServerError::Refused { status, remedy, .. }) => {
                let error = if matches!(status, 400 | 404 | 422) { CliError::usage(message) } else { CliError::failed(message) };
                match remedy {
                    Some(remedy) => error.hint(remedy),
                    None => error,
                }
            }
            posse::Error::Server(ServerError::Unreachable { .. }) => {
                CliError::failed(message).hint("check its address, and that `posse serve` runs there")
            }
            posse::Error::NoRun(_) => CliError::usage(message).hint("`posse ps --all` lists the runs"),
            posse::Error::Ambiguous { .. } => CliError::usage(message).hint("give more letters of the id"),
            posse::Error::NoAgent(agent) => {
                CliError::usage(message).hint(format!("`posse show {}` lists the agents", agent.run()))
            }
            posse::Error::NoEvent { run, .. } => {
                CliError::usage(message).hint(format!("`posse logs {run}` lists the events"))
            }
            posse::Error::Ended { run, .. } => {
                CliError::failed(message).hint(format!("`posse show {run}` shows its result"))
            }
            posse::Error::Removed { .. } => {
                CliError::usage(message).hint("an exported copy can be compared with that hash")
            }
            posse::Error::StillRunning(run) => CliError::failed(message).hint(format!(
                "`posse wait {run}` waits for its end; if no process is running it, `posse resume {run}` continues it"
            )),
            posse::Error::NotCompleted { run, .. } => CliError::failed(message)
                .hint(format!("read it with `posse diff {run}`, then `posse apply --unfinished {run}`")),
            posse::Error::IsReplay { run, recorded } => CliError::failed(message).hint(format!(
                "`posse diff {run}` shows what it changed{}",
                match recorded.parse::<posse::RunId>() {
                    Ok(recorded) => format!(", and `posse apply {recorded}` applies the recorded run"),
                    Err(_) => String::new(),
                }
            )),
            posse::Error::NoFiles(run) => {
                CliError::failed(message).hint(format!("`posse report {run}` prints its report"))
            }
            posse::Error::Files { run, .. } => CliError::failed(message)
                .hint(format!("nothing was changed; the journal is complete: `posse show {run}`")),
            posse::Error::Cleaning(_) => CliError::failed(message).hint("fix that, then run `posse gc` again"),
            posse::Error::NotApplied { agent, problem, branch, is_unfinished, .. } => {
                let branch = branch.as_deref();
                NotApplied { agent: &agent, problem: &problem, branch, is_unfinished }.error(&message)
            }
            posse::Error::NotUndone { agent, problem, .. } => not_undone(&agent, &message, &problem),
            posse::Error::AgentStillRunning(agent) => CliError::failed(message)
                .hint(format!("`posse diff {agent}` shows its changes so far; `posse wait {agent}` waits for its end")),
            posse::Error::AgentNotCompleted { agent } => CliError::failed(message)
                .hint(format!("read it with `posse diff {agent}`, then `posse apply --unfinished {agent}`")),
            posse::Error::NotAsked { .. } => {
                CliError::failed(message).hint("it was answered meanwhile, or its agent has ended")
            }
            posse::Error::BundleName(_) => CliError::usage(format!("--output: {message}")),
            posse::Error::ExportExists(_) => CliError::failed(message)
                .hint("the file was not changed; `--force` replaces it, `--output FILE` writes another"),
            posse::Error::NotExported { .. } => CliError::failed(message)
                .hint("no file was written; fix that, or name a file elsewhere with `--output FILE`"),
            posse::Error::Bundle(posse::BundleError::Newer { .. }) => {
                CliError::usage(message).hint("replay it with the version of Posse that wrote it, or a newer one")
            }
            posse::Error::Bundle(posse::BundleError::Unreadable { .. }) => {
                CliError::usage(message).hint("name a bundle that `posse export` wrote, or a run as `replay/RUN`")
            }
            posse::Error::Bundle(_) => {
                CliError::usage(message).hint("export the run again with `posse export`; nothing was done with this file")
            }
            posse::Error::Workspace(_) | posse::Error::OldKernel => CliError::failed(message),
            posse::Error::Store(error)
            | posse::Error::History(posse::HistoryError::Store(error)) => error.into(),
            posse::Error::Runtime(error) => error.into(),
            posse::Error::History(posse::HistoryError::Event { run, .. }) => {
                CliError::failed(message).hint(format!("`posse verify {run}` checks it; nothing was changed"))
            }
            posse::Error::History(_) => {
                CliError::failed(message).hint("`posse verify --all` lists the damaged journals")
            }
        }
    }
}

/// The error for an invalid part of a run request, with the flag or the argument that sets it.
fn about_field(field: RequestField, problem: &str) -> CliError {
    let flag = match field {
        RequestField::Agent => "--agent",
        RequestField::Agents => "--agents",
        RequestField::Approvals => "--allow",
        RequestField::BudgetAgents => "--max-agents",
        RequestField::BudgetUsd => "--max-usd",
        RequestField::BudgetTime => "--max-time",
        RequestField::BudgetTokens => "--max-tokens",
        // No flag sets what was found on the machine, nor all definitions together.
        RequestField::Catalogue => "discovered definitions",
        RequestField::Continues => "RUN",
        RequestField::Definitions => "definitions",
        RequestField::Dir => "--dir",
        // The model of a replay names the recorded run.
        RequestField::Model | RequestField::Replay => "--model",
        RequestField::Operation => "OPERATION",
        RequestField::Parallel => "--parallel",
        RequestField::Prompt | RequestField::Request => "REQUEST",
        RequestField::Rules => "--ask and --deny",
        RequestField::Skill => "--skill",
        RequestField::Turns => "--max-turns",
    };
    let error = CliError::usage(format!("{flag}: {problem}"));
    match field {
        RequestField::BudgetTokens | RequestField::BudgetUsd | RequestField::BudgetTime => {
            error.hint(format!("nothing was started; raise {flag}, or remove the limit with {flag} none"))
        }
        RequestField::Rules => error.hint("nothing was started; give fewer rules with --ask and --deny"),
        RequestField::Approvals => error.hint("nothing was started; give fewer approvals with --allow"),
        _ => error,
    }
}

impl From<posse::RuntimeError> for CliError {
    fn from(error: posse::RuntimeError) -> Self {
        use posse::RuntimeError;
        let message = error.to_string();
        match error {
            RuntimeError::Invalid { field, problem } => about_field(field, &problem),
            RuntimeError::Store(error) => error.into(),
            RuntimeError::Damaged { run, .. } => {
                CliError::failed(message).hint(format!("`posse verify {run}` checks it; nothing was changed"))
            }
            RuntimeError::NotStarted { .. } => CliError::failed(message),
            RuntimeError::Unavailable { run, .. } => CliError::failed(message).hint(format!(
                "`posse resume {run}` continues the run once this is fixed, and `posse cancel {run}` ends it"
            )),
            RuntimeError::Inconsistent { run, .. } => CliError::failed(message).hint(format!(
                "this is a bug in Posse; please report it with the output of `posse logs --json {run}`"
            )),
            RuntimeError::Stopped { run } => {
                CliError::interrupted(message).hint(format!("`posse resume {run}` continues it"))
            }
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let failed = CliError { part: error.part(), ..CliError::failed(error.to_string()) };
        match error {
            StoreError::Newer { .. } => failed.hint(
                "use the version of Posse that wrote it, or set POSSE_HOME to another directory; nothing was changed",
            ),
            StoreError::Full { .. } => {
                failed.hint("make room; what is written is safe, and runs can be resumed")
            }
            StoreError::ReadOnly { .. } => {
                failed.hint("make it writable, or set POSSE_HOME to another directory")
            }
            StoreError::Corrupt { .. } => failed.hint(
                "nothing was changed; restore a backup of the directory, or set POSSE_HOME to another one",
            ),
            StoreError::Unsuitable { .. } => failed.hint("set POSSE_HOME to a local directory"),
            StoreError::Damaged { run, .. } => {
                failed.hint(format!("`posse verify {run}` checks it; nothing was changed"))
            }
            StoreError::Fenced { run, .. } => {
                failed.hint(format!("another process executes it now: `posse logs -f {run}` follows"))
            }
            StoreError::UnknownRun(_) => {
                CliError::usage(failed.message).hint("`posse ps --all` lists the runs")
            }
            _ => failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_words() {
        for (text, shown) in [
            (
                "--dir: /nope: No such file or directory (os error 2)",
                "--dir: /nope: no such file or directory",
            ),
            ("a: Not a directory (os error 20); b", "a: not a directory; b"),
            ("it printed (os error x)", "it printed (os error x)"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_error_numbers(text), shown);
        }
    }
}
