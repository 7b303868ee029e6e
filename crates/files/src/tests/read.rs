//! Tests of reading.

use super::*;

#[test]
fn content_is_given_back_byte_by_byte() {
    let scene = Scene::new();
    for (name, content) in [
        ("plain.txt", &b"a\nb\n"[..]),
        ("empty.txt", b""),
        ("crlf.txt", b"a\r\nb\r\n"),
        ("latin1.txt", b"\xe4\xf6\n"),
        ("binary", b"\x00\x01\x02"),
        ("日本/ü ö.txt", b"x"),
    ] {
        scene.file(name, content);
        assert_eq!(scene.read(name).unwrap(), content, "{name}");
        let cached = scene.beneath.read_cached(&at(name), 1 << 16).unwrap();
        assert!(cached.is_none_or(|bytes| bytes == content));
    }
}

#[test]
fn a_link_inside_is_followed() {
    let scene = Scene::new();
    scene
        .file("dir/a.txt", "a")
        .link("dir/a.txt", "file-link")
        .link("dir", "dir-link")
        .link("../dir", "dir/up");
    for path in ["file-link", "dir-link/a.txt", "dir/up/a.txt", "dir/../dir/a.txt"] {
        assert_eq!(scene.read(path).unwrap(), b"a", "{path}");
    }
    assert_eq!(scene.list("dir-link"), ["dir-link/a.txt", "dir-link/up"]);
}

#[test]
fn what_is_not_there_or_no_file_is_said() {
    let scene = Scene::new();
    scene.file("dir/a.txt", "a");
    assert!(matches!(scene.read("b.txt"), Err(FileError::NotFound { .. })));
    assert!(matches!(scene.read("b/c.txt"), Err(FileError::NotFound { .. })));
    assert!(matches!(scene.read("dir/a.txt/b"), Err(FileError::NotDirectory { .. })));
    assert!(matches!(scene.read("dir"), Err(FileError::NotRegular { kind: FileKind::Directory, .. })));
    assert!(matches!(scene.read(&"x".repeat(300)), Err(FileError::NameTooLong { .. })));
    assert!(matches!(scene.beneath.list(&at("dir/a.txt")), Err(FileError::NotDirectory { .. })));
    assert_eq!(scene.read("b.txt").unwrap_err().to_string(), "`b.txt` does not exist");
}

#[test]
fn a_huge_file_is_refused_without_being_read() {
    let scene = Scene::new();
    fs::File::create(scene.ws("huge")).unwrap().set_len(1 << 40).unwrap();
    let error = scene.read("huge").unwrap_err();
    assert!(matches!(error, FileError::TooLarge { bytes, limit: READ_MAX_BYTES, .. } if bytes == 1 << 40));
    assert!(scene.beneath.read_cached(&at("huge"), 1 << 16).unwrap().is_none());
}

#[test]
fn a_missing_workspace_is_an_error_of_its_own() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.ws("")).unwrap();
    assert!(matches!(DirHandle::open(&scene.ws("")), Err(FileError::Workspace { .. })));
    assert!(matches!(DirHandle::open_cached(&scene.ws("")), Err(FileError::Workspace { .. }) | Ok(None)));
    // The open handle keeps the removed directory: it is empty, and the new one is not used instead.
    fs::create_dir(scene.ws("")).unwrap();
    scene.file("a.txt", SECRET);
    assert!(matches!(scene.read("a.txt"), Err(FileError::NotFound { .. })));
}

#[test]
fn a_file_without_permission_is_denied() {
    use std::os::unix::fs::PermissionsExt;
    let scene = Scene::new();
    scene.file("a.txt", "a");
    fs::set_permissions(scene.ws("a.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    // The superuser may read everything.
    if fs::read(scene.ws("a.txt")).is_err() {
        assert!(matches!(scene.read("a.txt"), Err(FileError::Denied { .. })));
    }
}
