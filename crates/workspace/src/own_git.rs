//! Creates the `.git` of a workspace and salvages the agent's changes to it.
//!
//! An agent's commits, branches and stashes are in no file of the workspace. A changed `.git` is kept as plain files.
//! Git never runs there, because the agent controls its configuration. The borrowed objects are in `lent`.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use posse_sandbox::HolderMode;
use rustix::fs::{Mode as Permissions, OFlags};
use rustix::io::Errno;

use super::bases::BaseState;
use super::content::{self, ContentWriter, NewTree, open_beneath};
use super::copies::{CopyPatterns, SECRET};
use super::ignored::IgnorePatterns;
use super::notes::LeftOut;
use super::object::{self, Mode, ObjectType};
use super::objects::{self, PresentObjects, TreeFile};
use super::pack::PackWriter;
use super::refs::salvaged_git_ref;
use super::run::BORROWED_OBJECTS;
use super::scan::{self, Request, ScannedFile};
use super::tree_table::TreeTable;
use super::upper::{MergedTree, UpperView};
use super::{ObjectId, RepositoryError, RunSpace, closed, disk, overlays};

/// The branch that a workspace is on.
const BRANCH: &str = "refs/heads/work";
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogAllRefUpdates = true\n\
                      [gc]\n\tauto = 0\n[user]\n\tname = Posse\n\temail = posse@localhost\n";
/// With it, git looks at files outside of a sparse checkout that exist nevertheless; without, it hides an agent's changes
/// to them. No patterns are planted, so that git refuses no path.
const SPARSE_CONFIG: &str = "[core]\n\tsparseCheckout = true\n";
const DOT_GIT: &str = ".git";
/// Why a pack that an agent made is omitted.
const MAYBE_SECRET: &str = "it may have the content of a file named by workspace.copy";
/// Files without work in them: git rewrites the index even when it only reads, and staged content is an object.
const UNCOUNTED: [&[u8]; 2] = [b"index", b"shallow"];

/// A `.git` that differs from the planted one. None of it is in the repository yet.
struct LookedGit {
    tree: ObjectId,
    trees: Vec<NewTree>,
    left_out: LeftOut,
    present: PresentObjects,
    pack: PackWriter,
}

impl RunSpace {
    /// The files of a new workspace's `.git`, except [`UNCOUNTED`].
    pub(super) fn planted(&self, base: &ObjectId) -> [(&'static str, Vec<u8>); 5] {
        let config = if self.is_sparse() { [CONFIG, SPARSE_CONFIG].concat() } else { CONFIG.to_owned() };
        [
            ("HEAD", format!("ref: {BRANCH}\n").into_bytes()),
            (BRANCH, format!("{base}\n").into_bytes()),
            ("config", config.into_bytes()),
            ("objects/info/alternates", format!("{BORROWED_OBJECTS}\n").into_bytes()),
            ("info/exclude", self.record.excludes.clone().into_bytes()),
        ]
    }

    /// Keeps the `.git` of a workspace, if its agent changed it. An unreadable one is omitted, with a note.
    pub(super) fn keep_git(
        &self,
        agent: &str,
        attempt: u32,
        left_out: &mut LeftOut,
    ) -> Result<Option<ObjectId>, RepositoryError> {
        let LookedGit { tree, trees, left_out: here, present, pack } = match self.scan_git(agent, attempt) {
            Ok(Some(looked)) => looked,
            Ok(None) => return Ok(None),
            Err(error) => {
                left_out.work(b".git/", &error.to_string());
                return Ok(None);
            }
        };
        left_out.extend(here);
        let (name, refs) = (salvaged_git_ref(agent, attempt), self.refs());
        let before = refs.read(&name)?;
        if let Some(before) = before
            && objects::tree_of(&self.git(), &before)? == tree
        {
            return Ok(Some(before));
        }
        content::add_trees(&trees, &present, &pack)?;
        // What was kept before stays reachable.
        let parents: Vec<ObjectId> = before.into_iter().collect();
        let commit = super::add_commit(&pack, &tree, &parents, &format!("posse: .git of {agent}"))?;
        pack.finish()?;
        let lock = self.project.lock_ref(&name)?;
        refs.swap(&lock, &name, before.as_ref(), &commit)?;
        Ok(Some(commit))
    }

    /// Why a workspace's `.git` must not be removed; `None` if all of it is kept.
    pub(super) fn unkept_git(&self, agent: &str, attempt: u32) -> Result<Option<String>, RepositoryError> {
        let looked = match self.scan_git(agent, attempt) {
            Ok(Some(looked)) => looked,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(error.to_string())),
        };
        if let Some(unkept) = looked.left_out.unkept() {
            return Ok(Some(in_no_snapshot(&unkept)));
        }
        let kept = self.refs().read(&salvaged_git_ref(agent, attempt))?;
        let kept = kept.map(|kept| objects::tree_of(&self.git(), &kept)).transpose()?;
        let same = kept == Some(looked.tree);
        Ok((!same).then(|| "its .git changed after it was salvaged; salvage it again".to_owned()))
    }

