//! Creates and opens the workspaces of one run.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::bases::BaseState;
use super::begin::Record;
use super::checkout::{Checkout, Source, plant};
use super::copies::Copies;
use super::disk::UnsyncedFile;
use super::gc::entries_of;
use super::manifest::{Entry, Manifest, now_ns};
use super::object::{self, ObjectType};
use super::objects::{self, TreeFile};
use super::overlays::{self, Overlays};
use super::pack::PackWriter;
use super::project::Project;
use super::refs::{Refs, check_id, work_ref};
use super::torn::Durability;
use super::{Git, LocalFiles, Lock, ObjectId, RepositoryError, Snapshot, disk, index, sync};
use posse_sandbox::{DiskLimit, HolderMode, OverlayMount};

/// The file of a run with the paths outside of the user's sparse checkout.
pub(super) const SPARSE: &str = "sparse";

/// Where the sandbox mounts the objects that the git of a workspace borrows.
pub const BORROWED_OBJECTS: &str = posse_sandbox::OBJECTS_SHOWN_AT;

/// A run that has begun, and its workspaces.
#[derive(Debug, Clone)]
pub struct RunSpace {
    pub(super) spaces: LocalFiles,
    pub(super) run: String,
    pub(super) record: Record,
    pub(super) project: Project,
}

/// A workspace that an agent can work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyWorkspace {
    /// A path to its files in this process. That of an overlay leads through a descriptor, as long as it is mounted.
    pub dir: PathBuf,
    /// The commit that it was created from.
    pub base: ObjectId,
    /// Whether this call created it.
    pub fresh: bool,
    /// Notes for the user, such as about files that a machine crash lost.
    pub notes: Vec<String>,
}

/// The file that marks a workspace as complete, with the commit it was created from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) base: String,
    /// The size of its files.
    pub(super) bytes: u64,
    /// The boot in which the workspace was created, or last found complete.
    pub(super) boot: Option<String>,
    /// How it is mounted, if its files are an upper layer over those of `base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) overlay: Option<HolderMode>,
}

impl Mark {
    /// Stores the mark, which makes the workspace in `home` complete.
    pub(super) fn save(&self, home: &Path) -> Result<(), RepositoryError> {
        disk::write_durably(&home.join("made"), &serde_json::to_vec(self).unwrap_or_default())
    }

    /// Stores the mark of an empty overlay, which a machine crash may lose.
    fn save_quickly(&self, home: &Path) -> Result<(), RepositoryError> {
        disk::write_cache(&home.join("made"), &serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn base(&self) -> Result<ObjectId, RepositoryError> {
        self.base
            .parse()
            .map_err(|_| RepositoryError::Damaged("a workspace's mark names no object".to_owned()))
    }
}

/// A copy of which a part may exist. It is removed if it was not renamed: a full disk must not stay full because of it.
struct UnfinishedCopy<'a>(&'a Path);

impl Drop for UnfinishedCopy<'_> {
    fn drop(&mut self) {
        // What a crash leaves is removed when the next copy is made.
        if !std::thread::panicking() {
            drop(disk::remove_tree(self.0));
        }
    }
}

