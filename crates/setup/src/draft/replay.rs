//! Prepares the replay of a recorded run.

use std::path::{Path, PathBuf};

use posse::{Approvals, ModelRegistry, Posse, RecordedRun, RunRequest, RunTerms};

use super::{LocalOptions, PreparedRun, RunPermissions};
use crate::Setup;
use crate::discovery::folders_outside;
use crate::error::OpenError;
use crate::hide_state_dir;
use crate::notes::{Note, Notes, WithNotes};
use crate::settings::{ResolvedSettings, Settings};
use crate::working_dir::working_dir;

/// A replay as a user asks for it. Its terms and files come from the recorded run.
#[derive(Debug, Clone, Default)]
pub struct ReplayDraft {
    /// The id of a run, or the path of a bundle.
    pub recorded: String,
    /// The task, if the user states it: it must equal the recorded one.
    pub text: Option<String>,
    /// The directory of the replay, if the recording has no files.
    pub dir: Option<PathBuf>,
    /// The permissions of the replay. Those of the recorded run do not apply.
    pub permissions: RunPermissions,
    /// The session of a front end that the replay belongs to.
    pub session_id: Option<String>,
}

/// A replay that can be started.
#[derive(Debug)]
pub struct PreparedReplay {
    /// The recorded run, for [`posse::Posse::replay`].
    pub recorded: RecordedRun,
    /// What the replay sets itself.
    pub run: PreparedRun,
    /// The effective settings in its directory.
    pub settings: Settings,
}

impl PreparedReplay {
    /// Opens the state directory to execute the replay. It has no models: the recorded replies answer every call.
    pub fn open(&self, setup: &Setup) -> Result<Posse, OpenError> {
        let models = ModelRegistry::new(&setup.environment.cwd);
        setup.open_with_skills(models, &self.settings, &self.run.local.skill_folders)
    }
}

impl ReplayDraft {
    /// Reads the recorded run and converts the draft. The notes are for the user even if there is an error.
    pub async fn prepare(self, setup: &Setup) -> WithNotes<Result<PreparedReplay, OpenError>> {
        let mut notes = Notes::none();
        let value = self.convert(setup, &mut notes).await;
        WithNotes::new(value, notes)
    }

    async fn convert(self, setup: &Setup, notes: &mut Notes) -> Result<PreparedReplay, OpenError> {
        let Self { recorded, text, dir, permissions, session_id } = self;
        let cwd = &setup.environment.cwd;
        permissions.check(&setup.tool_names())?;
        let reader = setup.open_read_only()?;
        let recorded = reader.recorded(&canonical(&recorded, cwd)).await?;
        // Only a run of this state directory has a folder. The paths in a bundle mean nothing on this machine.
        let skill_folders = match recorded.dir() {
            Some(dir) => folders_outside(&reader.skills(recorded.run()).await?, Path::new(dir)),
            None => Vec::new(),
        };
        drop(reader);
        // A bundle that refers to a folder of another machine uses the current one.
        let needs_dir = recorded.is_bundle() && !recorded.has_base();
        let dir = match dir {
            None if !needs_dir => None,
            dir => Some(working_dir(dir, cwd)?),
        };
        let place = dir.as_deref().or(recorded.dir()).map(Path::new);
        let resolved = ResolvedSettings::of(setup, place.unwrap_or(cwd))?;
        notes.extend(resolved.notes);
        let settings = resolved.settings;
        let operator_rules = match place {
            Some(place) => hide_state_dir::closed(settings.rules(), place, setup.state_dir()?),
            None => settings.rules(),
        };
        // Approvals that are stored for a directory apply to runs in that directory, not to a recording.
        let (run_rules, approvals) = permissions.with_stored(&Approvals::none())?;
        let recorded_notes = recorded.notes(&approvals, dir.as_deref().map(Path::new));
        notes.extend(recorded_notes.into_iter().map(Note::info));
        let request = RunRequest {
            model: recorded.model().to_owned(),
            dir: dir.unwrap_or_default(),
            terms: RunTerms { operator_rules, run_rules, approvals, ..RunTerms::default() },
            session_id,
            ..RunRequest::new(text.unwrap_or_default())
        };
        let run = PreparedRun { request, local: LocalOptions { skill_folders, apply: false } };
        Ok(PreparedReplay { recorded, run, settings })
    }
}

/// Resolves a bundle's path against the working directory. A run's id stays unchanged.
fn canonical(name: &str, cwd: &Path) -> String {
    let is_path =
        name.contains('/') || Path::new(name).extension().is_some_and(|e| e == posse::BUNDLE_EXTENSION);
    if is_path { cwd.join(name).to_string_lossy().into_owned() } else { name.to_owned() }
}
