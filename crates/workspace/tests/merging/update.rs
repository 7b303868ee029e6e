//! Updating a workspace: old becomes new, anything else is kept, and a crash is recovered.

use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posse_engine::ports::{Merge, UpdateOutcome};
use posse_workspace::work_ref;

use crate::plumbing::{listing, request};
use crate::project::{Project, Run, read, set_executable, write};

const FILES: &[(&str, &str)] =
    &[("a", "a\n"), ("b/c", "c\n"), ("b/d", "d\n"), ("e/f/g", "g\n"), ("h", "h\n"), ("i/j", "j\n")];

/// A child's change with every kind of difference.
fn change(dir: &std::path::Path) {
    write(dir, "a", "changed\n");
    fs::remove_file(dir.join("b/c")).expect("removed");
    fs::remove_dir_all(dir.join("e")).expect("removed");
    set_executable(dir, "b/d");
    // A file becomes a directory, a directory a file, a file a link.
    fs::remove_file(dir.join("h")).expect("removed");
    write(dir, "h/inner", "inner\n");
    fs::remove_dir_all(dir.join("i")).expect("removed");
    write(dir, "i", "a file now\n");
    write(dir, "new/deep/file", "\0binary");
    symlink("a", dir.join("link")).expect("made");
}

#[test]
fn every_kind_of_difference_arrives() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    let (agent, dir, base) = run.child(1);
    change(&dir);
    assert!(matches!(run.integrate(&agent, base), Some(Merge::Merged { .. })));
    let mut expected = listing(&dir);
    let mut found = listing(&run.root);
    for tree in [&mut expected, &mut found] {
        tree.retain(|path, _| !path.starts_with(".git"));
    }
    assert_eq!(found, expected);
    assert!(!run.root.with_file_name("staging").exists());
    let again = run.space.snapshot("r1", 1).expect("snapshot");
    assert_eq!(
        run.space.read_ref(&work_ref("r1", 1)).expect("read"),
        Some(again.commit),
        "nothing new to commit"
    );
}

#[test]
fn what_was_done_meanwhile_is_kept_and_named() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    let (agent, dir, base) = run.child(1);
    change(&dir);
    let theirs = run.space.snapshot(&agent, 1).expect("snapshot").commit;
    let Some(Merge::Merged { commit, .. }) = run.space.merge(&request(base, base, theirs)).expect("answered")
    else {
        panic!("not merged")
    };
    write(&run.root, "a", "the root's\n");
    write(&run.root, "b/c", "the root's\n");
    write(&run.root, "i/untracked", "the root's\n");
    fs::remove_file(run.root.join("b/d")).expect("removed");
    let updated = run.space.update("r1", 1, &base, &commit).expect("updated");
    assert_eq!(updated.conflicts_left, ["a", "b/c", "b/d", "i"]);
    assert_eq!(read(&run.root, "a"), "the root's\n");
    assert_eq!(read(&run.root, "b/c"), "the root's\n");
    assert_eq!(read(&run.root, "i/untracked"), "the root's\n");
    assert_eq!(read(&run.root, "h/inner"), "inner\n");
}

#[test]
fn a_line_that_somebody_else_moved_is_left_alone() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    let (agent, dir, base) = run.child(1);
    change(&dir);
    let theirs = run.space.snapshot(&agent, 1).expect("snapshot").commit;
    write(&run.root, "own", "moved on\n");
    let moved = run.space.snapshot("r1", 1).expect("snapshot").commit;
    let before = listing(&run.root);
    let error = run.space.update("r1", 1, &base, &theirs).expect_err("moved");
    assert!(error.to_string().contains("another process moved it"), "{error}");
    assert_eq!(listing(&run.root), before);
    assert_eq!(run.space.read_ref(&work_ref("r1", 1)).expect("read"), Some(moved));
}

#[test]
fn links_in_the_way_lead_nowhere() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    let outside = tempfile::tempdir().expect("a directory");
    write(outside.path(), "c", "c\n");
    write(outside.path(), "deep/file", "outside\n");
    let (agent, dir, base) = run.child(1);
    change(&dir);
    let theirs = run.space.snapshot(&agent, 1).expect("snapshot").commit;
    fs::remove_dir_all(run.root.join("b")).expect("removed");
    symlink(outside.path(), run.root.join("b")).expect("made");
    symlink(outside.path(), run.root.join("new")).expect("made");
    let before = listing(outside.path());
    let updated = run.space.update("r1", 1, &base, &theirs).expect("updated");
    assert!(updated.conflicts_left.contains(&"new/deep/file".to_owned()), "{updated:?}");
    assert_eq!(listing(outside.path()), before);
    assert!(run.root.join("new").is_symlink());
}

#[test]
fn a_crash_at_any_point_is_finished_by_the_same_call() {
    let project = Project::repository(FILES);
    let reference = project.run("r0");
    let (_, dir, _) = reference.child(1);
    change(&dir);
    let mut expected = listing(&dir);
    expected.retain(|path, _| !path.starts_with(".git"));

    let mut crashes = 0;
    for after in 0.. {
        let run = project.run(&format!("r{}", after + 1));
        let (agent, dir, base) = run.child(1);
        change(&dir);
        let theirs = run.space.snapshot(&agent, 1).expect("snapshot").commit;
        let stopped = update_until(&project, &run, after, &base, &theirs);
        let updated = run.space.update(&run.id, 1, &base, &theirs).expect("finished");
        assert_eq!(updated.conflicts_left, Vec::<String>::new(), "after {after} points");
        let mut found = listing(&run.root);
        found.retain(|path, _| !path.starts_with(".git"));
        assert_eq!(found, expected, "after {after} points");
        if !stopped {
            assert_eq!(updated, UpdateOutcome::default(), "there was nothing left to do");
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 8, "only {crashes} points were passed");
}

/// Updates with a crash at fault point number `after`; `false` if the update has fewer points.
fn update_until(
    project: &Project,
    run: &Run,
    after: usize,
    old: &posse_workspace::ObjectId,
    new: &posse_workspace::ObjectId,
) -> bool {
    let passed = Arc::new(AtomicUsize::new(0));
    let mut options = project.options.clone();
    options.faults = Some(Arc::new(move |point: &'static str| {
        assert!(
            !(point.starts_with("workspace.update") && passed.fetch_add(1, Ordering::Relaxed) == after),
            "crash at {point}"
        );
    }));
    let spaces = project.spaces_with(options);
    let space = spaces.open(&run.id).expect("open");
    catch_unwind(AssertUnwindSafe(|| space.update(&run.id, 1, old, new).expect("updated"))).is_err()
}
