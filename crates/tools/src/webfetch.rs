//! `webfetch`: fetches a web page as text.

mod charset;
mod convert;
mod dom;
mod limits;
mod markdown;
mod page;
mod tags;

use futures::future::BoxFuture;
use posse_domain::code::Code;
use posse_domain::event::EffectClass;
use posse_domain::permission::{Approvals, Operation, Pattern};
use posse_domain::text::shorten;
use posse_egress::{Answer, Egress, EgressError, Limits, Openings, Reply, Request, Target};
use posse_engine::ports::{
    CallContext, EffectTool, PreparedEffect, Tool, ToolFailure, ToolOutput, ToolResult,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

use self::convert::Converter;
use self::page::Page;
pub(crate) use self::page::clean;
use crate::answer::ANSWER_MAX_BYTES;
use crate::input::{Check, parse};
use crate::space::inspect;
use crate::spec::{Parts, effect};

const NAME: &str = "webfetch";

/// Timeout of a call: the fetch, and the conversion to text.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Reserved for the answer's text around the page.
const FRAME_MAX_BYTES: usize = 12 * 1024;
/// Maximum length of the excerpt from an error page.
const EXCERPT_MAX_CHARS: usize = 500;
/// Maximum length of a shown title.
const TITLE_MAX_CHARS: usize = 300;
/// The `Accept` header: prefers servers that can send Markdown or plain text.
const ACCEPT: &str = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The whole URL, with `http://` or `https://`.
    url: String,
    /// The first character of the page's text to show, to go on with a page that was cut. Default 0.
    start: Option<usize>,
}

/// Creates the tool. All its network access goes through `egress`.
pub fn webfetch(egress: Egress) -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Net,
        text: include_str!("webfetch.md"),
        specifier: host_specifier,
    };
    effect::<Input>(&parts, WebFetch { egress, converter: Converter::default() })
}

/// The specifier for permission rules: the normalised host. A URL without one is not fetched.
fn host_specifier(input: &Value) -> Option<String> {
    let target = Target::parse(input.get("url")?.as_str()?).ok()?;
    Some(target.host().to_owned())
}

struct WebFetch {
    egress: Egress,
    converter: Converter,
}

impl EffectTool for WebFetch {
    fn prepare(
        &self,
        call: CallContext,
        input: Value,
    ) -> BoxFuture<'static, Result<PreparedEffect, ToolFailure>> {
        let (egress, converter) = (self.egress.clone(), self.converter.clone());
        Box::pin(async move {
            let Input { url, start } = parse(NAME, input)?;
            let target =
                Target::parse(&url).map_err(|problem| Check::of(NAME).field("url", problem.to_string()))?;
            Ok(inspect(async move { fetch(&egress, &converter, call, target, start.unwrap_or(0)).await }))
        })
    }

    fn timeout(&self, _: &Value) -> Option<Duration> {
        Some(TIMEOUT)
    }
}

async fn fetch(
    egress: &Egress,
    converter: &Converter,
    call: CallContext,
    target: Target,
    start: usize,
) -> ToolResult {
    let mut request = Request { accept: ACCEPT, ..Request::get(target) };
    let usual = Limits::default();
    request.limits.total = usual.total.min(call.limit);
    let openings = openings(call.approvals);
    match egress.send(request, &openings).await.map_err(|error| failure(&error))? {
        Reply::Elsewhere { from, to } => Ok(ToolOutput::text(elsewhere(&from, &to))),
        Reply::Answer(answer) if (200..300).contains(&answer.status) => {
            let page = converter.convert(answer.clone()).await?;
            show(&answer, &page, start)
        }
        Reply::Answer(answer) => Err(refused_by_server(converter, answer).await),
    }
}

/// The hosts that the user opened: a name by its whole name, an address also by a pattern with its prefix. A pattern
/// for names would open any name that an attacker registers.
fn openings(approvals: Approvals) -> Openings {
    Openings::by(move |target| {
        let host = target.host();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let with_port = format!("{host}:{}", target.port());
        [host, bare, &with_port].into_iter().any(|spelled| {
            let operation = Operation::new(NAME, Some(spelled));
            if target.ip().is_some() {
                return approvals.naming(&operation).is_some();
            }
            let literal = Pattern::literal(&operation);
            literal.is_ok_and(|literal| approvals.iter().any(|approved| *approved == literal))
        })
    })
}

/// Converts a network error to a failure for the model, with advice.
pub(crate) fn failure(error: &EgressError) -> ToolFailure {
    let (code, advice) = match error {
        EgressError::Refused { host, .. } => (Code::PermissionDenied, opening(host)),
        EgressError::Port { host, port } => (Code::PermissionDenied, opening(&format!("{host}:{port}"))),
        EgressError::Timeout { .. } => (Code::Timeout, " The server is too slow or does not end.".to_owned()),
        EgressError::TooLarge { .. } => {
            (Code::ToolError, " Look for a smaller page that has what you need.".to_owned())
        }
        _ => (Code::ToolError, String::new()),
    };
    ToolFailure { code, text: format!("Nothing was fetched: {error}.{advice}") }
}

fn opening(host: &str) -> String {
    format!(" Only a user can open it, with an approval of `{NAME}:{host}`.")
}

fn elsewhere(from: &Target, to: &Target) -> String {
    format!(
        "{from} redirects to another host: {to}\n[nothing was fetched from there; call `{NAME}` with that URL if you \
         want it]"
    )
}

/// The failure for an error response, with the beginning of its text.
async fn refused_by_server(converter: &Converter, answer: Answer) -> ToolFailure {
    let (status, url) = (answer.status, answer.target.clone());
    let excerpt = match converter.convert(answer).await {
        Ok(page) if !page.text.trim().is_empty() => {
            format!(" It says: {}", shorten(page.text.trim(), EXCERPT_MAX_CHARS))
        }
        _ => String::new(),
    };
    ToolFailure::failed(format!("{url} answered with status {status}.{excerpt}"))
}

fn show(answer: &Answer, page: &Page, start: usize) -> ToolResult {
    let total = page.text.chars().count();
    if start > 0 && start >= total {
        let problem = format!("is {start}, but the page's text has only {total} characters");
        return Err(Check::of(NAME).field("start", problem));
    }
    let from = page.text.char_indices().nth(start).map_or(page.text.len(), |(at, _)| at);
    let shown = beginning(&page.text[from..], ANSWER_MAX_BYTES - FRAME_MAX_BYTES);
    let end = start + shown.chars().count();
    let title = page.title.as_deref().map(|title| format!("Title: {}\n", shorten(title, TITLE_MAX_CHARS)));
    let note = match (start, end == total) {
        (_, _) if total == 0 => "the page has no text".to_owned(),
        (0, true) => "end of page".to_owned(),
        (_, true) => format!("end of page, characters {start} to {end} of {total}"),
        (_, false) => format!("characters {start} to {end} of {total}; go on with start {end}"),
    };
    let text = format!(
        "URL: {}\nStatus: {}\nType: {}\n{}\n{shown}\n[{note}]",
        answer.target,
        answer.status,
        page.kind,
        title.unwrap_or_default()
    );
    Ok(ToolOutput::text(text))
}

/// As much of the text as fits, cut at the end of a line if one is near.
fn beginning(text: &str, max_bytes: usize) -> &str {
    if text.len() <= max_bytes {
        return text;
    }
    let fits = &text[..text.floor_char_boundary(max_bytes)];
    let near = fits.rfind('\n').filter(|at| fits.len() - at < max_bytes / 10);
    near.map_or(fits, |at| &fits[..=at])
}
