//! Reads a user's repository for snapshots and publishing. It is never written, except for the branch of a result, and
//! never by git.
//!
//! The content of its `.git` came with the project. [`GitDir`] reads it, not git. A path outside the repository is only
//! followed if that repository, or the user's own settings, confirm it.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::git_dir::{
    CONFIG_MAX_BYTES, GitDir, PACKED_REFS_MAX_BYTES, POINTER_MAX_BYTES, SHALLOW_MAX_BYTES, odd, read_at,
};
use super::ignored::MAX_PATTERNS_BYTES;
use super::project::Project;
use super::tables::Tables;
use super::user::UserSettings;
use super::{Git, ObjectId, RepositoryError, names};

const GITDIR: &str = "gitdir:";
pub(super) const SYMBOLIC: &str = "ref:";
/// Limit of nested symbolic refs. Git itself stops at five.
const MAX_SYMBOLIC: usize = 5;
/// Refs that each worktree has for itself.
const OWN_REFS: [&str; 3] = ["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// The repository whose top is a user's folder.
#[derive(Debug)]
pub(crate) struct UserRepository {
    pub(super) git_dir: GitDir,
    /// The directory that the worktrees of one repository share.
    pub(super) common: GitDir,
    /// The settings of the repository itself, without its includes.
    config: HashMap<String, String>,
    pub(super) user: UserSettings,
}

/// The checked-out commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) commit: ObjectId,
    pub(crate) tree: ObjectId,
}

/// What is at the top of a folder.
pub(super) enum TopOfFolder {
    /// No repository.
    Nothing,
    /// A repository of another user that the user has not marked as trusted.
    Foreign(RepositoryError),
    Repository(Box<UserRepository>),
}

impl UserRepository {
    /// The repository at the top of `folder`; `None` if there is none. `home` has the user's own git settings.
    pub(crate) fn find(
        folder: &Path,
        program: &Path,
        home: Option<&Path>,
    ) -> Result<Option<Self>, RepositoryError> {
        let user_repository = match Self::open(folder, program, home)? {
            TopOfFolder::Nothing => return Ok(None),
            TopOfFolder::Foreign(why) => return Err(why),
            TopOfFolder::Repository(user_repository) => *user_repository,
        };
        if user_repository.setting("extensions.objectformat").is_some_and(|format| format != "sha1") {
            return Err(RepositoryError::Unsupported(format!(
                "{} is a repository whose objects are named by SHA-256, which is not supported; work on a clone made \
                 with `git clone` into a repository of `git init --object-format=sha1`",
                folder.display()
            )));
        }
        Ok(Some(user_repository))
    }

