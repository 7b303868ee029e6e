//! Begins a run for the engine: takes a snapshot of the user's folder.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse_engine::ports::FilesOperation;
use posse_sandbox::{Mounts, Sandbox};
use serde::{Deserialize, Serialize};

use super::bases::Bases;
use super::call_commits::CallChains;
use super::content::{self, ContentWriter};
use super::continue_run::ContinuedRecord;
use super::copies::{CopiedFile, Copies, CopyPatterns};
use super::enclosing::{self, EnclosingRepository, refuse_bare};
use super::files_progress::ProgressReports;
use super::ignored::only_patterns;
use super::index::{self, Index, TrackedFile};
use super::manifest::{Entry, Manifest, Stat};
use super::object::{self, Mode, ObjectType};
use super::objects::{PackCache, PresentObjects};
use super::overlays::Overlays;
use super::pack::PackWriter;
use super::project::Project;
use super::readers::Readers;
use super::refs::{Refs, base_ref, check_id};
use super::run::SPARSE;
use super::scan::{self, EarlierScan, KnownFile, Request, ScanResult};
use super::stored_objects::StoredObjects;
use super::user_repository::{Head, UserRepository};
use super::{ObjectId, RepositoryError, RunSpace, Snapshot, WorkspaceOptions, disk};

/// The message of the commit with the user's uncommitted changes.
const SNAPSHOT: &str = "posse: snapshot";

/// Creates workspaces beneath one state directory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LocalFiles {
    pub(super) state: Arc<Path>,
    pub(super) options: Arc<WorkspaceOptions>,
    pub(super) bases: Arc<Bases>,
    pub(super) readers: Arc<Readers>,
    pub(super) packs: Arc<PackCache>,
    pub(super) calls: Arc<CallChains>,
    pub(super) progress: ProgressReports,
    /// `None` if workspaces are copies.
    pub(super) overlays: Option<Arc<Overlays>>,
}

/// The snapshot that a run begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBase {
    /// The user's folder as it was.
    pub snapshot: Snapshot,
    /// The commit that is checked out in the user's folder, if there is one.
    pub head: Option<ObjectId>,
    /// Whether the folder differs from `head`.
    pub dirty: bool,
    /// The commit that the result is compared with, if that is not the snapshot.
    pub compared_with: Option<ObjectId>,
    /// Notes for the user about files that the snapshot omits or changes.
    pub notes: Vec<String>,
}

/// The content of the run's `project.json`: where its project is, and what it began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) folder: PathBuf,
    pub(super) project: String,
    /// Whether the folder is the top of a repository.
    pub(super) is_repository: bool,
    pub(super) head: Option<String>,
    pub(super) commit: String,
    pub(super) tree: String,
    pub(super) dirty: bool,
    pub(super) notes: Vec<String>,
    pub(super) copies: Vec<CopiedFile>,
    /// The patterns that apply above all `.gitignore` files.
    pub(super) excludes: String,
    /// The earlier run whose files it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) continues: Option<ContinuedRecord>,
}

impl Record {
    /// The commit that the result is compared with, if the run continues another one.
    fn compared_with(&self) -> Option<&String> {
        self.continues.as_ref().map(|continued| &continued.compared_with)
    }

    /// Writes the record of a new run into its directory. The run has begun once it is there.
    pub(super) fn save(&self, run_dir: &Path) -> Result<(), RepositoryError> {
        let text = serde_json::to_vec_pretty(self).map_err(|error| {
            RepositoryError::Unsupported(format!("{} cannot be written down: {error}", self.folder.display()))
        })?;
        disk::write_durably(&run_dir.join("project.json"), &text)
    }
}

impl LocalFiles {
    /// Workspaces beneath the state directory `state`.
    pub fn new(state: &Path, options: WorkspaceOptions) -> Self {
        // Git runs in other directories, where a relative path would resolve elsewhere.
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
        Self {
            state: state.into(),
            options: Arc::new(options),
            bases: Arc::default(),
            readers: Arc::default(),
            packs: Arc::default(),
            calls: Arc::default(),
            progress: ProgressReports::default(),
            overlays: None,
        }
    }

    /// The same with other options. Both share what this process has mounted.
    pub fn with_options(self, options: WorkspaceOptions) -> Self {
        Self { options: Arc::new(options), ..self }
    }

