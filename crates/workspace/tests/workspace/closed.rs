//! Files that an agent made inaccessible are read all the same. Root ignores permissions, so these tests switch to an
//! ordinary user where they can.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::kind;
use crate::support::{RUN, World, assert_sound, files_of, names_of, write};

/// A user without files.
const ORDINARY: u32 = 65_534;
/// How many tests of this file an ordinary user runs.
const TESTS: usize = 4;

#[test]
fn an_ordinary_user_looks_at_what_was_closed() {
    if !rustix::process::geteuid().is_root() {
        // Then the other tests of this file cover it.
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    set_mode(dir.path(), 0o755);
    // An ordinary user may not read the build directory.
    let tests = crate::support::copy_tests(dir.path());
    let own = dir.path().join("own");
    fs::create_dir(&own).expect("made");
    chown(&own, Some(ORDINARY), Some(ORDINARY)).expect("given away");
    let mut command = Command::new(&tests);
    command.args(["closed::", "--skip", "ordinary_user"]).env_clear().current_dir(&own);
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TMPDIR", &own).uid(ORDINARY).gid(ORDINARY);
    command.envs(kind::given().map(|kind| (kind::VARIABLE, kind)));
    let output = command.output().expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(&format!("{TESTS} passed")), "{said}");
}

#[test]
fn closed_files_and_directories_are_committed_and_salvaged() {
    let world = World::new();
    world.write("a", "one");
    world.write("dir/b", "two");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for (path, mode) in
        [("a", 0o000), ("run", 0o111), ("dir/b", 0o000), ("listed/c", 0o000), ("deep/er/d", 0o200)]
    {
        write(&dir, path, format!("in {path}"));
        set_mode(&dir.join(path), mode);
    }
    // Neither listed nor entered; listed but not entered; entered but not listed.
    for (path, mode) in [("dir", 0o000), ("listed", 0o600), ("deep/er", 0o000), ("deep", 0o300)] {
        set_mode(&dir.join(path), mode);
    }
    let salvaged = space.salvage(RUN, 1).expect("salvaged").snapshot.commit;
    let files = files_of(&space, &salvaged);
    assert_eq!(names_of(&space, &salvaged), ["a", "deep/er/d", "dir/b", "listed/c", "run"]);
    for (path, (mode, content)) in &files {
        let path = String::from_utf8_lossy(path);
        assert_eq!(*content, format!("in {path}").into_bytes());
        assert_eq!(mode, if path == "run" { "100755" } else { "100644" }, "{path}");
    }
    assert_sound(&space);
    set_mode(&dir.join("dir"), 0o000);
    space.remove(RUN, 1).expect("removed");
    assert!(!dir.exists());
}

#[test]
fn a_symlink_in_place_of_a_closed_file_opens_nothing() {
    let world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let outside = world.elsewhere("outside");
    fs::write(&outside, "a secret").expect("written");
    set_mode(&outside, 0o000);
    std::os::unix::fs::symlink(&outside, dir.join("link")).expect("linked");
    space.snapshot(RUN, 1).expect("taken");
    assert_eq!(fs::metadata(&outside).expect("there").permissions().mode() & 0o777, 0);
}

#[test]
fn patterns_that_were_closed_still_count() {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "a.log", "noise");
    set_mode(&dir.join(".gitignore"), 0o000);
    let taken = space.snapshot(RUN, 1).expect("taken");
    assert_eq!(taken.commit, begun.snapshot.commit);
}

#[test]
fn a_workspace_with_closed_directories_is_brought_up_to_date() {
    let world = World::new();
    world.write("dir/a", "one");
    world.write("dir/b", "one");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let child = space.make(&format!("{RUN}.1"), 1, &base).expect("made").dir;
    write(&child, "dir/a", "two");
    fs::remove_file(child.join("dir/b")).expect("removed");
    let work = space.snapshot(&format!("{RUN}.1"), 1).expect("taken").commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    set_mode(&dir.join("dir"), 0o555);
    let updated = space.update(RUN, 1, &base, &work).expect("updated");
    assert_eq!((updated.written, updated.conflicts_left.len()), (2, 0));
    assert_eq!(fs::read_to_string(dir.join("dir/a")).expect("read"), "two");
    assert!(!dir.join("dir/b").exists());
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}
