//! Generates the JSON Schema of a settings file from the table of keys.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::keys::{InProject, KEYS, Key, SECTIONS};

/// The JSON Schema of a settings file.
pub fn schema() -> Value {
    schemars::schema_for!(SettingsFile).to_value()
}

/// The type of a settings file, for its schema.
struct SettingsFile;

impl JsonSchema for SettingsFile {
    fn schema_name() -> Cow<'static, str> {
        "Settings of Posse".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        for key in KEYS {
            let (section, name) = key.in_file();
            match section {
                None => drop(properties.insert(name.to_owned(), property(key, generator))),
                Some(section) if properties.contains_key(section) => {}
                Some(section) => {
                    let meaning = SECTIONS.iter().find(|(known, _)| *known == section);
                    let meaning = format!("{}.", meaning.map_or(section, |(_, meaning)| *meaning));
                    let defined = section_schema(section, &meaning, generator);
                    generator.definitions_mut().insert(section.to_owned(), defined);
                    let reference = json_schema!({
                        "anyOf": [{"$ref": format!("#/$defs/{section}")}, {"type": "null"}],
                        "description": meaning,
                    });
                    properties.insert(section.to_owned(), reference.to_value());
                }
            }
        }
        json_schema!({
            "type": "object",
            "additionalProperties": false,
            "properties": properties,
            "description": "Settings of a user (`~/.config/posse/settings.yaml`) or of a project \
                (`.posse/settings.yaml`), which may only narrow until the user trusts it.",
        })
    }
}

fn section_schema(section: &str, meaning: &str, generator: &mut SchemaGenerator) -> Value {
    let keys = KEYS.iter().filter(|key| key.in_file().0 == Some(section));
    let properties: Map<String, Value> =
        keys.map(|key| (key.in_file().1.to_owned(), property(key, generator))).collect();
    json_schema!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "description": meaning,
    })
    .to_value()
}

fn property(key: &Key, generator: &mut SchemaGenerator) -> Value {
    let mut schema = (key.schema)(generator);
    let own = if key.in_project == InProject::Never { " Only in a user's own file." } else { "" };
    schema.insert("description".to_owned(), format!("{}.{own}", key.meaning).into());
    schema.to_value()
}
