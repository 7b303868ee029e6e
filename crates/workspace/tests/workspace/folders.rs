//! Snapshots of every kind of folder that a user may have.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use posse_workspace::{RepositoryError, Snapshot};

use crate::support::{
    RUN, World, assert_sound, files_of, fingerprint, git_in, names_of, status_in, text_of, write,
};

fn refusal(world: &World) -> String {
    let error = world.spaces().begin(RUN, &world.folder()).expect_err("refused");
    assert!(matches!(error, RepositoryError::Unsupported(_)), "{error:?}");
    error.to_string()
}

#[test]
fn a_clean_folder_is_the_commit_that_is_checked_out() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let head = world.git(&["rev-parse", "HEAD", "HEAD^{tree}"]);
    let Snapshot { commit, tree } = begun.snapshot;
    assert_eq!(head, format!("{commit}\n{tree}\n"));
    assert!(!begun.dirty);
    assert_eq!(begun.head, Some(commit));
    assert_eq!(begun.notes, [""; 0]);
    assert_sound(&space);
}

#[test]
fn objects_that_git_packs_while_they_are_borrowed_are_not_missed() {
    let mut world = World::repository();
    for number in 0..40 {
        world.write(&format!("dir/{number}"), format!("file {number}"));
    }
    world.commit_all();
    let (folder, home) = (world.folder(), world.home());
    world.options.faults = Some(std::sync::Arc::new(move |point| {
        if point == "workspace.begin.between_objects" {
            git_in(&folder, &home, &["gc", "-q", "--prune=now"]);
        }
    }));
    let (begun, space) = world.begin();
    let objects = fs::read_dir(world.folder().join(".git/objects")).expect("listed").flatten();
    assert!(objects.into_iter().all(|entry| entry.file_name().len() != 2), "git has packed them");
    assert_sound(&space);
    assert_eq!(files_of(&space, &begun.snapshot.commit).len(), 40);
}

#[test]
fn everything_that_is_not_committed_is_in_the_snapshot() {
    let world = World::repository();
    for name in ["same", "staged", "unstaged", "both", "deleted", "removed", "renamed", "mode"] {
        world.write(name, format!("{name}, committed\n"));
    }
    world.write(".gitignore", "*.log\n");
    world.commit_all();
    world.write("staged", "staged\n");
    world.write("both", "staged\n");
    world.write("added", "added\n");
    world.git(&["add", "staged", "both", "added"]);
    world.git(&["rm", "-q", "removed"]);
    world.git(&["mv", "renamed", "other"]);
    world.write("both", "then changed\n");
    world.write("unstaged", "changed\n");
    world.write("untracked/file", "new\n");
    world.write("noise.log", "ignored\n");
    fs::remove_file(world.folder().join("deleted")).expect("removed");
    fs::set_permissions(world.folder().join("mode"), fs::Permissions::from_mode(0o755)).expect("set");
    let head = world.git(&["rev-parse", "HEAD"]);
    let (begun, space) = world.begin();
    let files = files_of(&space, &begun.snapshot.commit);
    let shown: Vec<String> = files
        .iter()
        .map(|(path, (mode, content))| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
            format!("{} {mode} {}", text(path), text(content))
        })
        .collect();
    assert_eq!(
        shown,
        [
            ".gitignore 100644 *.log",
            "added 100644 added",
            "both 100644 then changed",
            "mode 100755 mode, committed",
            "other 100644 renamed, committed",
            "same 100644 same, committed",
            "staged 100644 staged",
            "unstaged 100644 changed",
            "untracked/file 100644 new",
        ]
    );
    assert!(begun.dirty);
    let parent = space.git().run(&["rev-parse", &format!("{}^", begun.snapshot.commit)]).expect("a parent");
    assert_eq!(String::from_utf8_lossy(&parent), head);
    assert_sound(&space);
}

