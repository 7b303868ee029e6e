//! Plans executed by the real binary on a real repository: merged in order, killed and resumed, the same every time.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{Home, run_of};

const PLAN: &str = r#"goal: Four files.
steps:
  - title: last
    description: Write d.
    owns: [d.txt]
    depends_on: [left, right]
    success_criteria:
      - {command: "cat a.txt b.txt c.txt d.txt"}
  - title: left
    description: Write b.
    owns: [b.txt]
    depends_on: [first]
  - title: right
    description: Write c.
    owns: [c.txt]
    depends_on: [first]
    success_criteria:
      - {command: "test -f a.txt"}
      - it is written
  - title: first
    description: Write a.
    owns: [a.txt]
"#;

/// The same with a step that only reads, and one that depends on it and writes its findings.
fn plan_with_a_look() -> String {
    format!(
        "{PLAN}  - {{title: aside, description: Write f., owns: [f.txt]}}\n  - {{title: look, description: Look around., agent: explore}}\n  - {{title: seen, description: Write e., owns: \
         [e.txt], depends_on: [look]}}\n"
    )
}

/// A script whose writers take the given time, by the file they write.
fn script(home: &Home, latency_ms: impl Fn(usize) -> u64) {
    let mut rules = String::new();
    for (at, file) in ["a", "b", "c", "d", "f"].into_iter().enumerate() {
        let _ = write!(
            rules,
            "- when: {{definition: general, turn: 1, contains: \"Write {file}.\"}}\n  latency_ms: {}\n  reply:\n    tool_calls:\n      \
             - {{name: bash, input: {{command: \"echo {file} > {file}.txt\"}}}}\n",
            latency_ms(at)
        );
    }
    let _ = write!(
        rules,
        "- when: {{definition: general, turn: 1, contains: \"Write e.\"}}\n  latency_ms: {}\n  reply: {{tool_calls: [{{name: bash, \
         input: {{command: \"ls > e.txt; cat e.txt\"}}}}]}}\n- when: {{definition: explore}}\n  latency_ms: {}\n  reply: \
         {{text: Seen.}}\n",
        latency_ms(5),
        3 * latency_ms(6)
    );
    rules += "- when: {definition: general}\n  reply: {text: \"Written.\\n\\nCriterion 1: met, the file is there\"}\n";
    rules += "- when: {definition: coder}\n  error: {status: 500, message: nobody asks the root}\n";
    home.write("script.yaml", &rules);
}

fn repository(home: &Home) {
    home.write("README.md", "# a project\n");
    home.write(".gitignore", "script.yaml\nplan.yaml\n");
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "one"]] {
        git(&home.project(), args);
    }
}

fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=e@localhost"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

fn events(home: &Home, run: &str) -> Vec<Value> {
    home.posse(&["logs", run, "--json"]).exits(0).json_lines()
}

fn merged(events: &[Value]) -> Vec<String> {
    let merges = events.iter().filter(|event| event["kind"] == "agent.worktree_merged");
    merges.map(|event| event["agent_id"].as_str().expect("an id")[8..].to_owned()).collect()
}

#[test]
fn a_plan_becomes_a_branch_and_the_checkout_is_untouched() {
    let home = Home::new();
    script(&home, |_| 0);
    home.write("plan.yaml", PLAN);
    repository(&home);
    home.write("README.md", "# a project, changed and not committed\n");
    let before =
        (git(&home.project(), &["status", "--porcelain"]), git(&home.project(), &["rev-parse", "HEAD"]));
    let done =
        home.posse(&["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml", "--json"]).exits(0);
    let run = run_of(&done.json_lines()[0]);
    let branch = format!("posse/{run}");
    assert_eq!(git(&home.project(), &["ls-tree", "-r", "--name-only", &branch]).lines().count(), 6);
    for file in ["a", "b", "c", "d"] {
        assert_eq!(git(&home.project(), &["show", &format!("{branch}:{file}.txt")]), file);
        assert!(!home.project().join(format!("{file}.txt")).exists(), "nothing is checked out");
    }
    assert!(git(&home.project(), &["show", &format!("{branch}:README.md")]).contains("not committed"));
    let after =
        (git(&home.project(), &["status", "--porcelain"]), git(&home.project(), &["rev-parse", "HEAD"]));
    assert_eq!(before, after);
    assert_eq!(merged(&events(&home, &run)), [".1", ".2", ".3", ".4"]);
    let text = home.posse(&["report", &run]).exits(0).stdout;
    assert!(text.contains("1. last (task 4): integrated"), "{text}");
}

