//! Protected names: paths that agents do not write, because another program obeys the files there.
//!
//! A file under one of these names defines what another agent may do, what a shell or an editor runs when it starts, or
//! what a CI service runs with its secrets. A user who reviews a change looks at code, but a line in one of these files
//! would act before it is read. So `write` and `edit` deny them whatever the rules are, and only an approval that names
//! the path ([`Approvals::naming`]) opens it. Build files and scripts are not here: they are the code that agents are
//! asked to write.
//!
//! `.gitattributes` is not here either: it can only choose among programs that `.git/config` names, which is protected.
//!
//! Why it is like this: `docs/decisions/permission-protected-names.md`.

use super::approval::Approvals;
use super::decide::{DecisionReason, Verdict};
use super::matcher::escape;
use super::operation::Operation;
use super::pattern::Pattern;
use crate::file_name;

/// Git's own directory. In an isolated workspace it belongs to the agent, but never to its file tools: no approval
/// opens it.
const GIT: &str = ".git";

/// The tools that write a file.
const WRITERS: [&str; 2] = ["write", "edit"];

/// The protected names, each as its path at the top of a workspace. [`protected`] finds them at any depth. A sandbox
/// binds those that exist at the top.
pub const PROTECTED: &[&str] = &[
    // Version control.
    GIT,
    ".gitmodules",
    ".gitconfig",
    ".git-credentials",
    ".config/git",
    ".lfsconfig",
    ".hgrc",
    ".hg",
    ".jj",
    ".sl",
    ".svn",
    ".bzr",
    ".pijul",
    ".config/jj",
    // Agents and their permissions.
    ".posse",
    ".config/posse",
    ".agents",
    ".claude",
    ".claude.json",
    ".claude-plugin",
    ".opencode",
    ".config/opencode",
    "opencode.json",
    "opencode.jsonc",
    ".codex",
    ".cursor",
    ".gemini",
    ".qwen",
    ".windsurf",
    ".codeium",
    ".roo",
    ".roomodes",
    ".kiro",
    ".continue",
    ".cline",
    ".kilocode",
    ".amazonq",
    ".augment",
    ".junie",
    ".trae",
    ".factory",
    ".openhands",
    ".crush",
    ".crush.json",
    "crush.json",
    ".goose",
    ".config/goose",
    ".amp",
    ".config/amp",
    ".copilot",
    ".github/hooks",
    ".plandex",
    ".warp",
    ".aider.conf.yml",
    ".aider.conf.yaml",
    ".mcp.json",
    ".mcp",
    // Editors that run programs which a folder configures.
    ".vscode",
    ".vscode-server",
    ".vs",
    ".idea",
    ".zed",
    ".fleet",
    ".helix",
    ".config/helix",
    ".kakrc",
    ".config/kak",
    ".nova",
    ".lapce",
    ".theia",
    ".settings",
    ".project",
    ".devcontainer",
    ".devcontainer.json",
    ".devfile.yaml",
    "devfile.yaml",
    ".gitpod.yml",
    ".gitpod.Dockerfile",
    ".replit",
    ".idx",
    ".codesandbox",
    ".stackblitzrc",
    ".dir-locals.el",
    ".dir-locals-2.el",
    ".emacs",
    ".emacs.d",
    ".config/emacs",
    ".exrc",
    ".vimrc",
    "_vimrc",
    ".lazy.lua",
    ".gvimrc",
    ".vim",
    ".nvimrc",
    ".nvim.lua",
    ".nvim",
    ".lvimrc",
    ".config/nvim",
    ".vimspector.json",
    ".ycm_extra_conf.py",
    ".nanorc",
    ".clangd",
    // Debuggers and interactive interpreters, which read a file in their start directory.
    ".gdbinit",
    ".gdbearlyinit",
    ".lldbinit",
    ".radare2rc",
    ".pdbrc",
    ".byebugrc",
    ".pryrc",
    ".irbrc",
    ".rspec",
    ".rdbgrc",
    ".ghci",
    ".config/ghc",
    ".haskeline",
    ".Rprofile",
    ".Renviron",
    ".RData",
    ".Rproj.user",
    ".pythonrc",
    ".pythonrc.py",
    ".pystartup",
    ".ipython",
    "sitecustomize.py",
    "usercustomize.py",
    ".ocamlinit",
    ".utoprc",
    ".sbclrc",
    ".clisprc",
    ".eclrc",
    ".guile",
    ".julia",
    ".juliarc.jl",
    ".iex.exs",
    ".erlang",
    ".erlang.cookie",
    ".octaverc",
    ".gnuplot",
    ".perldb",
    ".psqlrc",
    ".sqliterc",
    ".my.cnf",
    ".mongorc.js",
    ".mongoshrc.js",
    ".duckdbrc",
    ".node_repl_init.js",
    // CI.
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".gitea/actions",
    ".forgejo/workflows",
    ".forgejo/actions",
    ".gitlab-ci.yml",
    ".gitlab-ci.yaml",
    ".gitlab/ci",
    ".circleci",
    ".cirrus.yml",
    ".cirrus.yaml",
    ".cirrus.star",
    ".cirun.yml",
    ".travis.yml",
    ".travis.yaml",
    ".drone.yml",
    ".drone.yaml",
    ".drone.star",
    ".drone.jsonnet",
    ".woodpecker",
    ".woodpecker.yml",
    ".woodpecker.yaml",
    ".buildkite",
    ".teamcity",
    ".semaphore",
    ".tekton",
    ".harness",
    ".zuul.yaml",
    ".zuul.d",
    "zuul.yaml",
    "zuul.d",
    ".build.yml",
    ".builds",
    ".appveyor.yml",
    "appveyor.yml",
    ".azure-pipelines",
    ".azuredevops",
    ".azure-pipelines.yml",
    "azure-pipelines.yml",
    "azure-pipelines.yaml",
    "bitbucket-pipelines.yml",
    "bitbucket-pipelines.yaml",
    "bitrise.yml",
    "buildspec.yml",
    "buildspec.yaml",
    "cloudbuild.yml",
    "cloudbuild.yaml",
    "cloudbuild.json",
    "codemagic.yaml",
    "codeship-steps.yml",
    "codeship-services.yml",
    "screwdriver.yaml",
    "wercker.yml",
    "Jenkinsfile",
    ".jenkins",
    ".mergify.yml",
    ".mergify",
    ".kodiak.toml",
    ".readthedocs.yml",
    ".readthedocs.yaml",
    // Hooks.
    ".husky",
    ".huskyrc",
    ".huskyrc.json",
    ".githooks",
    ".git-hooks",
    ".pre-commit-config.yaml",
    ".pre-commit-config.yml",
    ".pre-commit-hooks.yaml",
    "prek.toml",
    ".lefthook",
    ".lefthook.yml",
    ".lefthook.yaml",
    ".lefthook.toml",
    ".lefthook.json",
    ".lefthook-local.yml",
    ".lefthook-local.yaml",
    "lefthook.yml",
    "lefthook.yaml",
    "lefthook.toml",
    "lefthook.json",
    "lefthook-local.yml",
    "lefthook-local.yaml",
    ".lintstagedrc",
    ".lintstagedrc.json",
    ".lintstagedrc.yaml",
    ".lintstagedrc.yml",
    ".lintstagedrc.js",
    ".lintstagedrc.mjs",
    ".lintstagedrc.cjs",
    ".simple-git-hooks.json",
    ".simple-git-hooks.js",
    ".simple-git-hooks.cjs",
    "simple-git-hooks.json",
    ".overcommit.yml",
    ".overcommit",
    "captainhook.json",
    "grumphp.yml",
    ".rusty-hook.toml",
    ".watchmanconfig",
    // Shells and the files they read when they start or enter a directory.
    ".envrc",
    ".config/direnv",
    ".direnvrc",
    ".direnv",
    ".autoenv",
    ".autoenv.zsh",
    ".mise.toml",
    ".mise.local.toml",
    "mise.toml",
    ".tool-versions",
    "mise.local.toml",
    ".mise",
    ".config/mise",
    ".rtx.toml",
    ".devbox",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".bash_completion",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".zshenv",
    ".zlogin",
    ".zlogout",
    ".zsh",
    ".kshrc",
    ".mkshrc",
    ".shrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".xonshrc",
    ".config/xonsh",
    ".config/fish",
    ".config/nushell",
    ".config/elvish",
    ".config/powershell",
    "Microsoft.PowerShell_profile.ps1",
    ".inputrc",
    ".screenrc",
    ".tmux.conf",
    ".config/tmux",
    ".lesskey",
    ".lessfilter",
    ".xinitrc",
    ".xsession",
    ".xprofile",
    ".pam_environment",
    ".config/autostart",
    ".config/systemd",
    ".config/environment.d",
    ".local/bin",
    // Tools that read a program, a server or a key from here.
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".yarn/releases",
    ".yarn/plugins",
    ".pnpmfile.cjs",
    ".pnpmfile.mjs",
    "bunfig.toml",
    ".bunfig.toml",
    ".pypirc",
    ".pip",
    "pip.conf",
    ".config/pip",
    ".condarc",
    ".gemrc",
    ".bundle",
    ".composer",
    ".nuget",
    "nuget.config",
    ".m2",
    ".mvn",
    "gradle/wrapper/gradle-wrapper.properties",
    ".sbtopts",
    ".jvmopts",
    ".sbt",
    ".netrc",
    ".curlrc",
    ".wgetrc",
    ".ripgreprc",
    ".taskrc.yml",
    ".cargo/config",
    ".cargo/config.toml",
    // Its `path` names the programs that run instead of `cargo` and `rustc`.
    "rust-toolchain",
    "rust-toolchain.toml",
    "ansible.cfg",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".cargo/bin",
    ".rustup",
    ".bazelrc",
    ".bazeliskrc",
    "tools/bazel",
    ".buckconfig",
    ".buckconfig.local",
    ".pants.rc",
    ".ssh",
    ".rhosts",
    ".forward",
    ".gnupg",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".boto",
    ".s3cfg",
    ".pgpass",
    ".kube",
    ".docker",
    ".dockercfg",
    ".config/containers",
    ".terraformrc",
    ".terraform",
];

