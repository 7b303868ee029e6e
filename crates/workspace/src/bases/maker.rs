//! Makes the states of a project.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use posse_engine::ports::FilesOperation;
use rustix::fs::{FlockOperation, flock};

use super::super::change::{Change, changes};
use super::super::checkout::{Checkout, Source};
use super::super::manifest::{Entry, Manifest, now_ns};
use super::super::objects::TreeFile;
use super::super::tree_table::TreeTable;
use super::super::{ObjectId, RepositoryError, RunSpace, disk, index};
use super::clean::lock_all;
use super::find::ProjectStates;
use super::fold::{self, FOLD_DEPTH};
use super::layer::{make_dir, new_file, white_out};
use super::making::MakingLock;
use super::{BaseState, FILES, GIT, MADE, MANIFEST, StateMark, shape};

/// How many thin layers may lie over a base. A state above that is a layer over the base itself, if they were not folded
/// in time.
const DEPTH_MAX: usize = 16;
/// A commit that differs in more files than this, and in more than one in four, gets a base of its own.
const THIN_MAX_FILES: usize = 1_000;

/// A thin layer with at most this many files gets them from objects, because that takes less than to load the manifest of
/// a folder that has them.
const OBJECTS_MAX: usize = 200;

/// Makes a state of one project. The caller has the right to.
pub(super) struct StateMaker<'a> {
    states: &'a ProjectStates<'a>,
    space: &'a RunSpace,
    making: &'a MakingLock,
    absent: HashSet<Vec<u8>>,
    /// The depth of a state that is as good as the one to be made.
    enough: usize,
}

impl<'a> StateMaker<'a> {
    pub(super) fn new(
        states: &'a ProjectStates<'a>,
        making: &'a MakingLock,
    ) -> Result<Self, RepositoryError> {
        let (space, enough) = (states.space, usize::MAX);
        Ok(Self { states, space, making, absent: space.absent()?, enough })
    }

    /// Makes a thin layer over a state that differs little, or a base.
    pub(super) fn make(
        &self,
        commit: &ObjectId,
        near: Option<&ObjectId>,
    ) -> Result<Arc<BaseState>, RepositoryError> {
        if self.space.spaces.bases.is_first_in(&self.states.top) {
            self.states.forget_leftovers()?;
        }
        if let Some(state) = self.make_over_another(commit, near)? {
            return Ok(state);
        }
        // A base of another commit that is under way is most of the work for this one.
        let base = MakingLock::wait(self.space, &format!("base-{}", self.states.salt))?;
        if let Some(state) = self.make_over_another(commit, near)? {
            return Ok(state);
        }
        let sources = self.space.sources(&self.space.run, commit);
        self.make_whole(commit, &[self.making, &base], &sources)
    }

    /// Makes a base of a state that has layers.
    pub(super) fn fold(self, state: &BaseState) -> Result<Arc<BaseState>, RepositoryError> {
        let unreadable = || state.unreadable_manifest();
        let sources = state.as_sources().ok_or_else(unreadable)?;
        Self { enough: 0, ..self }.make_whole(&state.commit, &[self.making], &sources)
    }