#[test]
fn a_plan_with_problems_starts_nothing() {
    let home = Home::new();
    script(&home, |_| 0);
    home.write("plan.yaml", &PLAN.replace("depends_on: [first]", "depends_on: [last]").replace("agent", "x"));
    let done = home.posse(&["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml"]).exits(2);
    assert!(
        done.stderr.contains("plan.yaml:") && done.stderr.contains("nothing was started"),
        "{}",
        done.stderr
    );
    assert!(home.posse(&["ps", "--json"]).exits(0).stdout.lines().all(|line| !line.contains("\"run\"")));
    home.posse(&["run", "--plan", "auto"]).exits(2);
    home.posse(&["run", "--plan", "absent.yaml", "--model", "scripted/script.yaml"]).exits(2);
}

#[test]
fn a_plan_that_was_killed_goes_on_from_the_last_integrated_step() {
    let home = Home::new();
    script(&home, |at| [0, 100, 300, 0, 0, 0, 0][at]);
    home.write("plan.yaml", PLAN);
    repository(&home);
    let mut going = home.start(&["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml", "--json"]);
    let event = going.until(|event| event["kind"] == "agent.integration_passed");
    let run = run_of(&event);
    going.kill();
    home.posse(&["resume", &run]).exits(0);
    let events = events(&home, &run);
    assert_eq!(merged(&events), [".1", ".2", ".3", ".4"], "each once, in the order of the plan");
    let tree = git(&home.project(), &["rev-parse", &format!("posse/{run}^{{tree}}")]);
    let completed = events.iter().find(|event| event["kind"] == "run.completed").expect("completed");
    let commit = completed["detail"]["result"]["commit"].as_str().expect("a commit");
    assert_eq!(git(&home.project(), &["rev-parse", &format!("{commit}^{{tree}}")]), tree);
    home.posse(&["verify", &run]).exits(0);
}

/// An event without what differs from run to run: number, hashes, times, ids, commits, and totals of the tree.
fn essence(event: &Value) -> Value {
    fn strip(value: &mut Value) {
        const OMITTED: [&str; 21] = [
            "seq",
            "at",
            "hash",
            "contract_hash",
            "pack",
            "onto",
            "follows",
            "request_hash",
            "elapsed_ms",
            "wall_ms",
            "commit",
            "ours",
            "base",
            "head",
            "change",
            "sub_agent_id",
            "root_id",
            "parent_id",
            "figures",
            "subtree_usage",
            "usage",
        ];
        match value {
            Value::Object(map) => {
                map.retain(|key, _| !OMITTED.contains(&key.as_str()));
                map.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut event = event.clone();
    strip(&mut event);
    event
}

/// How often the same plan is run.
const TIMES: u64 = if option_env!("POSSE_CAMPAIGNS").is_some() { 20 } else { 6 };

#[test]
fn the_same_plan_gives_the_same_events_order_and_tree_every_time() {
    let home = Home::new();
    script(&home, |_| 0);
    home.write("plan.yaml", &plan_with_a_look());
    repository(&home);
    let mut first: Option<(Vec<String>, String, String)> = None;
    for round in 0..TIMES {
        // A step that is quick in one round is slow in the next.
        script(&home, |at| (round * 37 + at as u64 * 53) % 90);
        let done =
            home.posse(&["run", "--plan", "plan.yaml", "--model", "scripted/script.yaml", "--json"]).exits(0);
        let run = run_of(&done.json_lines()[0]);
        let events = events(&home, &run);
        let mut of_agents: Vec<String> = Vec::new();
        for child in 0..8 {
            let id = if child == 0 { run.clone() } else { format!("{run}.{child}") };
            let own = events.iter().filter(|event| event["agent_id"] == id.as_str()).map(essence);
            // Whether an agent reports that it waited depends on slots and ownership.
            let own = own.filter(|event| event["kind"] != "agent.subagent_queued");
            let text: Vec<String> = own.map(|event| event.to_string().replace(&run, "RUN")).collect();
            of_agents.push(text.join("\n"));
        }
        let tree = git(&home.project(), &["rev-parse", &format!("posse/{run}^{{tree}}")]);
        let found = (of_agents, merged(&events).join(" "), tree);
        match &first {
            None => first = Some(found),
            Some(first) => {
                for (agent, (one, other)) in first.0.iter().zip(&found.0).enumerate() {
                    for (one, other) in one.lines().zip(other.lines()) {
                        assert_eq!(one, other, "round {round}, agent {agent}");
                    }
                    assert_eq!(one.lines().count(), other.lines().count(), "round {round}, agent {agent}");
                }
                assert_eq!((&first.1, &first.2), (&found.1, &found.2), "round {round}");
            }
        }
    }
}
