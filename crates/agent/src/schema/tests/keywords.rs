//! A table for each keyword: a schema, values that it accepts, and values that it refuses.

use super::*;

/// Checks rows of a schema with good and bad values.
#[track_caller]
fn check(rows: &[(Value, Value, Value)]) {
    for (schema, good, bad) in rows {
        for value in good.as_array().expect("a list") {
            assert_eq!(problems(schema, value), [""; 0], "{schema} accepts {value}");
        }
        for value in bad.as_array().expect("a list") {
            assert_ne!(problems(schema, value), [""; 0], "{schema} refuses {value}");
        }
    }
}

#[test]
fn a_schema_may_be_a_flag_except_in_draft_4() {
    check(&[
        (json!(true), json!([1, null, {}]), json!([])),
        (json!(false), json!([]), json!([1, null, {}])),
        (json!({}), json!([1, null, {}]), json!([])),
        (draft(DRAFT_4, json!({"additionalProperties": false})), json!([{}, 1]), json!([{"a": 1}])),
    ]);
}

#[test]
fn types() {
    check(&[
        (
            json!({"type": "integer"}),
            json!([1, -1, 1.0, 1e30, 18_446_744_073_709_551_615_u64]),
            json!([1.5, "1", 1e-30]),
        ),
        (draft(DRAFT_4, json!({"type": "integer"})), json!([1, 1.0]), json!([1.5])),
        (json!({"type": "number"}), json!([1, 1.5]), json!(["1", null])),
        (json!({"type": "string"}), json!([""]), json!([1, [], {}])),
        (json!({"type": "boolean"}), json!([true, false]), json!([0, "true", null])),
        (json!({"type": "null"}), json!([null]), json!([0, "", false])),
        (json!({"type": "array"}), json!([[], [1]]), json!([{}, "[]"])),
        (json!({"type": "object"}), json!([{}]), json!([[], null])),
        (json!({"type": ["null", "string"]}), json!([null, "x"]), json!([1])),
    ]);
}

#[test]
fn fixed_values() {
    check(&[
        (json!({"const": 1}), json!([1, 1.0]), json!([true, "1", 2])),
        (
            json!({"const": {"a": 1, "b": [2]}}),
            json!([{"b": [2.0], "a": 1}]),
            json!([{"a": 1}, {"a": 1, "b": [2], "c": 3}]),
        ),
        (json!({"const": null}), json!([null]), json!([false, 0])),
        (json!({"enum": [0, "a", [1]]}), json!([0, 0.0, -0.0, "a", [1.0]]), json!([false, "", [1, 1], []])),
        (json!({"enum": []}), json!([]), json!([1])),
        (draft(DRAFT_4, json!({"const": 1})), json!([1, 2]), json!([])),
    ]);
}

#[test]
fn bounds_of_numbers() {
    check(&[
        (json!({"minimum": 1}), json!([1, 1.0, 2, "0"]), json!([0, 0.999])),
        (json!({"maximum": 1.5}), json!([1.5, -9, null]), json!([1.6, 2])),
        (json!({"exclusiveMinimum": 1}), json!([1.1]), json!([1, 1.0])),
        (json!({"exclusiveMaximum": 1}), json!([0.9]), json!([1, 2])),
        (draft(DRAFT_6, json!({"exclusiveMaximum": 1})), json!([0.9]), json!([1])),
        (draft(DRAFT_4, json!({"minimum": 1, "exclusiveMinimum": true})), json!([2]), json!([1])),
        (draft(DRAFT_4, json!({"maximum": 1, "exclusiveMaximum": false})), json!([1]), json!([2])),
    ]);
}

#[test]
fn lengths_are_counted_in_characters() {
    check(&[
        (json!({"minLength": 2}), json!(["ab", "äö", "🐎🐎", 1]), json!(["a", "🐎"])),
        (json!({"maxLength": 2.0}), json!(["ab", "🐎🐎"]), json!(["abc"])),
        (json!({"maxLength": 1e30}), json!(["abc"]), json!([])),
    ]);
}

