//! Snapshots of workspaces, and what becomes of a workspace when its agent has ended.
//!
//! Why it is like this: `docs/decisions/workspace-snapshots.md`.

use std::fs;

use super::content::{self, ContentWriter, NewTree};
use super::copies::CopyPatterns;
use super::ignored::IgnorePatterns;
use super::manifest::{Entry, Manifest};
use super::objects::{self, Present, TreeFile};
use super::pack::PackWriter;
use super::refs::{salvage_ref, work_ref};
use super::scan::{self, EarlierScan, KnownFile, Request, ScanResult};
use super::torn::Durability;
use super::{Oid, RunSpace, WorkspaceError, disk, sync};

/// A commit and its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit.
    pub commit: Oid,
    /// All files.
    pub tree: Oid,
}

/// What was kept of a workspace, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageOutcome {
    /// Everything but what is left out; the salvage ref names it.
    pub snapshot: Snapshot,
    /// The workspace's `.git` as plain files, if the agent changed it; a ref of its own names it.
    pub git: Option<Oid>,
    /// What may be work and cannot be kept, each with why, then ignored files and directories; the first thousand.
    pub left_out: Vec<String>,
    /// How many there are.
    pub left_out_count: u64,
    /// What else should be known.
    pub notes: Vec<String>,
}

/// What a look at a workspace gave. Nothing of it is in the repository yet.
pub(super) struct WorkspaceScan {
    entries: Vec<Entry>,
    pub(super) trees: Vec<NewTree>,
    pub(super) tree: Oid,
    pub(super) walked: ScanResult,
    pub(super) present: Present,
    pub(super) pack: PackWriter,
}

impl RunSpace {
    /// Commits what is in a workspace. If that is what its line has already, nothing is written. Durable when it
    /// returns.
    pub fn snapshot(&self, agent: &str, attempt: u32) -> Result<Snapshot, WorkspaceError> {
        self.take(agent, attempt).map(|(snapshot, _)| snapshot)
    }

    /// Keeps everything in a workspace but what is ignored or was copied in, reachable from its salvage refs; what
    /// cannot be kept is told. Durable when it returns.
    pub fn salvage(&self, agent: &str, attempt: u32) -> Result<SalvageOutcome, WorkspaceError> {
        let (snapshot, mut walked) = self.take(agent, attempt)?;
        let git = self.keep_git(agent, attempt, &mut walked.left_out)?;
        self.spaces.options.hit("workspace.salvage.before_ref");
        let name = salvage_ref(agent, attempt);
        let lock = self.project.lock()?;
        let refs = self.refs();
        refs.swap(&lock, &name, refs.read(&name)?.as_ref(), &snapshot.commit)?;
        let notes = walked.notes.lines();
        let (left_out, left_out_count) = walked.left_out.into_parts();
        Ok(SalvageOutcome { snapshot, git, left_out, left_out_count, notes })
    }