impl RunSpace {
    pub(super) fn new(spaces: LocalFiles, run: &str, record: Record) -> Result<Self, RepositoryError> {
        check_id(&record.project)?;
        let project = Project::with_key(&spaces.state, &record.project);
        Ok(Self { spaces, run: run.to_owned(), record, project })
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The user's folder that the run works on.
    pub fn folder(&self) -> &Path {
        &self.record.folder
    }

    /// Whether the user's folder is the top of a repository.
    pub fn is_repository(&self) -> bool {
        self.record.is_repository
    }

    /// The snapshot that the run began with.
    pub fn base(&self) -> Result<Snapshot, RepositoryError> {
        let oid = |text: &str| {
            text.parse().map_err(|_| {
                RepositoryError::Damaged(format!("project.json of run {} names no object", self.run))
            })
        };
        Ok(Snapshot { commit: oid(&self.record.commit)?, tree: oid(&self.record.tree)? })
    }

    /// Git in the project's bare repository.
    pub fn git(&self) -> Git {
        self.project.git(&self.spaces.options.git).with_packs(&self.spaces.packs)
    }

    /// Waits until no other process or thread changes a ref of the project's repository.
    pub fn lock_ref(&self, name: &str) -> Result<Lock, RepositoryError> {
        self.project.lock_ref(name)
    }

    /// A new pack for the project's repository.
    pub(super) fn new_pack(&self) -> PackWriter {
        PackWriter::new(&self.project.repository()).known_to(&self.spaces.packs)
    }

    /// The object that a ref of the project's repository names; `None` if the ref does not exist.
    pub fn read_ref(&self, name: &str) -> Result<Option<ObjectId>, RepositoryError> {
        self.refs().read(name)
    }

    /// Sets a ref to `new` if it is at `old` (`None`: it does not exist). Durable when this returns.
    pub fn swap_ref(
        &self,
        held: &Lock,
        name: &str,
        old: Option<&ObjectId>,
        new: &ObjectId,
    ) -> Result<(), RepositoryError> {
        self.refs().swap(held, name, old, new)
    }

    pub(super) fn refs(&self) -> Refs {
        Refs::of(&self.project.repository())
    }

    pub(super) fn dir(&self) -> PathBuf {
        self.spaces.run_dir(&self.run)
    }

    pub(super) fn attempt_dir(&self, agent: &str, attempt: u32) -> PathBuf {
        self.dir().join("workspaces").join(agent).join(attempt.to_string())
    }

    /// The directory with the files of a workspace.
    pub fn dir_of(&self, agent: &str, attempt: u32) -> PathBuf {
        self.attempt_dir(agent, attempt).join("files")
    }

    pub(super) fn mark(&self, agent: &str, attempt: u32) -> Result<Option<Mark>, RepositoryError> {
        let path = self.attempt_dir(agent, attempt).join("made");
        let Some(text) = disk::read_if_there(&path)? else { return Ok(None) };
        let mark = serde_json::from_slice(&text);
        mark.map(Some)
            .map_err(|error| RepositoryError::Damaged(format!("{} cannot be read: {error}", path.display())))
    }

    /// Creates an isolated workspace from its work ref, or from `origin` if it has none yet. A complete one is returned
    /// unchanged. The notes include what was found out about the shared files of the project.
    pub fn make(
        &self,
        agent: &str,
        attempt: u32,
        origin: &ObjectId,
    ) -> Result<ReadyWorkspace, RepositoryError> {
        let mut ready = self.make_files(agent, attempt, origin)?;
        ready.notes.extend(self.spaces.bases.take_notes(self.project.dir()));
        Ok(ready)
    }

    /// Creates an isolated workspace from its work ref, or from `origin` if it has none yet. A complete one is returned
    /// unchanged. If a machine crash lost part of one, all readable files of it are kept. The workspace is created
    /// elsewhere and renamed into place. So a process that was stopped meanwhile, and wakes after another one has taken
    /// over its run, finds the path occupied and changes nothing.
    pub(super) fn make_files(
        &self,
        agent: &str,
        attempt: u32,
        origin: &ObjectId,
    ) -> Result<ReadyWorkspace, RepositoryError> {
        check_id(agent)?;
        if self.refs().read(&work_ref(agent, attempt))?.is_none() {
            self.mark_again(agent, attempt, origin)?;
        }
        let mut notes = Vec::new();
        if let Some(mark) = self.mark(agent, attempt)? {
            let base = mark.base()?;
            if self.lasted(agent, attempt, mark)? == Durability::Whole {
                let dir = self.open_files(agent, attempt)?.path();
                return Ok(ReadyWorkspace { dir, base, fresh: false, notes });
            }
            notes.push(self.set_aside(agent, attempt)?);
        }
        let name = work_ref(agent, attempt);
        let line = self.refs().read(&name)?;
        let base = line.as_ref().unwrap_or(origin);
        if let Some((overlays, mode)) = self.usable_overlays_of(base) {
            match self.make_overlay((overlays, mode), agent, attempt, base, notes.clone()) {
                // One that cannot be mounted here, for example because there are too many mounts, is a copy.
                Err(RepositoryError::NotMounted(why)) => notes.push(format!("its files are a copy: {why}")),
                made => return made,
            }
        }
        let (dir, home) = (self.dir_of(agent, attempt), self.attempt_dir(agent, attempt));
        let making = self.making(agent, attempt)?;
        let unfinished = UnfinishedCopy(&making);
        let new = making.join("files");
        fs::create_dir(&new).map_err(disk::failed("making", &new))?;
        let options = &self.spaces.options;
        options.hit("workspace.make.before_files");
        let looked_ns = now_ns();
        let (tree, files) = self.files_of(base)?;
        notes.extend(self.note_about_copies(files.len()));
        let sources = self.sources(agent, base);
        let absent = self.absent()?;
        let git = self.git();
        let checkout = Checkout {
            git: &git,
            into: &new,
            files: &files,
            sources: &sources,
            absent: &absent,
            read_only: false,
            progress: None,
        };
        let entries = checkout.write()?;
        let bytes = entries.iter().filter_map(|entry| entry.stat).map(|stat| stat.size).sum();
        self.within_bounds(bytes)?;
        self.plant_copies(&new)?;
        self.plant_git(&new, base, &index::encode(&entries))?;
        Manifest { entries, looked_ns, commit: *base, tree }.save(&making.join("manifest"))?;
        options.hit("workspace.make.after_files");
        // A process that moved the work ref meanwhile did not see this workspace, so it is created again.
        let lock = self.project.lock_ref(&name)?;
        if let Some(mark) = self.mark(agent, attempt)? {
            disk::remove_tree(&making)?;
            return Ok(ReadyWorkspace { dir, base: mark.base()?, fresh: false, notes });
        }
        self.refs().swap(&lock, &name, line.as_ref(), base)?;
        options.hit("workspace.make.after_ref");
        Mark { base: base.to_string(), bytes, boot: options.boot(), overlay: None }.save(&making)?;
        rename_into_place(&making, &home)?;
        drop((unfinished, lock));
        sync::soon(&home, base);
        Ok(ReadyWorkspace { dir, base: *base, fresh: true, notes })
    }

    /// Creates a workspace as an empty upper layer over the shared layers of a commit, and mounts it. Nothing of it has
    /// to be durable: after a machine crash it is created again.
    fn make_overlay(
        &self,
        (overlays, mode): (&Overlays, HolderMode),
        agent: &str,
        attempt: u32,
        base: &ObjectId,
        notes: Vec<String>,
    ) -> Result<ReadyWorkspace, RepositoryError> {
        let home = self.attempt_dir(agent, attempt);
        let options = &self.spaces.options;
        options.hit("workspace.make.before_files");
        // The parent's files are most like those of this commit.
        let parent = agent.rsplit_once('.').and_then(|(parent, _)| {
            let attempt = self.attempts(parent).last().copied()?;
            self.mark(parent, attempt).ok()??.base().ok()
        });
        let state = self.base_state(base, parent.as_ref())?;
        let making = self.making_quickly(agent, attempt)?;
        let mount = match self.fill_overlay(overlays, &making, mode, &state) {
            Ok(mount) => mount,
            Err(error) => {
                drop(disk::remove_tree(&making));
                return Err(error);
            }
        };
        options.hit("workspace.make.after_files");
        let lock = self.project.lock_ref(&work_ref(agent, attempt))?;
        if let Some(mark) = self.mark(agent, attempt)? {
            drop(mount);
            disk::remove_tree(&making)?;
            drop(lock);
            let dir = self.open_files(agent, attempt)?.path();
            return Ok(ReadyWorkspace { dir, base: mark.base()?, fresh: false, notes });
        }
        // Its work ref is created by its first move.
        options.hit("workspace.make.after_ref");
        disk::remove_tree(&home)?;
        let above = home.parent().unwrap_or(&home);
        fs::create_dir_all(above).map_err(disk::failed("making", above))?;
        fs::rename(&making, &home).map_err(disk::failed("making", &home))?;
        let dir = overlays.keep(&home, mount).path();
        drop(lock);
        Ok(ReadyWorkspace { dir, base: *base, fresh: true, notes })
    }

    /// The mark of an overlay, which the first commit of its files makes durable: what they were made from must be known
    /// as long as there is more than the empty upper layer. `None` for a copy, whose mark is durable.
    pub(super) fn unsettled_mark(
        &self,
        agent: &str,
        attempt: u32,
    ) -> Result<Option<UnsyncedFile>, RepositoryError> {
        let Some(mark) = self.mark(agent, attempt)?.filter(|mark| mark.overlay.is_some()) else {
            return Ok(None);
        };
        let path = self.attempt_dir(agent, attempt).join("made");
        UnsyncedFile::write(&path, &serde_json::to_vec(&mark).unwrap_or_default()).map(Some)
    }

    /// Makes an empty overlay in a directory, and mounts it.
    fn fill_overlay(
        &self,
        overlays: &Overlays,
        making: &Path,
        mode: HolderMode,
        state: &Arc<BaseState>,
    ) -> Result<OverlayMount, RepositoryError> {
        let upper = overlays::make_upper(making)?;
        self.plant_copies_over(&upper, state)?;
        let base = state.commit.to_string();
        let mark = Mark { base, bytes: 0, boot: self.spaces.options.boot(), overlay: Some(mode) };
        mark.save_quickly(making)?;
        // There is no file yet that could be lost.
        sync::mark_as_synced(making, &state.commit)?;
        overlays.mount_new(making, state, mode)
    }

    /// An empty directory to create a workspace in. Removes leftovers of processes that have ended.
    fn making(&self, agent: &str, attempt: u32) -> Result<PathBuf, RepositoryError> {
        let top = self.dir().join("making");
        forget_unfinished(&top)?;
        let making = disk::temporary(&top.join(format!("{agent}-{attempt}")));
        // Another process may have had this id before a reboot.
        disk::remove_tree(&making)?;
        disk::make_dirs(&making)?;
        Ok(making)
    }

    /// The same without a sync, for a workspace that a machine crash may lose.
    fn making_quickly(&self, agent: &str, attempt: u32) -> Result<PathBuf, RepositoryError> {
        let top = self.dir().join("making");
        fs::create_dir_all(&top).map_err(disk::failed("making", &top))?;
        forget_unfinished(&top)?;
        let making = disk::temporary(&top.join(format!("{agent}-{attempt}")));
        disk::remove_tree(&making)?;
        fs::create_dir(&making).map_err(disk::failed("making", &making))?;
        Ok(making)
    }

    /// Writes the files of a commit into an existing, empty directory.
    pub fn checkout(&self, commit: &ObjectId, into: &Path, read_only: bool) -> Result<(), RepositoryError> {
        let (_, files) = self.files_of(commit)?;
        let (git, absent, sources) = (self.git(), self.absent()?, self.sources(&self.run, commit));
        let sources = &sources;
        Checkout { git: &git, into, files: &files, sources, absent: &absent, read_only, progress: None }
            .write()
            .map(drop)
    }

    /// The tree of a commit and all its files.
    pub(super) fn files_of(&self, commit: &ObjectId) -> Result<(ObjectId, Vec<TreeFile>), RepositoryError> {
        let cached =
            Manifest::load(&self.dir().join("manifest")).filter(|manifest| manifest.commit == *commit);
        if let Some(manifest) = cached {
            let listed = |entry: Entry| TreeFile { path: entry.path, mode: entry.mode, oid: entry.oid };
            return Ok((manifest.tree, manifest.entries.into_iter().map(listed).collect()));
        }
        let git = self.git();
        Ok((objects::tree_of(&git, commit)?, objects::list(&git, commit)?))
    }

    /// Folders that may have the files of a commit: the user's, and the workspaces of the agent's parent.
    pub(super) fn sources(&self, agent: &str, commit: &ObjectId) -> Vec<Source> {
        let load = |folder: PathBuf, manifest: PathBuf| {
            Manifest::load(&manifest).map(|manifest| Source { folder, manifest })
        };
        let parent = agent.rsplit_once('.').map_or(agent, |(parent, _)| parent);
        let attempts = self.attempts(parent).into_iter().map(|attempt| {
            let home = self.attempt_dir(parent, attempt);
            // The manifest of an overlay is that of its upper layer.
            let upper = home.join(overlays::UPPER);
            let folder = if upper.is_dir() { upper } else { self.dir_of(parent, attempt) };
            load(folder, home.join("manifest"))
        });
        let of_user = load(self.record.folder.clone(), self.dir().join("manifest"));
        let mut sources: Vec<Source> = attempts.chain([of_user]).flatten().collect();
        // A source that was scanned for exactly this commit comes first.
        sources.sort_by_key(|source| source.manifest.commit != *commit);
        sources
    }

    /// The attempts of an agent that have a complete workspace, in order.
    pub(super) fn attempts(&self, agent: &str) -> Vec<u32> {
        let dir = self.dir().join("workspaces").join(agent);
        let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let numbers = names.filter_map(|name| name.to_str().and_then(|name| name.parse().ok()));
        let mut attempts: Vec<u32> =
            numbers.filter(|attempt| self.attempt_dir(agent, *attempt).join("made").exists()).collect();
        attempts.sort_unstable();
        attempts
    }

    /// The paths outside the user's sparse checkout: they are in every tree and in no workspace.
    pub(super) fn absent(&self) -> Result<HashSet<Vec<u8>>, RepositoryError> {
        let text = disk::read_if_there(&self.dir().join(SPARSE))?.unwrap_or_default();
        let paths = text.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(<[u8]>::to_vec).collect())
    }

