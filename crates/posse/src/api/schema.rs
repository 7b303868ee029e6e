//! The published schema of all objects.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{
    AllStats, Answer, ApplyResult, Event, Explanation, GcResult, Outcome, Question, RunDetail, RunReference,
    RunStats, RunSummary, Salvage, VERSION, Verification,
};

/// The schema of every object that leaves the program, each as one definition with the name of its type.
pub fn json_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut objects = Map::new();
    add::<RunSummary<'_>>(&mut generator, &mut objects);
    add::<RunDetail<'_>>(&mut generator, &mut objects);
    add::<RunReference<'_>>(&mut generator, &mut objects);
    add::<Outcome<'_>>(&mut generator, &mut objects);
    add::<Event<'_>>(&mut generator, &mut objects);
    add::<Question<'_>>(&mut generator, &mut objects);
    add::<Answer<'_>>(&mut generator, &mut objects);
    add::<Explanation<'_>>(&mut generator, &mut objects);
    add::<RunStats<'_>>(&mut generator, &mut objects);
    add::<AllStats>(&mut generator, &mut objects);
    add::<ApplyResult<'_>>(&mut generator, &mut objects);
    add::<Salvage<'_>>(&mut generator, &mut objects);
    add::<GcResult<'_>>(&mut generator, &mut objects);
    add::<Verification<'_>>(&mut generator, &mut objects);
    let any: Vec<Value> = objects.keys().map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
    // What objects consist of stands beside them.
    let mut definitions = generator.take_definitions(true);
    definitions.extend(objects);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The objects of Posse's API",
        "description": "What --json prints, one object on each line.",
        "anyOf": any,
        "$defs": definitions,
    })
}

/// Adds an object with its version, which [`VersionedObject`](super::VersionedObject) puts before its fields.
fn add<T: JsonSchema>(generator: &mut SchemaGenerator, objects: &mut Map<String, Value>) {
    let mut schema = T::json_schema(generator).to_value();
    schema["properties"]["version"] = json!({ "const": VERSION });
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("version".into());
    }
    objects.insert(T::schema_name().into_owned(), schema);
}