    /// The same, with workspaces that are overlays where the kernel can mount them.
    pub fn with_mounts(self, mounts: Mounts) -> Self {
        Self { overlays: Some(Arc::new(Overlays::new(mounts, None))), ..self }
    }

    /// The same, with overlays only where programs can work in them.
    pub fn with_sandbox(self, sandbox: &Sandbox) -> Self {
        let overlays = Overlays::new(sandbox.mounts(), Some(sandbox.clone()));
        Self { overlays: Some(Arc::new(overlays)), ..self }
    }

    /// Begins a run with a snapshot of the user's folder, which is durable when this returns. Nothing in the folder
    /// changes. Idempotent: for a run that has begun, it returns the recorded base.
    pub fn begin(&self, run: &str, dir: &Path) -> Result<RunBase, RepositoryError> {
        check_id(run)?;
        if let Some(record) = self.record(run)? {
            return begun(&record, run);
        }
        let folder = dir.canonicalize().map_err(disk::failed("opening", dir))?;
        let project = Project::of(&self.state, &folder);
        refuse_bare(&folder)?;
        project.ensure(&folder)?;
        let (program, home) = (&self.options.git, self.options.home.as_deref());
        let user_repository = UserRepository::find(&folder, program, home)?;
        let above = if user_repository.is_some() {
            EnclosingRepository::Nothing
        } else {
            EnclosingRepository::of(&folder, &project, &self.options)?
        };
        let beginning =
            RunPreparation { spaces: self, run, folder: &folder, project, user_repository, above };
        let record = beginning.begin().inspect_err(|_| {
            // Without its record no other process knows of the directory. What cannot be removed is left to a cleaning.
            drop(disk::remove_tree(&self.run_dir(run)));
        })?;
        begun(&record, run)
    }

    /// Opens a run that has begun.
    pub fn open(&self, run: &str) -> Result<RunSpace, RepositoryError> {
        check_id(run)?;
        let record = self.record(run)?.ok_or_else(|| {
            RepositoryError::Damaged(format!(
                "run {run} has no project.json beneath {}",
                self.state.display()
            ))
        })?;
        RunSpace::new(self.clone(), run, record)
    }

    pub(super) fn run_dir(&self, run: &str) -> PathBuf {
        self.state.join("runs").join(run)
    }

    pub(super) fn record(&self, run: &str) -> Result<Option<Record>, RepositoryError> {
        let path = self.run_dir(run).join("project.json");
        let Some(text) = disk::read_if_there(&path)? else { return Ok(None) };
        let record = serde_json::from_slice(&text);
        record
            .map(Some)
            .map_err(|error| RepositoryError::Damaged(format!("{} cannot be read: {error}", path.display())))
    }
}

pub(super) fn begun(record: &Record, run: &str) -> Result<RunBase, RepositoryError> {
    let oid = |text: &String| {
        text.parse()
            .map_err(|_| RepositoryError::Damaged(format!("project.json of run {run} names no object")))
    };
    Ok(RunBase {
        snapshot: Snapshot { commit: oid(&record.commit)?, tree: oid(&record.tree)? },
        head: record.head.as_ref().map(oid).transpose()?,
        dirty: record.dirty,
        compared_with: record.compared_with().map(oid).transpose()?,
        notes: record.notes.clone(),
    })
}

/// A scan of the user's folder.
struct FolderScan {
    /// What was known of the folder before.
    known: Vec<KnownFile>,
    walked: ScanResult,
    /// The snapshot of the project's newest run.
    earlier: Option<Snapshot>,
}

struct RunPreparation<'a> {
    spaces: &'a LocalFiles,
    run: &'a str,
    folder: &'a Path,
    project: Project,
    user_repository: Option<UserRepository>,
    above: EnclosingRepository,
}

