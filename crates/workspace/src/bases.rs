//! Lays out the files of commits once, as read-only layers that all workspaces of a project share.
//!
//! A *base* has all files of a commit. A newer commit is a thin layer over an older state: the files that differ, and
//! whiteouts for deleted ones. Both are complete or absent: they are made elsewhere and renamed into place. No file in
//! them changes afterwards, because a file that changes below a mounted overlay is undefined to the kernel. They are
//! never synced, so each boot has its own.
//!
//! ```text
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/made        what the state is over
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/files       all files, or only those that differ
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/git         the `.git` of a new workspace
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/manifest    the stat and the object of each file
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/shape       the stat of everything else: directories, `git`
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/checked     its time is that of the last check of contents
//! <state>/projects/<key>/bases.locks/<commit>-<salt>              held by who lays the commit out
//! <state>/projects/<key>/bases.lock                               held by who renames or removes a state
//! ```
//!
//! A state that differs from its manifest is set aside: without its `made`, no process begins to use it, and its files
//! stay where they are for the processes that do. The next state of the commit gets a number after its name.
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

mod check;
mod clean;
mod find;
mod fold;
mod layer;
mod maker;
mod making;
mod shape;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

pub(super) use self::clean::{lock_all, lock_unused, unused};
use self::find::ProjectStates;
use self::maker::StateMaker;
use self::making::MakingLock;
use super::change::changes;
use super::manifest::Manifest;
use super::tree_table::TreeTable;
use super::{ObjectId, RepositoryError, RunSpace, disk};

/// How many states a process keeps in memory.
const STATES_MAX: usize = 64;
/// The names in the directory of a state.
const MADE: &str = "made";
/// What `made` is renamed to if the state must not be used any more.
const SPOILED: &str = "spoiled";
const FILES: &str = "files";
const GIT: &str = "git";
const MANIFEST: &str = "manifest";
const SHAPE: &str = "shape";

/// The file that makes a state complete.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateMark {
    commit: String,
    /// The directory name of the state below; `None` for a base.
    over: Option<String>,
    /// The number of thin layers.
    depth: usize,
}

impl StateMark {
    /// The mark of the state in a directory; `None` if there is none that can be read.
    fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(MADE)).ok()?).ok()
    }
}

/// The files of a commit as layers.
#[derive(Debug)]
pub(crate) struct BaseState {
    pub(crate) commit: ObjectId,
    name: String,
    depth: usize,
    dir: PathBuf,
    below: Option<Arc<BaseState>>,
    table: OnceLock<Arc<TreeTable>>,
    /// A shared lock: no cleaning removes the directory meanwhile.
    _held: File,
}

impl BaseState {
    /// The directories with the files, the topmost first.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.dir.join(FILES)];
        dirs.extend(self.below.iter().flat_map(|below| below.files()));
        dirs
    }

    /// The layers of a workspace, the topmost first: its `.git`, and the files.
    pub(crate) fn layers(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.dir.join(GIT)];
        dirs.extend(self.files());
        dirs
    }

    /// The `.git` of a new workspace.
    pub(crate) fn git_dir(&self) -> PathBuf {
        self.dir.join(GIT).join(".git")
    }

    /// The one directory with all files; `None` if there are several layers.
    pub(crate) fn whole(&self) -> Option<PathBuf> {
        self.below.is_none().then(|| self.dir.join(FILES))
    }

    /// The content of a file of the state, as far as `limit`; `None` if it is not a plain file.
    pub(crate) fn read(&self, path: &[u8], limit: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
        use std::io::Read;
        let path = Path::new(OsStr::from_bytes(path));
        for dir in self.files() {
            match find(&dir, path) {
                LayerEntry::Plain => {
                    let (at, mut text) = (dir.join(path), Vec::new());
                    let read = File::open(&at).and_then(|file| file.take(limit).read_to_end(&mut text));
                    return read.map(|_| Some(text)).map_err(disk::failed("reading", &at));
                }
                LayerEntry::Hidden => return Ok(None),
                LayerEntry::Absent => {}
            }
        }
        Ok(None)
    }

    /// Whether the state has something at a path.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        self.kind_at(path).is_some()
    }

    /// Whether the state has something at a path that is not a directory.
    pub(crate) fn has_file(&self, path: &[u8]) -> bool {
        self.kind_at(path) == Some(false)
    }

    /// Whether there is a directory at a path; `None` if there is nothing.
    fn kind_at(&self, path: &[u8]) -> Option<bool> {
        let path = Path::new(OsStr::from_bytes(path));
        for dir in self.files() {
            let mut at = dir;
            let mut parts = path.iter().peekable();
            while let Some(part) = parts.next() {
                at.push(part);
                let Ok(metadata) = fs::symlink_metadata(&at) else { break };
                match (parts.peek().is_none(), metadata.is_dir(), metadata.file_type().is_char_device()) {
                    (_, _, true) | (false, false, _) => return None,
                    (true, is_dir, _) => return Some(is_dir),
                    (false, true, _) => {}
                }
            }
        }
        None
    }

    fn manifest(&self) -> Option<Manifest> {
        Manifest::load(&self.dir.join(MANIFEST))
    }

    fn unreadable_manifest(&self) -> RepositoryError {
        RepositoryError::Damaged(format!("the manifest of {} cannot be read", self.dir.display()))
    }

    /// Whether the state and all below it are still to be used.
    fn is_usable(&self) -> bool {
        self.dir.join(MADE).exists() && self.below.as_ref().is_none_or(|below| below.is_usable())
    }

    /// The state at the bottom.
    fn bottom(self: &Arc<Self>) -> Arc<Self> {
        self.below.as_ref().map_or_else(|| self.clone(), Self::bottom)
    }
}

