//! The schemas in `docs/schemas`, which editors and other programs use, match the code.

use posse_domain::contract::Contract;
use posse_domain::plan::Plan;

#[track_caller]
fn assert_current(file: &str, published: &str, schema: &serde_json::Value) {
    let current = format!("{schema:#}\n");
    // The message shows the whole new schema, to be copied over the old file.
    assert!(current == published, "docs/schemas/{file} should be:\n{current}");
}

#[test]
fn the_published_schema_of_contracts_is_current() {
    let published = include_str!("../../../docs/schemas/contract.schema.json");
    assert_current("contract.schema.json", published, &Contract::json_schema());
}

#[test]
fn the_published_schema_of_plans_is_current() {
    let published = include_str!("../../../docs/schemas/plan.schema.json");
    assert_current("plan.schema.json", published, &Plan::json_schema());
}