#[test]
fn the_persons_folder_is_not_touched() {
    let world = World::repository();
    world.write("a", "one");
    world.write("b", "one");
    world.commit_all();
    world.write("a", "stashed");
    world.git(&["stash", "-q"]);
    world.write("a", "staged");
    world.git(&["add", "a"]);
    world.write("b", "unstaged");
    world.write("new", "untracked");
    // Hooks, and settings that would run a program.
    let canary = world.elsewhere("canary");
    let run = format!("touch {}", canary.display());
    world.write(".git/hooks/post-index-change", format!("#!/bin/sh\n{run}\n"));
    world.write(".git/hooks/reference-transaction", format!("#!/bin/sh\n{run}\n"));
    for hook in ["post-index-change", "reference-transaction"] {
        let path = world.folder().join(".git/hooks").join(hook);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    world.git(&["config", "core.fsmonitor", &run]);
    world.git(&["config", "filter.evil.clean", &run]);
    world.write(".gitattributes", "* text=auto filter=evil\n");
    let before = fingerprint(&world.folder());
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "a", "by the agent");
    space.salvage(RUN, 1).expect("salvaged");
    space.shared(&begun.snapshot.commit).expect("shared");
    space.remove(RUN, 1).expect("removed");
    let after = fingerprint(&world.folder());
    let changed: Vec<_> = after.iter().filter(|(name, now)| before.get(*name) != Some(now)).collect();
    assert!(after == before, "the folder changed: {changed:?}");
    assert!(!canary.exists());
    assert_eq!(text_of(&space, &begun.snapshot.commit, "a").as_deref(), Some("staged"));
    assert_eq!(text_of(&space, &begun.snapshot.commit, "b").as_deref(), Some("unstaged"));
}

#[test]
fn an_empty_repository_and_an_empty_folder_work() {
    for world in [World::repository(), World::new()] {
        let (begun, space) = world.begin();
        assert_eq!((begun.head, begun.dirty), (None, false));
        assert_eq!(names_of(&space, &begun.snapshot.commit), [""; 0]);
        let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
        assert_eq!(status_in(&space, &dir, &world.home()), "");
        write(&dir, "first", "file");
        let snapshot = space.snapshot(RUN, 1).expect("taken");
        assert_eq!(names_of(&space, &snapshot.commit), ["first"]);
        assert_sound(&space);
    }
}

#[test]
fn a_repository_without_commits_has_its_files() {
    let world = World::repository();
    world.write("staged", "one");
    world.git(&["add", "staged"]);
    world.write("untracked", "two");
    let (begun, space) = world.begin();
    assert_eq!((begun.head, begun.dirty), (None, true));
    assert_eq!(names_of(&space, &begun.snapshot.commit), ["staged", "untracked"]);
}

#[test]
fn a_folder_that_is_no_repository_works_the_same() {
    let world = World::new();
    world.write(".gitignore", "skipped\n");
    world.write("skipped", "x");
    world.write("dir/a", "one");
    let (begun, space) = world.begin();
    assert_eq!((begun.head, begun.dirty), (None, true));
    assert!(!space.is_repository());
    assert_eq!(names_of(&space, &begun.snapshot.commit), [".gitignore", "dir/a"]);
    assert!(!world.folder().join(".git").exists());
    assert_sound(&space);
}

#[test]
fn a_directory_inside_a_repository_is_a_folder_of_its_own() {
    let world = World::repository();
    world.write("outside", "not taken");
    world.write("sub/inside", "taken");
    world.commit_all();
    let before = fingerprint(&world.folder());
    let begun = world.spaces().begin(RUN, &world.folder().join("sub")).expect("begun");
    let space = world.spaces().open(RUN).expect("opened");
    assert_eq!(names_of(&space, &begun.snapshot.commit), ["inside"]);
    assert_eq!(begun.head, None);
    assert!(
        begun.notes.iter().any(|note| note.contains("a subdirectory of a git repository")),
        "{:?}",
        begun.notes
    );
    assert!(fingerprint(&world.folder()) == before);
}

