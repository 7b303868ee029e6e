//! Definitions given as JSON: every field, defaults, and errors with file, line and field.

use posse_domain::definition::Trust;

use super::super::builtin::plain;
use super::*;

const TOOLS: &[&str] = &[
    "read",
    "glob",
    "grep",
    "list",
    "write",
    "edit",
    "todo",
    "task",
    "task_status",
    "task_send",
    "task_cancel",
    "task_close",
];

fn parse(text: &str) -> Result<Vec<Definition>, String> {
    parse_agents(text, "agents.json", TOOLS).map_err(|error| error.to_string())
}

fn one(text: &str) -> Definition {
    let mut all = parse(text).expect(text);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn every_field_is_read() {
    let lead = one(r#"{"lead": {
        "description": "leads", "prompt": "You lead.", "tools": ["Read", "read_file", "Task"],
        "skills": ["Style"], "background": true, "may_share_history": true, "spawns": ["Explore", "explore"], "max_turns": 15, "model": "scripted/x.yaml", "temperature": 0.5,
        "top_p": 1, "rules": [{"pattern": "read:.env", "decision": "deny"}], "parallel": 4, "mode": "primary"
    }}"#);
    assert_eq!((lead.name.as_str(), lead.display_name.as_str()), ("lead", "Lead"));
    assert_eq!((lead.description.as_str(), &*lead.prompt), ("leads", "You lead."));
    assert_eq!(lead.tools, ["read", "task"]);
    assert_eq!(lead.spawns.as_deref(), Some(["explore".to_owned()].as_slice()));
    assert_eq!((lead.max_turns, lead.parallel), (Some(15), Some(4)));
    assert_eq!(
        (lead.model.as_deref(), lead.temperature, lead.top_p),
        (Some("scripted/x.yaml"), Some(0.5), Some(1.0))
    );
    assert_eq!(lead.rules.len(), 1);
    assert_eq!(lead.skills.as_deref(), Some(["style".to_owned()].as_slice()));
    assert!(lead.background && lead.may_share_history);
    assert_eq!((lead.mode, lead.trust), (Mode::Primary, Trust::Trusted));
}