    /// Removes a workspace, if its salvage refs hold exactly what is in it now: every file is read again. Otherwise,
    /// and if it holds what cannot be kept, nothing is removed.
    pub fn remove(&self, agent: &str, attempt: u32) -> Result<(), WorkspaceError> {
        self.check_salvaged(agent, attempt)?;
        let home = self.attempt_dir(agent, attempt);
        let trash = self.spaces.state.join("trash");
        disk::make_dirs(&trash)?;
        let away = disk::temporary(&trash.join(format!("{agent}-{attempt}")));
        match fs::rename(&home, &away) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(WorkspaceError::io("removing", &home, &error)),
        }
        self.spaces.options.hit("workspace.remove.after_rename");
        disk::remove_tree(&away)
    }

    /// Whether a workspace's salvage refs hold exactly what is in it now; why not, if not.
    pub(super) fn check_salvaged(&self, agent: &str, attempt: u32) -> Result<(), WorkspaceError> {
        // Nobody has worked in one that is not complete.
        let Some(mark) = self.mark(agent, attempt)? else { return Ok(()) };
        let name = salvage_ref(agent, attempt);
        let keep = |why: &str| {
            WorkspaceError::Damaged(format!("the workspace of {agent} (attempt {attempt}) is kept: {why}"))
        };
        let salvaged = self.refs().read(&name)?.ok_or_else(|| keep("it was not salvaged"))?;
        let tree = objects::tree_of(&self.git(), &salvaged)?;
        let base = mark.base()?;
        if self.lasted(agent, attempt, mark)? != Durability::Whole {
            // What the machine kept of it is kept, and then it is as its last snapshot.
            self.make(agent, attempt, &base)?;
        }
        let looked = self.scan(agent, attempt, &salvaged, false)?;
        if looked.tree != tree {
            return Err(keep("its files are not those that were salvaged; salvage it again"));
        }
        let problem = match looked.walked.left_out.unkept() {
            Some(unkept) => Some(super::own_git::in_no_snapshot(&unkept)),
            None => self.unkept_git(agent, attempt)?,
        };
        problem.map_or(Ok(()), |problem| Err(keep(&problem)))
    }

    fn take(&self, agent: &str, attempt: u32) -> Result<(Snapshot, ScanResult), WorkspaceError> {
        let tip = self.tip(agent, attempt)?;
        let looked = self.scan(agent, attempt, &tip, true)?;
        let WorkspaceScan { entries, trees, tree, walked, present, pack } = looked;
        let tip_tree = self.tree_of(agent, attempt, &tip)?;
        let commit = if tree == tip_tree {
            tip
        } else {
            content::add_trees(&trees, &present, &pack)?;
            let commit = super::add_commit(&pack, &tree, &[tip], &format!("posse: work of {agent}"))?;
            let options = &self.spaces.options;
            options.hit("workspace.snapshot.before_pack");
            let lock = self.project.lock()?;
            pack.finish()?;
            options.hit("workspace.snapshot.after_pack");
            self.refs().swap(&lock, &work_ref(agent, attempt), Some(&tip), &commit)?;
            commit
        };
        let manifest = Manifest { entries, looked_ns: walked.looked_ns, commit, tree };
        let home = self.attempt_dir(agent, attempt);
        manifest.save(&home.join("manifest"))?;
        sync::soon(&home, &commit);
        Ok((Snapshot { commit, tree }, walked))
    }

    /// Where a workspace stands: the end of its line.
    fn tip(&self, agent: &str, attempt: u32) -> Result<Oid, WorkspaceError> {
        super::refs::check_id(agent)?;
        let Some(mark) = self.mark(agent, attempt)? else {
            return Err(WorkspaceError::Damaged(format!(
                "there is no complete workspace of {agent} (attempt {attempt}) beneath {}",
                self.dir().display()
            )));
        };
        let base = mark.base()?;
        match self.lasted(agent, attempt, mark)? {
            Durability::Whole => {}
            Durability::Behind => drop(self.make(agent, attempt, &base)?),
            Durability::Torn => {
                return Err(WorkspaceError::Damaged(format!(
                    "the machine stopped before the workspace of {agent} (attempt {attempt}) had reached the disk; it has \
                     to be made anew"
                )));
            }
        }
        let name = work_ref(agent, attempt);
        let line = self.refs().read(&name)?;
        line.ok_or_else(|| WorkspaceError::Damaged(format!("{name} is gone; its workspace is kept")))
    }

    fn manifest_of(&self, agent: &str, attempt: u32) -> Option<Manifest> {
        Manifest::load(&self.attempt_dir(agent, attempt).join("manifest"))
    }

    fn tree_of(&self, agent: &str, attempt: u32, commit: &Oid) -> Result<Oid, WorkspaceError> {
        match self.manifest_of(agent, attempt) {
            Some(manifest) if manifest.commit == *commit => Ok(manifest.tree),
            _ => objects::tree_of(&self.git(), commit),
        }
    }

    /// Looks at a workspace that stands at `tip`. `known` files are not read again.
    pub(super) fn scan(
        &self,
        agent: &str,
        attempt: u32,
        tip: &Oid,
        known: bool,
    ) -> Result<WorkspaceScan, WorkspaceError> {
        let folder = self.dir_of(agent, attempt);
        let manifest = self.manifest_of(agent, attempt);
        let seen_ns = manifest.as_ref().map_or(0, |manifest| manifest.looked_ns);
        let tracked = match &manifest {
            Some(manifest) if manifest.commit == *tip => {
                let listed =
                    |entry: &Entry| TreeFile { path: entry.path.clone(), mode: entry.mode, oid: entry.oid };
                manifest.entries.iter().map(listed).collect()
            }
            _ => objects::list(&self.git(), tip)?,
        };
        let known = self.known(tracked, manifest.as_ref().filter(|_| known))?;
        let copies = self.copies();
        let options = &self.spaces.options;
        let mut walked = scan::scan(&Request {
            folder: &folder,
            known: &known,
            indexed_ns: 0,
            seen_ns,
            ignored: IgnorePatterns::default().with(self.record.excludes.as_bytes(), 0),
            executable_counts: true,
            persons: false,
            everything: false,
            name_ignored: 0,
            state: None,
            never: &copies.paths(),
            wanted: &CopyPatterns::default(),
            max_files: options.max_files,
        })?;
        let repository = self.project.repository();
        let (present, pack) = (Present::of(&repository)?, PackWriter::new(&repository));
        let entries = ContentWriter {
            folder: &folder,
            root: &scan::open_root(&folder)?,
            known: &known,
            present: &present,
            pack: &pack,
            owned: true,
            secrets: &copies.names(),
            convert: None,
            max_file_bytes: options.max_file_bytes,
            max_new_bytes: options.max_run_bytes,
        }
        .entries(&mut walked)?;
        let trees = content::trees(&entries);
        let tree = trees.last().map_or(Oid::ZERO, |(oid, _)| *oid);
        Ok(WorkspaceScan { entries, trees, tree, walked, present, pack })
    }

    /// What is known of a workspace: the files of its tip, and the earlier look at it. Both are sorted.
    fn known(
        &self,
        tracked: Vec<TreeFile>,
        seen: Option<&Manifest>,
    ) -> Result<Vec<KnownFile>, WorkspaceError> {
        let absent = self.absent()?;
        let known = tracked.into_iter().map(|TreeFile { path, mode, oid }| {
            let seen = seen.and_then(|seen| seen.get(&path));
            let seen = seen.and_then(|entry| {
                entry.stat.map(|stat| EarlierScan { stat, oid: entry.oid, raw: entry.raw })
            });
            let skipped = absent.contains(&path);
            KnownFile { path, mode, oid, tracked: true, skipped, indexed: None, seen }
        });
        Ok(known.collect())
    }
}
