//! Converts the specifiers that other tools write in brackets after a tool's name to patterns: `Bash(git:*)`,
//! `Edit(src/**)`.

use posse_domain::permission::{InvalidPattern, PATH_TOOLS, Pattern};

/// The meaning of a star in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stars {
    /// As in `.gitignore`: within one name. A pattern without `/` matches files at any depth.
    Gitignore,
    /// Anything, `/` too.
    Anything,
}

/// The patterns for a tool's specifier. None if it covers all uses of the tool.
pub(super) fn patterns(
    tool: &str,
    specifier: &str,
    stars: Stars,
) -> Result<Option<Vec<Pattern>>, InvalidPattern> {
    let specifier = specifier.trim();
    if specifier.is_empty() || specifier.bytes().all(|b| b == b'*') || specifier == ":*" {
        return Ok(None);
    }
    let specifiers = if tool == "bash" {
        commands(specifier)
    } else if PATH_TOOLS.contains(&tool) {
        vec![path(specifier, stars)]
    } else {
        let plain = specifier.strip_prefix("domain:").unwrap_or(specifier);
        vec![plain.replace('\\', "\\\\")]
    };
    specifiers
        .iter()
        .map(|specifier| format!("{tool}:{specifier}").parse())
        .collect::<Result<_, _>>()
        .map(Some)
}

/// `git:*` and `git *` mean `git` alone or followed by anything.
fn commands(specifier: &str) -> Vec<String> {
    let specifier = specifier.replace('\\', "\\\\");
    let prefix = specifier.strip_suffix(":*").or_else(|| specifier.strip_suffix(" *"));
    match prefix.map(str::trim_end).filter(|prefix| !prefix.is_empty()) {
        Some(prefix) => vec![prefix.to_owned(), format!("{prefix} *")],
        None => vec![specifier],
    }
}

/// Converts a path pattern of another program. A single leading `/` means the project's root there.
fn path(specifier: &str, stars: Stars) -> String {
    let specifier = specifier.replace('\\', "\\\\");
    let specifier = specifier.strip_prefix("./").unwrap_or(&specifier);
    let rooted = specifier.starts_with('/') && !specifier.starts_with("//");
    let specifier = if rooted { specifier.trim_start_matches('/') } else { specifier };
    let mut specifier = specifier.to_owned();
    if specifier.ends_with('/') && specifier.len() > 1 {
        specifier.push_str("**");
    }
    match stars {
        Stars::Gitignore if !rooted && !specifier.contains('/') => format!("**/{specifier}"),
        Stars::Anything => {
            let any_depth =
                if specifier.starts_with('*') && !specifier.starts_with("**") { "**/" } else { "" };
            match specifier.strip_suffix("/*") {
                Some(directory) => format!("{any_depth}{directory}/**"),
                None => format!("{any_depth}{specifier}"),
            }
        }
        Stars::Gitignore => specifier,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tool: &str, specifier: &str, stars: Stars) -> String {
        match patterns(tool, specifier, stars) {
            Ok(None) => "all".to_owned(),
            Ok(Some(all)) => all.iter().map(Pattern::as_str).collect::<Vec<_>>().join(" | "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn what_stands_in_brackets_becomes_patterns() {
        for (tool, specifier, expected) in [
            ("bash", "git:*", "bash:git | bash:git *"),
            ("bash", "git diff *", "bash:git diff | bash:git diff *"),
            ("bash", "npm test", "bash:npm test"),
            ("bash", "npm run test:*", "bash:npm run test | bash:npm run test *"),
            ("bash", "*", "all"),
            ("bash", "", "all"),
            ("bash", r"grep \d", r"bash:grep \\d"),
            ("read", "src/**", "read:src/**"),
            ("edit", "/docs/**", "edit:docs/**"),
            ("edit", "./docs/", "edit:docs/**"),
            ("write", "*.md", "write:**/*.md"),
            ("read", "**", "all"),
            ("webfetch", "domain:docs.rs", "webfetch:docs.rs"),
            ("skill", "commit", "skill:commit"),
        ] {
            assert_eq!(written(tool, specifier, Stars::Gitignore), expected, "{tool}({specifier})");
        }
        for outside in ["~/.zshrc", "//etc/passwd", "../x"] {
            assert!(patterns("read", outside, Stars::Gitignore).is_err(), "{outside}");
        }
    }

    #[test]
    fn a_star_that_is_anything_crosses_directories() {
        for (specifier, expected) in [
            ("src/*", "edit:src/**"),
            ("*.md", "edit:**/*.md"),
            ("docs/a.md", "edit:docs/a.md"),
            ("**/x", "edit:**/x"),
        ] {
            assert_eq!(written("edit", specifier, Stars::Anything), expected, "{specifier}");
        }
    }
}
