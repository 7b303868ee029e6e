//! The names that other tools have for what an agent can do, and ours for the same.

use posse_domain::nearest::{hint, nearest};

/// What a foreign name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName<'a> {
    /// A tool that exists.
    Known(&'a str),
    /// A tool of an MCP server that is not connected.
    Mcp,
    /// A tool of another program that has no counterpart.
    NotHere,
    /// Nothing that is known.
    Unknown,
}

/// Ours, and what others call it, in small letters without `_`, `-` and spaces.
const NAMES: &[(&str, &[&str])] = &[
    (
        "read",
        &[
            "readfile",
            "readfiles",
            "readmanyfiles",
            "fileread",
            "view",
            "viewfile",
            "cat",
            "openfile",
            "notebookread",
        ],
    ),
    ("list", &["ls", "listdir", "listdirectory", "listfiles", "readfolder", "directorytree"]),
    ("glob", &["find", "findfiles", "filesearch", "globsearch", "searchfilenames"]),
    (
        "grep",
        &[
            "search",
            "searchfiles",
            "searchfilecontent",
            "searchcode",
            "searchcontent",
            "grepsearch",
            "ripgrep",
            "rg",
        ],
    ),
    ("write", &["writefile", "writetofile", "createfile", "filewrite", "create"]),
    (
        "edit",
        &[
            "multiedit",
            "editfile",
            "editfiles",
            "fileedit",
            "notebookedit",
            "patch",
            "applypatch",
            "applydiff",
            "replace",
            "replaceinfile",
            "strreplace",
            "strreplaceeditor",
            "strreplacebasededittool",
            "searchreplace",
            "update",
        ],
    ),
    (
        "bash",
        &[
            "shell",
            "sh",
            "terminal",
            "exec",
            "execute",
            "executecommand",
            "runcommand",
            "runcommands",
            "runshellcommand",
            "runterminalcmd",
            "runinterminal",
            "localshell",
            "powershell",
        ],
    ),
    ("webfetch", &["fetch", "fetchurl", "urlfetch", "readurl", "browse"]),
    ("websearch", &["googlewebsearch", "searchweb", "web", "internetsearch"]),
    (
        "todo",
        &[
            "todowrite",
            "todoread",
            "todos",
            "todolist",
            "updateplan",
            "managetodolist",
            "taskcreate",
            "taskupdate",
            "tasklist",
            "taskget",
        ],
    ),
    ("skill", &["skills", "slashcommand", "useskill", "activateskill"]),
    ("task", &["agent", "agents", "subagent", "runsubagent", "newtask", "dispatchagent", "spawnagent"]),
    ("task_status", &["taskoutput", "agentoutput"]),
    ("task_cancel", &["taskstop", "killtask"]),
    ("task_send", &["sendmessage", "sendinput"]),
    ("delegate_to_agent", &["delegate"]),
];

/// Tools of others that have no counterpart, spelled likewise.
const NOT_HERE: &[&str] = &[
    "askuserquestion",
    "askuser",
    "askfollowupquestion",
    "question",
    "exitplanmode",
    "enterplanmode",
    "planenter",
    "planexit",
    "enterworktree",
    "exitworktree",
    "bashoutput",
    "killshell",
    "killbash",
    "monitor",
    "lsp",
    "codesearch",
    "toolsearch",
    "croncreate",
    "cronlist",
    "crondelete",
    "schedulewakeup",
    "pushnotification",
    "listmcpresources",
    "listmcpresourcestool",
    "readmcpresource",
    "readmcpresourcetool",
    "attemptcompletion",
    "switchmode",
    "savememory",
    "memory",
    "think",
    "computer",
    "artifact",
    "structuredoutput",
    "batch",
    "invalid",
    "externaldirectory",
    "doomloop",
    "teamcreate",
    "teamdelete",
    "viewimage",
];

/// What `name` stands for among the tools that exist.
pub(super) fn tool<'a>(name: &str, known: &[&'a str]) -> ToolName<'a> {
    let exact = |name: &str| known.iter().copied().find(|tool| *tool == name);
    if let Some(tool) = exact(name) {
        return ToolName::Known(tool);
    }
    if let Some(rest) = name.strip_prefix("mcp__") {
        return exact(rest).map_or(ToolName::Mcp, ToolName::Known);
    }
    let plain: String =
        name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect();
    let own = known.iter().copied().find(|tool| plain_eq(tool, &plain));
    let mapped = || {
        let (ours, _) = NAMES.iter().find(|(_, others)| others.contains(&plain.as_str()))?;
        exact(ours)
    };
    match own.or_else(mapped) {
        Some(tool) => ToolName::Known(tool),
        None if is_named_here(&plain) => ToolName::NotHere,
        None => ToolName::Unknown,
    }
}

/// Whether the plain spelling is a tool of ours that is not among the known ones, or one that has no counterpart.
fn is_named_here(plain: &str) -> bool {
    NOT_HERE.contains(&plain)
        || NAMES.iter().any(|(ours, others)| plain_eq(ours, plain) || others.contains(&plain))
}

fn plain_eq(name: &str, plain: &str) -> bool {
    name.bytes().filter(|b| *b != b'_').eq(plain.bytes())
}

/// What is wrong with a name that stands for no tool.
pub(super) fn unknown(name: &str, known: &[&str]) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("there is no tool {name:?}{}", hint(nearest(&name, known.iter().copied())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["read", "bash", "edit", "grep", "todo", "task", "task_status", "github__get"];

    #[test]
    fn foreign_names_stand_for_ours() {
        for (name, ours) in [
            ("Read", "read"),
            ("read_file", "read"),
            ("Bash", "bash"),
            ("run_shell_command", "bash"),
            ("MultiEdit", "edit"),
            ("apply_patch", "edit"),
            ("Grep", "grep"),
            ("TodoWrite", "todo"),
            ("Agent", "task"),
            ("Task", "task"),
            ("TaskStatus", "task_status"),
            ("mcp__github__get", "github__get"),
        ] {
            assert_eq!(tool(name, KNOWN), ToolName::Known(ours), "{name}");
        }
    }

    #[test]
    fn what_is_not_here_is_told_from_what_is_unknown() {
        assert_eq!(tool("AskUserQuestion", KNOWN), ToolName::NotHere);
        assert_eq!(tool("WebFetch", KNOWN), ToolName::NotHere, "ours, but not among the known");
        assert_eq!(tool("mcp__github__list", KNOWN), ToolName::Mcp);
        assert_eq!(tool("Reed", KNOWN), ToolName::Unknown);
        assert_eq!(unknown("Reed", KNOWN), "there is no tool \"Reed\" (did you mean `read`?)");
    }

    #[test]
    fn no_name_stands_for_two_tools() {
        let mut all: Vec<&str> = NAMES.iter().flat_map(|(_, others)| others.iter().copied()).collect();
        all.extend(NOT_HERE);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase())));
    }
}
