//! Garbage collection never removes work.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use posse_engine::ports::{GcOptions, GcSummary, RunPhase};
use posse_workspace::{LocalFiles, ObjectId, WorkspaceOptions, salvage_ref};

use sha1::{Digest, Sha1};

use crate::plumbing::{Dice, ask, listing};
use crate::project::{Project, Run, read, write};

const DAY: Duration = Duration::from_hours(24);
const STATES: usize = if option_env!("POSSE_CAMPAIGNS").is_some() { 200 } else { 60 };

/// Cleans with a clock that is this many days ahead.
fn gc(project: &Project, days: u32, dry_run: bool) -> GcSummary {
    gc_with(&project.spaces(), days, dry_run, Some(RunPhase::Ended))
}

/// The same for a store with the given knowledge of all runs.
fn gc_with(spaces: &LocalFiles, days: u32, dry_run: bool, phase: Option<RunPhase>) -> GcSummary {
    let known = |phase| ["r1", "r2", "r10"].map(|run| (run.to_owned(), phase)).into();
    let options = GcOptions {
        dry_run,
        workspaces_older_than: DAY,
        salvage_older_than: DAY * 30,
        runs: phase.map(known).unwrap_or_default(),
        now: SystemTime::now() + DAY * days,
    };
    spaces.gc(&options).expect("cleaned")
}

fn why(report: &GcSummary, what: &str) -> String {
    let kept = report.kept.iter().find(|kept| kept.what == what);
    kept.map(|kept| kept.why.clone()).unwrap_or_default()
}

fn worked_in(project: &Project) -> Run {
    let run = project.run("r1");
    write(&run.root, "a", "work\n");
    write(&run.root, "dir/new", "more work\n");
    run
}

#[test]
fn only_what_is_ended_old_and_salvaged_goes() {
    let project = Project::repository(&[("a", "a\n"), (".gitignore", "target\n")]);
    let run = worked_in(&project);
    write(&run.root, "target/out", "ignored\n");
    assert!(why(&gc(&project, 2, false), "workspace r1/1").contains("not salvaged"));
    let salvaged = run.space.salvage("r1", 1).expect("salvaged");
    assert_eq!(salvaged.left_out_count, 1);
    assert_eq!(why(&gc(&project, 0, false), "workspace r1/1"), "not old enough");
    for (open, said) in [(Some(RunPhase::Open), "it is open"), (None, "the journal does not know it")] {
        let report = gc_with(&project.spaces(), 2, false, open);
        assert_eq!(why(&report, "run r1"), said);
        assert_eq!(report.kept[0].whole_run.as_deref(), Some("r1"));
    }
    write(&run.root, "late", "after salvage\n");
    assert!(why(&gc(&project, 2, false), "workspace r1/1").contains("salvage it again"));
    run.space.salvage("r1", 1).expect("salvaged");

    let dry = gc(&project, 2, true);
    assert_eq!(dry.removed, ["workspace r1/1"]);
    assert!(dry.freed_bytes > 0 && run.root.exists());
    let done = gc(&project, 2, false);
    assert_eq!(done.removed, ["workspace r1/1"]);
    assert!(!run.root.exists());
    assert_eq!(fs::read_dir(project.state().join("trash")).expect("listed").count(), 0);
    assert_eq!(read(&project.dir(), "a"), "a\n");
}

#[test]
fn salvaged_work_is_listed_restored_and_forgotten_when_it_is_old() {
    let project = Project::repository(&[("a", "a\n")]);
    let run = worked_in(&project);
    symlink("a", run.root.join("link")).expect("made");
    run.space.salvage("r1", 1).expect("salvaged");
    let listed = run.space.salvages().expect("listed");
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].agent.as_str(), listed[0].attempt, listed[0].files), ("r1", 1, 3));

    let target = project.state().with_file_name("restored");
    assert_eq!(run.space.restore("r1", 1, &target).expect("restored"), 3);
    let mut expected = listing(&run.root);
    expected.retain(|path, _| !path.starts_with(".git"));
    assert_eq!(listing(&target), expected);
    let error = run.space.restore("r1", 1, &target).expect_err("not empty");
    assert!(error.to_string().contains("is not empty"), "{error}");
    assert!(run.space.restore("r1", 2, &target.join("x")).is_err());
    assert_eq!(listing(&target), expected);

    let report = gc(&project, 2, false);
    assert_eq!(why(&report, "salvaged work of r1/1"), "not old enough");
    assert!(run.space.read_ref(&salvage_ref("r1", 1)).expect("read").is_some());
    let report = gc(&project, 31, false);
    assert_eq!(report.removed, ["salvaged work of r1/1"]);
    assert!(run.space.read_ref(&salvage_ref("r1", 1)).expect("read").is_none());
}