/// Instruction files for agents, which users seldom read: facts about the project, how to work, what not to touch.
/// Agents may write them, because writing them well is work. The user who applies a result gets a note about each.
pub const INSTRUCTIONS: &[&str] = &[
    "AGENTS.md",
    "AGENTS.override.md",
    "AGENT.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "CODEX.md",
    "CRUSH.md",
    "GEMINI.md",
    "JULES.md",
    "QWEN.md",
    "WARP.md",
    "SKILL.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".roorules",
    ".kilocoderules",
    ".continuerules",
    ".augment-guidelines",
    ".goosehints",
    ".rules",
    "copilot-instructions.md",
    ".github/instructions",
    ".github/prompts",
    ".github/chatmodes",
    ".github/agents",
    ".github/skills",
    "CONVENTIONS.md",
];

/// Whether the file at a path instructs agents or an unattended program: instruction files, and protected names that
/// were opened.
pub fn instructs(path: &str) -> bool {
    file_name::find_in(path, &INSTRUCTIONS.iter().copied()).is_some() || protected(path).is_some()
}

/// The protected name in a path beneath the workspace, at any depth and in any spelling: some filesystems do not
/// distinguish `.GIT` from `.git`.
pub fn protected(path: &str) -> Option<&'static str> {
    find(path).map(|(name, _)| name)
}

