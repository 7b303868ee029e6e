//! Names that agents do not write: what is found under them is obeyed by somebody else's program.
//!
//! A file under one of these names tells another agent what it may do, a shell or an editor what to run when it
//! starts, or a CI service what to run with its secrets. A person who reviews a change looks at code; a line in
//! one of these would act before anybody looked. So `write` and `edit` deny them whatever the rules say, and only
//! an approval that names the path ([`Approvals::naming`]) opens it. Build files and scripts are not here: they
//! are the code that agents are asked to write.
//!
//! `.gitattributes` is not here either: it can only choose among programs that `.git/config`, which is, names.

use super::approval::Approvals;
use super::decide::{Because, Verdict};
use super::matcher::escape;
use super::operation::Operation;
use super::pattern::Pattern;

/// What git keeps. In an isolated workspace it is the agent's own, but never its file tools': no approval opens it.
const GIT: &str = ".git";

/// The tools that write a file under a name.
const WRITERS: [&str; 2] = ["write", "edit"];

/// The protected names, each as the path it has at the top of a workspace. [`protected`] finds them at any depth;
/// a sandbox binds those that exist at the top.
pub const PROTECTED: &[&str] = &[
    // Version control.
    GIT,
    ".gitmodules",
    ".gitconfig",
    ".git-credentials",
    ".config/git",
    ".hgrc",
    ".hg",
    // Agents and what they may do.
    ".posse",
    ".config/posse",
    ".agents",
    ".claude",
    ".claude.json",
    ".opencode",
    ".config/opencode",
    "opencode.json",
    "opencode.jsonc",
    ".codex",
    ".cursor",
    ".gemini",
    ".qwen",
    ".windsurf",
    ".roo",
    ".kiro",
    ".continue",
    ".aider.conf.yml",
    ".mcp.json",
    // Editors that run what a folder tells them to.
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    ".devcontainer.json",
    ".dir-locals.el",
    ".exrc",
    ".vimrc",
    ".nvimrc",
    ".nvim.lua",
    ".gdbinit",
    ".lldbinit",
    // CI.
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".gitlab-ci.yml",
    ".gitlab/ci",
    ".circleci",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker",
    ".woodpecker.yml",
    ".buildkite",
    ".teamcity",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    // Hooks.
    ".husky",
    ".pre-commit-config.yaml",
    ".lefthook.yml",
    "lefthook.yml",
    // Shells and what they read when they start or enter a directory.
    ".envrc",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".config/fish",
    ".inputrc",
    // Tools that take a program, a server or a key from here.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    ".pypirc",
    ".netrc",
    ".curlrc",
    ".wgetrc",
    ".ripgreprc",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/credentials.toml",
    ".bazelrc",
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    ".docker",
];

/// The protected name in a path beneath the workspace, at any depth and however its letters are written: some
/// filesystems do not tell `.GIT` from `.git`.
pub fn protected(path: &str) -> Option<&'static str> {
    find(path).map(|(name, _)| name)
}

/// The names at the top of a workspace that stay closed to the programs an agent starts: all but those that an
/// approval to write opens.
pub fn still_protected(approvals: &Approvals) -> impl Iterator<Item = &'static str> + '_ {
    let opened = |name: &str| name != GIT && approvals.naming(&Operation::new("write", Some(name))).is_some();
    PROTECTED.iter().copied().filter(move |name| !opened(name))
}

/// Why `tool` may not write to `path`, beneath the workspace and without links, whatever the rules say: for the
/// tool itself, which knows where it really writes.
pub fn write_refusal(approvals: &Approvals, tool: &str, path: &str) -> Option<Verdict> {
    closed(approvals, &Operation::new(tool, Some(path))).map(Verdict::deny)
}

/// Why an operation is closed by a protected name, if it is one that writes.
pub(super) fn closed(approvals: &Approvals, operation: &Operation<'_>) -> Option<Because> {
    if !WRITERS.contains(&operation.tool()) {
        return None;
    }
    let path = operation.specifier()?;
    let (name, end) = find(path)?;
    // Who may write a file may edit it; who may only edit it has said so.
    let named = || {
        let write = Operation::new("write", Some(path));
        approvals.naming(&write).or_else(|| approvals.naming(operation)).is_some()
    };
    if name != GIT && named() {
        return None;
    }
    let (at, beneath) = path.split_at(end);
    let all = if beneath.is_empty() { "" } else { "/**" };
    let opening =
        (name != GIT).then(|| format!("write:{}{all}", escape(at)).parse::<Pattern>().ok()).flatten();
    Some(Because::Protected { name: at.into(), opening })
}

/// The first protected name in a path, and where it ends there.
fn find(path: &str) -> Option<(&'static str, usize)> {
    let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
    let at = |start: usize| {
        let rest = &path[start..];
        PROTECTED.iter().find_map(|name| begins_with(rest, name).map(|length| (*name, start + length)))
    };
    // Almost every part of almost every path is settled by its first letter.
    let initial = |start: &usize| {
        let first = path.as_bytes().get(*start);
        first.is_some_and(|first| *first == b'.' || !first.is_ascii() || b"aAbBjJlLoO".contains(first))
    };
    starts.filter(initial).find_map(at)
}

