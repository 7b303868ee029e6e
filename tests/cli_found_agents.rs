//! Discovered definitions: listed, shown, checked, and used by runs.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::{Home, run_of};

/// A definition in the format of other tools.
fn agent(name: &str, description: &str, more: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n{more}---\nYou are {name}. Do your work.\n")
}

/// A project with its own definitions, and a user with theirs.
fn furnished() -> Home {
    let home = Home::new();
    home.write(".posse/agents/coder.md", &agent("coder", "Not the coder you know.", ""));
    home.write(".claude/agents/auditor.md", &agent("auditor", "Looks for trouble.", "tools: Read, Grep\n"));
    home.write(".claude/agents/reviewer.md", &agent("reviewer", "The project's reviewer.", ""));
    home.write(".claude/agents/broken.md", "");
    home.write(".claude/agents/retired.md", &agent("retired", "Is not used any more.", "disable: true\n"));
    home.write_own(
        ".config/posse/agents/reviewer.md",
        &agent("reviewer", "My reviewer.", "tools: [read, grep]\nmaxTurns: 4\n"),
    );
    home.write_own(".claude/agents/reviewer.md", &agent("reviewer", "An older reviewer.", ""));
    home.write_own(".claude/agents/explore.md", &agent("explore", "My own explorer.", "tools: Read\n"));
    home
}

fn named<'a>(list: &'a Value, name: &str) -> Vec<&'a Value> {
    list["agents"].as_array().expect("a list").iter().filter(|agent| agent["name"] == name).collect()
}

#[test]
fn the_list_tells_what_there_is_where_from_and_what_shadows_what() {
    let home = furnished();
    insta::assert_snapshot!(home.posse(&["agents"]).exits(0).screen(&home, "--------"));
    let list = home.posse(&["agents", "--json"]).exits(0).json();
    assert_eq!(list["version"], 1);
    let standings = |name: &str| -> Vec<(Value, Value, Value)> {
        let all = named(&list, name).into_iter();
        all.map(|one| (one["origin"].clone(), one["standing"].clone(), one["trusted"].clone())).collect()
    };
    let row = |origin: &str, standing: &str, trusted: bool| (json!(origin), json!(standing), json!(trusted));
    assert_eq!(standings("coder"), [row("project", "waits_for_trust", false), row("built_in", "used", true)]);
    assert_eq!(standings("auditor"), [row("project", "used", false)]);
    assert_eq!(
        standings("reviewer"),
        [row("project", "waits_for_trust", false), row("user", "used", true), row("user", "shadowed", true)]
    );
    assert_eq!(standings("explore"), [row("user", "used", true), row("built_in", "shadowed", true)]);
    assert_eq!(list["unusable"].as_array().map(Vec::len), Some(2), "{list}");
}

#[test]
fn one_is_shown_with_what_it_comes_to() {
    let home = furnished();
    insta::assert_snapshot!(
        "show_own",
        home.posse(&["agents", "show", "Reviewer"]).exits(0).screen(&home, "--------")
    );
    insta::assert_snapshot!(
        "show_untrusted",
        home.posse(&["agents", "show", "auditor"]).exits(0).screen(&home, "--------")
    );
    let shown = home.posse(&["agents", "show", "coder", "--json"]).exits(0).json();
    assert_eq!((&shown["origin"], &shown["path"]), (&json!("built_in"), &Value::Null), "{shown}");
    let unknown = home.posse(&["agents", "show", "reviwer"]).exits(2);
    assert!(unknown.stderr.contains("did you mean `reviewer`?"), "{unknown:?}");
}

#[test]
fn the_check_is_strict_and_says_file_line_and_remedy() {
    let home = furnished();
    let done = home.posse(&["agents", "validate"]).exits(1);
    assert!(done.stdout.contains(".claude/agents/broken.md:"), "{done:?}");
    assert!(done.stdout.contains("note: .claude/agents/retired.md:"), "{done:?}");
    assert!(!done.stdout.contains("auditor.md"), "what is well written is not spoken of: {done:?}");
    home.posse(&["agents", "validate", ".claude/agents/auditor.md"]).exits(0);
    let json = home.posse(&["agents", "validate", "--json", ".claude/agents"]).exits(1).json();
    assert_eq!((&json["ok"], &json["files"]), (&json!(false), &json!(4)), "{json}");
    home.posse(&["agents", "validate", "nothing.md"]).exits(2);
    home.posse(&["agents", "validate", "notes.txt"]).exits(2);
}

