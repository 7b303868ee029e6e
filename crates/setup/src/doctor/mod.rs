//! Inspects what the machine offers to runs, for `posse doctor`: the sandbox, programs, the state directory, settings,
//! providers.
//!
//! Each check has a finding and a remedy. A remedy that names a command, a flag or a variable has the words of the
//! front end ([`MachineWords`]).

mod hooks;
mod models;
mod programs;
mod sandbox;
mod state;

use std::time::Duration;

use posse::api::{CheckStatus as Status, MachineCheck, MachineReport};
use posse::sandbox::{Machine, Sandbox};

use crate::models::http;
use crate::settings::project::ProjectFile;
use crate::settings::{SEARCH_KEYS, Settings};
use crate::{Remedy, Setup};

/// How long the server of web searches may take to answer.
const SEARCH_PATIENCE: Duration = Duration::from_secs(3);

/// What a user can do about a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineRemedy {
    /// A text that fits every front end.
    Hint(String),
    /// List the existing settings, or unset a variable that is not meant as one.
    ListSettings,
    /// Set a directory for runs.
    SetStateDir,
    /// Set a directory for runs that the user can create.
    SetOwnStateDir,
    /// Make the state directory writable for the user, or set another one.
    MakeStateDirWritable,
    /// Repair the state directory, or set another one.
    FixStateDir,
    /// Move the state directory to a filesystem with overlays, on a kernel that supports them in user namespaces.
    MoveStateDirForOverlays,
    /// Start the process in its own scope, with cgroups that it may use.
    DelegateCgroups,
    /// Informs that these promises do not hold without namespaces.
    UnkeptPromises(Vec<String>),
    /// Read the settings of a project's file, and trust it.
    TrustProject,
    /// Set the key of a provider, or use a model that needs none.
    SetKey,
}

/// The words of a front end for remedies and defaults.
pub trait MachineWords: Sync {
    /// The text of a remedy.
    fn remedy(&self, remedy: &MachineRemedy) -> String;
    /// Describes the default model of runs.
    fn default_model(&self, model: &str) -> String;
}

/// The result of one check.
#[derive(Debug)]
struct MachineFinding {
    name: &'static str,
    status: Status,
    value: String,
    remedy: Option<MachineRemedy>,
}

/// A finding that needs no action.
fn passed(name: &'static str, value: impl Into<String>) -> MachineFinding {
    MachineFinding { name, status: Status::Ok, value: value.into(), remedy: None }
}

/// A finding with a remedy.
fn short(
    name: &'static str,
    status: Status,
    value: impl Into<String>,
    remedy: MachineRemedy,
) -> MachineFinding {
    MachineFinding { name, status, value: value.into(), remedy: Some(remedy) }
}

/// A finding about settings that cannot be used.
fn not_checked(name: &'static str) -> MachineFinding {
    short(name, Status::Note, "not checked: fix the settings first", hint("`settings` names the problem"))
}

fn hint(text: impl Into<String>) -> MachineRemedy {
    MachineRemedy::Hint(text.into())
}

/// Inspects the machine without creating or changing anything.
pub async fn inspect(setup: &Setup, words: &dyn MachineWords) -> MachineReport {
    let machine = Machine::probe();
    // Unreadable settings have a separate line below. The sandbox is checked without them.
    let resolved = Settings::own(&setup.environment).unwrap_or_default();
    let options = setup.sandbox(&resolved).unwrap_or_default();
    let sandboxes = Sandbox::new(options);
    let level = sandboxes.level().await;
    let environment = &setup.environment;
    let mut findings = vec![sandbox::sandbox(level.as_ref())];
    findings.extend(sandbox::layers(&machine));
    findings.extend(sandbox::caches(setup, &sandboxes, level.is_ok()).await);
    findings.extend(sandbox::workspaces(setup, &sandboxes, level.is_ok(), resolved.workspace.kind()));
    findings.push(programs::bash(environment));
    findings.push(programs::git(programs::version_of_git().as_deref()));
    let store = posse::store_description();
    findings.push(passed(store.name, store.version));
    findings.push(state::state(setup));
    findings.push(settings(setup));
    findings.extend(project_settings(setup));
    findings.push(hooks::hooks(setup));
    findings.push(models::providers(&resolved, environment, words));
    findings.push(models::prices(&resolved, environment));
    findings.extend(sandbox::reads(&resolved, environment));
    findings.push(search(setup).await);
    let check = |MachineFinding { name, status, value, remedy }| MachineCheck {
        name: name.to_owned(),
        status,
        value,
        remedy: remedy.as_ref().map(|remedy| words.remedy(remedy)),
    };
    MachineReport {
        ok: findings.iter().all(|finding| finding.status != Status::Missing),
        posse: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: machine.kernel,
        root: machine.root,
        sandbox: level.ok().map(|level| level.to_string()),
        checks: findings.into_iter().map(check).collect(),
    }
}