#[test]
fn a_crash_leaves_trash_that_the_next_call_removes() {
    let project = Project::repository(&[("a", "a\n")]);
    let run = worked_in(&project);
    run.space.salvage("r1", 1).expect("salvaged");
    let mut options = project.options.clone();
    options.faults = Some(std::sync::Arc::new(|point: &'static str| {
        assert!(point != "workspace.remove.after_rename", "crash");
    }));
    let spaces = project.spaces_with(options);
    let crash = std::panic::AssertUnwindSafe(|| gc_with(&spaces, 2, false, Some(RunPhase::Ended)));
    assert!(std::panic::catch_unwind(crash).is_err());
    assert!(!run.root.exists());
    assert_eq!(fs::read_dir(project.state().join("trash")).expect("listed").count(), 1);
    let report = gc(&project, 2, false);
    assert!(report.removed.iter().any(|removed| removed.starts_with("trash ")), "{report:?}");
    assert_eq!(fs::read_dir(project.state().join("trash")).expect("listed").count(), 0);
}

#[test]
fn a_run_is_removed_whole_but_never_with_work_that_is_nowhere_else() {
    let project = Project::repository(&[("a", "a\n")]);
    let run = worked_in(&project);
    let other = project.run("r10");
    assert!(project.spaces().remove_run("r1").is_err());
    assert_eq!(read(&run.root, "dir/new"), "more work\n");
    run.space.salvage("r1", 1).expect("salvaged");
    let report = project.spaces().remove_run("r1").expect("removed");
    assert_eq!(report.removed, ["workspace r1/1", "run r1"]);
    assert!(!project.state().join("runs/r1").exists());
    let git = run.space.git().git_dir().to_owned();
    let refs = ask(&git, &["for-each-ref", "--format=%(refname)"], b"").1;
    // The work ref of an overlay is created by its first change.
    let work = if crate::kind::are_overlays() { "" } else { "refs/posse/work/r10/1\n" };
    assert_eq!(refs, format!("refs/posse/base/r10\n{work}"), "the other run's are untouched");
    assert!(other.root.exists());
    assert!(other.space.snapshot("r10", 1).is_ok());
}

#[test]
fn a_scratch_directory_is_nobodys_work() {
    let project = Project::repository(&[("a", "a\n")]);
    let run = project.run("r1");
    let scratch = run.space.scratch("r1", &run.base).expect("made");
    write(&scratch.dir, "left", "by a check\n");
    let report = gc(&project, 2, false);
    assert_eq!(report.removed, ["workspace r1.0/1"], "{report:?}");
    assert!(!scratch.dir.exists() && run.root.exists());
}

#[test]
fn what_was_set_aside_is_kept_and_named() {
    let project = Project::repository(&[("a", "a\n")]);
    let run = worked_in(&project);
    run.space.salvage("r1", 1).expect("salvaged");
    let aside = project.state().join("runs/r1/workspaces/r1/torn-1");
    write(&aside, "files/a", "perhaps work\n");
    let report = gc(&project, 2, false);
    assert!(why(&report, &aside.to_string_lossy()).contains("look at it"), "{report:?}");
    let error = project.spaces().remove_run("r1").expect_err("kept");
    assert!(error.to_string().contains("torn-1"), "{error}");
    assert_eq!(read(&aside, "files/a"), "perhaps work\n");
    fs::remove_dir_all(&aside).expect("removed");
    project.spaces().remove_run("r1").expect("removed");
}

