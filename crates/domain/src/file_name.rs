//! How filesystems of other machines read a file name, for the checks of protected names.
//!
//! A tree made on one machine is checked out on others. Filesystems there fold case, drop trailing dots and spaces,
//! have short names and streams, ignore invisible letters, and read a backslash as a slash. A name is judged by the
//! worst reading among them.

use std::borrow::Cow;

/// Letters that HFS+ ignores when it compares names, and others that are invisible.
const INVISIBLE: [std::ops::RangeInclusive<char>; 8] = [
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{202a}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
];
/// Number of letters that remain of a name in its NTFS short form.
const SHORT_LETTERS: usize = 6;

/// The name without all that some filesystem or reader ignores: case, invisible letters, a stream, trailing dots and
/// blanks.
pub fn plain(name: &str) -> Cow<'_, str> {
    let settled = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-~".contains(&byte);
    // Fast path for almost every name: a dot matters only at the end.
    let dotted = |byte: u8| settled(byte) || byte == b'.';
    if name.bytes().all(dotted) && !name.ends_with('.') {
        return Cow::Borrowed(name);
    }
    let seen = name.chars().filter(|c| !c.is_control() && !INVISIBLE.iter().any(|range| range.contains(c)));
    let seen: String = seen.collect();
    let named = seen.split(':').next().unwrap_or_default();
    let named = named.trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    Cow::Owned(folded(named).collect())
}

/// The letters without their case. Includes letters that only a filesystem equates with an ASCII letter, such as
/// `\u{17f}` with `s`.
pub fn folded(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// Whether some filesystem could read `name` as `usual`.
pub fn could_be(name: &str, usual: &str) -> bool {
    let plain = plain(name);
    folded(usual).eq(plain.chars()) || is_short_of(&plain, usual)
}

/// Whether a plain name is an NTFS short name of `usual`: its first letters, `~` and a number.
fn is_short_of(plain: &str, usual: &str) -> bool {
    let Some((start, number)) = plain.split_once('~') else { return false };
    let number = number.split('.').next().unwrap_or_default();
    let stem = usual.trim_start_matches('.').split('.').next().unwrap_or_default();
    let letters =
        folded(stem).filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(SHORT_LETTERS);
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) && letters.eq(start.chars())
}

/// The first of `names` (paths of one or more parts) that occurs in a path, at any depth and in any spelling, and the
/// offset where it ends.
pub fn find_in<'a>(path: &str, names: &(impl Iterator<Item = &'a str> + Clone)) -> Option<(&'a str, usize)> {
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, _) in path.match_indices(['/', '\\']) {
        parts.push((start, at));
        start = at + 1;
    }
    parts.push((start, path.len()));
    (0..parts.len()).find_map(|from| {
        let mut names = names.clone();
        names.find_map(|name| {
            let mut here = parts[from..].iter();
            let mut end = 0;
            for wanted in name.split('/') {
                let (start, stop) = here.next()?;
                end = *stop;
                if !could_be(&path[*start..*stop], wanted) {
                    return None;
                }
            }
            Some((name, end))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_worst_filesystem_makes_of_it() {
        for name in [
            ".vscode",
            ".VSCode",
            ".vscode.",
            ".vscode ",
            ".vscode. .",
            ".vscode\u{a0}",
            ".vscode:stream",
            ".vscode::$INDEX_ALLOCATION",
            ".vs\u{200b}code",
            "\u{feff}.vscode",
            ".vscode\u{200d}",
            ".v\u{ad}scode",
            ".vsc\u{fe0f}ode",
            ".v\u{17f}code",
            ".vscode\u{7}",
            "VSCODE~1",
            "vscode~12",
        ] {
            assert!(could_be(name, ".vscode"), "{name:?}");
        }
        for name in ["vscode", ".vscode2", ".vscodes", ".vs-code", "vscode~", "vscod~1", ".vscode.json"] {
            assert!(!could_be(name, ".vscode"), "{name:?}");
        }
    }

    #[test]
    fn names_are_found_at_any_depth_as_whole_parts() {
        let names = [".github/workflows", ".npmrc"];
        let found = |path: &str| find_in(path, &names.iter().copied());
        assert_eq!(found("a/.GitHub/Workflows./ci.yml"), Some((".github/workflows", 20)));
        assert_eq!(found("a\\.npmrc"), Some((".npmrc", 8)));
        for path in [".github/CODEOWNERS", "npmrc", ".npmrc.example", "workflows/x", ".github", ""] {
            assert_eq!(found(path), None, "{path}");
        }
    }
}
