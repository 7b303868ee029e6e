//! What the libraries refuse, as problem documents: which part of an HTTP request is wrong, and what a client can do.

use axum::http::StatusCode;
use posse::discovery::DefinitionType;
use posse::ports::StoreError;
use posse::{AgentId, ApplyError, Decision, Error, HistoryError, RequestField, RuntimeError};
use posse_setup::doctor::{MachineRemedy, MachineWords};
use posse_setup::{Note, OpenError, Remedy, SetupError, SetupErrorKind, Subject};

use super::problem::{Problem, ProblemCode};

/// How many files of a conflict a remedy names.
const PATHS_NAMED_MAX: usize = 5;

impl From<SetupError> for Problem {
    fn from(error: SetupError) -> Self {
        let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
        let message = error.message();
        let problem = match error.kind {
            SetupErrorKind::Usage => Problem::new(unprocessable, ProblemCode::Refused, message),
            SetupErrorKind::Unauthenticated => {
                Problem::new(unprocessable, ProblemCode::ModelKeyMissing, message)
            }
            SetupErrorKind::Failed => Problem::failed(message),
        };
        let problem = match error.subject {
            Some(subject) => problem.field(field_of(subject)),
            None => problem,
        };
        match error.remedy {
            Some(remedy) => problem.remedy(words(&remedy)),
            None => problem,
        }
    }
}

impl From<OpenError> for Problem {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Setup(error) => error.into(),
            OpenError::Posse(error) => error.into(),
        }
    }
}

/// The field of a request for a run.
fn field_of(subject: Subject) -> &'static str {
    match subject {
        Subject::Text => "request",
        Subject::Agent => "agent",
        Subject::Agents => "agents",
        Subject::Skill => "skill",
        Subject::Dir => "dir",
        Subject::Permission(Decision::Allow) => "allow",
        Subject::Permission(Decision::Ask) => "ask",
        Subject::Permission(Decision::Deny) => "deny",
    }
}

/// What a client of the API can do.
fn words(remedy: &Remedy) -> String {
    let text = match remedy {
        Remedy::Hint(text) => return text.clone(),
        Remedy::NameDir(dir) => return format!("confirm with `dir`: `{dir}`; nothing was started"),
        Remedy::SetKeyOrModel(variables) => {
            return format!(
                "start the server with {} or another provider's key, or name a model with `settings.model`",
                variables.join(", ")
            );
        }
        Remedy::SetPrice(Some(entry)) => {
            return format!(
                "set the price in your own settings, in dollars for a million tokens: `{entry}`; or run without this \
                 limit: `agent.max_usd` is `none`"
            );
        }
        Remedy::ReadLog(path) => return format!("its last lines may be in {}", path.display()),
        Remedy::NameModelOf(provider) => {
            return format!("name a model of this provider with `settings.model`: `{provider}/<model>`");
        }
        Remedy::SetPrice(None) => "run without this limit: `agent.max_usd` is `none`",
        Remedy::SetStateDir => "start the server with a state directory of your own",
        Remedy::MakeStateDirWritable => "make it writable, or start the server with another state directory",
        Remedy::ListSettings => "`GET /api/v1/settings` lists all settings",
        Remedy::NameModelAtAddress => "name the model with `settings.model`, as `openai-compatible/<name>`",
        Remedy::ReadPlanFirst => "read the plan first, and send it with `plan`",
        Remedy::RevokeTrust => "revoke the trust of some files; nothing was stored",
        Remedy::ListSkills => "`GET /api/v1/skills` lists the skills with their origins",
        Remedy::NameFileFor(DefinitionType::Agents) => "name a Markdown file, or a folder of them",
        Remedy::NameFileFor(DefinitionType::Skills) => {
            "name a SKILL.md, a folder with one, a YAML skill, or a folder of these"
        }
        Remedy::CheckAs(DefinitionType::Agents) => "check it as an agent definition",
        Remedy::CheckAs(DefinitionType::Skills) => "check it as a skill",
        Remedy::TrustProject => {
            "read the project's files that are not trusted, and trust them on the server's machine"
        }
        Remedy::ShowSettings => "`GET /api/v1/settings` shows the settings in effect",
        Remedy::NameOtherModel => "name another model with `settings.model`",
        Remedy::LimitTokens => "limit tokens instead, with `agent.max_tokens`",
        Remedy::Validate(_) | Remedy::ShowDefinitions => {
            "`GET /api/v1/agents` and `GET /api/v1/skills` show why"
        }
    };
    text.to_owned()
}

