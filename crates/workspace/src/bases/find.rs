//! Finds the states of a project that exist, and sets those aside that cannot be used.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::super::gc::entries_of;
use super::super::refs::check_id;
use super::super::run::SPARSE;
use super::super::sync::UNKNOWN_BOOT;
use super::super::{ObjectId, RepositoryError, RunSpace, disk};
use super::check::{self, changed_entry};
use super::clean::lock_all;
use super::{BaseState, MADE, SPOILED, StateMark};

/// How many hexadecimal digits distinguish states of one commit with different files.
const SALT_CHARS: usize = 8;
/// How many directories one commit may have: states that were set aside stay where they are while they are used.
const DIRS_MAX: usize = 8;

/// The states of one project in this boot.
pub(super) struct ProjectStates<'a> {
    pub(super) space: &'a RunSpace,
    /// The directory of all states of this boot.
    pub(super) top: PathBuf,
    pub(super) salt: String,
}

impl<'a> ProjectStates<'a> {
    pub(super) fn of(space: &'a RunSpace) -> Result<Self, RepositoryError> {
        let boot = space.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
        // States of one commit differ by the files outside of a sparse checkout and by what is planted in `.git`.
        let mut hash = blake3::Hasher::new();
        hash.update(&disk::read_if_there(&space.dir().join(SPARSE))?.unwrap_or_default());
        hash.update(&[0]);
        hash.update(space.record.excludes.as_bytes());
        hash.update(&[0]);
        hash.update(&disk::read_if_there(&space.project.repository().join("shallow"))?.unwrap_or_default());
        let salt = hash.finalize().to_hex().chars().take(SALT_CHARS).collect();
        Ok(Self { space, top: space.project.dir().join("bases").join(boot), salt })
    }

    /// The name of a commit's states, without their numbers.
    pub(super) fn name(&self, commit: &ObjectId) -> String {
        format!("{commit}-{}", self.salt)
    }

    /// The directories that the states of a commit may have.
    pub(super) fn dirs(&self, commit: &ObjectId) -> impl Iterator<Item = PathBuf> {
        let name = self.name(commit);
        let numbered = |number: usize| if number == 1 { name.clone() } else { format!("{name}-{number}") };
        let dirs: Vec<PathBuf> = (1..=DIRS_MAX).map(|number| self.top.join(numbered(number))).collect();
        dirs.into_iter()
    }