    /// Whether the user's checkout is a sparse one.
    pub(super) fn is_sparse(&self) -> bool {
        fs::metadata(self.dir().join(SPARSE)).is_ok_and(|list| list.len() > 0)
    }

    pub(super) fn copies(&self) -> Copies {
        Copies { files: self.record.copies.clone() }
    }

    /// Refuses a workspace that would make the run too large.
    fn within_bounds(&self, bytes: u64) -> Result<(), RepositoryError> {
        let agents = fs::read_dir(self.dir().join("workspaces")).into_iter().flatten().flatten();
        let agents = agents.filter_map(|entry| entry.file_name().into_string().ok());
        let mut total = bytes;
        for agent in agents {
            for attempt in self.attempts(&agent) {
                total += self.mark(&agent, attempt)?.map_or(0, |mark| mark.bytes);
            }
        }
        let max = self.spaces.options.max_run_bytes;
        if total > max {
            return Err(RepositoryError::Unsupported(format!(
                "the workspaces of run {} would be {total} bytes, more than {max}; let fewer agents write at once, or \
                 raise workspace.max_run_mb",
                self.run
            )));
        }
        Ok(())
    }

    /// Puts copied files into an upper layer, unless the layers below have something at their paths.
    fn plant_copies_over(&self, upper: &Path, state: &BaseState) -> Result<(), RepositoryError> {
        use std::os::unix::ffi::OsStrExt;
        for file in &self.record.copies {
            let path = Path::new(&file.path);
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            let mut blocked = above.filter(|above| state.has_file(above.as_os_str().as_bytes()));
            if state.has(file.path.as_bytes()) || blocked.next().is_some() {
                continue;
            }
            let kept = self.dir().join("copies").join(path);
            let content = fs::read(&kept).map_err(disk::failed("reading", &kept))?;
            let to = upper.join(path);
            let parent = to.parent().unwrap_or(upper);
            fs::create_dir_all(parent).map_err(disk::failed("making", parent))?;
            plant(&to, &content, file.executable)?;
        }
        Ok(())
    }

