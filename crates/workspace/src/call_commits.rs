//! Commits the files of a workspace after each call.
//!
//! Such a commit has the files that a snapshot would have at that moment, and follows the commit of the work ref. Its
//! objects are one small pack, which the caller journals with the call's result, so nothing is synced here. The
//! repository does not get them: a later snapshot stores what is left of them. After a machine crash the journal's packs
//! are restored, and the workspace is created again from the last commit.
//!
//! Why it is like this: `docs/decisions/workspace-commit-per-call.md`.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posse_domain::event::FilesCommit;
use posse_engine::ports::DiffOptions;

use super::manifest::Manifest;
use super::refs::work_ref;
use super::snapshot::{EarlierStats, WorkspaceScan};
use super::{ObjectId, RepositoryError, RunSpace, content, disk};

/// The largest pack that goes to the journal. With more, the files are committed to the work ref like a snapshot.
const PACK_MAX_BYTES: u64 = 1024 * 1024;
/// How many objects of one workspace may be in packs of the journal alone. With more, its files are committed likewise.
const PACKED_MAX_OBJECTS: usize = 50_000;
/// The file beside a workspace with the boot in which its last call was committed. In that boot, its files are as its
/// process left them.
const LAST_CALL: &str = "last-call";

/// What the commits of calls since the last snapshot of a workspace have.
#[derive(Debug)]
pub(super) struct CallChain {
    /// The commit of the work ref, which all of them follow.
    tip: ObjectId,
    commit: ObjectId,
    tree: ObjectId,
    /// The scan of the last one. `None` if the workspace is a copy: its manifest has all files of the project.
    pub(super) scanned: Option<Manifest>,
    /// The objects in their packs.
    pub(super) packed: Arc<HashSet<ObjectId>>,
}

/// The chains of calls of all workspaces that this process uses, by the directory of the workspace.
#[derive(Debug, Default)]
pub(super) struct CallChains(Mutex<HashMap<PathBuf, CallChain>>);

impl CallChains {
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, CallChain>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the chain of a workspace: its next commit follows the work ref, and needs no earlier pack.
    pub(super) fn forget(&self, home: &Path) {
        self.lock().remove(home);
    }
}

impl RunSpace {
    /// Commits what changed in a workspace since its last commit. Returns `None` if nothing did. Nothing is durable,
    /// unless the commit has no pack.
    pub fn commit_call(&self, agent: &str, attempt: u32) -> Result<Option<FilesCommit>, RepositoryError> {
        let tip = self.tip(agent, attempt)?;
        let home = self.attempt_dir(agent, attempt);
        // Taken out, so that the lock is not held while files are read. A failure begins a new chain.
        let chain = self.spaces.calls.lock().remove(&home).filter(|chain| chain.tip == tip);
        let earlier = chain.as_ref().map_or(EarlierStats::Snapshot, EarlierStats::Call);
        let looked = self.scan(agent, attempt, &tip, earlier)?;
        let WorkspaceScan { entries, trees, tree, walked, present, pack, deleted } = looked;
        let before = match &chain {
            Some(chain) => chain.tree,
            None => self.tree_of(agent, attempt, &tip)?,
        };
        let scanned = |commit| Manifest { entries, looked_ns: walked.looked_ns, commit, tree };
        if tree == before {
            if let Some(chain) = chain {
                let scanned = deleted.is_some().then(|| scanned(chain.commit));
                self.spaces.calls.lock().insert(home, CallChain { scanned, ..chain });
            }
            return Ok(None);
        }
        content::add_trees(&trees, &present, &pack)?;
        drop(present);
        let packed = chain.as_ref().map_or(0, |chain| chain.packed.len()) + pack.ids().len();
        if pack.bytes() > PACK_MAX_BYTES || packed > PACKED_MAX_OBJECTS {
            drop(pack);
            let (snapshot, _) = self.take(agent, attempt)?;
            return Ok(Some(FilesCommit { commit: snapshot.commit, follows: tip, onto: None, pack: None }));
        }
        let commit = super::add_commit(&pack, &tree, &[tip], &format!("posse: work of {agent}"))?;
        let (onto, mut packed) =
            chain.map_or_else(Default::default, |chain| (Some(chain.commit), chain.packed));
        Arc::make_mut(&mut packed).extend(pack.ids());
        let bytes = pack.into_bytes()?;
        if let Some(boot) = self.spaces.options.boot() {
            let path = home.join(LAST_CALL);
            if disk::read_if_there(&path)?.as_deref() != Some(boot.as_bytes()) {
                disk::write_cache(&path, boot.as_bytes())?;
            }
        }
        let scanned = deleted.is_some().then(|| scanned(commit));
        self.spaces.calls.lock().insert(home, CallChain { tip, commit, tree, scanned, packed });
        Ok(Some(FilesCommit { commit, follows: tip, onto, pack: Some(bytes.into()) }))
    }