#[test]
fn sizes_and_differences_of_lists() {
    check(&[
        (json!({"minItems": 1, "maxItems": 2}), json!([[1], [1, 2], {}]), json!([[], [1, 2, 3]])),
        (
            json!({"uniqueItems": true}),
            json!([[], [1, 2], [1, true, "1"], [[1], [2]], [{"a": 1}, {"b": 1}], "aa"]),
            json!([[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [[1], [1.0]], [null, 0, null]]),
        ),
        (json!({"uniqueItems": false}), json!([[1, 1]]), json!([])),
    ]);
}

#[test]
fn items_of_lists() {
    check(&[
        (json!({"items": {"type": "integer"}}), json!([[], [1, 2], "x"]), json!([["x"], [1, "x"]])),
        (
            json!({"prefixItems": [{"type": "string"}, {"type": "integer"}]}),
            json!([[], ["a"], ["a", 1, null]]),
            json!([[1], ["a", "b"]]),
        ),
        (json!({"prefixItems": [true], "items": false}), json!([[], [1]]), json!([[1, 2]])),
        (json!({"items": false}), json!([[]]), json!([[1]])),
        (
            draft(DRAFT_2019, json!({"items": [{"type": "string"}], "additionalItems": {"type": "integer"}})),
            json!([["a", 1]]),
            json!([[1], ["a", "b"]]),
        ),
        (
            draft(DRAFT_7, json!({"items": [{"type": "string"}], "additionalItems": false})),
            json!([[], ["a"]]),
            json!([["a", 1]]),
        ),
        (
            draft(DRAFT_4, json!({"items": [{"type": "string"}], "additionalItems": false})),
            json!([["a"]]),
            json!([["a", 1]]),
        ),
        (
            draft(DRAFT_7, json!({"items": {"type": "string"}, "additionalItems": false})),
            json!([["a", "b"]]),
            json!([[1]]),
        ),
        // The other drafts' spellings mean nothing.
        (json!({"additionalItems": false}), json!([[1]]), json!([])),
        (draft(DRAFT_7, json!({"prefixItems": [false]})), json!([[1]]), json!([])),
    ]);
}

#[test]
fn contained_items() {
    check(&[
        (json!({"contains": {"type": "integer"}}), json!([[1], ["a", 1], 5]), json!([[], ["a"]])),
        (json!({"contains": true, "minContains": 2}), json!([[1, 2]]), json!([[1]])),
        (json!({"contains": {"const": 1}, "maxContains": 1}), json!([[1], [1, 2]]), json!([[1, 1], []])),
        (json!({"contains": false, "minContains": 0}), json!([[], [1]]), json!([])),
        (json!({"minContains": 2}), json!([[]]), json!([])),
        (draft(DRAFT_6, json!({"contains": {"const": 1}, "minContains": 2})), json!([[1]]), json!([[2]])),
        (draft(DRAFT_4, json!({"contains": false})), json!([[1]]), json!([])),
    ]);
}

#[test]
fn properties_of_maps() {
    check(&[
        (json!({"required": ["a"]}), json!([{"a": null}, []]), json!([{}, {"b": 1}])),
        (
            json!({"properties": {"a": {"type": "integer"}}}),
            json!([{}, {"a": 1, "b": "x"}, [1]]),
            json!([{"a": "x"}]),
        ),
        (
            json!({"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 5}}}),
            json!([{"a": 1}, {"ab": 5}, {"c": "x"}]),
            json!([{"ab": 1}, {"abc": "x"}]),
        ),
        (json!({"additionalProperties": {"type": "integer"}}), json!([{"a": 1}]), json!([{"a": "x"}])),
        (
            json!({"properties": {"a": {}}, "patternProperties": {"^b": {}}, "additionalProperties": false}),
            json!([{"a": 1, "b": 1, "bc": 1}]),
            json!([{"c": 1}]),
        ),
        (json!({"propertyNames": {"maxLength": 1}}), json!([{"a": 1}, "abc"]), json!([{"ab": 1}])),
        (json!({"propertyNames": false}), json!([{}]), json!([{"a": 1}])),
        (
            json!({"minProperties": 1, "maxProperties": 1}),
            json!([{"a": 1}, []]),
            json!([{}, {"a": 1, "b": 1}]),
        ),
        (draft(DRAFT_4, json!({"propertyNames": {"maxLength": 1}})), json!([{"ab": 1}]), json!([])),
    ]);
}

#[test]
fn dependencies() {
    let both = json!({"dependencies": {"a": ["b"], "c": {"minProperties": 3}}});
    let (good, bad) = (json!([{}, {"a": 1, "b": 1}, {"c": 1, "d": 1, "e": 1}]), json!([{"a": 1}, {"c": 1}]));
    check(&[
        (
            json!({"dependentRequired": {"a": ["b", "c"]}}),
            json!([{}, {"b": 1}, {"a": 1, "b": 1, "c": 1}]),
            json!([{"a": 1, "b": 1}]),
        ),
        (
            json!({"dependentSchemas": {"a": {"minProperties": 2}}}),
            json!([{}, {"a": 1, "b": 1}, 1]),
            json!([{"a": 1}]),
        ),
        (draft(DRAFT_7, json!({"dependentRequired": {"a": ["b"]}})), json!([{"a": 1}]), json!([])),
        (both.clone(), good.clone(), bad.clone()),
        (draft(DRAFT_7, both.clone()), good.clone(), bad.clone()),
        (draft(DRAFT_4, both), good, bad),
    ]);
}

#[test]
fn combinations() {
    check(&[
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!([1, 2]), json!([0, 3])),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), json!(["x", 5]), json!([4])),
        (json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), json!([2, 3]), json!([1, 6])),
        (json!({"not": {"type": "string"}}), json!([1]), json!(["x"])),
        (
            json!({"if": {"minimum": 10}, "then": {"multipleOf": 10}, "else": {"multipleOf": 2}}),
            json!([20, 4]),
            json!([11, 3]),
        ),
        (json!({"if": {"minimum": 10}}), json!([1, 20]), json!([])),
        (json!({"then": false, "else": false}), json!([1]), json!([])),
        (draft(DRAFT_6, json!({"if": true, "then": false})), json!([1]), json!([])),
    ]);
}

