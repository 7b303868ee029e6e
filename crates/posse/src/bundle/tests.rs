use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn manifest(files: u64) -> Manifest {
    Manifest {
        posse_bundle: BUNDLE_VERSION,
        posse: "0.0.0".to_owned(),
        run: "k3f9ab2c".parse().expect("id"),
        tenant: "local".to_owned(),
        head_seq: 0,
        head_hash: Hash::ZERO,
        events: 0,
        blobs: 0,
        files,
        base_tree: None,
        changed_events: Vec::new(),
        changed_blobs: Vec::new(),
        shortened_blob: None,
        changed_files: Vec::new(),
        left_out: Vec::new(),
    }
}

fn file(path: &str) -> Entry {
    Entry::File {
        path: Content::Text(path.to_owned()),
        kind: FileKind::Plain,
        content: Content::Text("x".to_owned()),
    }
}

/// Writes a bundle of these entries and reads it.
fn refused(entries: &[Entry]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.posse");
    let file = File::create(&path).expect("a file");
    let mut writer = Writer::new(GzEncoder::new(file, Compression::fast()));
    for entry in entries {
        writer.entry(entry).expect("written");
    }
    writer.end().expect("ended").finish().expect("finished");
    let error = read(&path).err().expect("refused").to_string();
    error.replace(&path.display().to_string(), "x.posse")
}

#[test]
fn a_path_that_leaves_the_folder_is_refused() {
    for path in ["../x", "a/../../x", "/etc/passwd", "a//b", ".git/config", "a/.GIT/hooks/x", "./x", "a/"] {
        let said = refused(&[Entry::Manifest(manifest(1)), file(path)]);
        assert_eq!(
            said,
            format!(
                "x.posse is damaged at file {path}: its path leaves the folder, or is in a repository's own"
            )
        );
    }
    let said = refused(&[Entry::Manifest(manifest(1)), file("a\0b")]);
    assert!(said.ends_with("its path is empty, too long or none"), "{said}");
}

#[test]
fn a_file_where_a_folder_is_is_refused() {
    for (one, other) in [("a", "a/b"), ("a/b", "a"), ("a", "a")] {
        let said = refused(&[Entry::Manifest(manifest(2)), file(one), file(other)]);
        assert!(said.contains("another file has its name, or is where its folder is"), "{said}");
    }
}

#[test]
fn a_newer_bundle_is_refused_by_its_version() {
    let newer = Manifest { posse_bundle: BUNDLE_VERSION + 1, ..manifest(0) };
    let expected = "x.posse was written by a newer Posse (bundle version 2, this one knows 1)";
    assert_eq!(refused(&[Entry::Manifest(newer)]), expected);
}

#[test]
fn a_newer_bundle_with_other_fields_is_refused_by_its_version_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.posse");
    let mut gzip = GzEncoder::new(File::create(&path).expect("a file"), Compression::fast());
    gzip.write_all(b"{\"manifest\":{\"posse_bundle\":9,\"shape\":\"new\"}}\n").expect("written");
    gzip.finish().expect("finished");
    assert!(matches!(read(&path), Err(BundleError::Newer { found: 9, .. })));
}

#[test]
fn counts_and_content_are_checked() {
    let said = refused(&[Entry::Manifest(manifest(2)), file("a")]);
    assert_eq!(said, "x.posse is damaged at its manifest: it counts other entries than there are");
    let blob = Entry::Blob { hash: Hash::of(b"a"), content: Content::Text("b".to_owned()) };
    let with_blob = Manifest { blobs: 1, ..manifest(0) };
    let said = refused(&[Entry::Manifest(with_blob), blob]);
    assert!(said.starts_with("x.posse is damaged at blob "), "{said}");
    assert!(said.ends_with("its content does not fit its name"), "{said}");
    assert_eq!(refused(&[file("a")]), "x.posse is damaged at line 1: it is not the manifest of a bundle");
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.posse");
    let mut writer = Writer::new(GzEncoder::new(File::create(&path).expect("a file"), Compression::fast()));
    writer.entry(&Entry::Manifest(manifest(1))).expect("written");
    writer.entry(&file("a")).expect("written");
    writer.end().expect("ended").finish().expect("finished");
    let whole = std::fs::read(&path).expect("read");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).expect("written");
        assert!(read(&path).is_err(), "{length} bytes");
    }
}

#[test]
fn what_is_not_text_comes_back_as_it_was() {
    let bytes = vec![0, 159, 146, 150];
    assert_eq!(Content::of(bytes.clone()).into_bytes(), Ok(bytes));
    assert_eq!(Content::of(b"text".to_vec()), Content::Text("text".to_owned()));
}
