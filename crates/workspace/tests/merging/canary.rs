//! Whatever a child plants in its workspace, the host runs no code of it and follows no path outside.
//!
//! Each case plants something that would start a program which touches a file, the canary, or that would redirect a
//! read or a write. Then the host performs every operation it has for workspaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use posse_engine::ports::{DiffOptions, Merge};
use posse_workspace::{ObjectId, SalvageOutcome, WorkspaceKind};

use crate::corpus::{Ground, Plant, cases};
use crate::kind::{are_overlays, sandboxed};
use crate::plumbing::{ask, listing, plain, request};
use crate::project::{Project, Run, set_executable, write};

/// The timeout of one case: a planted file made the host wait.
const PATIENCE: Duration = Duration::from_mins(1);
/// How many cases run in parallel.
const THREADS: usize = 2;

const FILES: &[(&str, &str)] = &[("a", "a\n"), ("dir/b", "b\n"), ("dir/c", "c\n"), ("keep", "keep\n")];

/// A project beside a directory that must stay unchanged.
struct Field {
    project: Project,
    outside: PathBuf,
    canary: PathBuf,
}

impl Field {
    fn new() -> Self {
        let project = Project::repository(FILES);
        let outside = project.state().with_file_name("outside");
        let canary = project.state().with_file_name("canary");
        write(&outside, "victim", "untouched\n");
        write(&outside, "b", "b\n");
        write(&outside, "c", "c\n");
        let program = outside.join("program");
        write(&outside, "program", format!("#!/bin/sh\ntouch '{}'\ncat\n", canary.display()));
        set_executable(&outside, "program");
        write(&outside, "evil/file", "evil\n");
        let evil = outside.join("evil");
        plain(&evil, &["init", "-q"], b"");
        plain(&evil, &["add", "-A"], b"");
        plain(&evil, &["commit", "-q", "-m", "evil"], b"");
        let fsmonitor = format!("[core]\nfsmonitor = {0}\n[diff]\nexternal = {0}\n", program.display());
        write(&evil, ".git/config", fsmonitor);
        Self { project, outside, canary }
    }

    /// Plants a case in a directory, with this git of the agent's.
    fn plant(&self, plant: &Plant, dir: &Path, git: &dyn Fn(&[&str])) {
        let program = self.outside.join("program").display().to_string();
        plant(&Ground { dir, program, outside: &self.outside, git });
    }

    /// Plants a case in the workspace of an agent.
    fn plant_in_workspace(&self, plant: &Plant, run: &Run, agent: &str, dir: &Path) {
        self.plant(plant, dir, &|args| agents_git(run, agent, args));
    }
}

/// A command of the agent's own git in its workspace. It may fail.
fn agents_git(run: &Run, agent: &str, args: &[&str]) {
    let own = ["git", "-c", "user.name=T", "-c", "user.email=t@example.com"];
    drop(sandboxed(&run.space, (agent, 1), &[&own, args].concat()));
}

/// Every operation of the host on a workspace. The results do not matter here.
fn handle(field: &Field, run: &Run, agent: &str, dir: &Path, base: ObjectId) {
    let space = &run.space;
    drop(space.salvage(agent, 1));
    let (Ok(theirs), Ok(ours)) = (space.snapshot(agent, 1), space.snapshot(&run.id, 1)) else { return };
    drop(space.merge(&request(ours.commit, base, theirs.commit)));
    drop(space.diff(&base, &theirs.commit, DiffOptions::default()));
    // Also for refused changes: every write must stay beneath the workspace.
    drop(space.update(&run.id, 1, &ours.commit, &theirs.commit));
    drop(space.publish());
    drop(space.apply(&field.project.dir()));
    drop(space.restore(agent, 1, &dir.join("restored")));
    drop(space.shared(&theirs.commit));
    drop(space.make(&format!("{agent}.1"), 1, &theirs.commit));
    drop(space.remove(agent, 1));
}

/// Plants a case in the workspaces of a child and of its parent, then runs the host's operations.
fn survives(name: &str, plant: &Plant) {
    let field = Field::new();
    let run = field.project.run("r1");
    assert_eq!(run.space.mount("r1", 1).expect("a workspace").is_some(), are_overlays(), "{name}");
    let (agent, dir, base) = run.child(1);
    field.plant_in_workspace(plant, &run, &agent, &dir);
    write(&dir, "keep", "the child's\n");
    field.plant_in_workspace(plant, &run, &run.id, &run.root);
    // Programs that the agents' own git ran in their sandbox do not count.
    drop(fs::remove_file(&field.canary));
    let outside = listing(&field.outside);
    let git = |path: &Path| !path.starts_with(".git/objects") && !path.starts_with(".git/refs/heads/posse");
    let person: Vec<_> = listing(&field.project.dir().join(".git"))
        .into_iter()
        .filter(|(path, _)| git(&Path::new(".git").join(path)))
        .collect();
    handle(&field, &run, &agent, &dir, base);
    assert!(!field.canary.exists(), "{name}: the canary fired");
    assert_eq!(listing(&field.outside), outside, "{name}: something outside changed");
    let after: Vec<_> = listing(&field.project.dir().join(".git"))
        .into_iter()
        .filter(|(path, _)| git(&Path::new(".git").join(path)))
        .collect();
    assert_eq!(after, person, "{name}: the person's repository changed");
}

