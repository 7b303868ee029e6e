//! Replays recorded runs without a model.

mod rights;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{EventBody, EventKind};
use posse_domain::id::RunId;
use posse_domain::permission::Approvals;
use posse_domain::request::RunRequest;
use posse_engine::ports::WorkspaceError;
use posse_engine::{Recording, Replay, RunHandle};
use posse_models::replay::{REPLAY, Replay as ReplayModel};
use posse_workspace::{Layout, RepositoryError};

use crate::base::BaseReader;
use crate::bundle::{self, BUNDLE_EXTENSION, BaseFile, BundleError};
use crate::run_folders::{REPLAYS, is_unused, new_folder};
use crate::view::{ViewEvent, ViewPart};
use crate::{Error, Posse, ReplayVerdict, RequestField, RunOutcome};

/// Limit of runs that are read to find the folders in use.
const RUNS_READ_MAX: u32 = 10_000;

/// The state directory for the files of replays, and the git program.
#[derive(Debug, Clone)]
pub(crate) struct ReplayHome {
    pub(crate) state: PathBuf,
    pub(crate) git: PathBuf,
}

/// Where a recorded run was read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Journal,
    Bundle(PathBuf),
}

/// A recorded run that can be replayed.
#[derive(Debug, Clone)]
pub struct RecordedRun {
    recording: Arc<Recording>,
    source: Source,
    model: String,
    /// Whether secrets were removed from it.
    is_changed: bool,
}

impl RecordedRun {
    /// The run that was recorded.
    pub fn run(&self) -> &RunId {
        self.recording.run()
    }

    /// The model name by which any process finds it again: `replay/<run>`, or `replay/<path of a bundle>`.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The text of its request.
    pub fn request(&self) -> Arc<str> {
        self.recording.started().request.text.to_shared()
    }

    /// Whether it began with its own files, which a replay begins with too.
    pub fn has_base(&self) -> bool {
        self.recording.started().base.is_some()
    }

    /// The number of model calls.
    pub fn calls(&self) -> usize {
        self.recording.call_count()
    }

    /// Whether it is a bundle: another user may have created it, who has no rights here.
    pub fn is_bundle(&self) -> bool {
        matches!(self.source, Source::Bundle(_))
    }

    /// The directory of a replay without its own files, if no other directory is named. The path in a bundle means
    /// nothing here.
    pub fn dir(&self) -> Option<&str> {
        (!self.is_bundle()).then_some(self.recording.started().request.dir.as_str())
    }

    /// Notes for the user before the replay: `approvals` are what the user allows, `dir` is where they let it work.
    pub fn notes(&self, approvals: &Approvals, dir: Option<&Path>) -> Vec<String> {
        let mut notes = Vec::new();
        if self.is_bundle() {
            notes.push(rights::note(&self.recording.started().request, approvals));
        }
        if !self.has_base() {
            let named = dir.map(|dir| dir.display().to_string());
            let dir = named.unwrap_or_else(|| self.dir().unwrap_or_default().to_owned());
            notes.push(format!("run {} has no files of its own: {dir} is read as it is now", self.run()));
        }
        if !self.recording.has_ended() {
            notes.push(format!(
                "run {} had not ended when it was recorded; the replay stops there",
                self.run()
            ));
        }
        if self.is_changed {
            notes.push(
                "secrets were removed from this bundle: requests are compared by their text, without them"
                    .to_owned(),
            );
        }
        notes
    }

    pub(crate) fn replay(&self, attended: bool) -> Replay {
        let model = Arc::new(ReplayModel::new(self.recording.clone()));
        Replay { recording: self.recording.clone(), model, is_own: !self.is_bundle(), attended }
    }

    /// The recorded request, with the rights of the user who replays it.
    fn request_again(&self, dir: String, overrides: RunRequest) -> Result<RunRequest, Error> {
        // Every field is named, so that the compiler asks whether a replay takes a new one from the user who replays.
        // The callers have read the text and the directory.
        let RunRequest {
            terms,
            text: _,
            dir: _,
            definition: _,
            model: _,
            session_id,
            prompt: _,
            definitions: _,
            catalogue: _,
            agents_md: _,
            max_depth: _,
            budget: _,
            idle_timeout_ms: _,
            may_share_history: _,
            on_ask: _,
            plan: _,
            continues: _,
        } = overrides;
        let recorded = self.recording.run_request();
        let mut request = rights::limited(recorded, self.is_bundle(), terms)?;
        // No provider is called.
        request.terms.base_url = None;
        let model = &self.recording.started().contract.execution.model;
        request.terms.recorded_model.get_or_insert_with(|| model.clone());
        // The session of the recorded run says which request has started that run, not this one.
        Ok(RunRequest { model: self.model.clone(), dir, session_id, ..request })
    }
}

