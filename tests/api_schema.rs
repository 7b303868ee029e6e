//! Whatever a story's command prints with `--json` is held against the published schema, with keys that the schema does
//! not name refused: a key that is printed and not published is a promise that no reader knows of.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../docs/schemas/api.schema.json");

/// The verbs whose objects are in the schema, with the objects that each prints.
const OBJECTS: &[(&str, &[&str])] = &[
    ("run", &["Event", "Outcome", "RunReference"]),
    ("resume", &["Event", "Outcome"]),
    ("wait", &["Outcome"]),
    ("ps", &["RunSummary"]),
    ("show", &["RunDetail"]),
    ("stats", &["RunStats", "AllStats"]),
    ("logs", &["Event"]),
    ("trace", &["Event"]),
    ("approve", &["Question", "Answer"]),
    ("deny", &["Question", "Answer"]),
    ("explain", &["Explanation"]),
    ("verify", &["Verification"]),
    ("salvage", &["Salvage"]),
    ("apply", &["ApplyResult"]),
    ("gc", &["GcResult"]),
];

/// Holds what a command printed against the schema, if it is in it.
#[track_caller]
pub(crate) fn check(args: &[String], stdout: &str) {
    let Some(verb) = args.first().filter(|_| args.iter().any(|arg| arg == "--json")) else { return };
    let Some(validator) = validators().get(verb.as_str()) else { return };
    for line in stdout.lines() {
        // What is no JSON fails in the story itself.
        let Ok(object) = serde_json::from_str::<Value>(line) else { continue };
        let errors: Vec<String> = validator.iter_errors(&object).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{args:?}: {errors:#?}\n{line}");
    }
}

fn validators() -> &'static BTreeMap<&'static str, Validator> {
    static VALIDATORS: OnceLock<BTreeMap<&'static str, Validator>> = OnceLock::new();
    VALIDATORS.get_or_init(|| {
        let mut schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
        refuse_unknown_keys(&mut schema["$defs"]);
        let validator = |(verb, names): &(&'static str, &[&str])| {
            let any: Vec<Value> =
                names.iter().map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
            schema["anyOf"] = any.into();
            (*verb, jsonschema::validator_for(&schema).expect("a schema"))
        };
        OBJECTS.iter().map(validator).collect()
    })
}

fn refuse_unknown_keys(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.contains_key("properties") {
                object.insert("additionalProperties".to_owned(), false.into());
            }
            object.values_mut().for_each(refuse_unknown_keys);
        }
        Value::Array(items) => items.iter_mut().for_each(refuse_unknown_keys),
        _ => {}
    }
}

#[test]
fn an_object_with_an_unknown_or_missing_key_is_found() {
    let good = json!({
        "version": 1, "run": "k3f9ab2c", "dir": null, "files": 0, "merged": 0, "already": 0,
    });
    let args = ["apply".to_owned(), "--json".to_owned()];
    check(&args, &good.to_string());
    let with = |key: &str, value: Value| {
        let mut object = good.clone();
        object[key] = value;
        object
    };
    let mut without = good.clone();
    without.as_object_mut().expect("an object").remove("version");
    for bad in [with("more", json!(1)), with("files", json!("none")), with("version", json!(2)), without] {
        let text = bad.to_string();
        assert!(std::panic::catch_unwind(|| check(&args, &text)).is_err(), "{text}");
    }
}
