//! Checks answers against a JSON Schema, which a model may have written itself as part of a plan.

use posse_agent::answer::{SchemaVerdict, check};
use serde_json::{Value, json};

use crate::bounded::rows;

fn verdict(schema: &Value, answer: &str) -> String {
    match check(schema, answer) {
        SchemaVerdict::Match => "match".to_owned(),
        SchemaVerdict::Mismatch(why) => format!("mismatch ({} bytes): {why}", why.len()),
    }
}

/// `$defs` in which each schema refers to the next one twice, so that `levels` of them expand to two to that power.
fn doubling(keyword: &str, levels: usize) -> Value {
    let mut defs = serde_json::Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        defs.insert(format!("d{level}"), json!({ keyword: [next, next] }));
    }
    defs.insert(format!("d{levels}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// An answer of nested lists.
fn nested(open: &str, levels: usize, close: &str) -> String {
    format!("{}1{}", open.repeat(levels), close.repeat(levels))
}

const TOO_MUCH: &str = "takes more than 200000 steps";

rows! {
    all_of_doubles: || verdict(&doubling("allOf", 40), "1") => TOO_MUCH;
    any_of_doubles: || verdict(&doubling("anyOf", 40), "\"x\"") => TOO_MUCH;
    one_of_doubles: || verdict(&doubling("oneOf", 40), "1") => TOO_MUCH;
    a_reference_to_itself: || verdict(&json!({"$ref": "#"}), "1") => "levels deep";
    references_in_a_circle: || verdict(
        &json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}), "1",
    ) => "levels deep";
    a_circle_through_all_of: || verdict(
        &json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        "1",
    ) => "levels deep";
    two_ways_at_each_level_of_an_answer: || verdict(
        &json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}, "maxItems": 9}, {"type": "array", "items": {"$ref": "#"}}]}),
        &nested("[", 100, "]"),
    ) => TOO_MUCH;
    unevaluated_within_unevaluated: || {
        let schema = (0..60).fold(json!({"type": "object"}), |inner, _| {
            json!({"allOf": [inner], "anyOf": [{}], "unevaluatedProperties": {"type": "integer"}})
        });
        verdict(&schema, r#"{"a": 1, "b": 2}"#)
    } => "match";
    unevaluated_after_two_ways_each: || {
        let mut schema = doubling("anyOf", 40);
        for (_, part) in schema["$defs"].as_object_mut().expect("a map") {
            part["unevaluatedProperties"] = json!(true);
        }
        schema["$defs"]["d40"] = json!({"type": "object"});
        verdict(&schema, r#"{"a": 1, "b": 2}"#)
    } => TOO_MUCH;
    a_pattern_that_goes_back: || verdict(
        &json!({"type": "string", "pattern": "^(a+)+(?=b)\\1$"}), &format!("\"{}\"", "a".repeat(10_000)),
    ) => "the schema itself is invalid";
    a_pattern_that_counts: || verdict(
        &json!({"type": "string", "pattern": "(\\w{1000}){1000}"}), "\"a\"",
    ) => "the schema itself is invalid";
    a_pattern_with_many_states_for_each_byte: || {
        let text: String = (0..95_000_u32).map(|n| if n.wrapping_mul(2_654_435_761) >> 31 == 0 { 'a' } else { 'b' }).collect();
        verdict(&json!({"type": "string", "pattern": "a[ab]{500}c"}), &format!("\"{text}\""))
    } => "does not match";
    patterns_with_large_classes: || {
        let pattern = format!("[{}]", r"\p{L}\P{L}\W".repeat(2_000));
        verdict(&json!({"allOf": vec![json!({"pattern": pattern}); 200]}), "1")
    } => "have more than 65536 bytes";
    patterns_that_ignore_case: || verdict(
        &json!({"pattern": format!("(?i){}", "[^]".repeat(20_000))}), "1",
    ) => "does not begin a group";
    a_pattern_on_a_long_text: || verdict(
        &json!({"type": "string", "pattern": "(\\w{1,10}){1,10}x$"}), &format!("\"{}\"", "a".repeat(900_000)),
    ) => TOO_MUCH;
    patterns_for_every_property: || {
        let patterns: serde_json::Map<String, Value> = (0..200).map(|n| (format!("^k{n}[a-z]*$"), json!({}))).collect();
        let answer: serde_json::Map<String, Value> = (0..20_000).map(|n| (format!("k{n}"), json!(n))).collect();
        verdict(&json!({"patternProperties": patterns}), &Value::Object(answer).to_string())
    } => TOO_MUCH;
    many_values_for_many_items: || {
        let values: Vec<Value> = (0..10_000).map(|n| json!([n])).collect();
        verdict(&json!({"items": {"enum": values}}), &json!(vec![json!([9_999]); 40_000]).to_string())
    } => TOO_MUCH;
    many_items_that_differ: || {
        let items: Vec<Value> = (0..60_000).map(|n| json!({"n": n})).collect();
        verdict(&json!({"type": "array", "uniqueItems": true}), &json!(items).to_string())
    } => "match";
    as_deep_as_a_schema_may_be: || {
        // Ten parts of 25 levels, each of which begins the next one at the same position of the answer.
        let mut defs = serde_json::Map::new();
        for part in 0..10 {
            let inner = json!({"$ref": format!("#/$defs/d{}", part + 1)});
            defs.insert(format!("d{part}"), (0..12).fold(inner, |inner, _| json!({"allOf": [inner]})));
        }
        defs.insert("d10".to_owned(), json!({"type": "integer"}));
        verdict(&json!({"$ref": "#/$defs/d0", "$defs": defs}), "1")
    } => "match";
    as_deep_as_a_check_may_go: || verdict(
        &json!({"allOf": [{"allOf": [{"items": {"$ref": "#"}}]}]}), &nested("[", 120, "]"),
    ) => "match";
    deeper_than_a_check_may_go: || {
        let schema = (0..50).fold(json!({"items": {"$ref": "#"}}), |inner, _| json!({"allOf": [inner]}));
        verdict(&schema, &nested("[", 120, "]"))
    } => "levels deep";
    a_schema_from_elsewhere: || verdict(&json!({"$ref": "http://127.0.0.1:9/schema.json"}), "1") => "the schema itself is invalid";
    a_schema_from_a_file: || verdict(&json!({"$ref": "file:///etc/passwd"}), "1") => "the schema itself is invalid";
    a_schema_that_is_nested_deeply: || {
        let schema = (0..20_000).fold(json!({"type": "integer"}), |inner, _| {
            Value::Object([("items".to_owned(), inner)].into_iter().collect())
        });
        let said = verdict(&schema, "1");
        // Dropping such a deep value would need a large stack.
        std::mem::forget(schema);
        said
    } => "nested more than";
    an_answer_that_is_nested_deeply: || verdict(&json!({"items": {"$ref": "#"}}), &nested("[", 100_000, "]")) => "not JSON";
    an_answer_that_is_large: || verdict(&json!({"type": "array"}), &format!("[{}1]", "1,".repeat(4_000_000))) => "longer than";
    what_is_wrong_is_told_in_short: || {
        let said = verdict(&json!({"type": "integer"}), &format!("\"{}\"", "x".repeat(500_000)));
        if said.len() < 4_000 { "short".to_owned() } else { "long".to_owned() }
    } => "short";
    numbers_beyond_all_measure: || verdict(
        &json!({"type": "number", "multipleOf": 1e-300, "maximum": 1e308}), "1e999999999",
    ) => "not JSON";
}
