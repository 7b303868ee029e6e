//! Creating, changing and committing workspaces.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{RUN, World, assert_sound, files_of, names_of, status_in, text_of, write};

#[test]
fn a_workspace_has_the_files_of_its_snapshot_and_git_finds_it_clean() {
    let world = World::repository();
    world.write("a.txt", "one\n");
    world.write("dir/run.sh", "#!/bin/sh\n");
    fs::set_permissions(world.folder().join("dir/run.sh"), fs::Permissions::from_mode(0o755)).expect("set");
    std::os::unix::fs::symlink("../a.txt", world.folder().join("dir/link")).expect("linked");
    world.commit_all();
    world.write("untracked", "two\n");
    let (begun, space) = world.begin();
    let made = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    assert!(made.fresh);
    assert_eq!(fs::read_to_string(made.dir.join("a.txt")).expect("read"), "one\n");
    assert_eq!(fs::read_to_string(made.dir.join("untracked")).expect("read"), "two\n");
    assert_eq!(fs::read_link(made.dir.join("dir/link")).expect("read"), std::path::Path::new("../a.txt"));
    let bits = |path: &str| fs::metadata(made.dir.join(path)).expect("there").permissions().mode() & 0o7777;
    assert_eq!((bits("a.txt"), bits("dir/run.sh"), bits("dir")), (0o644, 0o755, 0o755));
    assert_eq!(status_in(&space, &made.dir, &world.home()), "");
    let line = space.read_ref("refs/posse/work/k3f9ab2c/1").expect("read");
    assert_eq!(line.unwrap_or(begun.snapshot.commit), begun.snapshot.commit);
    assert_sound(&space);
}

#[test]
fn an_unchanged_workspace_is_its_base_and_writes_nothing() {
    let world = World::repository();
    world.write("a.txt", "one\n");
    world.commit_all();
    let (begun, space) = world.begin();
    space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    let packs = || fs::read_dir(space.git().git_dir().join("objects/pack")).expect("listed").count();
    let before = packs();
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
    assert_eq!(packs(), before);
}

#[test]
fn work_is_committed_on_the_agents_line() {
    let world = World::repository();
    world.write("a.txt", "one\n");
    world.write("gone", "x");
    world.write("moved", "moved content\n");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "a.txt", "two\n");
    write(&dir, "new/deep/file", "three\n");
    fs::remove_file(dir.join("gone")).expect("removed");
    fs::rename(dir.join("moved"), dir.join("there")).expect("renamed");
    let snapshot = space.snapshot(RUN, 1).expect("taken");
    assert_eq!(names_of(&space, &snapshot.commit), ["a.txt", "new/deep/file", "there"]);
    assert_eq!(text_of(&space, &snapshot.commit, "a.txt").as_deref(), Some("two\n"));
    assert_eq!(space.read_ref("refs/posse/work/k3f9ab2c/1").expect("read"), Some(snapshot.commit));
    let log = space.git().run(&["log", "-1", "--format=%P %an <%ae> %s", &snapshot.commit.to_string()]);
    let log = String::from_utf8(log.expect("a log")).expect("text");
    let parent = begun.snapshot.commit;
    assert_eq!(log, format!("{parent} Posse <posse@localhost> posse: work of {RUN}\n"));
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), snapshot);
    assert_sound(&space);
}

#[test]
fn a_change_within_the_same_moment_is_seen() {
    let world = World::new();
    world.write("a", "0");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for round in 1..50 {
        // Same size, and usually the same clock tick.
        write(&dir, "a", (round % 10).to_string());
        let snapshot = space.snapshot(RUN, 1).expect("taken");
        assert_eq!(text_of(&space, &snapshot.commit, "a"), Some((round % 10).to_string()), "round {round}");
    }
}

#[test]
fn a_child_begins_with_its_parents_work() {
    let world = World::repository();
    world.write("a.txt", "one\n");
    world.commit_all();
    let (begun, space) = world.begin();
    let parent = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&parent, "b.txt", "by the parent\n");
    let snapshot = space.snapshot(RUN, 1).expect("taken");
    let child = space.make("k3f9ab2c.1", 1, &snapshot.commit).expect("made").dir;
    assert_eq!(fs::read_to_string(child.join("b.txt")).expect("read"), "by the parent\n");
    write(&parent, "b.txt", "changed after\n");
    let later = space.make("k3f9ab2c.2", 1, &snapshot.commit).expect("made").dir;
    assert_eq!(fs::read_to_string(later.join("b.txt")).expect("read"), "by the parent\n");
    assert_eq!(status_in(&space, &later, &world.home()), "");
}