    /// A state of a commit that exists, a base if there is one.
    pub(super) fn find(&self, commit: &ObjectId) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let known: Vec<Arc<BaseState>> =
            self.dirs(commit).filter_map(|dir| self.space.spaces.bases.get(&dir)).collect();
        if let Some(best) = known.into_iter().min_by_key(|state| state.depth) {
            return Ok(Some(best));
        }
        let marked = self.dirs(commit).filter_map(|dir| Some((StateMark::read(&dir)?.depth, dir)));
        let mut marked: Vec<(usize, PathBuf)> = marked.collect();
        marked.sort();
        for (_, dir) in marked {
            if let Some(state) = self.load(&dir)? {
                return Ok(Some(state));
            }
        }
        Ok(None)
    }

    /// A base of a commit that exists.
    pub(super) fn find_base(&self, commit: &ObjectId) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        for dir in self.dirs(commit) {
            if StateMark::read(&dir).is_some_and(|mark| mark.over.is_none())
                && let Some(base) = self.load(&dir)?
            {
                return Ok(Some(base));
            }
        }
        Ok(None)
    }

    /// The state with these settings that was used last.
    pub(super) fn newest(&self) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // The salt is the second part of a name.
            name.split('-').nth(1) == Some(&self.salt) && path.join(MADE).exists()
        };
        let made = |path: &PathBuf| path.join(MADE).metadata().and_then(|made| made.modified());
        let newest = entries_of(&self.top)?
            .into_iter()
            .filter(ours)
            .max_by_key(|path| made(path).unwrap_or(SystemTime::UNIX_EPOCH));
        newest.map_or(Ok(None), |dir| self.load(&dir))
    }

    /// Opens a state that exists. One that differs from its manifest is set aside, and does not exist then. The caller
    /// does not have the lock on all states.
    pub(super) fn load(&self, dir: &Path) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        if let Some(state) = self.space.spaces.bases.get(dir) {
            return Ok(Some(state));
        }
        // Many agents that start at once need the same state, and its check looks at every file.
        let _loading = self.space.spaces.bases.begin_loading();
        self.load_alone(dir)
    }

    fn load_alone(&self, dir: &Path) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        if let Some(state) = self.space.spaces.bases.get(dir) {
            return Ok(Some(state));
        }
        let held = match File::open(dir) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(disk::failed("opening", dir))?,
        };
        // A cleaning that removes it now has an exclusive lock, or has removed it.
        if flock(&held, FlockOperation::NonBlockingLockShared).is_err() || !is_at(&held, dir) {
            return Ok(None);
        }
        if !dir.join(MADE).exists() {
            return Ok(None);
        }
        let Some(mark) = StateMark::read(dir) else { return self.set_aside(dir, &held) };
        let Ok(commit) = mark.commit.parse::<ObjectId>() else { return self.set_aside(dir, &held) };
        let below = match &mark.over {
            Some(over) if check_id(over).is_ok() => {
                let below = self.load_alone(&self.top.join(over))?;
                if below.is_none() {
                    return self.set_aside(dir, &held);
                }
                below
            }
            Some(_) => return self.set_aside(dir, &held),
            None => None,
        };
        if let Some(changed) = changed_entry(dir) {
            self.space.spaces.bases.add_note(
                self.space.project.dir(),
                format!(
                    "the shared files of commit {commit} were changed after Posse laid them out ({changed}); Posse lays \
                     them out again, and agents that started before may have read the wrong content"
                ),
            );
            return self.set_aside(dir, &held);
        }
        // Cleaning goes by the time of the last use. If that cannot be set, the state is only removed sooner.
        let _ = File::open(dir.join(MADE)).and_then(|made| made.set_modified(SystemTime::now()));
        let state = BaseState {
            commit,
            name: dir.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            depth: mark.depth,
            dir: dir.to_owned(),
            below,
            table: OnceLock::new(),
            _held: held,
        };
        let state = self.space.spaces.bases.keep(state);
        check::begin(self.space, &state);
        Ok(Some(state))
    }

    /// Marks a state as unusable. Its files stay where they are as long as a process uses them, as layers or by their
    /// path, and are removed afterwards.
    pub(super) fn set_aside(
        &self,
        dir: &Path,
        opened: &File,
    ) -> Result<Option<Arc<BaseState>>, RepositoryError> {
        let _all = lock_all(&self.space.project)?;
        if !is_at(opened, dir) {
            // Another process was first.
            return Ok(None);
        }
        match fs::rename(dir.join(MADE), dir.join(SPOILED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(RepositoryError::io("setting aside", dir, &error));
            }
            _ => {}
        }
        self.remove_unused(dir, opened)?;
        Ok(None)
    }

    /// Removes a directory, unless a process uses it. The caller has the lock on all states.
    fn remove_unused(&self, dir: &Path, opened: &File) -> Result<(), RepositoryError> {
        if flock(opened, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let away = self.space.spaces.put_away(dir)?;
            std::thread::spawn(move || drop(disk::remove_tree(&away)));
        }
        Ok(())
    }

    /// Removes states of other boots, whose content may never have reached the disk, unfinished ones of processes that
    /// ended, and those that were set aside.
    pub(super) fn forget_leftovers(&self) -> Result<(), RepositoryError> {
        let _all = lock_all(&self.space.project)?;
        let is_left = |dir: &PathBuf| {
            let name = dir.file_name().unwrap_or_default();
            disk::maker_is_gone(name) || (!disk::is_temporary(name) && !dir.join(MADE).exists())
        };
        for dir in entries_of(&self.top)?.into_iter().filter(is_left) {
            let opened = File::open(&dir).map_err(disk::failed("opening", &dir))?;
            self.remove_unused(&dir, &opened)?;
        }
        let all = self.top.parent().unwrap_or(&self.top);
        for dir in entries_of(all)?.into_iter().filter(|dir| *dir != self.top) {
            let opened = File::open(&dir).map_err(disk::failed("opening", &dir))?;
            self.remove_unused(&dir, &opened)?;
        }
        Ok(())
    }
}

/// Whether a directory that was opened is still at its path.
fn is_at(opened: &File, path: &Path) -> bool {
    let same =
        |opened: fs::Metadata, now: fs::Metadata| (opened.dev(), opened.ino()) == (now.dev(), now.ino());
    opened.metadata().is_ok_and(|opened| fs::symlink_metadata(path).is_ok_and(|now| same(opened, now)))
}
