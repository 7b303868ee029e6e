//! Strict parsing of contracts, with errors that name the field.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema_check::schema_problem;

/// The reference example of a contract.
const EXAMPLE: &str = r#"{
  "version": 1,
  "context": {"depth": 1, "max_depth": 2, "parent_task_id": "k3f9ab2c", "root_task_id": "k3f9ab2c"},
  "parent":  {"run_id": "k3f9ab2c", "agent_id": "k3f9ab2c", "message_id": "m7", "step_idx": 0,
              "task_prompt": "the run's request", "goal_summary": "the plan's goal, or the request's first line",
              "continues": null, "repairs": null},
  "step":    {"title": "port auth", "description": "the child's prompt",
              "success_criteria": ["the CLI prints its version", {"command": "cargo test -q", "timeout_ms": 120000}],
              "owns": ["src/auth/**"], "required": true},
  "permissions": {"allowed_tools": ["read", "grep", "edit", "bash"], "rules": [{"pattern": "bash:git push*", "decision": "deny"}],
              "can_spawn_children": false, "max_delegation_depth": 0, "may_share_history": false, "on_ask": "deny"},
  "execution": {"definition": "general", "skill": null, "model": "provider/model", "temperature": null, "top_p": null,
              "max_turns": 20, "turn_timeout_ms": null, "attempt_timeout_ms": 600000, "idle_timeout_ms": 120000,
              "max_retries": 1, "max_retries_per_tool": 3, "close_on_completion": true,
              "share_history": false, "extra_context": null},
  "budget":  {"tokens": 400000, "usd": 1.50, "agents": 4, "wall_ms": 1800000},
  "outputs": {"report_format": "markdown", "report_path_pattern": ".posse/step-<idx>-result.md", "result_schema": null}
}"#;

fn example() -> Contract {
    Contract::from_json(EXAMPLE).expect("the example")
}

fn value() -> Value {
    serde_json::from_str(EXAMPLE).expect("JSON")
}

/// The example with another value at a path such as `/step/owns/0`.
fn with(path: &str, new: Value) -> String {
    let mut value = value();
    let (parent, key) = path.rsplit_once('/').expect("a path");
    let parent = value.pointer_mut(parent).expect("the parent");
    match parent {
        Value::Array(items) => items[key.parse::<usize>().expect("an index")] = new,
        other => other[key] = new,
    }
    value.to_string()
}

fn without(path: &str) -> String {
    let mut value = value();
    let (parent, key) = path.rsplit_once('/').expect("a path");
    value
        .pointer_mut(parent)
        .and_then(Value::as_object_mut)
        .expect("an object")
        .remove(key)
        .expect("the field");
    value.to_string()
}

fn error(text: &str) -> String {
    Contract::from_json(text).expect_err(text).to_string()
}

#[test]
fn the_example_of_the_design_is_read_and_written_back() {
    let contract = example();
    assert_eq!(contract.step.title, "port auth");
    assert_eq!(contract.budget.usd.map(crate::budget::Usd::micros), Some(1_500_000));
    assert_eq!(contract.step.success_criteria.len(), 2);
    let again = Contract::from_json(&contract.to_json()).expect("its own text");
    assert_eq!(again, contract);
    assert_eq!(again.hash(), contract.hash());
    assert_eq!(again.to_json(), contract.to_json(), "one text for one contract");
}

#[test]
fn an_unknown_field_is_an_error_that_names_it() {
    for (path, named) in [
        ("/deadline", "deadline"),
        ("/context/sibling", "context.sibling"),
        ("/parent/boss", "parent.boss"),
        ("/step/priority", "step.priority"),
        ("/permissions/sandbox", "permissions.sandbox"),
        ("/execution/retries", "execution.retries"),
        ("/budget/minutes", "budget"),
        ("/outputs/format", "outputs.format"),
    ] {
        let text = error(&with(path, json!(1)));
        let field = path.rsplit('/').next().expect("a field");
        assert!(text.contains(named) && text.contains(&format!("unknown field `{field}`")), "{path}: {text}");
    }
}