/// A note as one line, with its field and its remedy.
pub(super) fn note_line(note: &Note) -> String {
    let mut line = match note.subject {
        Some(subject) => format!("{}: {}", field_of(subject), note.text),
        None => note.text.clone(),
    };
    if let Some(remedy) = &note.remedy {
        line.push_str("; ");
        line.push_str(&words(remedy));
    }
    line
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let detail = error.to_string();
        let missing = |code| Problem::new(StatusCode::NOT_FOUND, code, detail.clone());
        let conflict = |code| Problem::conflict(code, detail.clone());
        match error {
            Error::Invalid { field, problem } => about_field(field, problem),
            Error::NoRun(_) | Error::Ambiguous { .. } => missing(ProblemCode::UnknownRun),
            Error::Removed { .. } => Problem::new(StatusCode::GONE, ProblemCode::RemovedRun, detail),
            Error::NoAgent(_) => missing(ProblemCode::UnknownAgent),
            Error::NoEvent { .. } => {
                Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidCursor, detail)
            }
            Error::Ended { .. } => conflict(ProblemCode::RunEnded),
            Error::StillRunning(_) | Error::AgentStillRunning(_) => conflict(ProblemCode::NotEnded),
            Error::NotCompleted { .. } | Error::AgentNotCompleted { .. } => {
                conflict(ProblemCode::NotCompleted)
                    .remedy("read the diff, then send `unfinished` with the request")
            }
            Error::NoFiles(_) => missing(ProblemCode::NotThere),
            Error::NotAsked { .. } => conflict(ProblemCode::NotAsked),
            Error::Store(error) | Error::History(HistoryError::Store(error)) => error.into(),
            Error::Runtime(error) => error.into(),
            Error::NotApplied { agent, problem, branch, .. } => not_applied(&agent, &problem, branch, detail),
            Error::NotUndone { agent, problem, .. } => not_applied(&agent, &problem, None, detail),
            Error::IsReplay { .. } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, detail)
            }
            Error::Files { .. }
            | Error::Cleaning(_)
            | Error::Server(_)
            | Error::BundleName(_)
            | Error::OldKernel
            | Error::ExportExists(_)
            | Error::NotExported { .. }
            | Error::Bundle(_)
            | Error::Workspace(_)
            | Error::History(_) => Problem::failed(detail),
        }
    }
}

/// Work that was not applied, or an apply that was not taken back. Nothing was written.
fn not_applied(agent: &AgentId, problem: &ApplyError, branch: Option<String>, detail: String) -> Problem {
    let conflict = |code, remedy: String| Problem::conflict(code, detail.clone()).remedy(remedy);
    match problem {
        ApplyError::Conflict(found) | ApplyError::ChangedSince(found) => {
            let mut paths: Vec<&str> = found.files.iter().map(|file| file.path.as_str()).collect();
            paths.truncate(PATHS_NAMED_MAX);
            let by_hand =
                branch.map(|branch| format!(", or merge the branch `{branch}`")).unwrap_or_default();
            let remedy = format!("the user changed {} since: undo these changes{by_hand}", paths.join(", "));
            conflict(ProblemCode::Conflict, remedy)
        }
        ApplyError::NotApplied => Problem::conflict(ProblemCode::NotThere, detail),
        ApplyError::Refused { .. } => {
            conflict(ProblemCode::Refused, format!("the diff of {agent} shows its changes"))
        }
        ApplyError::Moved { .. } => conflict(ProblemCode::Conflict, "send the request again".to_owned()),
        ApplyError::Workspace(_) => Problem::failed(detail),
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let detail = error.to_string();
        match error {
            StoreError::UnknownRun(_) => Problem::new(StatusCode::NOT_FOUND, ProblemCode::UnknownRun, detail),
            StoreError::MailboxFull(_) => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Busy, detail)
            }
            StoreError::Fenced { .. } => Problem::conflict(ProblemCode::ExecutedElsewhere, detail),
            _ => Problem::failed(detail),
        }
    }
}

