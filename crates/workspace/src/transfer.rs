//! Exports objects of a run as bytes and imports them on another machine, for fleets.
//!
//! A transfer is one line of JSON and a pack. The line contains the run's record, from which workspaces are created,
//! and the run's refs that name an object of the transfer. The pack has every object that the named ones reach and the
//! bases do not. Files that `workspace.copy` names are not included: they are ignored files of the user, mostly
//! secrets, and stay on the machine with the folder.
//!
//! Why it is like this: `docs/decisions/workspace-object-transfer.md`.

use std::fmt::{Display, Write as _};
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::begin::Record;
use super::change::unreadable;
use super::gc::entries_of;
use super::project::{Project, pack_part};
use super::quarantine::Quarantine;
use super::refs::{Refs, base_ref, check_id, imported_ref};
use super::run::SPARSE;
use super::salvages::belongs;
use super::{Git, LocalFiles, ObjectId, RepositoryError, RunSpace, disk};

/// The version of the format that is written, and the newest that is read.
const VERSION: u32 = 1;
/// Packs the missing objects without deltas against other packs.
const PACKING: &[&str] = &["pack-objects", "--revs", "--stdout", "--delta-base-offset", "-q"];
/// The length of a pack without objects: its header and its checksum.
const EMPTY_PACK_BYTES: usize = 32;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    posse_objects: u32,
    run: String,
    record: Record,
    /// The paths outside the user's sparse checkout, each ended by a zero byte.
    sparse: Vec<u8>,
    /// The commits at which the history of a shallow clone ends.
    shallow: Option<String>,
    objects: Vec<ObjectId>,
    bases: Vec<ObjectId>,
    refs: Vec<(String, ObjectId)>,
}

impl Header {
    /// Refuses refs of another run, and refs to objects that are not in the transfer.
    fn check_refs(&self) -> Result<(), RepositoryError> {
        let is_own = |(name, object): &(String, ObjectId)| {
            let id = name.strip_prefix("refs/posse/").and_then(|rest| rest.split('/').nth(1));
            id.is_some_and(|id| belongs(id, &self.run))
                && name.split('/').all(|part| check_id(part).is_ok())
                && self.objects.contains(object)
        };
        if self.refs.iter().all(is_own) { Ok(()) } else { Err(not_a_transfer()) }
    }
}

impl RunSpace {
    /// Exports everything that `objects` reach and `bases` do not.
    pub(super) fn pack_objects(
        &self,
        objects: &[ObjectId],
        bases: &[ObjectId],
    ) -> Result<Vec<u8>, RepositoryError> {
        let git = self.git();
        let shallow = disk::read_if_there(&self.project.repository().join("shallow"))?;
        let header = Header {
            posse_objects: VERSION,
            run: self.run.clone(),
            record: Record { copies: Vec::new(), ..self.record.clone() },
            sparse: disk::read_if_there(&self.dir().join(SPARSE))?.unwrap_or_default(),
            shallow: shallow.map(|text| String::from_utf8_lossy(&text).into_owned()),
            objects: objects.to_vec(),
            bases: bases.to_vec(),
            refs: refs_naming(&git, &self.run, objects)?,
        };
        let wanted: String = objects
            .iter()
            .map(|object| format!("{object}\n"))
            .chain(bases.iter().map(|base| format!("^{base}\n")))
            .collect();
        let pack = git.run_with(PACKING, wanted.as_bytes())?;
        let mut transfer = serde_json::to_vec(&header).map_err(|error| {
            RepositoryError::Unsupported(format!("the run's record cannot be written: {error}"))
        })?;
        transfer.push(b'\n');
        transfer.extend(pack);
        Ok(transfer)
    }
}