#[test]
fn a_detached_head_a_worktree_and_packed_refs_work() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    world.write("a", "two");
    world.commit_all();
    world.git(&["gc", "-q"]);
    let other = world.elsewhere("other");
    world.git(&["worktree", "add", "-q", "--detach", &other.to_string_lossy(), "HEAD~1"]);
    write(&other, "b", "in the worktree");
    let begun = world.spaces().begin(RUN, &other).expect("begun");
    let space = world.spaces().open(RUN).expect("opened");
    assert_eq!(begun.head.map(|head| head.to_string() + "\n"), Some(world.git(&["rev-parse", "HEAD~1"])));
    assert_eq!(names_of(&space, &begun.snapshot.commit), ["a", "b"]);
    assert_eq!(text_of(&space, &begun.snapshot.commit, "a").as_deref(), Some("one"));
    assert_sound(&space);
}

#[test]
fn nested_repositories_are_plain_files() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    world.git(&["init", "-q", "fresh"]);
    world.write("fresh/file", "in a fresh repository");
    world.git(&["init", "-q", "old"]);
    world.write("old/deep/file", "committed there");
    git_in(&world.folder().join("old"), &world.home(), &["add", "-A"]);
    git_in(&world.folder().join("old"), &world.home(), &["commit", "-q", "-m", "x"]);
    world.write("pointed/.git", "gitdir: ../elsewhere\n");
    world.write("pointed/file", "kept");
    let (begun, space) = world.begin();
    assert_eq!(
        names_of(&space, &begun.snapshot.commit),
        ["a", "fresh/file", "old/deep/file", "pointed/file"]
    );
    let note = begun.notes.iter().find(|note| note.contains("nested")).expect("a note");
    assert!(["fresh", "old", "pointed"].iter().all(|name| note.contains(name)), "{note}");
    assert_sound(&space);
}

#[test]
fn a_submodule_stays_the_commit_it_is_at() {
    let library = World::repository();
    library.write("lib", "code");
    library.commit_all();
    let world = World::repository();
    world.write("a", "one");
    let from = library.folder();
    world.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "-q",
        &from.to_string_lossy(),
        "sub",
    ]);
    world.commit_all();
    world.write("sub/lib", "changed in the submodule");
    let (begun, space) = world.begin();
    assert!(!begun.dirty);
    let files = files_of(&space, &begun.snapshot.commit);
    assert_eq!(files[&b"sub"[..]].0, "160000");
    assert!(begun.notes.iter().any(|note| note.contains("sub")), "{:?}", begun.notes);
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(fs::read_dir(dir.join("sub")).expect("a directory").count(), 0);
    assert_eq!(status_in(&space, &dir, &world.home()), "");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
    fs::remove_dir(dir.join("sub")).expect("removed");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
    // An agent's files there are not lost, although they cannot be merged.
    write(&dir, "sub/work", "of the agent");
    let salvaged = space.salvage(RUN, 1).expect("salvaged").snapshot.commit;
    assert!(names_of(&space, &salvaged).contains(&"sub/work".to_owned()));
}

#[test]
fn symlinks_are_kept_and_never_followed() {
    let world = World::new();
    let outside = world.elsewhere("outside");
    write(&outside, "secret", "not to be read");
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, world.folder().join(name)).expect("linked");
    };
    link(&outside.to_string_lossy(), "leaving");
    link("nowhere", "dangling");
    link("..", "up");
    link("loop", "loop");
    world.write("real", "file");
    let (begun, space) = world.begin();
    let files = files_of(&space, &begun.snapshot.commit);
    assert_eq!(files.len(), 5);
    assert_eq!(files[&b"dangling"[..]], ("120000".to_owned(), b"nowhere".to_vec()));
    assert_eq!(files[&b"leaving"[..]].1, outside.as_os_str().as_bytes());
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(fs::read_link(dir.join("up")).expect("a link"), std::path::Path::new(".."));
    assert_eq!(status_in(&space, &dir, &world.home()), "");
}

