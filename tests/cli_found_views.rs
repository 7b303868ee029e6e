//! What a user sees of their agents and skills: unusable models, which agent executes what, what an agent read, and the
//! messages of refusals.

use serde_json::json;

use crate::support::{Home, run_of};

fn agent(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: The {name}.\n{more}---\nYou are {name}.\n")
}

fn skill(name: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: The {name}.\n{more}---\nDo as {name} says: $ARGUMENTS\n")
}

fn home() -> Home {
    let home = Home::new();
    home.write("script.yaml", "- reply: {text: Done.}\n");
    home
}

const RUN: [&str; 4] = ["run", "--json", "--model", "scripted/script.yaml"];

#[test]
fn what_claude_code_takes_as_agents_is_taken_with_notes() {
    let home = home();
    home.write_own(".claude/agents/helper.md", &agent("helper", ""));
    let agents = json!({"reviewer": {
        "description": "Reviews.", "prompt": "You review.", "tools": ["Read", "Task(helper)"], "model": "sonnet",
        "disallowedTools": ["Write"], "maxTurns": 4, "permissionMode": "acceptEdits", "color": "red",
        "hooks": {"Stop": []}
    }});
    let mut args = RUN.to_vec();
    let agents = agents.to_string();
    args.extend(["--agents", &agents, "--agent", "reviewer", "Go."]);
    let done = home.posse(&args).exits(0);
    assert_eq!(done.result()["text"], "Done.");
    for part in ["reviewer: model: `sonnet`", "`hooks`", "permissionMode: `acceptEdits`"] {
        assert!(done.stderr.contains(part), "{part}: {done:?}");
    }
    args[5] = r#"{"a": {"prompt": "x", "disalowedTools": []}}"#;
    let wrong = home.posse(&args).exits(2);
    assert!(wrong.stderr.contains("did you mean `disallowedTools`?"), "{wrong:?}");
}

#[test]
fn a_model_that_cannot_be_used_is_told() {
    let home = home();
    home.write_own(".claude/agents/typo.md", &agent("typo", "model: antropic/claude-x\n"));
    home.write_own(
        ".claude/skills/keyless/SKILL.md",
        &skill("keyless", "context: fork\nmodel: openai/gpt-5\n"),
    );
    let mut args = RUN.to_vec();
    args.push("Go.");
    let done = home.posse(&args).exits(0);
    assert!(done.stderr.contains("`typo` names the model `antropic/claude-x`"), "{done:?}");
    assert!(done.stderr.contains("`keyless` names the model `openai/gpt-5`"), "{done:?}");
    let wrong = home.posse(&["agents", "validate"]).exits(1);
    assert!(wrong.stdout.contains("did you mean `anthropic`?"), "{wrong:?}");
    // Keys are not part of a text.
    home.posse(&["skills", "validate"]).exits(0);
    for args in [["agents", "show", "typo"], ["skills", "show", "keyless"]] {
        let shown = home.posse(&args).exits(0);
        assert!(shown.stdout.contains("which cannot be used here"), "{shown:?}");
    }
    home.write(".claude/agents/mine.md", &agent("mine", "model: openai/gpt-5\n"));
    let shown = home.posse(&["agents", "show", "mine"]).exits(0);
    assert!(shown.stdout.contains("its file names openai/gpt-5, which is not used until"), "{shown:?}");
}

#[test]
fn the_skill_of_an_agent_is_seen_everywhere() {
    let home = home();
    home.write_own(".claude/skills/look/SKILL.md", &skill("look", "context: fork\nagent: explore\n"));
    let mut args = RUN.to_vec();
    args.extend(["--skill", "look", "the ropes"]);
    let run = run_of(&home.posse(&args).exits(0).result());
    let logs = home.posse(&["logs", &run]).exits(0);
    assert!(logs.stdout.contains("created explore for skill look at depth 1"), "{logs:?}");
    let shown = home.posse(&["show", &run]).exits(0);
    assert!(shown.stdout.contains("[skill look]"), "{shown:?}");
    let agents = home.posse(&["show", "--json", &run]).exits(0).json();
    assert_eq!(agents["agents"][1]["skill"], "look");
    let trace = home.posse(&["trace", &format!("{run}.1")]).exits(0);
    assert!(trace.stdout.contains("for skill look"), "{trace:?}");
}

