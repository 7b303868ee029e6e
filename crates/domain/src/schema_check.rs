//! Holds values against published schemas in tests, with a validator that this project did not write.

use boon::{Compiler, Schemas};
use serde_json::Value;

const ADDRESS: &str = "http://localhost/schema";

/// What is wrong with a value; none if it is valid.
pub(crate) fn schema_problem(schema: &Value, value: &Value) -> Option<String> {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(ADDRESS, schema.clone()).expect("an address");
    let index = compiler.compile(ADDRESS, &mut schemas).expect("a schema");
    schemas.validate(value, index).err().map(|error| error.to_string())
}