#[test]
fn what_is_no_file_is_left_out_and_noted() {
    let world = World::new();
    world.write("a", "one");
    let _socket = std::os::unix::net::UnixListener::bind(world.folder().join("socket")).expect("bound");
    world.write(".GIT/config", "x");
    world.write("dir/git~1", "x");
    let (begun, space) = world.begin();
    assert_eq!(names_of(&space, &begun.snapshot.commit), ["a"]);
    for name in ["socket", ".GIT", "dir/git~1"] {
        assert!(begun.notes.iter().any(|note| note.contains(name)), "{name}: {:?}", begun.notes);
    }
}

#[test]
fn odd_names_are_kept_byte_for_byte() {
    let names: [&[u8]; 8] =
        [b"new\nline", b"\xff\xfe", b"-rf", b" lead", b"trail ", b"quo\"te\\", b"tab\t", b"\r"];
    let world = World::repository();
    for name in names {
        fs::write(world.folder().join(OsStr::from_bytes(name)), name).expect("written");
    }
    world.commit_all();
    // Git converts line endings here, so these files pass through git, by name.
    world.write(".gitattributes", "* text=auto\n");
    for name in names {
        fs::write(world.folder().join(OsStr::from_bytes(name)), [name, b"!"].concat()).expect("written");
    }
    let (begun, space) = world.begin();
    let files = files_of(&space, &begun.snapshot.commit);
    for name in names {
        assert_eq!(files[name].1, [name, b"!"].concat(), "{}", String::from_utf8_lossy(name));
    }
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(status_in(&space, &dir, &world.home()), "");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
}

#[test]
fn line_endings_are_stored_as_the_persons_git_stores_them() {
    let world = World::repository();
    fs::write(world.home().join(".gitconfig"), "[core]\n\tautocrlf = true\n").expect("written");
    world.write("dos.txt", "one\r\ntwo\r\n");
    world.write("kept.txt", "a\r\nb\r\n");
    world.write("binary", b"\0\r\n");
    world.commit_all();
    world.write("dos.txt", "one\r\nchanged\r\n");
    world.write("new.txt", "new\r\n");
    let (begun, space) = world.begin();
    let text = |path| text_of(&space, &begun.snapshot.commit, path).expect("there");
    assert_eq!(text("dos.txt"), "one\nchanged\n");
    assert_eq!(text("kept.txt"), "a\nb\n");
    assert_eq!(text("new.txt"), "new\n");
    assert_eq!(text("binary"), "\0\r\n");
    world.git(&["add", "-A"]);
    let theirs = world.git(&["write-tree"]);
    assert_eq!(theirs, format!("{}\n", begun.snapshot.tree));
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(fs::read(dir.join("kept.txt")).expect("read"), b"a\nb\n");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
    assert_sound(&space);
}

#[test]
fn files_outside_a_sparse_checkout_are_not_deleted() {
    for sparse_index in [false, true] {
        let world = World::repository();
        world.write("in/a", "one");
        world.write("out/b", "two");
        world.write("top", "three");
        world.commit_all();
        world.git(&["sparse-checkout", "set", "--cone", "in"]);
        if sparse_index {
            world.git(&["sparse-checkout", "reapply", "--sparse-index"]);
        }
        assert!(!world.folder().join("out").exists());
        let (begun, space) = world.begin();
        assert!(!begun.dirty, "sparse index: {sparse_index}");
        let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
        assert!(!dir.join("out").exists());
        assert_eq!(status_in(&space, &dir, &world.home()), "");
        write(&dir, "in/a", "changed");
        let snapshot = space.snapshot(RUN, 1).expect("taken");
        assert_eq!(names_of(&space, &snapshot.commit), ["in/a", "out/b", "top"]);
        write(&dir, "out/b", "there after all");
        let snapshot = space.snapshot(RUN, 1).expect("taken");
        assert_eq!(text_of(&space, &snapshot.commit, "out/b").as_deref(), Some("there after all"));
        // The agent's own git shows the change too.
        assert_eq!(status_in(&space, &dir, &world.home()), " M in/a\n M out/b\n");
    }
}

