//! What models say: replies with tool calls.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::Text;

/// One call that a model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The model's id of the call, unique in its reply once the reply was accepted.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments. A string is text that did not parse as JSON, kept as the model wrote it.
    pub input: Value,
}

/// One reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The text; may be empty.
    pub text: Text,
    /// The calls, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
}
