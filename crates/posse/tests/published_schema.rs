//! The schema that other programs use is the one the code has.

#[test]
fn the_published_schema_of_the_api_is_current() {
    let published = include_str!("../../../docs/schemas/api.schema.json");
    let current = format!("{:#}\n", posse::api::json_schema());
    // On a difference the new text is shown whole, to be copied over the old one.
    assert!(current == published, "docs/schemas/api.schema.json should be:\n{current}");
}
