//! Taking an apply back: all of it or nothing, and never over what the user changed since.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posse_domain::permission::Approvals;
use posse_engine::ports::{ApplyError, ConflictKind};

use crate::plumbing::listing;
use crate::project::{Project, Run, read, set_executable, write};

const LINES: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
const FILES: &[(&str, &str)] =
    &[("a", "a\n"), ("b/c", "c\n"), ("b/d", "d\n"), ("h", "h\n"), ("i/j", "j\n"), ("text", LINES)];

/// A run with every kind of change.
fn ready(project: &Project) -> Run {
    let run = project.run("r1");
    let dir = &run.root;
    write(dir, "a", "changed\n");
    fs::remove_file(dir.join("b/c")).expect("removed");
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

#[test]
fn an_undo_brings_every_path_back_and_the_result_can_be_applied_again() {
    for project in [Project::repository(FILES), Project::folder(FILES)] {
        let run = ready(&project);
        // The user's own change of another line is merged, and is there again after the undo.
        write(&project.dir(), "text", LINES.replace('9', "nine"));
        fs::set_permissions(project.dir().join("b/c"), fs::Permissions::from_mode(0o600)).expect("set");
        let before = listing(&project.dir());
        let applied = run.space.apply(&project.dir()).expect("applied");
        let after = listing(&project.dir());
        let undone = run.space.undo_apply("r1", &project.dir()).expect("undone");
        assert_eq!(undone.files, applied.files);
        assert_eq!(listing(&project.dir()), before, "permissions too");
        let again = run.space.undo_apply("r1", &project.dir());
        assert_eq!(again, Err(ApplyError::NotApplied));
        assert_eq!(run.space.apply(&project.dir()).expect("applied").files, applied.files);
        assert_eq!(listing(&project.dir()), after);
    }
}

#[test]
fn line_ends_of_the_user_come_back() {
    let crlf = LINES.replace('\n', "\r\n");
    let project = Project::repository(&[("text", LINES)]);
    project.git(&["config", "core.autocrlf", "true"]);
    let run = project.run("r1");
    write(&run.root, "text", LINES.replace('1', "one"));
    run.result();
    write(&project.dir(), "text", &crlf);
    run.space.apply(&project.dir()).expect("applied");
    assert_eq!(read(&project.dir(), "text"), crlf.replace('1', "one"));
    write(&project.dir(), "text", crlf.replace('1', "one").replace('9', "nine"));
    run.space.undo_apply("r1", &project.dir()).expect("undone");
    assert_eq!(read(&project.dir(), "text"), crlf.replace('9', "nine"));
}

/// As with LFS: git stores a pointer, and the checkout has the content.
#[test]
fn a_file_that_git_converts_is_replaced_and_comes_back() {
    let project = Project::repository(&[(".gitattributes", "*.bin filter=kept\n"), ("a", "a\n")]);
    project.git(&["config", "filter.kept.clean", "sed s/content/pointer/"]);
    for name in ["one.bin", "two.bin", "theirs.bin"] {
        write(&project.dir(), name, format!("content of {name}\n"));
    }
    project.git(&["add", "-A"]);
    project.git(&["commit", "-qm", "kept files"]);
    let run = project.run("r1");
    assert_eq!(read(&run.root, "one.bin"), "pointer of one.bin\n");
    write(&run.root, "one.bin", "\0new");
    fs::remove_file(run.root.join("two.bin")).expect("removed");
    run.result();
    let before = listing(&project.dir());
    assert_eq!(run.space.apply(&project.dir()).expect("applied").files, 2);
    assert_eq!(read(&project.dir(), "one.bin"), "\0new");
    assert!(!project.dir().join("two.bin").exists());
    run.space.undo_apply("r1", &project.dir()).expect("undone");
    assert_eq!(listing(&project.dir()), before, "the content and not the pointer");
    // A change by the user is not taken for a conversion, and a file that is no text is not merged with it.
    write(&project.dir(), "one.bin", "content by the user\n");
    let refused = run.space.apply(&project.dir()).expect_err("a conflict").to_string();
    assert!(refused.contains("one.bin"), "{refused}");
}

#[test]
fn what_the_user_changed_since_is_merged_or_named_and_nothing_is_written() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    run.space.apply(&project.dir()).expect("applied");
    write(&project.dir(), "text", LINES.replace('1', "one").replace('9', "nine"));
    write(&project.dir(), "a", "mine\n");
    fs::remove_file(project.dir().join("i")).expect("removed");
    write(&project.dir(), "b/c", "mine\n");
    let before = listing(&project.dir());
    let found = match run.space.undo_apply("r1", &project.dir()) {
        Err(ApplyError::ChangedSince(found)) => found.files,
        other => panic!("no conflict: {other:?}"),
    };
    let kinds: Vec<_> = found.iter().map(|file| (file.path.as_str(), file.kind)).collect();
    assert_eq!(kinds, [("a", ConflictKind::Lines), ("b/c", ConflictKind::Lines)]);
    let hunk = &found[0].hunks[0];
    assert_eq!((&hunk.ours.lines[..], &hunk.theirs.lines[..]), (&["mine".into()][..], &["a".into()][..]));
    assert_eq!(listing(&project.dir()), before, "nothing was written");
    write(&project.dir(), "a", "changed\n");
    fs::remove_file(project.dir().join("b/c")).expect("removed");
    let undone = run.space.undo_apply("r1", &project.dir()).expect("undone");
    assert_eq!(undone.merged, 1);
    assert_eq!(read(&project.dir(), "text"), LINES.replace('9', "nine"));
    assert_eq!(read(&project.dir(), "i/j"), "j\n");
}

