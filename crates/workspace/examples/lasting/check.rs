//! What must hold whenever a process or the machine has stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use posse_workspace::{Git, base_ref, salvage_ref, work_ref};

use crate::work::{CALLS, CHILDREN, Done, RUNS, content, folder, other_state, run_id, told};

/// All that does not hold.
pub(crate) fn breaches(root: &Path, acks: &Path, finished: bool) -> Done<Vec<String>> {
    let told = told(acks)?;
    let mut checking = DurabilityCheck { root, told, breaches: Vec::new() };
    checking.sound(&folder(root).join(".git"));
    if let Some(other) = repository(&other_state(root))? {
        checking.sound(&other);
        let git = Git::at(Path::new("git"), &other);
        for run in (1..=RUNS).map(run_id) {
            checking.reached(&git, &format!("import {run}"), &salvage_ref(&run, 1));
        }
    }
    let Some(repository) = repository(&root.join("state"))? else {
        if checking.told.keys().any(|key| key.starts_with("begin ")) {
            checking.breaches.push("a run began and there is no repository".to_owned());
        }
        return Ok(checking.breaches);
    };
    checking.sound(&repository);
    let git = Git::at(Path::new("git"), &repository);
    for number in 1..=RUNS {
        checking.run(&git, &run_id(number), finished);
    }
    Ok(checking.breaches)
}

/// The one project's repository; none if nothing has begun.
fn repository(state: &Path) -> Done<Option<std::path::PathBuf>> {
    let projects = state.join("projects");
    if !projects.exists() {
        return Ok(None);
    }
    let mut found = std::fs::read_dir(&projects).map_err(|error| error.to_string())?;
    let found = found.next().transpose().map_err(|error| error.to_string())?;
    Ok(found.map(|entry| entry.path().join("repo.git")).filter(|path| path.join("HEAD").exists()))
}

struct DurabilityCheck<'a> {
    root: &'a Path,
    told: BTreeMap<String, String>,
    breaches: Vec<String>,
}

impl DurabilityCheck<'_> {
    fn sound(&mut self, git_dir: &Path) {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(git_dir).args(["fsck", "--strict", "--no-dangling", "--no-progress"]);
        match command.output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                let complained = String::from_utf8_lossy(&output.stderr).into_owned();
                self.breaches.push(format!("git fsck in {}: {said}{complained}", git_dir.display()));
            }
            Err(error) => self.breaches.push(format!("git fsck: {error}")),
        }
    }

    fn run(&mut self, git: &Git, run: &str, finished: bool) {
        if self.told.contains_key(&format!("forgetting {run}")) {
            return;
        }
        let line = work_ref(run, 1);
        self.reached(git, &format!("begin {run}"), &base_ref(run));
        for key in [format!("first {run}"), format!("last {run}")] {
            self.reached(git, &key, &line);
        }
        self.reached(git, &format!("salvage {run}"), &salvage_ref(run, 1));
        for number in 1..=CHILDREN {
            let child = format!("{run}.{number}");
            self.reached(git, &format!("child {child}"), &work_ref(&child, 1));
            self.reached(git, &format!("salvage {child}"), &salvage_ref(&child, 1));
            self.reached(git, &format!("update {child}"), &line);
            self.complete(git, &format!("merge {child}"));
        }
        let user = Git::at(Path::new("git"), &folder(self.root).join(".git"));
        self.reached(&user, &format!("deliver {run}"), &format!("refs/heads/posse/{run}"));
        self.merged_once(git, run, finished);
        self.files(git, run);
    }

    /// The acknowledged commit is where its ref points, or an ancestor of that, and all its objects exist.
    fn reached(&mut self, git: &Git, key: &str, name: &str) {
        let Some(commit) = self.told.get(key).cloned() else { return };
        match git.ask(&["merge-base", "--is-ancestor", &commit, name], &[]) {
            Ok(answer) if answer.code == Some(0) => self.complete(git, key),
            Ok(answer) => {
                self.breaches.push(format!("{key}: {name} does not reach {commit} {}", answer.stderr));
            }
            Err(error) => self.breaches.push(format!("{key}: {error}")),
        }
    }

    fn complete(&mut self, git: &Git, key: &str) {
        let Some(commit) = self.told.get(key).cloned() else { return };
        if let Err(error) = git.run(&["rev-list", "--objects", "--quiet", &commit]) {
            self.breaches.push(format!("{key}: {commit} is not all there: {error}"));
        }
    }

    /// Each child's work is in its parent's line once, and not before it was merged.
    fn merged_once(&mut self, git: &Git, run: &str, finished: bool) {
        let Ok(log) = git.run(&["log", "--first-parent", "--format=%s", &work_ref(run, 1)]) else { return };
        let log = String::from_utf8_lossy(&log).into_owned();
        for number in 1..=CHILDREN {
            let child = format!("{run}.{number}");
            let count = log.lines().filter(|line| *line == format!("merged {child}")).count();
            let least = usize::from(finished || self.told.contains_key(&format!("update {child}")));
            if count < least || count > 1 {
                self.breaches.push(format!("{child} is merged {count} times"));
            }
        }
    }

    /// Every byte of an acknowledged file is in the work ref.
    fn files(&mut self, git: &Git, run: &str) {
        let line = work_ref(run, 1);
        let children =
            (1..=CHILDREN).map(|number| (format!("update {run}.{number}"), format!("child-{run}.{number}")));
        let own = ["first", "last"].map(|when| (format!("{when} {run}"), format!("{when}-{run}")));
        // A snapshot has the files of the calls before it.
        let calls = CALLS.map(|call| (format!("first {run}"), format!("{call}-{run}")));
        for (key, name) in children.chain(own).chain(calls) {
            if !self.told.contains_key(&key) {
                continue;
            }
            match git.run(&["cat-file", "blob", &format!("{line}:{name}")]) {
                Ok(found) if found == content(&name).into_bytes() => {}
                Ok(found) => self.breaches.push(format!("{key}: {name} has {} other bytes", found.len())),
                Err(error) => self.breaches.push(format!("{key}: {name} is lost: {error}")),
            }
        }
    }
}
