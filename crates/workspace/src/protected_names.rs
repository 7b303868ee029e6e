//! Computes which protected names agents may not change and which of them the user's approvals opened, for the
//! gate and for publishing.

use posse_domain::permission::{Approvals, PROTECTED, still_protected};

/// The tools whose approval opens a protected name.
const WRITERS: [&str; 2] = ["write", "edit"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProtectedNames {
    /// Protected names, at any depth.
    pub(super) protected: Vec<String>,
    /// Open names, and paths (literal or `dir/**`) that are open whatever their names.
    pub(super) opened: Vec<String>,
}

impl ProtectedNames {
    /// The names that stay protected with these approvals.
    pub(super) fn of(approvals: &Approvals) -> Self {
        let protected: Vec<String> = still_protected(approvals).map(ToOwned::to_owned).collect();
        let is_open = |name: &&&str| !protected.iter().any(|closed| closed == **name);
        let whole = PROTECTED.iter().filter(is_open).map(ToString::to_string);
        let opened = whole.chain(approvals.iter().filter_map(|pattern| path(pattern.as_str()))).collect();
        Self { protected, opened }
    }
}

/// The path that a pattern opens for writing; `None` if it has no path, or one with wildcards that a path cannot have.
fn path(pattern: &str) -> Option<String> {
    let (_, path) = pattern.split_once(':').filter(|(tool, _)| WRITERS.contains(tool))?;
    let literal = path.strip_suffix("/**").unwrap_or(path);
    (!literal.is_empty() && !literal.contains(['*', '\\'])).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_opens_whole_names_and_single_paths() {
        let patterns = [
            "write:.github/**",
            "edit:src/.envrc",
            "write:**",
            "write",
            "*",
            "bash:.npmrc",
            "write:a*/.npmrc",
        ];
        let approvals: Approvals =
            patterns.iter().map(|pattern| pattern.parse().expect("a pattern")).collect();
        let names = ProtectedNames::of(&approvals);
        assert!(!names.protected.iter().any(|name| name == ".github/workflows"), "{names:?}");
        for closed in [".git", ".envrc", ".npmrc", ".mcp.json"] {
            assert!(names.protected.iter().any(|name| name == closed), "{closed}: {names:?}");
        }
        for open in [".github/workflows", ".github/**", "src/.envrc"] {
            assert!(names.opened.iter().any(|name| name == open), "{open}: {names:?}");
        }
        assert!(
            !names.opened.iter().any(|name| name.starts_with("**") || name.contains(".npmrc")),
            "{names:?}"
        );
    }
}
