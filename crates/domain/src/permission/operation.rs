//! An operation that an agent requests: a tool and its specifier.

use std::borrow::Cow;
use std::fmt;

/// The tools whose specifier is a path. In their patterns `*` stays within one name and `**` crosses `/`.
pub const PATH_TOOLS: [&str; 6] = ["read", "write", "edit", "list", "glob", "grep"];

/// The tool that runs commands.
pub const BASH: &str = "bash";

/// Whether the programs of an agent may use the network. It is an operation without a tool: every definition asks about
/// it unless one of its rules matches, so only a user's approval opens it.
pub const NETWORK: &str = "network";

/// Maximum length of a specifier: Linux passes no longer argument to a program.
pub const SPECIFIER_MAX_BYTES: usize = 128 * 1024;

/// Maximum length of a path: Linux opens no longer one.
pub const PATH_SPECIFIER_MAX_BYTES: usize = 4096;

/// A tool and its target. The tool defines its specifier: bash's command line, webfetch's host, task's definition, and
/// for the [`PATH_TOOLS`] the path beneath the workspace.
///
/// Paths are normalised (no `.`, no doubled or closing `/`), so that `./src//a.rs` cannot bypass a rule for `src/a.rs`.
/// A path with `..` has no meaning before links are followed, and no tool opens a path outside the workspace: see
/// [`Doubt`].
///
/// A command that starts below the top of the workspace is written `bash@DIR:COMMAND`. Rules match the command in every
/// directory. A literal approval matches the command only in that directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation<'a> {
    tool: &'a str,
    specifier: Option<Cow<'a, str>>,
    /// The start directory, if it is not the top of the workspace.
    workdir: Option<Cow<'a, str>>,
}

/// Why an operation cannot be decided and is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// The specifier is longer than any real one.
    TooLong,
    /// The path contains `..`.
    ParentDirectory,
    /// The path does not begin in the workspace.
    NotBeneath,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doubt::TooLong => "the specifier is too long to be checked",
            Doubt::ParentDirectory => "a path with `..` cannot be checked: write the path without it",
            Doubt::NotBeneath => "only paths relative to the workspace are allowed",
        })
    }
}

impl<'a> Operation<'a> {
    /// An empty specifier counts as none.
    pub fn new(tool: &'a str, specifier: Option<&'a str>) -> Self {
        let specifier = specifier.filter(|text| !text.is_empty());
        let specifier =
            specifier.map(|text| if is_path_tool(tool) { one_spelling(text) } else { text.into() });
        Self { tool, specifier, workdir: None }
    }

    /// The same operation in a directory of the workspace. Its top counts as none.
    #[must_use]
    pub fn in_dir(self, workdir: Option<&'a str>) -> Self {
        let workdir = workdir.map(one_spelling).filter(|dir| !dir.is_empty() && dir != ".");
        Self { workdir, ..self }
    }

    /// Parses `tool` or `tool:specifier`, as [`fmt::Display`] writes it.
    pub fn parse(text: &'a str) -> Self {
        let (tool, specifier) = match text.split_once(':') {
            Some((tool, specifier)) => (tool, Some(specifier)),
            None => (text, None),
        };
        match tool.split_once(IN_DIR) {
            Some((tool, dir)) => Self { workdir: Some(decoded(dir)), ..Self::new(tool, specifier) },
            None => Self::new(tool, specifier),
        }
    }

    /// The start directory, if it is not the top of the workspace.
    pub fn workdir(&self) -> Option<&str> {
        self.workdir.as_deref()
    }

    /// The tool's name, as the model wrote it.
    pub fn tool(&self) -> &str {
        self.tool
    }

    pub fn specifier(&self) -> Option<&str> {
        self.specifier.as_deref()
    }

    /// Why this operation cannot be decided, if it cannot.
    pub fn doubt(&self) -> Option<Doubt> {
        let specifier = self.specifier()?;
        if !is_path_tool(self.tool) {
            return (specifier.len() > SPECIFIER_MAX_BYTES).then_some(Doubt::TooLong);
        }
        if specifier.len() > PATH_SPECIFIER_MAX_BYTES {
            return Some(Doubt::TooLong);
        }
        if has_parent_directory(specifier) {
            return Some(Doubt::ParentDirectory);
        }
        is_from_elsewhere(specifier).then_some(Doubt::NotBeneath)
    }
}

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.tool)?;
        if let Some(dir) = &self.workdir {
            write!(f, "{IN_DIR}{}", encoded(dir))?;
        }
        match &self.specifier {
            Some(specifier) => write!(f, ":{specifier}"),
            None => Ok(()),
        }
    }
}

