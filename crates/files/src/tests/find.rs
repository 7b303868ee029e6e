//! Tests of listing, finding and searching.

use super::*;

fn grep(scene: &Scene, query: GrepQuery) -> GrepResult {
    let max_results = if query.max_results == 0 { 100 } else { query.max_results };
    scene.beneath.grep(&GrepQuery { max_results, ..query }, &Stop::new()).unwrap()
}

/// Results as `path:number:text`, with `-` for context.
fn shown(found: &GrepResult) -> Vec<String> {
    let line = |file: &GrepFile, line: &GrepLine| {
        let mark = if line.matched { ':' } else { '-' };
        format!("{}{mark}{}{mark}{}", file.path, line.number, line.text)
    };
    found.files.iter().flat_map(|file| file.lines.iter().map(move |l| line(file, l))).collect()
}

fn pattern(pattern: &str) -> GrepQuery {
    GrepQuery { pattern: pattern.into(), ..Default::default() }
}

#[test]
fn ignore_files_are_honoured_from_the_top_down() {
    let scene = Scene::new();
    scene
        .file(".gitignore", "\u{feff}*.log\n/target/\n# comment\nbuild\n[\n")
        .file(".git/info/exclude", "private.txt\n")
        .file("a.log", "x")
        .file("private.txt", "x")
        .file("target/x.txt", "x")
        .file("sub/target/x.txt", "x")
        .file("sub/build/x.txt", "x")
        .file("sub/.gitignore", "!keep.log\n*.tmp\n")
        .file("sub/keep.log", "x")
        .file("sub/drop.log", "x")
        .file("sub/a.tmp", "x")
        .file("sub/deep/b.tmp", "x")
        .file("other/.gitignore", "*.md\n")
        .file("other/.ignore", "!good.md\n")
        .file("other/good.md", "x")
        .file("other/bad.md", "x")
        .file(".hidden/x.txt", "x");
    let expected = [
        ".gitignore",
        ".hidden/x.txt",
        "other/.gitignore",
        "other/.ignore",
        "other/good.md",
        "sub/.gitignore",
        "sub/keep.log",
        "sub/target/x.txt",
    ];
    assert_eq!(scene.glob("**"), expected);
    // The rules above the start apply too, but not to the start itself.
    assert_eq!(scene.glob("sub/*"), ["sub/.gitignore", "sub/keep.log"]);
    assert_eq!(scene.glob("target/*"), ["target/x.txt"]);
    assert_eq!(scene.list("target"), ["target/x.txt"]);
    let listing = scene.beneath.list(&at("sub")).unwrap();
    assert_eq!(listing.ignored, 3);
    assert_eq!(scene.list("sub"), ["sub/.gitignore", "sub/deep", "sub/keep.log", "sub/target"]);
}

#[test]
fn globs_find_by_path() {
    let scene = Scene::new();
    scene
        .file("src/a.rs", "")
        .file("src/x/b.rs", "")
        .file("src/x/c.txt", "")
        .file("d.rs", "")
        .file("src.rs", "");
    for (pattern, expected) in [
        ("*.rs", &["d.rs", "src.rs"][..]),
        ("./*.rs", &["d.rs", "src.rs"]),
        ("**/*.rs", &["d.rs", "src/a.rs", "src/x/b.rs", "src.rs"]),
        ("src/*.rs", &["src/a.rs"]),
        ("src/**/*.{rs,txt}", &["src/a.rs", "src/x/b.rs", "src/x/c.txt"]),
        ("src/?/b.rs", &["src/x/b.rs"]),
        ("src/[x-z]/c*", &["src/x/c.txt"]),
        ("src/x/b.rs", &["src/x/b.rs"]),
        ("nothing*", &[]),
    ] {
        assert_eq!(scene.glob(pattern), expected, "{pattern}");
    }
    let all = GlobPattern::parse(&RelPath::root(), "**").unwrap();
    let found = scene.beneath.glob(&all, 2, &Stop::new()).unwrap();
    assert_eq!((found.files.len(), found.total), (2, 5));
    let missing = GlobPattern::parse(&at("no"), "*").unwrap();
    assert!(matches!(scene.beneath.glob(&missing, 2, &Stop::new()), Err(FileError::NotFound { .. })));
}

#[test]
fn a_listing_has_kinds_sizes_and_a_limit() {
    let scene = Scene::new();
    scene.file("a.txt", "abc").file("dir/x", "").link("a.txt", "link");
    let listing = scene.beneath.list(&RelPath::root()).unwrap();
    let entries: Vec<_> = listing.entries.iter().map(|e| (e.path.text(), e.kind, e.bytes)).collect();
    assert_eq!(
        entries,
        [
            ("a.txt".to_owned(), FileKind::Regular, Some(3)),
            ("dir".to_owned(), FileKind::Directory, None),
            ("link".to_owned(), FileKind::Link, None),
        ]
    );
    for number in 0..LIST_MAX_ENTRIES + 5 {
        fs::write(scene.ws("dir").join(number.to_string()), "").unwrap();
    }
    let listing = scene.beneath.list(&at("dir")).unwrap();
    assert_eq!((listing.entries.len(), listing.more), (LIST_MAX_ENTRIES, 6));
}

