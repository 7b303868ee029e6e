//! Tests of writing.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::*;

#[test]
fn a_file_is_made_with_its_directories() {
    let scene = Scene::new();
    scene.write("a/b/c.txt", "new", ExpectedFile::Absent).unwrap();
    assert_eq!(fs::read_to_string(scene.ws("a/b/c.txt")).unwrap(), "new");
    assert_eq!(scene.names("a/b"), ["c.txt"]);
    scene.write("日本/ü.txt", "", ExpectedFile::Absent).unwrap();
    assert_eq!(scene.read("日本/ü.txt").unwrap(), b"");
}

#[test]
fn a_file_is_replaced_and_keeps_its_mode() {
    let scene = Scene::new();
    scene.file("run.sh", "old");
    fs::set_permissions(scene.ws("run.sh"), fs::Permissions::from_mode(0o4751)).unwrap();
    scene.write("run.sh", "new", hash("old")).unwrap();
    let mode = fs::metadata(scene.ws("run.sh")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o751, "all but the set-user-id bit");
    assert_eq!(scene.read("run.sh").unwrap(), b"new");
    assert_eq!(scene.names(""), ["run.sh"]);
}

#[test]
fn a_new_file_has_the_mode_of_new_files() {
    let scene = Scene::new();
    scene.file("by-others", "x");
    scene.write("by-us", "x", ExpectedFile::Absent).unwrap();
    let mode = |path: &str| fs::metadata(scene.ws(path)).unwrap().mode();
    assert_eq!(mode("by-us"), mode("by-others"));
}

#[test]
fn a_changed_file_is_not_replaced() {
    let scene = Scene::new();
    scene.file("a.txt", "theirs");
    for expected in [hash("old"), ExpectedFile::Absent] {
        assert!(matches!(scene.write("a.txt", "ours", expected), Err(FileError::Changed { .. })));
        assert_eq!(scene.read("a.txt").unwrap(), b"theirs");
    }
    assert!(matches!(scene.write("b.txt", "ours", hash("old")), Err(FileError::Changed { .. })));
    assert_eq!(scene.names(""), ["a.txt"], "nothing is left behind");
}

#[test]
fn another_name_of_the_same_file_keeps_the_old_content() {
    let scene = Scene::new();
    fs::hard_link(scene.evil("secret.txt"), scene.ws("hard.txt")).unwrap();
    scene.write("hard.txt", "ours", hash("SECRET\n")).unwrap();
    assert_eq!(fs::read_to_string(scene.evil("secret.txt")).unwrap(), "SECRET\n");
    assert_eq!(scene.read("hard.txt").unwrap(), b"ours");
}

#[test]
fn links_are_not_written_through_even_inside() {
    let scene = Scene::new();
    scene.file("dir/a.txt", "a").link("dir", "link").link("dir/a.txt", "file").link("nowhere", "dangling");
    for path in ["link/a.txt", "link/new.txt", "file", "dangling", "link/new/x.txt"] {
        for expected in [hash("a"), ExpectedFile::Absent] {
            let error = scene.write(path, "b", expected).unwrap_err();
            assert!(matches!(error, FileError::Link { .. }), "{path}: {error}");
        }
        assert!(matches!(scene.beneath.inspect(&at(path)), Err(FileError::Link { .. })), "{path}");
    }
    assert_eq!(scene.read("dir/a.txt").unwrap(), b"a");
    assert_eq!(scene.names("dir"), ["a.txt"]);
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let scene = Scene::new();
    scene.file("dir/a.txt", "a");
    assert!(matches!(scene.write("dir", "x", ExpectedFile::Absent), Err(FileError::NotRegular { .. })));
    assert!(matches!(
        scene.write("dir/a.txt/b", "x", ExpectedFile::Absent),
        Err(FileError::NotDirectory { .. })
    ));
    assert!(matches!(scene.write(".", "x", ExpectedFile::Absent), Err(FileError::NotRegular { .. })));
    let long = "x".repeat(300);
    assert!(matches!(scene.write(&long, "x", ExpectedFile::Absent), Err(FileError::NameTooLong { .. })));
    let longest = "x".repeat(255);
    scene.write(&longest, "x", ExpectedFile::Absent).unwrap();
}

#[test]
fn what_is_read_only_stays() {
    let scene = Scene::new();
    scene.file("a.txt", "a").file("dir/b.txt", "b");
    fs::set_permissions(scene.ws("a.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(scene.write("a.txt", "x", hash("a")), Err(FileError::ReadOnly { .. })));
    assert!(matches!(scene.beneath.inspect(&at("a.txt")), Err(FileError::ReadOnly { .. })));
    fs::set_permissions(scene.ws("dir"), fs::Permissions::from_mode(0o555)).unwrap();
    // The superuser may write everywhere.
    if fs::write(scene.ws("dir/probe"), "").is_err() {
        assert!(matches!(scene.write("dir/b.txt", "x", hash("b")), Err(FileError::Denied { .. })));
    }
    fs::set_permissions(scene.ws("dir"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(scene.read("dir/b.txt").unwrap(), b"b");
}

#[test]
fn too_much_is_refused_before_anything_happens() {
    let scene = Scene::new();
    let much = "x".repeat(usize::try_from(WRITE_MAX_BYTES).unwrap() + 1);
    let error = scene.write("dir/a.txt", &much, ExpectedFile::Absent).unwrap_err();
    assert!(matches!(error, FileError::TooLarge { .. }));
    assert!(scene.names("").is_empty());
}

#[test]
fn a_write_that_is_asked_to_stop_leaves_everything() {
    let scene = Scene::new();
    scene.file("a.txt", "a");
    let stop = Stop::new();
    stop.stop();
    let stopped = scene.beneath.replace(&at("a.txt"), b"b", hash("a"), &stop);
    assert!(matches!(stopped, Err(FileError::Stopped)));
    assert_eq!(scene.read("a.txt").unwrap(), b"a");
    assert_eq!(scene.names(""), ["a.txt"]);
}

#[test]
fn what_an_interrupted_write_left_is_swept() {
    let scene = Scene::new();
    scene.file("dir/a.txt", "a");
    let hash = blake3::hash(b"a.txt").to_hex();
    let left = format!("dir/.posse-{}-00000000000000aa.tmp", &hash[..16]);
    scene.file(&left, "half").file("dir/.posse-0000000000000000-00000000000000bb.tmp", "of another file");
    assert_eq!(scene.list("dir"), ["dir/a.txt"], "unfinished files are not shown");
    assert_eq!(scene.beneath.sweep(&at("dir/a.txt")).unwrap(), 1);
    assert_eq!(scene.names("dir"), [".posse-0000000000000000-00000000000000bb.tmp", "a.txt"]);
    assert_eq!(scene.beneath.sweep(&at("no/a.txt")).unwrap(), 0);
}
