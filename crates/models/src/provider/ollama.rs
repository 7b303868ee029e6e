//! Lists the models of a local Ollama.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use crate::endpoint::Endpoint;
use crate::http::Http;

/// Timeout of the answer. The server is on this machine, and the user must not wait long for an absent one.
const PATIENCE: Duration = Duration::from_millis(1_500);

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

/// The names of the chat models that an Ollama has, the last changed first. `None` if it does not answer.
pub async fn ollama_models(endpoint: &Endpoint, http: &Http) -> Option<Vec<String>> {
    // Its native API is beside the compatible one.
    let base = endpoint.base_url.strip_suffix("/v1").unwrap_or(&endpoint.base_url);
    let url = Url::parse(&format!("{base}/api/tags")).ok()?;
    let body = http.get(url, PATIENCE).await?;
    let tags: Tags = serde_json::from_slice(&body).ok()?;
    Some(tags.models.into_iter().map(|tag| tag.name).filter(|name| !name.contains("embed")).collect())
}