/// How much of `path` is the protected `name`, if it begins with it as whole parts.
fn begins_with(path: &str, name: &str) -> Option<usize> {
    let parts = name.split('/').count();
    let end = path.match_indices('/').nth(parts - 1).map_or(path.len(), |(at, _)| at);
    let head = &path[..end];
    let same = if head.is_ascii() { head.eq_ignore_ascii_case(name) } else { folded(head).eq(folded(name)) };
    same.then_some(end)
}

/// Letters without their case; also those that only a filesystem takes for an ASCII letter, such as `ſ` for `s`.
fn folded(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{approvals, definition, grant, layer, run};
    use super::super::{Authority, Decision, LayerName, RunLayers, decide};
    use super::*;

    fn said(approvals: &Approvals, operation: &str) -> Verdict {
        let mut layer = layer(LayerName::Operator, &[("*", Decision::Allow)]);
        layer.default = Some(Decision::Allow);
        decide([&layer], approvals, &Operation::parse(operation))
    }

    #[test]
    fn every_name_is_found_at_any_depth_and_in_any_case() {
        for &name in PROTECTED {
            assert_eq!(Operation::new("write", Some(name)).specifier(), Some(name), "in its one spelling");
            for path in [
                name.to_owned(),
                format!("{name}/x"),
                format!("a/b/{name}"),
                format!("a/{}/b", name.to_uppercase()),
            ] {
                // `.hg` is found before anything that stands below it, and so on.
                assert!(protected(&path).is_some(), "{path}");
                assert_eq!(said(&Approvals::none(), &format!("write:{path}")).decision, Decision::Deny);
                assert_eq!(said(&Approvals::none(), &format!("edit:{path}")).decision, Decision::Deny);
                assert_eq!(said(&Approvals::none(), &format!("read:{path}")).decision, Decision::Allow);
            }
        }
        assert_eq!(protected("a/.V\u{17f}Code/tasks.json"), Some(".vscode"), "as a filesystem folds it");
    }

    #[test]
    fn names_that_only_look_alike_are_not_protected() {
        for path in [
            "git",
            ".gitignore",
            ".gitattributes",
            ".github/CODEOWNERS",
            ".github",
            "workflows/a.yml",
            ".github-workflows/a",
            "a.git/config",
            "src/.npmrc.example",
            "jenkinsfile.md",
            "bash/.bashrc.d",
            ".cargo/registry",
            "AGENTS.md",
            ".",
            "",
        ] {
            assert_eq!(protected(path), None, "{path}");
        }
    }

    #[test]
    fn the_answer_says_how_a_person_opens_the_name_and_that_works() {
        for (operation, opening) in [
            ("write:.github/workflows/ci.yml", "write:.github/workflows/**"),
            ("edit:sub/.github/workflows/ci.yml", "write:sub/.github/workflows/**"),
            ("write:.npmrc", "write:.npmrc"),
            ("write:a*b/.npmrc", r"write:a\*b/.npmrc"),
        ] {
            let verdict = said(&Approvals::none(), operation);
            assert!(verdict.to_string().ends_with(&format!("--allow '{opening}'")), "{verdict}");
            assert_eq!(said(&approvals(&[opening]), operation).decision, Decision::Allow, "{operation}");
        }
        let workflow = "edit:.github/workflows/ci.yml";
        for enough in ["write:.github/**", "edit:.github/**", r"edit:.github/workflows/ci.yml"] {
            assert_eq!(said(&approvals(&[enough]), workflow).decision, Decision::Allow, "{enough}");
        }
        for too_little in ["*", "write", "edit", "write:*", "write:**", "write:**/ci.yml", "write:src/**"] {
            assert_eq!(said(&approvals(&[too_little]), workflow).decision, Decision::Deny, "{too_little}");
        }
        let edit_only = said(&approvals(&["edit:.github/**"]), "write:.github/workflows/ci.yml");
        assert_eq!(edit_only.decision, Decision::Deny, "who may edit may not make new files");
    }

    #[test]
    fn nothing_opens_git_to_file_tools() {
        for operation in ["write:.git/config", "edit:a/.GIT/hooks/post-commit"] {
            let verdict = said(&approvals(&["write:.git/**", "write:a/.GIT/**"]), operation);
            assert_eq!(verdict.decision, Decision::Deny);
            assert!(verdict.to_string().contains("nothing opens it"), "{verdict}");
        }
    }

    #[test]
    fn an_opened_name_is_still_under_every_rule() {
        let layers = RunLayers {
            run: super::super::testing::rules(&[("write:.github/**", Decision::Deny)]),
            ..RunLayers::default()
        };
        let coder = definition("coder", Decision::Allow, &[]);
        let authority = Authority::root(&run(), layers, coder, grant(&["write"]));
        let opened = approvals(&["write:.github/**"]);
        let verdict = authority.decide(&opened, &Operation::parse("write:.github/workflows/ci.yml"));
        assert_eq!(verdict.to_string(), "deny: run, by the rule `write:.github/**`");
    }

    #[test]
    fn a_sandbox_is_told_what_stays_closed() {
        let all: Vec<_> = still_protected(&Approvals::none()).collect();
        assert_eq!(all, PROTECTED);
        let opened = approvals(&["write:.github/**", "write:.npmrc", "write:.git/**", "write:**", "*"]);
        let left: Vec<_> = still_protected(&opened).collect();
        let gone = [".github/workflows", ".github/actions", ".npmrc"];
        assert!(PROTECTED.iter().all(|name| left.contains(name) != gone.contains(name)));
    }
}