#[test]
fn names_that_lead_nowhere_are_found_by_the_check() {
    let home = Home::new();
    home.write("more/odd.md", "---\nname: odd\ndescription: x\nspawns: [nobody]\n---\nx\n");
    let odd = home.posse(&["agents", "validate", "more/odd.md"]).exits(1);
    assert!(odd.stdout.starts_with("more/odd.md:") && odd.stdout.contains("`nobody`"), "{odd:?}");
    home.write(".claude/agents/one.md", &agent("same", "d", ""));
    home.write(".claude/agents/two.md", &agent("same", "d", ""));
    let twice = home.posse(&["agents", "validate"]).exits(1);
    assert!(twice.stdout.contains(".claude/agents/two.md"), "{twice:?}");
}

#[test]
fn a_projects_definition_takes_its_place_when_it_is_trusted_and_loses_it_with_every_change() {
    let home = furnished();
    home.posse(&["trust", "--yes"]).exits(0);
    let origin = || home.posse(&["agents", "show", "reviewer", "--json"]).exits(0).json()["origin"].clone();
    assert_eq!(origin(), "project");
    assert_eq!(home.posse(&["agents", "show", "coder", "--json"]).exits(0).json()["origin"], "project");
    home.write(".claude/agents/reviewer.md", &agent("reviewer", "Changed since.", ""));
    assert_eq!(origin(), "user");
}

const SCRIPT: &str = "
- when: {definition: coder, turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: reviewer, description: look, prompt: Review it.}}
- when: {definition: reviewer}
  reply: {text: It is fine.}
- when: {definition: auditor}
  reply: {text: I am the auditor.}
- reply: {text: Done.}
";

#[test]
fn a_run_uses_what_is_found_and_keeps_it_whatever_becomes_of_the_file() {
    let home = furnished();
    home.write("script.yaml", SCRIPT);
    let done = home.posse(&["run", "--json", "--model", "scripted/script.yaml", "Review."]).exits(0);
    assert!(done.stderr.contains("broken.md"), "what cannot be used is told: {done:?}");
    assert!(done.stderr.contains("not trusted yet: `auditor`"), "{done:?}");
    assert!(done.stderr.contains("`coder`, `reviewer` of this project "), "{done:?}");
    let run = run_of(&done.result());
    let created = home.posse(&["logs", "--json", &run]).exits(0).json_lines();
    let created = created.iter().find(|event| event["kind"] == "agent.subagent_created").expect("a child");
    let contract = &created["detail"]["contract"];
    assert_eq!(contract["execution"]["definition"], "reviewer", "{created}");
    assert_eq!(
        contract["permissions"]["allowed_tools"],
        json!(["grep", "read"]),
        "the person's own: {created}"
    );
    std::fs::remove_dir_all(home.project().join(".claude")).expect("removed");
    home.posse(&["verify", &run]).exits(0);
}

#[test]
fn a_found_definition_can_be_the_root() {
    let home = furnished();
    home.write("script.yaml", SCRIPT);
    let done =
        home.posse(&["run", "--agent", "auditor", "--model", "scripted/script.yaml", "Look."]).exits(0);
    assert_eq!(done.stdout, "I am the auditor.\n");
    let near = home.posse(&["run", "--agent", "auditr", "--model", "scripted/script.yaml", "Look."]).exits(2);
    assert!(near.stderr.contains("did you mean `auditor`?"), "{near:?}");
}

#[test]
fn a_found_lead_spawns_by_any_way_of_naming_its_children() {
    for (more, child) in [
        ("tools: Read, Task\n", "review-style"),
        ("tools: Read\nspawns: [review-*]\n", "review-style"),
        ("tools: Read, Task(general-purpose)\n", "general"),
    ] {
        let home = Home::new();
        home.write_own(".claude/agents/lead.md", &agent("lead", "Leads.", more));
        home.write_own(".claude/agents/review-style.md", &agent("review-style", "Reviews.", "tools: Read\n"));
        home.write(
            "script.yaml",
            &format!(
                "- when: {{definition: lead, turn: 1}}\n  reply:\n    tool_calls:\n      - {{name: task, input: \
                 {{subagent_type: {child}, description: d, prompt: Look.}}}}\n- reply: {{text: Done.}}\n"
            ),
        );
        let done = home
            .posse(&["run", "--json", "--agent", "lead", "--model", "scripted/script.yaml", "Lead."])
            .exits(0);
        let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
        let created = events.iter().find(|event| event["kind"] == "agent.subagent_created");
        let created = &created.unwrap_or_else(|| panic!("{more}: {events:#?}"))["detail"]["contract"];
        assert_eq!(created["execution"]["definition"], child, "{more}");
    }
}