#[test]
fn a_project_without_runs_goes_as_a_whole() {
    let project = Project::repository(&[("a", "a\n")]);
    let run = project.run("r1");
    run.space.salvage("r1", 1).expect("salvaged");
    project.spaces().remove_run("r1").expect("removed");
    assert!(gc(&project, 0, false).removed.is_empty());
    assert_eq!(gc(&project, 2, false).removed.len(), 1);
    assert_eq!(fs::read_dir(project.state().join("projects")).expect("listed").count(), 0);
    project.run("r2");
}

/// A git that fails on every third call.
fn failing_git(dir: &Path) -> PathBuf {
    let (count, shim) = (dir.join("count"), dir.join("git"));
    let text = format!(
        "#!/bin/sh\nread n < '{0}'\nn=$(( (n * 1103515245 + 12345) % 2147483648 ))\necho $n > '{0}'\n\
         if [ $(( n / 65536 % 3 )) = 0 ]; then echo 'fatal: shim' >&2; exit 128; fi\nexec git \"$@\"\n",
        count.display()
    );
    fs::write(&count, "1\n").expect("written");
    fs::write(&shim, text).expect("written");
    fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("set");
    shim
}

/// Makes random changes, like those of an agent that ended.
fn make_dirty(dir: &Path, dice: &mut Dice) {
    for _ in 0..dice.below(4) {
        let name = dice.pick(&["a", "dir/b", "c d", "deep/er/e", "ü", "-f"]);
        let path = dir.join(name);
        match dice.below(7) {
            0 => drop(fs::remove_file(&path)),
            1 => {
                if fs::remove_file(&path).is_ok() {
                    symlink("elsewhere", &path).expect("made");
                }
            }
            2 => write(dir, ".gitignore", dice.pick(&["*.log\n", "dir/\n", "*\n"])),
            3 => write(dir, "x.log", format!("{}", dice.below(1000))),
            4 => {
                drop(fs::create_dir_all(dir.join("nested/.git")));
                write(dir, "nested/file", format!("{}", dice.below(1000)));
            }
            5 => {
                write(dir, "x/git~1/config", format!("keep {}", dice.below(1000)));
            }
            _ => {
                if !path.is_symlink() {
                    write(dir, name, format!("content {}\n", dice.below(1000)));
                }
            }
        }
    }
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("listed").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a type");
        if kind.is_dir() {
            fs::create_dir(&target).expect("made");
            copy_files(&source, &target);
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source).expect("read"), &target).expect("linked");
        } else if kind.is_file() {
            drop(fs::copy(&source, &target));
        }
    }
}

/// The files of a workspace that git itself does not ignore.
fn work(dir: &Path) -> Vec<(PathBuf, (u32, Vec<u8>))> {
    // Git cannot work in the mount of an overlay, which has no path.
    let copy = tempfile::tempdir().expect("a directory");
    copy_files(dir, copy.path());
    let ignored = ask(copy.path(), &["ls-files", "-z", "--others", "--ignored", "--exclude-standard"], b"").1;
    let ignored: Vec<&str> = ignored.split_terminator('\0').collect();
    let is_work = |path: &PathBuf| {
        let text = path.to_string_lossy();
        !path.iter().any(|part| part == ".git") && !ignored.iter().any(|ignored| *ignored == text)
    };
    listing(dir).into_iter().filter(|(path, file)| file.0 != 0o040_000 && is_work(path)).collect()
}

/// Asserts that every file is in a commit that a ref reaches.
fn assert_reachable(git_dir: &Path, work: &[(PathBuf, (u32, Vec<u8>))], context: &str) {
    let objects = ask(git_dir, &["rev-list", "--objects", "--all", "--no-object-names"], b"").1;
    for (path, (_, content)) in work {
        let mut name = Sha1::new();
        name.update(format!("blob {}\0", content.len()));
        name.update(content);
        let name = ObjectId::from_bytes(name.finalize().into()).to_string();
        assert!(objects.contains(&name), "{context}: {} is lost", path.display());
    }
}