#[test]
fn an_unfinished_workspace_is_made_anew_and_a_finished_one_is_kept() {
    let world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.dir_of(RUN, 1);
    write(&dir, "half", "written");
    let made = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    assert!(made.fresh && !dir.join("half").exists());
    write(&dir, "work", "of the agent");
    let again = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    assert!(!again.fresh && dir.join("work").exists());
    assert_eq!(again.base, begun.snapshot.commit);
}

#[test]
fn a_shared_checkout_cannot_be_written_and_is_made_once() {
    let world = World::new();
    world.write("dir/a", "one");
    let (begun, space) = world.begin();
    let shared = space.shared(&begun.snapshot.commit).expect("made");
    let mode = |path: &str| fs::metadata(shared.join(path)).expect("there").permissions().mode() & 0o222;
    if !crate::kind::are_overlays() {
        // A base is mounted read-only instead: its files have the modes that workspaces over it have.
        assert_eq!((mode("dir/a"), mode("dir")), (0, 0));
    }
    assert!(!shared.join(".git").exists());
    assert_eq!(space.shared(&begun.snapshot.commit).expect("made"), shared);
}

#[test]
fn a_copied_file_is_in_every_workspace_and_in_no_object() {
    let mut world = World::repository();
    world.options.copy = vec![".env".to_owned(), "secrets/**".to_owned()];
    world.write(".gitignore", ".env\nsecrets/\n");
    world.write("a", "one");
    world.commit_all();
    world.write(".env", "TOKEN=hunter2-hunter2-hunter2-hunter2\n");
    world.write("secrets/key", "s3cr3t-key-s3cr3t-key-s3cr3t-key\n");
    world.write("same", "TOKEN=hunter2-hunter2-hunter2-hunter2\n");
    let (begun, space) = world.begin();
    assert_eq!(names_of(&space, &begun.snapshot.commit), [".gitignore", "a"]);
    assert!(begun.notes.iter().any(|note| note.contains("same")), "{:?}", begun.notes);
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(
        fs::read_to_string(dir.join(".env")).expect("read"),
        "TOKEN=hunter2-hunter2-hunter2-hunter2\n"
    );
    assert_eq!(
        fs::read_to_string(dir.join("secrets/key")).expect("read"),
        "s3cr3t-key-s3cr3t-key-s3cr3t-key\n"
    );
    // The agent stops ignoring the secret and copies it, also over a tracked file.
    write(&dir, ".gitignore", "");
    fs::copy(dir.join(".env"), dir.join("leak")).expect("copied");
    fs::copy(dir.join("secrets/key"), dir.join("a")).expect("copied");
    write(&dir, "work", "done");
    let salvaged = space.salvage(RUN, 1).expect("salvaged");
    assert_eq!(names_of(&space, &salvaged.snapshot.commit), [".gitignore", "a", "work"]);
    assert_eq!(text_of(&space, &salvaged.snapshot.commit, "a").as_deref(), Some("one"));
    assert!(salvaged.notes.iter().any(|note| note.contains("leak")), "{:?}", salvaged.notes);
    let objects = space.git().run(&["cat-file", "--batch-all-objects", "--batch"]).expect("read");
    let text = String::from_utf8_lossy(&objects);
    assert!(text.contains("done") && !text.contains("hunter2") && !text.contains("s3cr3t"));
    assert_sound(&space);
}

#[test]
fn work_in_a_nested_repository_is_plain_files() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    crate::support::git_at(&space, &dir, &world.home(), &["init", "-q", "sub"]);
    write(&dir, "sub/file", "kept\n");
    write(&dir, ".GIT/config", "left out\n");
    let salvaged = space.salvage(RUN, 1).expect("salvaged");
    assert_eq!(names_of(&space, &salvaged.snapshot.commit), ["a", "sub/file"]);
    assert!(salvaged.notes.iter().any(|note| note.contains("sub")), "{:?}", salvaged.notes);
    assert!(salvaged.notes.iter().any(|note| note.contains(".GIT")), "{:?}", salvaged.notes);
}

#[test]
fn the_agents_own_git_decides_nothing() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    fs::remove_dir_all(dir.join(".git")).expect("removed");
    write(&dir, ".git", "gitdir: /nonexistent\n");
    write(&dir, "b", "two");
    let snapshot = space.snapshot(RUN, 1).expect("taken");
    assert_eq!(names_of(&space, &snapshot.commit), ["a", "b"]);
}