/// The entry of a layer at a path.
enum LayerEntry {
    Plain,
    /// Something that hides the layers below: a whiteout, a link, or a file above.
    Hidden,
    Absent,
}

fn find(layer: &Path, path: &Path) -> LayerEntry {
    let mut at = layer.to_owned();
    let mut parts = path.iter().peekable();
    while let Some(part) = parts.next() {
        at.push(part);
        let Ok(metadata) = fs::symlink_metadata(&at) else { return LayerEntry::Absent };
        let is_last = parts.peek().is_none();
        match (is_last, metadata.is_dir(), metadata.is_file()) {
            (false, true, _) => {}
            (true, _, true) => return LayerEntry::Plain,
            _ => return LayerEntry::Hidden,
        }
    }
    LayerEntry::Absent
}

/// The states that this process uses, of all projects.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    states: Mutex<HashMap<PathBuf, Arc<BaseState>>>,
    /// The directories in which this process has made a state.
    made_in: Mutex<HashSet<PathBuf>>,
    /// The directories in which this process folds layers.
    folding: Mutex<HashSet<PathBuf>>,
    /// Held by the thread that checks a state, or lists its files, at its first use.
    loading: Mutex<()>,
    /// What the next workspace of a project has to say about its states, by the directory of the project.
    notes: Mutex<HashMap<PathBuf, Vec<String>>>,
}

impl Bases {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<BaseState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, dir: &Path) -> Option<Arc<BaseState>> {
        let mut states = self.lock();
        let state = states.get(dir).cloned()?;
        // A project without runs is removed as a whole, and a state that was changed is set aside with those over it.
        if !state.is_usable() {
            states.remove(dir);
            return None;
        }
        Some(state)
    }

    /// Whether this process has made no state in a directory yet.
    fn is_first_in(&self, top: &Path) -> bool {
        self.made_in.lock().unwrap_or_else(PoisonError::into_inner).insert(top.to_owned())
    }

    fn folding(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.folding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other thread checks a state that it has found, or lists the files of one.
    fn begin_loading(&self) -> MutexGuard<'_, ()> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notes(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<String>>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_note(&self, project: &Path, note: String) {
        self.notes().entry(project.to_owned()).or_default().push(note);
    }

    /// What has been found out about the states of a project since the last call.
    pub(crate) fn take_notes(&self, project: &Path) -> Vec<String> {
        self.notes().remove(project).unwrap_or_default()
    }

    fn keep(&self, state: BaseState) -> Arc<BaseState> {
        let mut states = self.lock();
        if states.len() >= STATES_MAX {
            states.retain(|_, state| Arc::strong_count(state) > 1);
        }
        states.entry(state.dir.clone()).or_insert(Arc::new(state)).clone()
    }
}

impl RunSpace {
    /// The files of a commit as layers, which are made if they do not exist. `near` is a commit that differs little.
    pub(crate) fn base_state(
        &self,
        commit: &ObjectId,
        near: Option<&ObjectId>,
    ) -> Result<Arc<BaseState>, RepositoryError> {
        let states = ProjectStates::of(self)?;
        if let Some(state) = states.find(commit)? {
            return Ok(state);
        }
        // A process that wants the same commit waits. Other commits can be laid out meanwhile.
        let making = MakingLock::wait(self, &states.name(commit))?;
        if let Some(state) = states.find(commit)? {
            return Ok(state);
        }
        StateMaker::new(&states, &making)?.make(commit, near)
    }

    /// The files of a commit as layers, if they exist.
    pub(crate) fn find_state(&self, commit: &ObjectId) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        ProjectStates::of(self)?.find(commit)
    }

    /// The same, or the files of the newest state if those of the commit do not exist: they become a layer over it.
    pub(crate) fn find_state_or_newest(
        &self,
        commit: &ObjectId,
    ) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let states = ProjectStates::of(self)?;
        match states.find(commit)? {
            Some(state) => Ok(Some(state)),
            None => states.newest(),
        }
    }

    /// The directories of the tree of a commit, whose state need not exist.
    pub(crate) fn table_at(
        &self,
        commit: &ObjectId,
        state: Option<&Arc<BaseState>>,
    ) -> Result<Arc<TreeTable>, RepositoryError> {
        match state {
            Some(state) => self.table_of(state),
            None => Ok(Arc::new(TreeTable::of(&self.files_of(commit)?.1))),
        }
    }

    /// The directories of the tree of a state.
    pub(crate) fn table_of(&self, state: &Arc<BaseState>) -> Result<Arc<TreeTable>, RepositoryError> {
        if let Some(table) = state.table.get() {
            return Ok(table.clone());
        }
        // Many agents that end their first call at once need the same table.
        let _loading = self.spaces.bases.begin_loading();
        self.table_alone(state)
    }

    fn table_alone(&self, state: &Arc<BaseState>) -> Result<Arc<TreeTable>, RepositoryError> {
        if let Some(table) = state.table.get() {
            return Ok(table.clone());
        }
        let table = match &state.below {
            Some(below) => {
                let changed = changes(&self.git(), &below.commit, &state.commit)?;
                self.table_alone(below)?.with(&changed)
            }
            None => TreeTable::of(&self.files_of(&state.commit)?.1),
        };
        Ok(state.table.get_or_init(|| Arc::new(table)).clone())
    }
}
