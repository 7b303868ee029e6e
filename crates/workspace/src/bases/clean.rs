//! Finds the states that a cleaning may remove.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};

use super::super::gc::entries_of;
use super::super::project::Project;
use super::super::refs::check_id;
use super::super::sync::UNKNOWN_BOOT;
use super::super::{Lock, RepositoryError, disk};
use super::{MADE, StateMark};

/// The states of a project that no other state lies over, with the time of their last use. States of other boots are
/// among them, because none can be used again.
pub(in super::super) fn unused(
    project: &Project,
    boot: Option<&str>,
) -> Result<Vec<(PathBuf, SystemTime)>, RepositoryError> {
    let current = boot.filter(|boot| check_id(boot).is_ok()).unwrap_or(UNKNOWN_BOOT);
    let mut found = Vec::new();
    for top in entries_of(&project.dir().join("bases"))? {
        let states = entries_of(&top)?;
        let is_current = top.file_name().is_some_and(|name| name == current);
        let below = states.iter().filter_map(|dir| StateMark::read(dir)?.over);
        let below: HashSet<String> = below.filter(|_| is_current).collect();
        for dir in states {
            let name = dir.file_name().unwrap_or_default();
            let is_making = disk::is_temporary(name) && !disk::maker_is_gone(name);
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
pub(in super::super) fn lock_unused(dir: &Path) -> Option<File> {
    let opened = File::open(dir).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(opened)
}

/// Waits until no other process makes or removes states of a project.
pub(in super::super) fn lock_all(project: &Project) -> Result<Lock, RepositoryError> {
    Lock::wait(&project.dir().join("bases.lock"))
}
