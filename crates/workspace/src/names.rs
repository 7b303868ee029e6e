//! Detects names that must never be in a tree, because a filesystem could treat them as `.git`. Used by scans and
//! checkouts.

/// Characters that HFS+ ignores when it compares names.
const IGNORED_BY_HFS: &[char] = &[
    '\u{200c}', '\u{200d}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{206a}', '\u{206b}', '\u{206c}', '\u{206d}', '\u{206e}', '\u{206f}', '\u{feff}',
];

/// Whether the name of one entry could become `.git`: by letter case, on NTFS (`git~1`, trailing dots and spaces,
/// streams) or on HFS+ (ignored characters).
pub(crate) fn could_be_dot_git(name: &[u8]) -> bool {
    // Fast path for nearly all names.
    if !name.contains(&b'g') && !name.contains(&b'G') {
        return false;
    }
    let first = name.split(|byte| matches!(byte, b':' | b'\\')).next().unwrap_or_default();
    let end = first.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    let plain = &first[..end];
    if plain.eq_ignore_ascii_case(b".git") || plain.eq_ignore_ascii_case(b"git~1") {
        return true;
    }
    std::str::from_utf8(name).is_ok_and(|name| {
        let counted = name.chars().filter(|character| !IGNORED_BY_HFS.contains(character));
        counted.map(|character| character.to_ascii_lowercase()).eq(".git".chars())
    })
}

/// Whether a path from a tree may be written: no empty, dotted or `.git`-like parts, not absolute.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    !path.is_empty()
        && path.split(|byte| *byte == b'/').all(|part| {
            !part.is_empty() && part != b"." && part != b".." && !could_be_dot_git(part) && !part.contains(&0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_dot_git_are_known() {
        for bad in [
            ".git",
            ".GIT",
            ".Git.",
            ".git ",
            ".git. .",
            "git~1",
            "GIT~1",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\\x",
        ] {
            assert!(could_be_dot_git(bad.as_bytes()), "{bad:?}");
        }
        for good in ["git", ".gitignore", ".gitmodules", "git~2", ".gi", "a.git", ".git~1x", "", ".."] {
            assert!(!could_be_dot_git(good.as_bytes()), "{good:?}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_not_plain() {
        for bad in ["", "/a", "a//b", "a/../b", "./a", "a/.git/config", "a/", "a\0b"] {
            assert!(!is_plain(bad.as_bytes()), "{bad:?}");
        }
        for good in ["a", "a/b", "-a", "a\nb", " ", "a/...", "\u{e9}"] {
            assert!(is_plain(good.as_bytes()), "{good:?}");
        }
    }
}
