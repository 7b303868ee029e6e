//! Applying a result to the user's checkout: all of it or nothing, and never over the user's changes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posse_engine::ports::ApplyError;

use crate::plumbing::listing;
use crate::project::{Project, Run, read, set_executable, write};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const FILES: &[(&str, &str)] = &[
    ("a", "a\n"),
    ("b/c", "c\n"),
    ("b/d", "d\n"),
    ("e/f/g", "g\n"),
    ("h", "h\n"),
    ("i/j", "j\n"),
    ("text", LINES),
];

/// A run with every kind of change.
fn ready(project: &Project) -> Run {
    let run = project.run("r1");
    let dir = &run.root;
    write(dir, "a", "changed\n");
    fs::remove_file(dir.join("b/c")).expect("removed");
    fs::remove_dir_all(dir.join("e")).expect("removed");
    set_executable(dir, "b/d");
    fs::remove_file(dir.join("h")).expect("removed");
    write(dir, "h/inner", "inner\n");
    fs::remove_dir_all(dir.join("i")).expect("removed");
    write(dir, "i", "a file now\n");
    write(dir, "new/deep/file", "\0binary");
    symlink("a", dir.join("link")).expect("made");
    write(dir, "text", LINES.replace('1', "one"));
    run.result();
    run
}

fn files(dir: &std::path::Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = listing(dir);
    found.retain(|path, _| !path.starts_with(".git"));
    found
}

fn conflict(run: &Run, project: &Project) -> Vec<String> {
    let before = listing(&project.dir());
    let files = match run.space.apply(&project.dir()) {
        Err(ApplyError::Conflict(found)) => found.files.into_iter().map(|file| file.path).collect(),
        other => panic!("no conflict: {other:?}"),
    };
    assert_eq!(listing(&project.dir()), before, "nothing was written");
    files
}

#[test]
fn every_kind_of_difference_arrives_and_a_second_time_changes_nothing() {
    for project in [Project::repository(FILES), Project::folder(FILES)] {
        let run = ready(&project);
        let git = listing(&project.dir()).into_iter().filter(|(path, _)| path.starts_with(".git"));
        let git: BTreeMap<_, _> = git.collect();
        let applied = run.space.apply(&project.dir()).expect("applied");
        assert_eq!((applied.files, applied.already, applied.merged), (11, 0, 0));
        assert_eq!(files(&project.dir()), files(&run.root));
        let after = listing(&project.dir()).into_iter().filter(|(path, _)| path.starts_with(".git"));
        assert_eq!(after.collect::<BTreeMap<_, _>>(), git, "HEAD, index and all");
        let again = run.space.apply(&project.dir()).expect("applied");
        assert_eq!(again.files, 0);
        assert_eq!(files(&project.dir()), files(&run.root));
    }
}

#[test]
fn a_dirty_tree_and_a_moved_head_do_not_matter_where_they_do_not_meet() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    write(&project.dir(), "untracked", "the person's\n");
    write(&project.dir(), "b/other", "the person's\n");
    project.git(&["add", "b/other"]);
    project.git(&["commit", "-q", "-m", "second"]);
    let head = project.git(&["rev-parse", "HEAD"]);
    run.space.apply(&project.dir()).expect("applied");
    assert_eq!(project.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(read(&project.dir(), "untracked"), "the person's\n");
    assert_eq!(read(&project.dir(), "b/other"), "the person's\n");
    assert_eq!(read(&project.dir(), "a"), "changed\n");
}

#[test]
fn files_the_person_changed_too_are_conflicts_and_nothing_is_written() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    write(&project.dir(), "a", "the person's\n");
    write(&project.dir(), "b/c", "the person's\n");
    write(&project.dir(), "link", "the person's\n");
    write(&project.dir(), "i/more", "the person's\n");
    fs::remove_file(project.dir().join("b/d")).expect("removed");
    write(&project.dir(), "text", LINES.replace('1', "eins"));
    assert_eq!(conflict(&run, &project), ["a", "b/c", "b/d", "i", "link", "text"]);
}

#[test]
fn changes_to_one_file_that_do_not_meet_are_merged() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    write(&project.dir(), "text", LINES.replace('9', "nine"));
    let applied = run.space.apply(&project.dir()).expect("applied");
    assert_eq!(applied.merged, 1);
    let both = LINES.replace('1', "one").replace('9', "nine");
    assert_eq!(read(&project.dir(), "text"), both);
    let again = run.space.apply(&project.dir()).expect("applied");
    assert_eq!((again.files, again.merged), (0, 0));
    assert_eq!(read(&project.dir(), "text"), both);
}

#[test]
fn what_the_person_did_after_applying_is_not_undone() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    run.space.apply(&project.dir()).expect("applied");
    let edited = LINES.replace('1', "one").replace('9', "nine");
    write(&project.dir(), "text", &edited);
    assert_eq!(run.space.apply(&project.dir()).expect("nothing to do").files, 0);
    assert_eq!(read(&project.dir(), "text"), edited);
    write(&project.dir(), "a", "edited after\n");
    assert_eq!(conflict(&run, &project), ["a"]);
}