#[test]
fn references() {
    let siblings = json!({"properties": {"a": {"$ref": "#/definitions/n", "minimum": 5}}, "definitions": {"n": {"type": "integer"}}});
    check(&[
        (
            json!({"properties": {"next": {"$ref": "#"}}, "additionalProperties": false}),
            json!([{"next": {"next": {}}}]),
            json!([{"next": {"other": 1}}]),
        ),
        (json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}}), json!([1]), json!(["x"])),
        (
            json!({"items": [1], "$ref": "#/allOf/0", "allOf": [{"minimum": 1}]})["allOf"][0].clone(),
            json!([1]),
            json!([0]),
        ),
        (
            json!({"$ref": "#/$defs/n", "minimum": 5, "$defs": {"n": {"type": "integer"}}}),
            json!([5]),
            json!([4, "x"]),
        ),
        (draft(DRAFT_2019, siblings.clone()), json!([{"a": 5}]), json!([{"a": 4}, {"a": "x"}])),
        (draft(DRAFT_7, siblings.clone()), json!([{"a": 5}, {"a": 4}]), json!([{"a": "x"}])),
        (draft(DRAFT_4, siblings), json!([{"a": 4}]), json!([{"a": "x"}])),
    ]);
}

#[test]
fn what_no_other_keyword_evaluated() {
    check(&[
        (
            json!({"properties": {"a": {}}, "allOf": [{"properties": {"b": {}}}], "unevaluatedProperties": false}),
            json!([{"a": 1, "b": 1}, 1]),
            json!([{"c": 1}]),
        ),
        (
            json!({"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}], "unevaluatedProperties": false}),
            json!([{"a": 1}, {"b": 1}, {"a": 1, "b": 1}]),
            json!([{"a": 2, "b": 1}, {"a": 1, "c": 1}]),
        ),
        (
            json!({"if": {"required": ["a"], "properties": {"a": {}}}, "else": {"properties": {"b": {}}}, "unevaluatedProperties": false}),
            json!([{"a": 1}, {"b": 1}]),
            json!([{"a": 1, "b": 1}]),
        ),
        (
            json!({"not": {"properties": {"a": {}}, "required": ["b"]}, "unevaluatedProperties": false}),
            json!([{}]),
            json!([{"a": 1}]),
        ),
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {}}}}, "unevaluatedProperties": {"type": "integer"}}),
            json!([{"a": "x", "b": 1}]),
            json!([{"b": "x"}]),
        ),
        // What lies beside a part is not known within it.
        (
            json!({"properties": {"a": {}}, "allOf": [{"unevaluatedProperties": false}]}),
            json!([{}]),
            json!([{"a": 1}]),
        ),
        (json!({"prefixItems": [{}], "unevaluatedItems": false}), json!([[], [1]]), json!([[1, 2]])),
        (
            json!({"contains": {"type": "integer"}, "unevaluatedItems": {"type": "string"}}),
            json!([[1, "a"]]),
            json!([[1, null]]),
        ),
        (
            draft(
                DRAFT_2019,
                json!({"contains": {"type": "integer"}, "unevaluatedItems": {"type": "string"}}),
            ),
            json!([]),
            json!([[1, "a"]]),
        ),
        (
            json!({"allOf": [{"prefixItems": [{}]}], "anyOf": [{"prefixItems": [{}, {"const": 2}]}, {}], "unevaluatedItems": false}),
            json!([[1], [1, 2]]),
            json!([[1, 3]]),
        ),
        (
            draft(DRAFT_7, json!({"unevaluatedProperties": false, "unevaluatedItems": false})),
            json!([{"a": 1}, [1]]),
            json!([]),
        ),
    ]);
}

#[test]
fn annotations_and_unknown_keywords_are_not_checked() {
    let annotated = json!({"format": "date", "contentEncoding": "base64", "contentMediaType": "application/json", "title": "t", "x-own": 1});
    check(&[
        (annotated.clone(), json!(["not a date"]), json!([])),
        (draft(DRAFT_7, annotated.clone()), json!(["not a date"]), json!([])),
        (draft(DRAFT_4, annotated), json!(["not a date"]), json!([])),
    ]);
}
