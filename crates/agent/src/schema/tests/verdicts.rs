//! Random schemas and values have the verdict of an independent validator.

use boon::{Compiler, Schemas};
use proptest::prelude::*;

use super::*;

const ADDRESS: &str = "http://localhost/schema.json";

/// The verdict of the other validator; none if it refuses the schema.
fn other_verdict(schema: &Value, value: &Value) -> Option<bool> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(ADDRESS, schema.clone()).ok()?;
    let index = compiler.compile(ADDRESS, &mut schemas).ok()?;
    Some(schemas.validate(value, index).is_ok())
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(1.0),
        json!(1.5),
        json!(-2),
        json!(6),
        json!(""),
        json!("a"),
        json!("ab"),
        json!("b1"),
        json!("🐎"),
    ]);
    leaf.prop_recursive(3, 12, 4, |inner| {
        let fields = prop::collection::vec((name(), inner.clone()), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::Array),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "ab", "c"]).prop_map(str::to_owned)
}

/// A keyword without other schemas. A few are malformed in one draft or in all.
fn assertion() -> impl Strategy<Value = (String, Value)> {
    let types = ["integer", "number", "string", "boolean", "null", "array", "object"];
    let of = |keywords: &[&str], values: Vec<Value>| {
        let keywords: Vec<String> = keywords.iter().map(|keyword| (*keyword).to_owned()).collect();
        (prop::sample::select(keywords), prop::sample::select(values))
    };
    prop_oneof![
        3 => of(&["type"], types.iter().map(|name| json!(name)).collect()),
        1 => of(&["type"], vec![json!(["integer", "string"]), json!(["null", "object", "array"])]),
        2 => of(&["enum"], vec![json!([1, "a"]), json!([null]), json!([[], {}]), json!([{"a": 1.0}])]),
        2 => of(&["const"], vec![json!(1), json!("a"), json!([]), json!({"a": 1}), json!(null)]),
        3 => of(
            &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
            vec![json!(0), json!(1), json!(1.5), json!(-2.0)],
        ),
        1 => of(&["multipleOf"], vec![json!(2), json!(0.5), json!(3.0)]),
        3 => of(
            &["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"],
            vec![json!(0), json!(1), json!(2)],
        ),
        1 => of(&["minContains", "maxContains"], vec![json!(0), json!(1), json!(2)]),
        1 => of(&["pattern"], vec![json!("a"), json!("^[a-b]+$"), json!(r"\d"), json!("^.$")]),
        1 => of(&["uniqueItems"], vec![json!(true), json!(false)]),
        2 => of(&["required"], vec![json!(["a"]), json!(["a", "b"])]),
        1 => of(&["dependentRequired", "dependencies"], vec![json!({"a": ["b"]}), json!({"b": ["a", "c"]})]),
        1 => of(
            &["type", "minimum", "exclusiveMaximum", "maxLength", "pattern", "required", "properties", "enum", "not"],
            vec![json!(true), json!(-1), json!("null"), json!([1]), json!({})],
        ),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let assertions =
        prop::collection::vec(assertion(), 1..3).prop_map(|pairs| Value::Object(pairs.into_iter().collect()));
    let leaf = prop_oneof![
        8 => assertions,
        1 => Just(json!({})),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(json!({"$ref": "#/definitions/d"})),
        1 => Just(json!({"$ref": "#/definitions/d", "minimum": 1, "required": ["b"]})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let one = prop::sample::select(vec![
            "not", "if", "then", "else", "items", "contains", "additionalItems", "additionalProperties",
            "propertyNames", "unevaluatedItems", "unevaluatedProperties",
        ]);
        let list = prop::sample::select(vec!["allOf", "allOf", "anyOf", "anyOf", "oneOf", "oneOf", "prefixItems", "prefixItems", "items"]);
        let map = prop::sample::select(vec!["properties", "dependentSchemas", "dependencies"]);
        let patterns = prop::sample::select(vec!["^a", "b", "."]).prop_map(str::to_owned);
        let object = |fields: Vec<(String, Value)>| Value::Object(fields.into_iter().collect());
        let keyword = prop_oneof![
            4 => (one, inner.clone()).prop_map(|(keyword, schema)| (keyword.to_owned(), schema)),
            3 => (list, prop::collection::vec(inner.clone(), 1..4)).prop_map(|(keyword, schemas)| (keyword.to_owned(), json!(schemas))),
            3 => (map, prop::collection::vec((name(), inner.clone()), 0..4)).prop_map(move |(keyword, fields)| (keyword.to_owned(), object(fields))),
            1 => prop::collection::vec((patterns, inner), 0..3).prop_map(move |fields| ("patternProperties".to_owned(), object(fields))),
            2 => assertion(),
        ];
        prop::collection::vec(keyword, 1..5).prop_map(object)
    })
}

/// A whole schema with one definition that refers to no other, and a draft.
fn root() -> impl Strategy<Value = Value> {
    let drafts = vec![None, None, Some(DRAFT_2019), Some(DRAFT_7), Some(DRAFT_6), Some(DRAFT_4)];
    let definition = prop::collection::vec(assertion(), 0..3);
    (schema(), definition, prop::sample::select(drafts)).prop_map(|(schema, definition, draft)| {
        let mut root = if schema.is_object() { schema } else { json!({ "not": schema }) };
        root["definitions"] = json!({"d": Value::Object(definition.into_iter().collect())});
        if let Some(draft) = draft {
            root["$schema"] = json!(draft);
        }
        root
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_verdict_is_that_of_another_validator(schema in root(), values in prop::collection::vec(value(), 1..6)) {
        let compiled = Schema::compile(&schema);
        for value in &values {
            let found = compiled.as_ref().ok().map(|schema| schema.problems(value, 2).expect("within the limits"));
            let verdict = found.as_ref().map(Vec::is_empty);
            prop_assert_eq!(verdict, other_verdict(&schema, value), "{}\non {}: {:?} {:?}", schema, value, compiled, found);
        }
    }
}
