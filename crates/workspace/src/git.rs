//! Runs the git program so that only the given repository decides what it does.
//!
//! Git runs in a directory that no agent can write, with a cleared environment: no configuration of the machine or the
//! user, no hooks, no file system monitor, no prompts, no automatic cleaning, no optional locks. It reads only the
//! configuration of the repository, and it only runs in Posse's own repositories, whose configuration Posse wrote:
//! never in a user's. Arguments never pass through a shell. Git ends with its caller, because its input and output
//! close then, and it is killed after a timeout.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::objects::PackCache;
use super::pack::PackWriter;
use super::stored_objects::StoredObjects;
use super::{RepositoryError, helper, quarantine};

/// Configuration of every call. The command line overrides the repository.
const PINNED: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "core.fsync=committed,pack-metadata,reference",
    "core.fsyncMethod=fsync",
    "core.commitGraph=false",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.file.allow=always",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.writeCommitGraph=false",
    "transfer.fsckObjects=true",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "diff.external=",
    "diff.submodule=short",
    "diff.ignoreSubmodules=none",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "merge.directoryRenames=false",
    "merge.renames=true",
    "merge.renameLimit=7000",
    "gpg.program=false",
    "commit.gpgSign=false",
    "advice.graftFileDeprecated=false",
];

/// The search path for git and its helpers, independent of the user's `PATH`.
pub const GIT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The timeout of a call. Only an unresponsive disk takes longer, or repacking a huge history on a slow one.
const PATIENCE: Duration = Duration::from_mins(30);

/// Longest error text of git that is repeated.
const STDERR_MAX_CHARS: usize = 600;

/// A git program and the repository it runs on.
#[derive(Debug, Clone)]
pub struct Git {
    program: PathBuf,
    repository: PathBuf,
    work_tree: Option<PathBuf>,
    index: Option<PathBuf>,
    settings: Vec<String>,
    objects: Option<(PathBuf, OsString)>,
    /// Set if objects of the repository may be read without git.
    packs: Option<Arc<PackCache>>,
    patience: Duration,
}

/// The result of a call of git.
#[derive(Debug)]
pub struct Answer {
    /// Always set: a git that was killed is an error.
    pub code: Option<i32>,
    /// The whole standard output.
    pub stdout: Vec<u8>,
    /// Shortened.
    pub stderr: String,
}