/// Separates a tool from its start directory.
pub(super) const IN_DIR: char = '@';

/// A directory, escaped for use before the colon of an operation.
pub(super) fn encoded(dir: &str) -> Cow<'_, str> {
    if dir.contains(['%', ':']) { dir.replace('%', "%25").replace(':', "%3A").into() } else { dir.into() }
}

pub(super) fn decoded(dir: &str) -> Cow<'_, str> {
    if dir.contains('%') { dir.replace("%3A", ":").replace("%25", "%").into() } else { dir.into() }
}

pub(super) fn is_path_tool(tool: &str) -> bool {
    PATH_TOOLS.contains(&tool)
}

pub(super) fn has_parent_directory(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Whether a path begins at the root directory or at a home directory.
pub(super) fn is_from_elsewhere(path: &str) -> bool {
    path.starts_with('/') || path == "~" || path.starts_with("~/")
}

/// Normalises a path: no `.` part, no doubled or closing `/`. The workspace itself is `.`.
pub(super) fn one_spelling(path: &str) -> Cow<'_, str> {
    let idle = |part: &str| part.is_empty() || part == ".";
    let relative = path.strip_prefix('/').unwrap_or(path);
    if path == "." || path == "/" || !relative.split('/').any(idle) {
        return path.into();
    }
    let parts: Vec<&str> = relative.split('/').filter(|part| !idle(part)).collect();
    match (path.starts_with('/'), parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")).into(),
        (false, true) => ".".into(),
        (false, false) => parts.join("/").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_names_the_directory_that_it_starts_in() {
        for (dir, text) in [
            (None, "bash:make"),
            (Some(""), "bash:make"),
            (Some("."), "bash:make"),
            (Some("./sub//a/"), "bash@sub/a:make"),
            (Some("a:b%3A"), "bash@a%3Ab%253A:make"),
            (Some("/workspace"), "bash@/workspace:make"),
        ] {
            let operation = Operation::new("bash", Some("make")).in_dir(dir);
            assert_eq!(operation.to_string(), text);
            assert_eq!(Operation::parse(text), operation);
        }
        assert_eq!(Operation::parse("bash:a@b:c").workdir(), None);
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (given, plain) in [
            ("src/a.rs", "src/a.rs"),
            ("./src//a.rs", "src/a.rs"),
            ("src/./a.rs/", "src/a.rs"),
            (".", "."),
            ("./", "."),
            ("././", "."),
            ("/", "/"),
            ("//", "/"),
            ("//etc/./passwd", "/etc/passwd"),
            (".env", ".env"),
        ] {
            let operation = Operation::new("read", Some(given));
            assert_eq!(operation.specifier(), Some(plain), "{given}");
            assert_eq!(one_spelling(plain), plain);
        }
        assert_eq!(Operation::new("bash", Some("ls .//")).specifier(), Some("ls .//"));
    }

    #[test]
    fn an_operation_reads_as_it_is_written() {
        for text in ["bash:git log --format=%h:%s", "todo", "read:src/a.rs"] {
            assert_eq!(Operation::parse(text).to_string(), text);
        }
        assert_eq!(Operation::parse("todo:"), Operation::new("todo", None));
    }

    #[test]
    fn what_cannot_be_decided_is_said() {
        let long = "a".repeat(PATH_SPECIFIER_MAX_BYTES + 1);
        assert_eq!(Operation::new("read", Some(&long)).doubt(), Some(Doubt::TooLong));
        assert_eq!(Operation::new("bash", Some(&long)).doubt(), None);
        let longer = "a".repeat(SPECIFIER_MAX_BYTES + 1);
        assert_eq!(Operation::new("bash", Some(&longer)).doubt(), Some(Doubt::TooLong));
        assert_eq!(Operation::new("read", Some("src/../secret")).doubt(), Some(Doubt::ParentDirectory));
        assert_eq!(Operation::new("read", Some("src/..secret")).doubt(), None);
        assert_eq!(Operation::new("bash", Some("cd ../..")).doubt(), None);
        for elsewhere in ["/", "/etc/passwd", "//etc", "~", "~/.ssh/id"] {
            assert_eq!(
                Operation::new("grep", Some(elsewhere)).doubt(),
                Some(Doubt::NotBeneath),
                "{elsewhere}"
            );
        }
        assert_eq!(Operation::new("read", Some("~x/a~")).doubt(), None);
        assert_eq!(Operation::new("bash", Some("/bin/ls ~/x")).doubt(), None);
    }
}
