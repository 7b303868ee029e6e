//! Reads the refs of a user's repository and creates the branch of a published result. Git never runs there; it reads
//! and writes reftables in a copy.

use std::ffi::OsStr;
use std::path::Path;

use rustix::fs::FileType;

use super::git_dir::{GitDir, PACKED_REFS_MAX_BYTES};
use super::project::Project;
use super::tables::Tables;
use super::unnamed_file::FileLifetime;
use super::user_repository::{SYMBOLIC, UserRepository};
use super::{ObjectId, RepositoryError, disk};

/// Deepest nesting of refs that is read.
const MAX_DEPTH: usize = 32;
/// Limit of refs that are read. Objects that only further refs reach may be transferred although they exist.
const MAX_TIPS: usize = 50_000;

impl UserRepository {
    /// The objects that the repository's refs name. Unreadable refs are skipped.
    pub(super) fn tips(
        &self,
        folder: &Path,
        project: &Project,
        program: &Path,
    ) -> Result<Vec<ObjectId>, RepositoryError> {
        let mut tips: Vec<ObjectId> = self.head_commit(folder, project, program)?.into_iter().collect();
        if self.has_tables() {
            tips.extend(Tables::of(self, folder, project, program)?.tips(MAX_TIPS)?);
            return Ok(tips);
        }
        if let Some(refs) = self.common.dir("refs")? {
            loose(refs, &mut tips);
        }
        let packed = self.common.read("packed-refs", PACKED_REFS_MAX_BYTES)?.unwrap_or_default();
        let lines = packed.split(|byte| *byte == b'\n');
        let named = lines.filter_map(|line| line.split(|byte| *byte == b' ').next().and_then(named));
        tips.extend(named.take(MAX_TIPS.saturating_sub(tips.len())));
        Ok(tips)
    }

    /// Creates a branch at `commit`, unless it exists there. An existing branch at another commit is not changed, which
    /// is an error.
    pub(super) fn make_branch(
        &self,
        branch: &Branch<'_>,
        folder: &Path,
        project: &Project,
        program: &Path,
    ) -> Result<(), RepositoryError> {
        if self.has_tables() {
            return Tables::of(self, folder, project, program)?.make(branch, folder);
        }
        if self.has_branch(branch)? {
            return Ok(());
        }
        let refs = self.common.made_dir("refs")?;
        let mut dir = refs.made_dir("heads")?;
        let (above, last) = branch.name.rsplit_once('/').unwrap_or(("", branch.name));
        for part in above.split('/').filter(|part| !part.is_empty()) {
            dir = dir.made_dir(part)?;
        }
        let lock = format!("{last}{}", disk::NO_REF);
        if dir.stat(&lock)?.is_some() {
            return Err(locked(&dir, &lock));
        }
        dir.remove_empty(last)?;
        let content = format!("{}\n", branch.commit);
        let waiting = dir.write_waiting(last, &mut content.as_bytes(), FileLifetime::Changing)?;
        if waiting.named_new(last)? || self.has_branch(branch)? {
            return Ok(());
        }
        Err(branch.in_the_way(&format!("the directory {}", dir.path().join(last).display())))
    }

    /// Whether the branch exists at its commit. An error if it is at another commit, or if its name conflicts with
    /// another branch.
    pub(super) fn has_branch(&self, branch: &Branch<'_>) -> Result<bool, RepositoryError> {
        if self.has_tables() {
            return Ok(false);
        }
        for (end, _) in branch.name.match_indices('/') {
            if self.read_ref(&format!("refs/heads/{}", &branch.name[..end]))?.is_some() {
                return Err(branch.in_the_way(&format!("the branch {}", &branch.name[..end])));
            }
        }
        let Some(text) = self.read_ref(&branch.full_name())? else {
            let beneath = format!("{}/", branch.full_name());
            if self.packed_beneath(&beneath)? {
                return Err(branch.in_the_way(&format!("a branch that begins with {}/", branch.name)));
            }
            return Ok(false);
        };
        match named(text.trim_ascii_end()) {
            Some(there) if there == branch.commit => Ok(true),
            there => Err(branch.taken(there)),
        }
    }
}

impl UserRepository {
    /// Whether a packed ref has this prefix.
    fn packed_beneath(&self, beneath: &str) -> Result<bool, RepositoryError> {
        let packed = self.common.read("packed-refs", PACKED_REFS_MAX_BYTES)?.unwrap_or_default();
        let mut names = packed.split(|byte| *byte == b'\n').filter_map(|line| {
            let space = line.iter().position(|byte| *byte == b' ')?;
            line.get(space + 1..)
        });
        Ok(names.any(|name| name.starts_with(beneath.as_bytes())))
    }
}

/// A branch to create.
pub(super) struct Branch<'a> {
    /// Without `refs/heads/`.
    pub(super) name: &'a str,
    pub(super) commit: ObjectId,
    /// Posse's repository, which has the commit in any case.
    pub(super) kept_in: &'a Path,
}

impl Branch<'_> {
    pub(super) fn full_name(&self) -> String {
        format!("refs/heads/{}", self.name)
    }

    /// The error for a branch that exists at another commit.
    pub(super) fn taken(&self, there: Option<ObjectId>) -> RepositoryError {
        let Self { name, commit, kept_in } = self;
        let at = there.map_or_else(|| "something that is no commit".to_owned(), |there| there.to_string());
        RepositoryError::Unsupported(format!(
            "there is a branch {name} at {at} already, which this run did not make; rename it with `git branch -m \
             {name} NEW` and try again (the result is commit {commit} in {})",
            kept_in.display()
        ))
    }

    fn in_the_way(&self, what: &str) -> RepositoryError {
        let Self { name, commit, kept_in } = self;
        RepositoryError::Unsupported(format!(
            "{what} is in the way of the branch {name}; rename or remove it and try again (the result is commit {commit} \
             in {})",
            kept_in.display()
        ))
    }
}

/// The error for refs that another program is changing.
pub(super) fn locked(dir: &GitDir, name: &str) -> RepositoryError {
    RepositoryError::Unsupported(format!(
        "{} exists: a git process is changing the same refs, or was killed meanwhile; if no git is running, remove the file \
         and try again",
        dir.path().join(name).display()
    ))
}

/// Collects the objects that the refs beneath a directory name.
fn loose(refs: GitDir, tips: &mut Vec<ObjectId>) {
    let mut dirs = vec![(refs, 0)];
    while let Some((dir, depth)) = dirs.pop() {
        for (name, kind) in dir.entries().unwrap_or_default() {
            let Some(name) = name.to_str() else { continue };
            if tips.len() >= MAX_TIPS {
                return;
            }
            match kind {
                FileType::Directory if depth < MAX_DEPTH => {
                    dirs.extend(dir.dir(name).ok().flatten().map(|dir| (dir, depth + 1)));
                }
                FileType::RegularFile if !is_lock(name) => {
                    let text = dir.read_ref(name).ok().flatten().unwrap_or_default();
                    tips.extend(named(text.trim_ascii_end()));
                }
                _ => {}
            }
        }
    }
}

fn is_lock(name: &str) -> bool {
    Path::new(name).extension() == Some(OsStr::new(disk::NO_REF.trim_start_matches('.')))
}

/// The object that a ref names; `None` for a symbolic or an invalid ref.
fn named(text: &[u8]) -> Option<ObjectId> {
    if text.starts_with(SYMBOLIC.as_bytes()) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
