//! The beginning of a run: a snapshot of the person's folder.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::content::{self, ContentWriter};
use super::copies::{CopiedFile, Copies, CopyPatterns};
use super::enclosing::{self, EnclosingRepository, refuse_bare};
use super::ignored::only_patterns;
use super::index::{self, Index, TrackedFile};
use super::manifest::{Entry, Manifest, Stat};
use super::object::{self, Mode, ObjectType};
use super::objects::Present;
use super::pack::PackWriter;
use super::project::Project;
use super::refs::{Refs, base_ref, check_id};
use super::scan::{self, EarlierScan, KnownFile, Request, ScanResult};
use super::user_repository::{Head, Person};
use super::{Oid, RunSpace, Snapshot, WorkspaceError, WorkspaceOptions, disk};

/// Workspaces beneath one state directory. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Workspaces {
    pub(super) state: Arc<Path>,
    pub(super) options: Arc<WorkspaceOptions>,
}

/// What a run begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunBase {
    /// The person's folder as it was.
    pub snapshot: Snapshot,
    /// The commit that is checked out there; none without one.
    pub head: Option<Oid>,
    /// Whether the folder differs from that commit.
    pub dirty: bool,
    /// What the person should know about the snapshot.
    pub notes: Vec<String>,
}

/// Where a run's project is, and what it began with: `project.json` of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// The person's folder.
    pub(super) folder: PathBuf,
    /// The project's directory.
    pub(super) project: String,
    /// Whether the folder is the top of a repository.
    pub(super) is_repository: bool,
    pub(super) head: Option<String>,
    pub(super) commit: String,
    pub(super) tree: String,
    pub(super) dirty: bool,
    pub(super) notes: Vec<String>,
    pub(super) copies: Vec<CopiedFile>,
    /// The patterns above all `.gitignore` files.
    pub(super) excludes: String,
}

impl Workspaces {
    /// Workspaces beneath `state`.
    pub fn new(state: &Path, options: WorkspaceOptions) -> Self {
        // Git runs in directories of its own, where a relative path would lead elsewhere.
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
        Self { state: state.into(), options: Arc::new(options) }
    }

    /// Begins a run: a snapshot of the person's folder, durable when this returns. Nothing in the folder is changed. A
    /// run that has begun already is given as it began.
    pub fn begin(&self, run: &str, dir: &Path) -> Result<RunBase, WorkspaceError> {
        check_id(run)?;
        if let Some(record) = self.record(run)? {
            return begun(&record, run);
        }
        let folder = dir.canonicalize().map_err(disk::failed("opening", dir))?;
        let project = Project::of(&self.state, &folder);
        refuse_bare(&folder)?;
        project.ensure(&folder)?;
        let (program, home) = (&self.options.git, self.options.home.as_deref());
        let person = Person::find(&folder, program, home)?;
        let above = if person.is_some() {
            EnclosingRepository::Nothing
        } else {
            EnclosingRepository::of(&folder, &project, &self.options)?
        };
        let beginning = RunPreparation { spaces: self, run, folder: &folder, project, person, above };
        let record = beginning.begin()?;
        begun(&record, run)
    }

    /// A run that has begun.
    pub fn open(&self, run: &str) -> Result<RunSpace, WorkspaceError> {
        check_id(run)?;
        let record = self.record(run)?.ok_or_else(|| {
            WorkspaceError::Damaged(format!("run {run} has no project.json beneath {}", self.state.display()))
        })?;
        RunSpace::new(self.clone(), run, record)
    }

    pub(super) fn run_dir(&self, run: &str) -> PathBuf {
        self.state.join("runs").join(run)
    }

    fn record(&self, run: &str) -> Result<Option<Record>, WorkspaceError> {
        let path = self.run_dir(run).join("project.json");
        let Some(text) = disk::read_if_there(&path)? else { return Ok(None) };
        let record = serde_json::from_slice(&text);
        record
            .map(Some)
            .map_err(|error| WorkspaceError::Damaged(format!("{} cannot be read: {error}", path.display())))
    }
}

