//! Makes the states of a project, and finds those that exist.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::super::change::{Change, changes};
use super::super::checkout::Checkout;
use super::super::gc::entries_of;
use super::super::manifest::{Entry, Manifest, now_ns};
use super::super::objects::TreeFile;
use super::super::refs::check_id;
use super::super::sync::UNKNOWN_BOOT;
use super::super::tree_table::TreeTable;
use super::super::{ObjectId, RepositoryError, RunSpace, disk};
use super::check::is_as_laid_out;
use super::layer::{make_dir, new_file, white_out};
use super::{BaseState, FILES, GIT, MADE, MANIFEST, StateMark};

/// How many thin layers may lie over a base. A state above that is a layer over the base itself.
const DEPTH_MAX: usize = 16;
/// A commit that differs in more files than this, and in more than one in four, gets a base of its own.
const THIN_MAX_FILES: usize = 1_000;
/// How many hexadecimal digits distinguish states of one commit.
const SALT_CHARS: usize = 8;

/// Makes and finds the states of one project in this boot.
pub(super) struct StateMaker<'a> {
    space: &'a RunSpace,
    /// The directory of all states of this boot.
    top: PathBuf,
    absent: HashSet<Vec<u8>>,
    salt: String,
}

impl<'a> StateMaker<'a> {
    pub(super) fn new(space: &'a RunSpace) -> Result<Self, RepositoryError> {
        let boot = space.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
        let absent = space.absent()?;
        // States of one commit differ by the files outside of a sparse checkout and by what is planted in `.git`.
        let mut hash = blake3::Hasher::new();
        hash.update(&disk::read_if_there(&space.dir().join("sparse"))?.unwrap_or_default());
        hash.update(&[0]);
        hash.update(space.record.excludes.as_bytes());
        hash.update(&[0]);
        hash.update(&disk::read_if_there(&space.project.repository().join("shallow"))?.unwrap_or_default());
        let salt = hash.finalize().to_hex().chars().take(SALT_CHARS).collect();
        Ok(Self { space, top: space.project.dir().join("bases").join(boot), absent, salt })
    }

    pub(super) fn dir(&self, commit: &ObjectId) -> PathBuf {
        self.top.join(format!("{commit}-{}", self.salt))
    }

