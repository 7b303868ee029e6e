//! Files that cannot be salvaged are reported, and their workspace is kept. An agent's use of git is salvaged.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use posse_workspace::{ObjectId, RunBase, RunSpace, SalvageOutcome};

use crate::support::{RUN, World, assert_sound, git_at, git_with_objects, names_of, write};

/// Long enough to be a secret.
const SECRET: &str = "TOKEN=hunter2-hunter2-hunter2-hunter2\n";

fn begin(world: &World) -> (RunBase, RunSpace, PathBuf) {
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    (begun, space, dir)
}

fn salvage(space: &RunSpace) -> SalvageOutcome {
    space.salvage(RUN, 1).expect("salvaged")
}

/// Asserts that the workspace is not removed, for this reason.
fn assert_kept(space: &RunSpace, dir: &Path, because: &str) {
    let error = space.remove(RUN, 1).expect_err("kept").to_string();
    assert!(error.contains("is kept") && error.contains(because), "{error}");
    assert!(dir.exists());
}

/// Git in a workspace, as an agent runs it.
fn agents_git(world: &World, space: &RunSpace, dir: &Path, args: &[&str]) -> String {
    git_at(space, dir, &world.home(), args)
}

fn git_of(space: &RunSpace) -> Option<ObjectId> {
    space.read_ref(&format!("refs/posse/salvage/{RUN}/1.git")).expect("read")
}

#[test]
fn names_that_could_become_dot_git_are_told_and_their_workspace_is_kept() {
    let world = World::repository();
    let (_, space, dir) = begin(&world);
    write(&dir, "x/git~1/config", "keepme");
    write(&dir, "x/git~1/deep/er", "keepme");
    write(&dir, ".GIT", "keepme");
    write(&dir, "nested/.git/HEAD", "ref: refs/heads/side\n");
    write(&dir, "nested/file", "kept");
    let salvaged = salvage(&space);
    assert_eq!(
        salvaged.left_out,
        [
            ".GIT: a name that could become .git",
            "nested/.git/: a repository in the workspace",
            "x/git~1/config: a name that could become .git",
            "x/git~1/deep/er: a name that could become .git",
        ]
    );
    assert_eq!(salvaged.left_out_count, 4);
    assert_eq!(names_of(&space, &salvaged.snapshot.commit), ["a", "nested/file"]);
    assert_kept(&space, &dir, ".GIT: a name that could become .git and 3 more");
    for gone in ["x/git~1", "nested/.git"] {
        fs::remove_dir_all(dir.join(gone)).expect("removed");
    }
    fs::remove_file(dir.join(".GIT")).expect("removed");
    space.remove(RUN, 1).expect("removed");
}

#[test]
fn ignored_ones_and_empty_ones_keep_nothing() {
    let world = World::repository();
    world.write(".gitignore", "ignored/\n*.sock\n");
    let (_, space, dir) = begin(&world);
    write(&dir, "ignored/git~1/config", "noise");
    drop(UnixListener::bind(dir.join("x.sock")).expect("bound"));
    fs::create_dir_all(dir.join("nested/.git")).expect("made");
    fs::create_dir_all(dir.join("git~1/empty")).expect("made");
    assert_eq!(salvage(&space).left_out, ["ignored/", "x.sock"]);
    space.remove(RUN, 1).expect("removed");
}

#[test]
fn special_files_are_told_and_their_workspace_is_kept() {
    let world = World::repository();
    let (_, space, dir) = begin(&world);
    fs::remove_file(dir.join("a")).expect("removed");
    drop(UnixListener::bind(dir.join("a")).expect("bound"));
    let salvaged = salvage(&space);
    assert_eq!(salvaged.left_out, ["a: a socket, a pipe or a device"]);
    assert_eq!(salvaged.left_out_count, 1);
    assert_kept(&space, &dir, "a: a socket");
}

#[test]
fn a_file_like_a_copied_one_is_told_and_a_short_one_is_work() {
    let mut world = World::repository();
    world.options.copy = vec![".env".to_owned(), "short".to_owned()];
    world.write(".gitignore", ".env\nshort\n");
    world.write(".env", SECRET);
    world.write("short", "{}\n");
    let (_, space, dir) = begin(&world);
    write(&dir, "package.json", "{}\n");
    write(&dir, "a", "{}\n");
    let salvaged = salvage(&space);
    assert_eq!(names_of(&space, &salvaged.snapshot.commit), [".gitignore", "a", "package.json"]);
    assert_eq!(salvaged.left_out, [".env", "short"], "they are the person's");
    write(&dir, "a", SECRET);
    write(&dir, "leak", SECRET);
    let expected = [
        "a: the content is that of a file named by workspace.copy",
        "leak: the content is that of a file named by workspace.copy",
        ".env",
        "short",
    ];
    assert_eq!(salvage(&space).left_out, expected);
    assert_eq!(salvage(&space).left_out, expected, "also when nothing has changed since");
    assert_kept(&space, &dir, "a: the content is that of a file named by workspace.copy and 1 more");
    write(&dir, "a", "one");
    fs::remove_file(dir.join("leak")).expect("removed");
    salvage(&space);
    space.remove(RUN, 1).expect("removed");
}

