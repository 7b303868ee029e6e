//! Preserves the user's line endings and merges single files, for apply.

use super::change::unreadable;
use super::conflict::MARKER_BYTES;
use super::{Git, ObjectId, RepositoryError};

/// The line endings of a file on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// As git stores them.
    AsStored,
    /// All are CR LF. Git may store them as LF.
    CrLf,
}

impl LineEnds {
    /// The line endings of a content. Binary and mixed content counts as stored.
    pub(super) fn of(content: &[u8]) -> Self {
        let mut lines =
            content.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")).peekable();
        let any = lines.peek().is_some();
        let crlf = any && lines.all(|line| line.ends_with(b"\r\n")) && !content.contains(&0);
        if crlf { Self::CrLf } else { Self::AsStored }
    }

    /// Converts content on disk to the form that git stores.
    pub(super) fn stored(self, content: &[u8]) -> Vec<u8> {
        match self {
            Self::AsStored => content.to_vec(),
            Self::CrLf => {
                let bare = |at: &usize| !(content[*at] == b'\r' && content.get(at + 1) == Some(&b'\n'));
                (0..content.len()).filter(bare).map(|at| content[at]).collect()
            }
        }
    }

    /// Converts stored content to the form on disk.
    pub(super) fn on_disk(self, content: Vec<u8>) -> Vec<u8> {
        if self == Self::AsStored || content.contains(&0) {
            return content;
        }
        let mut out = Vec::with_capacity(content.len() + content.len() / 20);
        for byte in content {
            if byte == b'\n' && out.last() != Some(&b'\r') {
                out.push(b'\r');
            }
            out.push(byte);
        }
        out
    }
}

/// The merge of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextMerge {
    Merged(Vec<u8>),
    /// The content with both sides of each conflict between marked lines, for [`super::conflict::hunks`].
    Conflict(Vec<u8>),
    /// A side is not text.
    Binary,
}

/// Merges one file. Only objects of the repository of `git` are read or written. Without `base`, both sides created it.
pub(super) fn three_way(
    git: &Git,
    ours: &[u8],
    base: Option<&ObjectId>,
    theirs: &ObjectId,
) -> Result<TextMerge, RepositoryError> {
    /// Exit codes above this are errors; those below count conflicts.
    const CONFLICTS_MAX: i32 = 127;
    if ours.contains(&0) {
        return Ok(TextMerge::Binary);
    }
    let store = |content: &[u8]| -> Result<String, RepositoryError> {
        let name = git.run_with(&["hash-object", "-w", "--stdin"], content)?;
        let name = String::from_utf8(name).map_err(|_| unreadable("hash-object"))?;
        Ok(name.trim_end().to_owned())
    };
    let ours = store(ours)?;
    let base = base.map_or_else(|| store(b""), |base| Ok(base.to_string()))?;
    let (theirs, marker) = (theirs.to_string(), format!("--marker-size={MARKER_BYTES}"));
    let answer = git.ask(&["merge-file", "--object-id", "-p", &marker, &ours, &base, &theirs], &[])?;
    match answer.code {
        Some(0) => Ok(TextMerge::Merged(answer.stdout)),
        _ if answer.stderr.contains("binary") => Ok(TextMerge::Binary),
        Some(code) if code <= CONFLICTS_MAX => Ok(TextMerge::Conflict(answer.stdout)),
        code => Err(RepositoryError::Git { command: "merge-file".to_owned(), code, stderr: answer.stderr }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_go_and_come_back() {
        for (content, ends) in [
            (&b"a\r\nb\r\n"[..], LineEnds::CrLf),
            (b"a\nb\n", LineEnds::AsStored),
            (b"a\r\nb\n", LineEnds::AsStored),
            (b"a\r\n\0", LineEnds::AsStored),
            (b"", LineEnds::AsStored),
            (b"a\rb\r\r\n", LineEnds::CrLf),
        ] {
            assert_eq!(LineEnds::of(content), ends, "{content:?}");
        }
        let stored = LineEnds::CrLf.stored(b"a\r\nb\rc\r\n");
        assert_eq!(stored, b"a\nb\rc\n");
        assert_eq!(LineEnds::CrLf.on_disk(stored), b"a\r\nb\rc\r\n");
        assert_eq!(LineEnds::CrLf.on_disk(b"\n\0".to_vec()), b"\n\0", "binary stays as it is");
    }
}