/// The recorded run that a model's name refers to: what follows `replay/`.
pub fn replayed(model: &str) -> Option<&str> {
    model.strip_prefix(REPLAY)?.strip_prefix('/')
}

impl Posse {
    /// Loads a recorded run, by the prefix of a run's id in this store or by the path of a bundle.
    pub async fn recorded(&self, name: &str) -> Result<RecordedRun, Error> {
        if name.is_empty() {
            let problem = format!("write `{REPLAY}/<run>`, or `{REPLAY}/<file>.{BUNDLE_EXTENSION}`");
            return Err(Error::invalid(RequestField::Model, problem));
        }
        let path = Path::new(name);
        let is_bundle = path.extension().is_some_and(|extension| extension == BUNDLE_EXTENSION);
        if is_bundle || name.contains('/') {
            return self.recorded_in(path).await;
        }
        let run = self.find(name).await?;
        let key = self.key(&run);
        let mut events = Vec::new();
        posse_engine::read_events(&*self.store, &key, 0, |stored| {
            events.push(posse_engine::decode(&key, &stored)?);
            Ok(())
        })
        .await?;
        for event in &mut events {
            posse_engine::fill(&*self.store, &key, event).await?;
        }
        let recording =
            Recording::new(events).map_err(|error| Error::invalid(RequestField::Model, error.to_string()))?;
        Ok(RecordedRun {
            recording: Arc::new(recording),
            source: Source::Journal,
            model: format!("{REPLAY}/{run}"),
            is_changed: false,
        })
    }

    async fn recorded_in(&self, path: &Path) -> Result<RecordedRun, Error> {
        let unreadable = |problem: String| BundleError::Unreadable { path: path.to_owned(), problem };
        let whole = path.canonicalize().map_err(|error| unreadable(error.to_string()))?;
        let name = whole.to_str().ok_or_else(|| unreadable("its path is not UTF-8 text".to_owned()))?;
        let model = format!("{REPLAY}/{name}");
        let from = whole.clone();
        let read = tokio::task::spawn_blocking(move || bundle::read(&from)).await;
        let bundle = read.map_err(|error| unreadable(error.to_string()))??;
        let is_changed = bundle.manifest.is_changed();
        let recording = Recording::new(bundle.events).map_err(|error| unreadable(error.to_string()))?;
        let recording = if is_changed { recording.with_changed_texts() } else { recording };
        Ok(RecordedRun { recording: Arc::new(recording), source: Source::Bundle(whole), model, is_changed })
    }

    /// Replays a recorded run: the same request, terms and files, and the recorded replies. These parts of `overrides`
    /// apply: the text of the request, which must equal the recorded one if set; the directory, for a run without its
    /// own files; rules and approvals. The operator's rules are always those of `overrides`. A run of this store keeps
    /// its own approvals and rules, in addition to those of `overrides`. Of a bundle only the rules that narrow apply,
    /// and none of its approvals. `attended` is as in [`Posse::start_request`].
    pub async fn replay(
        &self,
        recorded: &RecordedRun,
        overrides: RunRequest,
        attended: bool,
    ) -> Result<RunHandle, Error> {
        let text = overrides.text.to_shared();
        if !text.is_empty() && text != recorded.request() {
            let problem = format!(
                "run {} had another request; omit the request, or repeat the recorded one",
                recorded.run()
            );
            return Err(Error::invalid(RequestField::Request, problem));
        }
        let laid_out = self.lay_out(recorded).await?;
        let started = self.start_replay(recorded, (overrides, attended), laid_out.as_deref()).await;
        if let (Err(_), Some(dir)) = (&started, &laid_out) {
            // No run uses the folder, and none will.
            drop(posse_files::trees::remove(dir));
        }
        started
    }

    async fn start_replay(
        &self,
        recorded: &RecordedRun,
        (overrides, attended): (RunRequest, bool),
        laid_out: Option<&Path>,
    ) -> Result<RunHandle, Error> {
        let own = Some(overrides.dir.clone()).filter(|dir| !dir.is_empty());
        let named = laid_out.map(|dir| dir.display().to_string()).or(own);
        let dir = named.or_else(|| recorded.dir().map(str::to_owned)).ok_or_else(|| {
            Error::invalid(
                RequestField::Dir,
                "the bundle has no files of its own: name the directory that it may read",
            )
        })?;
        let request = recorded.request_again(dir, overrides)?;
        let asks = attended || recorded.recording.is_attended();
        Ok(self.runtime.start_replay(request, asks, recorded.replay(attended)).await?)
    }