impl LocalFiles {
    /// Imports a transfer that [`RunSpace::pack_objects`] exported on another machine. Existing refs of the run stay
    /// unchanged: they belong to workspaces of this machine.
    pub(super) fn take_objects(&self, run: &str, transfer: &[u8]) -> Result<(), RepositoryError> {
        check_id(run)?;
        let end = transfer.iter().position(|byte| *byte == b'\n').ok_or_else(not_a_transfer)?;
        let header: Header = serde_json::from_slice(&transfer[..end]).map_err(|_| not_a_transfer())?;
        if header.posse_objects > VERSION {
            let version = header.posse_objects;
            let text =
                format!("the objects of run {run} are in format {version}, which is newer than {VERSION}");
            return Err(RepositoryError::Unsupported(text));
        }
        if header.run != run {
            let text = format!("these objects are of run {}, not of {run}", header.run);
            return Err(RepositoryError::Unsupported(text));
        }
        header.check_refs()?;
        check_id(&header.record.project)?;
        let project = Project::with_key(&self.state, &header.record.project);
        project.ensure(&header.record.folder)?;
        let git = project.git(&self.options.git);
        self.take_pack(&project, &git, &header, &transfer[end + 1..])?;
        name_objects(&project, &git, &header)?;
        let dir = self.run_dir(run);
        if self.record(run)?.is_some() {
            return Ok(());
        }
        disk::make_dirs(&dir)?;
        if !header.sparse.is_empty() {
            disk::write_durably(&dir.join(SPARSE), &header.sparse)?;
        }
        let record = serde_json::to_vec_pretty(&header.record).map_err(|_| not_a_transfer())?;
        // Last, because this file makes the run known here.
        disk::write_durably(&dir.join("project.json"), &record)
    }

    /// Adds the objects to the repository after checking that everything they reach exists.
    fn take_pack(
        &self,
        project: &Project,
        git: &Git,
        header: &Header,
        pack: &[u8],
    ) -> Result<(), RepositoryError> {
        let missing = missing(git, &header.bases)?;
        if let Some(base) = missing.first() {
            let text = format!("the objects of run {} build on {base}, which is not here", header.run);
            return Err(RepositoryError::Unsupported(text));
        }
        let _lock = project.lock()?;
        take_shallow(&project.repository(), header)?;
        let hit = || self.options.hit("workspace.import.before_pack");
        add_packs(git, &[pack], &header.objects, &header.bases, hit).map_err(|error| match error {
            RepositoryError::Damaged(problem) => RepositoryError::Damaged(format!(
                "the objects of run {} are incomplete: {problem}",
                header.run
            )),
            error => error,
        })
    }
}

/// Adds packs to a repository, durably, after checking that everything that `objects` reach is there. `bases` are in the
/// repository, and are not checked.
pub(super) fn add_packs(
    git: &Git,
    packs: &[&[u8]],
    objects: &[ObjectId],
    bases: &[ObjectId],
    before_pack: impl FnOnce(),
) -> Result<(), RepositoryError> {
    let quarantine = unpacked(git, packs)?;
    let mut walk: Vec<String> = ["rev-list", "--objects", "--quiet"].map(str::to_owned).to_vec();
    walk.extend(objects.iter().map(ObjectId::to_string));
    walk.extend(bases.iter().map(|base| format!("^{base}")));
    quarantine.git().run(&walk).map_err(|error| match error {
        RepositoryError::Git { stderr, .. } => RepositoryError::Damaged(stderr),
        error => error,
    })?;
    before_pack();
    put_packs(&quarantine.dir().join("pack"), &git.git_dir().join("objects/pack"))
}

/// A temporary directory with the objects of packs, which git can read beside those of the repository.
pub(super) fn unpacked(git: &Git, packs: &[&[u8]]) -> Result<Quarantine, RepositoryError> {
    let quarantine = Quarantine::new(git)?;
    for pack in packs.iter().filter(|pack| pack.len() > EMPTY_PACK_BYTES) {
        quarantine.git().run_with(&["index-pack", "--strict", "--stdin"], pack)?;
    }
    Ok(quarantine)
}

fn not_a_transfer() -> RepositoryError {
    RepositoryError::Unsupported("these bytes are not objects that Posse exported".to_owned())
}

