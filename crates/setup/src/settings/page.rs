//! Generates the table of `docs/settings.md` from the rows.

use serde_json::Value;

use super::keys::{InProject, KEYS, Key};
use super::{schema, variables};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/settings.schema.json");
/// The marks before and after the table in the page.
const BEGIN: &str = "<!-- The table is made from crates/setup/src/settings/keys.rs. -->\n";
const END: &str = "<!-- End of the table. -->\n";
/// The command that updates the generated files.
const UPDATE: &str = "cargo test -p posse-setup --lib -- --ignored write_the_generated_files";

fn table() -> String {
    let head = "| key | meaning | type | default | variable | flag | in a project |\n|---|---|---|---|---|---|---|\n";
    let schema = schema();
    KEYS.iter().fold(head.to_owned(), |table, key| table + &row(key, &schema))
}

/// The type of a key's value in a few words.
fn type_words(key: &Key, schema: &Value) -> String {
    let (section, name) = key.in_file();
    let parent = section.map_or(schema, |section| &schema["$defs"][section]);
    let value = &parent["properties"][name];
    let reference = value["anyOf"][0]["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    let value = reference.map_or(value, |name| &schema["$defs"][name]);
    let words = match &value["type"] {
        Value::Array(types) => types[0].as_str(),
        one => one.as_str(),
    };
    let choices = value["enum"].as_array().map(|choices| {
        choices
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("`{word}`"))
            .collect::<Vec<_>>()
            .join(", ")
    });
    let described =
        value["description"].as_str().filter(|_| words != Some("array") && words != Some("object"));
    match (choices, words, reference.and(described)) {
        (Some(choices), ..) => choices,
        (None, _, Some(described)) => described.to_owned(),
        (None, Some("string"), _) => "text".to_owned(),
        (None, Some("integer"), _) => "whole number".to_owned(),
        (None, Some("array"), _) => "list".to_owned(),
        (None, Some("object"), _) => "map".to_owned(),
        (None, Some("boolean"), _) => "`true`, `false`".to_owned(),
        (None, other, _) => other.unwrap_or("any").to_owned(),
    }
}

fn row(key: &Key, schema: &Value) -> String {
    let default = key.default();
    let default = match (default.words, &default.value) {
        (Some(words), _) => words.to_owned(),
        (None, Value::Null) => "none".to_owned(),
        (None, Value::Array(list)) if list.is_empty() => "none".to_owned(),
        (None, Value::String(text)) => format!("`{text}`"),
        (None, other) => format!("`{other}`"),
    };
    let variable = if key.check("").is_err_and(|problem| problem == super::field::FILE_ONLY) {
        "-".to_owned()
    } else {
        format!("`{}`", variables::variable(key.name))
    };
    let flag = key.flag.map_or_else(|| "-".to_owned(), |flag| format!("`{}`", flag.name));
    let in_project = match key.in_project {
        InProject::Lowers => "lowers",
        InProject::Narrows => "narrows",
        InProject::Trusted => "once trusted",
        InProject::Never => "never",
    };
    let value_type = type_words(key, schema);
    format!(
        "| `{}` | {} | {value_type} | {default} | {variable} | {flag} | {in_project} |\n",
        key.name, key.meaning
    )
}

/// The page with its table replaced by the current one.
fn page(published: &str) -> String {
    let (before, rest) = published.split_once(BEGIN).expect("the mark before the table");
    let (_, after) = rest.split_once(END).expect("the mark after the table");
    format!("{before}{BEGIN}{}{END}{after}", table())
}

#[test]
fn the_page_has_the_table_of_the_rows() {
    let published = std::fs::read_to_string(PAGE).expect("the page");
    assert!(page(&published) == published, "docs/settings.md is not current; run `{UPDATE}`");
}

#[test]
fn the_published_schema_is_current() {
    let published = std::fs::read_to_string(SCHEMA).expect("the schema");
    let current = format!("{:#}\n", schema());
    assert!(current == published, "docs/schemas/settings.schema.json is not current; run `{UPDATE}`");
}

#[test]
#[ignore = "writes docs/settings.md and the schema from the rows"]
fn write_the_generated_files() {
    let published = std::fs::read_to_string(PAGE).expect("the page");
    std::fs::write(PAGE, page(&published)).expect("written");
    std::fs::write(SCHEMA, format!("{:#}\n", schema())).expect("written");
}
