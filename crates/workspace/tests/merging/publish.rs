//! Publishing a result: the branch exists, and nothing else changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use posse_engine::ports::{DiffForm, DiffOptions};

use crate::plumbing::{ask, listing, plain};
use crate::project::{Project, read, write};

const FILES: &[(&str, &str)] = &[("a", "a\n"), ("dir/b", "b\n")];

/// Everything in a user's folder and repository except the objects and the branch of a run.
fn untouched(project: &Project) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = listing(&project.dir());
    found.retain(|path, _| !path.starts_with(".git/objects") && !path.starts_with(".git/refs/heads/posse"));
    found
}

/// A repository with everything a user may have in one.
fn lived_in() -> Project {
    let project = Project::repository(FILES);
    write(&project.dir(), "a", "stashed\n");
    project.git(&["stash"]);
    project.git(&["branch", "other"]);
    project.git(&["tag", "-a", "v1", "-m", "v1"]);
    project.git(&["config", "core.logAllRefUpdates", "always"]);
    write(&project.dir(), "dir/b", "staged\n");
    project.git(&["add", "-A"]);
    write(&project.dir(), "a", "dirty\n");
    write(&project.dir(), "untracked", "untracked\n");
    let canary = project.dir().join("canary");
    for hook in ["reference-transaction", "post-update", "pre-auto-gc", "post-index-change", "update"] {
        let hook = format!(".git/hooks/{hook}");
        write(&project.dir(), &hook, format!("#!/bin/sh\ntouch '{}'\n", canary.display()));
        crate::project::set_executable(&project.dir(), &hook);
    }
    project
}

#[test]
fn the_result_is_a_branch_and_nothing_else_is_different() {
    let project = lived_in();
    let before = untouched(&project);
    let run = project.run("k3f9ab2c");
    write(&run.root, "dir/b", "the run's\n");
    write(&run.root, "new", "new\n");
    let result = run.result();
    let delivered = run.space.publish().expect("delivered");
    assert_eq!(delivered.branch.as_deref(), Some("posse/k3f9ab2c"));
    assert_eq!((delivered.commit, delivered.files), (result, 2));
    assert_eq!(untouched(&project), before);
    assert_eq!(project.git(&["rev-parse", "posse/k3f9ab2c"]).trim(), result.to_string());
    assert_eq!(project.git(&["show", "posse/k3f9ab2c:dir/b"]), "the run's\n");
    assert_eq!(project.git(&["show", "posse/k3f9ab2c:untracked"]), "untracked\n");
    assert_eq!(project.git(&["rev-parse", "posse/k3f9ab2c~2"]), project.git(&["rev-parse", "HEAD"]));
    project.git(&["-c", "core.hooksPath=/dev/null", "fsck", "--strict"]);
    assert_eq!(run.space.publish().expect("delivered again"), delivered);
    assert_eq!(untouched(&project), before);
}

#[test]
fn the_branch_stands_without_the_repository_of_posse() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    write(&run.root, "dir/b", "the run's\n");
    run.result();
    run.space.publish().expect("delivered");
    drop(run);
    fs::remove_dir_all(project.state().join("projects")).expect("removed");
    project.git(&["fsck", "--strict", "--full"]);
    assert_eq!(project.git(&["show", "posse/r1:dir/b"]), "the run's\n");
}

#[test]
fn nothing_changed_is_no_branch() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    let delivered = run.space.publish().expect("delivered");
    assert_eq!((delivered.branch, delivered.files), (None, 0));
    assert_eq!(project.git(&["branch", "--list", "posse/*"]), "");
}

#[test]
fn without_a_repository_the_commit_is_kept() {
    let project = Project::folder(FILES);
    let before = listing(&project.dir());
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    let result = run.result();
    let delivered = run.space.publish().expect("delivered");
    assert_eq!((delivered.commit, delivered.branch, delivered.files), (result, None, 1));
    assert_eq!(listing(&project.dir()), before);
}