    /// Reads the `.git` of a workspace. `None` if it is unchanged or not a directory: then it has no content, and a
    /// link is never followed.
    fn scan_git(&self, agent: &str, attempt: u32) -> Result<Option<LookedGit>, RepositoryError> {
        let Some(mark) = self.mark(agent, attempt)? else { return Ok(None) };
        if let Some(mode) = mark.overlay {
            return self.scan_upper_git(agent, attempt, &mark.base()?, mode);
        }
        let files = self.dir_of(agent, attempt);
        let folder = files.join(DOT_GIT);
        let failed = |error: &std::io::Error| RepositoryError::io("opening", &folder, error);
        let Some(root) = open(&scan::open_root(&files)?).map_err(|error| failed(&error.into()))? else {
            return Ok(None);
        };
        let (copies, options) = (self.copies(), &self.spaces.options);
        let request = Request {
            folder: &folder,
            known: &[],
            indexed_ns: 0,
            seen_ns: 0,
            ignored: IgnorePatterns::default(),
            executable_counts: true,
            is_users_folder: false,
            everything: true,
            name_ignored: 0,
            state: None,
            never: &HashSet::new(),
            wanted: &CopyPatterns::default(),
            max_files: options.max_files,
            upper: None,
        };
        let mut walked = scan::scan_at(&request, root.try_clone().map_err(|error| failed(&error))?)?;
        let planted = self.planted(&mark.base()?);
        let as_planted = walked.found.iter().all(|found| is_planted(&root, found, &planted));
        if as_planted && walked.left_out.unkept().is_none() {
            return Ok(None);
        }
        let secrets = copies.names();
        leave_out_secrets(&mut walked, &secrets);
        let repository = self.project.repository();
        let (present, pack) = (PresentObjects::cached(&repository, &self.spaces.packs)?, self.new_pack());
        let entries = ContentWriter {
            folder: &folder,
            root: &root,
            known: &[],
            present: &present,
            pack: &pack,
            owned: true,
            secrets: &secrets,
            convert: None,
            max_file_bytes: options.max_file_bytes,
            max_new_bytes: options.max_run_bytes,
        }
        .entries(&mut walked)?;
        let trees = content::trees(&entries);
        let tree = trees.last().map_or(ObjectId::ZERO, |(oid, _)| *oid);
        Ok(Some(LookedGit { tree, trees, left_out: walked.left_out.beneath(".git/"), present, pack }))
    }
}

impl RunSpace {
    /// The same for an overlay: the upper layer has what differs from the planted files.
    fn scan_upper_git(
        &self,
        agent: &str,
        attempt: u32,
        base: &ObjectId,
        mode: HolderMode,
    ) -> Result<Option<LookedGit>, RepositoryError> {
        let upper = self.attempt_dir(agent, attempt).join(overlays::UPPER);
        let folder = upper.join(DOT_GIT);
        let failed = |error: &std::io::Error| RepositoryError::io("opening", &folder, error);
        let Some(root) = open(&scan::open_root(&upper)?).map_err(|error| failed(&error.into()))? else {
            return Ok(None);
        };
        let state = self.find_state(base)?;
        let planted = self.planted_in(state.as_deref(), base)?;
        let mut files: Vec<TreeFile> = planted
            .iter()
            .map(|(name, content)| TreeFile {
                path: name.as_bytes().to_vec(),
                mode: Mode::File,
                oid: object::name(ObjectType::Blob, content),
            })
            .collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let table = TreeTable::of(&files);
        let (copies, options, none) = (self.copies(), &self.spaces.options, HashSet::new());
        let view = UpperView {
            state: None,
            git: None,
            mode,
            table: &table,
            absent: &none,
            seen: None,
            stats: None,
            deleted: &none,
            staging: None,
            moved: BTreeMap::new(),
        };
        let request = Request {
            folder: &folder,
            known: &[],
            indexed_ns: 0,
            seen_ns: 0,
            ignored: IgnorePatterns::default(),
            executable_counts: true,
            is_users_folder: false,
            everything: true,
            name_ignored: 0,
            state: None,
            never: &none,
            wanted: &CopyPatterns::default(),
            max_files: options.max_files,
            upper: Some(&view),
        };
        let mut walked = scan::scan_at(&request, root.try_clone().map_err(|error| failed(&error))?)?;
        let dirs = std::mem::take(&mut walked.upper_dirs);
        let as_planted = walked.found.iter().all(|found| is_planted(&root, found, &planted));
        let nothing_deleted = MergedTree::of(&view, &dirs, &[]).deleted.is_empty();
        if as_planted && nothing_deleted && walked.left_out.unkept().is_none() {
            return Ok(None);
        }
        let secrets = copies.names();
        leave_out_secrets(&mut walked, &secrets);
        let repository = self.project.repository();
        let (present, pack) = (PresentObjects::cached(&repository, &self.spaces.packs)?, self.new_pack());
        for (file, (_, content)) in files.iter().zip(sorted(&planted)) {
            if !present.has(&file.oid) {
                pack.add(ObjectType::Blob, file.oid, content)?;
            }
        }
        let entries = ContentWriter {
            folder: &folder,
            root: &root,
            known: &[],
            present: &present,
            pack: &pack,
            owned: true,
            secrets: &secrets,
            convert: None,
            max_file_bytes: options.max_file_bytes,
            max_new_bytes: options.max_run_bytes,
        }
        .entries(&mut walked)?;
        let MergedTree { tree, mut trees, .. } = MergedTree::of(&view, &dirs, &entries);
        // No commit has the planted directories.
        trees.extend(table.trees());
        Ok(Some(LookedGit { tree, trees, left_out: walked.left_out.beneath(".git/"), present, pack }))
    }

