//! Folders inside a repository, and inside its `.git` directory.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use posse_workspace::{RepositoryError, RunBase, RunSpace};

use crate::support::{RUN, World, files_of, fingerprint, names_of, status_in, write};

fn begin_in(world: &World, folder: &str) -> (RunBase, RunSpace) {
    let begun = world.spaces().begin(RUN, &world.folder().join(folder)).expect("begun");
    (begun, world.spaces().open(RUN).expect("opened"))
}

#[test]
fn what_the_repository_above_ignores_is_ignored() {
    let world = World::repository();
    fs::write(world.home().join(".gitconfig"), "[core]\n\texcludesFile = ~/everywhere\n").expect("written");
    fs::write(world.home().join("everywhere"), "*.swp\n").expect("written");
    world.write(".git/info/exclude", "private\n");
    world.write(".gitignore", ".env\nnode_modules/\n/pkg/deep/only-there\n*.log\n");
    world.write("pkg/.gitignore", "!kept.log\n");
    let ignored =
        [".env", "deep/.env", "deep/only-there", "node_modules/x/index.js", "private", "a.swp", "b.log"];
    for name in ignored {
        world.write(&format!("pkg/{name}"), "SECRET");
    }
    for name in ["a", "kept.log", "deep/b", "deep/private.txt", "only-there"] {
        world.write(&format!("pkg/{name}"), "taken");
    }
    world.commit_all();
    world.write("pkg/forced.log", "tracked in spite of the pattern");
    world.write("pkg/node_modules/patched/tracked.js", "tracked");
    world.git(&["add", "-f", "pkg/forced.log", "pkg/node_modules/patched/tracked.js"]);
    let before = fingerprint(&world.folder());
    let (begun, space) = begin_in(&world, "pkg");
    let names = [
        ".gitignore",
        "a",
        "deep/b",
        "deep/private.txt",
        "forced.log",
        "kept.log",
        "node_modules/patched/tracked.js",
        "only-there",
    ];
    assert_eq!(names_of(&space, &begun.snapshot.commit), names);
    assert!(fingerprint(&world.folder()) == before);

    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for name in ignored {
        write(&dir, name, "SECRET of the workspace");
    }
    assert_eq!(status_in(&space, &dir, &world.home()), "");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
    write(&dir, "deep/new", "made by the agent");
    let salvaged = space.salvage(RUN, 1).expect("salvaged").snapshot.commit;
    assert_eq!(names_of(&space, &salvaged).len(), names.len() + 1);
}

#[test]
fn names_that_look_like_patterns_are_ignored_as_they_are() {
    let ignored: [&[u8]; 11] = [
        b"s*r",
        b"w?at",
        b"[ab]",
        b"{a,b}",
        b"back\\slash",
        b"trail ",
        b" lead",
        b"!bang",
        b"tab\t",
        b"new\nline",
        b"\xff\xfe",
    ];
    let taken = ["star", "what", "a", "{a", "backslash", "trail", "lead", "bang", "sub"];
    let world = World::repository();
    world.write(".gitignore", "/pkg/sub/*\n");
    for name in taken {
        world.write(&format!("pkg/sub/{name}"), "tracked");
    }
    world.git(&["add", "-f", "pkg"]);
    let sub = world.folder().join("pkg/sub");
    for name in ignored {
        fs::write(sub.join(OsStr::from_bytes(name)), "SECRET").expect("written");
    }
    let (begun, space) = begin_in(&world, "pkg");
    let mut expected = taken.map(|name| format!("sub/{name}"));
    expected.sort();
    assert_eq!(names_of(&space, &begun.snapshot.commit), expected);
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for name in ignored {
        fs::write(dir.join("sub").join(OsStr::from_bytes(name)), "SECRET").expect("written");
    }
    assert_eq!(status_in(&space, &dir, &world.home()), "");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), begun.snapshot);
}

#[test]
fn a_folder_that_is_itself_ignored_is_taken_as_it_is() {
    for folder in ["out", "out/deep", "out/deep/er"] {
        let world = World::repository();
        world.write(".gitignore", "out/\n");
        world.commit_all();
        world.write("out/deep/er/a", "mine");
        let (begun, space) = begin_in(&world, folder);
        let files = files_of(&space, &begun.snapshot.commit);
        assert_eq!(files.len(), 1, "{folder}");
        assert!(begun.notes.iter().any(|note| note.contains("itself ignored")), "{:?}", begun.notes);
    }
}

#[test]
fn ignored_directories_of_the_folder_are_found_for_programs() {
    let world = World::repository();
    world.write(".gitignore", "node_modules/\n");
    world.write("pkg/node_modules/x", "x");
    world.write("pkg/a", "a");
    world.commit_all();
    let (_, space) = begin_in(&world, "pkg");
    assert_eq!(space.caches(&["node_modules".to_owned()]), [PathBuf::from("node_modules")]);
}

#[test]
fn patterns_of_the_repository_itself_find_directories_for_programs() {
    let world = World::repository();
    world.write(".git/info/exclude", "node_modules/\n");
    world.write("node_modules/x", "x");
    let (_, space) = world.begin();
    assert_eq!(space.caches(&["node_modules".to_owned()]), [PathBuf::from("node_modules")]);
}

#[test]
fn a_dot_git_that_is_no_repository_does_not_matter() {
    let world = World::new();
    world.write(".git/unrelated", "x");
    world.write("pkg/a", "a");
    let (begun, space) = begin_in(&world, "pkg");
    assert_eq!(names_of(&space, &begun.snapshot.commit), ["a"]);
    assert_eq!(begun.notes, [""; 0]);
}

#[test]
fn a_bare_repository_is_refused() {
    let world = World::new();
    world.git(&["init", "-q", "--bare", "."]);
    let checkout = World::repository();
    for (world, folder) in [(&world, world.folder()), (&checkout, checkout.folder().join(".git"))] {
        let before = fingerprint(&folder);
        let error = world.spaces().begin(RUN, &folder).expect_err("refused");
        assert!(matches!(error, RepositoryError::Unsupported(_)), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("is a bare git repository: ") && text.contains("git clone"), "{text}");
        assert!(fingerprint(&folder) == before);
    }
}
