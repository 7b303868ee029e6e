//! Limits the parts of an answer that are kept as JSON values, which need far more memory than their bytes.

use posse_domain::json_values::{JSON_VALUES_MAX, has_too_many_values, values_of};
use serde_json::{Map, Value};

use super::Problem;

/// Fails if one event, or an answer that came as a whole, has too many values to be parsed.
pub(crate) fn check_values(json: &[u8]) -> Result<(), Problem> {
    if has_too_many_values(json) { Err(too_many()) } else { Ok(()) }
}

/// Counts the values of all events together that are kept until the answer is complete.
#[derive(Debug, Default)]
pub(crate) struct BufferedValues(usize);

impl BufferedValues {
    /// Counts a value that is kept.
    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Problem> {
        self.add(values_of(value))
    }

    pub(crate) fn fields(&mut self, fields: &Map<String, Value>) -> Result<(), Problem> {
        self.add(fields.values().map(values_of).sum())
    }

    fn add(&mut self, values: usize) -> Result<(), Problem> {
        self.0 = self.0.saturating_add(values);
        if self.0 > JSON_VALUES_MAX { Err(too_many()) } else { Ok(()) }
    }
}

fn too_many() -> Problem {
    Problem::cut(format!("the answer has more than {JSON_VALUES_MAX} JSON values"))
}
