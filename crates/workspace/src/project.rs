//! Manages the bare repository that Posse keeps for each project beneath its state directory.
//!
//! Posse creates it by writing its few files. The objects of the user's repository are hard-linked into it (or copied),
//! so that the user's `git gc` cannot remove objects that a run needs. A linked object is one file with two names: git
//! here may update its time, which only delays its pruning in the user's repository. A folder that is not the top of a
//! repository has the same repository without borrowed objects. A folder *inside* a repository is treated as a separate
//! folder, and nothing outside it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::git_dir::{ALTERNATES_MAX_BYTES, GitDir, odd};
use super::manifest::now_ns;
use super::user::UserSettings;
use super::user_repository::UserRepository;
use super::{Git, Lock, ObjectId, RepositoryError, disk};

const KEY_CHARS: usize = 16;
/// Limit of nested alternates. Git itself stops at five.
const MAX_ALTERNATES: usize = 5;
/// A directory that changed this recently may change again within the resolution of its time.
const SETTLING_NS: i128 = 2_000_000_000;
/// Younger objects may not have reached the disk: git does not sync loose objects.
const FRESH_NS: i128 = 120_000_000_000;
/// More fresh objects than this are synced all at once.
const MAX_SINGLE_SYNCS: usize = 32;
/// Largest file that is copied where a link is impossible: a sparse file could fill any disk.
const MAX_COPIED_BYTES: u64 = 64 * 1024 * 1024 * 1024;
/// The directory of loose objects before which the fault point is.
const MIDDLE_BYTE: u8 = 0x80;
/// How often packs are listed that are replaced meanwhile.
const PACK_LISTINGS_MAX: usize = 5;
/// How many refs can be changed at once.
const REF_LOCKS: u8 = 64;
/// The borrowed parts of a pack. The index is last, because git finds packs by it.
const PACK_PARTS: &[&str] = &["pack", "rev", "promisor", "idx"];

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\tlogAllRefUpdates = false\n[gc]\n\tauto = 0\n";
/// Attributes run no filter and change no content except line endings.
const ATTRIBUTES: &str = "* -filter -ident -working-tree-encoding\n";

/// A project: a user's folder, and the repository that Posse keeps for it.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    dir: PathBuf,
}

impl Project {
    /// The project of a folder, whose path is canonical.
    pub(crate) fn of(state: &Path, folder: &Path) -> Self {
        let hash = blake3::hash(folder.as_os_str().as_bytes()).to_hex();
        Self::with_key(state, &hash[..KEY_CHARS])
    }

