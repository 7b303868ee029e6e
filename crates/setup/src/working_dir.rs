//! Resolves the working directory of a run: the named one, or the top of the repository that the user is in.

use std::path::{Path, PathBuf};

use crate::Environment;
use crate::error::{Remedy, SetupError, Subject};
use crate::project_dirs::{OWN_FOLDER, project_dirs};

/// The working directory of a run, and where in it the user is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir {
    /// The canonical path of the directory that the run works in.
    pub dir: String,
    /// The canonical path of the directory that the user is in, whose settings and definitions apply.
    pub start: String,
}

impl RunDir {
    /// The named directory; without a name, the top of the repository of the current directory, or that directory itself.
    /// A directory between the two with Posse's own folder is a project of its own and ends the search. The user's home and
    /// the root of the filesystem have to be named, because a run could read everything in them.
    pub fn find(named: Option<PathBuf>, environment: &Environment) -> Result<Self, SetupError> {
        let is_named = named.is_some();
        let start = working_dir(named, &environment.cwd)?;
        if is_named {
            return Ok(Self { dir: start.clone(), start });
        }
        let home = environment.home.as_ref().map(|home| home.canonicalize().unwrap_or_else(|_| home.clone()));
        let path = Path::new(&start);
        let refused = match (path.parent(), home) {
            (None, _) => Some("the root of the filesystem"),
            (_, Some(home)) if home == path => Some("your home directory"),
            _ => None,
        };
        if let Some(what) = refused {
            let problem = format!("{start} is {what}: agents could read everything in it");
            return Err(SetupError::usage(problem).remedy(Remedy::NameDir(start)));
        }
        let dirs = project_dirs(path, environment.home.as_deref());
        let own = dirs.iter().find(|dir| dir.join(OWN_FOLDER).is_dir()).or_else(|| dirs.last());
        let dir = own.and_then(|top| top.to_str()).map_or_else(|| start.clone(), str::to_owned);
        Ok(Self { dir, start })
    }

    /// Where the user is, relative to the directory of the run; `None` at its top.
    pub fn below(&self) -> Option<&str> {
        let below = Path::new(&self.start).strip_prefix(&self.dir).ok()?;
        below.to_str().filter(|below| !below.is_empty())
    }
}

/// The canonical path of the named directory, or of the current one.
pub fn working_dir(dir: Option<PathBuf>, cwd: &Path) -> Result<String, SetupError> {
    let dir = dir.map_or_else(|| cwd.to_owned(), |dir| cwd.join(dir));
    let wrong = |problem: String| SetupError::about(Subject::Dir, format!("{}: {problem}", dir.display()));
    let whole = dir.canonicalize().map_err(|error| wrong(error.to_string()))?;
    if !whole.is_dir() {
        return Err(SetupError::about(Subject::Dir, format!("{} is not a directory", dir.display())));
    }
    whole.into_os_string().into_string().map_err(|_| wrong("is not UTF-8 text".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cwd: &Path, home: &Path, named: Option<&str>) -> Result<RunDir, String> {
        let environment = Environment::new(cwd.to_owned(), [("HOME".into(), home.into())]);
        RunDir::find(named.map(PathBuf::from), &environment).map_err(|error| error.text())
    }

    #[test]
    fn a_run_works_from_the_top_of_the_repository_and_not_in_the_home() {
        let top = tempfile::tempdir().expect("a directory");
        let home = top.path().canonicalize().expect("a path");
        for dir in ["repo/.git", "repo/src/deep", "repo/own/.posse", "repo/own/sub", "plain/sub"] {
            std::fs::create_dir_all(home.join(dir)).expect("a directory");
        }
        for (start, dir, below) in [
            ("repo", "repo", None),
            ("repo/src/deep", "repo", Some("src/deep")),
            ("repo/own/sub", "repo/own", Some("sub")),
            ("plain/sub", "plain/sub", None),
        ] {
            let found = found(&home.join(start), &home, None).expect("a directory");
            assert_eq!(found.dir, home.join(dir).to_str().expect("UTF-8"), "{start}");
            assert_eq!(found.below(), below, "{start}");
        }
        let named = found(&home.join("repo"), &home, Some("src")).expect("a directory");
        assert_eq!((named.dir.ends_with("repo/src"), named.below()), (true, None));
        for (cwd, what) in [(home.as_path(), "your home"), (Path::new("/"), "the root of the filesystem")] {
            let refused = found(cwd, &home, None).expect_err("refused");
            assert!(refused.contains(what), "{refused}");
            assert!(found(cwd, &home, Some(".")).is_ok(), "it is named");
        }
    }
}