#[test]
fn a_branch_of_somebody_else_is_not_overwritten() {
    let project = Project::repository(FILES);
    project.git(&["branch", "posse/r1"]);
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    let before = project.git(&["for-each-ref"]);
    let error = run.space.publish().expect_err("taken");
    assert!(error.to_string().contains("git branch -m"), "{error}");
    assert_eq!(project.git(&["for-each-ref"]), before);
}

#[test]
fn a_branch_called_posse_is_an_error_that_says_so() {
    let project = Project::repository(FILES);
    project.git(&["branch", "posse"]);
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    let before = project.git(&["for-each-ref"]);
    let error = run.space.publish().expect_err("no room");
    assert!(error.to_string().contains("posse"), "{error}");
    assert_eq!(project.git(&["for-each-ref"]), before);
}

#[test]
fn it_works_before_the_first_commit_on_a_detached_head_and_in_a_worktree() {
    let empty = Project::folder(FILES);
    empty.git(&["init", "-q"]);
    let run = empty.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    assert_eq!(run.space.publish().expect("delivered").branch.as_deref(), Some("posse/r1"));
    empty.git(&["fsck", "--strict"]);

    let detached = Project::repository(FILES);
    detached.git(&["checkout", "-q", "--detach"]);
    let run = detached.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    run.space.publish().expect("delivered");
    assert_eq!(detached.git(&["show", "posse/r1:a"]), "the run's\n");

    let main = Project::repository(FILES);
    let tree = main.state().with_file_name("tree");
    main.git(&["worktree", "add", "-q", &tree.to_string_lossy()]);
    main.spaces().begin("r1", &tree).expect("begun");
    let space = main.spaces().open("r1").expect("open");
    let root = space.make("r1", 1, &space.base().expect("a base").commit).expect("made").dir;
    write(&root, "a", "the run's\n");
    space.snapshot("r1", 1).expect("snapshot");
    space.publish().expect("delivered");
    assert_eq!(plain(&tree, &["show", "posse/r1:a"], b""), "the run's\n");
}

/// A repository with its refs in a reftable.
fn with_tables() -> Project {
    let project = Project::folder(FILES);
    project.git(&["init", "-q", "-b", "main", "--ref-format=reftable"]);
    project.git(&["add", "-A"]);
    project.git(&["commit", "-q", "-m", "first"]);
    project
}

#[test]
fn refs_in_tables_get_the_branch_and_keep_all_others() {
    let project = with_tables();
    project.git(&["tag", "-a", "v1", "-m", "v1"]);
    let before = project.git(&["for-each-ref"]);
    // Enough branches that git compacts the tables meanwhile.
    let names: Vec<String> = (1..=12).map(|number| format!("r{number}")).collect();
    for name in &names {
        let run = project.run(name);
        write(&run.root, "a", format!("{name}\n"));
        let result = run.result();
        let delivered = run.space.publish().expect("delivered");
        assert_eq!(delivered.branch, Some(format!("posse/{name}")));
        assert_eq!(project.git(&["rev-parse", &format!("posse/{name}")]).trim(), result.to_string());
        assert_eq!(run.space.publish().expect("delivered again"), delivered);
    }
    for name in &names {
        assert_eq!(project.git(&["show", &format!("posse/{name}:a")]), format!("{name}\n"));
    }
    let listed = project.git(&["for-each-ref"]);
    assert!(before.lines().all(|line| listed.contains(line)), "{before}\n{listed}");
    assert_eq!(listed.lines().count(), before.lines().count() + names.len());
    // Git can still use the repository.
    project.git(&["branch", "mine"]);
    project.git(&["pack-refs", "--all"]);
    project.git(&["fsck", "--strict"]);
    let tables = fs::read_dir(project.dir().join(".git/reftable")).expect("listed").count();
    assert_eq!(tables, 2, "one table and the list");
}

#[test]
fn refs_in_tables_that_somebody_is_changing_are_left_alone() {
    let project = with_tables();
    project.git(&["branch", "posse/taken"]);
    let run = project.run("taken");
    write(&run.root, "a", "the run's\n");
    run.result();
    let error = run.space.publish().expect_err("taken").to_string();
    assert!(error.contains("git branch -m"), "{error}");
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    let before = listing(&project.dir().join(".git/reftable"));
    let lock = project.dir().join(".git/reftable/tables.list.lock");
    fs::write(&lock, "").expect("written");
    let error = run.space.publish().expect_err("locked").to_string();
    assert!(error.contains("tables.list.lock"), "{error}");
    fs::remove_file(&lock).expect("removed");
    assert_eq!(listing(&project.dir().join(".git/reftable")), before, "nothing is left there");
    run.space.publish().expect("delivered");
    assert_eq!(project.git(&["show", "posse/r1:a"]), "the run's\n");
}

