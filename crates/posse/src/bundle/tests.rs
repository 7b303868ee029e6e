//! Bundles that are refused: paths that leave the folder, newer versions, damaged and oversized content.

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

/// Writes a bundle of these entries, reads it, and returns the error.
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
        let error = refused(&[Entry::Manifest(manifest(1)), file(path)]);
        assert_eq!(
            error,
            format!(
                "x.posse is damaged at file {path}: its path leaves the folder, or is in a repository's own"
            )
        );
    }
    let error = refused(&[Entry::Manifest(manifest(1)), file("a\0b")]);
    assert!(error.ends_with("its path is empty, too long or none"), "{error}");
}

#[test]
fn a_file_where_a_folder_is_is_refused() {
    for (one, other) in [("a", "a/b"), ("a/b", "a"), ("a", "a")] {
        let error = refused(&[Entry::Manifest(manifest(2)), file(one), file(other)]);
        assert!(error.contains("another file has its name, or is where its folder is"), "{error}");
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
    let error = refused(&[Entry::Manifest(manifest(2)), file("a")]);
    assert_eq!(error, "x.posse is damaged at its manifest: it counts other entries than there are");
    let blob = Entry::Blob { hash: Hash::of(b"a"), content: Content::Text("b".to_owned()) };
    let with_blob = Manifest { blobs: 1, ..manifest(0) };
    let error = refused(&[Entry::Manifest(with_blob), blob]);
    assert!(error.starts_with("x.posse is damaged at blob "), "{error}");
    assert!(error.ends_with("its content does not fit its name"), "{error}");
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

/// Writes the content compressed as well as gzip can, and reads it. Returns the error, the bytes read, and the size of
/// the file.
fn bomb(write: impl FnOnce(&mut dyn Write)) -> (String, u64, u64) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.posse");
    let mut gzip = GzEncoder::new(File::create(&path).expect("a file"), Compression::best());
    write(&mut gzip);
    gzip.finish().expect("finished");
    let size = std::fs::metadata(&path).expect("its size").len();
    let error = read(&path).err().expect("refused").to_string();
    let mut reader = Reader::open(&path).expect("a file");
    for number in 0.. {
        if reader.next(number).is_err() {
            break;
        }
    }
    (error.replace(&path.display().to_string(), "x.posse"), reader.read, size)
}

fn line(entry: &Entry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).expect("JSON");
    line.push(b'\n');
    line
}

fn event(seq: u64, payload: String) -> Entry {
    let agent = "k3f9ab2c".parse().expect("an id");
    Entry::Event { seq, agent, kind: "run.started".into(), at_ms: 0, version: 1, payload, hash: Hash::ZERO }
}

/// Repeats `piece` for this number of bytes.
fn repeat(to: &mut dyn Write, piece: &str, bytes: usize) {
    let block = piece.repeat((1 << 16) / piece.len() + 1);
    for _ in 0..bytes.div_ceil(block.len()) {
        to.write_all(block.as_bytes()).expect("written");
    }
}

/// What a bomb unpacks to, above every limit of a small file.
const MORE: usize = 66 << 20;
/// The same for a bomb in the manifest, whose limit is far lower.
const MORE_MANIFEST: usize = 16 << 20;
type Write1 = Box<dyn FnOnce(&mut dyn Write)>;

