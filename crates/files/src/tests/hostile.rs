//! Links, special files and names that are meant to lead outside or to block.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mkfifoat};

use super::*;

/// Asserts that no operation on `path` returns anything from outside or changes anything there.
fn leads_nowhere(scene: &Scene, path: &str) {
    let at = at(path);
    let read = scene.beneath.read(&at).unwrap_err();
    assert!(matches!(read, FileError::Outside { .. } | FileError::BadLink { .. }), "{path}: {read}");
    assert!(!matches!(scene.beneath.read_cached(&at, 1 << 16), Ok(Some(_))), "{path}");
    assert!(scene.beneath.list(&at).is_err(), "{path}");
    let look = scene.beneath.inspect(&at).unwrap_err();
    assert!(matches!(look, FileError::Link { .. } | FileError::Outside { .. }), "{path}: {look}");
    for expected in [ExpectedFile::Absent, hash(&format!("{SECRET}\n"))] {
        assert!(scene.write(path, "overwritten", expected).is_err(), "{path}");
    }
    let query = GrepQuery { pattern: SECRET.into(), path: at, max_results: 9, ..Default::default() };
    assert!(scene.beneath.grep(&query, &Stop::new()).is_err(), "{path}");
}

#[test]
fn links_do_not_lead_outside() {
    let scene = Scene::new();
    scene.link("../ws-evil/secret.txt", "relative").link(scene.evil("secret.txt"), "absolute");
    scene.link("../ws-evil", "dir").link(scene.evil(""), "absolute-dir");
    scene.link("relative", "chain").link("dir", "dir-chain").link("..", "up").link("/", "top");
    scene.link("loop-b", "loop-a").link("loop-a", "loop-b").link("self", "self");
    // A link to the workspace by its absolute path leaves it on the way, even if it comes back.
    scene.file("inside.txt", "inside").link(scene.ws("inside.txt"), "back");
    for path in [
        "relative",
        "absolute",
        "chain",
        "dir/secret.txt",
        "absolute-dir/secret.txt",
        "dir-chain/secret.txt",
        "up/ws-evil/secret.txt",
        "top/etc/passwd",
        "loop-a",
        "self/x",
        "back",
        "dir/new.txt",
        "dir/new/new.txt",
    ] {
        leads_nowhere(&scene, path);
    }
    assert_eq!(fs::read_dir(scene.evil("")).unwrap().count(), 2, "nothing was made outside");
    assert_eq!(fs::read_to_string(scene.evil("secret.txt")).unwrap(), "SECRET\n");
}

#[test]
fn links_are_neither_walked_nor_searched() {
    let scene = Scene::new();
    scene.file("a.txt", "SECRET but ours\n");
    scene.link("../ws-evil", "dir").link(scene.evil("secret.txt"), "file").link("a.txt", "inside");
    assert_eq!(scene.glob("**"), ["a.txt"]);
    assert_eq!(scene.list(""), ["a.txt", "dir", "file", "inside"]);
    let query = GrepQuery { pattern: SECRET.into(), max_results: 9, ..Default::default() };
    let found = scene.beneath.grep(&query, &Stop::new()).unwrap();
    assert_eq!(found.files.len(), 1);
    assert_eq!(found.files[0].path.text(), "a.txt");
}

#[test]
fn magic_links_of_proc_are_not_followed() {
    let proc = DirHandle::open(Path::new("/proc/self")).unwrap();
    for path in ["root/etc/passwd", "cwd", "exe", "fd/0", "root"] {
        let error = proc.read(&at(path)).unwrap_err();
        assert!(matches!(error, FileError::BadLink { .. } | FileError::Outside { .. }), "{path}: {error}");
    }
    // The same through a link in a workspace.
    let scene = Scene::new();
    scene.link("/proc/self/root", "root").link("/proc/self/cwd", "cwd");
    leads_nowhere(&scene, "root/etc/passwd");
    leads_nowhere(&scene, "cwd/Cargo.toml");
}

#[test]
fn special_files_are_refused_at_once() {
    let scene = Scene::new();
    mkfifoat(CWD, scene.ws("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let _socket = UnixListener::bind(scene.ws("socket")).unwrap();
    for path in ["pipe", "socket"] {
        let error = scene.read(path).unwrap_err();
        assert!(matches!(error, FileError::NotRegular { .. }), "{path}: {error}");
        assert!(matches!(scene.beneath.inspect(&at(path)), Err(FileError::NotRegular { .. })), "{path}");
        assert!(scene.write(path, "x", ExpectedFile::Absent).is_err());
        let query = GrepQuery { pattern: "x".into(), path: at(path), max_results: 9, ..Default::default() };
        assert!(scene.beneath.grep(&query, &Stop::new()).is_err());
    }
    assert_eq!(scene.glob("**"), Vec::<String>::new());
    let kinds: Vec<FileKind> =
        scene.beneath.list(&at("")).unwrap().entries.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [FileKind::Pipe, FileKind::Socket]);
    assert_eq!(FileKind::of_type(FileType::Unknown), None);

    let devices = DirHandle::open(Path::new("/dev")).unwrap();
    for path in ["null", "zero", "tty"] {
        let error = devices.read(&at(path)).unwrap_err();
        assert!(matches!(error, FileError::NotRegular { kind: FileKind::Device, .. }), "{path}: {error}");
    }
}

#[test]
fn a_pipe_for_an_ignore_file_does_not_block() {
    let scene = Scene::new();
    scene.file("a.txt", "a");
    mkfifoat(CWD, scene.ws(".gitignore"), Mode::RUSR | Mode::WUSR).unwrap();
    scene.link(scene.evil("secret.txt"), ".ignore");
    assert_eq!(scene.glob("*.txt"), ["a.txt"]);
}

#[test]
fn names_that_are_no_utf8_are_shown_and_searched() {
    let scene = Scene::new();
    fs::write(scene.ws("").join(OsStr::from_bytes(b"a\xff\n.txt")), "needle\n").unwrap();
    assert_eq!(scene.glob("*.txt"), ["a\\xff\\n.txt"]);
    assert_eq!(scene.list(""), ["a\\xff\\n.txt"]);
    let query = GrepQuery { pattern: "needle".into(), max_results: 9, ..Default::default() };
    assert_eq!(scene.beneath.grep(&query, &Stop::new()).unwrap().files.len(), 1);
}

#[test]
fn git_and_unfinished_files_are_not_written_or_shown() {
    let scene = Scene::new();
    scene.file(".git/config", "x").file("sub/.git/config", "x").file(".github/a.yml", "x");
    scene.file(".posse-0123456789abcdef-0.tmp", "half");
    for path in [".git/config", ".git", ".GIT/hooks/x", "sub/.git/config", ".posse-0123456789abcdef-0.tmp"] {
        assert!(matches!(scene.write(path, "y", hash("x")), Err(FileError::Protected { .. })), "{path}");
        assert!(matches!(scene.beneath.inspect(&at(path)), Err(FileError::Protected { .. })), "{path}");
    }
    assert_eq!(scene.glob("**"), [".github/a.yml"]);
    assert_eq!(scene.list(""), [".github", "sub"]);
}

#[test]
fn a_very_deep_tree_ends() {
    let scene = Scene::new();
    let mut dir = scene.ws("");
    for _ in 0..WALK_MAX_DEPTH + 10 {
        dir.push("d");
    }
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("deep.txt"), "x").unwrap();
    let pattern = GlobPattern::parse(&RelPath::root(), "**").unwrap();
    let found = scene.beneath.glob(&pattern, 9, &Stop::new()).unwrap();
    assert!(found.cut && found.files.is_empty());
}
