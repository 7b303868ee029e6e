//! Lists where a project and a user keep settings, definitions, skills, hooks and servers.
//!
//! Discovery and `posse trust` share this list, so that one reads exactly what the other shows.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use posse::discovery::{DefinitionType, SearchDir};

/// Posse's folder in a project.
pub const OWN_FOLDER: &str = ".posse";
/// The settings file of a project.
pub const PROJECT_SETTINGS: &str = ".posse/settings.yaml";
/// Folders of definitions in a project, in falling precedence.
pub const PROJECT_AGENTS: [&str; 5] =
    [".posse/agents", ".agents/agents", ".claude/agents", ".opencode/agent", ".opencode/agents"];
/// Folders of skills in a project, in falling precedence.
const PROJECT_SKILLS: [&str; 4] = [".posse/skills", ".agents/skills", ".claude/skills", ".opencode/skills"];
/// Files of a project that name servers to start or contact, for any program that reads them.
pub const PROJECT_SERVERS: [&str; 2] = [".mcp.json", ".posse/mcp.json"];
/// The instruction file of a project.
pub const AGENTS_MD: &str = "AGENTS.md";

/// Folders of a user's definitions beneath their home, in falling precedence, after `agents` beside their settings.
pub const HOME_AGENTS: [&str; 4] =
    [".agents/agents", ".claude/agents", ".config/opencode/agent", ".config/opencode/agents"];
/// Folders of a user's skills, after `skills` beside their settings.
pub const HOME_SKILLS: [&str; 3] = [".agents/skills", ".claude/skills", ".config/opencode/skills"];

/// Largest settings file, or other small file of a project or a user, that is read.
pub const FILE_MAX_BYTES: u64 = 1024 * 1024;
/// The entry that makes a directory the root of a repository.
const REPOSITORY: &str = ".git";
/// Limit of parent directories that are searched.
const LEVELS_MAX: usize = 64;

/// The directories of the project that contains `dir`: `dir` itself first, then its parents up to the root of the
/// repository. Without a repository it is `dir` alone. The user's home and its parents are never part of a project:
/// files there belong to the user.
pub fn project_dirs(dir: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
    let is_own = |dir: &Path| home.as_deref().is_some_and(|home| home.starts_with(dir));
    let above: Vec<&Path> = dir.ancestors().take(LEVELS_MAX).take_while(|dir| !is_own(dir)).collect();
    let root = above.iter().position(|dir| dir.join(REPOSITORY).symlink_metadata().is_ok());
    let levels = root.map_or(1, |root| root + 1);
    above.into_iter().take(levels).map(Path::to_owned).collect()
}

/// The search directories for definitions and skills in these directories of a project, in falling precedence. Nothing
/// outside the project's root is read from there.
pub fn project_places(dirs: &[PathBuf]) -> Vec<SearchDir> {
    let agents = PROJECT_AGENTS.map(|folder| (folder, DefinitionType::Agents));
    let folders = agents.into_iter().chain(PROJECT_SKILLS.map(|folder| (folder, DefinitionType::Skills)));
    let in_dir = |dir: &PathBuf| -> Vec<SearchDir> {
        let place =
            |(folder, holds)| SearchDir { dir: dir.join(folder), holds, within: dirs.last().cloned() };
        folders.clone().map(place).collect()
    };
    dirs.iter().flat_map(in_dir).collect()
}

/// Reads a small file; `None` if it does not exist. Its author may be hostile: a special file does not block, and a
/// file that is too large is not read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let nonblocking = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = match nonblocking {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        file => file.map_err(|error| error.to_string())?,
    };
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("it has more than the {FILE_MAX_BYTES} bytes accepted"));
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_ends_at_its_repository_and_before_the_home() {
        let top = tempfile::tempdir().expect("a directory");
        let home = top.path().canonicalize().expect("a path");
        let deep = home.join("work/repo/a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        let dirs = |dir: &Path| project_dirs(dir, Some(&home));
        assert_eq!(dirs(&deep), std::slice::from_ref(&deep), "no repository");
        assert_eq!(dirs(&home), Vec::<PathBuf>::new(), "the home is no project");
        std::fs::create_dir(home.join(".git")).expect("a repository around the home");
        assert_eq!(dirs(&deep), std::slice::from_ref(&deep), "which is not the project's");
        std::fs::write(home.join("work/repo/.git"), "gitdir: elsewhere\n").expect("a linked worktree");
        assert_eq!(dirs(&deep), [deep.clone(), home.join("work/repo/a"), home.join("work/repo")]);
        assert_eq!(project_dirs(&home.join("work"), None).len(), 2, "no home");
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
        assert_eq!(read(&pipe), Err("it is not a regular file".to_owned()));
        assert!(read(dir.path()).is_err(), "a directory");
        assert_eq!(read(&dir.path().join("none")), Ok(None));
        let large = vec![b'#'; usize::try_from(FILE_MAX_BYTES).expect("a size") + 1];
        std::fs::write(dir.path().join("large"), large).expect("a file");
        assert!(read(&dir.path().join("large")).is_err_and(|problem| problem.contains("1048576 bytes")));
    }
}
