//! Takes snapshots of workspaces, salvages them and removes them when their agent has ended.
//!
//! Why it is like this: `docs/decisions/workspace-snapshots.md`.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use posse_sandbox::HolderMode;

use super::call_commits::CallChain;
use super::change::changes;
use super::content::{self, ContentWriter, NewTree};
use super::copies::CopyPatterns;
use super::disk::UnsyncedFile;
use super::ignored::IgnorePatterns;
use super::manifest::{Entry, Manifest};
use super::objects::{self, PresentObjects, TreeFile};
use super::pack::{PackWriter, SealedPack};
use super::refs::{PreparedSwap, salvage_ref, work_ref};
use super::scan::{self, EarlierScan, KnownFile, Request, ScanResult};
use super::torn::Durability;
use super::upper::{self, MergedTree, UpperView};
use super::{ObjectId, RepositoryError, RunSpace, disk, overlays, sync};

/// A commit and its tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The commit of the files.
    pub commit: ObjectId,
    /// The tree of that commit.
    pub tree: ObjectId,
}

/// What was kept of a workspace, and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvageOutcome {
    /// Everything but the omitted files. The salvage ref names it.
    pub snapshot: Snapshot,
    /// The workspace's `.git` as plain files, if the agent changed it. A separate ref names it.
    pub git: Option<ObjectId>,
    /// Possible work that cannot be kept, with reasons, then ignored files and directories. At most a thousand.
    pub left_out: Vec<String>,
    /// The total number of omitted files.
    pub left_out_count: u64,
    /// Notes about files that were omitted or changed.
    pub notes: Vec<String>,
}

/// The scan of a workspace. None of it is in the repository yet.
pub(super) struct WorkspaceScan {
    pub(super) entries: Vec<Entry>,
    pub(super) trees: Vec<NewTree>,
    pub(super) tree: ObjectId,
    pub(super) walked: ScanResult,
    pub(super) present: PresentObjects,
    pub(super) pack: PackWriter,
    /// The deleted paths of the layers below, if the workspace is an overlay. The entries are those of its upper layer.
    pub(super) deleted: Option<HashSet<Vec<u8>>>,
}

/// The earlier scan with which a file is compared to find out whether it has changed.
#[derive(Clone, Copy)]
pub(super) enum EarlierStats<'a> {
    /// None: every file is read.
    Nothing,
    /// That of the last snapshot.
    Snapshot,
    /// That of the last call, if there was one since the snapshot.
    Call(&'a CallChain),
}

impl RunSpace {
    /// Commits the files of a workspace. If its work ref has the same files, nothing is written. Durable when this
    /// returns.
    pub fn snapshot(&self, agent: &str, attempt: u32) -> Result<Snapshot, RepositoryError> {
        let (snapshot, _) = self.take(agent, attempt)?;
        sync::soon(&self.attempt_dir(agent, attempt), &snapshot.commit);
        Ok(snapshot)
    }

    /// Keeps everything in a workspace, except ignored and copied files, reachable from its salvage refs, and lists
    /// what cannot be kept. Durable when this returns.
    pub fn salvage(&self, agent: &str, attempt: u32) -> Result<SalvageOutcome, RepositoryError> {
        // The files are not synced any more: their agent has ended, and the commit has them.
        let (snapshot, mut walked) = self.take(agent, attempt)?;
        let git = self.keep_git(agent, attempt, &mut walked.left_out)?;
        self.spaces.options.hit("workspace.salvage.before_ref");
        let name = salvage_ref(agent, attempt);
        let lock = self.project.lock_ref(&name)?;
        let refs = self.refs();
        refs.swap(&lock, &name, refs.read(&name)?.as_ref(), &snapshot.commit)?;
        let notes = walked.notes.lines();
        let (left_out, left_out_count) = walked.left_out.into_parts();
        Ok(SalvageOutcome { snapshot, git, left_out, left_out_count, notes })
    }

