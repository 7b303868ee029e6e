//! Plans: checked, and written by the planner.

use serde_json::json;

use crate::support::{Done, Home, run_of};

const PLAN: &str = r#"goal: The service greets in German.
steps:
  - title: survey
    description: Find every greeting.
    agent: explore
  - title: translate
    description: Translate them.
    owns: [src/**]
    depends_on: [survey]
    success_criteria:
      - no greeting is left in English
      - {command: "true", timeout_ms: 1000}
  - title: document
    description: Say so in the README.
    owns: [README.md]
    depends_on: [survey]
  - title: release notes
    description: Write a line for the release.
    owns: [CHANGES.md]
    depends_on: [translate, document]
"#;

/// A cycle, an unknown agent, two unordered steps that own the same path, a criterion without a command.
const BAD: &str = "goal: g
steps:
  - {title: a, description: a, owns: [a], depends_on: [b]}
  - {title: b, description: b, owns: [b], depends_on: [a]}
  - title: c
    description: c
    agent: explor
  - title: d
    description: d
    owns: [src/**]
  - title: e
    description: e
    owns:
      - src/main.rs
    success_criteria:
      - {timeout_ms: 1000}
  - {title: f, descriptoin: f}
";

/// A script whose planner answers its first run with this text.
fn script(home: &Home, answer: &str) {
    script_of_two(home, answer, "asked once more without need");
}

/// A script whose planner has another answer in its second run.
fn script_of_two(home: &Home, first: &str, second: &str) {
    let quoted = |text: &str| serde_json::to_string(text).expect("json");
    let (first, second) = (quoted(first), quoted(second));
    home.write(
        "script.yaml",
        &format!(
            "- when: {{definition: planner, contains: You have answered this before}}\n  reply: {{text: {second}}}\n- \
             when: {{definition: planner}}\n  reply: {{text: {first}}}\n"
        ),
    );
}

fn plan(home: &Home, args: &[&str]) -> Done {
    home.posse(&[&["plan", "--model", "scripted/script.yaml"], args].concat())
}

/// The number of runs.
fn runs(home: &Home) -> usize {
    home.posse(&["ps", "--all", "--json"]).exits(0).stdout.lines().count()
}

#[test]
fn a_good_plan_is_told_with_its_order_and_what_runs_at_once() {
    let home = Home::new();
    home.write("plan.yaml", PLAN);
    let done = home.posse(&["plan", "check", "plan.yaml"]).exits(0);
    assert_eq!(
        done.stdout,
        "ok: 4 steps, order: `survey`, `translate`, `document`, `release notes`\n  first `survey`\n  then \
         `translate`, `document` (in parallel)\n  then `release notes`\n"
    );
    let json = home.posse(&["plan", "check", "--json", "plan.yaml"]).exits(0).json();
    assert_eq!(
        json,
        json!({
            "version": 1, "ok": true, "goal": "The service greets in German.", "steps": 4,
            "order": ["survey", "translate", "document", "release notes"],
            "waves": [["survey"], ["translate", "document"], ["release notes"]],
            "problems": [],
        })
    );
    assert!(!home.state_dir().exists(), "looking at a plan makes nothing");
}

#[test]
fn all_problems_of_a_plan_are_told_at_once_and_nothing_is_started() {
    let home = Home::new();
    home.write("plan.yaml", BAD);
    let done = home.posse(&["plan", "check", "plan.yaml"]).exits(2);
    assert_eq!(done.stdout, "");
    insta::assert_snapshot!(done.stderr);
    let json = home.posse(&["plan", "check", "--json", "plan.yaml"]).exits(2).json();
    assert_eq!(json["ok"], false);
    assert_eq!(json["problems"].as_array().map(Vec::len), Some(7));
    assert_eq!(
        json["problems"][1],
        json!({
            "line": 7, "step": 3, "title": "c", "field": "agent",
            "problem": "unknown definition `explor` (did you mean `explore`?); available: `explore`, `general`, \
                        `planner`, `researcher`",
        })
    );
    assert!(!home.state_dir().exists());
}

#[test]
fn a_file_that_is_no_plan_is_refused() {
    let home = Home::new();
    home.write("words.txt", "do it well\n");
    home.write("twice.yaml", "goal: a\ngoal: b\n");
    std::fs::write(home.project().join("bytes"), [0xff, 0xfe]).expect("a file");
    for (file, expected) in [
        ("nowhere.yaml", "nowhere.yaml: no such file"),
        (".", "is a directory"),
        ("words.txt", "words.txt:1: a plan is a map"),
        ("twice.yaml", "twice.yaml:2: the key `goal` is written twice"),
        ("bytes", "is not UTF-8 text"),
    ] {
        let done = home.posse(&["plan", "check", file]).exits(2);
        assert!(done.stderr.contains(expected), "{done:?}");
    }
}

#[test]
fn a_plan_may_name_a_persons_own_definitions_and_scripts_beside_it() {
    let home = Home::new();
    home.write("plans/model.yaml", "- reply: {text: done}\n");
    let step = "steps:\n  - {title: a, description: b, agent: reviewer, model: scripted/model.yaml}\n";
    home.write("plans/plan.yaml", &format!("goal: g\n{step}"));
    let agents = r#"{"reviewer": {"prompt": "Review."}}"#;
    home.posse(&["plan", "check", "plans/plan.yaml", "--agents", agents]).exits(0);
    let done = home.posse(&["plan", "check", "plans/plan.yaml"]).exits(2);
    assert!(done.stderr.contains("unknown definition `reviewer`"), "{done:?}");
    home.write("plan.yaml", &format!("goal: g\n{step}"));
    let done = home.posse(&["plan", "check", "plan.yaml", "--agents", agents]).exits(2);
    assert!(done.stderr.contains("plan.yaml:3: step 1 `a`: model:"), "{done:?}");
}

#[test]
fn the_schema_is_the_published_one() {
    let done = Home::new().posse(&["plan", "schema"]).exits(0);
    assert_eq!(done.stdout, include_str!("../docs/schemas/plan.schema.json"));
}

#[test]
fn the_planner_writes_a_plan_to_standard_output() {
    let home = Home::new();
    script(&home, &format!("Here is the plan:\n\n```yaml\n{PLAN}```\n"));
    let done = plan(&home, &["greet", "in", "German"]).exits(0);
    let (head, plan) = done.stdout.split_once("goal:").expect("a plan");
    assert_eq!(format!("goal:{plan}"), PLAN);
    assert!(head.starts_with("# Written by the planner, a model."), "{head}");
    assert!(head.lines().all(|line| line.starts_with('#')) && head.contains("#   true\n"), "{head}");
    assert_eq!(runs(&home), 1);
}

/// A user reads the list instead of the YAML, so a command must not be able to hide text there.
#[test]
fn no_command_of_a_planners_file_passes_for_another() {
    let home = Home::new();
    let plan_text =
        PLAN.replace("command: \"true\"", r#"command: "echo ok # fine,\ntouch PWNED\r\e[8m; exit 0""#);
    assert_ne!(plan_text, PLAN, "the plan has the command");
    script(&home, &plan_text);
    let done = plan(&home, &["greet in German"]).exits(0);
    let listed = r"#   echo ok # fine,\ntouch PWNED\r\u{1b}[8m; exit 0";
    assert!(done.stdout.contains(listed), "{}", done.stdout);
}

/// A plan whose only command passes.
const CHECKED: &str = r#"goal: There is a file.
steps:
  - title: write
    description: Write it.
    owns: [a.txt]
    success_criteria: [{command: "test -f a.txt"}]
"#;

/// Whether the command of a plan was run, and whether its step was refused.
fn judged(home: &Home, args: &[&str]) -> (bool, bool) {
    let done = home.posse(&[&["run", "--json", "--model", "scripted/script.yaml"], args].concat());
    let run = run_of(done.json_lines().last().expect("an event"));
    let logged = home.posse(&["logs", &run, "--json"]).exits(0).json_lines();
    let has = |kind: &str| logged.iter().any(|event| event["kind"] == kind);
    (has("agent.checks_passed"), has("agent.subagent_refused"))
}

/// The user is responsible for the commands of a file; those of `--plan auto` are the planner's.
#[test]
fn rules_bind_the_commands_of_a_plan_that_no_person_has_read() {
    let home = Home::new();
    home.write("README.md", "# a project\n");
    home.write("plan.yaml", CHECKED);
    let planned = serde_json::to_string(CHECKED).expect("json");
    home.write(
        "script.yaml",
        &format!(
            "- when: {{definition: planner}}\n  reply: {{text: {planned}}}\n- when: {{definition: general, turn: 1}}\n  \
             reply: {{tool_calls: [{{name: write, input: {{path: a.txt, content: x}}}}]}}\n- reply: {{text: done}}\n"
        ),
    );
    let (run, refused) = ((true, false), (false, true));
    assert_eq!(judged(&home, &["--plan", "auto", "write a file"]), run);
    assert_eq!(judged(&home, &["--plan", "plan.yaml", "--deny", "bash"]), run);
    assert_eq!(judged(&home, &["--plan", "auto", "--deny", "bash", "write a file"]), refused);
}

#[test]
fn the_planner_is_told_what_is_wrong_and_mends_it() {
    let home = Home::new();
    let second = serde_json::to_string(PLAN).expect("json");
    // The second answer comes only if the request contains the first one and its problem.
    home.write(
        "script.yaml",
        &format!(
            "- when: {{definition: planner, contains: 'line 3: step 1 `a`: description: is missing'}}\n  reply: {{text: \
             {second}}}\n- when: {{definition: planner}}\n  reply: {{text: \"goal: g\\nsteps:\\n  - title: a\\n\"}}\n"
        ),
    );
    let done = plan(&home, &["-o", "plan.yaml", "greet in German"]).exits(0);
    assert_eq!(done.stdout, "", "the plan is in the file");
    assert!(done.stderr.contains("the planner is asked once more"), "{done:?}");
    assert!(std::fs::read_to_string(home.project().join("plan.yaml")).expect("the plan").ends_with(PLAN));
    home.posse(&["plan", "check", "plan.yaml"]).exits(0);
    assert_eq!(runs(&home), 2);
}

#[test]
fn a_second_bad_answer_is_a_failure_that_keeps_the_text() {
    let home = Home::new();
    script_of_two(&home, "I cannot plan this.", "goal: g\nsteps: []\n");
    let done = plan(&home, &["-o", "plan.yaml", "greet in German"]).exits(1);
    assert!(done.stderr.contains("The planner's answer:\ngoal: g\nsteps: []\n"), "{done:?}");
    assert!(done.stderr.contains("line 2: steps: there are none"), "{done:?}");
    assert_eq!(runs(&home), 2, "it is not asked a third time");
    assert!(!home.project().join("plan.yaml").exists());
}

#[test]
fn a_plan_is_never_written_over_a_file_unless_asked() {
    let home = Home::new();
    script(&home, PLAN);
    home.write("plan.yaml", "mine\n");
    let done = plan(&home, &["-o", "plan.yaml", "greet"]).exits(2);
    assert!(done.stderr.contains("plan.yaml: already exists"), "{done:?}");
    assert!(!home.state_dir().exists(), "known before the planner starts");
    assert_eq!(std::fs::read_to_string(home.project().join("plan.yaml")).expect("a file"), "mine\n");
    plan(&home, &["-o", "plan.yaml", "--force", "greet"]).exits(0);
    assert!(std::fs::read_to_string(home.project().join("plan.yaml")).expect("a file").ends_with(PLAN));
    plan(&home, &["-o", "no/such/folder.yaml", "greet"]).exits(2);
}

#[test]
fn even_a_persons_own_planner_changes_nothing() {
    let home = Home::new();
    let answer = serde_json::to_string(PLAN).expect("json");
    home.write(
        "script.yaml",
        &format!(
            "- when: {{turn: 1}}\n  reply: {{tool_calls: [{{name: write, input: {{path: made.txt, content: x}}}}]}}\n- \
             reply: {{text: {answer}}}\n"
        ),
    );
    let agents = r#"{"planner": {"prompt": "Plan.", "tools": ["read", "write"]}}"#;
    plan(&home, &["--agents", agents, "greet"]).exits(0);
    assert!(!home.project().join("made.txt").exists());
}

#[test]
fn a_planner_that_fails_gives_the_runs_code() {
    let home = Home::new();
    home.write("script.yaml", "- error: {message: overloaded}\n");
    let done = plan(&home, &["greet"]).exits(1);
    assert!(done.stdout.is_empty() && done.stderr.contains("overloaded"), "{done:?}");
    home.posse(&["plan"]).exits(2);
    home.posse(&["plan", "no model"]).exits(4);
}

#[test]
fn the_example_of_the_documentation_is_a_plan() {
    let page = include_str!("../docs/plans.md");
    let example =
        page.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    let home = Home::new();
    home.write("plan.yaml", example);
    let done = home.posse(&["plan", "check", "plan.yaml"]).exits(0);
    assert!(page.contains(&done.stdout), "the page shows what is printed: {}", done.stdout);
}
