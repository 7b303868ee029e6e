//! What listings and warnings state about files of agents and skills: their meaning in a run, and their problems.

use serde_json::{Value, json};

use crate::support::{Home, run_of};

fn agent(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n{more}---\nYou are {name}.\n")
}

/// Starts a child of this definition, which ends at once.
fn spawning(child: &str) -> String {
    format!(
        "- when: {{definition: coder, turn: 1}}\n  reply:\n    tool_calls:\n      - {{name: task, input: \
         {{subagent_type: {child}, description: d, prompt: Look.}}}}\n- reply: {{text: Done.}}\n"
    )
}

/// The prompts of a run's models.
fn prompts(home: &Home, run: &str) -> String {
    let events = home.posse(&["logs", "--json", run]).exits(0).json_lines();
    let called = events.iter().filter(|event| event["kind"] == "agent.model_called");
    called.map(|event| event["detail"]["preamble"].to_string()).collect()
}

const RUN: [&str; 5] = ["run", "--json", "--model", "scripted/script.yaml", "Go."];

#[test]
fn agents_are_told_what_their_rules_leave_and_who_asks() {
    let home = Home::new();
    home.write_own(".claude/agents/differ.md", &agent("differ", "tools: Read, Bash(git diff:*)\n"));
    home.write(".claude/agents/stranger.md", &agent("stranger", "tools: Read\n"));
    home.write("script.yaml", &spawning("differ"));
    let told = prompts(&home, &run_of(&home.posse(&RUN).exits(0).result()));
    assert!(told.contains("`bash` only as: `git diff`, `git diff *`."), "{told}");
    assert!(!told.contains("Refused whenever you try: `bash`"), "{told}");
    let marked = "`stranger`: Does stranger. (not trusted: each of its calls asks a person)";
    assert!(told.contains(marked), "{told}");
    home.write("script.yaml", &spawning("stranger"));
    let done = home.posse(&RUN).exits(0);
    assert!(done.stderr.contains("`stranger`") && done.stderr.contains("`posse trust`"), "{done:?}");
    let told = prompts(&home, &run_of(&done.result()));
    assert!(told.contains("asks a person first. Nobody can be asked for you: it is refused."), "{told}");
}

#[test]
fn what_is_shown_is_what_a_run_has() {
    let home = Home::new();
    home.write("AGENTS.md", "Use tabs.\n");
    home.write_own(".claude/agents/sheller.md", &agent("sheller", "tools: Read, Bash\n"));
    let shown = home.posse(&["agents", "show", "sheller"]).exits(0).stdout;
    assert!(shown.contains("\nrules:        ask bash:git push*, "), "{shown}");
    let added = "\nprompt:       as below; in a run followed by its contract, the text of AGENTS.md\n";
    assert!(shown.contains(added), "{shown}");
    let shown = home.posse(&["agents", "show", "sheller", "--json"]).exits(0).json();
    let first = &shown["definition"]["rules"][0];
    assert_eq!(*first, json!({"pattern": "bash:git push*", "decision": "ask"}), "{shown}");

    home.write_own(
        ".config/posse/skills/plain.yaml",
        "description: d\nsystem_prompt: Do it.\ntools: [read]\n",
    );
    let shown = home.posse(&["skills", "show", "plain"]).exits(0).stdout;
    assert!(!shown.contains("bash"), "rules about tools that it has not: {shown}");
    let skill = |more: &str| format!("---\nname: s\ndescription: d\n{more}---\nDo it.\n");
    home.write_own(".claude/skills/s/SKILL.md", &skill("allowed-tools: Read, Bash(git:*)\n"));
    let shown = home.posse(&["skills", "show", "s"]).exits(0).stdout;
    let tools =
        "tools:        those of the agent that loads it; `allowed-tools` is used with `context: fork` only\n";
    assert!(shown.contains(tools) && !shown.contains("deny"), "{shown}");
    let forked = "context: fork\nagent: coder\nallowed-tools: Read, Bash(git:*)\n";
    home.write_own(".claude/skills/s/SKILL.md", &skill(forked));
    let shown = home.posse(&["skills", "show", "s"]).exits(0).stdout;
    assert!(shown.contains("and rules:    deny bash\nand rules:    allow bash:git"), "{shown}");
    assert!(!shown.contains("root only"), "{shown}");
}

#[test]
fn a_skill_that_a_rule_denies_is_shown_with_the_rule() {
    let home = Home::new();
    home.write_own(".claude/skills/s/SKILL.md", "---\nname: s\ndescription: d\n---\nDo it.\n");
    let shown = || home.posse(&["skills", "show", "s"]).exits(0).stdout;
    let as_json = || home.posse(&["skills", "show", "s", "--json"]).exits(0).json();
    assert!(!shown().contains("in a run here") && as_json()["decision"].is_null());
    home.write_settings("rules:\n  - {pattern: 'skill:s', decision: deny}\n");
    let denied = shown();
    assert!(denied.starts_with("in a run here: deny") && denied.contains("`skill:s`"), "{denied}");
    assert_eq!(as_json()["decision"], "deny");
    home.write_settings("rules:\n  - {pattern: 'skill:other', decision: deny}\n");
    assert!(!shown().contains("in a run here"));
    // A project may narrow before it is trusted.
    home.write(".posse/settings.yaml", "rules:\n  - {pattern: 'skill:*', decision: ask}\n");
    let asks = shown();
    assert!(asks.starts_with("in a run here: ask") && asks.contains("`skill:*`"), "{asks}");
}

