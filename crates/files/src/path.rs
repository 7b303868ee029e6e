//! Paths beneath a workspace.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Maximum length of a path: Linux opens no longer one.
pub const PATH_MAX_BYTES: usize = 4095;

/// Why a text is not a path beneath a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PathProblem {
    /// The text is empty.
    #[error("is empty: give a path relative to the workspace")]
    Empty,
    /// It begins with `/`.
    #[error("is an absolute path: give it relative to the workspace")]
    Absolute,
    /// It begins with `~`.
    #[error("names a home directory: give a path relative to the workspace")]
    Home,
    /// Its `..` lead out of the workspace.
    #[error("leads out of the workspace")]
    Outside,
    /// It contains a NUL.
    #[error("contains a NUL character")]
    Nul,
    /// It is longer than any real path.
    #[error("is longer than {PATH_MAX_BYTES} bytes")]
    TooLong,
}

/// A path relative to the workspace, normalised as text: no `.`, no `..`, no doubled or closing `/`. The workspace
/// itself is the empty path and is shown as `.`.
///
/// `a/../b` is `b` here even if `a` is a link to somewhere else. The kernel never sees the `..`, so it opens exactly
/// the path that a permission rule was checked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

impl RelPath {
    /// The workspace itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses a path that a model or a user wrote.
    pub fn parse(text: &str) -> Result<Self, PathProblem> {
        if text.is_empty() {
            return Err(PathProblem::Empty);
        }
        if text.len() > PATH_MAX_BYTES {
            return Err(PathProblem::TooLong);
        }
        if text.contains('\0') {
            return Err(PathProblem::Nul);
        }
        if text == "~" || text.starts_with("~/") {
            return Err(PathProblem::Home);
        }
        let normal = NormalPath::of(text);
        if normal.absolute {
            return Err(PathProblem::Absolute);
        }
        if normal.up > 0 {
            return Err(PathProblem::Outside);
        }
        Ok(Self(normal.parts.iter().collect()))
    }

    /// Whether this is the workspace itself.
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// The path for system calls.
    pub fn as_path(&self) -> &Path {
        if self.is_root() { Path::new(".") } else { &self.0 }
    }

    /// The path as rules and journals name it. Lossy if it is not UTF-8, which a parsed path never is.
    pub fn text(&self) -> String {
        self.as_path().to_string_lossy().into_owned()
    }

    /// The last name. None for the workspace itself.
    pub fn name(&self) -> Option<&OsStr> {
        self.0.file_name()
    }

    /// The parent directory. None for the workspace itself.
    pub fn parent(&self) -> Option<RelPath> {
        self.0.parent().map(|parent| Self(parent.to_owned()))
    }

    /// Appends a name. `name` is one name from a directory listing, never text from outside.
    pub(super) fn join(&self, name: &OsStr) -> RelPath {
        Self(self.0.join(name))
    }

    /// Appends a relative path.
    pub fn below(&self, inner: &RelPath) -> RelPath {
        // Joining an empty path would add a closing `/`.
        if inner.is_root() { self.clone() } else { Self(self.0.join(&inner.0)) }
    }

    /// The names that the path consists of.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &OsStr> {
        self.0.iter()
    }
}

impl fmt::Display for RelPath {
    /// Shows the path on one line: characters that would end the line or move a cursor are escaped, and so is what is
    /// not UTF-8. A file's name must not look like two entries of a listing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.as_path().as_os_str().as_bytes().utf8_chunks() {
            for c in chunk.valid().chars() {
                let is_shown = !c.is_control() && posse_domain::printable::is_plain(c);
                if is_shown { write!(f, "{c}")? } else { write!(f, "{}", c.escape_default())? }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Normalises any path text for permission rules: like [`RelPath::parse`], but it accepts every text. A path that
/// leaves the workspace keeps its leading `/` or `..`, so that no rule for a path inside matches it.
pub fn spelled(text: &str) -> String {
    let normal = NormalPath::of(text);
    let mut parts = vec![".."; normal.up];
    parts.extend(normal.parts);
    match (normal.absolute, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}

/// A path split into its parts as text.
struct NormalPath<'a> {
    absolute: bool,
    /// How many directories above its start it leads.
    up: usize,
    parts: Vec<&'a str>,
}

impl<'a> NormalPath<'a> {
    fn of(text: &'a str) -> Self {
        let mut normal = NormalPath { absolute: text.starts_with('/'), up: 0, parts: Vec::new() };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                // The parent of `/` is `/`.
                ".." => {
                    if normal.parts.pop().is_none() && !normal.absolute {
                        normal.up += 1;
                    }
                }
                name => normal.parts.push(name),
            }
        }
        normal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_spelling() {
        for (given, plain) in [
            ("src/a.rs", "src/a.rs"),
            ("./src//a.rs", "src/a.rs"),
            ("src/../x", "x"),
            ("src/./a.rs/", "src/a.rs"),
            (".", "."),
            ("./", "."),
            ("a/..", "."),
            (".env", ".env"),
            ("..a/b..", "..a/b.."),
            ("a~", "a~"),
            ("日本/ü", "日本/ü"),
        ] {
            assert_eq!(RelPath::parse(given).unwrap().text(), plain, "{given}");
            assert_eq!(spelled(given), plain);
        }
    }

    #[test]
    fn what_is_not_beneath_is_refused_and_keeps_its_mark() {
        for (given, problem, spelling) in [
            ("", PathProblem::Empty, "."),
            ("/etc/passwd", PathProblem::Absolute, "/etc/passwd"),
            ("//etc/../x", PathProblem::Absolute, "/x"),
            ("..", PathProblem::Outside, ".."),
            ("../ws-evil/x", PathProblem::Outside, "../ws-evil/x"),
            ("a/../../ws/x", PathProblem::Outside, "../ws/x"),
            ("../a/../../b", PathProblem::Outside, "../../b"),
            ("~", PathProblem::Home, "~"),
            ("~/x", PathProblem::Home, "~/x"),
            ("a\0b", PathProblem::Nul, "a\0b"),
        ] {
            assert_eq!(RelPath::parse(given), Err(problem), "{given:?}");
            assert_eq!(spelled(given), spelling);
        }
        assert_eq!(RelPath::parse(&"a/".repeat(PATH_MAX_BYTES)), Err(PathProblem::TooLong));
    }

    #[test]
    fn a_name_cannot_pass_for_two_lines() {
        let path = RelPath::root().join(OsStr::from_bytes(b"a\nb\x1b[31m\xff\xc3\xa4"));
        assert_eq!(path.to_string(), "a\\nb\\u{1b}[31m\\xffä");
        assert_eq!(RelPath::root().to_string(), ".");
    }

    #[test]
    fn parts_of_a_path() {
        let path = RelPath::parse("a/b/c").unwrap();
        assert_eq!(path.name(), Some(OsStr::new("c")));
        assert_eq!(path.parent(), RelPath::parse("a/b").ok());
        assert_eq!(RelPath::root().parent(), None);
        assert_eq!(RelPath::parse("a").unwrap().parent(), Some(RelPath::root()));
        assert_eq!(RelPath::root().below(&path), path);
        assert_eq!(path.below(&RelPath::root()), path);
        assert_eq!(path.below(&path).text(), "a/b/c/a/b/c");
    }
}