fn begun(record: &Record, run: &str) -> Result<RunBase, WorkspaceError> {
    let oid = |text: &String| {
        text.parse()
            .map_err(|_| WorkspaceError::Damaged(format!("project.json of run {run} names no object")))
    };
    Ok(RunBase {
        snapshot: Snapshot { commit: oid(&record.commit)?, tree: oid(&record.tree)? },
        head: record.head.as_ref().map(oid).transpose()?,
        dirty: record.dirty,
        notes: record.notes.clone(),
    })
}

/// What was known of a folder before it was looked at, and what was found.
type FolderScan = (Vec<KnownFile>, ScanResult);

struct RunPreparation<'a> {
    spaces: &'a Workspaces,
    run: &'a str,
    folder: &'a Path,
    project: Project,
    person: Option<Person>,
    above: EnclosingRepository,
}

impl RunPreparation<'_> {
    fn begin(&self) -> Result<Record, WorkspaceError> {
        let run_dir = self.spaces.run_dir(self.run);
        disk::make_dirs(&run_dir)?;
        let wanted = CopyPatterns::new(&self.spaces.options.copy)?;
        let excludes = self.person.as_ref().map_or(Ok(Vec::new()), Person::excludes)?;
        let (head, (known, mut walked)) = self.head_and_scan(&wanted, &excludes)?;
        let excludes = match &self.above {
            EnclosingRepository::Part { .. } => enclosing::patterns_of(&walked.ignored, self.folder)?,
            _ => excludes.iter().flat_map(|text| only_patterns(text)).collect(),
        };
        let root = scan::open_root(self.folder)?;
        let copies = Copies::take(&root, &walked.copies, &run_dir.join("copies"))?;
        let repository = self.project.repository();
        let pack = PackWriter::new(&repository);
        let present = Present::of(&repository)?;
        let entries = self.entries(&known, &mut walked, &root, &copies, &present, &pack)?;
        let trees = content::trees(&entries);
        let snapshot = self.write(head.as_ref(), &trees, &present, pack)?;
        let sparse = entries.iter().filter(|entry| entry.stat.is_none() && entry.mode != Mode::Gitlink);
        let sparse: Vec<&[u8]> = sparse.map(|entry| entry.path.as_slice()).collect();
        let sparse_path = run_dir.join("sparse");
        // One that is there is from a beginning that was cut off.
        if !sparse.is_empty() || sparse_path.exists() {
            disk::write_durably(&sparse_path, &sparse.join(&0))?;
        }
        let Snapshot { commit, tree } = snapshot;
        self.keep(&run_dir, &Manifest { entries, looked_ns: walked.looked_ns, commit, tree })?;
        let record = Record {
            folder: self.folder.to_owned(),
            project: self.project.key(),
            is_repository: self.person.is_some(),
            head: head.map(|head| head.commit.to_string()),
            commit: commit.to_string(),
            tree: tree.to_string(),
            dirty: head.map_or(tree != object::name(ObjectType::Tree, b""), |head| head.tree != tree),
            notes: self.notes(&walked),
            copies: copies.files,
            excludes: String::from_utf8_lossy(&excludes).into_owned(),
        };
        let text = serde_json::to_vec_pretty(&record).map_err(|error| {
            WorkspaceError::Unsupported(format!("{} cannot be written down: {error}", self.folder.display()))
        })?;
        disk::write_durably(&run_dir.join("project.json"), &text)?;
        Ok(record)
    }

    /// Where the person's repository stands, and what is in the folder. Neither needs the other but for an index that git
    /// reads, and git takes a while to start.
    fn head_and_scan(
        &self,
        wanted: &CopyPatterns,
        excludes: &[Vec<u8>],
    ) -> Result<(Option<Head>, FolderScan), WorkspaceError> {
        let Some(person) = &self.person else {
            return Ok((None, self.scan(wanted, excludes, self.above.tracked(), 0)?));
        };
        // Before it is read: a later change of it only makes it look older.
        let indexed_ns = person.git_dir.stat(index::NAME)?.map_or(0, |stat| Stat::of(&stat).mtime_ns);
        match index::read(&person.git_dir)? {
            Index::Read(tracked) => {
                let (head, scanned) = std::thread::scope(|scope| {
                    let head = scope.spawn(|| self.head(person));
                    let scanned = self.scan(wanted, excludes, tracked, indexed_ns);
                    (head.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), scanned)
                });
                Ok((head?, scanned?))
            }
            Index::Odd(bytes) => {
                let head = self.head(person)?;
                let (project, program) = (&self.project, &self.spaces.options.git);
                let tracked = index::read_odd(&person.git_dir, &bytes, project, program, self.folder)?;
                Ok((head, self.scan(wanted, excludes, tracked, indexed_ns)?))
            }
        }
    }

    /// Where the person's repository stands; its objects are borrowed then.
    fn head(&self, person: &Person) -> Result<Option<Head>, WorkspaceError> {
        let program = &self.spaces.options.git;
        let commit = person.head_commit(self.folder, &self.project, program)?;
        self.project.borrow(&self.project.lock()?, person)?;
        let head = |commit: Oid| Person::head_of(&self.project.git(program), &commit, self.folder);
        commit.map(head).transpose()
    }

    fn scan(
        &self,
        wanted: &CopyPatterns,
        excludes: &[Vec<u8>],
        tracked: Vec<TrackedFile>,
        indexed_ns: i128,
    ) -> Result<FolderScan, WorkspaceError> {
        let seen = Manifest::load(&self.project.manifest());
        let seen_ns = seen.as_ref().map_or(0, |seen| seen.looked_ns);
        let known = known(tracked, seen.map_or_else(Vec::new, |seen| seen.entries));
        let state = std::fs::metadata(&self.spaces.state).ok().map(|state| (state.dev(), state.ino()));
        let is_part = matches!(self.above, EnclosingRepository::Part { .. });
        let request = Request {
            folder: self.folder,
            known: &known,
            indexed_ns,
            seen_ns,
            ignored: excludes.iter().fold(self.above.ignored(), |ignored, text| ignored.with(text, 0)),
            executable_counts: self.person.as_ref().is_none_or(Person::executable_counts),
            persons: true,
            everything: false,
            name_ignored: if is_part { enclosing::MAX_IGNORED } else { 0 },
            state,
            never: &HashSet::new(),
            wanted,
            max_files: self.spaces.options.max_files,
        };
        let walked = scan::scan(&request)?;
        Ok((known, walked))
    }

    fn entries(
        &self,
        known: &[KnownFile],
        walked: &mut ScanResult,
        root: &std::os::fd::OwnedFd,
        copies: &Copies,
        present: &Present,
        pack: &PackWriter,
    ) -> Result<Vec<Entry>, WorkspaceError> {
        let settings = self.person.as_ref().map(Person::line_endings).unwrap_or_default();
        let converting = walked.converting || !settings.is_empty();
        let convert = self.person.as_ref().filter(|_| converting).map(|person| {
            let git = self.project.git(&self.spaces.options.git);
            let index = person.git_dir.path().join(index::NAME);
            git.with_work_tree(self.folder).with_index(&index).with_settings(settings)
        });
        if let Some(odd) = walked.odd_attributes.take().filter(|_| convert.is_some()) {
            return Err(WorkspaceError::Unsupported(format!(
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
        writing.entries(walked)
    }

    /// Makes the snapshot part of the repository: the commit that is checked out if nothing differs, else a new one.
    fn write(
        &self,
        head: Option<&Head>,
        trees: &[content::NewTree],
        present: &Present,
        pack: PackWriter,
    ) -> Result<Snapshot, WorkspaceError> {
        let tree = trees.last().map_or(Oid::ZERO, |(oid, _)| *oid);
        let commit = match head {
            Some(head) if head.tree == tree => head.commit,
            _ => {
                content::add_trees(trees, present, &pack)?;
                let parents: Vec<Oid> = head.iter().map(|head| head.commit).collect();
                super::add_commit(&pack, &tree, &parents, "posse: snapshot")?
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

    /// Keeps the manifest for the run's workspaces and for the project's next run.
    fn keep(&self, run_dir: &Path, manifest: &Manifest) -> Result<(), WorkspaceError> {
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

/// What is known of a person's folder: git's index, and the earlier scan. Both are sorted.
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
