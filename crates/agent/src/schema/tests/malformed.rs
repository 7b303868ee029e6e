//! Schemas that are refused, by the place of the problem.

use super::*;

#[track_caller]
fn refused(schema: &Value) -> String {
    match Schema::compile(schema) {
        Err(SchemaProblem::Invalid(problem)) => problem,
        other => panic!("{schema}: {other:?}"),
    }
}

#[test]
fn a_malformed_keyword_is_named_with_its_place() {
    for (schema, problem) in [
        (json!(3), "3 is not a schema, which is a map or a flag"),
        (json!({"type": 3}), "/type: 3 is not a type"),
        (json!({"properties": {"n": {"type": "nothing"}}}), "/properties/n/type: \"nothing\" is not a type"),
        (
            json!({"items": {"allOf": [{}, {"minimum": "1"}]}}),
            "/items/allOf/1/minimum: \"1\" is not a number",
        ),
        (
            json!({"$defs": {"a/b~c": {"not": 1}}}),
            "/$defs/a~1b~0c/not: 1 is not a schema, which is a map or a flag",
        ),
        (json!({"$ref": "#/x/y", "x": {"y": {"enum": 1}}}), "/x/y/enum: 1 is not a list of values"),
        (json!({"pattern": "("}), "/pattern: \"(\" is not a pattern that can be used: unclosed group"),
        (
            json!({"$schema": "urn:x"}),
            "/$schema: \"urn:x\" is not the address of a draft from 4 to 2020-12 of JSON Schema",
        ),
        (
            json!({"items": {"$schema": DRAFT_7}}),
            "/items/$schema: \"http://json-schema.org/draft-07/schema#\" is not the draft of the whole schema",
        ),
    ] {
        assert_eq!(refused(&schema), problem, "{schema}");
    }
}

#[test]
fn no_keyword_of_a_wrong_type_is_ignored() {
    for schema in [
        json!(null),
        json!([]),
        json!({"$schema": 1}),
        json!({"$ref": 1}),
        json!({"$defs": []}),
        json!({"definitions": {"a": 1}}),
        json!({"type": []}),
        json!({"type": ["string", "string"]}),
        json!({"type": ["string", 1]}),
        json!({"enum": {}}),
        json!({"multipleOf": 0}),
        json!({"multipleOf": -1}),
        json!({"multipleOf": "1"}),
        json!({"maximum": null}),
        json!({"exclusiveMinimum": true}),
        json!({"minLength": -1}),
        json!({"maxLength": 1.5}),
        json!({"minItems": "1"}),
        json!({"maxItems": -1}),
        json!({"minProperties": []}),
        json!({"maxProperties": 1e-5}),
        json!({"pattern": 1}),
        json!({"uniqueItems": 1}),
        json!({"required": "a"}),
        json!({"required": ["a", "a"]}),
        json!({"required": [1]}),
        json!({"properties": []}),
        json!({"properties": {"a": "string"}}),
        json!({"patternProperties": {"(": {}}}),
        json!({"patternProperties": 1}),
        json!({"additionalProperties": "no"}),
        json!({"propertyNames": 1}),
        json!({"items": [{}]}),
        json!({"prefixItems": []}),
        json!({"prefixItems": {}}),
        json!({"contains": 1}),
        json!({"minContains": -1}),
        json!({"maxContains": "1"}),
        json!({"unevaluatedItems": 1}),
        json!({"unevaluatedProperties": 1}),
        json!({"dependentRequired": {"a": [1]}}),
        json!({"dependentRequired": []}),
        json!({"dependentSchemas": {"a": []}}),
        json!({"dependencies": {"a": 1}}),
        json!({"dependencies": 1}),
        json!({"allOf": []}),
        json!({"anyOf": {}}),
        json!({"oneOf": [1]}),
        json!({"not": null}),
        json!({"if": 1}),
        json!({"then": 1}),
        json!({"else": 1}),
        json!({"title": 1}),
        json!({"description": []}),
        json!({"format": 1}),
        json!({"readOnly": "yes"}),
        json!({"examples": {}}),
        json!({"contentSchema": 1}),
        draft(DRAFT_2019, json!({"items": []})),
        draft(DRAFT_7, json!({"items": [1]})),
        draft(DRAFT_7, json!({"additionalItems": 1})),
        draft(DRAFT_6, json!({"enum": []})),
        draft(DRAFT_4, json!({"required": []})),
        draft(DRAFT_4, json!({"items": true})),
        draft(DRAFT_4, json!({"exclusiveMaximum": 5})),
        draft(DRAFT_4, json!({"exclusiveMaximum": true})),
    ] {
        refused(&schema);
    }
}

#[test]
fn every_draft_has_its_names_and_no_other_is_known() {
    for known in [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
        "http://json-schema.org/draft-07/schema",
        DRAFT_2019,
        DRAFT_7,
        DRAFT_6,
        DRAFT_4,
    ] {
        assert!(Schema::compile(&json!({"$schema": known})).is_ok(), "{known}");
    }
    for unknown in
        ["http://json-schema.org/draft-03/schema#", "http://json-schema.org/schema#", "draft-07", ""]
    {
        refused(&json!({"$schema": unknown}));
    }
}
