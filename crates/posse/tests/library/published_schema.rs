//! The published schema equals the one that the code generates.

#[test]
fn the_published_schema_of_the_api_is_current() {
    let published = include_str!("../../../../docs/schemas/api.schema.json");
    let current = format!("{:#}\n", posse::api::json_schema());
    // On a difference the whole new text is shown, to be copied over the old one.
    assert!(current == published, "docs/schemas/api.schema.json should be:\n{current}");
}