#[test]
fn a_shared_repository_stays_shared_and_what_a_killed_delivery_left_is_removed() {
    use std::os::unix::fs::PermissionsExt;
    let project = Project::repository(FILES);
    let heads = project.dir().join(".git/refs/heads");
    let packs = project.dir().join(".git/objects/pack");
    fs::set_permissions(&heads, fs::Permissions::from_mode(0o2770)).expect("set");
    // No process has such a high id.
    let left = packs.join("pack-1.pack.tmp-4999999-0.lock");
    fs::write(&left, "half").expect("written");
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    run.space.publish().expect("delivered");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!((mode(&heads.join("posse")), mode(&heads.join("posse/r1"))), (0o2770, 0o660));
    assert!(!left.exists());
    let pack = fs::read_dir(&packs).expect("listed").flatten().map(|entry| mode(&entry.path()));
    assert!(pack.into_iter().all(|mode| mode & 0o222 == 0));
}

#[test]
fn a_branch_beneath_that_of_the_result_and_one_that_was_removed_are_told_apart() {
    let project = Project::repository(FILES);
    project.git(&["branch", "posse/r1/x"]);
    project.git(&["branch", "posse/r2/x"]);
    // After packing, one branch is a line in a file, and the directory of the other is empty.
    project.git(&["pack-refs", "--all"]);
    project.git(&["branch", "-D", "posse/r2/x"]);
    fs::create_dir_all(project.dir().join(".git/refs/heads/posse/r2/y")).expect("made");
    let before = project.git(&["for-each-ref"]);
    for (name, works) in [("r1", false), ("r2", true)] {
        let run = project.run(name);
        write(&run.root, "a", "the run's\n");
        run.result();
        let delivered = run.space.publish();
        assert_eq!(delivered.is_ok(), works, "{delivered:?}");
        let in_the_way = delivered.err().map_or_else(String::new, |error| error.to_string());
        assert_eq!(in_the_way.contains("in the way"), !works, "{in_the_way}");
    }
    assert!(project.git(&["for-each-ref"]).contains(before.trim()));
    assert_eq!(project.git(&["show", "posse/r2:a"]), "the run's\n");
}

#[test]
fn a_history_that_was_rewritten_meanwhile_is_brought_along() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    run.result();
    project.git(&["checkout", "-q", "--orphan", "fresh"]);
    project.git(&["commit", "-q", "-m", "fresh"]);
    project.git(&["branch", "-D", "main"]);
    project.git(&["-c", "gc.reflogExpire=now", "reflog", "expire", "--expire=now", "--all"]);
    project.git(&["gc", "-q", "--prune=now"]);
    run.space.publish().expect("delivered");
    assert_eq!(project.git(&["show", "posse/r1:a"]), "the run's\n");
    assert_eq!(ask(&project.dir(), &["fsck", "--strict", "--connectivity-only"], b"").0, 0);
}

