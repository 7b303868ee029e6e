//! A tool as a model is told about it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Name, text and input schema of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its input.
    pub input_schema: Value,
}