    /// The files of the `.git` in a state, with those that do not count as work.
    fn planted_in(
        &self,
        state: Option<&BaseState>,
        base: &ObjectId,
    ) -> Result<Vec<(&'static str, Vec<u8>)>, RepositoryError> {
        let mut planted = self.planted(base).to_vec();
        for name in ["index", "shallow"] {
            let path = state.map(|state| state.git_dir().join(name));
            let content = path.map_or(Ok(None), |path| disk::read_if_there(&path))?;
            planted.extend(content.map(|content| (name, content)));
        }
        Ok(planted)
    }
}

/// The files by name.
fn sorted<'a>(planted: &'a [(&'static str, Vec<u8>)]) -> Vec<&'a (&'static str, Vec<u8>)> {
    let mut planted: Vec<_> = planted.iter().collect();
    planted.sort_unstable_by_key(|(name, _)| *name);
    planted
}

/// Omits what is, or may be, the content of a secret. In a pack a secret cannot be recognised by its name.
fn leave_out_secrets(walked: &mut scan::ScanResult, secrets: &HashSet<ObjectId>) {
    let is_secret = |found: &mut ScannedFile| loose(&found.path).is_some_and(|oid| secrets.contains(&oid));
    for secret in walked.found.extract_if(.., is_secret) {
        walked.left_out.work(&secret.path, SECRET);
    }
    let is_pack = |found: &mut ScannedFile| found.path.ends_with(b".pack") && !secrets.is_empty();
    for pack in walked.found.extract_if(.., is_pack) {
        walked.left_out.work(&pack.path, MAYBE_SECRET);
    }
}

/// The reason to keep a workspace that has unsalvaged files.
pub(super) fn in_no_snapshot(unkept: &str) -> String {
    format!("it holds what could not be salvaged ({unkept}); move that elsewhere, and clean again")
}

/// Opens the `.git` in a folder; `None` if there is no such directory.
fn open(files: &OwnedFd) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let name = DOT_GIT.as_bytes();
    match closed::opened_up(files, name, || open_beneath(files, name, flags, Permissions::empty())) {
        Ok(dir) => Ok(Some(dir)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a file is unchanged since it was planted, or empty because the machine stopped before a sync.
fn is_planted(root: &OwnedFd, found: &ScannedFile, planted: &[(&str, Vec<u8>)]) -> bool {
    if UNCOUNTED.contains(&found.path.as_slice()) {
        return true;
    }
    let Some((_, content)) = planted.iter().find(|(name, _)| name.as_bytes() == found.path) else {
        return false;
    };
    let size = found.stat.map_or(0, |stat| stat.size);
    let same = || size == content.len() as u64 && read(root, &found.path, size).as_ref() == Some(content);
    found.mode == Mode::File && (size == 0 || same())
}

/// Reads a file of this size. An unreadable one (`None`) counts as changed.
fn read(root: &OwnedFd, path: &[u8], size: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || open_beneath(root, path, flags, Permissions::empty());
    let file = File::from(closed::opened_up(root, path, open).ok()?);
    let mut content = Vec::new();
    file.take(size.saturating_add(1)).read_to_end(&mut content).ok()?;
    Some(content)
}

/// The id of the loose object at this path of a `.git`.
fn loose(path: &[u8]) -> Option<ObjectId> {
    let name = std::str::from_utf8(path).ok()?.strip_prefix("objects/")?;
    name.replacen('/', "", 1).parse().ok()
}
