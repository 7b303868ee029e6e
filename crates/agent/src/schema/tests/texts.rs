//! The texts of problems: the place, the value in short, and what is wrong with it.

use super::*;

#[test]
fn a_problem_says_where_and_what() {
    for (schema, value, problem) in [
        (json!({"type": "integer"}), json!("x"), r#""x" is not of type "integer""#),
        (json!({"type": ["integer", "null"]}), json!("x"), r#""x" is not of types "integer", "null""#),
        (json!({"const": [1]}), json!(1), "[1] was expected"),
        (json!({"enum": [1, 2]}), json!(3), "3 is not one of 1 or 2"),
        (json!({"enum": [1]}), json!(3), "3 is not one of 1"),
        (
            json!({"enum": [1, 2, 3, 4, 5, 6, 7]}),
            json!(0),
            "0 is not one of 1, 2, 3, 4, 5 or 2 other candidates",
        ),
        (json!({"minimum": 1}), json!(0), "0 is less than the minimum of 1"),
        (json!({"exclusiveMaximum": 1.5}), json!(2), "2 is greater than or equal to the maximum of 1.5"),
        (json!({"multipleOf": 0.01}), json!(0.005), "0.005 is not a multiple of 0.01"),
        (json!({"minLength": 1}), json!(""), r#""" is shorter than 1 character"#),
        (json!({"maxLength": 2}), json!("abc"), r#""abc" is longer than 2 characters"#),
        (json!({"minItems": 2}), json!([1]), "[1] has less than 2 items"),
        (json!({"maxProperties": 1}), json!({"a": 1, "b": 2}), r#"{"a":1,"b":2} has more than 1 property"#),
        (
            json!({"items": {"pattern": "^[a-z]+$"}}),
            json!(["a", "B"]),
            r#"at /1: "B" does not match "^[a-z]+$""#,
        ),
        (
            json!({"uniqueItems": true}),
            json!([1, 2, 1.0]),
            "[1,2,1.0] has non-unique elements (items 0 and 2 are equal)",
        ),
        (json!({"required": ["n"]}), json!({}), r#""n" is a required property"#),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            json!({"a": 1}),
            r#""b" is a required property if there is "a""#,
        ),
        (
            json!({"additionalProperties": false}),
            json!({"a": 1}),
            "Additional properties are not allowed ('a' was unexpected)",
        ),
        (
            json!({"additionalProperties": false}),
            json!({"a": 1, "b": 1}),
            "Additional properties are not allowed ('a', 'b' were unexpected)",
        ),
        (
            json!({"unevaluatedProperties": false}),
            json!({"a": 1}),
            "Unevaluated properties are not allowed ('a' was unexpected)",
        ),
        (
            json!({"prefixItems": [true], "items": false}),
            json!([1, 2]),
            "Additional items are not allowed (2 was unexpected)",
        ),
        (json!({"properties": {"a/b": false}}), json!({"a/b": 1}), "at /a~1b: False schema does not allow 1"),
        (
            json!({"propertyNames": {"pattern": "^a"}}),
            json!({"b": 1}),
            r#"property name: "b" does not match "^a""#,
        ),
        (json!({"contains": {"type": "null"}}), json!([1]), "None of [1] are valid under the given schema"),
        (
            json!({"contains": true, "maxContains": 1}),
            json!([1, 2]),
            "2 items of [1,2] are valid under the schema of 'contains', at most 1 may be",
        ),
        (json!({"not": {"type": "integer"}}), json!(1), "1 is valid under the schema of the 'not' keyword"),
        (
            json!({"oneOf": [{}, false, {}]}),
            json!(1),
            "1 is valid under more than one of the schemas listed in the 'oneOf' keyword (0 and 2)",
        ),
    ] {
        assert_eq!(problems(&schema, &value), [problem], "{schema}");
    }
}

#[test]
fn the_alternative_that_fits_best_is_explained_first() {
    let schema = json!({"anyOf": [{"type": "null"}, {"type": "object", "properties": {"n": {"anyOf": [{"type": "integer"}, false]}}}]});
    assert_eq!(
        problems(&schema, &json!({"n": "x"})),
        [concat!(
            r#"{"n":"x"} is not valid under any of the schemas listed in the 'anyOf' keyword "#,
            r#"(1: at /n: "x" is not valid under any of the schemas listed in the 'anyOf' keyword"#,
            r#" | 0: {"n":"x"} is not of type "null")"#,
        )]
    );
    let schema = json!({"items": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]}});
    assert_eq!(
        problems(&schema, &json!(["x", {}])),
        [concat!(
            "at /1: {} is not valid under any of the schemas listed in the 'oneOf' keyword ",
            r#"(0: at /1: {} is not of type "string" | 1: at /1: "a" is a required property)"#,
        )]
    );
}

#[test]
fn what_is_wrong_with_a_value_comes_before_what_is_wrong_within_it() {
    let schema = json!({
        "properties": {"a": {"type": "integer"}, "b": {"enum": [1], "minimum": 5}},
        "additionalProperties": false,
        "required": ["c"],
    });
    assert_eq!(
        problems(&schema, &json!({"a": "x", "b": 0, "d": 1})),
        [
            r#""c" is a required property"#,
            "Additional properties are not allowed ('d' was unexpected)",
            r#"at /a: "x" is not of type "integer""#,
            "at /b: 0 is not one of 1",
            "at /b: 0 is less than the minimum of 5",
        ]
    );
}

#[test]
fn no_more_problems_are_produced_than_asked_for_and_none_is_long() {
    let schema = json!({"items": {"type": "integer", "anyOf": [{"minimum": 5}, {"maximum": 1}]}});
    let value = json!(vec!["x".repeat(5_000); 50]);
    let compiled = Schema::compile(&schema).expect("a schema");
    for most in [1, 3, 5] {
        let found = compiled.problems(&value, most).expect("within the limits");
        assert_eq!(found.len(), most);
        assert!(found.iter().all(|problem| problem.len() < 200), "{found:?}");
    }
    // A caller that wants no problems still reads that there is one.
    assert_eq!(compiled.problems(&value, 0).expect("within the limits").len(), 1);
    let map: serde_json::Map<String, Value> = (0..50).map(|n| (format!("p{n}"), json!(n))).collect();
    assert_eq!(
        problems(&json!({"additionalProperties": false}), &Value::Object(map)),
        ["Additional properties are not allowed ('p0', 'p1', 'p2', 'p3', 'p4' and more were unexpected)"]
    );
}