/// The refs of a run that name one of these objects.
fn refs_naming(
    git: &Git,
    run: &str,
    objects: &[ObjectId],
) -> Result<Vec<(String, ObjectId)>, RepositoryError> {
    let listed = git.run(&["for-each-ref", "--format=%(objectname) %(refname)", "refs/posse/"])?;
    let listed = String::from_utf8(listed).map_err(|_| unreadable("for-each-ref"))?;
    let mut found = Vec::new();
    for line in listed.lines() {
        let (object, name) = line.split_once(' ').ok_or_else(|| unreadable("for-each-ref"))?;
        let object: ObjectId = object.parse().map_err(|_| unreadable("for-each-ref"))?;
        let of_run = name.split('/').nth(3).is_some_and(|id| belongs(id, run));
        if of_run && objects.contains(&object) {
            found.push((name.to_owned(), object));
        }
    }
    Ok(found)
}

/// One entry per line, as git reads and writes lists.
fn lines<T: Display>(entries: impl IntoIterator<Item = T>) -> String {
    entries.into_iter().fold(String::new(), |mut text, entry| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{entry}");
        text
    })
}

/// The objects that are not in the repository.
pub(super) fn missing(git: &Git, objects: &[ObjectId]) -> Result<Vec<ObjectId>, RepositoryError> {
    if objects.is_empty() {
        return Ok(Vec::new());
    }
    let asked = lines(objects);
    let answer = git.run_with(&["cat-file", "--batch-check"], asked.as_bytes())?;
    let answer = String::from_utf8(answer).map_err(|_| unreadable("cat-file"))?;
    let found = objects.iter().zip(answer.lines()).filter(|(_, line)| line.ends_with(" missing"));
    Ok(found.map(|(object, _)| *object).collect())
}

/// Adds the commits at which the history ends to those already recorded.
fn take_shallow(repository: &Path, header: &Header) -> Result<(), RepositoryError> {
    let Some(theirs) = &header.shallow else { return Ok(()) };
    let path = repository.join("shallow");
    let ours = disk::read_if_there(&path)?.unwrap_or_default();
    let ours = String::from_utf8_lossy(&ours).into_owned();
    let ends: std::collections::BTreeSet<&str> = ours.lines().chain(theirs.lines()).collect();
    if ends.iter().any(|line| line.parse::<ObjectId>().is_err()) {
        return Err(not_a_transfer());
    }
    let text = lines(ends);
    if text == ours { Ok(()) } else { disk::write_durably(&path, text.as_bytes()) }
}

/// Moves packs into a repository, durably. Indexes come last, because git finds packs by them.
fn put_packs(from: &Path, to: &Path) -> Result<(), RepositoryError> {
    if !from.is_dir() {
        return Ok(());
    }
    let mut parts: Vec<PathBuf> = entries_of(from)?;
    parts.retain(|part| part.file_name().is_some_and(|name| pack_part(name).is_some()));
    parts.sort_by_key(|part| part.file_name().and_then(pack_part));
    for part in &parts {
        fs::File::open(part).and_then(|file| file.sync_all()).map_err(disk::failed("syncing", part))?;
        let place = to.join(part.file_name().unwrap_or_default());
        fs::rename(part, &place).map_err(disk::failed("taking", &place))?;
    }
    disk::sync_dir(to)
}

/// Keeps the imported objects by refs, and restores the run's refs.
fn name_objects(project: &Project, git: &Git, header: &Header) -> Result<(), RepositoryError> {
    let lock = project.lock()?;
    let refs = Refs::of(&project.repository());
    let run = &header.run;
    let _held = project.lock_refs(header.refs.iter().map(|(name, _)| name.as_str()))?;
    for object in &header.objects {
        let name = imported_ref(run, object);
        refs.swap(&lock, &name, refs.read(&name)?.as_ref(), object)?;
    }
    let base: ObjectId = header.record.commit.parse().map_err(|_| not_a_transfer())?;
    let base = missing(git, &[base])?.is_empty().then(|| (base_ref(run), base));
    for (name, object) in header.refs.iter().cloned().chain(base) {
        if refs.read(&name)?.is_none() {
            refs.swap(&lock, &name, None, &object)?;
        }
    }
    Ok(())
}
