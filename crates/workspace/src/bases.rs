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
//! <state>/projects/<key>/bases/<boot>/<commit>-<salt>/manifest    the stat of each file
//! ```
//!
//! Why it is like this: `docs/decisions/workspace-overlays.md`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode as Permissions, flock, mknodat, statat};
use serde::{Deserialize, Serialize};

use super::change::{Change, EntryType, changes};
use super::checkout::Checkout;
use super::gc::entries_of;
use super::manifest::{Entry, Manifest, Stat, now_ns};
use super::object::Mode;
use super::objects::TreeFile;
use super::project::Project;
use super::refs::check_id;
use super::sync::UNKNOWN_BOOT;
use super::tree_table::{ItemKind, TreeTable};
use super::{Lock, ObjectId, RepositoryError, RunSpace, disk};
use posse_files::parallel;

/// How many thin layers may lie over a base. A state above that is a layer over the base itself.
pub(crate) const DEPTH_MAX: usize = 16;
/// A commit that differs in more files than this, and in more than one in four, gets a base of its own.
const THIN_MAX_FILES: usize = 1_000;
/// How many states a process keeps in memory.
const STATES_MAX: usize = 64;
/// How many hexadecimal digits distinguish states of one commit.
const SALT_CHARS: usize = 8;
/// The names in the directory of a state.
const MADE: &str = "made";
const FILES: &str = "files";
const GIT: &str = "git";
const MANIFEST: &str = "manifest";

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
    pub(crate) fn read(&self, path: &[u8], limit: u64) -> Option<Vec<u8>> {
        use std::io::Read;
        let path = Path::new(OsStr::from_bytes(path));
        for dir in self.files() {
            match find(&dir, path) {
                LayerEntry::Plain => {
                    let mut text = Vec::new();
                    File::open(dir.join(path)).ok()?.take(limit).read_to_end(&mut text).ok()?;
                    return Some(text);
                }
                LayerEntry::Hidden => return None,
                LayerEntry::Absent => {}
            }
        }
        None
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

    fn mark(&self) -> StateMark {
        let over = self.below.as_ref().map(|below| below.name.clone());
        StateMark { commit: self.commit.to_string(), over, depth: self.depth }
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
}

impl Bases {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<BaseState>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, dir: &Path) -> Option<Arc<BaseState>> {
        let mut states = self.lock();
        // A project without runs is removed as a whole.
        if !dir.join(MADE).exists() {
            states.remove(dir);
        }
        states.get(dir).cloned()
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
        let making = StateMaker::new(self)?;
        let dir = making.dir(commit);
        if let Some(state) = self.spaces.bases.get(&dir) {
            return Ok(state);
        }
        if let Some(state) = making.load(&dir)? {
            return Ok(state);
        }
        let _held = lock_all(&self.project)?;
        if let Some(state) = making.load(&dir)? {
            return Ok(state);
        }
        making.make(commit, near)
    }

    /// The files of a commit as layers, if they exist.
    pub(crate) fn find_state(&self, commit: &ObjectId) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let making = StateMaker::new(self)?;
        let dir = making.dir(commit);
        self.spaces.bases.get(&dir).map_or_else(|| making.load(&dir), |state| Ok(Some(state)))
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
        let table = match &state.below {
            Some(below) => {
                let changed = changes(&self.git(), &below.commit, &state.commit)?;
                self.table_of(below)?.with(&changed)
            }
            None => TreeTable::of(&self.files_of(&state.commit)?.1),
        };
        Ok(state.table.get_or_init(|| Arc::new(table)).clone())
    }
}

/// Makes and finds the states of one project in this boot.
struct StateMaker<'a> {
    space: &'a RunSpace,
    /// The directory of all states of this boot.
    top: PathBuf,
    absent: HashSet<Vec<u8>>,
    salt: String,
}

