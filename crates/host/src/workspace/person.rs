//! A person's repository. It is only ever read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{Git, Oid, WorkspaceError, disk};

const GITDIR: &str = "gitdir:";

/// The repository whose top is a person's folder.
#[derive(Debug)]
pub(crate) struct Person {
    pub(crate) git: Git,
    pub(crate) git_dir: PathBuf,
    /// Where worktrees of one repository keep what they share.
    pub(crate) common_dir: PathBuf,
    config: HashMap<String, String>,
    home: Option<PathBuf>,
}

/// Where a repository stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) commit: Oid,
    pub(crate) tree: Oid,
}

impl Person {
    /// The repository at the top of `folder`; none if there is none. `home` is where the person's own settings of git
    /// are looked for.
    pub(crate) fn find(
        folder: &Path,
        program: &Path,
        home: Option<&Path>,
    ) -> Result<Option<Self>, WorkspaceError> {
        let found = Self::open(folder, program, home)?;
        let format = found.as_ref().and_then(|person| person.setting("extensions.objectformat"));
        if format.is_some_and(|format| format != "sha1") {
            return Err(WorkspaceError::Unsupported(format!(
                "{} is a repository whose objects are named by SHA-256, which is not supported; work on a clone made \
                 with `git clone` into a repository of `git init --object-format=sha1`",
                folder.display()
            )));
        }
        Ok(found)
    }

    /// The same, however its objects are named.
    pub(super) fn open(
        folder: &Path,
        program: &Path,
        home: Option<&Path>,
    ) -> Result<Option<Self>, WorkspaceError> {
        let dot_git = folder.join(".git");
        let git_dir = if dot_git.is_dir() {
            dot_git
        } else if let Some(text) = disk::read_if_there(&dot_git)? {
            folder.join(pointed_to(&text, folder)?)
        } else {
            return Ok(None);
        };
        let common = disk::read_if_there(&git_dir.join("commondir"))?;
        let common_dir = common.map_or_else(|| git_dir.clone(), |text| git_dir.join(path_of(&text)));
        let git = Git::at(program, &git_dir);
        let home = home.map(Path::to_owned);
        let config = read_config(&git, home.as_deref(), folder)?;
        Ok(Some(Self { git, git_dir, common_dir, config, home }))
    }

    fn setting(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str)
    }

    /// The commit that is checked out; none before the first.
    pub(crate) fn head(&self, folder: &Path) -> Result<Option<Head>, WorkspaceError> {
        let answer = self.git.ask(&["rev-parse", "HEAD^{commit}", "HEAD^{tree}"], &[])?;
        if answer.code == Some(0) {
            let text = String::from_utf8_lossy(&answer.stdout);
            let mut oids = text.lines().map(str::parse);
            if let (Some(Ok(commit)), Some(Ok(tree))) = (oids.next(), oids.next()) {
                return Ok(Some(Head { commit, tree }));
            }
        }
        // Without a commit HEAD names nothing, which is told apart from one that names something broken.
        let verified = self.git.ask(&["rev-parse", "--verify", "--quiet", "HEAD"], &[])?;
        if verified.code == Some(1) && verified.stdout.is_empty() {
            return Ok(None);
        }
        let folder = folder.display();
        Err(WorkspaceError::Unsupported(format!(
            "the commit that is checked out in {folder} cannot be read ({}); `git -C {folder} fsck` says what is \
             missing",
            answer.stderr
        )))
    }

    /// Whether the permission to execute counts.
    pub(crate) fn executable_counts(&self) -> bool {
        self.setting("core.filemode").is_none_or(|value| !is_false(value))
    }

    /// What git has to be told of line endings, if the settings let it convert any.
    pub(crate) fn line_endings(&self) -> Vec<String> {
        let autocrlf = self.setting("core.autocrlf").filter(|value| !is_false(value));
        autocrlf.map(|value| format!("core.autocrlf={value}")).into_iter().collect()
    }

    /// The patterns that apply above all `.gitignore` files, those that count less first.
    pub(crate) fn excludes(&self) -> Result<Vec<Vec<u8>>, WorkspaceError> {
        let files = [self.excludes_file(), Some(self.common_dir.join("info/exclude"))];
        let texts = files.into_iter().flatten().map(|path| disk::read_if_there(&path));
        Ok(texts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// The file of patterns for all repositories of the person.
    fn excludes_file(&self) -> Option<PathBuf> {
        let usual = || self.home.as_ref().map(|home| home.join(".config/git/ignore"));
        let named = self.setting("core.excludesfile").filter(|path| !path.is_empty());
        named.map_or_else(usual, |path| Some(self.expand(path)))
    }

    /// Git for looking at the files beneath `top`, with the person's patterns.
    pub(super) fn looking_at(&self, top: &Path) -> Result<Git, WorkspaceError> {
        let file = self.excludes_file().map(|path| {
            let text = path.to_str().map(|path| format!("core.excludesFile={path}"));
            text.ok_or_else(|| {
                WorkspaceError::Unsupported(format!(
                    "git cannot be told of the patterns in {}, whose name is not UTF-8; set core.excludesFile to \
                     another file",
                    path.display()
                ))
            })
        });
        let settings = file.into_iter().collect::<Result<_, _>>()?;
        Ok(self.git.clone().with_work_tree(top).with_settings(settings))
    }

    fn expand(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), &self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => self.git_dir.join(path),
        }
    }
}

/// Whether a directory is a repository's own, as git sees it.
pub(super) fn is_git_dir(dir: &Path) -> bool {
    let has = |name: &str| dir.join(name).is_dir();
    dir.join("HEAD").is_file() && (dir.join("commondir").is_file() || (has("objects") && has("refs")))
}

fn is_false(value: &str) -> bool {
    ["false", "no", "off", "0", ""].iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// The first line as a path.
fn path_of(text: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii_end()))
}

/// Where a `.git` that is a file says the repository is.
fn pointed_to(text: &[u8], folder: &Path) -> Result<PathBuf, WorkspaceError> {
    let path = text.strip_prefix(GITDIR.as_bytes()).map(|path| path_of(path.trim_ascii_start()));
    path.ok_or_else(|| {
        WorkspaceError::Unsupported(format!(
            "{}/.git is a file that does not say where the repository is; `git -C {} status` says more",
            folder.display(),
            folder.display()
        ))
    })
}

/// The settings of the repository and its person. Reading them runs nothing.
fn read_config(
    git: &Git,
    home: Option<&Path>,
    folder: &Path,
) -> Result<HashMap<String, String>, WorkspaceError> {
    let answer = match home {
        None => git.ask(&["config", "--list", "-z", "--show-scope"], &[])?,
        Some(home) => git.ask_as(home, &["config", "--list", "-z", "--show-scope"])?,
    };
    if answer.code != Some(0) {
        return Err(WorkspaceError::Unsupported(format!(
            "the git settings of {} cannot be read ({}); `git -C {} config --list` says where they are wrong",
            folder.display(),
            answer.stderr,
            folder.display()
        )));
    }
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut words = text.split('\0');
    let mut config = HashMap::new();
    while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
        // What the call itself says of configuration is not the person's.
        if scope != "command" {
            let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
            config.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(config)
}