#[test]
fn commits_branches_and_stashes_of_an_agent_are_salvaged() {
    let world = World::repository();
    let (_, space, dir) = begin(&world);
    let git = |args: &[&str]| agents_git(&world, &space, &dir, args);
    write(&dir, "f", "precious");
    git(&["add", "f"]);
    git(&["commit", "-q", "-m", "precious"]);
    git(&["checkout", "-q", "-b", "side"]);
    write(&dir, "f", "stashed");
    git(&["stash", "-q"]);
    git(&["checkout", "-q", "work"]);
    git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert!(!dir.join("f").exists());
    let salvaged = salvage(&space);
    assert_eq!((salvaged.left_out.as_slice(), salvaged.left_out_count), (&[][..], 0));
    assert_eq!(salvaged.git, git_of(&space));
    assert!(salvaged.git.is_some());
    let again = salvage(&space);
    assert_eq!(again.git, salvaged.git, "nothing has changed");

    git(&["branch", "late"]);
    assert_kept(&space, &dir, "its .git changed after it was salvaged; salvage it again");
    salvage(&space);
    assert_sound(&space);
    let listed = space.salvages().expect("listed");
    assert_eq!(listed.iter().map(|kept| kept.git).collect::<Vec<_>>(), [false, true]);
    space.remove(RUN, 1).expect("removed");
    assert!(!dir.exists());

    let target = world.elsewhere("restored");
    space.restore_git(RUN, 1, &target).expect("restored");
    let git = |args: &[&str]| {
        let mut all = vec!["--git-dir=."];
        all.extend(args);
        git_with_objects(&space, &target, &world.home(), &all)
    };
    assert_eq!(git(&["show", "side:f"]), "precious");
    assert_eq!(git(&["show", "stash@{0}:f"]), "stashed");
    assert_eq!(git(&["rev-parse", "late"]), git(&["rev-parse", "work"]));
}

#[test]
fn a_dot_git_that_nobody_changed_is_not_salvaged() {
    let world = World::repository();
    let (_, space, dir) = begin(&world);
    agents_git(&world, &space, &dir, &["status"]);
    write(&dir, "a", "two");
    agents_git(&world, &space, &dir, &["diff"]);
    assert_eq!(salvage(&space).git, None);
    assert_eq!(git_of(&space), None);
    space.remove(RUN, 1).expect("removed");
}

#[test]
fn a_dot_git_that_is_no_directory_is_never_followed() {
    let world = World::repository();
    let (_, space, dir) = begin(&world);
    let elsewhere = world.elsewhere("moved");
    fs::remove_dir_all(dir.join(".git")).expect("removed");
    write(&elsewhere, "objects/secret", "elsewhere");
    symlink(&elsewhere, dir.join(".git")).expect("linked");
    let salvaged = salvage(&space);
    assert_eq!(
        (salvaged.git, salvaged.left_out.as_slice()),
        (None, &[".git: not a directory".to_owned()][..])
    );
    assert_kept(&space, &dir, ".git: not a directory");
    fs::remove_file(dir.join(".git")).expect("removed");
    write(&dir, ".git", "gitdir: ../elsewhere\n");
    assert_eq!(salvage(&space).left_out, [".git: not a directory"]);
    fs::remove_file(dir.join(".git")).expect("removed");
    assert_eq!(salvage(&space).git, None);
    space.remove(RUN, 1).expect("removed");
}

#[test]
fn nothing_in_a_dot_git_hides_the_rest_of_it() {
    let world = World::repository();
    let (_, space, dir) = begin(&world);
    write(&dir, ".git/.gitignore", "*\n");
    write(&dir, ".git/note", "kept");
    symlink("note", dir.join(".git/link")).expect("linked");
    write(&dir, ".git/refs/heads/git~1", "odd");
    let salvaged = salvage(&space);
    let names = names_of(&space, &salvaged.git.expect("kept"));
    for name in [".gitignore", "note", "link", "HEAD", "index", "refs/heads/work"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    assert_eq!(salvaged.left_out, [".git/refs/heads/git~1: a name that could become .git"]);
    assert_kept(&space, &dir, ".git/refs/heads/git~1");
    assert_sound(&space);
}

#[test]
fn a_dot_git_that_is_too_large_or_holds_a_secret_keeps_its_workspace() {
    let mut world = World::repository();
    world.options.copy = vec![".env".to_owned()];
    world.options.max_file_bytes = 4096;
    world.write(".gitignore", ".env\n");
    world.write(".env", SECRET);
    let (_, space, dir) = begin(&world);
    agents_git(&world, &space, &dir, &["add", "-f", ".env"]);
    let salvaged = salvage(&space);
    assert!(salvaged.git.is_some());
    let told = &salvaged.left_out[0];
    assert!(told.starts_with(".git/objects/") && told.contains("workspace.copy"), "{told}");
    assert_kept(&space, &dir, "workspace.copy");
    // In a pack the secret has no name.
    agents_git(&world, &space, &dir, &["commit", "-q", "-m", "secret"]);
    agents_git(&world, &space, &dir, &["repack", "-a", "-d", "-q"]);
    let packed = salvage(&space).left_out;
    let is_omitted =
        |told: &String| told.contains(".pack: it may have the content of a file named by workspace.copy");
    assert!(packed.iter().any(is_omitted), "{packed:?}");
    write(&dir, ".git/objects/pack/large", vec![7; 5000]);
    let salvaged = salvage(&space);
    assert!(salvaged.left_out[0].starts_with(".git/: "), "{:?}", salvaged.left_out);
    assert!(salvaged.left_out[0].contains("objects/pack/large has 5000 bytes"), "{:?}", salvaged.left_out);
    assert_kept(&space, &dir, "objects/pack/large");
}
