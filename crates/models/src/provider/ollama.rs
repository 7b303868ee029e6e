//! Asks a local Ollama which models it has.

use std::time::Duration;

use reqwest::Url;
use serde::Deserialize;

use crate::endpoint::Endpoint;
use crate::http::Http;

/// How long it may take to answer: it is on this machine, or the person waits for nothing.
const PATIENCE: Duration = Duration::from_millis(1_500);

#[derive(Deserialize)]
struct Tags {
    models: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

/// The names of the models that an Ollama has, the last changed first, as far as they can chat; none if nobody answers
/// there.
pub async fn ollama_models(endpoint: &Endpoint, http: &Http) -> Option<Vec<String>> {
    // Its own interface is beside the compatible one.
    let base = endpoint.base_url.strip_suffix("/v1").unwrap_or(&endpoint.base_url);
    let url = Url::parse(&format!("{base}/api/tags")).ok()?;
    let body = http.get(url, PATIENCE).await?;
    let tags: Tags = serde_json::from_slice(&body).ok()?;
    Some(tags.models.into_iter().map(|tag| tag.name).filter(|name| !name.contains("embed")).collect())
}
