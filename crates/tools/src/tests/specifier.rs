//! The specifiers of tools for permission rules.

use super::*;

fn specifier(name: &str, input: &Value) -> Option<String> {
    (tool(name).specifier)(input)
}

#[test]
fn a_path_cannot_dodge_its_rule_by_another_spelling() {
    for name in ["read", "list", "grep", "write", "edit"] {
        for (path, expected) in [
            ("src/a.rs", "src/a.rs"),
            ("./src//x/../a.rs", "src/a.rs"),
            ("docs/../src/a.rs", "src/a.rs"),
            ("../src/a.rs", "../src/a.rs"),
            ("src/../../ws/src/a.rs", "../ws/src/a.rs"),
            ("/src/a.rs", "/src/a.rs"),
        ] {
            assert_eq!(specifier(name, &json!({"path": path})).as_deref(), Some(expected), "{name} {path}");
        }
    }
}

#[test]
fn a_search_is_about_where_it_begins() {
    for name in ["list", "glob", "grep"] {
        for path in [
            json!({"pattern": "*"}),
            json!({"pattern": "*", "path": null}),
            json!({"pattern": "*", "path": ""}),
        ] {
            assert_eq!(specifier(name, &path).as_deref(), Some("."), "{name} {path}");
        }
    }
    for (input, expected) in [
        (json!({"pattern": "secret/**"}), "secret"),
        (json!({"pattern": "./secret/a/*.key", "path": "x/.."}), "secret/a"),
        (json!({"pattern": "a/*", "path": "secret"}), "secret/a"),
        (json!({"pattern": "a*", "path": "../x"}), "../x/a*"),
        (json!({"pattern": "../../x/*", "path": "a"}), "../x/*"),
    ] {
        assert_eq!(specifier("glob", &input).as_deref(), Some(expected), "{input}");
    }
}

#[test]
fn delegation_is_about_definitions_and_tasks() {
    assert_eq!(specifier("task", &json!({"subagent_type": "explore"})).as_deref(), Some("explore"));
    for name in ["task_status", "task_send", "task_cancel", "task_close"] {
        assert_eq!(specifier(name, &json!({"task_id": "2.1"})).as_deref(), Some("2.1"));
    }
    // The spelling of a skill's name does not bypass a rule about it.
    for name in ["review", "Review", " /REVIEW "] {
        assert_eq!(specifier("skill", &json!({"name": name})).as_deref(), Some("review"));
        assert_eq!(specifier("delegate_to_agent", &json!({"skill_name": name})).as_deref(), Some("review"));
    }
    assert_eq!(specifier("todo", &json!({"items": []})), None);
}

#[test]
fn nonsense_has_no_specifier() {
    for name in builtin(crate::ToolServices::default()).iter().map(|tool| tool.name) {
        for input in
            [json!(null), json!("path"), json!([]), json!({"path": 1, "subagent_type": 1, "task_id": 1})]
        {
            if input.is_object() || !matches!(name, "list" | "grep") {
                assert_eq!(specifier(name, &input), None, "{name} {input}");
            }
        }
    }
}
