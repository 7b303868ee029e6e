//! The same script repeatedly, each time with other delays: the same events for each agent, except for what may differ,
//! the same order of merges, and the same files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use posse_testkit::dice::Dice;
use serde_json::Value;

use crate::home::Home;

/// How often it is run.
const TIMES: u64 = if option_env!("POSSE_CAMPAIGNS").is_some() { 20 } else { 6 };
/// The longest delay of an answer.
const DELAY_MAX_MS: u64 = 30;
/// Digits of an object id.
const OBJECT_DIGITS: usize = 40;

/// Readers, queued writers and parallel writers, a check, a conflict, a refused change, a retry and a refusal, all in
/// the foreground. `DELAY` is another number each time.
const SCRIPT: &str = r#"
- when: {agent: "0", turn: 1}
  reply:
    tool_calls:
      - {name: task, input: {subagent_type: explore, description: look, prompt: look}}
      - {name: task, input: {subagent_type: general, description: write, prompt: write}}
      - {name: task, input: {subagent_type: general, description: write more, prompt: write more}}
      - {name: task, input: {subagent_type: explore, description: fail once, prompt: fail}}
      - {name: task, input: {subagent_type: nobody, description: be refused, prompt: no}}
      - {name: todo, input: {items: [{text: all of it, status: in_progress}]}}
      - name: task
        input: {subagent_type: general, description: own one, prompt: write, owns: [one/**], success_criteria: [{command: "test -f one/d.txt"}]}
      - {name: task, input: {subagent_type: general, description: own another, prompt: write, owns: [two/**]}}
      - {name: task, input: {subagent_type: general, description: leave what it owns, prompt: write, owns: [three/**]}}
- when: {agent: "0", turn: 2}
  reply: {tool_calls: [{name: write, input: {path: root.txt, content: "mine\n"}}]}
  latency_ms: DELAY
- when: {agent: "1", turn: 1}
  reply: {text: looking, tool_calls: [{name: read, input: {path: a.txt}}, {name: grep, input: {pattern: needle}}]}
  latency_ms: DELAY
- when: {agent: "2", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: b.txt, content: "one\n"}}]}
  latency_ms: DELAY
- when: {agent: "3", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: c.txt, content: "two\n"}}, {name: edit, input: {path: c.txt, old_text: two, new_text: three}}]}
  latency_ms: DELAY
- when: {agent: "4"}
  error: {status: 529, message: overloaded}
  times: 1
  latency_ms: DELAY
- when: {agent: "5", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: one/d.txt, content: "four\n"}}]}
  latency_ms: DELAY
- when: {agent: "6", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: two/e.txt, content: "five\n"}}]}
  latency_ms: DELAY
- when: {agent: "7", turn: 1}
  reply: {tool_calls: [{name: bash, input: {command: "mkdir -p two three; echo six > two/f.txt; echo six > three/g.txt"}}]}
  latency_ms: DELAY
- reply: {text: done}
  latency_ms: DELAY
"#;

/// Fields that contain times, hashes, numbers of events or totals of the whole tree.
const FREE: [&str; 13] = [
    "seq",
    "files",
    "at",
    "elapsed_ms",
    "wall_ms",
    "contract_hash",
    "request_hash",
    "hash",
    "before",
    "after",
    "subtree_usage",
    "figures",
    "created_at_ms",
];

/// One run of the script.
#[derive(Debug, PartialEq)]
struct RunRecord {
    by_agent: BTreeMap<String, Vec<Value>>,
    merged: Vec<String>,
    tree: String,
}

/// A run's home and repository, to redact what may differ from run to run.
struct RunFolders {
    run: String,
    home: String,
    repository: std::path::PathBuf,
}

impl RunFolders {
    fn clean(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !FREE.contains(&name.as_str()));
                fields.values_mut().for_each(|value| self.clean(value));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.clean(value)),
            Value::String(text) if is_object(text) => *text = self.tree(text),
            Value::String(text) => *text = text.replace(&self.run, "RUN").replace(&self.home, "HOME"),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The tree of a commit: commits contain times, trees do not.
    fn tree(&self, object: &str) -> String {
        let name = format!("{object}^{{tree}}");
        let output = git(&self.repository, &["rev-parse", "--verify", &name]);
        output.trim().to_owned()
    }
}

fn is_object(text: &str) -> bool {
    text.len() == OBJECT_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn git(repository: &Path, args: &[&str]) -> String {
    let output = Command::new("git").arg("--git-dir").arg(repository).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn told(dice: &mut Dice) -> RunRecord {
    let mut script = String::new();
    for part in SCRIPT.split("DELAY") {
        script.push_str(part);
        script.push_str(&dice.roll(DELAY_MAX_MS).to_string());
    }
    let script = script.trim_end_matches(|c: char| c.is_ascii_digit());
    let home = Home::with_script("");
    std::fs::create_dir(home.path("project")).unwrap();
    std::fs::write(home.path("project/a.txt"), "a needle\n").unwrap();
    home.write_script(script);
    let (run, said) = home.run(&["--dir", "project"]);
    assert!(said.status.success(), "{said:?}");
    let whole = home.path("").canonicalize().unwrap();
    let project = std::fs::read_dir(home.path("state/projects")).unwrap().next().unwrap().unwrap();
    let repository = project.path().join("repo.git");
    let place =
        RunFolders { run, home: whole.to_str().unwrap().trim_end_matches('/').to_owned(), repository };
    let mut told = RunRecord { by_agent: BTreeMap::new(), merged: Vec::new(), tree: String::new() };
    for mut event in home.logs(&place.run) {
        if let Some(commit) = event["detail"]["result"]["commit"].as_str() {
            told.tree = place.tree(commit);
        }
        place.clean(&mut event);
        let agent = event["agent_id"].as_str().unwrap().to_owned();
        if event["kind"] == "agent.worktree_merged" {
            told.merged.push(agent.clone());
        }
        told.by_agent.entry(agent).or_default().push(event);
    }
    told
}

#[test]
fn the_same_script_gives_the_same_events_order_and_files_whatever_the_delays() {
    let mut dice = Dice::of_part(0x7e11, 0);
    let first = told(&mut dice);
    assert_eq!(first.by_agent.len(), 8);
    assert_eq!(first.merged, ["RUN.2", "RUN.3", "RUN.5", "RUN.6"]);
    for _ in 1..TIMES {
        let again = told(&mut dice);
        for (agent, events) in &first.by_agent {
            assert_eq!(ordered(events), ordered(&again.by_agent[agent]), "{agent}");
        }
        assert_eq!((&again.merged, &again.tree), (&first.merged, &first.tree));
    }
}

/// Results of concurrent calls may be in any order, so they are compared by call.
fn ordered(events: &[Value]) -> (Vec<&Value>, BTreeMap<&str, &Value>) {
    let is_result = |event: &&Value| event["kind"] == "agent.tool_finished";
    let (results, others): (Vec<&Value>, Vec<&Value>) = events.iter().partition(is_result);
    let by_call = results.into_iter().map(|event| (event["detail"]["call_id"].as_str().unwrap(), event));
    (others, by_call.collect())
}