    /// Like [`UserRepository::find`], for any object format.
    pub(super) fn open(
        folder: &Path,
        program: &Path,
        home: Option<&Path>,
    ) -> Result<TopOfFolder, RepositoryError> {
        let folder = &folder.canonicalize().map_err(super::disk::failed("opening", folder))?;
        let dot_git = folder.join(".git");
        let Ok(metadata) = std::fs::symlink_metadata(&dot_git) else { return Ok(TopOfFolder::Nothing) };
        let user = UserSettings::read(program, home)?;
        let owners = Owners { user: &user, folder, dot_git: &dot_git };
        // First, because a stranger's file above a folder must not stop a run in it.
        if let Some(why) = owners.foreign(&[folder, &dot_git])? {
            return Ok(TopOfFolder::Foreign(why));
        }
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(odd(&dot_git));
        }
        let git_dir = if metadata.is_dir() { dot_git.clone() } else { pointed_to(&dot_git, folder)? };
        let git_dir = GitDir::open(&git_dir)?.ok_or_else(|| no_repository(folder))?;
        let common = match git_dir.read("commondir", POINTER_MAX_BYTES)? {
            Some(text) => common_of(&git_dir, &text, folder)?,
            None => GitDir::open(git_dir.path())?.ok_or_else(|| no_repository(folder))?,
        };
        if let Some(why) = owners.foreign(&[git_dir.path(), common.path()])? {
            return Ok(TopOfFolder::Foreign(why));
        }
        let config = read_config(program, &git_dir, &common, folder)?.into_iter().collect();
        let user_repository = Self { git_dir, common, config, user };
        user_repository.belongs_to(folder)?;
        Ok(TopOfFolder::Repository(Box::new(user_repository)))
    }

    fn setting(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str).or_else(|| self.user.get(key))
    }

    /// Whether its refs are in tables, which only git reads.
    pub(super) fn has_tables(&self) -> bool {
        self.config.get("extensions.refstorage").is_some_and(|format| format == "reftable")
    }

    /// Refuses a repository elsewhere that does not itself name the folder. Otherwise the folder's author could expose
    /// any repository of the user to an agent.
    fn belongs_to(&self, folder: &Path) -> Result<(), RepositoryError> {
        let (git_dir, common) = (self.git_dir.path(), self.common.path());
        let refused = |which: &Path, how: &str| {
            let (folder, which) = (folder.display(), which.display());
            RepositoryError::Unsupported(format!(
                "{folder}/.git leads to the repository {which}, which does not say that it belongs to {folder}; if it \
                 does, say so with {how}, or with `git config --global --add safe.directory {which}`"
            ))
        };
        let is_worktree =
            || git_dir.parent().is_some_and(|above| above == common.join("worktrees")) && git_dir != common;
        if git_dir != common && !is_worktree() && !self.user.trusts(common) {
            return Err(refused(common, "`git worktree repair`"));
        }
        if git_dir.starts_with(folder) || self.points_back(folder)? || self.user.trusts(git_dir) {
            return Ok(());
        }
        let how = format!("`git --git-dir {} config core.worktree {}`", git_dir.display(), folder.display());
        Err(refused(git_dir, &how))
    }

    /// Whether the repository names the folder, as its worktree or its work tree setting.
    fn points_back(&self, folder: &Path) -> Result<bool, RepositoryError> {
        let git_dir = self.git_dir.path();
        let same = |path: PathBuf| path.canonicalize().is_ok_and(|path| path == folder);
        if let Some(text) = self.git_dir.read("gitdir", POINTER_MAX_BYTES)? {
            let dot_git = git_dir.join(path_of(&text));
            return Ok(
                dot_git.ends_with(".git") && dot_git.parent().is_some_and(|above| same(above.to_owned()))
            );
        }
        Ok(self.config.get("core.worktree").is_some_and(|path| same(git_dir.join(path))))
    }

    /// The commit that `HEAD` names; `None` before the first commit.
    pub(super) fn head_commit(
        &self,
        folder: &Path,
        project: &Project,
        program: &Path,
    ) -> Result<Option<ObjectId>, RepositoryError> {
        if self.has_tables() {
            return Tables::of(self, folder, project, program)?.resolve("HEAD", folder);
        }
        let mut name = "HEAD".to_owned();
        for _ in 0..=MAX_SYMBOLIC {
            let Some(text) = self.read_ref(&name)? else {
                // Before the first commit the branch does not exist, which is not an error.
                return if name == "HEAD" { Err(broken(folder, "there is no HEAD")) } else { Ok(None) };
            };
            let text = text.trim_ascii_end();
            let Some(next) = text.strip_prefix(SYMBOLIC.as_bytes()) else {
                let oid = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
                return oid.map(Some).ok_or_else(|| broken(folder, &format!("{name} names no commit")));
            };
            name = String::from_utf8_lossy(next.trim_ascii_start()).into_owned();
            if !name.starts_with("refs/") || !names::is_plain(name.as_bytes()) {
                return Err(broken(folder, "HEAD names no branch"));
            }
        }
        Err(broken(folder, "HEAD names a ref that names a ref, without end"))
    }

    pub(super) fn read_ref(&self, name: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let is_own = name == "HEAD" || OWN_REFS.iter().any(|own| name.starts_with(own));
        let dir = if is_own { &self.git_dir } else { &self.common };
        if let Some(text) = dir.read_ref(name)? {
            return Ok(Some(text));
        }
        let packed = self.common.read("packed-refs", PACKED_REFS_MAX_BYTES)?.unwrap_or_default();
        let mut lines = packed.split(|byte| *byte == b'\n');
        let line = lines.find_map(|line| line.strip_suffix(name.as_bytes())?.strip_suffix(b" "));
        Ok(line.map(<[u8]>::to_vec))
    }

    /// The commit and its tree, from Posse's repository.
    pub(super) fn head_of(ours: &Git, commit: &ObjectId, folder: &Path) -> Result<Head, RepositoryError> {
        let names = [format!("{commit}^{{commit}}"), format!("{commit}^{{tree}}")];
        let answer = ours.ask(&["rev-parse", &names[0], &names[1]], &[])?;
        let text = String::from_utf8_lossy(&answer.stdout);
        let mut oids = text.lines().map(str::parse);
        match (answer.code, oids.next(), oids.next()) {
            (Some(0), Some(Ok(commit)), Some(Ok(tree))) => Ok(Head { commit, tree }),
            _ => Err(broken(folder, &answer.stderr)),
        }
    }

    /// Whether the executable bit is meaningful.
    pub(crate) fn executable_counts(&self) -> bool {
        self.setting("core.filemode").is_none_or(|value| !is_false(value))
    }

    /// Git's settings for line endings, if they enable a conversion.
    pub(crate) fn line_endings(&self) -> Vec<String> {
        let value = self.setting("core.autocrlf").filter(|value| !is_false(value));
        let known = value.and_then(|value| {
            if value.eq_ignore_ascii_case("input") {
                return Some("input");
            }
            ["true", "yes", "on", "1"].iter().any(|word| value.eq_ignore_ascii_case(word)).then_some("true")
        });
        known.map(|value| format!("core.autocrlf={value}")).into_iter().collect()
    }

    /// The patterns that apply above all `.gitignore` files, in increasing precedence.
    pub(crate) fn excludes(&self) -> Result<Vec<Vec<u8>>, RepositoryError> {
        let own = self.common.read("info/exclude", MAX_PATTERNS_BYTES)?;
        Ok([self.user.excludes()?, own].into_iter().flatten().collect())
    }

    /// The commits at which the history of a shallow clone ends; `None` for a complete one.
    pub(super) fn shallow(&self) -> Result<Option<Vec<ObjectId>>, RepositoryError> {
        let Some(text) = self.common.read("shallow", SHALLOW_MAX_BYTES)? else { return Ok(None) };
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        // Lines that name no commit are ignored.
        Ok(Some(lines.filter_map(|line| line.trim().parse().ok()).collect()))
    }
}