#[test]
fn a_crash_at_any_point_is_finished_by_another_undo_or_by_another_apply() {
    for finish_by_undo in [true, false] {
        let mut crashes = 0;
        for after in 0.. {
            let project = Project::repository(FILES);
            let run = ready(&project);
            write(&project.dir(), "text", LINES.replace('9', "nine"));
            let before = listing(&project.dir());
            run.space.apply(&project.dir()).expect("applied");
            let applied = listing(&project.dir());
            let passed = AtomicUsize::new(0);
            let mut options = project.options.clone();
            options.faults = Some(Arc::new(move |point: &'static str| {
                let is_here = point.starts_with("workspace.apply");
                assert!(!(is_here && passed.fetch_add(1, Ordering::Relaxed) == after), "crash at {point}");
            }));
            let space = project.spaces_with(options).open("r1").expect("open");
            let undo = || space.undo_apply("r1", &project.dir()).expect("undone");
            let stopped = catch_unwind(AssertUnwindSafe(undo)).is_err();
            // A panic cleans up, so this restores what a real crash would leave behind.
            if let Ok(staging) = fs::read_to_string(project.state().join("runs/r1/apply.staging")) {
                write(&PathBuf::from(staging), "0", "half");
            }
            if stopped && finish_by_undo {
                run.space.undo_apply("r1", &project.dir()).expect("finished");
            }
            if finish_by_undo {
                assert_eq!(listing(&project.dir()), before, "after {after} points");
            } else {
                run.space.apply(&project.dir()).expect("applied again");
                assert_eq!(listing(&project.dir()), applied, "after {after} points");
                run.space.undo_apply("r1", &project.dir()).expect("undone");
                assert_eq!(listing(&project.dir()), before, "after {after} points");
            }
            if !stopped {
                break;
            }
            crashes += 1;
        }
        assert!(crashes > 10, "only {crashes} points were passed");
    }
}

#[test]
fn the_work_of_one_agent_is_applied_and_undone_by_itself_unless_the_gate_refuses_it() {
    let project = Project::repository(FILES);
    let run = ready(&project);
    let (base, result) = (run.space.compared_with().expect("a base"), run.space.result().expect("a result"));
    let before = listing(&project.dir());
    let none = Approvals::none();
    let applied = run.space.apply_work("r1.2", &project.dir(), base, result, &none).expect("applied");
    assert!(applied.files > 5, "{applied:?}");
    assert_eq!(run.space.undo_apply("r1", &project.dir()), Err(ApplyError::NotApplied));
    run.space.undo_apply("r1.2", &project.dir()).expect("undone");
    assert_eq!(listing(&project.dir()), before);

    write(&run.root, ".envrc", "export A=1\n");
    run.result();
    let result = run.space.result().expect("a result");
    match run.space.apply_work("r1.2", &project.dir(), base, result, &none) {
        Err(ApplyError::Refused { problems }) => assert!(problems[0].starts_with(".envrc: "), "{problems:?}"),
        other => panic!("not refused: {other:?}"),
    }
    assert_eq!(listing(&project.dir()), before);
}