    fn plant_copies(&self, dir: &Path) -> Result<(), RepositoryError> {
        for file in &self.record.copies {
            let kept = self.dir().join("copies").join(&file.path);
            let content = fs::read(&kept).map_err(disk::failed("reading", &kept))?;
            let to = dir.join(&file.path);
            let parent = to.parent().unwrap_or(dir);
            // An entry of the tree at the same path, or above it, wins over the copy.
            let free = fs::symlink_metadata(&to).is_err() && is_real_dir_chain(dir, parent);
            if free {
                fs::create_dir_all(parent).map_err(disk::failed("making", parent))?;
                plant(&to, &content, file.executable)?;
            }
        }
        Ok(())
    }

    /// Creates a complete small repository, so that git works in the workspace.
    pub(super) fn plant_git(&self, dir: &Path, base: &ObjectId, index: &[u8]) -> Result<(), RepositoryError> {
        let git = dir.join(".git");
        for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            let part = git.join(part);
            fs::create_dir_all(&part).map_err(disk::failed("making", &part))?;
        }
        for (name, content) in self.planted(base) {
            plant(&git.join(name), &content, false)?;
        }
        plant(&git.join(index::NAME), index, false)?;
        match disk::read_if_there(&self.project.repository().join("shallow"))? {
            Some(shallow) => plant(&git.join("shallow"), &shallow, false),
            None => Ok(()),
        }
    }

    /// The limit of the run directory's disk usage while its commands run.
    pub fn disk_limit(&self) -> DiskLimit {
        DiskLimit::new(self.dir(), self.spaces.options.max_run_bytes)
    }

    /// The disk usage of the run's directory: workspaces, checkouts and records, without the project's repository.
    pub fn disk_bytes(&self) -> Result<u64, RepositoryError> {
        disk::bytes_beneath(&self.dir())
    }
}

