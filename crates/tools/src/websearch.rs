//! `websearch`: queries the search provider that a user has configured.

mod provider;
mod results;

use futures::future::BoxFuture;
use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_egress::{Answer, Egress, EgressError, Openings, Reply};
use posse_engine::ports::{
    CallContext, EffectTool, PreparedEffect, Tool, ToolFailure, ToolOutput, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

pub use self::provider::Search;
use self::provider::{ConfiguredProvider, RESULTS_MAX};
use self::results::SearchResult;
use crate::answer::{Answer as Lines, count};
use crate::input::{Check, parse};
use crate::space::inspect;
use crate::spec::{Parts, effect};

const NAME: &str = "websearch";

/// Timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(45);
/// Maximum length of a query: the lowest limit of all providers.
const QUERY_MAX_BYTES: usize = 400;
/// Default number of results.
const RESULTS_DEFAULT: usize = 8;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// What to look for.
    query: String,
    /// How many results to list. Default 8, most 20.
    max_results: Option<usize>,
}

/// Creates the tool for this provider.
pub fn websearch(egress: Egress, search: Search) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Net,
        text: include_str!("websearch.md"),
        specifier: query_specifier,
    };
    effect::<Input>(&parts, WebSearch { egress, search })
}

/// The specifier for permission rules: the query with single spaces.
fn query_specifier(input: &Value) -> Option<String> {
    Some(one_line(input.get("query")?.as_str()?))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct WebSearch {
    egress: Egress,
    search: Search,
}

impl EffectTool for WebSearch {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let (egress, search) = (self.egress.clone(), self.search.clone());
        Box::pin(async move {
            let check = Check::of(NAME);
            let Input { query, max_results } = parse(NAME, input)?;
            let query = one_line(&check.text("query", query, QUERY_MAX_BYTES)?);
            let most = check.at_least_one("max_results", max_results)?;
            let most = most.unwrap_or(RESULTS_DEFAULT).min(RESULTS_MAX);
            Ok(inspect(async move {
                let provider = search.configured().map_err(unconfigured)?;
                provider.scrubbed(run(&egress, &call, provider, &query, most).await)
            }))
        })
    }

    fn timeout(&self, _: &Value) -> Option<Duration> {
        Some(TIMEOUT)
    }
}

fn unconfigured(why: &str) -> ToolFailure {
    ToolFailure { code: Code::Unsupported, text: format!("There was no search: {why}") }
}

async fn run(
    egress: &Egress,
    call: &CallContext,
    provider: &ConfiguredProvider,
    query: &str,
    most: usize,
) -> ToolResult {
    let mut request = provider.request(query, most);
    request.limits.total = request.limits.total.min(call.limit);
    // The user named this host in the settings, so it may be on this machine. No other host is opened.
    let (host, port) = (request.target.host().to_owned(), request.target.port());
    let openings = Openings::by(move |target| target.host() == host && target.port() == port);
    let reply = egress.send(request, &openings).await.map_err(|error| failure(provider, &error))?;
    match reply {
        Reply::Elsewhere { to, .. } => Err(ToolFailure::failed(format!(
            "{} redirects to another address ({}). A user has to correct `search.url` in the settings.",
            provider.name(),
            to.host()
        ))),
        Reply::Answer(answer) if answer.status == 200 => show(provider, query, most, &answer),
        Reply::Answer(answer) => Err(ToolFailure::failed(status(provider, answer.status))),
    }
}

fn failure(provider: &ConfiguredProvider, error: &EgressError) -> ToolFailure {
    let code = if matches!(error, EgressError::Timeout { .. }) { Code::Timeout } else { Code::ToolError };
    ToolFailure { code, text: format!("{} cannot be asked: {error}.", provider.name()) }
}

/// The meaning of a status. The provider's own text is not repeated, because it may contain the key.
fn status(provider: &ConfiguredProvider, status: u16) -> String {
    let name = provider.name();
    let advice = match status {
        401 | 403 => provider.refused(),
        429 => {
            "Too many searches in a short time, or the plan is used up: go on without, or try again later."
        }
        500.. => "The provider has a problem: go on without, or try again later.",
        _ => "The search was not understood: try simpler words.",
    };
    format!("{name} answered with status {status}. {advice}")
}

fn show(provider: &ConfiguredProvider, query: &str, most: usize, answer: &Answer) -> ToolResult {
    let found = provider.read(&answer.body).ok_or_else(|| {
        ToolFailure::failed(format!(
            "{} answered with something that is not a list of results.",
            provider.name()
        ))
    })?;
    let shown: Vec<SearchResult> = found.into_iter().take(most).collect();
    if shown.is_empty() {
        return Ok(ToolOutput::text(format!("Nothing was found for `{query}`. Try other or fewer words.")));
    }
    let mut lines = Lines::default();
    let mut listed = 0;
    for SearchResult { title, url, excerpt } in &shown {
        let excerpt = if excerpt.is_empty() { String::new() } else { format!("\n   {excerpt}") };
        if !lines.line(&format!("{}. {title}\n   {url}{excerpt}", listed + 1)) {
            break;
        }
        listed += 1;
    }
    Ok(lines.close(&[format!("{} from {}", count(listed, "result"), provider.name())]))
}