#[test]
fn lines_are_found_with_their_numbers_and_context() {
    let scene = Scene::new();
    scene.file("a.txt", "one\ntwo\nthree\nfour\nfive\n").file("b/c.txt", "TWO\r\nx\r\n");
    assert_eq!(shown(&grep(&scene, pattern("two"))), ["a.txt:2:two"]);
    let query = GrepQuery { case_insensitive: true, ..pattern("^two$") };
    assert_eq!(shown(&grep(&scene, query)), ["a.txt:2:two", "b/c.txt:1:TWO"]);
    let query = GrepQuery { context: 1, ..pattern("three|five") };
    assert_eq!(shown(&grep(&scene, query)), ["a.txt-2-two", "a.txt:3:three", "a.txt-4-four", "a.txt:5:five"]);
    let query = GrepQuery { output: GrepOutput::Files, ..pattern("x|one") };
    let found = grep(&scene, query);
    assert_eq!(found.files.iter().map(|f| f.path.text()).collect::<Vec<_>>(), ["a.txt", "b/c.txt"]);
    let query = GrepQuery { output: GrepOutput::Count, path: at("a.txt"), ..pattern("e") };
    assert_eq!(grep(&scene, query).files[0].matches, 3);
}

#[test]
fn a_filter_is_about_names_or_about_paths() {
    let scene = Scene::new();
    scene.file("a.rs", "x").file("src/b.rs", "x").file("src/c.txt", "x").file("src/d/e.rs", "x");
    for (glob, path, expected) in [
        ("*.rs", "", &["a.rs", "src/b.rs", "src/d/e.rs"][..]),
        ("src/*.rs", "", &["src/b.rs"]),
        ("**/*.rs", "src", &["src/b.rs", "src/d/e.rs"]),
        ("d/*", "src", &["src/d/e.rs"]),
        ("*.{txt,md}", "", &["src/c.txt"]),
    ] {
        let query = GrepQuery { glob: Some(glob.into()), path: at(path), ..pattern("x") };
        let found: Vec<String> = grep(&scene, query).files.iter().map(|file| file.path.text()).collect();
        assert_eq!(found, expected, "{glob}");
    }
    let query = GrepQuery { glob: Some("a{".into()), ..pattern("x") };
    assert!(matches!(scene.beneath.grep(&query, &Stop::new()), Err(FileError::BadGlob { .. })));
}

#[test]
fn binary_and_huge_files_are_skipped_and_counted() {
    let scene = Scene::new();
    scene.file("binary", b"needle\n\0").file("text", b"needle \xff\n");
    fs::File::create(scene.ws("huge")).unwrap().set_len(1 << 40).unwrap();
    scene.file("long-line", vec![b'a'; 5 * 1024 * 1024]);
    let found = grep(&scene, pattern("needle"));
    assert_eq!(shown(&found), ["text:1:needle \u{fffd}"]);
    assert_eq!((found.searched, found.binary, found.unread), (4, 1, 2));
}

#[test]
fn results_are_limited_and_the_same_every_time() {
    let scene = Scene::new();
    for number in 0..600 {
        scene.file(&format!("{number:03}.txt"), "needle\nneedle\n");
    }
    let query = GrepQuery { max_results: 101, ..pattern("needle") };
    let found = grep(&scene, query.clone());
    assert!(found.more);
    let lines = shown(&found);
    assert_eq!(lines.len(), 101);
    assert_eq!(lines[100], "050.txt:1:needle");
    for _ in 0..20 {
        assert_eq!(shown(&grep(&scene, query.clone())), lines);
    }
    let all = grep(&scene, GrepQuery { max_results: 1_200, ..pattern("needle") });
    assert_eq!((shown(&all).len(), all.more, all.searched), (1_200, false, 600));
    let files = GrepQuery { max_results: 7, output: GrepOutput::Files, ..pattern("needle") };
    assert_eq!(grep(&scene, files).files.len(), 7);
}

#[test]
fn text_is_limited_too() {
    let scene = Scene::new();
    let line = format!("needle {}\n", "x".repeat(2_000));
    scene.file("a.txt", line.repeat(1_000));
    let found = grep(&scene, GrepQuery { max_results: GREP_RESULTS_MAX, ..pattern("needle") });
    assert!(found.more);
    let bytes: usize = found.files[0].lines.iter().map(|line| line.text.len()).sum();
    assert!(bytes <= GREP_OUTPUT_MAX_BYTES, "{bytes}");
    assert!(found.files[0].lines[0].text.len() <= GREP_LINE_MAX_BYTES + 10);
}

#[test]
fn a_bad_expression_says_what_is_wrong() {
    let scene = Scene::new();
    for (text, expected) in [("", "empty"), ("a(", "unclosed group"), ("a\nb", "not allowed")] {
        let error = scene.beneath.grep(&pattern(text), &Stop::new()).unwrap_err();
        assert!(matches!(&error, FileError::BadRegex { problem } if problem.contains(expected)), "{error}");
    }
    let error = scene.beneath.grep(&pattern(&"a".repeat(5_000)), &Stop::new()).unwrap_err();
    assert!(error.to_string().len() < 200, "{error}");
    // An expression that would take all memory to compile.
    let error = scene.beneath.grep(&pattern("((a{1000}){1000}){1000}"), &Stop::new()).unwrap_err();
    assert!(matches!(error, FileError::BadRegex { .. }), "{error}");
    let error = scene.beneath.grep(&GrepQuery { path: at("no"), ..pattern("x") }, &Stop::new()).unwrap_err();
    assert!(matches!(error, FileError::NotFound { .. }), "{error}");
}
