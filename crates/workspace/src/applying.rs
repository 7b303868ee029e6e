//! Opens the user's checkout for an apply or an undo of a run's work, and keeps what an undo needs.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use posse_domain::id::{AgentId, RunId};
use posse_domain::permission::Approvals;
use posse_engine::ports::{ApplyError, ApplyPlan, ApplySummary};

use super::apply::{Application, EarlierResult};
use super::apply_intent::Intent;
use super::change::changes;
use super::gate::Terms;
use super::manifest::Manifest;
use super::object::{ObjectType, TreeEntry};
use super::path_writer::PathWriter;
use super::protected_names::ProtectedNames;
use super::refs::{Refs, check_id, kept_ref};
use super::space::{ProtectedEntries, drawn};
use super::tree_switch::{Permissions, TreeSwitch};
use super::undo::undo;
use super::user_repository::UserRepository;
use super::{Lock, ObjectId, RepositoryError, RunSpace, disk, object};

/// The prefix of directories with staged contents.
const APPLY_STAGING: &str = ".posse-apply-";
/// The name of the record of an apply of a run's result.
const OF_RESULT: &str = "apply.json";
/// What the name of the record of an apply of an agent's work begins with.
const OF_AGENT: &str = "apply-";
const RECORD_SUFFIX: &str = ".json";
/// The mode of a file in a tree.
const PLAIN_FILE_BITS: u32 = 0o100_644;

/// What is done with an application: it writes, or it only decides.
type ActOnFolder<T> = fn(&Application<'_>, TreeSwitch) -> Result<T, ApplyError>;

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of a type with a lifetime is no function for every lifetime"
)]
impl RunSpace {
    /// Applies the run's result to the user's checkout at `dir`: all of it, or nothing if there is any conflict.
    pub fn apply(&self, dir: &Path) -> Result<ApplySummary, ApplyError> {
        self.with_result(dir, |application, onto| application.apply(onto))
    }

    /// What [`apply`](Self::apply) would write now.
    pub fn check_apply(&self, dir: &Path) -> Result<ApplyPlan, ApplyError> {
        self.with_result(dir, |application, onto| application.check(onto))
    }

    fn with_result<T>(&self, dir: &Path, act: ActOnFolder<T>) -> Result<T, ApplyError> {
        let (base, result) = (self.compared_with()?, self.result()?);
        let earlier = self.earlier_results()?;
        self.between(&self.run, dir, (base, result), earlier, act)
    }

    /// Applies the work of one agent, from the commit that it began with to the commit with its files.
    pub fn apply_work(
        &self,
        agent: &str,
        dir: &Path,
        base: ObjectId,
        commit: ObjectId,
        approvals: &Approvals,
    ) -> Result<ApplySummary, ApplyError> {
        self.with_work(agent, dir, (base, commit), approvals, |application, onto| application.apply(onto))
    }

    /// What [`apply_work`](Self::apply_work) would write now.
    pub fn check_work(
        &self,
        agent: &str,
        dir: &Path,
        base: ObjectId,
        commit: ObjectId,
        approvals: &Approvals,
    ) -> Result<ApplyPlan, ApplyError> {
        self.with_work(agent, dir, (base, commit), approvals, |application, onto| application.check(onto))
    }

    fn with_work<T>(
        &self,
        agent: &str,
        dir: &Path,
        (base, commit): (ObjectId, ObjectId),
        approvals: &Approvals,
        act: ActOnFolder<T>,
    ) -> Result<T, ApplyError> {
        check_id(agent)?;
        let git = self.git();
        let names = ProtectedNames::of(approvals);
        let ProtectedEntries { protected, opened } = self.closed(&names.protected, &names.opened);
        let terms = Terms { owns: &[], protected: &protected, opened: &opened };
        if let Some(refused) = terms.check(&git, &changes(&git, &base, &commit)?, &base, &commit)? {
            return Err(ApplyError::Refused { problems: refused.problems });
        }
        self.between(agent, dir, (base, commit), Vec::new(), act)
    }

    fn between<T>(
        &self,
        agent: &str,
        dir: &Path,
        (base, result): (ObjectId, ObjectId),
        earlier: Vec<EarlierResult>,
        act: ActOnFolder<T>,
    ) -> Result<T, ApplyError> {
        self.writing(dir, true, |writer, onto| {
            let keep = |commits: &[ObjectId], contents: &[Vec<u8>]| self.keep_contents(commits, contents);
            let intent = self.intent(agent);
            let application =
                Application { writer: *writer, base, earlier, result, intent: &intent, keep: &keep };
            act(&application, onto)
        })
    }

    /// Takes back what the last apply of an agent's work wrote; the run stands for its result.
    pub fn undo_apply(&self, agent: &str, dir: &Path) -> Result<ApplySummary, ApplyError> {
        check_id(agent)?;
        self.writing(dir, false, |writer, onto| undo(writer, &self.intent(agent), onto))
    }

    /// The record of the last apply of an agent's work.
    pub(super) fn intent(&self, agent: &str) -> PathBuf {
        let name = if agent == self.run {
            OF_RESULT.to_owned()
        } else {
            format!("{OF_AGENT}{agent}{RECORD_SUFFIX}")
        };
        self.dir().join(name)
    }

