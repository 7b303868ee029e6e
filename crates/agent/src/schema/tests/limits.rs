//! Schemas and answers that ask for more than the limits.

use super::*;

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
        (draft(DRAFT_4, json!({"items": {"id": "x"}})), uncounted("id")),
    ] {
        assert_eq!(Schema::compile(&schema).expect_err("beyond a limit"), problem, "{schema}");
    }
}

/// Each of these checks has to look at a part that takes all steps.
#[test]
fn every_keyword_with_a_schema_is_counted() {
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
        (draft(DRAFT_7, json!({"items": [heavy]})), &list),
        (json!({"prefixItems": [heavy]}), &list),
        (json!({"contains": heavy}), &list),
        (json!({"unevaluatedItems": heavy}), &list),
        (json!({"properties": {"a": heavy}}), &map),
        (json!({"patternProperties": {"a": heavy}}), &map),
        (json!({"additionalProperties": heavy}), &map),
        (json!({"unevaluatedProperties": heavy}), &map),
        (json!({"propertyNames": heavy}), &map),
        (json!({"pattern": "x"}), &json!("x".repeat(STEPS_MAX))),
        (json!({"pattern": "(a{1,20}){1,20}$"}), &json!("a".repeat(STEPS_MAX / 2))),
        (json!({"const": vec![1; STEPS_MAX]}), &json!(vec![1; STEPS_MAX])),
        (
            json!({"items": {"not": {"required": ["x".repeat(1_000_000)]}}}),
            &json!(vec![json!({"a": 1, "b": 2}); 20]),
        ),
        (json!({"items": {"not": {"const": {"x".repeat(1_000_000): 1}}}}), &json!(vec![map.clone(); 20])),
        (json!({"uniqueItems": true}), &json!((0..STEPS_MAX).collect::<Vec<_>>())),
    ] {
        assert_eq!(limit(&schema, value), SchemaProblem::Steps, "{:.80}", schema.to_string());
    }
    assert!(is_valid(&json!({"properties": {"b": heavy}}), &map));
}

/// `$defs` in which each schema stands for two of the next one.
fn doubling(keyword: &str) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        defs.insert(format!("d{level}"), json!({ keyword: [next, next] }));
    }
    defs.insert("d40".to_owned(), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn a_check_that_would_not_end_ends_at_a_limit() {
    let ways = json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}}]});
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    for (schema, value, problem) in [
        (doubling("allOf"), json!(1), SchemaProblem::Steps),
        (doubling("anyOf"), json!("x"), SchemaProblem::Steps),
        (doubling("oneOf"), json!(1), SchemaProblem::Steps),
        (ways, nested(60), SchemaProblem::Steps),
        (json!({"$ref": "#"}), json!(1), SchemaProblem::Depth),
        (json!({"allOf": [{"not": {"$ref": "#"}}]}), json!(1), SchemaProblem::Depth),
        (json!({"items": {"$ref": "#"}}), nested(DEPTH_MAX / 2), SchemaProblem::Depth),
        (json!({"uniqueItems": true}), json!([nested(DEPTH_MAX), 1]), SchemaProblem::Depth),
    ] {
        assert_eq!(limit(&schema, &value), problem, "{:.80}", schema.to_string());
    }
}

#[test]
fn much_work_within_the_limits_is_done() {
    let many: Vec<Value> = (0..60_000).map(|n| json!({"n": n})).collect();
    assert!(is_valid(&json!({"uniqueItems": true}), &json!(many)));
    // Each level looks only once at what the levels within it evaluated.
    let unevaluated = (0..60).fold(
        json!({"type": "object"}),
        |inner, _| json!({"allOf": [inner], "anyOf": [{}], "unevaluatedProperties": {"type": "integer"}}),
    );
    assert!(is_valid(&unevaluated, &json!({"a": 1, "b": 2})));
    // An explanation takes no steps from the check.
    let alternatives = json!({"items": {"anyOf": [{"enum": vec![0; 1_000]}, {"enum": vec![2; 1_000]}]}});
    assert_eq!(problems(&alternatives, &json!(vec![1; 90])).len(), 5);
}

/// The deepest checks fit half of the stack that a thread has by default, in a build without optimisation.
#[test]
fn the_deepest_check_fits_half_of_a_stack() {
    let lists = (0..2 * DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
    let maps = (0..2 * DEPTH_MAX).fold(json!(1), |inner, _| json!({"a": inner}));
    for (schema, value) in [
        (json!({"$ref": "#"}), &lists),
        (json!({"allOf": [{"$ref": "#"}]}), &lists),
        (json!({"anyOf": [{"$ref": "#"}]}), &lists),
        (json!({"oneOf": [{"$ref": "#"}]}), &lists),
        (json!({"not": {"$ref": "#"}}), &lists),
        (json!({"if": {"$ref": "#"}}), &lists),
        (json!({"dependentSchemas": {"a": {"$ref": "#"}}}), &maps),
        (
            json!({"propertyNames": {"$ref": "#/$defs/a"}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}),
            &maps,
        ),
        (json!({"items": {"$ref": "#"}}), &lists),
        (json!({"prefixItems": [{"$ref": "#"}]}), &lists),
        (json!({"contains": {"$ref": "#"}}), &lists),
        (json!({"unevaluatedItems": {"$ref": "#"}}), &lists),
        (json!({"properties": {"a": {"$ref": "#"}}}), &maps),
        (json!({"patternProperties": {"a": {"$ref": "#"}}}), &maps),
        (json!({"additionalProperties": {"$ref": "#"}}), &maps),
        (json!({"unevaluatedProperties": {"$ref": "#"}}), &maps),
        (json!({"uniqueItems": true}), &lists),
        (json!({"uniqueItems": true}), &json!([maps, maps])),
    ] {
        std::thread::scope(|scope| {
            let check = || limit(&schema, value);
            let thread = std::thread::Builder::new().stack_size(1024 * 1024).spawn_scoped(scope, check);
            assert_eq!(
                thread.expect("a thread").join().expect("a verdict"),
                SchemaProblem::Depth,
                "{schema}"
            );
        });
    }
}
