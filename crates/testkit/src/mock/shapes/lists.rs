//! The lists of models of each provider.

use serde_json::{Value, json};

use super::CREATED;

/// The list of OpenAI and of all compatible servers.
pub(in crate::mock) fn openai(models: &[String]) -> Value {
    let model = |id| json!({"id": id, "object": "model", "created": CREATED, "owned_by": "mock"});
    json!({"object": "list", "data": models.iter().map(model).collect::<Vec<_>>()})
}

pub(in crate::mock) fn anthropic(models: &[String]) -> Value {
    let model =
        |id| json!({"type": "model", "id": id, "display_name": id, "created_at": "2025-06-15T15:06:40Z"});
    json!({
        "data": models.iter().map(model).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": models.first(),
        "last_id": models.last(),
    })
}

pub(in crate::mock) fn tags(models: &[String]) -> Value {
    let details = json!({
        "parent_model": "", "format": "gguf", "family": "mock", "families": ["mock"], "parameter_size": "3.2B",
        "quantization_level": "Q4_K_M",
    });
    let model = |name| {
        json!({
            "name": name, "model": name, "modified_at": "2025-06-15T15:06:40Z", "size": 2_019_393_189_u64,
            "digest": "0".repeat(64), "details": details,
        })
    };
    json!({"models": models.iter().map(model).collect::<Vec<_>>()})
}
