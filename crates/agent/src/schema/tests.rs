use serde_json::json;

use super::*;

fn problems(schema: &Value, value: &Value) -> Vec<String> {
    Schema::compile(schema).expect("a schema").problems(value, 5).expect("within the limits")
}

#[test]
fn what_people_write_is_checked() {
    let tree = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://example.org/tree",
        "type": "object",
        "properties": {"name": {"$ref": "#/$defs/name"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": false,
        "$defs": {"name": {"type": "string", "pattern": "^[a-z]+$"}}
    });
    let good = json!({"name": "a", "children": [{"name": "b"}, {"name": "c", "children": []}]});
    assert_eq!(problems(&tree, &good), [""; 0]);
    let bad = json!({"name": "a", "children": [{"name": "B"}]});
    assert_eq!(problems(&tree, &bad), ["at /children/0/name: \"B\" does not match \"^[a-z]+$\""]);
    // Properties may have the names of keywords.
    let named =
        json!({"properties": {"$id": {"type": "integer"}, "$anchor": {}, "pattern": {"type": "string"}}});
    assert_eq!(problems(&named, &json!({"$id": 1, "pattern": "("})), [""; 0]);
    assert_eq!(problems(&named, &json!({"$id": "x"})).len(), 1);
}

#[test]
fn a_schema_beyond_a_limit_is_refused_by_its_name() {
    let deep = (0..LEVELS_MAX).fold(json!({}), |inner, _| json!({"items": inner}));
    let many = json!({"enum": vec![json!([]); NODES_MAX]});
    let patterns = json!({"allOf": vec![json!({"pattern": "a"}); PATTERNS_MAX + 1]});
    let chain: serde_json::Map<String, Value> = (0..LEVELS_MAX)
        .map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", (n + 1) % LEVELS_MAX)})))
        .collect();
    let reference = |to: &str| SchemaProblem::Reference(to.to_owned());
    let uncounted = |word: &str| SchemaProblem::Uncounted(word.to_owned());
    for (schema, problem) in [
        (deep, SchemaProblem::Levels),
        (many, SchemaProblem::Nodes),
        (patterns, SchemaProblem::Patterns),
        (json!({"$defs": chain}), SchemaProblem::Levels),
        (json!({"$ref": "other.json"}), reference("other.json")),
        (json!({"items": {"$ref": "#/$defs/none"}}), reference("#/$defs/none")),
        (json!({"$ref": "#/%24defs/a", "$defs": {"a": {}}}), reference("#/%24defs/a")),
        (json!({"items": {"$id": "x"}}), uncounted("$id")),
        (json!({"$anchor": "x"}), uncounted("$anchor")),
        (json!({"items": {"$dynamicRef": "#x"}}), uncounted("$dynamicRef")),
        (
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "items": {"id": "x"}}),
            uncounted("id"),
        ),
    ] {
        assert_eq!(Schema::compile(&schema).expect_err("beyond a limit"), problem, "{schema}");
    }
}

/// The count is at least what a validator looks at: each of these schemas is as many steps as it has parts to look at.
#[test]
fn every_keyword_with_a_schema_is_counted() {
    let long = "x".repeat(STEPS_MAX + 1);
    let heavy = json!({"enum": vec![0; STEPS_MAX]});
    let list = json!([1]);
    let map = json!({"a": 1});
    for (schema, value) in [
        (json!({"not": heavy}), &list),
        (json!({"if": heavy}), &list),
        (json!({"allOf": [heavy]}), &list),
        (json!({"anyOf": [heavy]}), &list),
        (json!({"oneOf": [heavy]}), &list),
        (json!({"$ref": "#/$defs/a", "$defs": {"a": heavy}}), &list),
        (json!({"dependentSchemas": {"a": heavy}}), &map),
        (json!({"items": heavy}), &list),
        (json!({"items": [heavy]}), &list),
        (json!({"prefixItems": [heavy]}), &list),
        (json!({"contains": heavy}), &list),
        (json!({"unevaluatedItems": heavy}), &list),
        (json!({"properties": {"a": heavy}}), &map),
        (json!({"patternProperties": {"b": heavy}}), &map),
        (json!({"additionalProperties": heavy}), &map),
        (json!({"unevaluatedProperties": heavy}), &map),
        (json!({"propertyNames": heavy}), &map),
        (json!({"pattern": "x"}), &json!(long)),
    ] {
        assert_eq!(steps::check(&schema, value), Err(SchemaProblem::Steps), "{:.80}", schema.to_string());
    }
    assert_eq!(steps::check(&json!({"properties": {"b": heavy}}), &map), Ok(()));
}