#[test]
fn given_definitions_can_spawn_found_ones() {
    let home = furnished();
    home.write("script.yaml", "- reply: {text: ok}\n");
    let run = |child: &str| {
        let given = format!(r#"{{"lead": {{"prompt": "p", "spawns": ["{child}"]}}}}"#);
        let args = ["run", "--agents", &given, "--agent", "lead", "--model", "scripted/script.yaml", "x"];
        home.posse(&args)
    };
    run("auditor").exits(0);
    let near = run("auditr").exits(2);
    assert!(near.stderr.contains("did you mean `auditor`?"), "{near:?}");
}

#[test]
fn what_nobody_trusted_takes_no_other_name_of_a_built_in() {
    let home = Home::new();
    for name in ["plan", "explorer", "general-purpose"] {
        home.write(&format!(".claude/agents/{name}.md"), &agent(name, "Not what you think.", ""));
    }
    let list = home.posse(&["agents", "--json"]).exits(0).json();
    for name in ["plan", "explorer", "general-purpose"] {
        assert_eq!(named(&list, name)[0]["standing"], "waits_for_trust", "{name}: {list}");
    }
    home.posse(&["trust", "--yes"]).exits(0);
    assert_eq!(named(&home.posse(&["agents", "--json"]).exits(0).json(), "plan")[0]["standing"], "used");
}

#[test]
fn a_file_may_be_as_large_as_the_documentation_says() {
    let home = Home::new();
    let documented = include_str!("../docs/definitions.md");
    assert!(documented.contains("larger than 512 KiB"), "this test is about that number");
    let largest = |name: &str, more: usize| {
        let text = agent(name, "Is large.", "tools: Read\n");
        let rest = 512 * 1024 - text.len() + more;
        home.write(&format!(".claude/agents/{name}.md"), &(text + &"x".repeat(rest)));
    };
    largest("fits", 0);
    largest("exceeds", 1);
    let list = home.posse(&["agents", "--json"]).exits(0).json();
    assert_eq!((named(&list, "fits").len(), named(&list, "exceeds").len()), (1, 0));
    let problem = list["unusable"][0]["problem"].as_str().expect("a problem");
    assert!(problem.contains("more than the 524288 bytes"), "{problem}");
}

#[test]
fn a_run_that_can_reach_nothing_is_told_nothing() {
    let home = furnished();
    home.write("script.yaml", "- reply: {text: Looked.}\n");
    let done = home
        .posse(&["run", "--json", "--agent", "general", "--model", "scripted/script.yaml", "Look."])
        .exits(0);
    assert!(!done.stderr.contains("note:"), "{done:?}");
    let started = &home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines()[0];
    assert_eq!(started["detail"].get("catalogue").unwrap_or(&Value::Null), &Value::Null, "{started}");
}

#[test]
fn a_plan_can_be_given_to_what_is_found() {
    let home = furnished();
    home.write("script.yaml", SCRIPT);
    home.write("plan.yaml", "goal: g\nsteps:\n  - {title: look, description: Look., agent: reviewer}\n");
    home.posse(&["plan", "check", "plan.yaml"]).exits(0);
    home.posse(&["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml"]).exits(0);
}

#[test]
fn nothing_of_a_project_leads_out_of_it() {
    let home = Home::new();
    let secret = home.write_own(".ssh/id_rsa", "---\nname: thief\ndescription: d\n---\nPRIVATE\n");
    home.write(".claude/agents/good.md", &agent("good", "Is fine.", ""));
    symlink(&secret, home.project().join(".claude/agents/thief.md")).expect("a link");
    symlink(&secret, home.project().join("AGENTS.md")).expect("a link");
    let list = home.posse(&["agents", "--json"]).exits(0).json();
    assert_eq!((named(&list, "good").len(), named(&list, "thief").len()), (1, 0), "{list}");
    home.write("script.yaml", "- reply: {text: ok}\n");
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "x"]).exits(0);
    assert!(done.stderr.contains("AGENTS.md: it leads out of the project"), "{done:?}");
    assert!(done.stderr.contains("thief.md: it leads out of the project"), "{done:?}");
}

#[test]
fn a_definition_that_was_given_to_the_run_comes_first() {
    let home = furnished();
    home.write("script.yaml", SCRIPT);
    let given = r#"{"reviewer": {"description": "Given.", "prompt": "p", "tools": ["list"]}}"#;
    let done = home
        .posse(&["run", "--json", "--agents", given, "--model", "scripted/script.yaml", "Review."])
        .exits(0);
    let events = home.posse(&["logs", "--json", &run_of(&done.result())]).exits(0).json_lines();
    let created = events.iter().find(|event| event["kind"] == "agent.subagent_created").expect("a child");
    assert_eq!(created["detail"]["contract"]["permissions"]["allowed_tools"], json!(["list"]));
}