#[test]
fn indexes_of_every_format_are_read() {
    for settings in
        [&["index.version=3"][..], &["index.version=4"], &["core.splitIndex=true"], &["index.skipHash=true"]]
    {
        let world = World::repository();
        for setting in settings {
            let (key, value) = setting.split_once('=').expect("a setting");
            world.git(&["config", key, value]);
        }
        for number in 0..30 {
            world.write(&format!("dir{}/file-{number}", number % 3), number.to_string());
        }
        world.commit_all();
        world.write("dir1/file-1", "changed");
        world.write("intended", "to be added");
        world.git(&["add", "-N", "intended"]);
        let (begun, space) = world.begin();
        let names = names_of(&space, &begun.snapshot.commit);
        assert_eq!(names.len(), 31, "{settings:?}");
        let text = |path| text_of(&space, &begun.snapshot.commit, path).expect("there");
        assert_eq!((text("dir1/file-1"), text("intended")), ("changed".to_owned(), "to be added".to_owned()));
    }
}

#[test]
fn files_in_the_middle_of_a_merge_are_as_they_are_on_disk() {
    let world = World::repository();
    world.write("a", "base\n");
    world.commit_all();
    world.git(&["checkout", "-q", "-b", "side"]);
    world.write("a", "side\n");
    world.commit_all();
    world.git(&["checkout", "-q", "main"]);
    world.write("a", "main\n");
    world.commit_all();
    let merged =
        crate::support::plain_git(&world.folder(), &world.home()).args(["merge", "-q", "side"]).output();
    assert!(!merged.expect("git runs").status.success());
    let (begun, space) = world.begin();
    let text = text_of(&space, &begun.snapshot.commit, "a").expect("there");
    assert!(text.contains("<<<<<<<") && text.contains("side"), "{text}");
}

#[test]
fn a_broken_index_says_what_to_do() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    world.write(".git/index", "not an index at all");
    let error = refusal(&world);
    assert!(error.contains("reset") && error.contains("fsck"), "{error}");
}

#[test]
fn a_broken_head_says_what_to_do() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    world.write(".git/refs/heads/main", "0123456789abcdef0123456789abcdef01234567\n");
    let error = refusal(&world);
    assert!(error.contains("fsck"), "{error}");
}

#[test]
fn a_missing_object_that_is_not_needed_does_not_matter() {
    let world = World::repository();
    world.write("old", "gone with the next commit");
    world.commit_all();
    let blob = world.git(&["rev-parse", "HEAD:old"]);
    fs::remove_file(world.folder().join("old")).expect("removed");
    world.write("a", "one");
    world.commit_all();
    let here = world.git(&["rev-parse", "HEAD:a"]);
    for oid in [blob, here] {
        let oid = oid.trim();
        fs::remove_file(world.folder().join(".git/objects").join(&oid[..2]).join(&oid[2..]))
            .expect("removed");
    }
    let (begun, space) = world.begin();
    // The file is on disk, so its object can be created again.
    assert_eq!(text_of(&space, &begun.snapshot.commit, "a").as_deref(), Some("one"));
    space.make(RUN, 1, &begun.snapshot.commit).expect("made");
}

#[test]
fn a_repository_of_sha256_is_refused() {
    let world = World::new();
    world.git(&["init", "-q", "--object-format=sha256"]);
    world.write("a", "one");
    assert!(refusal(&world).contains("SHA-256"));
}