#[test]
fn a_run_that_grows_too_large_is_told_so() {
    if crate::kind::are_overlays() {
        // A new overlay has no size. What programs add is limited while they run.
        return;
    }
    let mut world = World::new();
    world.write("a", vec![b'x'; 3000]);
    world.options.max_run_bytes = 5000;
    let (begun, space) = world.begin();
    space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    let error = space.make("k3f9ab2c.1", 1, &begun.snapshot.commit).expect_err("too large").to_string();
    assert!(error.contains("workspace.max_run_mb"), "{error}");
    assert!(space.disk_bytes().expect("counted") >= 3000);
}

#[test]
fn large_files_and_empty_ones_are_kept_as_they_are() {
    let world = World::new();
    let large: Vec<u8> = (0..6_000_000_u32).flat_map(u32::to_le_bytes).take(6_000_000).collect();
    world.write("large", &large);
    world.write("copy", &large);
    world.write("empty", "");
    let (begun, space) = world.begin();
    let files = files_of(&space, &begun.snapshot.commit);
    assert!(files[&b"large"[..]].1 == large && files[&b"copy"[..]].1 == large);
    assert!(files[&b"empty"[..]].1.is_empty());
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert!(fs::read(dir.join("large")).expect("read") == large);
    assert_sound(&space);
}

#[test]
fn whoever_is_overtaken_while_making_a_workspace_touches_nothing_of_it() {
    for point in ["workspace.make.before_files", "workspace.make.after_files"] {
        let mut world = World::repository();
        world.write("a", "one");
        world.commit_all();
        let (begun, space) = world.begin();
        let base = begun.snapshot.commit;
        // Pauses at the point while another process creates the workspace and works in it.
        let overtaken = move |passed: &'static str| {
            if passed == point {
                let dir = space.make(RUN, 1, &base).expect("made").dir;
                write(&dir, "work", "of the other");
                space.snapshot(RUN, 1).expect("snapshot");
            }
        };
        world.options.faults = Some(std::sync::Arc::new(overtaken));
        let late = world.spaces().open(RUN).expect("opened");
        let found = late.make(RUN, 1, &base).expect("found");
        assert!(!found.fresh, "{point}");
        let work = fs::read_to_string(found.dir.join("work"));
        assert_eq!(work.expect("still there"), "of the other", "{point}");
        let line = late.snapshot(RUN, 1).expect("snapshot").commit;
        assert_eq!(names_of(&late, &line), ["a", "work"], "{point}");
        assert_eq!(
            fs::read_dir(world.state().join("runs").join(RUN).join("making")).expect("listed").count(),
            0
        );
    }
}

/// A file that git ignores is no work, also if the base has a file of that name which the agent has replaced meanwhile.
#[test]
fn an_ignored_file_in_the_place_of_a_replaced_one_is_not_in_a_snapshot() {
    let world = World::repository();
    for name in ["by-dir", "by-file/a", "by-renamed/a", "renamed/b"] {
        world.write(name, name);
    }
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    fs::remove_file(dir.join("by-dir")).expect("removed");
    write(&dir, "by-dir/new", "a directory now");
    fs::remove_dir_all(dir.join("by-file")).expect("removed");
    write(&dir, "by-file", "a file now");
    fs::remove_dir_all(dir.join("by-renamed")).expect("removed");
    // An ordinary user's overlay cannot rename a directory of the base.
    if fs::rename(dir.join("renamed"), dir.join("by-renamed")).is_err() {
        fs::remove_dir_all(dir.join("renamed")).expect("removed");
        write(&dir, "by-renamed/b", "renamed/b");
    }
    let first = space.snapshot(RUN, 1).expect("taken").commit;
    assert_eq!(names_of(&space, &first), ["by-dir/new", "by-file", "by-renamed/b"]);
    fs::remove_dir_all(dir.join("by-dir")).expect("removed");
    fs::remove_file(dir.join("by-file")).expect("removed");
    write(&dir, ".gitignore", "/by-dir\n/by-file/a\n/by-renamed/a\n");
    for name in ["by-dir", "by-file/a", "by-renamed/a"] {
        write(&dir, name, "ignored");
    }
    let second = space.snapshot(RUN, 1).expect("taken").commit;
    assert_eq!(names_of(&space, &second), [".gitignore", "by-renamed/b"]);
    assert_eq!(
        names_of(&space, &space.snapshot(RUN, 1).expect("taken").commit),
        [".gitignore", "by-renamed/b"]
    );
}