    /// Opens a state that exists. One that differs from its manifest is set aside, and does not exist then.
    pub(super) fn load(&self, dir: &Path) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        if let Some(state) = self.space.spaces.bases.get(dir) {
            return Ok(Some(state));
        }
        let Some(text) = disk::read_if_there(&dir.join(MADE))? else { return Ok(None) };
        let Ok(mark) = serde_json::from_slice::<StateMark>(&text) else { return self.discard(dir) };
        let Ok(commit) = mark.commit.parse::<ObjectId>() else { return self.discard(dir) };
        let held = File::open(dir).map_err(disk::failed("opening", dir))?;
        // A cleaning that removes it now has an exclusive lock.
        if flock(&held, FlockOperation::NonBlockingLockShared).is_err() || !dir.join(MADE).exists() {
            return Ok(None);
        }
        let below = match &mark.over {
            Some(over) if check_id(over).is_ok() => {
                let below = self.load(&self.top.join(over))?;
                if below.is_none() {
                    drop(held);
                    return self.discard(dir);
                }
                below
            }
            Some(_) => {
                drop(held);
                return self.discard(dir);
            }
            None => None,
        };
        if !is_as_laid_out(&dir.join(FILES), &dir.join(MANIFEST)) {
            drop(held);
            return self.discard(dir);
        }
        // Cleaning goes by the time of the last use. If that cannot be set, the state is only removed sooner.
        let _ = File::open(dir.join(MADE)).and_then(|made| made.set_modified(SystemTime::now()));
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let state = BaseState {
            commit,
            name,
            depth: mark.depth,
            dir: dir.to_owned(),
            below,
            table: OnceLock::new(),
            _held: held,
        };
        Ok(Some(self.space.spaces.bases.keep(state)))
    }

    /// Makes room for a new state. One that a process uses is only renamed: its files are the lower layer of a mount.
    fn discard(&self, dir: &Path) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let opened = File::open(dir).map_err(disk::failed("opening", dir))?;
        if flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let away = self.space.spaces.put_away(dir)?;
            std::thread::spawn(move || drop(disk::remove_tree(&away)));
        } else if dir.file_name().is_some_and(|name| !disk::is_temporary(name)) {
            // Cleaning removes it when it is no longer used.
            fs::rename(dir, disk::temporary(dir)).map_err(disk::failed("renaming", dir))?;
        }
        Ok(None)
    }

    pub(super) fn make(
        &self,
        commit: &ObjectId,
        near: Option<&ObjectId>,
    ) -> Result<Arc<BaseState>, RepositoryError> {
        self.forget_leftovers()?;
        if let Some(below) = self.below(near)? {
            let git = self.space.git();
            let mut below = below;
            let mut differing = changes(&git, &below.commit, commit)?;
            if below.depth >= DEPTH_MAX {
                below = below.bottom();
                differing = changes(&git, &below.commit, commit)?;
            }
            let table = self.space.table_of(&below)?;
            if differing.len() <= THIN_MAX_FILES.max(table.files / 4) {
                return self.make_thin(commit, &below, &table, &differing);
            }
        }
        self.make_whole(commit)
    }

    /// The state to make a layer over: that of the near commit, or the newest.
    fn below(&self, near: Option<&ObjectId>) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        if let Some(near) = near
            && let Some(state) = self.load(&self.dir(near))?
        {
            return Ok(Some(state));
        }
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with(&self.salt) && path.join(MADE).exists()
        };
        let made = |path: &PathBuf| path.join(MADE).metadata().and_then(|made| made.modified());
        let newest = entries_of(&self.top)?
            .into_iter()
            .filter(ours)
            .max_by_key(|path| made(path).unwrap_or(SystemTime::UNIX_EPOCH));
        newest.map_or(Ok(None), |dir| self.load(&dir))
    }

    /// Removes states of other boots, whose content may never have reached the disk, and unfinished ones of processes
    /// that ended.
    fn forget_leftovers(&self) -> Result<(), RepositoryError> {
        let all = self.top.parent().unwrap_or(&self.top);
        let others = entries_of(all)?.into_iter().filter(|dir| *dir != self.top);
        let unfinished =
            entries_of(&self.top)?.into_iter().filter(|dir| dir.file_name().is_some_and(disk::maker_is_gone));
        for dir in others.chain(unfinished) {
            self.discard(&dir)?;
        }
        Ok(())
    }

    fn make_whole(&self, commit: &ObjectId) -> Result<Arc<BaseState>, RepositoryError> {
        let space = self.space;
        let (tree, files) = space.files_of(commit)?;
        self.complete(commit, None, |making| {
            let looked_ns = now_ns();
            let into = making.join(FILES);
            make_dir(&into)?;
            let sources = space.sources(&space.run, commit);
            let git = space.git();
            let checkout = Checkout {
                git: &git,
                into: &into,
                files: &files,
                sources: &sources,
                absent: &self.absent,
                read_only: false,
            };
            let entries = checkout.write()?;
            space.plant_git(&making.join(GIT), commit, &entries)?;
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
            let changed: Vec<TreeFile> = differing.iter().filter_map(new_file).collect();
            let git = space.git();
            let (sources, absent) = (space.sources(&space.run, commit), &self.absent);
            let checkout = Checkout {
                git: &git,
                into: &into,
                files: &changed,
                sources: &sources,
                absent,
                read_only: false,
            };
            let entries = checkout.write()?;
            for change in differing.iter().filter(|change| change.new.is_none()) {
                white_out(&into, &after, table, &change.path)?;
            }
            let all = merged_entries(below, differing, &entries).ok_or_else(|| {
                RepositoryError::Damaged(format!("the manifest of {} cannot be read", below.dir.display()))
            })?;
            space.plant_git(&making.join(GIT), commit, &all)?;
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
        let dir = self.dir(commit);
        disk::make_dirs(&self.top)?;
        let making = disk::temporary(&dir);
        fs::create_dir(&making).map_err(disk::failed("making", &making))?;
        let options = &self.space.spaces.options;
        options.hit("workspace.base.before_files");
        let completed = fill(&making).and_then(|table| self.put_in_place(commit, below, &making, table));
        if completed.is_err() {
            // What cannot be removed now is removed when this process has ended.
            drop(disk::remove_tree(&making));
        }
        completed
    }

    /// Marks a state as complete and renames it into place.
    fn put_in_place(
        &self,
        commit: &ObjectId,
        below: Option<&Arc<BaseState>>,
        making: &Path,
        table: TreeTable,
    ) -> Result<Arc<BaseState>, RepositoryError> {
        let dir = self.dir(commit);
        let held = File::open(making).map_err(disk::failed("opening", making))?;
        flock(&held, FlockOperation::NonBlockingLockShared)
            .map_err(|errno| RepositoryError::io("locking", making, &errno.into()))?;
        let state = BaseState {
            commit: *commit,
            name: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            depth: below.map_or(0, |below| below.depth + 1),
            dir: dir.clone(),
            below: below.cloned(),
            table: OnceLock::from(Arc::new(table)),
            _held: held,
        };
        let mark = serde_json::to_vec(&state.mark()).unwrap_or_default();
        disk::write_cache(&making.join(MADE), &mark)?;
        self.space.spaces.options.hit("workspace.base.before_rename");
        fs::rename(making, &dir).map_err(disk::failed("making", &dir))?;
        Ok(self.space.spaces.bases.keep(state))
    }
}

/// The entries of a state that is a layer over another one, with the stat of each file.
fn merged_entries(below: &Arc<BaseState>, differing: &[Change], changed: &[Entry]) -> Option<Vec<Entry>> {
    let mut all: BTreeMap<Vec<u8>, Entry> = BTreeMap::new();
    let mut chain = vec![below.clone()];
    while let Some(next) = chain.last().and_then(|state| state.below.clone()) {
        chain.push(next);
    }
    for state in chain.iter().rev() {
        let entries = state.manifest()?.entries;
        all.extend(entries.into_iter().map(|entry| (entry.path.clone(), entry)));
    }
    // Files that a layer in between deleted have no entry in the tree.
    let table = below.table.get()?;
    all.retain(|path, entry| table.get(path).is_some_and(|item| item.oid == entry.oid));
    for change in differing {
        all.remove(&change.path);
    }
    all.extend(changed.iter().map(|entry| (entry.path.clone(), entry.clone())));
    Some(all.into_values().collect())
}