#[test]
fn a_diff_has_three_forms_and_runs_nothing() {
    let project = Project::repository(FILES);
    let canary = project.state().with_file_name("canary");
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    write(&run.root, "bin", b"\0\x01");
    write(&run.root, ".gitattributes", "* diff=evil\n");
    let result = run.result();
    // Not even a driver that is configured in Posse's own repository is run.
    let repository = run.space.git().git_dir().to_owned();
    for key in ["command", "textconv"] {
        let touch = format!("touch '{}'; cat", canary.display());
        plain(&repository, &["config", &format!("diff.evil.{key}"), &touch], b"");
    }
    let text = |options| {
        let text = run.space.diff(&run.base, &result, options).expect("a diff");
        String::from_utf8_lossy(&text).into_owned()
    };
    let patch = text(DiffOptions::default());
    assert!(patch.contains("-a\n+the run's\n") && patch.contains("Binary files"), "{patch}");
    let stat = text(DiffOptions { form: DiffForm::Stat, colour: false });
    assert!(stat.contains(" 3 files changed"), "{stat}");
    let names = text(DiffOptions { form: DiffForm::NameStatus, colour: false });
    assert_eq!(names, "A\t.gitattributes\nM\ta\nA\tbin\n");
    let coloured = text(DiffOptions { form: DiffForm::Patch, colour: true });
    assert!(coloured.contains("\u{1b}["), "{coloured}");
    assert!(!canary.exists());
    assert_eq!(read(&project.dir(), "a"), "a\n");
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn what_no_agent_may_change_is_left_out_of_the_result_and_kept() {
    let project =
        Project::repository(&[(".mcp.json", "{}\n"), ("a", "a\n"), ("x/.mcp.json", "{}\n"), ("d/e", "e\n")]);
    std::os::unix::fs::symlink("d", project.dir().join("way")).expect("made");
    std::os::unix::fs::symlink("way/e", project.dir().join("through")).expect("made");
    project.git(&["add", "-A"]);
    project.git(&["commit", "-q", "-m", "links"]);
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    write(&run.root, ".mcp.json", "evil\n");
    write(&run.root, "deep/.envrc", "evil\n");
    write(&run.root, ".github/workflows/opened.yml", "on: push\n");
    // A file is now in the way of the protected file's directory.
    fs::remove_dir_all(run.root.join("x")).expect("removed");
    write(&run.root, "x", "in the way\n");
    // An unchanged link would leave the tree through the changed one.
    fs::remove_file(run.root.join("way")).expect("removed");
    std::os::unix::fs::symlink("/etc", run.root.join("way")).expect("made");
    std::os::unix::fs::symlink("../../out", run.root.join("new-way")).expect("made");
    let made = run.result();
    run.space.salvage("r1", 1).expect("kept");
    let protected = names(&[".mcp.json", ".envrc", ".github/workflows"]);
    let left_out = run.space.leave_out(&protected, &names(&[".github/**"])).expect("left out");
    let told = left_out.join("\n");
    for path in [
        ".mcp.json: `.mcp.json` is protected",
        "deep/.envrc: ",
        "x/.mcp.json: ",
        "way: a symbolic link to an",
    ] {
        assert!(told.contains(path), "{path}: {told}");
    }
    assert!(!told.contains("opened.yml") && !told.contains("a: "), "{told}");
    let delivered = run.space.publish().expect("delivered");
    assert_ne!(delivered.commit, made);
    let shown = |path: &str| project.git(&["show", &format!("posse/r1:{path}")]);
    assert_eq!((shown("a"), shown(".mcp.json")), ("the run's\n".to_owned(), "{}\n".to_owned()));
    assert_eq!((shown("x/.mcp.json"), shown("way")), ("{}\n".to_owned(), "d".to_owned()));
    assert_eq!(shown(".github/workflows/opened.yml"), "on: push\n");
    assert!(!project.git(&["ls-tree", "-r", "--name-only", "posse/r1"]).contains("evil"));
    assert_eq!(
        project.git(&["diff", "--name-only", "HEAD", "posse/r1"]).lines().collect::<Vec<_>>(),
        [".github/workflows/opened.yml", "a"]
    );
    let kept = run.space.read_ref("refs/posse/salvage/r1/1").expect("read");
    assert_eq!(kept, Some(made), "what was made is kept");
    // As after a crash.
    assert_eq!(run.space.leave_out(&protected, &names(&[".github/**"])).expect("again"), left_out);
    assert_eq!(run.space.publish().expect("again"), delivered);
}

#[test]
fn a_result_with_nothing_to_leave_out_is_as_it_was_made() {
    let project = Project::repository(FILES);
    let run = project.run("r1");
    write(&run.root, "a", "the run's\n");
    let made = run.result();
    assert_eq!(run.space.leave_out(&names(&[".mcp.json"]), &[]).expect("looked at"), [""; 0]);
    assert_eq!(run.space.publish().expect("delivered").commit, made);
}