#[test]
fn no_canary_fires_and_nothing_outside_changes() {
    let cases = cases();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let next = std::sync::atomic::AtomicUsize::new(0);
    let (done, waiting) = sync_channel(cases.len());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let done = done.clone();
            let (cases, next) = (&cases, &next);
            scope.spawn(move || {
                while let Some((name, plant)) =
                    cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    survives(name, plant);
                    done.send(name.clone()).expect("somebody waits");
                }
            });
        }
        drop(done);
        let mut last = String::new();
        for _ in 0..cases.len() {
            match waiting.recv_timeout(PATIENCE) {
                Ok(name) => last = name,
                Err(error) => panic!("after `{last}`: {error}"),
            }
        }
    });
}

/// What the host makes of a case that is planted in the workspace of a child: the files of its salvage, what that could
/// not keep, and how the gate answers.
fn made_of(field: &Field, run: &str, plant: &Plant) -> String {
    let run = field.project.run(run);
    let (agent, dir, base) = run.child(1);
    field.plant_in_workspace(plant, &run, &agent, &dir);
    write(&dir, "keep", "the child's\n");
    let salvaged = run.space.salvage(&agent, 1).expect("salvaged");
    let theirs = salvaged.snapshot.commit;
    let files = plain(run.space.git().git_dir(), &["ls-tree", "-r", &theirs.to_string()], b"");
    let answer = match run.space.merge(&request(run.base, base, theirs)).expect("answered") {
        // The commit has a time.
        Some(Merge::Merged { tree, paths, .. }) => format!("merged {tree}, {paths} paths"),
        other => format!("{other:?}"),
    };
    let SalvageOutcome { left_out, left_out_count, notes, git, .. } = salvaged;
    format!("{files}\n{left_out:#?} {left_out_count} {notes:#?} {}\n{answer}", git.is_some())
}

#[test]
fn a_planted_case_has_the_same_outcome_in_an_overlay_and_in_a_copy() {
    if !are_overlays() {
        // Then both would be copies.
        return;
    }
    let mut field = Field::new();
    for (number, (name, plant)) in cases().iter().enumerate() {
        let [in_overlay, in_copy] = [WorkspaceKind::Auto, WorkspaceKind::Copies].map(|kind| {
            field.project.options.kind = kind;
            made_of(&field, &format!("r{number}-{kind:?}"), plant)
        });
        assert_eq!(in_overlay, in_copy, "{name}");
    }
}

/// Cases that everyday commands of an unprotected git trigger.
const EVERYDAY: &[&str] = &[
    "fsmonitor",
    "external diff",
    "signing",
    "include",
    "clean filter",
    "diff command",
    "text conversion",
    "hooks",
    "hooks in the work tree",
    "attributes of the repository",
    "attributes elsewhere",
    "configuration of the work tree",
];

/// The corpus is only useful if its canaries fire for git without precautions.
#[test]
fn the_canaries_fire_for_a_git_without_care() {
    for (name, plant) in cases().iter().filter(|(name, _)| EVERYDAY.contains(&name.as_str())) {
        let field = Field::new();
        let dir = field.project.dir();
        field.plant(plant, &dir, &|args| drop(ask(&dir, args, b"")));
        write(&dir, "a", "changed\n");
        for args in [&["status"][..], &["diff"], &["add", "-A"], &["commit", "-m", "x"]] {
            careless(&dir, args);
        }
        assert!(field.canary.exists(), "{name}");
    }
}

/// Runs git without precautions, with a timeout: some planted files block forever.
fn careless(dir: &Path, args: &[&str]) {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "5", "git", "-c", "user.name=T", "-c", "user.email=t@example.com"]).args(args);
    command.env("HOME", "/nonexistent").env("GIT_PAGER", "cat").current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Only the programs it ran matter, not its result.
    let _ = command.status().expect("started");
}

/// Trees that no workspace produces, because the host's scan skips such names.
#[test]
fn hostile_trees_are_never_written() {
    let field = Field::new();
    let run = field.project.run("r1");
    let git_dir = run.space.git().git_dir().to_owned();
    let outside = listing(&field.outside);
    let git = listing(&run.root.join(".git"));
    let blob = plain(&git_dir, &["hash-object", "-w", "--stdin"], b"evil");
    let blob: ObjectId = blob.trim().parse().expect("a name");
    for name in [
        "../../escape",
        "..",
        ".git/config",
        ".git",
        ".GIT",
        "/escape",
        "a/../../escape",
        "git~1",
        ".git ",
        "./x",
    ] {
        let mut content = format!("100644 {name}\0").into_bytes();
        content.extend_from_slice(blob.as_bytes());
        let tree = plain(&git_dir, &["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &content);
        let commit =
            plain(&git_dir, &["commit-tree", tree.trim(), "-p", &run.base.to_string(), "-m", "x"], b"");
        let commit: ObjectId = commit.trim().parse().expect("a name");
        let merged = run.space.merge(&request(run.base, run.base, commit));
        assert!(!matches!(merged, Ok(Some(Merge::Merged { .. }))), "{name}: {merged:?}");
        let work = posse_workspace::work_ref("r1", 1);
        let at = run.space.read_ref(&work).expect("read").unwrap_or(run.base);
        assert!(run.space.update("r1", 1, &at, &commit).is_err(), "{name}");
        assert!(run.space.apply(&field.project.dir()).is_err(), "{name}");
        assert!(run.space.make("r1.9", 1, &commit).is_err(), "{name}");
        assert_eq!(listing(&run.root.join(".git")), git, "{name}");
    }
    assert_eq!(listing(&field.outside), outside);
    let state = field.project.state();
    let top = state.parent().expect("a parent");
    let beside = run.space.dir_of("r1", 1).with_file_name("escape");
    assert!(!top.join("escape").exists() && !beside.exists());
    assert!(!field.canary.exists());
}
