//! How much of an answer is kept as JSON values, which take far more memory than the bytes that they came as.

use posse_domain::json_values::{JSON_VALUES_MAX, has_too_many_values, values_of};
use serde_json::{Map, Value};

use super::Problem;

/// An error if one event, or an answer that came as one, has too many values to be read.
pub(crate) fn check_values(json: &[u8]) -> Result<(), Problem> {
    if has_too_many_values(json) { Err(too_many()) } else { Ok(()) }
}

/// Counts the values of all events together that are kept until the answer is whole.
#[derive(Debug, Default)]
pub(crate) struct BufferedValues(usize);

impl BufferedValues {
    /// A value that is kept.
    pub(crate) fn value(&mut self, value: &Value) -> Result<(), Problem> {
        self.add(values_of(value))
    }

    /// The fields of one.
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
