//! The schemas in `docs/schemas`, which editors and other programs use, match the code.

use posse_definitions::{agent_schema, skill_schema, yaml_skill_schema};

#[track_caller]
fn assert_current(file: &str, published: &str, schema: &serde_json::Value) {
    let current = format!("{schema:#}\n");
    // The message shows the whole new schema, to be copied over the old file.
    assert!(current == published, "docs/schemas/{file} should be:\n{current}");
}

#[test]
fn the_published_schema_of_agents_is_current() {
    let published = include_str!("../../../docs/schemas/agent.schema.json");
    assert_current("agent.schema.json", published, &agent_schema());
}

#[test]
fn the_published_schema_of_skills_is_current() {
    let published = include_str!("../../../docs/schemas/skill.schema.json");
    assert_current("skill.schema.json", published, &skill_schema());
}

#[test]
fn the_published_schema_of_yaml_skills_is_current() {
    let published = include_str!("../../../docs/schemas/yaml-skill.schema.json");
    assert_current("yaml-skill.schema.json", published, &yaml_skill_schema());
}