/// Checks who owns the parts of a repository.
struct Owners<'a> {
    user: &'a UserSettings,
    folder: &'a Path,
    dot_git: &'a Path,
}

impl Owners<'_> {
    /// Why a repository is not read: a part of it belongs to another user. Git has the same check.
    fn foreign(&self, paths: &[&Path]) -> Result<Option<RepositoryError>, RepositoryError> {
        let own = rustix::process::geteuid().as_raw();
        for path in paths {
            let metadata = std::fs::symlink_metadata(path);
            let metadata = metadata.map_err(super::disk::failed("looking at", path))?;
            if metadata.uid() != own && !self.user.trusts(self.dot_git) && !self.user.trusts(path) {
                let (path, folder) = (path.display(), self.folder.display());
                return Ok(Some(RepositoryError::Unsupported(format!(
                    "{path} belongs to another user, who could have prepared the repository; if you trust it, say so with \
                     `git config --global --add safe.directory {folder}`"
                ))));
            }
        }
        Ok(None)
    }
}

/// Whether git would accept a directory as a repository.
pub(super) fn is_git_dir(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).is_dir();
    dir.join("HEAD").is_file() && (dir.join("commondir").is_file() || (has("objects") && has("refs")))
}

fn is_false(value: &str) -> bool {
    ["false", "no", "off", "0", ""].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The trimmed text as a path.
fn path_of(text: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii()))
}

/// The repository that a `.git` file points to.
fn pointed_to(dot_git: &Path, folder: &Path) -> Result<PathBuf, RepositoryError> {
    let text = read_at(dot_git, POINTER_MAX_BYTES)?.unwrap_or_default();
    let path = text.strip_prefix(GITDIR.as_bytes()).map(path_of).ok_or_else(|| no_repository(folder))?;
    folder.join(path).canonicalize().map_err(|_| no_repository(folder))
}

fn common_of(git_dir: &GitDir, text: &[u8], folder: &Path) -> Result<GitDir, RepositoryError> {
    let path = git_dir.path().join(path_of(text)).canonicalize().map_err(|_| no_repository(folder))?;
    GitDir::open(&path)?.ok_or_else(|| no_repository(folder))
}

fn no_repository(folder: &Path) -> RepositoryError {
    RepositoryError::Unsupported(format!(
        "{}/.git does not say where the repository is; `git -C {} status` says more",
        folder.display(),
        folder.display()
    ))
}

pub(super) fn broken(folder: &Path, why: &str) -> RepositoryError {
    let folder = folder.display();
    RepositoryError::Unsupported(format!(
        "the commit that is checked out in {folder} cannot be read ({why}); `git -C {folder} fsck` says what is \
         missing"
    ))
}

/// The settings of a repository. Git reads a copy of them, without includes.
fn read_config(
    program: &Path,
    git_dir: &GitDir,
    common: &GitDir,
    folder: &Path,
) -> Result<Vec<Setting>, RepositoryError> {
    let text = common.read("config", CONFIG_MAX_BYTES)?.unwrap_or_default();
    let mut config = parse_config(program, &text, folder)?;
    if config.iter().any(|(key, value)| key == "extensions.worktreeconfig" && !is_false(value)) {
        let text = git_dir.read("config.worktree", CONFIG_MAX_BYTES)?.unwrap_or_default();
        config.extend(parse_config(program, &text, folder)?);
    }
    Ok(config)
}

/// A key and its value.
type Setting = (String, String);

/// Parses settings. The last value of a key wins.
fn parse_config(program: &Path, text: &[u8], folder: &Path) -> Result<Vec<Setting>, RepositoryError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let git = Git::at(program, Path::new("/"));
    let answer = git.ask(&["config", "--no-includes", "--file", "-", "--list", "-z"], text)?;
    if answer.code != Some(0) {
        return Err(RepositoryError::Unsupported(format!(
            "the git settings of {} cannot be read ({}); `git -C {} config --list` says where they are wrong",
            folder.display(),
            answer.stderr,
            folder.display()
        )));
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    let settings = text.split('\0').filter(|setting| !setting.is_empty());
    let pair = |setting: &str| {
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        (key.to_owned(), value.to_owned())
    };
    Ok(settings.map(pair).collect())
}
