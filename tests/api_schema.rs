//! Whatever a story's command prints with `--json` is held against the published schema, with keys that the schema does
//! not name refused: a key that is printed and not published is a promise that no reader knows of.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use boon::{Compiler, SchemaIndex, Schemas};
use posse::api;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const SCHEMA: &str = include_str!("../docs/schemas/api.schema.json");

/// Every verb that has `--json`, with the objects that it prints.
const OBJECTS: &[(&str, &[&str])] = &[
    ("run", &["Event", "Outcome", "RunReference"]),
    ("continue", &["Event", "Outcome", "RunReference"]),
    ("retry", &["Event", "Outcome", "RunReference"]),
    ("resume", &["Event", "Outcome"]),
    ("wait", &["Outcome", "AgentOutcome"]),
    ("attach", &["Event", "Outcome"]),
    ("ps", &["RunSummary"]),
    ("show", &["RunDetail"]),
    ("stats", &["RunStats", "AllStats"]),
    ("logs", &["Event"]),
    ("trace", &["Event"]),
    ("approve", &["Question", "Answer"]),
    ("deny", &["Question", "Answer"]),
    ("approvals", &["Question", "StoredApproval", "RevokedApprovals"]),
    ("rm", &["GcResult"]),
    ("models", &["ModelList"]),
    ("explain", &["Explanation"]),
    ("verify", &["Verification"]),
    ("salvage", &["Salvage"]),
    ("apply", &["ApplyResult", "ApplyCheck"]),
    ("token", &["TokenList"]),
    ("diff", &["DiffResult"]),
    ("report", &["ReportResult"]),
    ("cancel", &["CancelResult"]),
    ("kill", &["CancelResult"]),
    ("send", &["SentMessage"]),
    ("init", &["InitResult"]),
    ("gc", &["GcResult"]),
    ("export", &["ExportResult"]),
    ("plan", &["PlanCheck", "WrittenPlan"]),
    ("agents", &["AgentList", "AgentDetail", "DefinitionCheck"]),
    ("skills", &["SkillList", "SkillDetail", "DefinitionCheck"]),
    ("settings", &["SettingsList"]),
    ("trust", &["TrustList"]),
    ("doctor", &["MachineReport"]),
];

/// Holds what a command printed against the schema.
#[track_caller]
pub(crate) fn check(args: &[String], stdout: &str) {
    // A story may start the command through another program.
    let start = args.iter().position(|arg| arg.ends_with("/posse")).map_or(0, |at| at + 1);
    let Some(verb) = args.get(start).filter(|_| args.iter().any(|arg| arg == "--json")) else { return };
    for line in stdout.lines() {
        // What is no JSON fails in the story itself.
        let Ok(object) = serde_json::from_str::<Value>(line) else { continue };
        let validator = validator(verb);
        let validator = validator.unwrap_or_else(|| panic!("{args:?} prints objects that no schema names"));
        let (schemas, index) = &*validator;
        if let Err(error) = schemas.validate(&object, *index) {
            panic!("{args:?}: {error}\n{line}");
        }
        match verb.as_str() {
            "ps" => read_back::<api::RunSummary>(&object),
            "show" => read_back::<api::RunDetail>(&object),
            "explain" => read_back::<api::Explanation>(&object),
            "settings" => read_back::<api::SettingsList>(&object),
            "trust" => read_back::<api::TrustList>(&object),
            "doctor" => read_back::<api::MachineReport>(&object),
            "apply" if object.get("planned").is_some() => read_back::<api::ApplyCheck>(&object),
            "apply" => read_back::<api::ApplyResult>(&object),
            "token" => read_back::<api::TokenList>(&object),
            "diff" => read_back::<api::DiffResult>(&object),
            "report" => read_back::<api::ReportResult>(&object),
            "cancel" | "kill" => read_back::<api::CancelResult>(&object),
            "send" => read_back::<api::SentMessage>(&object),
            "init" => read_back::<api::InitResult>(&object),
            "salvage" => read_back::<api::Salvage>(&object),
            "gc" | "rm" => read_back::<api::GcResult>(&object),
            "models" => read_back::<api::ModelList>(&object),
            "export" => read_back::<api::ExportResult>(&object),
            _ => {}
        }
    }
}

/// Checks that a client with the same type reads the whole object.
#[track_caller]
fn read_back<T: api::Object + DeserializeOwned>(object: &Value) {
    let read: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object}"));
    assert_eq!(&serde_json::to_value(api::VersionedObject::new(&read)).expect("JSON"), object);
}

/// The validator of a verb's objects; made once in each process, for the verbs that its story uses.
fn validator(verb: &str) -> Option<Arc<(Schemas, SchemaIndex)>> {
    static VALIDATORS: Mutex<BTreeMap<&str, Arc<(Schemas, SchemaIndex)>>> = Mutex::new(BTreeMap::new());
    let (verb, names) = OBJECTS.iter().find(|(known, _)| *known == verb)?;
    let mut made = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner);
    let validator = made.entry(verb).or_insert_with(|| {
        let mut schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
        refuse_unknown_keys(&mut schema["$defs"]);
        let any: Vec<Value> = names.iter().map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
        schema["anyOf"] = any.into();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("http://localhost/schema", schema).expect("an address");
        let index = compiler.compile("http://localhost/schema", &mut schemas).expect("a schema");
        Arc::new((schemas, index))
    });
    Some(validator.clone())
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
        "version": 1, "run": "k3f9ab2c", "agent": "k3f9ab2c", "undo": false, "dir": null, "files": 0, "merged": 0, "already": 0,
    });
    let args = ["apply".to_owned(), "--json".to_owned()];
    check(&args, &good.to_string());
    let with = |key: &str, value: Value| {
        let mut object = good.clone();
        object[key] = value;
        object
    };
    let through = ["sh", "-c", "exec $@", "/tmp/posse", "apply", "--json"].map(str::to_owned);
    check(&through, &good.to_string());
    let mut without = good.clone();
    without.as_object_mut().expect("an object").remove("version");
    for bad in [with("more", json!(1)), with("files", json!("none")), with("version", json!(2)), without] {
        let text = bad.to_string();
        assert!(std::panic::catch_unwind(|| check(&args, &text)).is_err(), "{text}");
        assert!(std::panic::catch_unwind(|| check(&through, &text)).is_err(), "{text}");
    }
    let unknown = ["unknown".to_owned(), "--json".to_owned()];
    assert!(std::panic::catch_unwind(|| check(&unknown, "{}")).is_err(), "a verb without objects");
}