    pub(crate) fn with_key(state: &Path, key: &str) -> Self {
        Self { dir: state.join("projects").join(key) }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn key(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.dir.join("repo.git")
    }

    /// The file with the manifest of the folder's last scan.
    pub(crate) fn manifest(&self) -> PathBuf {
        self.dir.join("manifest")
    }

    pub(crate) fn git(&self, program: &Path) -> Git {
        Git::at(program, &self.repository())
    }

    /// Waits until no other process changes the repository.
    pub(crate) fn lock(&self) -> Result<Lock, RepositoryError> {
        Lock::wait(&self.dir.join("lock"))
    }

    /// Waits until no other process or thread changes a ref. Agents that end at the same time change different refs, and
    /// each change waits for the disk, so there is more than one lock.
    pub(crate) fn lock_ref(&self, name: &str) -> Result<Lock, RepositoryError> {
        self.lock_number(ref_lock_of(name))
    }

    /// Waits for the locks of several refs. Always in the same order, so that two who wait do not wait for each other.
    pub(crate) fn lock_refs<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Lock>, RepositoryError> {
        let numbers: BTreeSet<u8> = names.into_iter().map(ref_lock_of).collect();
        numbers.into_iter().map(|number| self.lock_number(number)).collect()
    }

    fn lock_number(&self, number: u8) -> Result<Lock, RepositoryError> {
        let dir = self.dir.join("ref-locks");
        disk::make_dirs(&dir)?;
        Lock::wait(&dir.join(format!("{number:02}")))
    }

    /// Creates the repository if it does not exist.
    pub(crate) fn ensure(&self, folder: &Path) -> Result<(), RepositoryError> {
        let repository = self.repository();
        if repository.join("HEAD").is_file() {
            return Ok(());
        }
        disk::make_dirs(&self.dir)?;
        let _lock = self.lock()?;
        for dir in ["objects/pack", "objects/info", "refs/heads", "refs/posse", "info"] {
            disk::make_dirs(&repository.join(dir))?;
        }
        disk::write_durably(&self.dir.join("folder"), folder.as_os_str().as_bytes())?;
        disk::write_durably(&repository.join("config"), CONFIG.as_bytes())?;
        disk::write_durably(&repository.join("info/attributes"), ATTRIBUTES.as_bytes())?;
        // Last, because this file makes the directory a repository.
        disk::write_durably(&repository.join("HEAD"), b"ref: refs/heads/none\n")
    }

    /// Links the objects of the user's repository. The caller holds the lock.
    pub(crate) fn borrow(
        &self,
        _held: &Lock,
        user_repository: &UserRepository,
        hit: &dyn Fn(&'static str),
    ) -> Result<(), RepositoryError> {
        let record = self.dir.join("borrowed.json");
        let known = disk::read_if_there(&record)?.unwrap_or_default();
        let known: BTreeMap<String, i64> = serde_json::from_slice(&known).unwrap_or_default();
        let mut borrowing = ObjectBorrower {
            into: self.repository().join("objects"),
            known: &known,
            seen: BTreeMap::new(),
            changed: Vec::new(),
            fresh: Vec::new(),
            vanished: false,
            hit,
        };
        let own = user_repository.common.dir("objects")?;
        let own = own.ok_or_else(|| {
            RepositoryError::Unsupported(format!(
                "{} has no objects",
                user_repository.common.path().display()
            ))
        })?;
        borrowing.objects(&own)?;
        for other in alternates(own, &user_repository.user)?.into_iter().skip(1) {
            borrowing.objects(&other)?;
        }
        borrowing.sync()?;
        let seen = std::mem::take(&mut borrowing.seen);
        if seen != known {
            disk::write_cache(&record, &serde_json::to_vec(&seen).unwrap_or_default())?;
        }
        self.shallow(user_repository)
    }

    /// Copies the list of commits at which a shallow clone ends.
    fn shallow(&self, user_repository: &UserRepository) -> Result<(), RepositoryError> {
        let lines = |oids: Vec<ObjectId>| {
            oids.iter().flat_map(|oid| format!("{oid}\n").into_bytes()).collect::<Vec<u8>>()
        };
        let theirs = user_repository.shallow()?.map(lines);
        let path = self.repository().join("shallow");
        let ours = disk::read_if_there(&path)?;
        match theirs {
            theirs if theirs == ours => Ok(()),
            Some(theirs) => disk::write_durably(&path, &theirs),
            // The user has fetched the whole history, and its objects are borrowed too.
            None => fs::remove_file(&path).map_err(disk::failed("removing", &path)),
        }
    }
}

/// The number of the lock for a ref.
fn ref_lock_of(name: &str) -> u8 {
    blake3::hash(name.as_bytes()).as_bytes()[0] % REF_LOCKS
}

/// The directories of objects of a repository: its own, and its alternates. An alternate outside the repository must be
/// trusted by the user's settings, because the repository's author could name any path.
pub(super) fn alternates(own: GitDir, user: &UserSettings) -> Result<Vec<GitDir>, RepositoryError> {
    let top = own.path().parent().unwrap_or_else(|| own.path()).to_owned();
    let mut dirs = vec![own];
    let mut next = 0;
    while let Some(dir) = dirs.get(next) {
        next += 1;
        let listed = dir.read("info/alternates", ALTERNATES_MAX_BYTES)?.unwrap_or_default();
        let lines =
            listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        let named: Vec<PathBuf> = lines.map(|line| dir.path().join(OsStr::from_bytes(line))).collect();
        for path in named {
            // An alternate that does not exist is skipped.
            let Ok(path) = path.canonicalize() else { continue };
            let repository = path.parent().unwrap_or(&path);
            if !path.starts_with(&top) && !user.trusts(repository) {
                return Err(RepositoryError::Unsupported(format!(
                    "{} borrows objects from {}, another repository; `git repack -a -d` and removing \
                     objects/info/alternates makes it complete, or trust the other one with `git config --global --add \
                     safe.directory {}`",
                    top.display(),
                    path.display(),
                    repository.display()
                )));
            }
            if dirs.iter().all(|known| known.path() != path) {
                if dirs.len() > MAX_ALTERNATES {
                    return Err(RepositoryError::Unsupported(format!(
                        "{} borrows objects from more than {MAX_ALTERNATES} repositories",
                        top.display()
                    )));
                }
                dirs.extend(GitDir::open(&path)?);
            }
        }
    }
    Ok(dirs)
}

/// Borrows objects directory by directory. Directories that did not change since the last time are skipped.
struct ObjectBorrower<'a> {
    into: PathBuf,
    known: &'a BTreeMap<String, i64>,
    seen: BTreeMap<String, i64>,
    /// Posse's directories with new names in them.
    changed: Vec<PathBuf>,
    /// Files that may not have reached the disk.
    fresh: Vec<PathBuf>,
    /// Whether a listed file was gone when it was to be borrowed.
    vanished: bool,
    hit: &'a dyn Fn(&'static str),
}