#[test]
fn dirty_states_with_a_git_that_fails_lose_nothing() {
    let project =
        Project::repository(&[("a", "a\n"), ("dir/b", "b\n"), ("c d", "c\n"), ("deep/er/e", "e\n")]);
    let shims = tempfile::tempdir().expect("a directory");
    let options = WorkspaceOptions { git: failing_git(shims.path()), ..project.options.clone() };
    let failing = project.spaces_with(options);
    let run = project.run("r1");
    let git_dir = run.space.git().git_dir().to_owned();
    let (mut removed, mut kept) = (0, 0);
    for state in 0..STATES {
        let mut dice = Dice::new(state as u64 + 7);
        let agent = format!("r1.{state}");
        let dir = run.space.make(&agent, 1, &run.base).expect("made").dir;
        make_dirty(&dir, &mut dice);
        let space = failing.open("r1").expect("open");
        if dice.below(4) > 0 {
            // It may fail. Then nothing may be removed.
            drop(space.salvage(&agent, 1));
        }
        if dice.below(4) == 0 {
            make_dirty(&dir, &mut dice);
        }
        let before = work(&dir);
        if dice.below(3) == 0 {
            gc_with(&failing, 2, false, Some(RunPhase::Ended));
        } else {
            drop(space.remove(&agent, 1));
        }
        let home = run.space.dir_of(&agent, 1).with_file_name("");
        if home.exists() {
            assert_eq!(work(&dir), before, "state {state}");
            kept += 1;
        } else {
            assert_reachable(&git_dir, &before, &format!("state {state}"));
            removed += 1;
        }
        if home.exists() {
            // Cleans up, so that the next cases stay quick. Only a user can remove files that no tree can contain.
            drop(fs::remove_dir_all(dir.join("x/git~1")));
            let before = work(&dir);
            run.space.salvage(&agent, 1).expect("salvaged");
            run.space.remove(&agent, 1).expect("removed");
            assert_reachable(&git_dir, &before, &format!("state {state}, at last"));
        }
    }
    assert!(removed > STATES / 10 && kept > STATES / 10, "{removed} removed, {kept} kept");
    assert!(run.space.snapshot("r1", 1).is_ok(), "the root's workspace is there");
    assert_eq!(ask(&git_dir, &["fsck", "--strict", "--no-dangling"], b"").0, 0);
}

/// Nested directories, deeper than the longest path.
fn nest(top: &Path) {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    const DEEP: usize = 2_500;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    fs::create_dir_all(top).expect("made");
    let mut dir = openat(CWD, top, flags, Mode::empty()).expect("opened");
    for _ in 0..DEEP {
        mkdirat(&dir, "d", Mode::from_raw_mode(0o755)).expect("made");
        dir = openat(&dir, "d", flags, Mode::empty()).expect("opened");
    }
}

#[test]
fn directories_that_are_deeper_than_any_path_are_cleaned_wherever_they_are() {
    let project = Project::repository(&[("a", "a\n"), (".gitignore", "target\n")]);
    let run = worked_in(&project);
    let attempt = run.space.dir_of("r1", 1).with_file_name("");
    let state = project.state();
    let scratch = run.space.scratch("r1", &run.base).expect("made");
    let scratch_dir = run.space.make(&scratch.agent, scratch.attempt, &run.base).expect("found").dir;
    run.space.shared(&run.base).expect("made");
    let places = [
        run.root.join("target/deep"),
        attempt.join("layers/x/upper"),
        scratch_dir.join("deep"),
        state.join("runs/r1/shared/deep"),
        state.join("trash/left-1"),
    ];
    for place in &places {
        nest(place);
    }
    run.space.salvage("r1", 1).expect("what is ignored is not looked into");
    let report = gc(&project, 2, false);
    for place in &places {
        assert!(fs::symlink_metadata(place).is_err(), "{}: {report:?}", place.display());
    }
    assert_eq!(fs::read_dir(state.join("trash")).expect("listed").count(), 0, "{report:?}");
    project.spaces().remove_run("r1").expect("removed");
}