#[test]
fn a_field_of_the_wrong_type_is_an_error_that_names_it() {
    let table = [
        ("/version", json!("1"), "`version`"),
        ("/version", json!(1.5), "`version`"),
        ("/version", json!(-1), "`version`"),
        ("/context/depth", json!("1"), "`context.depth`"),
        ("/context/depth", json!(4_294_967_296_u64), "`context.depth`"),
        ("/context/parent_task_id", json!("nobody"), "`context.parent_task_id`"),
        ("/parent/run_id", json!("K3F9AB2C"), "`parent.run_id`"),
        ("/parent/message_id", json!(7), "`parent.message_id`"),
        ("/step/title", json!(null), "`step.title`"),
        ("/step/required", json!("yes"), "`step.required`"),
        ("/step/owns", json!("src/**"), "`step.owns`"),
        ("/step/success_criteria/1", json!({"command": "x", "retry": true}), "`step.success_criteria[1]`"),
        ("/step/success_criteria/0", json!(7), "`step.success_criteria[0]`"),
        ("/permissions/allowed_tools/0", json!("read *"), "`permissions.allowed_tools[0]`"),
        ("/permissions/rules/0", json!({"pattern": "bash"}), "`permissions.rules[0]`"),
        ("/permissions/rules/0/decision", json!("maybe"), "`permissions.rules[0].decision`"),
        ("/permissions/on_ask", json!("shout"), "`permissions.on_ask`"),
        ("/permissions/max_delegation_depth", json!(-1), "`permissions.max_delegation_depth`"),
        ("/execution/max_turns", json!("20"), "`execution.max_turns`"),
        ("/execution/temperature", json!("hot"), "`execution.temperature`"),
        ("/execution/idle_timeout_ms", json!(null), "`execution.idle_timeout_ms`"),
        ("/execution/close_on_completion", json!(1), "`execution.close_on_completion`"),
        ("/budget/tokens", json!("many"), "`tokens` is \"many\""),
        ("/budget/usd", json!(-1), "`usd` is -1"),
        ("/outputs/report_format", json!("html"), "`outputs.report_format`"),
        ("/outputs/result_schema", json!([1]), "`outputs.result_schema`"),
        ("/context", json!([]), "`context`"),
    ];
    for (path, new, named) in table {
        let text = error(&with(path, new.clone()));
        assert!(text.contains(named), "{path} {new}: {text}");
        assert!(text.contains("line ") || text.contains("budget"), "{path}: where it stands: {text}");
    }
}

#[test]
fn a_missing_field_is_an_error_that_names_it() {
    for path in [
        "/version",
        "/context",
        "/context/depth",
        "/parent/run_id",
        "/parent/task_prompt",
        "/step/description",
        "/step/owns",
        "/permissions/allowed_tools",
        "/permissions/can_spawn_children",
        "/execution/definition",
        "/execution/max_retries",
        "/budget",
        "/outputs/report_path_pattern",
    ] {
        let text = error(&without(path));
        let field = path.rsplit('/').next().expect("a field");
        assert!(text.contains(&format!("missing field `{field}`")), "{path}: {text}");
    }
}

#[test]
fn values_that_contradict_each_other_are_an_error_that_names_one() {
    let table = [
        ("/version", json!(0), "`version`"),
        ("/context/depth", json!(3), "`context.depth`"),
        ("/context/depth", json!(0), "`context.parent_task_id`"),
        ("/context/parent_task_id", json!(null), "`context.parent_task_id`"),
        ("/context/root_task_id", json!(null), "`context.root_task_id`"),
        ("/parent/agent_id", json!("k3f9ab2d"), "`parent.agent_id`"),
        ("/execution/max_turns", json!(0), "`execution.max_turns`"),
        ("/execution/temperature", json!(-0.1), "`execution.temperature`"),
        ("/execution/top_p", json!(-1), "`execution.top_p`"),
        ("/step/owns/0", json!("../etc"), "`step.owns`"),
        ("/step/owns/0", json!("/etc"), "`step.owns`"),
    ];
    for (path, new, named) in table {
        let text = error(&with(path, new.clone()));
        assert!(text.contains(named), "{path} {new}: {text}");
    }
}

#[test]
fn what_is_no_number_is_refused() {
    for bad in ["NaN", "Infinity", "-Infinity", "1e999"] {
        let text = EXAMPLE.replace("\"temperature\": null", &format!("\"temperature\": {bad}"));
        assert!(matches!(Contract::from_json(&text), Err(ContractError::Malformed(_))), "{bad}");
    }
    let mut contract = example();
    contract.execution.top_p = Some(f64::NAN);
    let found = contract.check().expect_err("not a number");
    assert!(matches!(found, ContractError::Invalid { field: "execution.top_p", .. }), "{found}");
}

#[test]
fn a_newer_version_is_named_and_not_guessed_at() {
    // The version decides, whatever other fields a newer format has.
    let text = with("/version", json!(2)).replace("\"budget\"", "\"purse\"");
    assert_eq!(Contract::from_json(&text), Err(ContractError::Newer { found: 2 }));
    assert!(error(&text).contains("version 2 is newer than this Posse understands (1)"));
}

