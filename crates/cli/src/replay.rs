//! `posse run --model replay/…`: a recorded run, run again.

use std::path::{Path, PathBuf};

use posse::{ModelRegistry, RecordedRun};

use crate::context::Context;
use crate::detach;
use crate::discovery::folders_outside;
use crate::drive::drive_and_print;
use crate::error::CliError;
use crate::exit::Exit;
use crate::hide_state_dir;
use crate::launch::{PreparedRun, working_dir};
use crate::output::{Output, note};
use crate::permissions::PermissionArgs;
use crate::questions::{self, QuestionPrompter};
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

/// A replay as it was asked for.
#[derive(Debug)]
pub(crate) struct ReplayRun {
    /// `replay/<run>` or `replay/<file>`.
    pub(crate) model: String,
    /// The request, if one was given: it must be the recorded one.
    pub(crate) request: Option<String>,
    /// Where a run works that has no files of its own.
    pub(crate) dir: Option<PathBuf>,
    /// What the flags allow, ask and deny.
    pub(crate) permissions: PermissionArgs,
    /// Whether it is carried in the background.
    pub(crate) detach: bool,
    /// Whether events are printed as JSON.
    pub(crate) json: bool,
}

/// Runs a recorded run again.
pub(crate) fn run(replay: &ReplayRun, context: &Context) -> Result<Exit, CliError> {
    let cwd = &context.environment.cwd;
    replay.permissions.are_about(&context.tool_names())?;
    let name = canonical(posse::replayed(&replay.model).unwrap_or_default(), cwd);
    let looking = context.open_read_only()?;
    let (recorded, folders) = runtime::looking(async {
        let recorded = looking.recorded(&name).await?;
        // Only a run of one's own has a folder; what a bundle names is nothing here.
        let folders = match recorded.dir() {
            Some(dir) => folders_outside(&looking.skills(recorded.run()).await?, Path::new(dir)),
            None => Vec::new(),
        };
        Ok::<_, CliError>((recorded, folders))
    })?;
    drop(looking);
    let dir = dir_of(replay, &recorded, cwd)?;
    let place = dir.as_deref().or(recorded.dir()).map(Path::new);
    let settings = context.settings_in(place.unwrap_or(cwd))?;
    let operator_rules = match place {
        Some(place) => hide_state_dir::closed(settings.rules(), place, context.state_dir()?),
        None => settings.rules(),
    };
    let said = (operator_rules, replay.permissions.clone());
    let mut prepared =
        PreparedRun::of_replay(recorded.model().to_owned(), replay.request.clone(), dir.clone(), said)?;
    prepared.local.skill_folders = folders;
    for line in recorded.notes(&prepared.request.terms.approvals, dir.as_deref().map(Path::new)) {
        note(&format!("note: {line}"));
    }
    if replay.detach {
        return detach(replay, &prepared, context);
    }
    runtime::driving(async {
        let mut signals = Signals::listen()?;
        let posse =
            context.open_with_skills(ModelRegistry::new(cwd), &settings, &prepared.local.skill_folders)?;
        let attended = questions::attended(replay.json);
        let starting = posse.replay(&recorded, prepared.request, attended);
        let handle = match signals.unless_one_comes(starting).await {
            Ok(started) => started?,
            Err(ask) => return Ok(ask.exit()),
        };
        let asking = if attended { QuestionPrompter::here() } else { QuestionPrompter::without_terminal() };
        drive_and_print(&posse, &handle, 0, &mut signals, View::new(replay.json, context), asking).await
    })
}

/// A bundle is named relative to where the command was typed; a run's id stays as it is.
fn canonical(name: &str, cwd: &Path) -> String {
    let is_path =
        name.contains('/') || Path::new(name).extension().is_some_and(|e| e == posse::BUNDLE_EXTENSION);
    if is_path { cwd.join(name).to_string_lossy().into_owned() } else { name.to_owned() }
}

/// Where it works if it has no files of its own: a bundle that names a folder of another machine reads the current one.
fn dir_of(replay: &ReplayRun, recorded: &RecordedRun, cwd: &Path) -> Result<Option<String>, CliError> {
    let needs_one = recorded.is_bundle() && !recorded.has_base();
    match &replay.dir {
        None if !needs_one => Ok(None),
        dir => Ok(Some(working_dir(dir.clone(), cwd)?)),
    }
}

fn detach(replay: &ReplayRun, prepared: &PreparedRun, context: &Context) -> Result<Exit, CliError> {
    let run = detach::detach(prepared, context)?;
    let mut output = Output::new();
    if replay.json {
        output.json(&posse::api::RunReference::new(&run))?;
    } else {
        output.own(&format!("{run}\n"))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}