impl ObjectBorrower<'_> {
    /// The user's `git gc` may run meanwhile. It writes a pack before it removes what is in the pack, so the packs come
    /// last, and again as long as one of them is replaced.
    fn objects(&mut self, from: &GitDir) -> Result<(), RepositoryError> {
        for first in 0..=u8::MAX {
            if first == MIDDLE_BYTE {
                (self.hit)("workspace.begin.between_objects");
            }
            self.directory(from, &format!("{first:02x}"))?;
        }
        for _ in 0..PACK_LISTINGS_MAX {
            self.vanished = false;
            self.directory(from, "pack")?;
            if !self.vanished {
                return Ok(());
            }
        }
        Err(RepositoryError::Unsupported(format!(
            "git keeps repacking {}; try again later",
            from.path().display()
        )))
    }

    fn directory(&mut self, above: &GitDir, name: &str) -> Result<(), RepositoryError> {
        let Some(stat) = above.stat(name)? else { return Ok(()) };
        let key = above.path().join(name).to_string_lossy().into_owned();
        let changed_ns = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(mtime_ns(&stat));
        let settled = i128::from(changed_ns) + SETTLING_NS < now_ns();
        if settled {
            self.seen.insert(key.clone(), changed_ns);
        }
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_dir && self.known.get(&key) == Some(&changed_ns) {
            return Ok(());
        }
        let Some(from) = above.dir(name)? else { return Ok(()) };
        let mut names = from.entries()?;
        if name == "pack" {
            names.retain(|(name, _)| name.as_bytes().starts_with(b"pack-") && pack_part(name).is_some());
            names.sort_by_key(|(name, _)| pack_part(name));
        } else {
            names.retain(|(name, _)| name.len() == 38 && name.as_bytes().iter().all(u8::is_ascii_hexdigit));
        }
        let into = self.into.join(name);
        if !names.is_empty() {
            disk::make_dirs(&into)?;
        }
        let mut any = false;
        for (name, kind) in names {
            if kind != FileType::RegularFile {
                return Err(odd(&from.path().join(&name)));
            }
            any |= self.file(&from, &name, &into.join(&name))?;
        }
        self.changed.extend(any.then_some(into));
        Ok(())
    }

    /// Links one file and returns whether it was new.
    fn file(&mut self, from: &GitDir, name: &OsString, to: &Path) -> Result<bool, RepositoryError> {
        if fs::symlink_metadata(to).is_ok() {
            return Ok(false);
        }
        let next = disk::temporary(to);
        if !from.link(name, &next)? && !copied(from, name, &next)? {
            self.vanished = true;
            return Ok(false);
        }
        fs::rename(&next, to).map_err(disk::failed("borrowing", to))?;
        let fresh = fs::metadata(to).is_ok_and(|metadata| {
            let changed_ns = i128::from(metadata.mtime()) * 1_000_000_000;
            changed_ns + FRESH_NS > now_ns()
        });
        if fresh {
            self.fresh.push(to.to_owned());
        }
        Ok(true)
    }

    fn sync(&self) -> Result<(), RepositoryError> {
        if self.fresh.len() > MAX_SINGLE_SYNCS {
            let dir = fs::File::open(&self.into).map_err(disk::failed("opening", &self.into))?;
            rustix::fs::syncfs(&dir)
                .map_err(|error| RepositoryError::io("syncing", &self.into, &error.into()))?;
        } else {
            for path in &self.fresh {
                fs::File::open(path)
                    .and_then(|file| file.sync_all())
                    .map_err(disk::failed("syncing", path))?;
            }
        }
        self.changed.iter().try_for_each(|dir| disk::sync_dir(dir))
    }
}

/// The position of a file among [`PACK_PARTS`]; `None` for any other file.
pub(super) fn pack_part(name: &OsStr) -> Option<usize> {
    let part = Path::new(name).extension().unwrap_or_default();
    PACK_PARTS.iter().position(|known| part == *known)
}

fn mtime_ns(stat: &rustix::fs::Stat) -> i64 {
    i64::try_from(stat.st_mtime_nsec).unwrap_or_default()
}

/// Copies an object from another filesystem, or of another owner. An object that was removed meanwhile is in a pack by
/// now, or not needed.
fn copied(from: &GitDir, name: &OsString, to: &Path) -> Result<bool, RepositoryError> {
    let failed = disk::failed("borrowing", to);
    if from.lstat(name).is_err() {
        return Ok(false);
    }
    let mut file = from.file(name)?;
    let length = file.metadata().map_err(&failed)?.len();
    if length > MAX_COPIED_BYTES {
        return Err(RepositoryError::Unsupported(format!(
            "{} has {length} bytes, more than the {MAX_COPIED_BYTES} that Posse copies",
            from.path().join(name).display()
        )));
    }
    let mut copy = disk::create_new(to)?;
    io::copy(&mut file, &mut copy).and_then(|_| copy.sync_all()).map_err(&failed)?;
    Ok(true)
}
