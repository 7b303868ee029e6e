//! Tests of `todo` and the delegation tools.

use posse_domain::budget::{Budget, Usd};
use posse_domain::contract::{CommandCriterion, Criterion};
use posse_domain::event::{EffectClass, TodoItem, TodoStatus};
use posse_engine::ports::{SpawnRequest, Spawnable};

use super::*;

fn invalid(name: &str, input: Value) -> String {
    let failure = request(name, input).unwrap_err();
    assert_eq!(failure.code, Code::InvalidInput);
    let text = failure.text.strip_prefix(&format!("Invalid input for `{name}`: ")).unwrap();
    text.strip_suffix(". Nothing was done.").unwrap().to_owned()
}

#[test]
fn every_tool_has_its_class() {
    use EffectClass::{Delegate, Exec, Journal, Net, Read, Write};
    let classes: Vec<EffectClass> =
        builtin(crate::ToolServices::default()).iter().map(|tool| tool.class).collect();
    assert_eq!(
        classes,
        [
            Read, Read, Read, Read, Write, Write, Exec, Net, Net, Journal, Read, Delegate, Delegate,
            Delegate, Delegate, Delegate, Delegate
        ]
    );
}

#[test]
fn a_list_replaces_the_last() {
    let items = json!({"items": [
        {"text": "look", "status": "done"},
        {"text": "write", "status": "in_progress"},
        {"text": "check", "status": "pending"},
    ]});
    let item = |text: &str, status| TodoItem { text: text.into(), status };
    let expected = vec![
        item("look", TodoStatus::Done),
        item("write", TodoStatus::InProgress),
        item("check", TodoStatus::Pending),
    ];
    assert_eq!(request("todo", items), Ok(EngineRequest::Todo(expected)));
    assert_eq!(request("todo", json!({"items": []})), Ok(EngineRequest::Todo(vec![])));
    assert_eq!(
        invalid(
            "todo",
            json!({"items": [{"text": "a", "status": "pending"}, {"text": " ", "status": "done"}]})
        ),
        "`items[1].text` must not be empty"
    );
    assert_eq!(
        invalid("todo", json!({"items": [{"text": "a", "status": "finished"}]})),
        "`items[0].status`: unknown variant `finished`, expected one of `pending`, `in_progress`, `done`"
    );
}

#[test]
fn a_task_is_asked_for_with_defaults() {
    let input = json!({"subagent_type": "explore", "prompt": "Find it.", "description": " find\n the bug "});
    let expected = SpawnRequest {
        definition: "explore".into(),
        prompt: "Find it.".into(),
        title: "find the bug".into(),
        ..SpawnRequest::default()
    };
    assert_eq!(request("task", input), Ok(EngineRequest::Spawn(Box::new(expected))));
}

#[test]
fn a_task_is_asked_for_with_everything() {
    let input = json!({
        "subagent_type": "general", "prompt": "Port it.", "description": "port auth", "run_in_background": true,
        "max_turns": 5, "timeout_ms": 60000, "budget": {"tokens": 1000, "usd": 0.5, "agents": 1, "wall_ms": 1},
        "owns": ["src/auth/**", "README.md"], "required": true, "repairs": "2", "context": "See a.rs.",
        "success_criteria": ["it prints its version", {"command": "cargo test -q", "timeout_ms": 120_000}, {"command": "true"}],
        "share_history": true, "task_id": " 1.2 ", "model": "provider/model",
    });
    let command = |command: &str, timeout_ms| {
        Criterion::Command(CommandCriterion { command: command.into(), timeout_ms })
    };
    let expected = SpawnRequest {
        definition: "general".into(),
        prompt: "Port it.".into(),
        title: "port auth".into(),
        background: Some(true),
        max_turns: Some(5),
        timeout_ms: Some(60_000),
        budget: Some(Budget {
            tokens: Some(1_000),
            usd: Some(Usd::from_micros(500_000)),
            agents: Some(1),
            wall_ms: Some(1),
        }),
        owns: vec!["src/auth/**".into(), "README.md".into()],
        success_criteria: vec![
            Criterion::Words("it prints its version".into()),
            command("cargo test -q", Some(120_000)),
            command("true", None),
        ],
        required: true,
        repairs: Some("2".into()),
        extra_context: Some("See a.rs.".into()),
        share_history: true,
        continues: Some("1.2".into()),
        model: Some("provider/model".into()),
        ..SpawnRequest::default()
    };
    assert_eq!(request("task", input), Ok(EngineRequest::Spawn(Box::new(expected))));
}