#[test]
fn the_trace_has_the_instructions_of_a_skill_in_the_conversation() {
    let home = home();
    home.write_own(".claude/skills/pdf/SKILL.md", &skill("pdf", "allowed-tools: Read, Bash(git:*)\n"));
    for request in [&["/pdf a.pdf"][..], &["--skill", "pdf", "a.pdf"]] {
        let mut args = RUN.to_vec();
        args.extend(request);
        let run = run_of(&home.posse(&args).exits(0).result());
        let trace = home.posse(&["trace", &run]).exits(0);
        assert!(trace.stdout.contains("Do as pdf says: a.pdf"), "{trace:?}");
    }
}

#[test]
fn a_skill_that_is_for_agents_only_is_refused_however_it_is_named() {
    let home = home();
    home.write_own(".claude/skills/hid/SKILL.md", &skill("hid", "user-invocable: false\n"));
    let mut args = RUN.to_vec();
    args.extend(["--skill", "hid", "x"]);
    let refused = home.posse(&args).exits(2);
    assert!(refused.stderr.contains("`hid` is for agents only"), "{refused:?}");
}

#[test]
fn lists_are_short_and_sorted() {
    let home = home();
    home.write_own(".claude/skills/a/SKILL.md", &skill("zebra", ""));
    let long = "long ".repeat(100);
    home.write_own(".claude/skills/b/SKILL.md", &format!("---\nname: ape\ndescription: {long}\n---\nx\n"));
    let list = home.posse(&["skills"]).exits(0).stdout;
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    let at = |name: &str| list.find(name).unwrap_or(usize::MAX);
    assert!(at("  ape") < at("  zebra"), "{list}");
}

#[test]
fn the_check_says_when_it_is_asked_about_something_else() {
    let home = home();
    home.write_own(".claude/agents/one.md", &agent("one", ""));
    home.write("s/SKILL.md", &skill("s", ""));
    home.write("a.md", &agent("a", ""));
    for (args, said) in [
        (["agents", "validate", "s/SKILL.md"], "this is a SKILL.md"),
        (["agents", "validate", "s"], "this is the folder of a skill"),
        (["skills", "validate", "a.md"], "use `posse agents validate`"),
        (["skills", "validate", "none"], "none: does not exist"),
        (["agents", "validate", "none.md"], "none.md: does not exist"),
    ] {
        let wrong = home.posse(&args).exits(2);
        assert!(wrong.stderr.contains(said), "{args:?}: {wrong:?}");
    }
    let folder = home.project().join(".claude/agents");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::os::unix::fs::symlink("nowhere.md", folder.join("gone.md")).expect("a link");
    let checked = home.posse(&["agents", "validate"]).exits(0);
    assert!(checked.stdout.contains("a link without a target; remove it"), "{checked:?}");
    let mut args = RUN.to_vec();
    args.push("Go.");
    let done = home.posse(&args).exits(0);
    assert!(!done.stderr.contains("gone.md"), "{done:?}");
}

#[test]
fn names_that_look_like_options_and_odd_temperatures_are_told() {
    let home = home();
    home.write(".posse/skills/a.yaml", "name: a\ndescription: d\nsystem_prompt: p\nsub_agents: [b]\n");
    home.write(
        ".posse/skills/b.yaml",
        "name: b\ndescription: d\nsystem_prompt: p\nsub_agents: [a]\ntemperature: 3\n",
    );
    home.write(".posse/skills/c.yaml", "name: -c\ndescription: d\nsystem_prompt: p\n");
    let wrong = home.posse(&["skills", "validate"]).exits(1).stdout;
    for said in ["`a` -> `b` and back", "temperature: expected a number from 0 to 2, found 3", "name: `-c`"] {
        assert!(wrong.contains(said), "{said}: {wrong}");
    }
}

#[test]
fn init_is_careful_where_it_writes() {
    let home = home();
    let own = home.project().parent().expect("a home").display().to_string();
    let refused = home.posse(&["init", &own]).exits(2);
    assert!(refused.stderr.contains("this is your home directory"), "{refused:?}");
    std::fs::create_dir_all(home.project().join("linked")).expect("a folder");
    std::fs::create_dir_all(home.project().join("target")).expect("a folder");
    std::os::unix::fs::symlink("../target", home.project().join("linked/.posse")).expect("a link");
    let refused = home.posse(&["init", "linked"]).exits(2);
    assert!(refused.stderr.contains("this is a link"), "{refused:?}");
    assert_eq!(std::fs::read_dir(home.project().join("target")).expect("a folder").count(), 0);
    std::fs::create_dir_all(home.project().join(".git")).expect("a repository");
    std::fs::create_dir_all(home.project().join("part")).expect("a folder");
    home.posse(&["init"]).exits(0);
    let told = home.posse(&["init", "part"]).exits(0);
    assert!(told.stderr.contains("the project has"), "{told:?}");
}