#[test]
fn a_small_file_that_unpacks_to_a_large_one_is_refused_early() {
    let head = line(&Entry::Manifest(Manifest { changed_events: vec![1], ..manifest(0) }));
    let before = "{\"manifest\":{\"posse_bundle\":1,";
    let long = |bytes: usize, piece: &'static str, head: Vec<u8>, begin: &'static str| -> Write1 {
        Box::new(move |to| {
            to.write_all(&head).expect("written");
            to.write_all(begin.as_bytes()).expect("written");
            repeat(to, piece, bytes);
        })
    };
    let within = |piece, head, begin| long(MORE, piece, head, begin);
    let manifest_of = |piece, begin| long(MORE_MANIFEST, piece, before.into(), begin);
    let lines = |make: fn(u64) -> Entry, head: Vec<u8>| -> Write1 {
        Box::new(move |to| {
            to.write_all(&head).expect("written");
            // Serialised once: writing a megabyte of JSON for each number would be most of the test's time.
            let digits = "7654321";
            let template = String::from_utf8(line(&make(7_654_321))).expect("JSON");
            let (before, after) = template.split_once(digits).unwrap_or((&template, ""));
            let mut written = 0;
            for number in 1.. {
                let number = if after.is_empty() { String::new() } else { format!("{number}") };
                for part in [before, &number, after] {
                    to.write_all(part.as_bytes()).expect("written");
                    written += part.len();
                }
                if written > MORE {
                    break;
                }
            }
        })
    };
    let values = |number| event(number, format!("[{}0]", "0,".repeat(500_000)));
    let objects = |number| event(number, format!("[{}0]", "{\"a\":{}},".repeat(200_000)));
    let text = |number| event(number, "x".repeat(1 << 20));
    let blob = |_| Entry::Blob {
        hash: Hash::of("x".repeat(1 << 20).as_bytes()),
        content: Content::Text("x".repeat(1 << 20)),
    };
    let same_file = |number: u64| Entry::File {
        path: Content::Text(format!("a{number}")),
        kind: FileKind::Plain,
        content: Content::Base64("AAAA".repeat(1 << 18)),
    };
    let file_of_nothing = |number: u64| file(&format!("{}{number}", "a".repeat(400)));
    let bombs: Vec<(&str, Write1)> = vec![
        ("one line of nothing", within("\0", Vec::new(), "")),
        ("blanks before the manifest", within(" ", Vec::new(), "")),
        ("a manifest of numbers", manifest_of("1,", "\"changed_events\":[")),
        ("a manifest of empty names", manifest_of("\"\",", "\"changed_files\":[")),
        ("a manifest of unknown fields", manifest_of("\"a\":0,", "")),
        ("a manifest of nested lists", manifest_of("[", "\"left_out\":")),
        ("a long name of a tenant", manifest_of("x", "\"tenant\":\"")),
        ("an event without an end", within("x", head.clone(), "{\"event\":{\"payload\":\"")),
        ("a blob without an end", within("A", head.clone(), "{\"blob\":{\"content\":{\"base64\":\"")),
        ("a file's name without an end", within("a/", head.clone(), "{\"file\":{\"path\":{\"text\":\"")),
        ("an entry of an unknown kind", within("0,", head.clone(), "{\"other\":[")),
        ("events of values", lines(values, head.clone())),
        ("events of objects", lines(objects, head.clone())),
        ("events of text", lines(text, head.clone())),
        ("the same blob again and again", lines(blob, head.clone())),
        ("files of nothing", lines(same_file, head.clone())),
        ("more files than are counted", lines(file_of_nothing, head)),
    ];
    for (name, write) in bombs {
        let (why, read, size) = bomb(write);
        // Counted here, and not by the reader's own limits, which are under test.
        let most = UNPACKED_FLOOR_BYTES.max(UNPACKED_MAX_RATIO * size);
        assert!(read <= most, "{name}: {read} bytes were read");
        assert!(why.starts_with("x.posse is damaged at "), "{name}: {why}");
        if name.contains("manifest") || name.contains("tenant") {
            assert!(read <= MANIFEST_MAX_BYTES, "{name}: {read} bytes were read");
        }
        // Their text alone would fit, but not its values in memory.
        if ["events of values", "events of objects"].contains(&name) {
            assert!(why.ends_with("the events have more values than are read"), "{name}: {why}");
        }
    }
}

#[test]
fn no_file_has_the_path_of_another_or_is_its_folder() {
    let mut paths = BundlePaths::default();
    let mut insert = |path: &str| paths.insert(Path::new(path));
    for new in ["a/b", "a.b", "a/b.c", "a-/b", "b", "a/c/d"] {
        assert!(insert(new), "{new}");
    }
    for taken in ["a/b", "a", "a/b/c", "b/x/y", "a/c"] {
        assert!(!insert(taken), "{taken}");
    }
    assert!(insert("a/c/e") && insert("ba"));
}

#[test]
fn limits_grow_with_the_file_and_end() {
    assert_eq!(Limits::of(0), Limits { unpacked_bytes: UNPACKED_FLOOR_BYTES, values: VALUES_FLOOR });
    let (small, large) = (Limits::of(3 << 20), Limits::of(u64::MAX));
    assert_eq!(small.unpacked_bytes, 192 << 20);
    assert_eq!(large.unpacked_bytes, UNPACKED_MAX_BYTES);
    assert_eq!(values_at_most("[0,0,0]"), 4);
    assert_eq!(values_at_most("{\"a\":1}"), 3);
}
