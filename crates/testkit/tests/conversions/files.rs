//! Searches a workspace, whose files and names may be hostile, with patterns of a model.

use std::fs;
use std::sync::Arc;

use posse_files::{DirHandle, GlobPattern, GrepOutput, GrepQuery, ReadFilter, RelPath, Stop};

use crate::bounded::rows;

fn glob(pattern: &str, files: &[&str]) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    for file in files {
        let path = dir.path().join(file);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
        fs::write(path, "x").expect("a file");
    }
    let beneath = DirHandle::open(dir.path()).expect("a workspace");
    let found = GlobPattern::parse(&RelPath::root(), pattern)
        .and_then(|pattern| beneath.glob(&pattern, 100, &Stop::new()));
    match found {
        Ok(found) => format!("{} found", found.total),
        Err(error) => error.to_string(),
    }
}

fn query(pattern: &str) -> GrepQuery {
    GrepQuery { pattern: pattern.to_owned(), max_results: 10, ..GrepQuery::default() }
}

fn grep(query: &GrepQuery, content: &[u8]) -> String {
    grep_stopped(query, content, false)
}

/// Searches one file. If `stopped`, the caller gives up as soon as the file is opened.
fn grep_stopped(query: &GrepQuery, content: &[u8], stopped: bool) -> String {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file.txt"), content).expect("a file");
    let stop = Stop::new();
    let filter = stopped.then(|| Arc::new(StopAtFirstFile(stop.clone())) as Arc<dyn ReadFilter>);
    let beneath = DirHandle::open(dir.path()).expect("a workspace").with_read_filter(filter);
    match beneath.grep(query, &stop) {
        Ok(found) => format!("{} files, {} unread", found.files.len(), found.unread),
        Err(error) => error.to_string(),
    }
}

/// Stops a search when its first file is opened: after all earlier checks, and before the first byte.
#[derive(Debug)]
struct StopAtFirstFile(Stop);

impl ReadFilter for StopAtFirstFile {
    fn enter(&self, _: &RelPath) -> Result<(), String> {
        Ok(())
    }

    fn open(&self, _: &RelPath) -> Result<(), String> {
        self.0.stop();
        Ok(())
    }
}

/// A pattern that tracks thousands of states for each letter, and never matches.
const SLOW: &str = r"(?-u)[a-z-]{1,2000}x$";

fn long_line(bytes: usize) -> Vec<u8> {
    b"abcdefgh-".iter().copied().cycle().take(bytes).collect()
}

fn many_lines(bytes: usize) -> Vec<u8> {
    let line = [long_line(2_000), b"\n".to_vec()].concat();
    line.iter().copied().cycle().take(bytes).collect()
}

rows! {
    braces_within_braces: || glob(&format!("{}a{}", "{".repeat(400), "}".repeat(400)), &["a"]) => "nested";
    braces_side_by_side: || glob(&"{a,b}".repeat(200), &["a"]) => "0 found";
    braces_with_many_branches: || glob(&format!("{{{}}}", "a?,".repeat(300)), &["ab"]) => "1 found";
    stars_side_by_side: || glob(&format!("{}x", "**/".repeat(300)), &["a/b/c/x", "x"]) => "2 found";
    stars_within_a_name: || glob(&format!("{}b", "*a".repeat(400)), &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"]) => "0 found";
    a_glob_of_a_search_with_braces: || {
        let braces = format!("{}a{}", "{".repeat(400), "}".repeat(400));
        grep(&GrepQuery { glob: Some(braces), ..query("x") }, b"x")
    } => "nested";
    a_pattern_that_counts_and_counts: || grep(&query(r"((\w{100}){100}){100}"), b"x") => "exceeds size limit";
    groups_within_groups: || grep(&query(&format!("{}a{}", "(".repeat(2_000), ")".repeat(2_000))), b"a") => "nest";
    a_slow_pattern_on_many_lines_is_stopped: || grep_stopped(&query(SLOW), &many_lines(30_000_000), true) => "stopped";
    a_slow_pattern_on_one_long_line: || grep(&query(SLOW), &long_line(3_000_000)) => "1 unread";
    a_slow_pattern_of_many_letters: || grep(
        &GrepQuery { output: GrepOutput::Count, case_insensitive: true, ..query(r"(\pL{1,50}\s?){1,50}$^x") }, &long_line(100_000),
    ) => "exceeds size limit";
    rules_of_git_with_braces_within_braces: || {
        let dir = tempfile::tempdir().expect("a directory");
        let rules = format!("{}a{}\nsecret\n", "{".repeat(400), "}".repeat(400));
        for (name, content) in [(".gitignore", rules.as_str()), ("secret", "x"), ("open", "x")] {
            fs::write(dir.path().join(name), content).expect("a file");
        }
        let beneath = DirHandle::open(dir.path()).expect("a workspace");
        let found = beneath.grep(&query("x"), &Stop::new()).expect("a search");
        let names: Vec<String> = found.files.iter().map(|file| file.path.to_string()).collect();
        format!("[{}]", names.join(", "))
    } => "[open]";
    a_line_that_never_ends: || grep(&query("needle"), &vec![b'x'; 60_000_000]) => "1 unread";
    a_file_of_line_ends: || grep(&GrepQuery { output: GrepOutput::Count, ..query("^$") }, &vec![b'\n'; 5_000_000]) => "1 files";
}
