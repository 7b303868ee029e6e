//! Invalid input: the answer is precise, and no part of the call runs.

use super::*;

/// One valid call of every tool.
fn good() -> Vec<(&'static str, Value)> {
    vec![
        ("read", json!({"path": "a.txt"})),
        ("list", json!({})),
        ("glob", json!({"pattern": "*"})),
        ("grep", json!({"pattern": "x"})),
        ("write", json!({"path": "new.txt", "content": "x"})),
        ("edit", json!({"path": "a.txt", "old_text": "x", "new_text": "y"})),
        ("bash", json!({"command": "true"})),
        ("webfetch", json!({"url": "https://docs.rs/"})),
        ("websearch", json!({"query": "x"})),
        ("todo", json!({"items": [{"text": "x", "status": "pending"}]})),
        ("skill", json!({"name": "review"})),
        ("delegate_to_agent", json!({"skill_name": "review", "task": "Review it."})),
        ("task", json!({"subagent_type": "explore", "prompt": "Find it.", "description": "find it"})),
        ("task_status", json!({})),
        ("task_send", json!({"task_id": "1", "message": "x"})),
        ("task_cancel", json!({"task_id": "1", "reason": "x"})),
        ("task_close", json!({"task_id": "1"})),
    ]
}

/// Whether a call is accepted, without running it. The machine may be unable to run a command.
fn check(bench: &Bench, name: &str, input: Value) -> Result<(), ToolFailure> {
    match tool(name).handler {
        Handler::Effect(_) => match bench.prepare(name, input) {
            Err(failure) if failure.code != Code::Unsupported => Err(failure),
            _ => Ok(()),
        },
        Handler::Request(handler) => handler.request(input).map(|_| ()),
    }
}

fn refused(bench: &Bench, name: &str, input: Value) -> String {
    let shown: String = input.to_string().chars().take(100).collect();
    let failure = check(bench, name, input).expect_err(&shown);
    assert_eq!(failure.code, Code::InvalidInput, "{name} {shown}: {}", failure.text);
    assert!(failure.text.len() < 2_000, "{name}: {}", failure.text.len());
    failure.text
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("a.txt", "x\n");
    bench
}

#[test]
fn every_tool_is_known_and_takes_its_good_call() {
    let names: Vec<&str> = builtin(crate::ToolServices::default()).iter().map(|tool| tool.name).collect();
    assert_eq!(names, good().iter().map(|(name, _)| *name).collect::<Vec<_>>());
    let bench = bench();
    for (name, input) in good() {
        check(&bench, name, input).unwrap();
    }
}

#[test]
fn every_schema_describes_every_field_and_no_more() {
    for tool in builtin(crate::ToolServices::default()) {
        let spec = (tool.describe)(&[]);
        assert_eq!(spec.name, tool.name);
        assert!(spec.description.len() > 100 && !spec.description.ends_with('\n'), "{}", tool.name);
        let schema = &spec.input_schema;
        assert_eq!(schema["type"], "object");
        assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
        for (field, about) in schema["properties"].as_object().unwrap() {
            assert!(about["description"].is_string(), "{}.{field} is not described", tool.name);
            assert!(about.get("type").is_some(), "{}.{field} has no plain type", tool.name);
        }
        let text = schema.to_string();
        assert!(!text.contains("null") && !text.contains("$ref") && !text.contains("$schema"), "{text}");
    }
}

#[test]
fn unknown_fields_are_refused_everywhere() {
    let bench = bench();
    for (name, good) in good() {
        for field in
            ["sandbox", "dangerously_disable", "depth", "max_depth", "permissions", "path ", "__proto__"]
        {
            let mut input = good.clone();
            input[field] = json!(false);
            let text = refused(&bench, name, input);
            assert!(text.contains(&format!("unknown field `{field}`, expected")), "{text}");
        }
    }
    let text = refused(&bench, "todo", json!({"items": [{"text": "x", "status": "done", "id": 1}]}));
    assert!(text.contains("unknown field `id`"), "{text}");
    let input = json!({"subagent_type": "a", "prompt": "a", "description": "a", "budget": {"dollars": 1}});
    assert!(refused(&bench, "task", input).contains("unknown field `dollars`"));
}