/// The names at the top of a workspace that stay closed to an agent's programs: all but those that an approval to write
/// opens.
pub fn still_protected(approvals: &Approvals) -> impl Iterator<Item = &'static str> + '_ {
    let opened = |name: &str| name != GIT && approvals.naming(&Operation::new("write", Some(name))).is_some();
    PROTECTED.iter().copied().filter(move |name| !opened(name))
}

/// Why `tool` may not write to `path`, which is relative to the workspace and free of links, whatever the rules are.
/// For the tool itself, which knows the real path.
pub fn write_refusal(approvals: &Approvals, tool: &str, path: &str) -> Option<Verdict> {
    closed(approvals, &Operation::new(tool, Some(path))).map(Verdict::deny)
}

/// The protected name that forbids an operation, if the operation writes.
pub(super) fn closed(approvals: &Approvals, operation: &Operation<'_>) -> Option<DecisionReason> {
    if !WRITERS.contains(&operation.tool()) {
        return None;
    }
    let path = operation.specifier()?;
    let (name, end) = find(path)?;
    // An approval to write a file also covers edits. An approval to edit it does not cover writes.
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
    Some(DecisionReason::Protected { name: at.into(), opening })
}

/// The first protected name in a path, and the offset where it ends.
fn find(path: &str) -> Option<(&'static str, usize)> {
    // Fast path: the first letters of its parts rule out almost every path.
    let settled = path.split(['/', '\\']).all(|part| {
        part.as_bytes().first().is_none_or(|first| {
            *first != b'.'
                && first.is_ascii_graphic()
                && !INITIALS.contains(&first.to_ascii_lowercase())
                && !part.contains('~')
        })
    });
    if settled { None } else { file_name::find_in(path, &PROTECTED.iter().copied()) }
}