#[test]
fn what_is_left_out_has_a_plain_meaning() {
    let minimal = one(r#"{"code-reviewer": {"prompt": "\nReview it.\nAll of it.", "model": null}}"#);
    assert_eq!(minimal.display_name, "Code Reviewer");
    assert_eq!(minimal.description, "Review it.");
    assert_eq!(minimal.tools, LOOK);
    assert_eq!(
        (minimal.spawns, minimal.max_turns, minimal.model, minimal.mode),
        (None, None, None, Mode::All)
    );
    assert_eq!(parse("{}"), Ok(Vec::new()));
}

#[test]
fn whoever_may_spawn_has_the_tool_for_it() {
    let lead = one(r#"{"lead": {"prompt": "x", "tools": ["read"], "spawns": ["explore", "lead"]}}"#);
    assert_eq!(lead.tools, ["read", "task", "task_status", "task_send", "task_cancel", "task_close"]);
    assert_eq!(lead.spawns.expect("spawns"), ["explore", "lead"]);
    let alone = one(r#"{"lead": {"prompt": "x", "tools": ["read"], "spawns": []}}"#);
    assert_eq!(alone.tools, ["read"]);
    let chosen = one(r#"{"lead": {"prompt": "x", "tools": ["task"], "spawns": ["explore"]}}"#);
    assert_eq!(chosen.tools, ["task"]);
}

#[test]
fn what_was_found_can_be_spawned_too() {
    let found = Definition { name: "helper".into(), ..plain() };
    let text = r#"{"lead": {"prompt": "x", "spawns": ["helper", "review-*", "general-purpose"]}}"#;
    assert!(parse(text).expect_err("helper").contains("unknown definition \"helper\""));
    let read = parse_agents_among(text, "agents.json", TOOLS, &[found]).expect("definitions");
    assert_eq!(read.definitions[0].spawns.as_ref().map(Vec::len), Some(3));
}

#[test]
fn a_definition_of_the_file_shadows_a_primary_built_in() {
    let text = r#"{"coder": {"prompt": "x"}, "lead": {"prompt": "y", "spawns": ["coder"]}}"#;
    assert_eq!(parse(text).expect("definitions").len(), 2);
}

#[test]
fn a_mistake_is_named_with_file_line_and_field() {
    for (text, error) in [
        ("", "agents.json:1: EOF while parsing a value"),
        ("{\n\"a\": {\"prompt\": \"x\",}}", "agents.json:2: key must be a string"),
        ("[]", "agents.json:1: invalid type: sequence, expected an object"),
        ("{\n\"a\": 1}", "agents.json:2: a: invalid type: integer `1`, expected an object"),
        (
            "{\"a\": {\n\"promt\": \"x\"}}",
            "agents.json:2: a: unknown field \"promt\" (did you mean `prompt`?)",
        ),
        ("{\"a\": {\n\n\"prompt\": 5}}", "agents.json:3: a.prompt: expected text, found a number"),
        ("{\"a\": {\"prompt\": \" \"}}", "agents.json:1: a.prompt: must not be empty"),
        ("{\"a\": {}}", "agents.json:1: a.prompt: is missing"),
        ("{\"A b\": {\"prompt\": \"x\"}}", "agents.json:1: \"A b\" cannot be a definition's name: 1 to 64"),
        ("{\"\": {\"prompt\": \"x\"}}", "agents.json:1: \"\" cannot be a definition's name"),
        (
            "{\"a\": {\"prompt\": \"x\"},\n\"a\": {\"prompt\": \"y\"}}",
            "agents.json:2: the definition `a` is written twice",
        ),
        (
            "{\"a\": {\"prompt\": \"x\",\n\"prompt\": \"y\"}}",
            "agents.json:2: a: the field `prompt` is written twice",
        ),
        (
            "{\"a\": {\"prompt\": \"x\",\n\"max_turns\": 0}}",
            "agents.json:2: a: max_turns: expected a whole number from 1 to 1000000, found 0",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"max_turns\": -1}}",
            "agents.json:1: a: max_turns: expected a whole number from 1 to 1000000, found -1",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"parallel\": 0}}",
            "agents.json:1: a: parallel: expected a whole number from 1",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"top_p\": -0.1}}",
            "agents.json:1: a: top_p: expected a number from 0 to 1, found -0.1",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"mode\": \"boss\"}}",
            "agents.json:1: a: mode: `boss` is not one of primary, subagent and all",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"tools\": [\n\"Reed\"]}}",
            "agents.json:2: a: unknown tool \"Reed\" (did you mean `read`?)",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"tools\": [\n1]}}",
            "agents.json:2: a.tools: expected text, found a number",
        ),
        (
            "{\"a\": {\"prompt\": \"x\",\n\"spawns\": [\"explor\"]}}",
            "agents.json:2: a.spawns: unknown definition \"explor\" (did you mean `explore`?)",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"spawns\": [\"coder\"]}}",
            "agents.json:1: a.spawns: `coder` is a primary definition",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"rules\": [\n{\"pattern\": \"bash:\", \"decision\": \"deny\"}]}}",
            "agents.json:2: a: rules: `bash:` is not a permission pattern",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"rules\": [\n{\"pattern\": \"wrte:src/**\", \"decision\": \"deny\"}]}}",
            "agents.json:2: a: rules: unknown tool `wrte` (did you mean `write`?)",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"rules\": [{\"pattern\": \"read\", \"when\": 1}]}}",
            "agents.json:1: a: rules: unknown field `when`",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"max_turns\": 1,\n\"maxTurns\": 2}}",
            "agents.json:2: a: the field `maxTurns` is written twice",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"disalowedTools\": []}}",
            "agents.json:1: a: unknown field \"disalowedTools\" (did you mean `disallowedTools`?)",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"maxTurns\": \"5\"}}",
            "agents.json:1: a.maxTurns: expected a number, found text",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"temperature\": 2.5}}",
            "agents.json:1: a: temperature: expected a number from 0 to 2, found 2.5",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"background\": \"yes\"}}",
            "agents.json:1: a.background: expected true or false, found text",
        ),
        (
            "{\"a\": {\"prompt\": \"x\", \"name\": \"b\"}}",
            "agents.json:1: a.name: the definition is called `a`, not `b`",
        ),
        ("{\"a\": {\"prompt\": \"x\", \"model\": \"\"}}", "agents.json:1: a.model: must not be empty"),
    ] {
        let found = parse(text).expect_err(text);
        assert!(found.starts_with(error), "{text}\n{found}\n{error}");
    }
}

/// The examples of its documentation, and a definition with every key that it has.
#[test]
fn what_claude_code_takes_is_taken() {
    let text = r##"{
  "code-reviewer": {
    "description": "Expert code reviewer. Use proactively after code changes.",
    "prompt": "You are a senior code reviewer.",
    "tools": ["Read", "Grep", "Glob", "Bash(git diff:*)", "mcp__github__search"],
    "disallowedTools": ["Grep"],
    "model": "sonnet",
    "permissionMode": "acceptEdits",
    "maxTurns": 7,
    "skills": ["Style"],
    "background": true,
    "mcpServers": [{"slack": {"type": "stdio", "command": "x"}}],
    "hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x"}]}]},
    "memory": "user", "effort": "high", "isolation": "worktree", "color": "#ff8800", "initialPrompt": "go"
  },
  "planner-of-mine": {"prompt": "Plan.", "tools": "Read, Task(code-reviewer), Write", "permissionMode": "plan"},
  "off": {"prompt": "x", "disable": true}
}"##;
    let tools: Vec<&str> = TOOLS.iter().copied().chain(["bash"]).collect();
    let given = parse_agents_among(text, "agents.json", &tools, &[]).expect("definitions");
    let [reviewer, planner] = given.definitions.as_slice() else { panic!("{given:?}") };
    assert_eq!(reviewer.tools, ["read", "glob", "bash"]);
    assert!(reviewer.rules.iter().any(|rule| rule.pattern.to_string().contains("git diff")));
    assert_eq!((reviewer.model.as_deref(), reviewer.max_turns), (None, Some(7)));
    assert!(reviewer.background && reviewer.skills.as_deref() == Some(&["style".to_owned()]));
    assert_eq!(planner.spawns.as_deref(), Some(["code-reviewer".to_owned()].as_slice()));
    assert!(!planner.tools.contains(&"write".to_owned()));
    let notes: Vec<String> = given.notes.iter().map(ToString::to_string).collect();
    for (line, about) in [
        (5, "`mcp__github__search`"),
        (7, "model: `sonnet` is a short name"),
        (8, "permissionMode: `acceptEdits` is ignored"),
        (12, "`mcpServers`"),
        (13, "`hooks`"),
        (14, "`memory`"),
        (14, "`effort`"),
        (14, "`initialPrompt`"),
    ] {
        let lead = format!("agents.json:{line}: code-reviewer: {about}");
        assert!(notes.iter().any(|note| note.starts_with(&lead)), "{lead}\n{notes:#?}");
    }
    assert!(notes.iter().any(|note| note.contains("off: the definition is disabled")), "{notes:#?}");
    assert_eq!(notes.len(), 9, "{notes:#?}");
}

#[test]
fn a_value_that_is_nested_without_end_is_refused() {
    let deep =
        format!("{{\"a\": {{\"prompt\": \"x\", \"hooks\": {}{}}}}}", "[".repeat(9_000), "]".repeat(9_000));
    assert!(parse(&deep).expect_err("too deep").contains("a.hooks: is nested too deeply"));
}

#[test]
fn a_text_beyond_the_limit_is_refused_unread() {
    let error = parse(&" ".repeat(AGENTS_JSON_MAX_BYTES + 1)).expect_err("too large");
    assert!(error.contains("more than the 4194304 accepted"), "{error}");
}
