//! Updates an agent's workspace after a merge.
//!
//! The agent's work ref moves first, by compare and swap. Then exactly the differing paths are written. Each path on
//! disk is old, new, or something else: old becomes new, new stays, anything else is a concurrent change and is kept.
//! So the same call, repeated after a crash at any point, finishes the work.

use posse_engine::ports::UpdateOutcome;

use super::change::{Change, EntryType, becomes_directory, changes, shown};
use super::objects::Reader;
use super::tree_switch::{PathState, TreeSwitch};
use super::{Git, ObjectId, RepositoryError, disk};

/// How many blobs are read in this process. For more, a git process is faster: it reads each pack once.
const READ_HERE_MAX: usize = 100;

/// Updates the files of `onto` from one tree to another.
pub(super) fn update_files(
    git: &Git,
    mut onto: TreeSwitch,
    old: &ObjectId,
    new: &ObjectId,
    hit: &dyn Fn(&'static str),
) -> Result<UpdateOutcome, RepositoryError> {
    let changes = changes(git, old, new)?;
    let (removals, writes): (Vec<&Change>, Vec<&Change>) = changes
        .iter()
        .filter(|change| !change.touches(EntryType::Submodule))
        .partition(|change| change.new.is_none());
    let staged = stage(git, &mut onto, &writes)?;
    hit("workspace.update.after_staging");
    let mut updated = UpdateOutcome::default();
    // Removals first: a directory may have to make room for a file.
    for change in removals {
        match onto.inspect(&change.path)? {
            PathState::Absent => onto.prune(parent(&change.path)),
            found if found.is(change.old.as_ref()) => {
                onto.remove(&change.path)?;
                updated.written += 1;
                hit("workspace.update.between_paths");
            }
            PathState::Directory if becomes_directory(change, &changes) => {}
            _ => updated.conflicts_left.push(shown(&change.path)),
        }
    }
    for (change, number) in writes.iter().zip(staged) {
        let (Some(number), Some(side)) = (number, change.new) else { continue };
        let found = onto.inspect(&change.path)?;
        // Git does not track empty directories; a non-empty one stops the rename.
        let old = found.is(change.old.as_ref()) || (change.old.is_none() && found == PathState::Directory);
        if old && onto.put(number, &change.path, side.kind)? {
            updated.written += 1;
            hit("workspace.update.between_paths");
        } else if !found.is(change.new.as_ref()) {
            updated.conflicts_left.push(shown(&change.path));
        }
    }
    onto.finish()?;
    updated.conflicts_left.sort();
    Ok(updated)
}

/// Stages the new content of all paths that do not have it yet.
fn stage(
    git: &Git,
    onto: &mut TreeSwitch,
    writes: &[&Change],
) -> Result<Vec<Option<usize>>, RepositoryError> {
    let mut staged = vec![None; writes.len()];
    let mut wanted = Vec::new();
    for (at, change) in writes.iter().enumerate() {
        if let Some(side) = change.new
            && !onto.inspect(&change.path)?.is(Some(&side))
        {
            wanted.push((at, side));
        }
    }
    contents(git, &wanted.iter().map(|(_, side)| side.oid).collect::<Vec<_>>(), |place, content| {
        let (at, side) = wanted[place];
        staged[at] = Some(onto.stage(side.kind, &content)?);
        Ok(())
    })?;
    onto.sync_staged()?;
    Ok(staged)
}

/// Passes the contents of blobs to a function, in order.
pub(super) fn contents(
    git: &Git,
    oids: &[ObjectId],
    mut each: impl FnMut(usize, Vec<u8>) -> Result<(), RepositoryError>,
) -> Result<(), RepositoryError> {
    if oids.is_empty() {
        return Ok(());
    }
    let mut done = 0;
    if let Some(stored) = git.stored_objects().filter(|_| oids.len() <= READ_HERE_MAX) {
        while let Some((_, content)) = oids.get(done).and_then(|oid| stored.read(oid)) {
            each(done, content)?;
            done += 1;
        }
    }
    if done == oids.len() {
        return Ok(());
    }
    Reader::start(git)?.each(&oids[done..], |place, size, reader| {
        let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
        reader.read_to_end(&mut content).map_err(disk::failed("reading objects of", git.git_dir()))?;
        if content.len() as u64 != size {
            return Err(RepositoryError::killed("cat-file"));
        }
        each(done + place, content)
    })
}

/// The directory part of a path.
fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&path[..0], |at| &path[..at])
}