/// First letters of protected names that do not begin with a dot.
const INITIALS: &[u8] = b"_abcdgjlmnoprstuwz";

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
                // A name such as `.hg` is found before any longer name below it.
                assert!(protected(&path).is_some(), "{path}");
                assert_eq!(said(&Approvals::none(), &format!("write:{path}")).decision, Decision::Deny);
                assert_eq!(said(&Approvals::none(), &format!("edit:{path}")).decision, Decision::Deny);
                assert_eq!(said(&Approvals::none(), &format!("read:{path}")).decision, Decision::Allow);
            }
        }
        assert_eq!(protected("a/.V\u{17f}Code/tasks.json"), Some(".vscode"), "as a filesystem folds it");
    }

    #[test]
    fn every_name_is_found_by_its_first_letter_and_stands_there_once() {
        let mut seen = std::collections::BTreeSet::new();
        for name in PROTECTED {
            let first = name.as_bytes()[0].to_ascii_lowercase();
            assert!(first == b'.' || INITIALS.contains(&first), "{name}");
            assert!(seen.insert(name.to_lowercase()), "{name} stands there twice");
        }
    }

    /// Spellings that other filesystems or readers treat as a protected name.
    #[test]
    fn look_alikes_of_protected_names_are_protected() {
        for path in [
            ".vscode./tasks.json",
            ".vscode /tasks.json",
            ".vs\u{200b}code/tasks.json",
            "\u{feff}.envrc",
            ".envrc\u{2060}",
            ".npmrc::$DATA",
            ".git\u{ad}hub/workflows/ci.yml",
            ".github/workflows../ci.yml",
            "sub\\.vscode\\tasks.json",
            "VSCODE~1/tasks.json",
            "a/ENVRC~1",
            ".HELIX/languages.toml",
            "Bunfig.TOML",
            "LEFTHOOK.yaml",
            ".jj. /repo",
        ] {
            assert!(protected(path).is_some(), "{path:?}");
        }
    }

    #[test]
    fn instructions_for_agents_are_told_apart() {
        for path in [
            "AGENTS.md",
            "sub/claude.md",
            ".cursorrules",
            "GEMINI.md.",
            ".github/copilot-instructions.md",
            ".github/instructions/a.instructions.md",
            "skills/x/SKILL.md",
            ".clinerules/01.md",
            "AGENTS\u{200b}.md",
            ".claude/settings.json",
        ] {
            assert!(instructs(path), "{path:?}");
        }
        for path in ["README.md", "src/agents.rs", "docs/agents/index.md", "CLAUDE.md.txt", "rules"] {
            assert!(!instructs(path), "{path:?}");
        }
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
    fn the_verdict_names_what_opens_the_name_and_that_works() {
        for (operation, opening) in [
            ("write:.github/workflows/ci.yml", "write:.github/workflows/**"),
            ("edit:sub/.github/workflows/ci.yml", "write:sub/.github/workflows/**"),
            ("write:.npmrc", "write:.npmrc"),
            ("write:a*b/.npmrc", r"write:a\*b/.npmrc"),
        ] {
            let verdict = said(&Approvals::none(), operation);
            assert!(verdict.to_string().ends_with(&format!("by allowing `{opening}`")), "{verdict}");
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
        let gone = [".github/hooks", ".github/workflows", ".github/actions", ".npmrc"];
        assert!(PROTECTED.iter().all(|name| left.contains(name) != gone.contains(name)));
    }
}
