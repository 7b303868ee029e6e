//! Loads what a run finds in its working directory.

use std::path::Path;
use std::sync::Arc;

use posse::{GivenBaseUrl, ModelRegistry, Posse};

use super::{LocalOptions, RunDraft};
use crate::Setup;
use crate::discovery::DiscoveryResult;
use crate::error::{OpenError, SetupError};
use crate::models;
use crate::notes::{Notes, WithNotes};
use crate::settings::{ResolvedSettings, Settings};
use crate::working_dir::RunDir;

/// A working directory as a run finds it: its effective settings, models, definitions and skills.
pub struct RunDirectory {
    /// Its canonical path.
    pub dir: String,
    /// Where in it the user is, if not at its top.
    pub below: Option<String>,
    /// The canonical path of the directory that the user is in, whose settings and definitions apply.
    pub start: String,
    /// The effective settings; those of the request come first.
    pub settings: Settings,
    /// The base URL of the model's provider, if the request has one.
    pub base_url: Option<GivenBaseUrl>,
    /// The models, according to the settings.
    pub models: Arc<ModelRegistry>,
    /// The definitions and skills of the user and the project.
    pub discovered: Arc<DiscoveryResult>,
}

impl RunDirectory {
    /// Loads the directory of a draft. The notes are for the user even if there is an error.
    pub fn load(draft: &RunDraft, setup: &Setup) -> WithNotes<Result<Self, SetupError>> {
        let mut notes = Notes::none();
        let value = Self::find(draft, setup, &mut notes);
        WithNotes::new(value, notes)
    }

    /// A directory without settings and definitions, for a run that needs none.
    pub fn bare(dir: String, models: ModelRegistry) -> Self {
        Self {
            start: dir.clone(),
            below: None,
            dir,
            settings: Settings::default(),
            base_url: None,
            models: Arc::new(models),
            discovered: Arc::default(),
        }
    }

    fn find(draft: &RunDraft, setup: &Setup, notes: &mut Notes) -> Result<Self, SetupError> {
        let found = RunDir::find(draft.dir.clone(), &setup.environment)?;
        let below = found.below().map(str::to_owned);
        let RunDir { dir, start } = found;
        let resolved = ResolvedSettings::of(setup, Path::new(&start))?;
        notes.extend(resolved.notes);
        let settings = draft.settings.clone().or(resolved.settings);
        let base_url = models::given(&settings, setup)?;
        let models = models::registry(&settings, base_url.as_ref(), setup)?;
        let discovered = DiscoveryResult::load(Path::new(&start), Some(&models), setup)?;
        Ok(Self {
            dir,
            below,
            start,
            settings,
            base_url,
            models: Arc::new(models),
            discovered: Arc::new(discovered),
        })
    }

    /// Opens the state directory to execute a run that was prepared here.
    pub fn open(&self, local: &LocalOptions, setup: &Setup) -> Result<Posse, OpenError> {
        setup.open_with_skills(Arc::clone(&self.models), &self.settings, &local.skill_folders)
    }
}
