//! Prepares a process to execute an existing run: one that another process prepared, or one that was interrupted. The
//! run has its definitions and terms; settings and models are the machine's current ones.

use std::path::Path;
use std::sync::Arc;

use posse::ports::{ModelError, Models as _};
use posse::view::ShownStatus;
use posse::{GivenBaseUrl, ModelRegistry, Posse, RunSummary};

use crate::Setup;
use crate::discovery::{SkillFolder, folders_outside};
use crate::draft::PreparedRun;
use crate::error::{OpenError, SetupError};
use crate::models;
use crate::notes::{Notes, WithNotes};
use crate::settings::{ResolvedSettings, Settings};

/// Limit of runs that are searched for an interrupted one.
const RUNS_SEARCHED_MAX: u32 = 1_000;

/// The settings, models and skill folders for an existing run.
pub struct RunExecution {
    settings: Settings,
    models: Arc<ModelRegistry>,
    skill_folders: Vec<SkillFolder>,
}

impl RunExecution {
    /// For a run that another process prepared and that has not started. The notes are the same as in that process.
    pub fn of_prepared(run: &PreparedRun, setup: &Setup) -> WithNotes<Result<Self, SetupError>> {
        let PreparedRun { request, local } = run;
        let dir = setup.environment.cwd.join(&request.dir);
        Self::load(&dir, request.terms.base_url.as_ref(), local.skill_folders.clone(), setup)
    }

    /// For a run that `reader` found and that is to continue. Fails if its model cannot be used, before any process
    /// takes the run over. The notes are for the user even if there is an error.
    pub async fn of_stored(
        run: &RunSummary,
        reader: &Posse,
        setup: &Setup,
    ) -> WithNotes<Result<Self, OpenError>> {
        let dir = Path::new(&run.dir);
        let stored = async {
            let base_url = reader.base_url(&run.run).await?;
            let skill_folders = folders_outside(&reader.skills(&run.run).await?, dir);
            Ok::<_, posse::Error>((base_url, skill_folders))
        };
        let (base_url, skill_folders) = match stored.await {
            Ok(stored) => stored,
            Err(error) => return WithNotes::silent(Err(error.into())),
        };
        let WithNotes { value, notes } = Self::load(dir, base_url.as_ref(), skill_folders, setup);
        let checked = value.and_then(|execution| {
            check_model(run, &execution.models)?;
            Ok(execution)
        });
        WithNotes::new(checked.map_err(OpenError::from), notes)
    }

    fn load(
        dir: &Path,
        base_url: Option<&GivenBaseUrl>,
        skill_folders: Vec<SkillFolder>,
        setup: &Setup,
    ) -> WithNotes<Result<Self, SetupError>> {
        let ResolvedSettings { settings, notes, .. } = match ResolvedSettings::of(setup, dir) {
            Ok(resolved) => resolved,
            Err(error) => return WithNotes::new(Err(error), Notes::none()),
        };
        let models = models::registry(&settings, base_url, setup);
        let value = models.map(|models| Self { settings, models: Arc::new(models), skill_folders });
        WithNotes::new(value, notes)
    }

    /// Opens the state directory to execute the run.
    pub fn open(&self, setup: &Setup) -> Result<Posse, OpenError> {
        setup.open_with_skills(Arc::clone(&self.models), &self.settings, &self.skill_folders)
    }
}

/// The newest interrupted run: it has not ended, and no process executes it.
pub async fn last_interrupted(reader: &Posse) -> Result<Option<RunSummary>, posse::Error> {
    let runs = reader.runs("", RUNS_SEARCHED_MAX).await?;
    Ok(runs.into_iter().find(is_interrupted))
}

/// Whether a run has not ended, and no process executes it.
pub fn is_interrupted(run: &RunSummary) -> bool {
    run.damage.is_none() && run.shown_status() == ShownStatus::Interrupted
}

/// Checks that the model of an unfinished run is usable.
fn check_model(run: &RunSummary, models: &ModelRegistry) -> Result<(), SetupError> {
    // A recorded run is read when it is needed.
    if !run.status.is_running() || posse::replayed(&run.model).is_some() {
        return Ok(());
    }
    models.resolve(&run.model).map(drop).map_err(|error| {
        let message = format!("the model of run {} cannot be used: {error}", run.run);
        // Front ends report a missing key separately.
        let made = match error {
            ModelError::Unauthenticated(_) => SetupError::unauthenticated,
            ModelError::Unknown(_) | ModelError::Unusable(_) => SetupError::usage,
        };
        made(message).hint("restore it, and resume again; the run is unchanged")
    })
}
