//! Detects names that a filesystem or git could treat as `.git`, and protected names, for the gate.

use posse_domain::file_name::{find_in, plain};

/// Why a path must not be in any tree, if so.
pub(super) fn hostile(path: &[u8]) -> Option<&'static str> {
    // Fast path: almost every path is plain and needs no closer look.
    let text = String::from_utf8_lossy(path);
    if path.is_empty() || text.split('/').any(str::is_empty) {
        return Some("it has an empty part");
    }
    for part in text.split(['/', '\\']) {
        match part {
            "." | ".." => return Some("it has a part that leads elsewhere"),
            part if is_git(part) => return Some("some filesystem takes a part of it for `.git`"),
            _ => {}
        }
    }
    None
}

/// Whether a filesystem could treat this name as `.git`.
pub(super) fn is_git(name: &str) -> bool {
    let plain = plain(name);
    plain == ".git" || short(&plain, "git")
}

/// Whether a filesystem could treat this name as `.gitmodules`.
pub(super) fn is_gitmodules(name: &str) -> bool {
    let plain = plain(name);
    plain == ".gitmodules" || short(&plain, "gitmod") || short(&plain, "gi7eba")
}

/// Whether `name` is a short name that NTFS would give to a file whose name begins with `start`.
fn short(name: &str, start: &str) -> bool {
    let number = name.strip_prefix(start).and_then(|rest| rest.strip_prefix('~'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The first of the `protected` names that occurs in a path, at any depth and in any spelling.
pub(super) fn protected<'a>(path: &str, protected: &'a [String]) -> Option<&'a str> {
    find_in(path, &protected.iter().map(String::as_str)).map(|(name, _)| name)
}

/// Whether an owned pattern (a literal path or `dir/**`) covers a path.
pub(super) fn holds(pattern: &str, path: &[u8]) -> bool {
    if pattern == "**" {
        return true;
    }
    match pattern.strip_suffix("/**") {
        None => pattern.as_bytes() == path,
        Some(dir) => path.strip_prefix(dir.as_bytes()).is_some_and(|rest| rest.starts_with(b"/")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_could_become_git_is_hostile() {
        for name in [
            ".git",
            ".GIT",
            ".gIt",
            ".git.",
            ".git ",
            ".git. . ",
            ".git::$INDEX_ALLOCATION",
            ".git:x",
            "git~1",
            "GIT~1",
            "git~12",
            "git~1.",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{202e}t\u{206f}",
            ".g\u{131}t",
        ] {
            for path in
                [name.to_owned(), format!("{name}/config"), format!("a/{name}/b"), format!("a\\{name}")]
            {
                assert!(hostile(path.as_bytes()).is_some(), "{path:?}");
            }
        }
        for path in ["", "/a", "a//b", "a/", "..", "a/../b", "./a", "a\\..\\b", "..\\x"] {
            assert!(hostile(path.as_bytes()).is_some(), "{path:?}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        for path in [
            "git",
            ".gitignore",
            ".gitattributes",
            "a.git",
            ".git-x",
            ".gitt",
            "git~",
            "gits~1",
            "..a",
            "a\\b",
            "ä/ü",
        ] {
            assert_eq!(hostile(path.as_bytes()), None, "{path:?}");
        }
        assert_eq!(hostile(b"\xff\xfe"), None);
    }

    #[test]
    fn gitmodules_has_many_spellings() {
        for name in
            [".gitmodules", ".GitModules", ".gitmodules ", "gitmod~1", "GI7EBA~1", ".git\u{200d}modules"]
        {
            assert!(is_gitmodules(name), "{name}");
        }
        assert!(!is_gitmodules("gitmodules") && !is_gitmodules(".gitmodules.txt"));
    }

    #[test]
    fn protected_names_are_found_at_any_depth_and_in_any_case() {
        let names = [".github/workflows".to_owned(), ".npmrc".to_owned(), ".vscode".to_owned()];
        for path in [".npmrc", "a/.NPMRC", ".npmrc/x", "a/.GitHub/Workflows/ci.yml", ".V\u{17f}code/x"] {
            assert!(protected(path, &names).is_some(), "{path}");
        }
        for path in [".github/CODEOWNERS", "npmrc", ".npmrc.example", "workflows/x", ""] {
            assert_eq!(protected(path, &names), None, "{path}");
        }
    }

    #[test]
    fn owned_is_a_literal_path_or_what_is_beneath_a_directory() {
        for (pattern, path, expected) in [
            ("**", "x", true),
            ("a.rs", "a.rs", true),
            ("a.rs", "a.rs/b", false),
            ("src/**", "src/a", true),
            ("src/**", "src", false),
            ("src/**", "src2/a", false),
        ] {
            assert_eq!(holds(pattern, path.as_bytes()), expected, "{pattern} {path}");
        }
    }
}