/// Removes what processes that have ended left unfinished.
fn forget_unfinished(top: &Path) -> Result<(), RepositoryError> {
    for entry in fs::read_dir(top).into_iter().flatten().flatten() {
        if disk::maker_is_gone(&entry.file_name()) {
            disk::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes directories of other boots, whose content may never have reached the disk.
pub(super) fn forget_others(all: &Path, boot: &str) -> Result<(), RepositoryError> {
    let others = entries_of(all)?.into_iter().filter(|dir| !dir.ends_with(boot));
    others.into_iter().try_for_each(|dir| disk::remove_tree(&dir))
}

/// Renames a workspace into place. A directory that is already there has no mark, so no agent has worked in it.
fn rename_into_place(making: &Path, home: &Path) -> Result<(), RepositoryError> {
    disk::remove_tree(home)?;
    let above = home.parent().unwrap_or(home);
    disk::make_dirs(above)?;
    fs::rename(making, home).map_err(disk::failed("making", home))?;
    disk::sync_dir(above)
}

/// Whether every existing part from `top` down to `dir` is a directory and not a symlink.
fn is_real_dir_chain(top: &Path, dir: &Path) -> bool {
    let above = dir.ancestors().take_while(|ancestor| ancestor.starts_with(top));
    above
        .into_iter()
        .all(|ancestor| fs::symlink_metadata(ancestor).map_or(true, |metadata| metadata.is_dir()))
}

/// Adds a commit by Posse to a pack.
pub(super) fn add_commit(
    pack: &PackWriter,
    tree: &ObjectId,
    parents: &[ObjectId],
    message: &str,
) -> Result<ObjectId, RepositoryError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let content = object::encode_commit(tree, parents, now.as_secs(), message);
    let commit = object::name(ObjectType::Commit, &content);
    pack.add(ObjectType::Commit, commit, &content)?;
    Ok(commit)
}
