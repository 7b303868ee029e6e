//! The same script twice: the same events for each agent, but for what may differ.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::home::Home;

/// Readers, writers, a retry, a refusal and two levels, all in the foreground.
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
- when: {agent: "1", turn: 1}
  reply: {text: looking, tool_calls: [{name: read, input: {path: a.txt}}, {name: grep, input: {pattern: needle}}]}
  latency_ms: 7
- when: {agent: "2", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: b.txt, content: "one\n"}}]}
  latency_ms: 3
- when: {agent: "3", turn: 1}
  reply: {tool_calls: [{name: write, input: {path: c.txt, content: "two\n"}}, {name: edit, input: {path: c.txt, old_text: two, new_text: three}}]}
- when: {agent: "4"}
  error: {status: 529, message: overloaded}
  times: 1
- reply: {text: done}
"#;

/// Fields that hold times, hashes, numbers of events or totals of the whole tree.
const FREE: [&str; 12] = [
    "seq",
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

fn cleaned(value: &mut Value, run: &str, home: &str) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !FREE.contains(&name.as_str()));
            fields.values_mut().for_each(|value| cleaned(value, run, home));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| cleaned(value, run, home)),
        Value::String(text) => *text = text.replace(run, "RUN").replace(home, "HOME"),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn by_agent() -> BTreeMap<String, Vec<Value>> {
    let home = Home::with_script(SCRIPT);
    std::fs::write(home.path("a.txt"), "a needle\n").unwrap();
    let (run, said) = home.run(&[]);
    assert!(said.status.success(), "{said:?}");
    let place = home.path("").canonicalize().unwrap();
    let mut agents: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for mut event in home.logs(&run) {
        cleaned(&mut event, &run, place.to_str().unwrap().trim_end_matches('/'));
        agents.entry(event["agent_id"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    agents
}

#[test]
fn the_same_script_gives_the_same_events_for_each_agent() {
    let first = by_agent();
    assert_eq!(first.len(), 5);
    for _ in 0..3 {
        let again = by_agent();
        for (agent, events) in &first {
            assert_eq!(ordered(events), ordered(&again[agent]), "{agent}");
        }
    }
}

/// Results of calls that ran at the same time may stand in any order: they are compared by their calls.
fn ordered(events: &[Value]) -> (Vec<&Value>, BTreeMap<&str, &Value>) {
    let is_result = |event: &&Value| event["kind"] == "agent.tool_finished";
    let (results, others): (Vec<&Value>, Vec<&Value>) = events.iter().partition(is_result);
    let by_call = results.into_iter().map(|event| (event["detail"]["call_id"].as_str().unwrap(), event));
    (others, by_call.collect())
}