    /// The difference between a commit of the repository and that of a call, whose objects are in `packs`.
    pub fn diff_of_call(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        packs: &[Vec<u8>],
        options: DiffOptions,
    ) -> Result<Vec<u8>, RepositoryError> {
        let packs: Vec<&[u8]> = packs.iter().map(Vec::as_slice).collect();
        let unpacked = super::transfer::unpacked(&self.git(), &packs)?;
        super::diff(unpacked.git(), from, to, options)
    }

    /// The commits of calls, of those that the journal has, whose files the machine may have lost: the last one and
    /// those whose packs it needs, oldest first.
    pub fn lost_calls(
        &self,
        agent: &str,
        attempt: u32,
        journalled: &[FilesCommit],
    ) -> Result<Vec<FilesCommit>, RepositoryError> {
        let Some(newest) = journalled.last().filter(|newest| newest.pack.is_some()) else {
            return Ok(Vec::new());
        };
        let seen = disk::read_if_there(&self.attempt_dir(agent, attempt).join(LAST_CALL))?;
        let boot = self.spaces.options.boot();
        if boot.is_some_and(|boot| seen.as_deref() == Some(boot.as_bytes())) {
            return Ok(Vec::new());
        }
        // A work ref that has moved since has their files, or was restored already.
        if self.refs().read(&work_ref(agent, attempt))?.is_some_and(|tip| tip != newest.follows) {
            return Ok(Vec::new());
        }
        let mut lost = vec![newest.clone()];
        let mut older = journalled[..journalled.len() - 1].iter().rev();
        while let Some(onto) = lost.last().and_then(|commit| commit.onto) {
            let below = older.find(|commit| commit.commit == onto).ok_or_else(|| {
                RepositoryError::Damaged(format!("the journal of {agent} does not have the files {onto}"))
            })?;
            lost.push(below.clone());
        }
        lost.reverse();
        Ok(lost)
    }

    /// Adds the packs of lost commits to the repository and moves the work ref to the last one. Durable when this
    /// returns.
    pub fn restore_calls(
        &self,
        agent: &str,
        attempt: u32,
        lost: &[(FilesCommit, Vec<u8>)],
    ) -> Result<(), RepositoryError> {
        let Some((newest, _)) = lost.last() else { return Ok(()) };
        let packs: Vec<&[u8]> = lost.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        let name = work_ref(agent, attempt);
        // Before the work ref moves: from then on, it does not show what the workspace was made from.
        self.mark_again(agent, attempt, &newest.follows)?;
        let lock = self.project.lock_ref(&name)?;
        let git = self.git();
        super::transfer::add_packs(&git, &packs, &[newest.commit], &[newest.follows], || {
            self.spaces.options.hit("workspace.restore.before_pack");
        })?;
        self.spaces.packs.forget(&self.project.repository());
        let refs = self.refs();
        let now = refs.read(&name)?;
        refs.swap(&lock, &name, now.map(|_| newest.follows).as_ref(), &newest.commit)
    }
}
