//! The workspaces of one run.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::begin::Record;
use super::checkout::{Checkout, Source, plant};
use super::copies::Copies;
use super::gc::entries_of;
use super::manifest::{Entry, Manifest, now_ns};
use super::object::{self, ObjectType};
use super::objects::{self, TreeFile};
use super::pack::PackWriter;
use super::project::Project;
use super::refs::{Refs, check_id, work_ref};
use super::torn::Durability;
use super::{Git, Lock, Oid, Snapshot, WorkspaceError, Workspaces, disk, index, sync};
use posse_sandbox::DiskLimit;

/// Where the sandbox shows the objects that the git of a workspace borrows.
pub const BORROWED_OBJECTS: &str = posse_sandbox::OBJECTS_SHOWN_AT;
/// Where checkouts are if the machine does not say which boot this is: then they are synced.
const UNKNOWN_BOOT: &str = "any";

/// A run that has begun, and its workspaces.
#[derive(Debug, Clone)]
pub struct RunSpace {
    pub(super) spaces: Workspaces,
    pub(super) run: String,
    pub(super) record: Record,
    pub(super) project: Project,
}

/// A workspace that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyWorkspace {
    /// Its files.
    pub dir: PathBuf,
    /// What it was made from.
    pub base: Oid,
    /// Whether it was made by this call.
    pub fresh: bool,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// Says that a workspace is complete, and what it was made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    pub(super) base: String,
    /// How large its files are.
    pub(super) bytes: u64,
    /// The boot of the machine in which it was made, or last found whole.
    pub(super) boot: Option<String>,
}

impl Mark {
    /// Writes it down: with it the workspace in `home` is complete.
    pub(super) fn save(&self, home: &Path) -> Result<(), WorkspaceError> {
        disk::write_durably(&home.join("made"), &serde_json::to_vec(self).unwrap_or_default())
    }

    pub(super) fn base(&self) -> Result<Oid, WorkspaceError> {
        self.base
            .parse()
            .map_err(|_| WorkspaceError::Damaged("a workspace's mark names no object".to_owned()))
    }
}

impl RunSpace {
    pub(super) fn new(spaces: Workspaces, run: &str, record: Record) -> Result<Self, WorkspaceError> {
        check_id(&record.project)?;
        let project = Project::with_key(&spaces.state, &record.project);
        Ok(Self { spaces, run: run.to_owned(), record, project })
    }

    /// The run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The person's folder.
    pub fn folder(&self) -> &Path {
        &self.record.folder
    }

    /// Whether the person's folder is the top of a repository.
    pub fn is_repository(&self) -> bool {
        self.record.is_repository
    }

    /// The snapshot that the run began with.
    pub fn base(&self) -> Result<Snapshot, WorkspaceError> {
        let oid = |text: &str| {
            text.parse().map_err(|_| {
                WorkspaceError::Damaged(format!("project.json of run {} names no object", self.run))
            })
        };
        Ok(Snapshot { commit: oid(&self.record.commit)?, tree: oid(&self.record.tree)? })
    }

    /// Git in the project's bare repository.
    pub fn git(&self) -> Git {
        self.project.git(&self.spaces.options.git)
    }

    /// Waits until nobody else changes the project's repository.
    pub fn lock(&self) -> Result<Lock, WorkspaceError> {
        self.project.lock()
    }

    /// What a ref of the project's repository names.
    pub fn read_ref(&self, name: &str) -> Result<Option<Oid>, WorkspaceError> {
        self.refs().read(name)
    }