#[test]
fn what_is_not_one_json_object_is_refused() {
    for bad in [
        "",
        " ",
        "null",
        "[]",
        "7",
        "\"x\"",
        "{",
        "{}",
        &EXAMPLE[..EXAMPLE.len() - 1],
        &format!("{EXAMPLE} x"),
    ] {
        assert!(matches!(Contract::from_json(bad), Err(ContractError::Malformed(_))), "{bad}");
    }
}

#[test]
fn a_field_given_twice_is_refused() {
    let twice = EXAMPLE.replacen("\"version\": 1,", "\"version\": 1, \"version\": 1,", 1);
    assert!(error(&twice).contains("duplicate field `version`"), "{}", error(&twice));
    let twice = EXAMPLE
        .replace("\"max_delegation_depth\": 0,", "\"max_delegation_depth\": 0, \"max_delegation_depth\": 9,");
    assert!(error(&twice).contains("duplicate field `max_delegation_depth`"), "{}", error(&twice));
}

#[test]
fn a_contract_beyond_the_limit_is_refused_before_it_is_read() {
    let huge = with("/step/description", json!("x".repeat(CONTRACT_MAX_BYTES)));
    assert_eq!(Contract::from_json(&huge), Err(ContractError::TooLarge { bytes: huge.len() }));
    let nested = format!("{{\"version\": 1, \"context\": {}", "[".repeat(200_000));
    assert!(
        matches!(Contract::from_json(&nested), Err(ContractError::Malformed(_))),
        "depth has a limit too"
    );
}

#[test]
fn another_contract_has_another_hash() {
    let hash = example().hash();
    for (path, new) in [
        ("/step/title", json!("x")),
        ("/permissions/can_spawn_children", json!(true)),
        ("/budget/agents", json!(5)),
    ] {
        assert_ne!(Contract::from_json(&with(path, new)).expect("valid").hash(), hash, "{path}");
    }
}

#[test]
fn the_schema_takes_the_example_and_refuses_what_is_not_in_it() {
    let schema = Contract::json_schema();
    assert_eq!(schema_problem(&schema, &value()), None);
    for (path, new) in [
        ("/deadline", json!(1)),
        ("/context/sibling", json!(1)),
        ("/execution/retries", json!(1)),
        ("/budget/minutes", json!(1)),
        ("/permissions/rules/0/why", json!("x")),
        ("/version", json!("1")),
        ("/step/required", json!("yes")),
        ("/permissions/on_ask", json!("shout")),
        ("/execution/max_turns", json!(-1)),
        ("/budget/tokens", json!("many")),
    ] {
        let text = with(path, new);
        let value = serde_json::from_str(&text).expect("JSON");
        assert!(schema_problem(&schema, &value).is_some(), "{path}");
        assert!(Contract::from_json(&text).is_err(), "{path}: schema and code agree");
    }
    // The schema describes the output of `to_json`.
    let written = serde_json::from_str(&example().to_json()).expect("JSON");
    assert_eq!(schema_problem(&schema, &written), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// No text makes the parser panic, and an accepted text round-trips.
    #[test]
    fn mangled_contracts_are_refused_or_read(at in 0..EXAMPLE.len(), with in "[\\PC]{0,3}", cut in 0..4_usize) {
        let mut text = EXAMPLE.to_owned();
        let end = (at + cut).min(text.len());
        prop_assume!(text.is_char_boundary(at) && text.is_char_boundary(end));
        text.replace_range(at..end, &with);
        if let Ok(contract) = Contract::from_json(&text) {
            prop_assert_eq!(Contract::from_json(&contract.to_json()), Ok(contract));
        }
    }
}

#[test]
fn the_hash_does_not_depend_on_the_order_of_keys_in_the_schema() {
    let with = |schema: &str| {
        let mut contract = example();
        contract.outputs.result_schema = serde_json::from_str(schema).expect("json");
        contract
    };
    let one = with(r#"{"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}}"#);
    let other =
        with(r#"{"properties": {"a": {"type": "number"}, "b": {"type": "string"}}, "type": "object"}"#);
    assert_eq!(one.hash(), other.hash());
    let text =
        r#""result_schema":{"properties":{"a":{"type":"number"},"b":{"type":"string"}},"type":"object"}"#;
    assert!(one.to_json().contains(text), "{}", one.to_json());
}
