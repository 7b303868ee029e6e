//! Checks that the host runs: a child whose work was refused does not influence them, and set-up is not an agent's
//! work.

use serde_json::Value;

use crate::support::{Done, Home, run_of};

const PLAN: &str = r#"goal: Two checks.
steps:
  - title: forger
    description: Forge.
    owns: [a/**]
    required: false
    max_retries: 0
    success_criteria: [{command: "sh a/run.sh"}]
  - title: honest
    description: Work.
    owns: [b/**]
    success_criteria: [{command: "cat b/check.sh && sh b/check.sh"}]
"#;

fn events(home: &Home, run: &str) -> Vec<Value> {
    home.posse(&["logs", run, "--json"]).exits(0).json_lines()
}

#[test]
fn what_a_refused_childs_check_left_behind_is_gone_before_the_next_check() {
    let home = Home::new();
    home.write("plan.yaml", PLAN);
    home.write(
        "script.yaml",
        r#"- when: {agent: "*.1", turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir a; echo \"echo '*' > .gitignore; mkdir -p b; echo 'exit 0' > b/check.sh; exit 1\" > a/run.sh"}}]}
- when: {agent: "*.2", turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir b; echo 'exit 1 # real' > b/check.sh"}}]}
- reply: {text: done}
"#,
    );
    let done =
        home.posse(&["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml", "--json"]).exits(1);
    let run = run_of(&done.json_lines()[0]);
    let checked = events(&home, &run)
        .into_iter()
        .find(|event| {
            event["kind"] == "agent.checks_failed" && event["agent_id"] == format!("{run}.2").as_str()
        })
        .expect("the second child's own check decides");
    assert!(checked["detail"]["checks"][0]["output"].to_string().contains("exit 1 # real"), "{checked}");
}

#[test]
fn a_set_up_that_changes_files_is_nobodys_work_and_one_that_fails_is_said() {
    let home = Home::new();
    home.write("README.md", "# a project\n");
    home.write(
        "script.yaml",
        r#"- when: {definition: coder, turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: general, description: write, prompt: Write., owns: ["a/**"]}}]}
- when: {definition: general, turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir a; echo x > a/x; ls"}}]}
- reply: {text: done}
"#,
    );
    home.write_settings("workspace: {setup: date > lock.json}\n");
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "--json", "go"]).exits(0);
    let run = run_of(&done.json_lines()[0]);
    let names = home.posse(&["diff", &run, "--name-status"]).exits(0).stdout;
    assert_eq!(names.trim(), "A\ta/x", "{names}");
    let notes =
        events(&home, &run).iter().any(|event| event["detail"]["notes"].to_string().contains("put back"));
    assert!(notes, "the agent's workspace says so");

    home.write_settings("workspace: {setup: echo no network here; exit 3}\n");
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "--json", "go"]);
    let run = run_of(&done.json_lines()[0]);
    let failed = events(&home, &run).into_iter().find(|event| event["kind"] == "agent.subagent_failed");
    let reason = failed.expect("a child without a workspace has failed")["detail"]["reason"].to_string();
    assert!(reason.contains("no network here") && reason.contains("workspace.setup"), "{reason}");
}

const POISON: &str = r#"goal: A check that leaves something behind.
steps:
  - title: poisoner
    description: Poison.
    owns: [a/**]
    success_criteria: [{command: "mkdir -p build && echo ok > build/passed"}, {command: "test ! -e build"}]
  - title: broken
    description: Break.
    owns: [b/**]
    max_retries: 0
    required: false
    success_criteria: [{command: "test -e build/passed"}]
"#;

#[test]
fn what_a_passing_check_left_behind_is_gone_before_the_next_check_of_anybody() {
    poisoned(&Home::new(), Home::posse);
}

/// Where the kernel supports no overlay, each check starts in a new directory.
#[test]
fn without_overlays_it_is_gone_as_well() {
    let home = Home::new();
    home.write_settings("sandbox: {level: landlock}\n");
    poisoned(&home, Home::without_namespaces);
}

fn poisoned(home: &Home, posse: fn(&Home, &[&str]) -> Done) {
    home.write(".gitignore", "build/\n");
    home.write("plan.yaml", POISON);
    home.write(
        "script.yaml",
        r#"- when: {agent: "*.1", turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir a; echo x > a/x"}}]}
- when: {agent: "*.2", turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir b; echo broken > b/x"}}]}
- reply: {text: done}
"#,
    );
    let done = posse(home, &["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml", "--json"]);
    let run = run_of(&done.json_lines()[0]);
    let of = |agent: &str, kind: &str| {
        let agent = format!("{run}.{agent}");
        events(home, &run).iter().any(|event| event["kind"] == kind && event["agent_id"] == agent.as_str())
    };
    assert!(of("1", "agent.checks_passed"), "its second check does not see what the first one left");
    assert!(
        of("2", "agent.checks_failed") && !of("2", "agent.checks_passed"),
        "what another left is not there"
    );
}

#[test]
fn a_command_that_writes_more_than_a_run_may_take_is_ended_and_names_the_setting() {
    let home = Home::new();
    home.write("README.md", "# a project\n");
    home.write_settings("workspace: {max_run_mb: 4}\n");
    home.write(
        "script.yaml",
        r#"- when: {turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir -p .git/x; for i in $(seq 6000); do head -c 1M /dev/zero > .git/x/$i || exit; done; echo all of it"}}]}
- when: {turn: 2}
  reply: {tool_calls: [{name: bash, input: {command: "rm -r .git/x && echo removed"}}]}
- reply: {text: done}
"#,
    );
    let done = home.posse(&["run", "--model", "scripted/script.yaml", "--json", "go"]).exits(0);
    let run = run_of(&done.json_lines()[0]);
    let results: Vec<String> = events(&home, &run)
        .iter()
        .filter(|event| event["kind"] == "agent.tool_finished")
        .map(|event| event["detail"].to_string())
        .collect();
    assert!(
        results[0].contains("workspace.max_run_mb") && !results[0].contains("all of it"),
        "{}",
        results[0]
    );
    assert!(results[1].contains("removed") && !results[1].contains("max_run_mb"), "{}", results[1]);
}

/// Ends the first process of its own sandbox, whenever it is run.
const FATAL: &str = "prlimit --pid 1 --nofile=0; while :; do (sleep 0 &); sleep 0.01; done";

/// A command that ends its sandbox each time does not count as a machine failure: otherwise the run would retry it
/// forever.
#[test]
fn a_check_or_a_set_up_that_ends_its_own_sandbox_fails_its_child() {
    for (criterion, setup) in [(FATAL, "true"), ("true", "test ! -e b/x || sh b/x")] {
        let home = Home::new();
        home.write("README.md", "# a project\n");
        home.write_settings(&format!("workspace: {{setup: \"{setup}\"}}\n"));
        home.write(
            "plan.yaml",
            &format!(
                "goal: A check.\nsteps:\n  - title: fatal\n    description: Work.\n    owns: [b/**]\n    max_retries: 0\n    \
                 success_criteria: [{{command: \"{criterion}\"}}]\n"
            ),
        );
        let write = serde_json::json!([
            {"when": {"agent": "*.1", "turn": 1},
             "reply": {"tool_calls": [{"name": "write", "input": {"path": "b/x", "content": FATAL}}]}},
            {"reply": {"text": "done"}},
        ]);
        home.write("script.yaml", &write.to_string());
        let args = ["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml", "--json"];
        let done = home.posse(&args).exits(1);
        let run = run_of(&done.json_lines()[0]);
        let failed = events(&home, &run).into_iter().find(|event| event["kind"] == "run.failed");
        let reason = failed.expect("the run has failed, and not stopped")["detail"]["reason"].to_string();
        assert!(reason.contains("ended its own sandbox each of 5 times"), "{reason}");
        assert_eq!(reason.contains("workspace.setup"), setup != "true", "{reason}");
    }
}