impl<'a> StateMaker<'a> {
    fn new(space: &'a RunSpace) -> Result<Self, RepositoryError> {
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

    fn dir(&self, commit: &ObjectId) -> PathBuf {
        self.top.join(format!("{commit}-{}", self.salt))
    }

    /// Opens a state that exists. One that differs from its manifest is set aside, and does not exist then.
    fn load(&self, dir: &Path) -> Result<Option<Arc<BaseState>>, RepositoryError> {
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

    fn make(&self, commit: &ObjectId, near: Option<&ObjectId>) -> Result<Arc<BaseState>, RepositoryError> {
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

/// The states of a project that no other state lies over, with the time of their last use. States of other boots are
/// among them, because none can be used again.
pub(super) fn unused(
    project: &Project,
    boot: Option<&str>,
) -> Result<Vec<(PathBuf, SystemTime)>, RepositoryError> {
    let current = boot.filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
    let mut found = Vec::new();
    for top in entries_of(&project.dir().join("bases"))? {
        let states = entries_of(&top)?;
        let is_current = top.file_name().is_some_and(|name| name == current);
        let mark = |dir: &PathBuf| serde_json::from_slice::<StateMark>(&fs::read(dir.join(MADE)).ok()?).ok();
        let below: HashSet<String> =
            states.iter().filter_map(mark).filter_map(|mark| mark.over).filter(|_| is_current).collect();
        for dir in states {
            let name = dir.file_name().unwrap_or_default();
            let is_making = mark(&dir).is_none() && !disk::maker_is_gone(name);
            if below.contains(&*name.to_string_lossy()) || (is_current && is_making) {
                continue;
            }
            let used = fs::metadata(dir.join(MADE)).or_else(|_| fs::metadata(&dir));
            let Ok(used) = used.and_then(|made| made.modified()) else { continue };
            found.push((dir, used));
        }
    }
    Ok(found)
}

/// Locks a state that no process uses; `None` if one uses it. No process can begin to use it while this is held and the
/// caller has the lock on all states of the project.
pub(super) fn lock_unused(dir: &Path) -> Option<File> {
    let opened = File::open(dir).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(opened)
}

/// Waits until no other process makes or removes states of a project.
pub(super) fn lock_all(project: &Project) -> Result<Lock, RepositoryError> {
    Lock::wait(&project.dir().join("bases.lock"))
}

/// The new side of a change, if it is a file, a link or a submodule.
fn new_file(change: &Change) -> Option<TreeFile> {
    let side = change.new?;
    let mode = match side.kind {
        EntryType::File => Mode::File,
        EntryType::Executable => Mode::Executable,
        EntryType::Link => Mode::Symlink,
        EntryType::Submodule => Mode::Gitlink,
        EntryType::Odd(_) => return None,
    };
    Some(TreeFile { path: change.path.clone(), mode, oid: side.oid })
}

/// A directory whose mode does not depend on the umask: programs see it.
fn make_dir(dir: &Path) -> Result<(), RepositoryError> {
    fs::create_dir(dir).map_err(disk::failed("making", dir))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).map_err(disk::failed("making", dir))
}

/// Hides a deleted file, or the highest directory that was deleted with it.
fn white_out(into: &Path, after: &TreeTable, before: &TreeTable, path: &[u8]) -> Result<(), RepositoryError> {
    // A directory without a file is not in a tree, so it must not stay visible either.
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut ends = ends.into_iter();
    let mut gone = ends.find(|end| !after.has_dir(&path[..=*end])).map_or(path, |end| &path[..end]);
    // A submodule is an empty directory, which would be merged with the one below.
    if after.get(gone).is_some_and(|item| item.kind == ItemKind::Entry(Mode::Gitlink)) && gone != path {
        gone = ends.next().map_or(path, |end| &path[..end]);
    }
    let is_replaced = after.get(gone).is_some() || after.has_dir(&[gone, b"/"].concat());
    if is_replaced || !(before.get(gone).is_some() || before.has_dir(&[gone, b"/"].concat())) {
        return Ok(());
    }
    let at = into.join(OsStr::from_bytes(gone));
    if let Some(parent) = at.parent() {
        make_parents(into, parent)?;
    }
    match mknodat(CWD, &at, FileType::CharacterDevice, Permissions::empty(), 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(RepositoryError::io("making", &at, &errno.into())),
    }
}

fn make_parents(top: &Path, dir: &Path) -> Result<(), RepositoryError> {
    if dir == top || dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        make_parents(top, parent)?;
    }
    make_dir(dir)
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

/// Whether every file is as it was when it was laid out, by its stat.
fn is_as_laid_out(files: &Path, manifest: &Path) -> bool {
    const GROUP: usize = 64;
    let Some(manifest) = Manifest::load(manifest) else { return false };
    let Ok(root) = super::scan::open_root(files) else { return false };
    let groups: Vec<&[Entry]> = manifest.entries.chunks(GROUP).collect();
    let checked = parallel::map(groups.len(), |at| {
        let same = |entry: &Entry| {
            let Some(stat) = entry.stat else { return true };
            let now = statat(&root, entry.path.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            now.is_ok_and(|now| Stat::of(&now) == stat)
        };
        Ok::<bool, RepositoryError>(groups[at].iter().all(same))
    });
    checked.is_ok_and(|checked| checked.into_iter().all(|same| same))
}