impl Git {
    /// Git on the repository at `git_dir`, without a work tree. `program` is an absolute path, or a plain name that is
    /// searched on [`GIT_PATH`] only.
    pub fn at(program: &Path, git_dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            repository: git_dir.to_owned(),
            work_tree: None,
            index: None,
            settings: Vec::new(),
            objects: None,
            packs: None,
            patience: PATIENCE,
        }
    }

    /// The same, for a repository of Posse's own whose objects are also read in this process.
    pub(crate) fn with_packs(self, packs: &Arc<PackCache>) -> Self {
        Self { packs: Some(packs.clone()), ..self }
    }

    /// The objects of the repository; `None` if only git may read them.
    pub(crate) fn stored_objects(&self) -> Option<StoredObjects> {
        // Objects of a quarantine are elsewhere.
        let packs = self.packs.as_ref().filter(|_| self.objects.is_none())?;
        StoredObjects::of(&self.repository, packs)
    }

    /// A new pack for the repository.
    pub(crate) fn new_pack(&self) -> PackWriter {
        let pack = PackWriter::new(&self.repository);
        self.packs.iter().fold(pack, PackWriter::known_to)
    }

    /// The directory of the repository that git runs on.
    pub fn git_dir(&self) -> &Path {
        &self.repository
    }

    /// Runs git with this work tree.
    pub fn with_work_tree(mut self, dir: &Path) -> Self {
        self.work_tree = Some(dir.to_owned());
        self
    }

    /// Uses an index outside the repository.
    pub fn with_index(mut self, index: &Path) -> Self {
        self.index = Some(index.to_owned());
        self
    }

    /// Adds settings (`key=value`) to those of every call.
    pub fn with_settings(mut self, settings: Vec<String>) -> Self {
        self.settings = settings;
        self
    }

    /// Writes new objects to `own`, without a sync, and reads the others from the list of paths in `others`.
    pub(super) fn with_objects(mut self, own: &Path, others: OsString) -> Self {
        self.settings.push("core.fsync=none".to_owned());
        self.objects = Some((own.to_owned(), others));
        self
    }

    /// Begins packs in `own` instead of the repository. A git that fails or is killed leaves what it has written of a
    /// pack, and no cleaning removes that from a repository.
    pub(super) fn packing_in(mut self, own: &Path) -> Self {
        self.objects = Some((own.to_owned(), quarantine::quoted(&self.repository.join("objects"))));
        self
    }

    /// A git command with none of this process's environment.
    pub fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", GIT_PATH).env("LC_ALL", "C").env("HOME", "/nonexistent");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_ATTR_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0");
        command
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_LITERAL_PATHSPECS", "1");
        command.env("GIT_EDITOR", "false").env("GIT_ASKPASS", "false").env("GIT_PAGER", "cat");
        command.env("GIT_DIR", &self.repository);
        if let Some(dir) = &self.work_tree {
            command.env("GIT_WORK_TREE", dir);
        }
        if let Some(index) = &self.index {
            command.env("GIT_INDEX_FILE", index);
        }
        if let Some((own, others)) = &self.objects {
            command.env("GIT_OBJECT_DIRECTORY", own).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", others);
        }
        command.current_dir(self.work_tree.as_deref().unwrap_or(&self.repository));
        for pinned in PINNED {
            command.arg("-c").arg(pinned);
        }
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs git and returns its output, whatever its exit code.
    pub fn ask<A: AsRef<OsStr>>(&self, args: &[A], input: &[u8]) -> Result<Answer, RepositoryError> {
        self.stderr_text(self.command(args), args, input)
    }

    /// Runs git with the settings of the user with this home. Only for commands that run no programs.
    pub fn ask_as<A: AsRef<OsStr>>(&self, home: &Path, args: &[A]) -> Result<Answer, RepositoryError> {
        let mut command = self.command(args);
        command.env("HOME", home).env_remove("GIT_CONFIG_GLOBAL").env_remove("GIT_CONFIG_NOSYSTEM");
        self.stderr_text(command, args, &[])
    }

    fn stderr_text<A: AsRef<OsStr>>(
        &self,
        command: Command,
        args: &[A],
        input: &[u8],
    ) -> Result<Answer, RepositoryError> {
        let what = args.first().map_or_else(String::new, |arg| arg.as_ref().to_string_lossy().into_owned());
        let output =
            helper::output(command, input, self.patience).map_err(|error| self.not_started(&error))?;
        let output = output.ok_or_else(|| RepositoryError::TooLong {
            command: what.clone(),
            repository: self.repository.display().to_string(),
            seconds: self.patience.as_secs(),
        })?;
        answer(output, &what)
    }

    fn not_started(&self, error: &std::io::Error) -> RepositoryError {
        if error.kind() == std::io::ErrorKind::NotFound {
            RepositoryError::NoGit(self.program.display().to_string())
        } else {
            RepositoryError::io("starting git", &self.program, error)
        }
    }

    /// Runs git. Any exit code but 0 is an error.
    pub fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Vec<u8>, RepositoryError> {
        self.run_with(args, &[])
    }

    /// Like [`Git::run`], with `input` on standard input.
    pub fn run_with<A: AsRef<OsStr>>(&self, args: &[A], input: &[u8]) -> Result<Vec<u8>, RepositoryError> {
        let answer = self.ask(args, input)?;
        match answer.code {
            Some(0) => Ok(answer.stdout),
            code => {
                let args: Vec<OsString> = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
                Err(RepositoryError::git(&self.repository, &args, code, answer.stderr))
            }
        }
    }
}

/// Converts the output. A git that was killed is an error.
fn answer(output: std::process::Output, command: &str) -> Result<Answer, RepositoryError> {
    let stderr = String::from_utf8_lossy(&output.stderr).trim().chars().take(STDERR_MAX_CHARS).collect();
    match output.status.code() {
        None => Err(RepositoryError::killed(command)),
        code => Ok(Answer { code, stdout: output.stdout, stderr }),
    }
}
