//! The person's settings file. Read strictly: whatever is unknown or ill-typed is an error with its line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use posse::{OnAsk, PriceTag, Rules};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::providers::{ProviderName, ProviderSettings, RawProvider};
use super::sandbox::RawSandbox;
use super::search::RawSearch;
use super::workspace::{RawGc, RawWorkspace};
use super::{Origin, Settings, Sourced, problem};
use crate::error::CliError;
use crate::limit::{Limit, MoneyLimit, TimeLimit};

/// Largest settings file.
const SETTINGS_MAX_BYTES: u64 = 1024 * 1024;

/// The shape of the file: every field here is a key that may be written, and there are no others.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSettings {
    model: Option<Spanned<String>>,
    agent: Option<RawAgent>,
    on_ask: Option<Spanned<OnAsk>>,
    providers: Option<BTreeMap<ProviderName, RawProvider>>,
    prices: Option<BTreeMap<String, Spanned<PriceTag>>>,
    proxy: Option<Spanned<String>>,
    search: Option<RawSearch>,
    sandbox: Option<RawSandbox>,
    workspace: Option<RawWorkspace>,
    gc: Option<RawGc>,
    rules: Option<Rules>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAgent {
    max_depth: Option<Spanned<u32>>,
    max_orchestration_depth: Option<Spanned<u32>>,
    max_turns: Option<Spanned<Limit<1>>>,
    max_agents: Option<Spanned<Limit<1>>>,
    max_tokens: Option<Spanned<Limit<0>>>,
    max_usd: Option<Spanned<MoneyLimit>>,
    max_time: Option<Spanned<TimeLimit>>,
    idle_timeout: Option<Spanned<TimeLimit>>,
    parallel: Option<Spanned<Limit<1>>>,
}

/// Reads the settings file; one that does not exist says nothing.
pub(super) fn read(path: &Path) -> Result<Settings, CliError> {
    let unreadable = |why: String| {
        CliError::usage(format!("{}: cannot read the settings: {why}", path.display()))
            .hint("mend or remove the file")
    };
    let file = match File::open(path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Settings::default());
        }
        file => file.map_err(|error| unreadable(error.to_string()))?,
    };
    let mut bytes = Vec::new();
    file.take(SETTINGS_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > SETTINGS_MAX_BYTES {
        return Err(unreadable(format!("it has more than the {SETTINGS_MAX_BYTES} bytes accepted")));
    }
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is not UTF-8 text".to_owned()))?;
    parse(&text, path)
}

/// Reads the text of a settings file.
pub(super) fn parse(text: &str, path: &Path) -> Result<Settings, CliError> {
    let options = serde_saphyr::options! { strict_booleans: true, emit_comments: false, with_snippet: false };
    let raw: Option<RawSettings> = match serde_saphyr::from_str_with_options(text, options) {
        // A file with comments alone is no YAML document at all.
        Err(serde_saphyr::Error::Eof { .. }) => None,
        read => read.map_err(|error| problem::in_file(&error, text, path))?,
    };
    let RawSettings { model, agent, on_ask, providers, prices, proxy, search, sandbox, workspace, gc, rules } =
        raw.unwrap_or_default();
    let agent = agent.unwrap_or_default();
    Ok(Settings {
        model: sourced(model, path),
        max_depth: sourced(agent.max_depth, path),
        max_orchestration_depth: sourced(agent.max_orchestration_depth, path),
        max_turns: sourced(agent.max_turns, path),
        max_agents: sourced(agent.max_agents, path),
        max_tokens: sourced(agent.max_tokens, path),
        max_usd: sourced(agent.max_usd, path),
        max_time: sourced(agent.max_time, path),
        idle_timeout: sourced(agent.idle_timeout, path),
        parallel: sourced(agent.parallel, path),
        on_ask: sourced(on_ask, path),
        base_url: None,
        providers: ProviderSettings::sourced(
            providers.unwrap_or_default(),
            prices.unwrap_or_default(),
            path,
        )?,
        proxy: sourced(proxy, path),
        search: search.unwrap_or_default().sourced(path),
        sandbox: sandbox.unwrap_or_default().sourced(path),
        workspace: workspace.unwrap_or_default().sourced(path),
        gc: gc.unwrap_or_default().sourced(path),
        rules: rules.unwrap_or_default(),
    })
}

/// A value with where it was written.
pub(super) fn sourced<T>(value: Option<Spanned<T>>, path: &Path) -> Option<Sourced<T>> {
    value.map(|Spanned { value, referenced, .. }| Sourced {
        value,
        origin: Origin::File { path: path.to_owned(), line: referenced.line() },
    })
}