#[test]
fn a_bad_task_is_explained() {
    for (field, value, problem) in [
        ("prompt", json!("  "), "`prompt` must not be empty"),
        ("description", json!("x".repeat(201)), "`description` has 201 bytes, more than the 200 accepted"),
        ("max_turns", json!(0), "`max_turns` must be at least 1"),
        ("timeout_ms", json!(0), "`timeout_ms` must be at least 1"),
        (
            "max_turns",
            json!(1.5),
            "`max_turns`: invalid type: floating point `1.5`, expected a whole number of at least 0",
        ),
        ("owns", json!(["a", "/etc/**"]), "`owns[1]` must be a path relative to the workspace"),
        ("owns", json!(["src/*.rs"]), "`owns[0]` must be a literal path or `dir/**`"),
        ("owns", json!(["../x"]), "`owns[0]` must not contain empty, `.` or `..` parts"),
        (
            "budget",
            json!({"usd": -1}),
            "`budget.usd` is wrong: -1 is not an amount of dollars: 0 to 1000000000 with at most 6 decimals",
        ),
        (
            "budget",
            json!({"tokens": "all"}),
            "`budget.tokens`: invalid type: string \"all\", expected a whole number of at least 0",
        ),
        (
            "success_criteria",
            json!(["a", {"cmd": "x"}]),
            "`success_criteria[1]`: expected a sentence, or an object with `command` and maybe `timeout_ms`",
        ),
        ("success_criteria", json!([{"command": ""}]), "`success_criteria[0]` must not be empty"),
        ("task_id", json!("x".repeat(129)), "`task_id` has 129 bytes, more than the 128 accepted"),
    ] {
        let mut input = json!({"subagent_type": "explore", "prompt": "Find it.", "description": "find it"});
        input[field] = value;
        assert_eq!(invalid("task", input), problem);
    }
}

#[test]
fn empty_texts_that_may_be_left_out_are_left_out() {
    let input = json!({"subagent_type": "explore", "prompt": "Find it.", "description": "find it",
        "context": "", "task_id": "", "repairs": " ", "model": "", "owns": [], "success_criteria": []});
    let plain = json!({"subagent_type": "explore", "prompt": "Find it.", "description": "find it"});
    assert_eq!(request("task", input), request("task", plain));
}

#[test]
fn the_text_of_task_lists_what_may_be_started() {
    let kind = |name: &str, may_spawn| Spawnable {
        name: name.into(),
        description: format!("Does {name} things.\n"),
        may_spawn,
        asks: name == "stranger",
    };
    let spec = (tool("task").describe)(&[kind("explore", false), kind("lead", true)]);
    assert!(spec.description.contains("When not:"), "{}", spec.description);
    assert!(
        spec.description.ends_with(
            "Kinds of agents that you may start:\n\n- `explore`: Does explore things.\n- `lead`: Does lead things. \
             It may delegate in turn."
        ),
        "{}",
        spec.description
    );
    assert_eq!(spec.input_schema["properties"]["subagent_type"]["enum"], json!(["explore", "lead"]));
    let strange = (tool("task").describe)(&[kind("stranger", true), kind("explore", false)]);
    assert!(
        strange.description.ends_with(
            "- `explore`: Does explore things.\n- `stranger`: Does stranger things. (not trusted: each of its calls \
             asks a person)"
        ),
        "{}",
        strange.description
    );
    let many: Vec<Spawnable> = (0..2_000).map(|number| kind(&format!("agent-{number}"), false)).collect();
    let many = (tool("task").describe)(&many);
    assert_eq!(
        many.input_schema["properties"]["subagent_type"].get("enum"),
        None,
        "the list has its limit too"
    );
    let none = (tool("task").describe)(&[]);
    assert!(none.description.ends_with("There is no kind of agent that you may start."));
    assert_eq!(none.input_schema["properties"]["subagent_type"].get("enum"), None);
}

#[test]
fn every_parameter_of_task_is_there() {
    let schema = (tool("task").describe)(&[]).input_schema;
    let mut fields: Vec<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "budget",
            "context",
            "description",
            "max_turns",
            "model",
            "owns",
            "prompt",
            "repairs",
            "required",
            "run_in_background",
            "share_history",
            "subagent_type",
            "success_criteria",
            "task_id",
            "timeout_ms"
        ]
    );
    assert_eq!(schema["required"], json!(["subagent_type", "prompt", "description"]));
}

#[test]
fn the_other_delegation_tools_ask_for_their_task() {
    let id = || "2".to_owned();
    for (name, input, expected) in [
        ("task_status", json!({}), EngineRequest::Status { task_id: None, wait_ms: None }),
        (
            "task_status",
            json!({"task_id": "", "wait_ms": 0}),
            EngineRequest::Status { task_id: None, wait_ms: None },
        ),
        (
            "task_status",
            json!({"task_id": "2", "wait_ms": 9_999_999}),
            EngineRequest::Status { task_id: Some(id()), wait_ms: Some(600_000) },
        ),
        (
            "task_send",
            json!({"task_id": "2", "message": "hurry"}),
            EngineRequest::Send { task_id: id(), message: "hurry".into() },
        ),
        (
            "task_cancel",
            json!({"task_id": "2", "reason": "found it"}),
            EngineRequest::Cancel { task_id: id(), reason: "found it".into() },
        ),
        ("task_close", json!({"task_id": "2"}), EngineRequest::Close { task_id: id() }),
    ] {
        assert_eq!(request(name, input), Ok(expected));
    }
    for (name, input, problem) in [
        ("task_send", json!({"task_id": "", "message": "x"}), "`task_id` must not be empty"),
        ("task_send", json!({"task_id": "1", "message": "\n"}), "`message` must not be empty"),
        ("task_cancel", json!({"task_id": "1"}), "missing field `reason`"),
        ("task_close", json!({"task_id": 1}), "`task_id`: invalid type: integer `1`, expected a string"),
        (
            "task_status",
            json!({"wait_ms": "5s"}),
            "`wait_ms`: invalid type: string \"5s\", expected a whole number of at least 0",
        ),
    ] {
        assert_eq!(invalid(name, input), problem);
    }
}