impl From<RuntimeError> for Problem {
    fn from(error: RuntimeError) -> Self {
        let detail = error.to_string();
        match error {
            RuntimeError::Invalid { field, problem } => about_field(field, problem),
            RuntimeError::Store(error) => error.into(),
            RuntimeError::Unavailable { .. } => {
                Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, detail)
            }
            RuntimeError::Stopped { .. } => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::Draining, detail)
            }
            RuntimeError::NotStarted { .. }
            | RuntimeError::Damaged { .. }
            | RuntimeError::Inconsistent { .. } => Problem::failed(detail),
        }
    }
}

/// An invalid part of a run request, under the name that it has in the API.
fn about_field(field: RequestField, problem: String) -> Problem {
    let name = match field {
        RequestField::Agent => "agent",
        RequestField::Agents | RequestField::Definitions | RequestField::Catalogue => "agents",
        RequestField::Approvals => "allow",
        RequestField::BudgetAgents => "settings.agent.max_agents",
        RequestField::BudgetUsd => "settings.agent.max_usd",
        RequestField::BudgetTime => "settings.agent.max_time",
        RequestField::BudgetTokens => "settings.agent.max_tokens",
        RequestField::Continues => "continues",
        RequestField::Dir => "dir",
        RequestField::Model | RequestField::Replay => "settings.model",
        RequestField::Operation => "operation",
        RequestField::Parallel => "settings.agent.parallel",
        RequestField::Prompt | RequestField::Request => "request",
        RequestField::Rules => "deny",
        RequestField::Skill => "skill",
        RequestField::Turns => "settings.agent.max_turns",
    };
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, problem).field(name)
}

/// The remedies of an inspected machine for a client of the API.
pub(super) struct ApiWords;

impl MachineWords for ApiWords {
    fn remedy(&self, remedy: &MachineRemedy) -> String {
        let text = match remedy {
            MachineRemedy::Hint(text) => text,
            MachineRemedy::ListSettings => {
                "`GET /api/v1/settings` lists all settings; unset the variable if it is not meant for Posse"
            }
            MachineRemedy::SetStateDir | MachineRemedy::SetOwnStateDir => {
                "start the server with a state directory of your own"
            }
            MachineRemedy::MakeStateDirWritable => "change its owner to you, or use another state directory",
            MachineRemedy::FixStateDir => "fix it, or use another state directory",
            MachineRemedy::MoveStateDirForOverlays => {
                "keep the state directory on a filesystem that supports overlays, such as ext4, xfs or btrfs; the \
                 kernel must be Linux 5.11 or newer"
            }
            MachineRemedy::DelegateCgroups => "start the server in a scope of its own with delegated cgroups",
            MachineRemedy::UnkeptPromises(promises) => {
                return format!("not all promises hold without namespaces: {}", promises.join("; "));
            }
            MachineRemedy::TrustProject => "trust the project's settings on the server's machine",
            MachineRemedy::SetKey => "start the server with a key, or use a local or a scripted model",
        };
        text.to_owned()
    }

    fn default_model(&self, model: &str) -> String {
        format!("without `settings.model`: {model}")
    }
}