impl RunPreparation<'_> {
    fn begin(&self) -> Result<Record, RepositoryError> {
        let run_dir = self.spaces.run_dir(self.run);
        disk::make_dirs(&run_dir)?;
        let wanted = CopyPatterns::new(&self.spaces.options.copy)?;
        let excludes = self.user_repository.as_ref().map_or(Ok(Vec::new()), UserRepository::excludes)?;
        let (head, FolderScan { known, mut walked, earlier }) = self.head_and_scan(&wanted, &excludes)?;
        let excludes = match &self.above {
            EnclosingRepository::Part { .. } => enclosing::patterns_of(&walked.ignored, self.folder)?,
            _ => excludes.iter().flat_map(|text| only_patterns(text)).collect(),
        };
        let root = scan::open_root(self.folder)?;
        let copies = Copies::take(&root, &walked.copies, &run_dir.join("copies"))?;
        let repository = self.project.repository();
        let pack = PackWriter::new(&repository).known_to(&self.spaces.packs);
        let present = PresentObjects::of(&repository)?;
        let entries = self.entries(&known, &mut walked, &root, &copies, &present, &pack)?;
        let trees = content::trees(&entries);
        let snapshot = self.write(head.as_ref(), earlier, &trees, &present, pack)?;
        let sparse = entries.iter().filter(|entry| entry.stat.is_none() && entry.mode != Mode::Gitlink);
        let sparse: Vec<&[u8]> = sparse.map(|entry| entry.path.as_slice()).collect();
        let sparse_path = run_dir.join(SPARSE);
        // An existing file is from a beginning that was interrupted.
        if !sparse.is_empty() || sparse_path.exists() {
            disk::write_durably(&sparse_path, &sparse.join(&0))?;
        }
        let Snapshot { commit, tree } = snapshot;
        self.keep(&run_dir, &Manifest { entries, looked_ns: walked.looked_ns, commit, tree })?;
        let record = Record {
            folder: self.folder.to_owned(),
            project: self.project.key(),
            is_repository: self.user_repository.is_some(),
            head: head.map(|head| head.commit.to_string()),
            commit: commit.to_string(),
            tree: tree.to_string(),
            dirty: head.map_or(tree != object::name(ObjectType::Tree, b""), |head| head.tree != tree),
            notes: self.notes(&walked),
            copies: copies.files,
            excludes: String::from_utf8_lossy(&excludes).into_owned(),
            continues: None,
        };
        record.save(&run_dir)?;
        Ok(record)
    }

    /// Reads HEAD of the user's repository and scans the folder. Both run at once, because git takes a while to start,
    /// except when git has to read the index.
    fn head_and_scan(
        &self,
        wanted: &CopyPatterns,
        excludes: &[Vec<u8>],
    ) -> Result<(Option<Head>, FolderScan), RepositoryError> {
        let Some(user_repository) = &self.user_repository else {
            return Ok((None, self.scan(wanted, excludes, self.above.tracked(), 0)?));
        };
        // Taken before the index is read: a later change only makes the index look older.
        let indexed_ns =
            user_repository.git_dir.stat(index::NAME)?.map_or(0, |stat| Stat::of(&stat).mtime_ns);
        match index::read(&user_repository.git_dir)? {
            Index::Read(tracked) => {
                let (head, scanned) = std::thread::scope(|scope| {
                    let head = scope.spawn(|| self.head(user_repository));
                    let scanned = self.scan(wanted, excludes, tracked, indexed_ns);
                    (head.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), scanned)
                });
                Ok((head?, scanned?))
            }
            Index::Odd(bytes) => {
                let head = self.head(user_repository)?;
                let (project, program) = (&self.project, &self.spaces.options.git);
                let tracked =
                    index::read_odd(&user_repository.git_dir, &bytes, project, program, self.folder)?;
                Ok((head, self.scan(wanted, excludes, tracked, indexed_ns)?))
            }
        }
    }

    /// HEAD of the user's repository. If there is one, its objects are borrowed.
    fn head(&self, user_repository: &UserRepository) -> Result<Option<Head>, RepositoryError> {
        let program = &self.spaces.options.git;
        let commit = user_repository.head_commit(self.folder, &self.project, program)?;
        let options = &self.spaces.options;
        self.project.borrow(&self.project.lock()?, user_repository, &|point| options.hit(point))?;
        self.spaces.packs.forget(&self.project.repository());
        let head =
            |commit: ObjectId| UserRepository::head_of(&self.project.git(program), &commit, self.folder);
        commit.map(head).transpose()
    }

    fn scan(
        &self,
        wanted: &CopyPatterns,
        excludes: &[Vec<u8>],
        tracked: Vec<TrackedFile>,
        indexed_ns: i128,
    ) -> Result<FolderScan, RepositoryError> {
        let seen = Manifest::load(&self.project.manifest());
        let seen_ns = seen.as_ref().map_or(0, |seen| seen.looked_ns);
        let earlier = seen.as_ref().map(|seen| Snapshot { commit: seen.commit, tree: seen.tree });
        let known = known(tracked, seen.map_or_else(Vec::new, |seen| seen.entries));
        let state = std::fs::metadata(&self.spaces.state).ok().map(|state| (state.dev(), state.ino()));
        let is_part = matches!(self.above, EnclosingRepository::Part { .. });
        let request = Request {
            folder: self.folder,
            known: &known,
            indexed_ns,
            seen_ns,
            ignored: excludes.iter().fold(self.above.ignored(), |ignored, text| ignored.with(text, 0)),
            executable_counts: self.user_repository.as_ref().is_none_or(UserRepository::executable_counts),
            is_users_folder: true,
            everything: false,
            name_ignored: if is_part { enclosing::MAX_IGNORED } else { 0 },
            state,
            never: &HashSet::new(),
            wanted,
            max_files: self.spaces.options.max_files,
            upper: None,
        };
        let walked = scan::scan(&request)?;
        Ok(FolderScan { known, walked, earlier })
    }

    fn entries(
        &self,
        known: &[KnownFile],
        walked: &mut ScanResult,
        root: &std::os::fd::OwnedFd,
        copies: &Copies,
        present: &PresentObjects,
        pack: &PackWriter,
    ) -> Result<Vec<Entry>, RepositoryError> {
        let settings = self.user_repository.as_ref().map(UserRepository::line_endings).unwrap_or_default();
        let converting = walked.converting || !settings.is_empty();
        let convert = self.user_repository.as_ref().filter(|_| converting).map(|user_repository| {
            let git = self.project.git(&self.spaces.options.git);
            let index = user_repository.git_dir.path().join(index::NAME);
            git.with_work_tree(self.folder).with_index(&index).with_settings(settings)
        });
        if let Some(odd) = walked.odd_attributes.take().filter(|_| convert.is_some()) {
            return Err(RepositoryError::Unsupported(format!(
                "{}/{} is not a plain file, so that git cannot be asked which line endings it converts; remove it",
                self.folder.display(),
                super::notes::readable(&odd)
            )));
        }
        let writing = ContentWriter {
            folder: self.folder,
            root,
            known,
            present,
            pack,
            owned: false,
            secrets: &copies.names(),
            convert: convert.as_ref(),
            max_file_bytes: self.spaces.options.max_file_bytes,
            max_new_bytes: self.spaces.options.max_run_bytes,
        };
        writing.entries_reporting(walked, Some(self.spaces.progress.of(self.run, FilesOperation::Read)))
    }

    /// Writes the snapshot: the checked-out commit if nothing differs, else a new commit.
    fn write(
        &self,
        head: Option<&Head>,
        earlier: Option<Snapshot>,
        trees: &[content::NewTree],
        present: &PresentObjects,
        pack: PackWriter,
    ) -> Result<Snapshot, RepositoryError> {
        let tree = trees.last().map_or(ObjectId::ZERO, |(oid, _)| *oid);
        let parents: Vec<ObjectId> = head.iter().map(|head| head.commit).collect();
        let commit = match (head, earlier.filter(|earlier| earlier.tree == tree)) {
            (Some(head), _) if head.tree == tree => head.commit,
            // The shared layers of that commit are there already.
            (_, Some(earlier)) if self.is_snapshot(&earlier, &parents) => earlier.commit,
            _ => {
                content::add_trees(trees, present, &pack)?;
                super::add_commit(&pack, &tree, &parents, SNAPSHOT)?
            }
        };
        let options = &self.spaces.options;
        options.hit("workspace.begin.before_pack");
        let lock = self.project.lock()?;
        pack.finish()?;
        options.hit("workspace.begin.after_pack");
        let refs = Refs::of(&self.project.repository());
        let name = base_ref(self.run);
        refs.swap(&lock, &name, refs.read(&name)?.as_ref(), &commit)?;
        options.hit("workspace.begin.after_ref");
        Ok(Snapshot { commit, tree })
    }

    /// Whether the commit of an earlier snapshot is in the repository, and is one that this run would make.
    fn is_snapshot(&self, earlier: &Snapshot, parents: &[ObjectId]) -> bool {
        let objects = StoredObjects::of(&self.project.repository(), &self.spaces.packs);
        let stored = objects.and_then(|objects| objects.read(&earlier.commit));
        stored.is_some_and(|(kind, content)| {
            kind == ObjectType::Commit && object::is_commit_of(&content, &earlier.tree, parents, SNAPSHOT)
        })
    }

    /// Stores the manifest for the run's workspaces and for the project's next run.
    fn keep(&self, run_dir: &Path, manifest: &Manifest) -> Result<(), RepositoryError> {
        let path = run_dir.join("manifest");
        manifest.save(&path)?;
        let next = disk::temporary(&self.project.manifest());
        let linked =
            std::fs::hard_link(&path, &next).and_then(|()| std::fs::rename(&next, self.project.manifest()));
        linked.map_err(disk::failed("keeping", &path))
    }

    fn notes(&self, walked: &ScanResult) -> Vec<String> {
        let mut notes = walked.notes.lines();
        notes.extend(self.above.note());
        notes
    }
}