    /// Removes a workspace if its salvage refs have exactly its current content: every file is read again. Otherwise,
    /// or if it has content that cannot be kept, nothing is removed.
    pub fn remove(&self, agent: &str, attempt: u32) -> Result<(), RepositoryError> {
        self.check_salvaged(agent, attempt)?;
        self.release(agent, attempt);
        let home = self.attempt_dir(agent, attempt);
        let trash = self.spaces.state.join("trash");
        disk::make_dirs(&trash)?;
        let away = disk::temporary(&trash.join(format!("{agent}-{attempt}")));
        match fs::rename(&home, &away) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(RepositoryError::io("removing", &home, &error)),
        }
        self.spaces.options.hit("workspace.remove.after_rename");
        disk::remove_tree(&away)
    }

    /// Checks that a workspace's salvage refs have exactly its current content. The error says why not.
    pub(super) fn check_salvaged(&self, agent: &str, attempt: u32) -> Result<(), RepositoryError> {
        // No agent has worked in an incomplete workspace.
        let Some(mark) = self.mark(agent, attempt)? else { return Ok(()) };
        let name = salvage_ref(agent, attempt);
        let keep = |why: &str| {
            RepositoryError::Damaged(format!("the workspace of {agent} (attempt {attempt}) is kept: {why}"))
        };
        let salvaged = self.refs().read(&name)?.ok_or_else(|| keep("it was not salvaged"))?;
        let tree = objects::tree_of(&self.git(), &salvaged)?;
        let base = mark.base()?;
        if self.lasted(agent, attempt, mark)? != Durability::Whole {
            // This keeps the rest that the machine crash left and restores the last snapshot.
            self.make_files(agent, attempt, &base)?;
        }
        let looked = self.scan(agent, attempt, &salvaged, EarlierStats::Nothing)?;
        if looked.tree != tree {
            return Err(keep("its files are not those that were salvaged; salvage it again"));
        }
        let problem = match looked.walked.left_out.unkept() {
            Some(unkept) => Some(super::own_git::in_no_snapshot(&unkept)),
            None => self.unkept_git(agent, attempt)?,
        };
        problem.map_or(Ok(()), |problem| Err(keep(&problem)))
    }

    pub(super) fn take(&self, agent: &str, attempt: u32) -> Result<(Snapshot, ScanResult), RepositoryError> {
        let tip = self.tip(agent, attempt)?;
        let looked = self.scan(agent, attempt, &tip, EarlierStats::Snapshot)?;
        let WorkspaceScan { entries, trees, tree, walked, present, pack, deleted } = looked;
        let tip_tree = self.tree_of(agent, attempt, &tip)?;
        let commit = if tree == tip_tree {
            tip
        } else {
            content::add_trees(&trees, &present, &pack)?;
            let commit = super::add_commit(&pack, &tree, &[tip], &format!("posse: work of {agent}"))?;
            self.spaces.options.hit("workspace.snapshot.before_pack");
            self.move_work_ref(agent, attempt, &tip, &commit, pack)?;
            commit
        };
        let manifest = Manifest { entries, looked_ns: walked.looked_ns, commit, tree };
        let home = self.attempt_dir(agent, attempt);
        // The next commit of a call follows this snapshot.
        self.spaces.calls.forget(&home);
        if let Some(deleted) = deleted {
            save_deleted(&home, &deleted)?;
        }
        manifest.save_in_place(&home.join("manifest"))?;
        Ok((Snapshot { commit, tree }, walked))
    }

    /// Adds a pack to the repository and moves the work ref to its commit. Durable when this returns. There are three waits
    /// for the disk: for the new files, for their names, and for the name of the ref.
    fn move_work_ref(
        &self,
        agent: &str,
        attempt: u32,
        tip: &ObjectId,
        commit: &ObjectId,
        pack: PackWriter,
    ) -> Result<(), RepositoryError> {
        let (name, home) = (work_ref(agent, attempt), self.attempt_dir(agent, attempt));
        let refs = self.refs();
        let lock = self.project.lock_ref(&name)?;
        // The work ref of an overlay is created by its first move.
        let now = refs.read(&name)?;
        let mark = if now.is_none() { self.unsettled_mark(agent, attempt)? } else { None };
        let sealed = pack.seal()?;
        let swap = refs.prepare_swap(&lock, &name, now.map(|_| *tip).as_ref(), commit)?;
        let mut files: Vec<&fs::File> = sealed.iter().flat_map(SealedPack::files).collect();
        files.extend(mark.iter().map(UnsyncedFile::file));
        files.extend(swap.iter().map(PreparedSwap::file));
        disk::sync_together(&files, &home)?;
        let packs = sealed.as_ref().map(|sealed| sealed.dir.clone());
        let mut dirs: Vec<&Path> = packs.iter().map(PathBuf::as_path).collect();
        if mark.is_some() {
            // The directories of the workspace, of its agent and of the run's workspaces.
            dirs.extend(home.ancestors().take(3));
        }
        sealed.map_or(Ok(()), SealedPack::put_in_place)?;
        mark.map_or(Ok(()), UnsyncedFile::put_in_place)?;
        disk::sync_dirs(dirs)?;
        self.spaces.options.hit("workspace.snapshot.after_pack");
        swap.map_or(Ok(()), PreparedSwap::complete)
    }

    /// The commit that a workspace is at: its work ref.
    pub(super) fn tip(&self, agent: &str, attempt: u32) -> Result<ObjectId, RepositoryError> {
        super::refs::check_id(agent)?;
        let Some(mark) = self.mark(agent, attempt)? else {
            return Err(RepositoryError::Damaged(format!(
                "there is no complete workspace of {agent} (attempt {attempt}) beneath {}",
                self.dir().display()
            )));
        };
        let (base, is_overlay) = (mark.base()?, mark.overlay.is_some());
        match self.lasted(agent, attempt, mark)? {
            Durability::Whole => {}
            Durability::Behind => drop(self.make_files(agent, attempt, &base)?),
            Durability::Torn => {
                return Err(RepositoryError::Damaged(format!(
                    "the machine stopped before the workspace of {agent} (attempt {attempt}) had reached the disk; it has \
                     to be made anew"
                )));
            }
        }
        let name = work_ref(agent, attempt);
        let line = self.refs().read(&name)?.or_else(|| is_overlay.then_some(base));
        line.ok_or_else(|| RepositoryError::Damaged(format!("{name} is gone; its workspace is kept")))
    }

    fn manifest_of(&self, agent: &str, attempt: u32) -> Option<Manifest> {
        Manifest::load(&self.attempt_dir(agent, attempt).join("manifest"))
    }

    pub(super) fn tree_of(
        &self,
        agent: &str,
        attempt: u32,
        commit: &ObjectId,
    ) -> Result<ObjectId, RepositoryError> {
        match self.manifest_of(agent, attempt) {
            Some(manifest) if manifest.commit == *commit => Ok(manifest.tree),
            _ => match self.mark(agent, attempt)?.filter(|mark| mark.overlay.is_some()) {
                Some(mark) if mark.base()? == *commit => {
                    Ok(self.table_at(commit, self.find_state(commit)?.as_ref())?.tree)
                }
                _ => objects::tree_of(&self.git(), commit),
            },
        }
    }

    /// Scans the upper layer of a workspace that is at `tip`. Files are read again unless `earlier` shows that they are
    /// unchanged.
    fn scan_upper(
        &self,
        (agent, attempt): (&str, u32),
        (base, mode): (&ObjectId, HolderMode),
        tip: &ObjectId,
        earlier: EarlierStats<'_>,
    ) -> Result<WorkspaceScan, RepositoryError> {
        let home = self.attempt_dir(agent, attempt);
        let folder = home.join(overlays::UPPER);
        // A cleaning must not lay files out.
        let state = self.find_state(base)?;
        let table = self.table_at(base, state.as_ref())?;
        let git = self.git();
        let seen = self.manifest_of(agent, attempt);
        let deleted = load_deleted(&home)?;
        let scanned = seen.as_ref().map_or(*base, |seen| seen.commit);
        let moved = if scanned == *tip {
            std::collections::BTreeMap::new()
        } else {
            upper::moved(&changes(&self.git(), &scanned, tip)?)
        };
        let absent = self.absent()?;
        let newest = match earlier {
            EarlierStats::Nothing => None,
            EarlierStats::Snapshot => seen.as_ref(),
            EarlierStats::Call(chain) => chain.scanned.as_ref().or(seen.as_ref()),
        };
        let view = UpperView {
            state: state.as_deref(),
            git: Some(&git),
            mode,
            table: &table,
            absent: &absent,
            seen: seen.as_ref(),
            stats: newest,
            deleted: &deleted,
            staging: upper::staging_of(&home)?,
            moved,
        };
        let (copies, options) = (self.copies(), &self.spaces.options);
        let root = scan::open_root(&folder)?;
        let request = Request {
            folder: &folder,
            known: &[],
            indexed_ns: 0,
            seen_ns: newest.map_or(0, |newest| newest.looked_ns),
            ignored: IgnorePatterns::default().with(self.record.excludes.as_bytes(), 0),
            executable_counts: true,
            is_users_folder: false,
            everything: false,
            name_ignored: 0,
            state: None,
            never: &copies.paths(),
            wanted: &CopyPatterns::default(),
            max_files: options.max_files,
            upper: Some(&view),
        };
        let mut walked = scan::scan(&request)?;
        let known: Vec<KnownFile> =
            walked.found.iter().filter_map(|found| view.known(found.path.clone())).collect();
        let (present, pack) = self.objects_beside(earlier)?;
        let entries = ContentWriter {
            folder: &folder,
            root: &root,
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
        let dirs = std::mem::take(&mut walked.upper_dirs);
        let MergedTree { tree, trees, mut deleted, replaced } = MergedTree::of(&view, &dirs, &entries);
        // No commit after this one has them.
        deleted.extend(replaced);
        Ok(WorkspaceScan { entries, trees, tree, walked, present, pack, deleted: Some(deleted) })
    }

    /// The objects that need not be stored again, and a pack for the others.
    fn objects_beside(
        &self,
        earlier: EarlierStats<'_>,
    ) -> Result<(PresentObjects, PackWriter), RepositoryError> {
        let repository = self.project.repository();
        let mut present = PresentObjects::cached(&repository, &self.spaces.packs)?;
        if let EarlierStats::Call(chain) = earlier {
            present = present.with(chain.packed.clone());
        }
        Ok((present, self.new_pack()))
    }

    /// Scans a workspace that is at `tip`. Files are read again unless `earlier` shows that they are unchanged.
    pub(super) fn scan(
        &self,
        agent: &str,
        attempt: u32,
        tip: &ObjectId,
        earlier: EarlierStats<'_>,
    ) -> Result<WorkspaceScan, RepositoryError> {
        if let Some(mark) = self.mark(agent, attempt)?
            && let Some(mode) = mark.overlay
        {
            return self.scan_upper((agent, attempt), (&mark.base()?, mode), tip, earlier);
        }
        let known = !matches!(earlier, EarlierStats::Nothing);
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
            is_users_folder: false,
            everything: false,
            name_ignored: 0,
            state: None,
            never: &copies.paths(),
            wanted: &CopyPatterns::default(),
            max_files: options.max_files,
            upper: None,
        })?;
        let (present, pack) = self.objects_beside(earlier)?;
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
        let tree = trees.last().map_or(ObjectId::ZERO, |(oid, _)| *oid);
        Ok(WorkspaceScan { entries, trees, tree, walked, present, pack, deleted: None })
    }

    /// Merges the files of a workspace's tip and its earlier scan. Both are sorted.
    fn known(
        &self,
        tracked: Vec<TreeFile>,
        seen: Option<&Manifest>,
    ) -> Result<Vec<KnownFile>, RepositoryError> {
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

/// The file beside an upper layer that lists the deleted paths of the layers below, at the last scan.
const DELETED: &str = "deleted";

fn save_deleted(home: &Path, deleted: &HashSet<Vec<u8>>) -> Result<(), RepositoryError> {
    let path = home.join(DELETED);
    if deleted.is_empty() && !path.exists() {
        return Ok(());
    }
    let paths: Vec<&[u8]> = deleted.iter().map(Vec::as_slice).collect();
    disk::write_cache(&path, &paths.join(&0))
}

fn load_deleted(home: &Path) -> Result<HashSet<Vec<u8>>, RepositoryError> {
    let text = disk::read_if_there(&home.join(DELETED))?.unwrap_or_default();
    Ok(text.split(|byte| *byte == 0).filter(|path| !path.is_empty()).map(<[u8]>::to_vec).collect())
}