    /// Makes a thin layer; `None` if there is no state that differs little.
    fn make_over_another(
        &self,
        commit: &ObjectId,
        near: Option<&ObjectId>,
    ) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let Some(mut below) = self.below(near)? else { return Ok(None) };
        if below.depth >= FOLD_DEPTH {
            below = match self.states.folded(&below)? {
                Some(base) => base,
                None if below.depth >= DEPTH_MAX => below.bottom(),
                None => below,
            };
        }
        let differing = changes(&self.space.git(), &below.commit, commit)?;
        let table = self.space.table_of(&below)?;
        if differing.len() > THIN_MAX_FILES.max(table.files / 4) {
            return Ok(None);
        }
        let state = match self.make_thin(commit, &below, &table, &differing) {
            Err(RepositoryError::Damaged(_)) => {
                let opened = File::open(&below.dir).map_err(disk::failed("opening", &below.dir))?;
                self.states.set_aside(&below.dir, &opened)?;
                return Ok(None);
            }
            made => made?,
        };
        if state.depth >= FOLD_DEPTH {
            fold::begin(self.space, &state);
        }
        Ok(Some(state))
    }

    /// The state to make a layer over: that of the near commit, or the newest.
    fn below(&self, near: Option<&ObjectId>) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        match near.map(|near| self.states.find(near)).transpose()?.flatten() {
            Some(near) => Ok(Some(near)),
            None => self.states.newest(),
        }
    }

    fn make_whole(
        &self,
        commit: &ObjectId,
        held: &[&MakingLock],
        sources: &[Source],
    ) -> Result<Arc<BaseState>, RepositoryError> {
        let space = self.space;
        let (tree, files) = space.files_of(commit)?;
        // No agent waits for a fold.
        let is_fold = self.enough == 0;
        let reports = (!is_fold).then(|| space.spaces.progress.of(&space.run, FilesOperation::LayOut));
        self.complete(commit, None, |making| {
            let looked_ns = now_ns();
            let into = making.join(FILES);
            make_dir(&into)?;
            let git = space.git();
            let checkout = Checkout {
                git: &git,
                into: &into,
                files: &files,
                sources,
                absent: &self.absent,
                read_only: false,
                progress: Some(&MakingLock::counter(held, reports, files.len())),
            };
            let entries = checkout.write()?;
            space.plant_git(&making.join(GIT), commit, &index::encode(&entries))?;
            let manifest = Manifest { entries, looked_ns, commit: *commit, tree };
            manifest.save(&making.join(MANIFEST))?;
            Ok(TreeTable::of(&files))
        })
    }

    fn make_thin(
        &self,
        commit: &ObjectId,
        below: &Arc<BaseState>,
        table: &TreeTable,
        differing: &[Change],
    ) -> Result<Arc<BaseState>, RepositoryError> {
        let space = self.space;
        let after = table.with(differing);
        self.complete(commit, Some(below), |making| {
            let looked_ns = now_ns();
            let into = making.join(FILES);
            make_dir(&into)?;
            let mut changed: Vec<TreeFile> = differing.iter().filter_map(new_file).collect();
            changed.sort_unstable_by(|a, b| a.path.cmp(&b.path));
            let git = space.git();
            let absent = &self.absent;
            // The manifest of a source has the whole project.
            let has_many = changed.len() > OBJECTS_MAX;
            let sources = if has_many { space.sources(&space.run, commit) } else { Vec::new() };
            let checkout = Checkout {
                git: &git,
                into: &into,
                files: &changed,
                sources: &sources,
                absent,
                read_only: false,
                progress: None,
            };
            let entries = checkout.write()?;
            for change in differing.iter().filter(|change| change.new.is_none()) {
                white_out(&into, &after, table, &change.path)?;
            }
            let index = changed_index(below, differing, &entries)?;
            space.plant_git(&making.join(GIT), commit, &index)?;
            let manifest = Manifest { entries, looked_ns, commit: *commit, tree: after.tree };
            manifest.save(&making.join(MANIFEST))?;
            Ok(after)
        })
    }

    /// Makes a state in a temporary directory and renames it into place.
    fn complete(
        &self,
        commit: &ObjectId,
        below: Option<&Arc<BaseState>>,
        fill: impl FnOnce(&Path) -> Result<TreeTable, RepositoryError>,
    ) -> Result<Arc<BaseState>, RepositoryError> {
        disk::make_dirs(&self.states.top)?;
        let making = disk::temporary(&self.states.top.join(self.states.name(commit)));
        fs::create_dir(&making).map_err(disk::failed("making", &making))?;
        self.space.spaces.options.hit("workspace.base.before_files");
        let completed = fill(&making).and_then(|table| {
            shape::save(&making)?;
            self.put_in_place(commit, below, &making, table)
        });
        if !matches!(&completed, Ok(Some(_))) {
            // What cannot be removed now is removed when this process has ended.
            drop(disk::remove_tree(&making));
        }
        match completed? {
            Some(state) => Ok(state),
            // A process that was taken for a stopped one has made it.
            None => self.states.find(commit)?.ok_or_else(|| self.no_place(commit)),
        }
    }

    fn no_place(&self, commit: &ObjectId) -> RepositoryError {
        RepositoryError::Damaged(format!(
            "the files of {commit} cannot be laid out in {}: every place for them is taken",
            self.states.top.display()
        ))
    }

    /// Marks a state as complete and renames it into place; `None` if there is another one by now.
    fn put_in_place(
        &self,
        commit: &ObjectId,
        below: Option<&Arc<BaseState>>,
        making: &Path,
        table: TreeTable,
    ) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let held = File::open(making).map_err(disk::failed("opening", making))?;
        flock(&held, FlockOperation::NonBlockingLockShared)
            .map_err(|errno| RepositoryError::io("locking", making, &errno.into()))?;
        let mark = StateMark {
            commit: commit.to_string(),
            over: below.map(|below| below.name.clone()),
            depth: below.map_or(0, |below| below.depth + 1),
        };
        disk::write_cache(&making.join(MADE), &serde_json::to_vec(&mark).unwrap_or_default())?;
        self.space.spaces.options.hit("workspace.base.before_rename");
        let _all = lock_all(&self.space.project)?;
        let is_enough = |dir: PathBuf| StateMark::read(&dir).is_some_and(|mark| mark.depth <= self.enough);
        if self.states.dirs(commit).any(is_enough) {
            return Ok(None);
        }
        let free = self.states.dirs(commit).find(|dir| fs::symlink_metadata(dir).is_err());
        let dir = free.ok_or_else(|| self.no_place(commit))?;
        fs::rename(making, &dir).map_err(disk::failed("making", &dir))?;
        let state = BaseState {
            commit: *commit,
            name: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            depth: mark.depth,
            dir,
            below: below.cloned(),
            table: OnceLock::from(Arc::new(table)),
            _held: held,
        };
        Ok(Some(self.space.spaces.bases.keep(state)))
    }
}

/// The index of a state that is a layer over another one.
fn changed_index(
    below: &BaseState,
    differing: &[Change],
    entries: &[Entry],
) -> Result<Vec<u8>, RepositoryError> {
    let path = below.git_dir().join(index::NAME);
    let before = fs::read(&path).map_err(disk::failed("reading", &path))?;
    let of = |path: &[u8]| {
        let at = entries.binary_search_by(|entry| entry.path.as_slice().cmp(path));
        at.ok().map(|at| &entries[at])
    };
    let mut changes: Vec<(&[u8], Option<&Entry>)> =
        differing.iter().map(|change| (change.path.as_slice(), of(&change.path))).collect();
    changes.sort_unstable_by_key(|(path, _)| *path);
    let unreadable =
        || RepositoryError::Damaged(format!("{} is not the index that was written", path.display()));
    index::changed(&before, &changes).ok_or_else(unreadable)
}
