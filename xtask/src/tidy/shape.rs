//! Checks that files and functions are short enough to be read in one go.
//!
//! What sets admired codebases apart is not their average but their tail. The limits are where a reader has to scroll
//! back to remember the beginning. Tests may be long, since each is read alone.

use super::Breach;
use super::source::{Source, item_end};

/// Lines of a file that are not tests.
const MAX_FILE_LINES: usize = 900;
/// From the line of `fn` to the line of its closing brace.
const MAX_FUNCTION_LINES: usize = 130;

pub(crate) fn check(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let lines = source.lines_before_tests();
    if lines > MAX_FILE_LINES {
        breaches.push(Breach {
            place: source.path.clone(),
            rule: "file-length",
            found: format!("{lines} lines before its tests, at most {MAX_FILE_LINES}"),
            why: "a file holds one thing; split it along what it holds",
        });
    }
    for function in source.declarations(&["fn"]).iter().filter(|function| !source.is_test(function.at)) {
        let end = item_end(&source.masked.code, function.at);
        let (first, last) = (source.line(function.at), source.line(end));
        if last - first > MAX_FUNCTION_LINES {
            breaches.push(Breach {
                place: format!("{}:{first}", source.path),
                rule: "function-length",
                found: format!(
                    "`{}` has {} lines, at most {MAX_FUNCTION_LINES}",
                    function.name,
                    last - first
                ),
                why: "one function owns the control flow and its leaves are pure: move leaves out",
            });
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str, all_tests: bool) -> Vec<&'static str> {
        let mut source = Source::new("crates/engine/src/x.rs", text);
        source.all_tests = all_tests;
        check(&source).into_iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let long = "\n".repeat(MAX_FILE_LINES + 1);
        assert_eq!(rules(&long, false), ["file-length"]);
        assert_eq!(rules(&"\n".repeat(MAX_FILE_LINES), false), [""; 0]);
        assert_eq!(rules(&format!("#[cfg(test)]\nmod tests {{{long}}}\n"), false), [""; 0]);
        assert_eq!(rules(&long, true), [""; 0]);
    }

    #[test]
    fn a_function_is_measured_to_its_own_brace() {
        let body =
            |lines: usize| format!("fn f(x: [u8; 4]) {{\n{}}}\n", "    { let y = \"}\"; }\n".repeat(lines));
        assert_eq!(rules(&body(MAX_FUNCTION_LINES), false), ["function-length"]);
        assert_eq!(rules(&body(MAX_FUNCTION_LINES - 1), false), [""; 0]);
        let two = format!("{}{}", body(MAX_FUNCTION_LINES - 1), body(MAX_FUNCTION_LINES - 1));
        assert_eq!(rules(&two, false), [""; 0]);
        let declared = format!("trait T {{ fn f();\n{} }}", "\n".repeat(MAX_FUNCTION_LINES + 5));
        assert_eq!(rules(&declared, false), [""; 0]);
    }
}