/// Merges git's index and the earlier scan of a user's folder. Both are sorted.
fn known(tracked: Vec<TrackedFile>, seen: Vec<Entry>) -> Vec<KnownFile> {
    let mut known: Vec<KnownFile> = Vec::with_capacity(tracked.len().max(seen.len()));
    let mut seen = seen.into_iter().filter(|entry| entry.stat.is_some()).peekable();
    for TrackedFile { path, mode, oid, skipped, settled, stat } in tracked {
        while let Some(entry) = seen.next_if(|entry| entry.path < path) {
            known.extend(only_seen(entry));
        }
        let seen = seen.next_if(|entry| entry.path == path).and_then(|entry| seen_of(&entry));
        let indexed = stat.filter(|_| settled);
        known.push(KnownFile { path, mode, oid, tracked: true, skipped, indexed, seen });
    }
    known.extend(seen.filter_map(only_seen));
    known
}

fn seen_of(entry: &Entry) -> Option<EarlierScan> {
    entry.stat.map(|stat| EarlierScan { stat, oid: entry.oid, raw: entry.raw })
}

fn only_seen(entry: Entry) -> Option<KnownFile> {
    let seen = seen_of(&entry)?;
    let Entry { path, mode, oid, .. } = entry;
    Some(KnownFile { path, mode, oid, tracked: false, skipped: false, indexed: None, seen: Some(seen) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_unchanged_folder_begins_with_the_commit_of_its_last_snapshot() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join("a"), "one").expect("written");
        let files = LocalFiles::new(&dir.path().join("state"), WorkspaceOptions::default());
        let first = files.begin("run1", &folder).expect("begun").snapshot;
        // The snapshot as if it had been taken long ago.
        let project = Project::of(&files.state, &folder.canonicalize().expect("a path"));
        let pack = PackWriter::new(&project.repository()).known_to(&files.packs);
        let content = object::encode_commit(&first.tree, &[], 1, SNAPSHOT);
        let earlier = object::name(ObjectType::Commit, &content);
        pack.add(ObjectType::Commit, earlier, &content).expect("added");
        pack.finish().expect("finished");
        let mut manifest = Manifest::load(&project.manifest()).expect("a manifest");
        manifest.commit = earlier;
        manifest.save(&project.manifest()).expect("saved");
        assert_eq!(files.begin("run2", &folder).expect("begun").snapshot.commit, earlier);

        fs::write(folder.join("a"), "another").expect("written");
        let changed = files.begin("run3", &folder).expect("begun").snapshot;
        assert!(changed.commit != earlier && changed.tree != first.tree);
        // A commit that was removed with its run is not named again.
        manifest.commit = object::name(ObjectType::Commit, b"removed");
        manifest.save(&project.manifest()).expect("saved");
        fs::write(folder.join("a"), "one").expect("written");
        let anew = files.begin("run4", &folder).expect("begun").snapshot;
        assert_eq!((anew.tree, anew.commit == manifest.commit), (first.tree, false));
    }
}