#[test]
fn mistakes_in_files_are_told_without_a_flood() {
    let home = Home::new();
    home.write_own(".claude/agents/all.md", &agent("all", "tool: Read\n"));
    home.write_own(".claude/agents/shell.md", &agent("shell", "disallowedTools: Bsh\n"));
    for number in 0..10 {
        let name = format!("odd-{number}");
        home.write_own(&format!(".claude/agents/{name}.md"), &agent(&name, "tools: Raed\n"));
    }
    home.write("script.yaml", "- reply: {text: Done.}\n");
    let told = home.posse(&RUN).exits(0).stderr;
    for widening in ["agents/all.md:4: unknown key `tool`", "agents/shell.md:4: "] {
        assert!(told.contains(widening), "{told}");
    }
    assert!(
        told.contains("note: problems in 10 files of agents and skills; `posse agents validate` shows why"),
        "{told}"
    );
    assert!(!told.contains("odd-"), "{told}");
    let list = home.posse(&["agents"]).exits(0).stderr;
    assert!(list.contains("problems in 12 files; `posse agents validate` lists them"), "{list}");
    let shown = home.posse(&["agents", "show", "all"]).exits(0).stdout;
    assert!(shown.contains("\nproblem:      ") && shown.contains("(did you mean `tools`?)"), "{shown}");
    let shown = home.posse(&["agents", "show", "all", "--json"]).exits(0).json();
    assert_eq!(shown["warnings"][0]["line"], 4, "{shown}");
}

#[test]
fn a_file_that_cannot_be_used_is_not_said_to_be_missing() {
    let home = Home::new();
    home.write_own(".claude/agents/bomb.md", "");
    home.write_own(".claude/agents/bom.md", &agent("bom", ""));
    home.write_own(".config/posse/skills/y1.yaml", "description: d\nsystem_promt: Do it.\n");
    home.write_own(".config/posse/skills/y2.yaml", "description: d\nsystem_prompt: Do it.\n");
    home.write_own(".claude/skills/empty/SKILL.md", "---\nname: empty\ndescription: d\n---\n");
    home.write("script.yaml", "- reply: {text: Done.}\n");
    for (args, said) in [
        (&["agents", "show", "bomb"][..], "`bomb` cannot be used: ~/.claude/agents/bomb.md:"),
        (
            &["run", "--agent", "bomb", "--model", "scripted/script.yaml", "x"],
            "--agent: `bomb` cannot be used: ~/",
        ),
        (
            &["run", "--skill", "y1", "--model", "scripted/script.yaml", "x"],
            "--skill: `y1` cannot be used: ~/.config/posse/skills/y1.yaml:2: there is no `system_prompt`, but \
             `system_promt` (did you mean `system_prompt`?)",
        ),
        (
            &["skills", "show", "empty"],
            "`empty` cannot be used: ~/.claude/skills/empty/SKILL.md: there are no",
        ),
    ] {
        let done = home.posse(args).exits(2);
        assert!(done.stderr.contains(said), "{args:?}: {}", done.stderr);
    }
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "/y1 now"]).exits(0);
    assert!(done.stderr.contains("note: the skill `y1` cannot be used: ~/"), "{}", done.stderr);
}

#[test]
fn who_waits_for_trust_is_told_because_of_whom() {
    let home = Home::new();
    home.write(".claude/agents/mine.md", &agent("mine", ""));
    home.write(".claude/agents/coder.md", &agent("coder", ""));
    home.write_own(".claude/agents/mine.md", &agent("mine", ""));
    let list = home.posse(&["agents"]).exits(0).stdout;
    assert!(list.contains("(not trusted yet: ~/.claude/agents/mine.md has the same name)"), "{list}");
    assert!(list.contains("(not trusted yet: a built-in one has the same name)"), "{list}");
}

#[test]
fn a_definition_that_lists_itself_is_no_mistake() {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: Done.}\n");
    let given = r#"{"x": {"prompt": "p", "spawns": ["x"]}}"#;
    let done = home.posse(&["run", "--agents", given, "--model", "scripted/script.yaml", "Go."]).exits(0);
    assert!(!done.stderr.contains("itself"), "{done:?}");
}

#[test]
fn a_list_of_known_names_has_a_limit() {
    let home = Home::new();
    for number in 0..60 {
        let name = format!("agent-{number}");
        home.write_own(&format!(".claude/agents/{name}.md"), &agent(&name, ""));
    }
    home.write("script.yaml", &spawning("nobody"));
    let done = home.posse(&RUN).exits(0);
    let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
    let refused = events.iter().map(Value::to_string).find(|event| event.contains("UNKNOWN_AGENT"));
    assert!(refused.as_ref().is_some_and(|text| text.contains(" more")), "{refused:?}");
}