    /// The recorded run that a resumed run repeats, if it is a replay.
    pub(crate) async fn replay_of(&self, run: &RunId) -> Result<Option<RecordedRun>, Error> {
        let known = self.runs(run.as_str(), 1).await?.into_iter().next();
        let Some(known) = known.filter(|known| known.status.is_running()) else {
            return Ok(None);
        };
        match replayed(&known.model) {
            Some(name) => Ok(Some(self.recorded(name).await?)),
            None => Ok(None),
        }
    }

    /// Writes the files that a recorded run began with to a folder; `None` if it had none, or if there is no directory
    /// for them.
    async fn lay_out(&self, recorded: &RecordedRun) -> Result<Option<PathBuf>, Error> {
        let Some(home) = self.replays.clone().filter(|_| recorded.has_base()) else { return Ok(None) };
        self.sweep(&home).await?;
        let base = recorded.recording.started().base.as_ref().zip(self.files.clone());
        let base = base.map(|(base, files)| BaseReader::new(files, recorded.run(), base.tree));
        let (source, run) = (recorded.source.clone(), recorded.run().clone());
        let task = tokio::task::spawn_blocking(move || {
            let unusable = |problem: WorkspaceError| Error::Files { run: run.clone(), problem };
            let failed = |error: RepositoryError| unusable(error.into());
            let dir = new_folder(&home.state.join(REPLAYS), run.as_str()).map_err(|error| {
                unusable(WorkspaceError::Unsupported(format!("making a folder for the replay: {error}")))
            })?;
            let mut layout = Layout::new(&dir).map_err(failed)?;
            match (&source, base) {
                (Source::Bundle(path), _) => bundle::files(path, |file| {
                    let name = file.path.display().to_string();
                    layout.add(&file.path, file.kind, file.content).map_err(|error| BundleError::Damaged {
                        path: path.clone(),
                        entry: format!("file {name}"),
                        problem: error.to_string(),
                    })
                })?,
                (Source::Journal, Some(base)) => {
                    let add = |file: BaseFile| Ok(layout.add(&file.path, file.kind, file.content)?);
                    base.each_file(add).map(drop).map_err(unusable)?;
                }
                (Source::Journal, None) => {}
            }
            layout.finish(&home.git).map_err(failed)?;
            Ok(Some(dir))
        });
        let broken = |error: tokio::task::JoinError| Error::Files {
            run: recorded.run().clone(),
            problem: WorkspaceError::Damaged(format!("the operation was interrupted: {error}")),
        };
        task.await.map_err(broken)?
    }

    /// Removes the folders of replays that have ended.
    async fn sweep(&self, home: &ReplayHome) -> Result<(), Error> {
        let Ok(entries) = std::fs::read_dir(home.state.join(REPLAYS)) else { return Ok(()) };
        let runs = self.runs("", RUNS_READ_MAX).await?;
        let used: Vec<&str> =
            runs.iter().filter(|run| run.status.is_running()).map(|run| run.dir.as_str()).collect();
        for entry in entries.flatten() {
            let path = entry.path();
            if is_unused(&path) && !used.iter().any(|dir| Path::new(dir) == path) {
                // The next replay tries again to remove what cannot be removed now.
                drop(posse_files::trees::remove(&path));
            }
        }
        Ok(())
    }
}

/// The model requests of a replay.
#[derive(Default)]
struct ReplayedRequests {
    same: u64,
}

impl ViewPart for ReplayedRequests {
    fn needs(&self, kind: EventKind) -> bool {
        kind == EventKind::ModelReplied
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        let EventBody::ModelReplied(e) = event.body else { return };
        let differs = e.error.as_ref().is_some_and(|error| error.code == Code::ReplayDiffers);
        self.same += u64::from(!differs);
    }
}

impl Posse {
    /// How a replay that has ended compares with the recorded run, which its model names.
    pub(crate) async fn replay_verdict(
        &self,
        finished: &RunOutcome,
        name: &str,
    ) -> Result<ReplayVerdict, Error> {
        let ReplayedRequests { same } = self.fold(&finished.run).await?;
        // The recorded run may have been removed since.
        let recorded = self.recorded(name).await.ok().map(|recorded| recorded.calls() as u64);
        let differs = finished.failure.as_ref().is_some_and(|failure| failure.code == Code::ReplayDiffers);
        // A call that was interrupted with its process was sent twice.
        Ok(ReplayVerdict { same: same.min(recorded.unwrap_or(same)), recorded, differs })
    }
}