#[test]
fn what_the_person_undid_is_applied_again() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    run.space.apply(&project.dir()).expect("applied");
    project.git(&["stash", "--include-untracked"]);
    assert_eq!(read(&project.dir(), "a"), "a\n");
    assert_eq!(run.space.apply(&project.dir()).expect("applied").files, 11);
    assert_eq!(files(&project.dir()), files(&run.root));
}

#[test]
fn a_result_that_went_on_is_applied_upon_the_earlier_one() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    run.space.apply(&project.dir()).expect("applied");
    write(&run.root, "a", "changed again\n");
    run.result();
    assert_eq!(run.space.apply(&project.dir()).expect("applied").files, 1);
    assert_eq!(files(&project.dir()), files(&run.root));
}

#[test]
fn line_ends_stay_as_the_person_has_them() {
    let project = Project::repository(&[("text", LINES), ("same", LINES)]);
    project.git(&["config", "core.autocrlf", "true"]);
    for name in ["text", "same"] {
        fs::remove_file(project.dir().join(name)).expect("removed");
    }
    project.git(&["checkout", "-q", "--", "."]);
    assert!(read(&project.dir(), "text").contains("\r\n"));
    let run = project.run("r1");
    let text = read(&run.root, "text");
    write(&run.root, "text", text.replace('1', "one"));
    fs::remove_file(run.root.join("same")).expect("removed");
    run.result();
    run.space.apply(&project.dir()).expect("applied");
    assert_eq!(read(&project.dir(), "text"), LINES.replace('1', "one").replace('\n', "\r\n"));
    assert!(!project.dir().join("same").exists());
    assert_eq!(project.git(&["status", "--porcelain"]), " D same\n M text\n");
}

#[test]
fn permissions_are_kept_and_links_in_the_way_lead_nowhere() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    let private = fs::Permissions::from_mode(0o600);
    fs::set_permissions(project.dir().join("a"), private).expect("set");
    run.space.apply(&project.dir()).expect("applied");
    let mode =
        |path: &str| fs::metadata(project.dir().join(path)).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode("a"), 0o600);
    assert_ne!(mode("b/d") & 0o100, 0);

    let project = Project::repository(FILES);
    let run = ready(&project);
    let outside = tempfile::tempdir().expect("a directory");
    write(outside.path(), "c", "c\n");
    write(outside.path(), "d", "d\n");
    fs::remove_dir_all(project.dir().join("b")).expect("removed");
    symlink(outside.path(), project.dir().join("b")).expect("made");
    symlink(outside.path(), project.dir().join("new")).expect("made");
    let before = listing(outside.path());
    let conflicts = conflict(&run, &project);
    assert_eq!(conflicts, ["b/d", "new/deep/file"]);
    assert_eq!(listing(outside.path()), before);
}

#[test]
fn a_crash_at_any_point_is_finished_by_applying_again() {
    let mut crashes = 0;
    for after in 0.. {
        let project = Project::repository(FILES);
        let run = ready(&project);
        write(&project.dir(), "text", LINES.replace('9', "nine"));
        let passed = AtomicUsize::new(0);
        let mut options = project.options.clone();
        options.faults = Some(Arc::new(move |point: &'static str| {
            assert!(
                !(point.starts_with("workspace.apply") && passed.fetch_add(1, Ordering::Relaxed) == after),
                "crash at {point}"
            );
        }));
        let space = project.spaces_with(options).open("r1").expect("open");
        let stopped =
            catch_unwind(AssertUnwindSafe(|| space.apply(&project.dir()).expect("applied"))).is_err();
        // A panic cleans up, so this restores what a real crash would leave behind.
        let record = project.state().join("runs/r1/apply.staging");
        if let Ok(staging) = fs::read_to_string(&record) {
            write(&PathBuf::from(staging), "0", "half");
        }
        run.space.apply(&project.dir()).expect("finished");
        let mut expected = files(&run.root);
        let both = LINES.replace('1', "one").replace('9', "nine");
        expected.insert("text".into(), (0o100_644, both.into_bytes()));
        assert_eq!(files(&project.dir()), expected, "after {after} points");
        if !stopped {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 10, "only {crashes} points were passed");
}

#[test]
fn a_result_that_is_named_as_what_waits_to_be_applied_is_applied_whole() {
    for path in [".posse-apply-r1", ".posse-apply-r1/0", ".posse-apply-r1/deep/x", ".posse-apply-"] {
        let project = Project::repository(FILES);
        let run = project.run("r1");
        write(&run.root, path, "made\n");
        write(&run.root, "a", "changed\n");
        write(&run.root, "z", "last\n");
        run.result();
        run.space.apply(&project.dir()).expect("applied");
        assert_eq!(files(&project.dir()), files(&run.root), "{path}");
    }
}

#[test]
fn a_folder_of_the_persons_that_is_named_like_it_is_kept() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    write(&project.dir(), ".posse-apply-r1/mine", "mine\n");
    run.space.apply(&project.dir()).expect("applied");
    assert_eq!(read(&project.dir(), ".posse-apply-r1/mine"), "mine\n");
    let left = fs::read_dir(project.dir()).expect("listed").flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with(".posse-apply-"));
    assert_eq!(left.count(), 1, "and nothing of ours is left");
}
