//! Maps tool names of other programs to Posse's tools.

use posse_domain::lifecycle::TASK_TOOL;
use posse_domain::nearest::{hint, nearest};
use posse_domain::permission::{NETWORK, Pattern};

/// The meaning of another program's tool name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolName<'a> {
    /// A tool of Posse.
    Known(&'a str),
    /// A tool of an MCP server that is not connected.
    Mcp,
    /// A tool of another program without a counterpart in Posse.
    NotHere,
    Unknown,
}

/// A tool of Posse and its names in other programs.
struct ToolAliases {
    ours: &'static str,
    /// The spelling in scripts for Claude Code. The first is the name that such a script receives.
    spelled: &'static [&'static str],
    /// Other names, in lower case without `_`, `-` and spaces.
    others: &'static [&'static str],
}

impl ToolAliases {
    /// Whether the normalised name is one of the aliases.
    fn is_called(&self, plain: &str) -> bool {
        self.others.contains(&plain) || self.spelled.iter().any(|name| plain_eq(name, plain))
    }
}

const NAMES: &[ToolAliases] = &[
    ToolAliases {
        ours: "read",
        spelled: &["Read", "NotebookRead"],
        others: &[
            "readfile",
            "readfiles",
            "readmanyfiles",
            "fileread",
            "view",
            "viewfile",
            "cat",
            "openfile",
        ],
    },
    ToolAliases {
        ours: "list",
        spelled: &["LS"],
        others: &["listdir", "listdirectory", "listfiles", "readfolder", "directorytree"],
    },
    ToolAliases {
        ours: "glob",
        spelled: &["Glob"],
        others: &["find", "findfiles", "filesearch", "globsearch", "searchfilenames"],
    },
    ToolAliases {
        ours: "grep",
        spelled: &["Grep"],
        others: &[
            "search",
            "searchfiles",
            "searchfilecontent",
            "searchcode",
            "searchcontent",
            "grepsearch",
            "ripgrep",
            "rg",
        ],
    },
    ToolAliases {
        ours: "write",
        spelled: &["Write"],
        others: &["writefile", "writetofile", "createfile", "filewrite", "create"],
    },
    ToolAliases {
        ours: "edit",
        spelled: &["Edit", "MultiEdit", "NotebookEdit"],
        others: &[
            "editfile",
            "editfiles",
            "fileedit",
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
    },
    ToolAliases {
        ours: "bash",
        spelled: &["Bash"],
        others: &[
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
    },
    ToolAliases {
        ours: "webfetch",
        spelled: &["WebFetch"],
        others: &["fetch", "fetchurl", "urlfetch", "readurl", "browse"],
    },
    ToolAliases {
        ours: "websearch",
        spelled: &["WebSearch"],
        others: &["googlewebsearch", "searchweb", "web", "internetsearch"],
    },
    ToolAliases {
        ours: "todo",
        spelled: &["TodoWrite"],
        others: &[
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
    },
    ToolAliases {
        ours: "skill",
        spelled: &["Skill", "SlashCommand"],
        others: &["skills", "useskill", "activateskill"],
    },
    ToolAliases {
        ours: TASK_TOOL,
        spelled: &["Task", "Agent"],
        others: &["agents", "subagent", "runsubagent", "newtask", "dispatchagent", "spawnagent"],
    },
    ToolAliases { ours: "task_status", spelled: &[], others: &["taskoutput", "agentoutput"] },
    ToolAliases { ours: "task_cancel", spelled: &[], others: &["taskstop", "killtask"] },
    ToolAliases { ours: "task_send", spelled: &[], others: &["sendmessage", "sendinput"] },
    ToolAliases { ours: "delegate_to_agent", spelled: &[], others: &["delegate"] },
];

/// Tools of other programs without a counterpart, normalised.
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

/// The spellings of one of Posse's tools in scripts for Claude Code. The first is the name that such a script receives.
pub fn spelled_elsewhere(ours: &str) -> &'static [&'static str] {
    NAMES.iter().find(|named| named.ours == ours).map_or(&[], |named| named.spelled)
}

/// The meaning of `name` among the tools that exist.
pub(super) fn tool<'a>(name: &str, known: &[&'a str]) -> ToolName<'a> {
    let exact = |name: &str| known.iter().copied().find(|tool| *tool == name);
    if let Some(tool) = exact(name) {
        return ToolName::Known(tool);
    }
    if let Some(rest) = name.strip_prefix("mcp__") {
        return exact(rest).map_or(ToolName::Mcp, ToolName::Known);
    }
    let plain = plain(name);
    let own = known.iter().copied().find(|tool| plain_eq(tool, &plain));
    let mapped = || {
        let named = NAMES.iter().find(|named| named.is_called(&plain))?;
        exact(named.ours)
    };
    match own.or_else(mapped) {
        Some(tool) => ToolName::Known(tool),
        None if is_named_here(&plain) => ToolName::NotHere,
        None => ToolName::Unknown,
    }
}