    /// Lets a ref name `new`, if it names `old` now (none: it is not there). Durable when it returns.
    pub fn swap_ref(
        &self,
        held: &Lock,
        name: &str,
        old: Option<&Oid>,
        new: &Oid,
    ) -> Result<(), WorkspaceError> {
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

    /// Where the files of a workspace are.
    pub fn dir_of(&self, agent: &str, attempt: u32) -> PathBuf {
        self.attempt_dir(agent, attempt).join("files")
    }

    pub(super) fn mark(&self, agent: &str, attempt: u32) -> Result<Option<Mark>, WorkspaceError> {
        let path = self.attempt_dir(agent, attempt).join("made");
        let Some(text) = disk::read_if_there(&path)? else { return Ok(None) };
        let mark = serde_json::from_slice(&text);
        mark.map(Some)
            .map_err(|error| WorkspaceError::Damaged(format!("{} cannot be read: {error}", path.display())))
    }

    /// Makes an isolated workspace: from where its line stands, or from `origin` if it has none yet. One that is
    /// complete is returned as it is. Of one that the machine lost part of all that can be read is kept. It is made
    /// elsewhere and put in its place whole: a process that was stopped on the way, and wakes when another one has
    /// taken its run over, finds the place taken and touches nothing of it.
    pub fn make(&self, agent: &str, attempt: u32, origin: &Oid) -> Result<ReadyWorkspace, WorkspaceError> {
        check_id(agent)?;
        let dir = self.dir_of(agent, attempt);
        let home = self.attempt_dir(agent, attempt);
        let mut notes = Vec::new();
        if let Some(mark) = self.mark(agent, attempt)? {
            let base = mark.base()?;
            if self.lasted(agent, attempt, mark)? == Durability::Whole {
                return Ok(ReadyWorkspace { dir, base, fresh: false, notes });
            }
            notes.push(self.set_aside(agent, attempt)?);
        }
        let name = work_ref(agent, attempt);
        let line = self.refs().read(&name)?;
        let base = line.as_ref().unwrap_or(origin);
        let making = self.making(agent, attempt)?;
        let new = making.join("files");
        fs::create_dir(&new).map_err(disk::failed("making", &new))?;
        let options = &self.spaces.options;
        options.hit("workspace.make.before_files");
        let looked_ns = now_ns();
        let (tree, files) = self.files_of(base)?;
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
        };
        let entries = checkout.write()?;
        let bytes = entries.iter().filter_map(|entry| entry.stat).map(|stat| stat.size).sum();
        self.within_bounds(bytes)?;
        self.plant_copies(&new)?;
        self.plant_git(&new, base, &entries)?;
        Manifest { entries, looked_ns, commit: *base, tree }.save(&making.join("manifest"))?;
        options.hit("workspace.make.after_files");
        // Whoever moved the line meanwhile did not see this workspace: then it is made again.
        let lock = self.project.lock()?;
        if let Some(mark) = self.mark(agent, attempt)? {
            disk::remove_tree(&making)?;
            return Ok(ReadyWorkspace { dir, base: mark.base()?, fresh: false, notes });
        }
        self.refs().swap(&lock, &name, line.as_ref(), base)?;
        options.hit("workspace.make.after_ref");
        Mark { base: base.to_string(), bytes, boot: options.boot() }.save(&making)?;
        rename_into_place(&making, &home)?;
        drop(lock);
        sync::soon(&home, base);
        Ok(ReadyWorkspace { dir, base: *base, fresh: true, notes })
    }

    /// An empty directory to make a workspace in. What processes that are gone left of theirs is removed.
    fn making(&self, agent: &str, attempt: u32) -> Result<PathBuf, WorkspaceError> {
        let top = self.dir().join("making");
        for entry in fs::read_dir(&top).into_iter().flatten().flatten() {
            if disk::maker_is_gone(&entry.file_name()) {
                disk::remove_tree(&entry.path())?;
            }
        }
        let making = disk::temporary(&top.join(format!("{agent}-{attempt}")));
        // Another process may have had this number before the machine was started.
        disk::remove_tree(&making)?;
        disk::make_dirs(&making)?;
        Ok(making)
    }

    /// A checkout of a commit that readers share: files without permission to write, made once in each boot of the
    /// machine, because it is never synced.
    pub fn shared(&self, base: &Oid) -> Result<PathBuf, WorkspaceError> {
        let all = self.dir().join("shared");
        let boot = self.spaces.options.boot();
        let boot = boot.as_deref().filter(|boot| check_id(boot).is_ok());
        let dir = all.join(boot.unwrap_or(UNKNOWN_BOOT)).join(base.to_string());
        if dir.is_dir() {
            return Ok(dir);
        }
        forget_others(&all, boot.unwrap_or(UNKNOWN_BOOT))?;
        let making = disk::temporary(&dir);
        disk::make_dirs(&making)?;
        self.checkout(base, &making, true)?;
        if boot.is_none() {
            sync::now(&making)?;
        }
        match fs::rename(&making, &dir) {
            Ok(()) => Ok(dir),
            // Somebody else made it meanwhile.
            Err(_) if dir.is_dir() => disk::remove_tree(&making).map(|()| dir),
            Err(error) => Err(WorkspaceError::io("making", &dir, &error)),
        }
    }

    /// Writes the files of a commit into a directory that is there and empty.
    pub fn checkout(&self, commit: &Oid, into: &Path, read_only: bool) -> Result<(), WorkspaceError> {
        let (_, files) = self.files_of(commit)?;
        let (git, absent, sources) = (self.git(), self.absent()?, self.sources(&self.run, commit));
        let sources = &sources;
        Checkout { git: &git, into, files: &files, sources, absent: &absent, read_only }.write().map(drop)
    }

    /// The tree of a commit and all its files.
    pub(super) fn files_of(&self, commit: &Oid) -> Result<(Oid, Vec<TreeFile>), WorkspaceError> {
        let cached =
            Manifest::load(&self.dir().join("manifest")).filter(|manifest| manifest.commit == *commit);
        if let Some(manifest) = cached {
            let listed = |entry: Entry| TreeFile { path: entry.path, mode: entry.mode, oid: entry.oid };
            return Ok((manifest.tree, manifest.entries.into_iter().map(listed).collect()));
        }
        let git = self.git();
        Ok((objects::tree_of(&git, commit)?, objects::list(&git, commit)?))
    }

