//! Styles in which users write definitions and skills, as in public collections, without oddities.

use crate::promises::coder_tools;

/// The tools of a definition without `tools`: all of `coder`, except for spawning.
pub(crate) fn every_tool() -> Vec<String> {
    let spawns = |tool: &String| tool.starts_with("task") || tool == "delegate_to_agent";
    coder_tools().into_iter().filter(|tool| !spawns(tool)).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileType {
    /// Agent Markdown.
    Agent,
    /// A `SKILL.md`.
    Skill,
    /// A YAML skill.
    Yaml,
}

impl FileType {
    pub(crate) fn tools_key(self) -> &'static str {
        if self == FileType::Skill { "allowed-tools" } else { "tools" }
    }

    /// The key of its turn limit.
    pub(crate) fn limit_key(self) -> &'static str {
        match self {
            FileType::Agent => "maxTurns",
            FileType::Skill => "max-iterations",
            FileType::Yaml => "max_iterations",
        }
    }

    /// Whether it has front matter and a body.
    pub(crate) fn is_markdown(self) -> bool {
        self != FileType::Yaml
    }
}

/// A style of a file, with its expected result.
pub(crate) struct Style {
    pub(crate) name: &'static str,
    pub(crate) kind: FileType,
    /// The lines of front matter beyond name, description and tools.
    pub(crate) more: &'static [&'static str],
    /// The lines of the tools.
    pub(crate) tools: &'static [&'static str],
    /// The expected tools. None if the file does not list tools.
    pub(crate) expected_tools: Option<&'static [&'static str]>,
    pub(crate) body: &'static str,
}

pub(crate) const STYLES: &[Style] = &[
    Style {
        name: "claude-plain",
        kind: FileType::Agent,
        more: &["model: inherit", "color: blue"],
        tools: &["tools: Read, Grep, Glob, Bash"],
        expected_tools: Some(&["read", "grep", "glob", "bash"]),
        body: "You are a senior engineer.\n\n## When invoked\n\n1. Run git diff.\n2. Read what changed.\n\n---\n\nBe brief.",
    },
    Style {
        name: "claude-listed",
        kind: FileType::Agent,
        more: &["permissionMode: default", "maxTurns: 12", "version: 1.2.0", "tags: [review, quality]"],
        tools: &["tools:", "  - Read", "  - Edit", "  - MultiEdit", "  - WebFetch"],
        expected_tools: Some(&["read", "edit", "webfetch"]),
        body: "# Purpose\n\nYou change code with care.\n\n```yaml\nname: not-front-matter\n```",
    },
    Style {
        name: "claude-bare",
        kind: FileType::Agent,
        more: &[],
        tools: &[],
        expected_tools: None,
        body: "Answer from the docs. Quote what you found.",
    },
    Style {
        name: "opencode-switches",
        kind: FileType::Agent,
        more: &["mode: subagent", "temperature: 0.1", "permission:", "  bash: ask", "hidden: false"],
        tools: &[
            "tools:",
            "  write: false",
            "  edit: false",
            "  patch: false",
            "  todowrite: false",
            "  skill: false",
        ],
        expected_tools: Some(&["read", "glob", "grep", "list", "bash", "webfetch", "websearch"]),
        body: "You only look.",
    },
    Style {
        name: "skill-inline",
        kind: FileType::Skill,
        more: &["license: Apache-2.0", "metadata:", "  author: someone", "  version: \"1.0\""],
        tools: &["allowed-tools: Read Grep Glob"],
        expected_tools: Some(&["read", "grep", "glob"]),
        body: "# How to do it\n\nRead [the notes](references/notes.md) first.\n\n- [ ] Then do it.",
    },
    Style {
        name: "skill-forked",
        kind: FileType::Skill,
        more: &[
            "context: fork",
            "agent: Explore",
            "max-iterations: 8",
            "argument-hint: \"[file] [what]\"",
            "user-invocable: true",
        ],
        tools: &["allowed-tools:", "  - Read", "  - LS"],
        expected_tools: Some(&["read", "list"]),
        body: "Look at $ARGUMENTS and say what is there.",
    },
    Style {
        name: "skill-bare",
        kind: FileType::Skill,
        more: &["compatibility: needs git"],
        tools: &[],
        expected_tools: None,
        body: "Write a commit message in the imperative.",
    },
    Style {
        name: "yaml-skill",
        kind: FileType::Yaml,
        more: &["model: inherit", "temperature: 0.3", "sub_agents: []", "max_iterations: 6"],
        tools: &["tools: [read_file, list_directory]"],
        expected_tools: Some(&["read", "list"]),
        body: "You summarise documents.\nKeep to what they say.",
    },
    Style {
        name: "yaml-bare",
        kind: FileType::Yaml,
        more: &["sub_agents:", "  - summarize"],
        tools: &[],
        expected_tools: None,
        body: "You help with whatever comes.",
    },
];