#[test]
fn wrong_types_name_their_field() {
    let bench = bench();
    for (name, good) in good() {
        let properties = (tool(name).describe)(&[]).input_schema["properties"].clone();
        for (field, about) in properties.as_object().unwrap() {
            // No text field accepts a number, and no number field a text.
            let wrong = if about["type"] == "string" { json!(1) } else { json!("x") };
            let mut input = good.clone();
            input[field] = wrong;
            let text = refused(&bench, name, input);
            assert!(text.contains(&format!("`{field}`: ")), "{name}.{field}: {text}");
            assert!(text.contains("expected"), "{text}");
        }
        for field in (tool(name).describe)(&[]).input_schema["required"].as_array().unwrap_or(&vec![]) {
            let mut input = good.clone();
            input.as_object_mut().unwrap().remove(field.as_str().unwrap());
            let text = refused(&bench, name, input);
            assert!(text.contains(&format!("missing field `{}`", field.as_str().unwrap())), "{text}");
        }
    }
}

#[test]
fn fields_that_may_be_left_out_may_be_null() {
    let bench = bench();
    for (name, good) in good() {
        let schema = (tool(name).describe)(&[]).input_schema;
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for field in schema["properties"].as_object().unwrap().keys() {
            if !required.contains(&json!(field)) {
                let mut input = good.clone();
                input[field] = json!(null);
                check(&bench, name, input)
                    .unwrap_or_else(|failure| panic!("{name}.{field}: {}", failure.text));
            }
        }
    }
}

#[test]
fn what_is_no_object_is_refused() {
    let bench = bench();
    for (name, _) in good() {
        for input in [json!(null), json!(true), json!(1), json!("{}"), json!([]), json!([{"path": "a.txt"}])]
        {
            assert_eq!(
                refused(&bench, name, input),
                format!(
                    "Invalid input for `{name}`: the input must be a JSON object with the fields of its schema. \
                     Nothing was done."
                )
            );
        }
    }
}

#[test]
fn a_megabyte_is_answered_in_a_few_words() {
    let bench = bench();
    let megabyte = "ä".repeat(1 << 19);
    for (name, good) in good() {
        for (field, _) in good.as_object().unwrap() {
            if name == "write" && field == "content" || name == "edit" {
                continue;
            }
            let mut input = good.clone();
            input[field] = json!(megabyte);
            refused(&bench, name, input);
        }
        let mut input = good.clone();
        input[&megabyte] = json!(1);
        refused(&bench, name, input);
    }
    let many = vec![json!({"text": "x", "status": "done"}); 50_000];
    let text = refused(&bench, "todo", json!({"items": many}));
    assert_eq!(
        text,
        "Invalid input for `todo`: `items` has 50000 entries, more than the 100 accepted. Nothing was done."
    );
    // A megabyte is within the limit and is written.
    let done = bench.ok("write", json!({"path": "big.txt", "content": megabyte}));
    assert_eq!(done, "Created `big.txt`: 1 line, 1048576 bytes.");
    let text = refused(&bench, "write", json!({"path": "b", "content": megabyte.repeat(5)}));
    assert!(text.contains("`content` has 5242880 bytes, more than the 4194304 accepted"), "{text}");
}

#[test]
fn deep_nesting_does_no_harm() {
    let bench = bench();
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    for (name, good) in good() {
        let mut input = good.clone();
        input["x"] = deep.clone();
        refused(&bench, name, input);
        if let Some((field, _)) = good.as_object().unwrap().iter().next() {
            let mut input = good.clone();
            input[field] = deep.clone();
            refused(&bench, name, input);
        }
    }
}
