//! Finds files by a pattern of their path.

use std::ops::ControlFlow;
use std::path::Path;

use globset::{GlobBuilder, GlobSet};

use super::ignored::IgnoreRules;
use super::walk::walk;
use super::{DirHandle, FileError, RelPath, Stop};

/// Maximum length of a pattern.
pub const GLOB_PATTERN_MAX_BYTES: usize = 1_024;
/// Maximum number of files in a result.
pub const GLOB_RESULTS_MAX: usize = 1_000;

/// Maximum nesting of braces.
const BRACES_MAX_DEPTH: usize = 8;
/// Maximum length of a problem text.
const PROBLEM_MAX_CHARS: usize = 200;

/// Characters that make a part of a pattern more than a name.
const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// A pattern, split after its literal directories. The search begins there, and a permission rule can match that
/// directory.
#[derive(Debug, Clone)]
pub struct GlobPattern {
    base: RelPath,
    matcher: GlobSet,
}

impl GlobPattern {
    /// Parses a pattern that is relative to `base`. `*` and `?` stay within one name, `**` crosses directories.
    pub fn parse(base: &RelPath, pattern: &str) -> Result<Self, FileError> {
        let bad = |problem: &str| {
            // A pattern beyond the limit is not repeated in full.
            let shown: String = pattern.chars().take(80).collect();
            FileError::BadGlob { pattern: shown, problem: problem.to_owned() }
        };
        if pattern.is_empty() {
            return Err(bad("it is empty"));
        }
        if pattern.len() > GLOB_PATTERN_MAX_BYTES {
            return Err(bad("it is too long"));
        }
        if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(bad("it must stay beneath the workspace: no leading `/` and no `..`"));
        }
        let (literal, rest) = Self::split(pattern);
        let inner = if literal.is_empty() { Ok(RelPath::root()) } else { RelPath::parse(literal) };
        let inner = inner.map_err(|problem| bad(&format!("it {problem}")))?;
        let matcher = compile(rest).map_err(|problem| bad(&problem))?;
        Ok(Self { base: base.below(&inner), matcher })
    }

    /// Splits a pattern after its leading directories without special characters.
    fn split(pattern: &str) -> (&str, &str) {
        let special = pattern.find(SPECIAL).unwrap_or(pattern.len());
        match pattern[..special].rfind('/') {
            Some(slash) => (&pattern[..slash], &pattern[slash + 1..]),
            None => ("", pattern),
        }
    }

    /// The directory where the search begins.
    pub fn base(&self) -> &RelPath {
        &self.base
    }

    /// Whether a path below [`Self::base`] matches.
    fn matches(&self, path: &Path) -> bool {
        self.matcher.is_match(path)
    }
}

/// Compiles a pattern in which `*` stays within one name. An error describes the problem.
pub(super) fn compile(pattern: &str) -> Result<GlobSet, String> {
    if is_beyond_nesting(pattern) {
        return Err(format!("its braces are nested more than {BRACES_MAX_DEPTH} deep"));
    }
    // A leading `./` has no meaning, but the matcher would search for it.
    let pattern = pattern.trim_start_matches("./");
    let glob = GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build();
    // A set of one pattern, because compiling a single pattern panics if it becomes too large.
    let set = glob.and_then(|glob| GlobSet::new([glob]));
    set.map_err(|error| error.kind().to_string().chars().take(PROBLEM_MAX_CHARS).collect())
}

/// Whether braces are nested too deep for a compiler that recurses on the stack.
pub(super) fn is_beyond_nesting(pattern: &str) -> bool {
    let (mut depth, mut escaped) = (0_usize, false);
    pattern.chars().any(|c| {
        match c {
            _ if escaped => {}
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        depth > BRACES_MAX_DEPTH
    })
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobResult {
    /// The files, ordered by path, at most as many as requested.
    pub files: Vec<RelPath>,
    /// How many files match and may be named.
    pub total: usize,
    /// Whether a limit was reached, so that part of the tree was not searched.
    pub cut: bool,
}

impl DirHandle {
    /// Finds the regular files that match, without ignored files.
    ///
    /// They are ordered by path and not by age, so that the same tree gives the same result.
    pub fn glob(&self, pattern: &GlobPattern, limit: usize, stop: &Stop) -> Result<GlobResult, FileError> {
        let mut found = GlobResult { files: Vec::new(), total: 0, cut: false };
        let tree = self.descend(pattern.base())?;
        let walked = walk(&tree, IgnoreRules::above(self, pattern.base()), stop, |path| {
            if pattern.matches(path.as_path()) && tree.admit(&path).is_ok() {
                found.total += 1;
                if found.files.len() < limit.min(GLOB_RESULTS_MAX) {
                    found.files.push(tree.shown(&path));
                }
            }
            ControlFlow::Continue(())
        })?;
        found.cut = walked.cut;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_cut_after_its_literal_directories() {
        for (pattern, base, rest) in [
            ("*.rs", "", "*.rs"),
            ("src/*.rs", "src", "*.rs"),
            ("src/a/**/x?.rs", "src/a", "**/x?.rs"),
            ("src/a{b,c}/d", "src", "a{b,c}/d"),
            ("src/main.rs", "src", "main.rs"),
            ("src/", "src", ""),
            ("a\\*b/c", "", "a\\*b/c"),
        ] {
            assert_eq!(GlobPattern::split(pattern), (base, rest), "{pattern}");
        }
    }

    #[test]
    fn a_bad_pattern_says_what_is_wrong() {
        for (pattern, expected) in [
            ("", "`` is not a valid file pattern: it is empty"),
            ("/etc/*", "no leading `/` and no `..`"),
            ("../*", "no leading `/` and no `..`"),
            ("a/../b*", "no leading `/` and no `..`"),
            ("a[", "unclosed character class"),
            ("a{b", "unclosed alternate group"),
            ("~/x*", "names a home directory"),
        ] {
            let error = GlobPattern::parse(&RelPath::root(), pattern).unwrap_err().to_string();
            assert!(error.contains(expected), "{pattern}: {error}");
        }
        let long = "a".repeat(GLOB_PATTERN_MAX_BYTES + 1);
        let error = GlobPattern::parse(&RelPath::root(), &long).unwrap_err().to_string();
        assert!(error.contains("too long") && error.len() < 200, "{error}");
    }
}