fn settings(setup: &Setup) -> MachineFinding {
    let (name, environment) = ("settings", &setup.environment);
    let file = environment.settings_file.as_ref();
    let shown = file.map_or_else(|| "the file".to_owned(), |file| file.display().to_string());
    match Settings::own(environment)
        .and_then(|own| own.check(setup).and_then(|()| setup.sandbox(&own).map(drop)))
    {
        Err(error) => {
            let remedy = match &error.remedy {
                // A variable has no file.
                Some(Remedy::ListSettings) => MachineRemedy::ListSettings,
                Some(Remedy::Hint(text)) => MachineRemedy::Hint(text.clone()),
                _ => hint("fix or remove the file"),
            };
            short(name, Status::Missing, error.message(), remedy)
        }
        Ok(()) if file.is_some_and(|file| file.exists()) => passed(name, shown),
        Ok(()) => passed(name, format!("defaults ({shown} does not exist)")),
    }
}

/// A finding for each settings file of the project.
fn project_settings(setup: &Setup) -> Vec<MachineFinding> {
    let name = "project";
    let finding = |file: &ProjectFile| match file.settings.clone().map(|settings| settings.check(setup)) {
        Err(error) | Ok(Err(error)) if file.is_trusted() => {
            short(name, Status::Missing, error.message(), hint("fix or remove the file"))
        }
        Err(error) => short(name, Status::Note, error.message(), hint("its settings are ignored")),
        Ok(Err(error)) => short(name, Status::Note, error.message(), hint("that part has no effect")),
        Ok(Ok(())) if file.is_trusted() => passed(name, format!("{} (trusted)", file.path.display())),
        Ok(Ok(())) => short(
            name,
            Status::Note,
            format!("{} may only narrow", file.path.display()),
            MachineRemedy::TrustProject,
        ),
    };
    match ProjectFile::find(setup, &setup.environment.cwd) {
        Err(error) => vec![short(name, Status::Missing, error.message(), hint("fix or remove the file"))],
        Ok(files) => files.iter().map(finding).collect(),
    }
}

async fn search(setup: &Setup) -> MachineFinding {
    let environment = &setup.environment;
    // Names only: a value would end up in a bug report.
    let is_set =
        |name: &&str| environment.variables.iter().any(|(own, value)| own == name && !value.is_empty());
    let present: Vec<&str> = SEARCH_KEYS.into_iter().filter(is_set).collect();
    let Ok(settings) = Settings::own(environment) else { return not_checked("web search") };
    let configured = settings.search.is_set();
    if let Some(url) = settings.search.address().filter(|_| configured)
        && let Ok(http) = http(&settings, setup)
        && !http.answers(url, SEARCH_PATIENCE).await
    {
        let remedy = hint("start the server, or correct search.url in the settings");
        return short("web search", Status::Note, format!("{url} does not answer"), remedy);
    }
    match (configured, present.as_slice()) {
        (true, []) => passed("web search", "configured"),
        (true, keys) => passed("web search", format!("configured; set: {}", keys.join(", "))),
        (false, _) => short(
            "web search",
            Status::Note,
            "no provider, so `websearch` is refused",
            hint("settings: `search: {provider: searxng, url: ...}`, or brave or tavily with a key"),
        ),
    }
}