#[test]
fn borrowed_objects_survive_the_persons_cleaning_up() {
    let world = World::repository();
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    world.write("a", "two");
    world.git(&["commit", "-q", "-a", "--amend", "-m", "instead"]);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    assert_eq!(text_of(&space, &begun.snapshot.commit, "a").as_deref(), Some("one"));
    assert_sound(&space);
    let again = world.spaces().begin("second", &world.folder()).expect("begun");
    let second = world.spaces().open("second").expect("opened");
    assert_eq!(text_of(&second, &again.snapshot.commit, "a").as_deref(), Some("two"));
    assert_sound(&second);
}

#[test]
fn a_clone_that_borrows_and_a_shallow_one_work() {
    let origin = World::repository();
    for text in ["one", "two"] {
        origin.write("a", text);
        origin.commit_all();
    }
    for how in ["--shared", "--depth=1"] {
        let world = World::new();
        let from = format!("file://{}", origin.folder().display());
        let from = if how == "--shared" { origin.folder().display().to_string() } else { from };
        world.git(&["clone", "-q", how, &from, "."]);
        world.write("b", "new");
        let safe = format!("[safe]\ndirectory = {}\n", origin.folder().display());
        fs::write(world.home().join(".gitconfig"), safe).expect("written");
        let (begun, space) = world.begin();
        assert_eq!(names_of(&space, &begun.snapshot.commit), ["a", "b"]);
        assert_sound(&space);
        let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
        assert_eq!(status_in(&space, &dir, &world.home()), "", "{how}");
    }
}

#[test]
fn patterns_of_every_place_are_honoured() {
    let world = World::repository();
    fs::write(world.home().join(".gitconfig"), "[core]\n\texcludesFile = ~/everywhere\n").expect("written");
    fs::write(world.home().join("everywhere"), "*.swp\n").expect("written");
    world.write(".git/info/exclude", "private\n");
    world.write(".gitignore", "*.log\nbuild/\n!keep.log\n");
    world.write("sub/.gitignore", "local\n!*.log\n");
    for name in
        ["x.swp", "private", "x.log", "keep.log", "build/out", "sub/local", "sub/y.log", "local", "build2"]
    {
        world.write(name, name);
    }
    world.write("build/tracked", "forced");
    world.git(&["add", "-f", "build/tracked"]);
    let (begun, space) = world.begin();
    world.git(&["add", "-A"]);
    assert_eq!(world.git(&["write-tree"]), format!("{}\n", begun.snapshot.tree));
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for name in ["y.swp", "build/more", "sub/local", "private"] {
        write(&dir, name, "ignored too");
    }
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
}

#[test]
fn limits_are_told_by_name() {
    let mut world = World::new();
    world.write("dir/large", vec![0; 100]);
    world.write("small", "x");
    world.options.max_file_bytes = 99;
    let error = refusal(&world);
    assert!(error.contains("dir/large") && error.contains("workspace.max_file_mb"), "{error}");
    world.options.max_file_bytes = 100;
    world.options.max_files = 1;
    assert!(refusal(&world).contains("workspace.max_files"));
    world.options.max_files = 2;
    world.begin();
}

#[test]
fn posses_own_state_inside_the_folder_is_not_looked_at() {
    let world = World::new();
    world.write("a", "one");
    let state = world.folder().join(".posse");
    let spaces = posse_workspace::LocalFiles::new(&state, world.options.clone());
    let begun = spaces.begin(RUN, &world.folder()).expect("begun");
    let space = spaces.open(RUN).expect("opened");
    assert_eq!(names_of(&space, &begun.snapshot.commit), ["a"]);
}

#[test]
fn without_git_one_is_told_to_install_it() {
    let mut world = World::repository();
    world.options.git = "/nonexistent/git".into();
    let error = world.spaces().begin(RUN, &world.folder()).expect_err("no git");
    assert!(error.to_string().contains("install git"), "{error}");
}

#[test]
fn a_run_begins_once() {
    let world = World::new();
    world.write("a", "one");
    let (begun, _) = world.begin();
    world.write("a", "two");
    assert_eq!(world.begin().0, begun);
}
