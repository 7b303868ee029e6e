//! Adds rules that deny agents the state directory, if it is beneath the workspace.

use std::path::{Path, PathBuf};

use posse::{Decision, Operation, Pattern, Rule, Rules};

/// The tools that access files.
const FILE_TOOLS: [&str; 6] = ["read", "write", "edit", "list", "glob", "grep"];

/// Adds rules that deny the state directory, if it is beneath the workspace. They come last, so no other rule of the
/// operator allows it again. Commands do not see it in any case.
pub fn closed(rules: Rules, workspace: &Path, state_dir: &Path) -> Rules {
    let state_dir = as_far_as_it_exists(state_dir);
    let Some(inside) = state_dir.strip_prefix(workspace).ok().and_then(Path::to_str) else { return rules };
    if inside.is_empty() {
        return rules;
    }
    let closing = FILE_TOOLS.iter().flat_map(|tool| {
        let itself = Pattern::literal(&Operation::new(tool, Some(inside))).ok();
        let beneath = itself.as_ref().and_then(|itself| format!("{itself}/**").parse().ok());
        [itself, beneath].into_iter().flatten()
    });
    let closing: Vec<Rule> = closing.map(|pattern| Rule { pattern, decision: Decision::Deny }).collect();
    rules.iter().cloned().chain(closing).collect::<Vec<_>>().into()
}

/// Resolves the links of a path, as far as it exists; the rest is created later.
fn as_far_as_it_exists(path: &Path) -> PathBuf {
    let mut rest = Vec::new();
    let mut at = path;
    loop {
        if let Ok(whole) = at.canonicalize() {
            return rest.iter().rev().fold(whole, |whole, name| whole.join(name));
        }
        let (Some(above), Some(name)) = (at.parent(), at.file_name()) else { return path.to_owned() };
        rest.push(name);
        at = above;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(workspace: &Path, state: &Path) -> Vec<String> {
        closed(Rules::default(), workspace, state).iter().map(|rule| rule.pattern.to_string()).collect()
    }

    #[test]
    fn only_a_state_directory_in_the_workspace_is_closed() {
        let top = tempfile::tempdir().expect("a directory");
        let workspace = top.path().canonicalize().expect("a path").join("ws");
        std::fs::create_dir(&workspace).expect("made");
        assert_eq!(patterns(&workspace, &workspace.with_file_name("state")), Vec::<String>::new());
        assert_eq!(patterns(&workspace, &workspace.with_file_name("ws-state")), Vec::<String>::new());
        let inside = patterns(&workspace, &workspace.join("a*/state"));
        assert_eq!(&inside[..2], [r"read:a\*/state", r"read:a\*/state/**"]);
        assert_eq!(inside.len(), 12);
    }
}
