//! Which files git would leave out: the patterns of `.gitignore` files, and those above them all.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Longest file of patterns that is read; longer ones are cut.
pub(crate) const MAX_PATTERNS_BYTES: u64 = 1024 * 1024;

/// The patterns that apply in one directory: its own, then those of the directories above, then the person's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ignored(Option<Arc<Level>>);

#[derive(Debug)]
struct Level {
    patterns: Gitignore,
    /// How long the path of their directory is, with its slash.
    prefix: usize,
    above: Ignored,
}

impl Ignored {
    /// These patterns on top, for paths beneath a directory whose path with its slash is `prefix` bytes long.
    pub(crate) fn with(&self, text: &[u8], prefix: usize) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut builder = GitignoreBuilder::new("");
        for line in text.split(|byte| *byte == b'\n') {
            // A pattern that is none matches nothing, as in git.
            drop(builder.add_line(None, &String::from_utf8_lossy(line)));
        }
        match builder.build() {
            Ok(patterns) if !patterns.is_empty() => {
                Self(Some(Arc::new(Level { patterns, prefix, above: self.clone() })))
            }
            _ => self.clone(),
        }
    }

    /// Whether the patterns leave out `path`, provided that the directories above it are not.
    pub(crate) fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        let mut level = self.0.as_deref();
        while let Some(Level { patterns, prefix, above }) = level {
            let beneath = path.get(*prefix..).unwrap_or_default();
            match patterns.matched(Path::new(OsStr::from_bytes(beneath)), is_dir) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => level = above.0.as_deref(),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_patterns_decide() {
        let top = Ignored::default().with(b"*.log\r\n/only-here\nbuild/\n", 0);
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
