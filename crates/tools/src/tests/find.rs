//! Tests of `list`, `glob` and `grep`.

use super::*;

fn tree() -> Bench {
    let bench = Bench::new();
    bench.file(".gitignore", "*.log\n").file("x.log", "needle\n").file("README.md", "# Needle\n");
    bench.file("src/a.rs", "fn a() {}\n\n// needle\nfn b() {}\n\n\n\nfn c() {} // needle\n");
    bench.file("src/deep/b.rs", "needle\n").file("data.bin", b"needle\0").file("empty/.keep", "");
    std::os::unix::fs::symlink("src", bench.ws("link")).unwrap();
    bench
}

#[test]
fn a_directory_is_listed() {
    let bench = tree();
    let top = ".gitignore (6 bytes)\nREADME.md (9 bytes)\ndata.bin (7 bytes)\nempty/\nlink (symbolic link)\nsrc/\n\
               [6 entries; 1 left out by ignore files]";
    for input in [
        json!({}),
        json!({"path": null}),
        json!({"path": ""}),
        json!({"path": "."}),
        json!({"path": "src/.."}),
    ] {
        assert_eq!(bench.ok("list", input), top);
    }
    assert_eq!(bench.ok("list", json!({"path": "src"})), "src/a.rs (54 bytes)\nsrc/deep/\n[2 entries]");
    fs::create_dir(bench.ws("void")).unwrap();
    assert_eq!(bench.ok("list", json!({"path": "void"})), "[`void` is empty]");
    assert_eq!(
        bench.fails("list", json!({"path": "README.md"}), Code::ToolError),
        "`README.md` is not a directory, or goes through something that is not."
    );
}

#[test]
fn files_are_found_by_path() {
    let bench = tree();
    for (input, expected) in [
        (json!({"pattern": "**/*.rs"}), "src/a.rs\nsrc/deep/b.rs\n[2 files]"),
        (json!({"pattern": "*.rs", "path": "src"}), "src/a.rs\n[1 file]"),
        (
            json!({"pattern": "*.rs"}),
            "[no file matches; `*` stays within one directory, `**/` goes through all]",
        ),
        (json!({"pattern": "**/*.py"}), "[no file matches]"),
        (json!({"pattern": "missing/**"}), "[no file matches]"),
        (json!({"pattern": "README.md/**"}), "[no file matches]"),
    ] {
        assert_eq!(bench.ok("glob", input), expected);
    }
    assert_eq!(
        bench.fails("glob", json!({"pattern": "x/*", "path": "missing"}), Code::ToolError),
        "`missing` does not exist. Use `glob` or `list` to find out what there is."
    );
    assert_eq!(
        bench.fails("glob", json!({"pattern": "a{"}), Code::InvalidInput),
        "`a{` is not a valid file pattern: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)."
    );
}

#[test]
fn many_files_are_cut() {
    let bench = Bench::new();
    for number in 0..510 {
        bench.file(&format!("{number:03}"), "");
    }
    let shown = bench.ok("glob", json!({"pattern": "*"}));
    assert!(shown.ends_with("499\n[500 of 510 files: narrow the pattern to see the others]"), "{shown}");
}

#[test]
fn text_is_found_in_files() {
    let bench = tree();
    for (input, expected) in [
        (
            json!({"pattern": "needle"}),
            "src/a.rs\n3: // needle\n8: fn c() {} // needle\nsrc/deep/b.rs\n1: needle\n\
             [3 matches in 2 files; 1 binary file skipped]",
        ),
        (
            json!({"pattern": "needle", "path": "src/a.rs", "context": 1}),
            "src/a.rs\n2- \n3: // needle\n4- fn b() {}\n--\n7- \n8: fn c() {} // needle\n[2 matches in 1 file]",
        ),
        (
            json!({"pattern": "NEEDLE", "case_insensitive": true, "output": "files", "glob": "*.{rs,md}"}),
            "README.md\nsrc/a.rs\nsrc/deep/b.rs\n[3 files]",
        ),
        (
            json!({"pattern": "needle", "output": "count", "path": "src"}),
            "src/a.rs: 2\nsrc/deep/b.rs: 1\n[2 files]",
        ),
        (json!({"pattern": "nothing", "path": "src"}), "[no match in 2 files]"),
        (
            json!({"pattern": "needle", "max_results": 1, "path": "src"}),
            "src/a.rs\n3: // needle\n[1 match in 1 file; there are more: narrow the search, or ask for `files` or `count`]",
        ),
        (json!({"pattern": "needle", "path": "x.log"}), "x.log\n1: needle\n[1 match in 1 file]"),
        (json!({"pattern": "needle", "path": "link/deep"}), "link/deep/b.rs\n1: needle\n[1 match in 1 file]"),
    ] {
        assert_eq!(bench.ok("grep", input), expected);
    }
}

#[test]
fn a_bad_search_is_explained() {
    let bench = tree();
    let text = bench.fails("grep", json!({"pattern": "foo("}), Code::InvalidInput);
    assert!(text.contains("unclosed group") && text.contains("Escape characters"), "{text}");
    assert_eq!(
        bench.fails("grep", json!({"pattern": ""}), Code::InvalidInput),
        "Invalid input for `grep`: `pattern` must not be empty. Nothing was done."
    );
    assert_eq!(
        bench.fails("grep", json!({"pattern": "x", "output": "lines"}), Code::InvalidInput),
        "Invalid input for `grep`: `output`: unknown variant `lines`, expected one of `content`, `files`, `count`. \
         Nothing was done."
    );
}

#[test]
fn a_name_cannot_forge_a_line() {
    let bench = Bench::new();
    bench.file("a\n[9 files]\nb", "x\n");
    let shown = bench.ok("glob", json!({"pattern": "*"}));
    assert_eq!(shown, "a\\n[9 files]\\nb\n[1 file]");
    assert_eq!(bench.ok("list", json!({})), "a\\n[9 files]\\nb (2 bytes)\n[1 entry]");
}