    /// Folders that may have the files of a commit: the person's, and the workspaces of the agent's parent.
    fn sources(&self, agent: &str, commit: &Oid) -> Vec<Source> {
        let load = |folder: PathBuf, manifest: PathBuf| {
            Manifest::load(&manifest).map(|manifest| Source { folder, manifest })
        };
        let parent = agent.rsplit_once('.').map_or(agent, |(parent, _)| parent);
        let attempts = self.attempts(parent).into_iter().map(|attempt| {
            load(self.dir_of(parent, attempt), self.attempt_dir(parent, attempt).join("manifest"))
        });
        let person = load(self.record.folder.clone(), self.dir().join("manifest"));
        let mut sources: Vec<Source> = attempts.chain([person]).flatten().collect();
        // The one that was looked at for exactly this commit first.
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

    /// The paths outside the person's sparse checkout: they are in every tree and in no workspace.
    pub(super) fn absent(&self) -> Result<HashSet<Vec<u8>>, WorkspaceError> {
        let text = disk::read_if_there(&self.dir().join("sparse"))?.unwrap_or_default();
        let paths = text.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(<[u8]>::to_vec).collect())
    }

    pub(super) fn copies(&self) -> Copies {
        Copies { files: self.record.copies.clone() }
    }

    /// Refuses a workspace that would make the run too large.
    fn within_bounds(&self, bytes: u64) -> Result<(), WorkspaceError> {
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
            return Err(WorkspaceError::Unsupported(format!(
                "the workspaces of run {} would be {total} bytes, more than {max}; let fewer agents write at once, or \
                 raise workspace.max_run_mb",
                self.run
            )));
        }
        Ok(())
    }

    fn plant_copies(&self, dir: &Path) -> Result<(), WorkspaceError> {
        for file in &self.record.copies {
            let kept = self.dir().join("copies").join(&file.path);
            let content = fs::read(&kept).map_err(disk::failed("reading", &kept))?;
            let to = dir.join(&file.path);
            let parent = to.parent().unwrap_or(dir);
            // A tree whose entry stands where the copy goes, or above, wins.
            let free = fs::symlink_metadata(&to).is_err() && is_real_dir_chain(dir, parent);
            if free {
                fs::create_dir_all(parent).map_err(disk::failed("making", parent))?;
                plant(&to, &content, file.executable)?;
            }
        }
        Ok(())
    }

    /// A complete small repository, so that git works in the workspace.
    fn plant_git(&self, dir: &Path, base: &Oid, entries: &[Entry]) -> Result<(), WorkspaceError> {
        let git = dir.join(".git");
        for part in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
            let part = git.join(part);
            fs::create_dir_all(&part).map_err(disk::failed("making", &part))?;
        }
        for (name, content) in self.planted(base) {
            plant(&git.join(name), &content, false)?;
        }
        plant(&git.join("index"), &index::encode(entries), false)?;
        match disk::read_if_there(&self.project.repository().join("shallow"))? {
            Some(shallow) => plant(&git.join("shallow"), &shallow, false),
            None => Ok(()),
        }
    }

    /// What the run's own directory may take on disk while its commands run.
    pub fn disk_limit(&self) -> DiskLimit {
        DiskLimit::new(self.dir(), self.spaces.options.max_run_bytes)
    }

    /// What the run's own directory takes on disk: workspaces, checkouts and records, not the project's repository.
    pub fn disk_bytes(&self) -> Result<u64, WorkspaceError> {
        disk::bytes_beneath(&self.dir())
    }
}

/// Removes what was made in other boots: what is in them may never have reached the disk.
pub(super) fn forget_others(all: &Path, boot: &str) -> Result<(), WorkspaceError> {
    let others = entries_of(all)?.into_iter().filter(|dir| !dir.ends_with(boot));
    others.into_iter().try_for_each(|dir| disk::remove_tree(&dir))
}

/// Moves a workspace to where it belongs. What is there has no mark: nobody has worked in it.
fn rename_into_place(making: &Path, home: &Path) -> Result<(), WorkspaceError> {
    disk::remove_tree(home)?;
    let above = home.parent().unwrap_or(home);
    disk::make_dirs(above)?;
    fs::rename(making, home).map_err(disk::failed("making", home))?;
    disk::sync_dir(above)
}

/// Whether every part from `top` down to `dir` that is there is a directory and no symlink.
fn is_real_dir_chain(top: &Path, dir: &Path) -> bool {
    let above = dir.ancestors().take_while(|ancestor| ancestor.starts_with(top));
    above
        .into_iter()
        .all(|ancestor| fs::symlink_metadata(ancestor).map_or(true, |metadata| metadata.is_dir()))
}

/// Adds a commit of Posse's to a pack.
pub(super) fn add_commit(
    pack: &PackWriter,
    tree: &Oid,
    parents: &[Oid],
    message: &str,
) -> Result<Oid, WorkspaceError> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let content = object::encode_commit(tree, parents, now.as_secs(), message);
    let commit = object::name(ObjectType::Commit, &content);
    pack.add(ObjectType::Commit, commit, &content)?;
    Ok(commit)
}
