//! The search providers: the request of each, and the position of the results in its response.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::json_values::has_too_many_values;
use posse_domain::scrub::Scrubber;
use posse_egress::{Limits, Redirects, Request, Target, UrlProblem};
use posse_engine::ports::{ToolFailure, ToolOutput, ToolResult};
use serde_json::{Value, json};

use super::results::{self, SearchResult};

/// Maximum number of results: the lowest limit of all providers.
pub(super) const RESULTS_MAX: usize = 20;
/// Limits of a search request.
const LIMITS: Limits = Limits {
    total: Duration::from_secs(30),
    connect: Duration::from_secs(10),
    body_max_bytes: 2 * 1024 * 1024,
};

/// The answer when no provider is configured.
const UNCONFIGURED: &str = "no search provider is set up. A user sets one in the settings file, for example \
    `search: {provider: searxng, url: \"http://localhost:8888\"}` (a SearXNG of their own, with the format `json` \
    enabled), or `search: {provider: brave}` or `search: {provider: tavily}` with the key (`search.key`, or the \
    variable that `search.key_env` names).";

/// The provider of web searches. Without one, the answer explains how to configure it.
#[derive(Clone)]
pub struct Search(Result<Arc<ConfiguredProvider>, Arc<str>>);

/// A configured provider.
pub(super) struct ConfiguredProvider {
    kind: ProviderApi,
    base: Target,
    /// Sent to the provider, and never shown.
    key: Option<String>,
    scrubber: Option<Scrubber>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProviderApi {
    Searxng,
    Brave,
    Tavily,
}

impl Default for Search {
    fn default() -> Self {
        Self::unavailable(UNCONFIGURED)
    }
}

impl Search {
    /// No provider. `why` is the answer to an agent that searches.
    pub fn unavailable(why: impl AsRef<str>) -> Self {
        Self(Err(why.as_ref().into()))
    }

    /// A SearXNG at this URL. It may be on this machine.
    pub fn searxng(url: &str) -> Result<Self, UrlProblem> {
        Self::new(ProviderApi::Searxng, url, None)
    }

    /// Brave's search API, with a key and an optional base URL.
    pub fn brave(key: impl Into<String>, url: Option<&str>) -> Result<Self, UrlProblem> {
        Self::new(ProviderApi::Brave, url.unwrap_or("https://api.search.brave.com"), Some(key.into()))
    }

    /// Tavily's search API, with a key and an optional base URL.
    pub fn tavily(key: impl Into<String>, url: Option<&str>) -> Result<Self, UrlProblem> {
        Self::new(ProviderApi::Tavily, url.unwrap_or("https://api.tavily.com"), Some(key.into()))
    }

    fn new(kind: ProviderApi, url: &str, key: Option<String>) -> Result<Self, UrlProblem> {
        let scrubber = key.as_deref().and_then(Scrubber::of);
        Ok(Self(Ok(Arc::new(ConfiguredProvider { kind, base: Target::parse(url)?, key, scrubber }))))
    }

    /// The provider, or the answer if there is none.
    pub(super) fn configured(&self) -> Result<&ConfiguredProvider, &str> {
        self.0.as_deref().map_err(|why| &**why)
    }
}

impl fmt::Debug for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.configured() {
            Ok(ConfiguredProvider { base, .. }) => write!(f, "Search({base})"),
            Err(_) => f.write_str("Search(none)"),
        }
    }
}

impl ConfiguredProvider {
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ProviderApi::Searxng => "SearXNG",
            ProviderApi::Brave => "Brave",
            ProviderApi::Tavily => "Tavily",
        }
    }

    /// Removes the key from a result, wherever the provider echoed it.
    pub(super) fn scrubbed(&self, result: ToolResult) -> ToolResult {
        let Some(scrubber) = &self.scrubber else { return result };
        match result {
            Ok(ToolOutput { text, images }) => Ok(ToolOutput { text: scrubber.cut_text(&text), images }),
            Err(ToolFailure { code, text }) => Err(ToolFailure { code, text: scrubber.cut_text(&text) }),
        }
    }

    /// The meaning of a refusal.
    pub(super) fn refused(&self) -> &'static str {
        match self.kind {
            ProviderApi::Searxng => {
                "It does not give results to programs: a user has to enable the format `json` in its settings \
                 (`search.formats`)."
            }
            ProviderApi::Brave | ProviderApi::Tavily => {
                "A user has to correct the key (`search.key`, or the variable that `search.key_env` names)."
            }
        }
    }

    /// The HTTP request of a search.
    pub(super) fn request(&self, query: &str, most: usize) -> Request {
        let key = || self.key.clone().unwrap_or_default();
        let most_text = most.to_string();
        let (target, headers, post) = match self.kind {
            ProviderApi::Searxng => {
                (self.at("/search", &[("q", query), ("format", "json")]), Vec::new(), None)
            }
            ProviderApi::Brave => (
                self.at("/res/v1/web/search", &[("q", query), ("count", &most_text)]),
                vec![("x-subscription-token", key())],
                None,
            ),
            ProviderApi::Tavily => (
                self.at("/search", &[]),
                vec![("authorization", format!("Bearer {}", key()))],
                Some(json!({"query": query, "max_results": most, "search_depth": "basic"}).to_string()),
            ),
        };
        Request {
            target,
            post,
            headers,
            accept: "application/json",
            limits: LIMITS,
            // A key is only sent to its provider, so redirects are not followed.
            redirects: Redirects::HandBack,
        }
    }

    /// The API path beneath the configured URL, which may already contain it.
    fn at(&self, path: &str, query: &[(&str, &str)]) -> Target {
        let named = self.base.path().trim_end_matches('/').ends_with(path);
        self.base.with(if named { "" } else { path }, query)
    }

    /// The results in a response. None if it is not a response to a search.
    pub(super) fn read(&self, body: &[u8]) -> Option<Vec<SearchResult>> {
        if has_too_many_values(body) {
            return None;
        }
        let answer: Value = serde_json::from_slice(body).ok()?;
        let list = match self.kind {
            // A response without pages has no such part.
            ProviderApi::Brave => answer
                .as_object()
                .map(|answer| answer.get("web").map_or(&Value::Null, |web| &web["results"]))?,
            ProviderApi::Searxng | ProviderApi::Tavily => answer.get("results")?,
        };
        let excerpt = if self.kind == ProviderApi::Brave { "description" } else { "content" };
        match list {
            Value::Null => Some(Vec::new()),
            list => Some(results::read(list.as_array()?, excerpt)),
        }
    }
}
