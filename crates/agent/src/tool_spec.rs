//! The description of a tool for a model.

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    /// What the tool does and when to use it.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Value,
}
