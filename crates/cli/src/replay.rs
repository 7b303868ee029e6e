//! `posse run --model replay/…`: a recorded run, run again.

use std::path::{Path, PathBuf};

use posse::{Catalog, Recorded};

use crate::asking::{self, Asking};
use crate::background;
use crate::carry::carry_and_tell;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::launch::{Launch, working_dir};
use crate::output::{Output, note};
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
    /// Whether it is carried in the background.
    pub(crate) detach: bool,
    /// Whether events are printed as JSON.
    pub(crate) json: bool,
}

/// Runs a recorded run again.
pub(crate) fn run(replay: &ReplayRun, context: &Context) -> Result<Exit, CliError> {
    let cwd = &context.environment.cwd;
    let dir = replay.dir.clone().map(|dir| working_dir(Some(dir), cwd)).transpose()?;
    let name = settled(posse::replayed(&replay.model).unwrap_or_default(), cwd);
    let looking = context.look()?;
    let recorded = runtime::looking(async { Ok::<Recorded, CliError>(looking.recorded(&name).await?) })?;
    drop(looking);
    let note_dir = dir.as_deref().map(Path::new);
    for line in recorded.notes(note_dir) {
        note(&format!("note: {line}"));
    }
    if replay.detach {
        return detach(replay, &recorded, dir, context);
    }
    let state_dir = context.state_dir()?.to_owned();
    runtime::carrying(async {
        let mut signals = Signals::listen()?;
        let posse = context.open(Catalog::new(cwd))?;
        let attended = asking::attended(replay.json);
        let dir = dir.as_deref().map(Path::new);
        let handle = posse.replay(&recorded, replay.request.as_deref(), dir, attended).await?;
        let asking = if attended { Asking::here(state_dir) } else { Asking::nobody() };
        carry_and_tell(&posse, &handle, 0, &mut signals, View::new(replay.json, context), asking).await
    })
}

/// A bundle is named relative to where the command was typed; a run's id stays as it is.
fn settled(name: &str, cwd: &Path) -> String {
    let is_path =
        name.contains('/') || Path::new(name).extension().is_some_and(|e| e == posse::BUNDLE_EXTENSION);
    if is_path { cwd.join(name).to_string_lossy().into_owned() } else { name.to_owned() }
}

fn detach(
    replay: &ReplayRun,
    recorded: &Recorded,
    dir: Option<String>,
    context: &Context,
) -> Result<Exit, CliError> {
    let launch = Launch::of_replay(recorded.model().to_owned(), replay.request.clone(), dir);
    let run = background::detach(&launch, context)?;
    let mut output = Output::new();
    if replay.json {
        output.json(&serde_json::json!({"version": 1, "run": run}))?;
    } else {
        output.own(&format!("{run}\n"))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}
