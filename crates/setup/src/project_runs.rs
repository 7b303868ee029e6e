//! Finds the runs of the project that a user is in: "the newest run" means one of these, because a user rarely means the
//! run of another project.

use std::path::{Path, PathBuf};

use posse::{Posse, RunSummary};

use crate::Environment;
use crate::project_dirs::project_dirs;

/// Limit of runs that are searched for those of a project.
const RUNS_SEARCHED_MAX: u32 = 10_000;

/// The project of a directory: its repository, or the directory alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    top: PathBuf,
    /// Whether the top is that of a repository, whose subdirectories belong to the same project.
    is_repository: bool,
}

impl Project {
    /// The project of the user's current directory.
    pub fn current(environment: &Environment) -> Self {
        Self::of(&environment.cwd, environment)
    }

    /// The project of a directory.
    pub fn of(dir: &Path, environment: &Environment) -> Self {
        let dir = environment.cwd.join(dir);
        let dir = dir.canonicalize().unwrap_or(dir);
        let dirs = project_dirs(&dir, environment.home.as_deref());
        let top = dirs.into_iter().next_back().unwrap_or(dir);
        let is_repository = top.join(".git").symlink_metadata().is_ok();
        Self { top, is_repository }
    }

    /// Whether a run belongs to the project.
    pub fn has(&self, run: &RunSummary) -> bool {
        let dir = Path::new(&run.dir);
        dir == self.top || self.is_repository && dir.starts_with(&self.top)
    }

    /// The runs of the project, newest first.
    pub async fn runs(&self, posse: &Posse) -> Result<Vec<RunSummary>, posse::Error> {
        let mut runs = posse.runs("", RUNS_SEARCHED_MAX).await?;
        runs.retain(|run| self.has(run));
        Ok(runs)
    }

    /// The top directory of the project.
    pub fn top(&self) -> &Path {
        &self.top
    }
}

#[cfg(test)]
mod tests {
    use posse::scripted::ScriptedModel;
    use posse::{NewRun, Posse};

    use super::*;

    async fn run_in(posse: &Posse, dir: &Path) -> String {
        let run = posse.start(NewRun::new("Look.").model("scripted/one").dir(dir)).await.expect("started");
        posse.wait(run.id()).await.expect("ended").run.to_string()
    }

    #[tokio::test]
    async fn runs_anywhere_in_a_repository_belong_to_it_and_those_below_a_plain_folder_do_not() {
        let home = tempfile::tempdir().expect("a directory");
        let home = home.path().canonicalize().expect("a path");
        for dir in ["repo/.git/objects", "repo/.git/refs", "repo/sub", "plain/sub"] {
            std::fs::create_dir_all(home.join(dir)).expect("a directory");
        }
        std::fs::write(home.join("repo/.git/HEAD"), "ref: refs/heads/main\n").expect("a repository");
        let script = ScriptedModel::from_yaml("- reply: {text: done}\n", "one.yaml").expect("a script");
        let posse = Posse::builder().model("scripted/one", script).in_memory().open().expect("open");
        let top = run_in(&posse, &home.join("repo")).await;
        let below = run_in(&posse, &home.join("repo/sub")).await;
        let plain = run_in(&posse, &home.join("plain")).await;
        let deep = run_in(&posse, &home.join("plain/sub")).await;
        let variables = [("HOME".into(), home.clone().into_os_string())];
        for (dir, expected) in [
            ("repo/sub", vec![&below, &top]),
            ("repo", vec![&below, &top]),
            ("plain", vec![&plain]),
            ("plain/sub", vec![&deep]),
            (".", vec![]),
        ] {
            let environment = Environment::new(home.join(dir), variables.clone());
            let runs = Project::current(&environment).runs(&posse).await.expect("runs");
            let runs: Vec<String> = runs.iter().map(|run| run.run.to_string()).collect();
            assert_eq!(runs.iter().collect::<Vec<_>>(), expected, "{dir}");
        }
    }
}