/// Whether the normalised name is a tool of Posse that is not among the known ones, or one without a counterpart.
fn is_named_here(plain: &str) -> bool {
    NOT_HERE.contains(&plain)
        || NAMES.iter().any(|named| plain_eq(named.ours, plain) || named.is_called(plain))
}

/// Normalises a name: lower case, without separators between words.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase()).collect()
}

fn plain_eq(name: &str, plain: &str) -> bool {
    name.bytes().filter(|b| *b != b'_').map(|b| b.to_ascii_lowercase()).eq(plain.bytes())
}

/// The problem text for a name that is not a tool.
pub(super) fn unknown(name: &str, known: &[&str]) -> String {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    format!("unknown tool {name:?}{}", hint(nearest(&name, known.iter().copied())))
}

/// The problem with a pattern that is about no tool: a rule with it would protect nothing.
pub fn about_no_tool(pattern: &Pattern, known: &[&str]) -> Option<String> {
    let tool = pattern.as_str().split(':').next().unwrap_or_default();
    let is_one = tool == "*" || tool == NETWORK || is_of_server(tool) || known.contains(&tool);
    let near = || nearest(tool, known.iter().copied().chain([NETWORK]));
    (!is_one).then(|| format!("unknown tool `{tool}`{}", hint(near())))
}

/// The problem with a name that no call can have, neither in Posse nor in scripts for Claude Code. A tool that exists
/// only elsewhere is not a problem: a hook for it is never called.
pub fn is_no_tool(name: &str, known: &[&str]) -> Option<String> {
    let is_one = known.iter().any(|ours| *ours == name || spelled_elsewhere(ours).contains(&name));
    if is_one || is_of_server(name) || NOT_HERE.contains(&plain(name).as_str()) {
        return None;
    }
    let near = match tool(name, known) {
        ToolName::Known(ours) => Some(ours),
        _ => nearest(name, known.iter().copied()),
    };
    Some(format!("unknown tool `{name}`{}", hint(near)))
}

/// Names of MCP tools have two parts, and are known only once the server runs.
fn is_of_server(tool: &str) -> bool {
    tool.contains("__")
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
    fn a_name_that_no_call_is_known_by_is_told_with_the_one_that_was_meant() {
        for name in ["bash", "Bash", "NotebookEdit", "AskUserQuestion", "KillShell", "mcp__github__list"] {
            assert_eq!(is_no_tool(name, KNOWN), None);
        }
        for (name, meant) in [("BASH", "bash"), ("shell", "bash"), ("raed", "read"), ("Greb", "grep")] {
            let problem = format!("unknown tool `{name}` (did you mean `{meant}`?)");
            assert_eq!(is_no_tool(name, KNOWN), Some(problem));
        }
        assert_eq!(is_no_tool("Write", KNOWN), Some("unknown tool `Write`".to_owned()));
    }

    #[test]
    fn what_is_not_here_is_told_from_what_is_unknown() {
        assert_eq!(tool("AskUserQuestion", KNOWN), ToolName::NotHere);
        assert_eq!(tool("WebFetch", KNOWN), ToolName::NotHere, "ours, but not among the known");
        assert_eq!(tool("mcp__github__list", KNOWN), ToolName::Mcp);
        assert_eq!(tool("Reed", KNOWN), ToolName::Unknown);
        assert_eq!(unknown("Reed", KNOWN), "unknown tool \"Reed\" (did you mean `read`?)");
    }

    #[test]
    fn no_name_stands_for_two_tools() {
        let names = NAMES.iter().flat_map(|named| named.spelled.iter().chain(named.others));
        let mut all: Vec<String> = names.chain(NOT_HERE).map(|name| name.to_ascii_lowercase()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase())));
    }
}
