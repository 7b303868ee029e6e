//! Matches paths against `.gitignore` files and the patterns above them, for scans of folders.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Longest file of patterns that is read. A longer one is refused as a whole.
pub(crate) const MAX_PATTERNS_BYTES: u64 = 1024 * 1024;

/// Longest line that can be a pattern: no path is longer.
const MAX_PATTERN_BYTES: usize = 4096;

/// The patterns that apply in one directory: its own, then those of its parents, then the user's.
#[derive(Debug, Clone, Default)]
pub(crate) struct IgnorePatterns(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    patterns: Gitignore,
    place: PatternBase,
    above: IgnorePatterns,
}

/// The directory that patterns are relative to.
#[derive(Debug)]
enum PatternBase {
    /// Beneath the folder. The number is the length of its path with the slash.
    Beneath(usize),
    /// Above the folder. The bytes are the folder's path from there, with the slash.
    Above(Vec<u8>),
}

impl IgnorePatterns {
    /// Adds patterns of a directory beneath the folder, whose path with its slash is `prefix` bytes long.
    pub(crate) fn with(&self, text: &[u8], prefix: usize) -> Self {
        self.with_at(text, PatternBase::Beneath(prefix))
    }

    /// Adds patterns of a directory above the folder. `lead` is the folder's path from there, with its slash.
    pub(crate) fn with_from_above(&self, text: &[u8], lead: &[u8]) -> Self {
        self.with_at(text, PatternBase::Above(lead.to_vec()))
    }

    fn with_at(&self, text: &[u8], place: PatternBase) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut builder = GitignoreBuilder::new("");
        for line in text.split(|byte| *byte == b'\n') {
            // An invalid pattern matches nothing, as in git.
            drop(builder.add_line(None, &String::from_utf8_lossy(line)));
        }
        match builder.build() {
            Ok(patterns) if !patterns.is_empty() => {
                Self(Some(Arc::new(Level { patterns, place, above: self.clone() })))
            }
            _ => self.clone(),
        }
    }

    /// Whether the patterns ignore `path`, provided that its parent directories are not ignored.
    pub(crate) fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        let mut level = self.0.as_deref();
        while let Some(Level { patterns, place, above }) = level {
            let seen = match place {
                PatternBase::Beneath(prefix) => Cow::Borrowed(path.get(*prefix..).unwrap_or_default()),
                PatternBase::Above(lead) => Cow::Owned([lead, path].concat()),
            };
            match patterns.matched(Path::new(OsStr::from_bytes(&seen)), is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => level = above.0.as_deref(),
            }
        }
        false
    }
}

impl IgnorePatterns {
    /// Whether the patterns of directories above the folder ignore `dir`, a directory on the way to it. Both paths are
    /// relative to the topmost directory with patterns.
    pub(crate) fn matches_above(&self, folder: &[u8], dir: &[u8]) -> bool {
        let mut level = self.0.as_deref();
        while let Some(Level { patterns, place, above }) = level {
            if let PatternBase::Above(lead) = place {
                let beneath = dir.get((folder.len() + 1).saturating_sub(lead.len())..).unwrap_or_default();
                match patterns.matched(Path::new(OsStr::from_bytes(beneath)), true) {
                    Match::Ignore(_) => return true,
                    Match::Whitelist(_) => return false,
                    Match::None => {}
                }
            }
            level = above.0.as_deref();
        }
        false
    }
}

/// The lines of a file of patterns that are patterns. A workspace does not need comments and blank lines.
pub(crate) fn only_patterns(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut patterns = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_pattern = !line.trim_ascii().is_empty()
            && !line.starts_with(b"#")
            && line.len() <= MAX_PATTERN_BYTES
            && !line.contains(&0)
            && GitignoreBuilder::new("").add_line(None, &String::from_utf8_lossy(line)).is_ok();
        if is_pattern {
            patterns.extend_from_slice(line);
            patterns.push(b'\n');
        }
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_patterns_decide() {
        let top = IgnorePatterns::default().with(b"*.log\r\n/only-here\nbuild/\n", 0);
        let sub = top.with(b"!keep.log\nlocal\n", "sub/".len());
        assert!(top.matches(b"a.log", false));
        assert!(sub.matches(b"sub/a.log", false));
        assert!(!sub.matches(b"sub/keep.log", false));
        assert!(top.matches(b"only-here", false));
        assert!(!sub.matches(b"sub/only-here", false));
        assert!(sub.matches(b"sub/build", true));
        assert!(!sub.matches(b"sub/build", false));
        assert!(sub.matches(b"sub/local", false));
        assert!(!top.matches(b"local", false));
    }
}
