//! The schema that editors and other programs use is the one the code has.

use posse_domain::contract::Contract;

const PUBLISHED: &str = include_str!("../../../docs/schemas/contract.schema.json");

#[test]
fn the_published_schema_of_contracts_is_current() {
    let current = format!("{:#}\n", Contract::json_schema());
    // On a difference the new text is shown whole, to be copied over the old one.
    assert!(current == PUBLISHED, "docs/schemas/contract.schema.json should be:\n{current}");
}