    /// Calls a function that writes into the user's checkout. Two concurrent calls would mistake each other's files for
    /// the user's.
    fn writing<T>(
        &self,
        dir: &Path,
        is_stored: bool,
        write: impl FnOnce(&PathWriter<'_>, TreeSwitch) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        let options = &self.spaces.options;
        let _held = Lock::wait(&self.dir().join("apply.lock"))?;
        let user_repository = UserRepository::find(dir, &options.git, options.home.as_deref())?;
        let git = self.git();
        let begun = Manifest::load(&self.dir().join("manifest"));
        let writer = PathWriter {
            begun: begun.as_ref(),
            git: &git,
            executable_counts: user_repository.as_ref().is_none_or(UserRepository::executable_counts),
            is_stored,
            hit: &|point| options.hit(point),
        };
        let record = self.dir().join("apply.staging");
        let staging = self.staging(dir, &record)?;
        let written = write(&writer, TreeSwitch::open(dir, &staging, Permissions::AsBefore)?);
        if !staging.exists() {
            fs::remove_file(&record).map_err(disk::failed("removing", &record))?;
        }
        written
    }

    /// Keeps contents of the user's checkout, and the commits that an apply compared, as long as the run is kept.
    fn keep_contents(&self, commits: &[ObjectId], contents: &[Vec<u8>]) -> Result<(), RepositoryError> {
        let pack = self.new_pack();
        let mut named = BTreeMap::new();
        for content in contents {
            let oid = object::name(ObjectType::Blob, content);
            pack.add(ObjectType::Blob, oid, content)?;
            named.insert(oid.to_string(), oid);
        }
        let entry = |(name, oid): (&'_ String, &ObjectId)| (name.clone(), *oid);
        let named: Vec<(String, ObjectId)> = named.iter().map(entry).collect();
        let mut entries: Vec<TreeEntry<'_>> = named
            .iter()
            .map(|(name, oid)| TreeEntry { bits: PLAIN_FILE_BITS, name: name.as_bytes(), oid: *oid })
            .collect();
        let tree = object::encode_tree(&mut entries);
        let oid = object::name(ObjectType::Tree, &tree);
        pack.add(ObjectType::Tree, oid, &tree)?;
        let commit = super::add_commit(&pack, &oid, commits, "posse: before an apply")?;
        let lock = self.project.lock()?;
        pack.finish()?;
        let (refs, name) = (Refs::of(&self.project.repository()), kept_ref(&self.run, &commit));
        refs.swap(&lock, &name, refs.read(&name)?.as_ref(), &commit)
    }

    /// Whether the user's repository has this branch.
    pub(super) fn has_branch(&self, branch: &str) -> Result<bool, RepositoryError> {
        let options = &self.spaces.options;
        let found = UserRepository::find(self.folder(), &options.git, options.home.as_deref())?;
        let Some(found) = found.filter(|_| self.is_repository()) else { return Ok(false) };
        Ok(found.has_tables() || found.read_ref(&format!("refs/heads/{branch}"))?.is_some())
    }

    /// A new staging directory beside the files, because a rename does not cross filesystems. Its name is random, so
    /// that no path of a result can be beneath it. It is recorded before it is created, so that only leftovers of an
    /// interrupted call are ever removed.
    fn staging(&self, dir: &Path, record: &Path) -> Result<PathBuf, RepositoryError> {
        let left = disk::read_if_there(record)?.map(|path| PathBuf::from(OsString::from_vec(path)));
        let is_ours = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(APPLY_STAGING.as_bytes()))
        };
        if let Some(left) = left.filter(is_ours) {
            disk::remove_tree(&left)?;
        }
        let staging = dir.join(format!("{APPLY_STAGING}{}-{:016x}", self.run, drawn(dir)?));
        disk::write_durably(record, staging.as_os_str().as_encoded_bytes())?;
        Ok(staging)
    }
}

/// The agents of a run whose work is applied, by the records in the directory of the run, each with the time of its apply.
pub(super) fn applied_in(dir: &Path, run: &RunId) -> Result<Vec<(SystemTime, AgentId)>, RepositoryError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        // No agent of the run could change files, or they were removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(disk::failed("reading", dir)(error)),
    };
    let mut applied = Vec::new();
    for entry in entries {
        let entry = entry.map_err(disk::failed("reading", dir))?;
        let name = entry.file_name();
        let Some(agent) = name.to_str().and_then(|name| agent_of_record(name, run)) else { continue };
        let path = entry.path();
        if Intent::load(&path)?.is_some_and(|intent| !intent.writes.is_empty()) {
            let at = entry.metadata().and_then(|about| about.modified());
            applied.push((at.map_err(disk::failed("reading", &path))?, agent));
        }
    }
    Ok(applied)
}

/// The agent whose apply a file records, by its name.
fn agent_of_record(name: &str, run: &RunId) -> Option<AgentId> {
    if name == OF_RESULT {
        return Some(run.root());
    }
    name.strip_prefix(OF_AGENT)?.strip_suffix(RECORD_SUFFIX)?.parse().ok()
}
