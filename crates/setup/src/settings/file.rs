//! The person's settings file. Read strictly: whatever is unknown or ill-typed is an error with its line.

use std::collections::BTreeMap;
use std::path::Path;

use posse::{OnAsk, PriceTag, Rules};
use schemars::JsonSchema;
use serde::Deserialize;

use super::hooks::RawHooks;
use super::located::{WithLine, sourced};
use super::providers::{PriceShape, ProviderName, ProviderSettings, RawProvider};
use super::sandbox::RawSandbox;
use super::search::RawSearch;
use super::workspace::{RawGc, RawWorkspace};
use super::{Settings, problem};
use crate::error::SetupError;
use crate::limit::{Limit, MoneyLimit, TimeLimit};
use crate::project_dirs;

/// Settings of a person (`~/.config/posse/settings.yaml`) or of a project (`.posse/settings.yaml`), which may only
/// narrow until the person trusts it.
// Every field here is a key that may be written, and there are no others.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Settings of Posse")]
pub(super) struct RawSettings {
    /// The model of a run that names none, as `provider/name`.
    model: Option<WithLine<String>>,
    /// Limits and defaults of runs.
    agent: Option<RawAgent>,
    /// What becomes of a question that nobody answers at once.
    on_ask: Option<WithLine<OnAsk>>,
    /// Where models are, by the first part of their names. Only in a person's own file.
    providers: Option<BTreeMap<ProviderName, WithLine<RawProvider>>>,
    /// What models cost, by their names, in dollars for a million tokens. Only in a person's own file.
    #[schemars(with = "Option<BTreeMap<String, PriceShape>>")]
    prices: Option<BTreeMap<String, WithLine<PriceTag>>>,
    /// What model traffic goes through. Only in a person's own file.
    proxy: Option<WithLine<String>>,
    /// Who is asked when an agent searches the web.
    search: Option<RawSearch>,
    /// What commands of agents see and may use.
    sandbox: Option<RawSandbox>,
    /// How workspaces are made.
    workspace: Option<RawWorkspace>,
    /// When workspaces and salvaged work go. Only in a person's own file.
    gc: Option<RawGc>,
    /// Commands that hear of what agents do, and may object.
    hooks: Option<RawHooks>,
    /// What agents may do: of the rules that match an operation the last counts.
    rules: Option<WithLine<Rules>>,
}

/// Limits and defaults of runs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "agent")]
struct RawAgent {
    /// Deepest level of sub-agents of a run that says none; 0 allows none.
    max_depth: Option<WithLine<u32>>,
    /// The depth that no run exceeds, whatever it says.
    max_orchestration_depth: Option<WithLine<u32>>,
    /// Turns of the root, halved with every level below it.
    max_turns: Option<WithLine<Limit<1>>>,
    /// Agents in the tree of a run.
    max_agents: Option<WithLine<Limit<1>>>,
    /// Tokens of the tree of a run.
    max_tokens: Option<WithLine<Limit<0>>>,
    /// Dollars of the tree of a run.
    max_usd: Option<WithLine<MoneyLimit>>,
    /// Wall time of a run.
    max_time: Option<WithLine<TimeLimit>>,
    /// How long a model or a tool may be silent.
    idle_timeout: Option<WithLine<TimeLimit>>,
    /// Calls that run at once.
    parallel: Option<WithLine<Limit<1>>>,
    /// Whether an agent may hand its conversation on to a child.
    may_share_history: Option<WithLine<bool>>,
    /// Whether the events of sub-agents are streamed to whoever follows their parent.
    include_sub_agent_events: Option<WithLine<bool>>,
}

/// Reads the settings file; one that does not exist says nothing.
pub(super) fn read(path: &Path) -> Result<Settings, SetupError> {
    match project_dirs::read(path) {
        Ok(Some(bytes)) => parse_bytes(bytes, path),
        Ok(None) => Ok(Settings::default()),
        Err(problem) => Err(unreadable(path, &problem)),
    }
}

/// Reads what a settings file holds.
pub(super) fn parse_bytes(bytes: Vec<u8>, path: &Path) -> Result<Settings, SetupError> {
    let text = String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8 text"))?;
    parse(&text, path)
}

/// The error of a file whose text cannot be had.
pub(super) fn unreadable(path: &Path, why: &str) -> SetupError {
    SetupError::usage(format!("{}: cannot read the settings: {why}", path.display()))
        .hint("fix or remove the file")
}

/// Reads the text of a settings file.
pub(super) fn parse(text: &str, path: &Path) -> Result<Settings, SetupError> {
    let options = serde_saphyr::options! { strict_booleans: true, emit_comments: false, with_snippet: false };
    let raw: Option<RawSettings> = match serde_saphyr::from_str_with_options(text, options) {
        // A file with comments alone is no YAML document at all.
        Err(serde_saphyr::Error::Eof { .. }) => None,
        read => read.map_err(|error| problem::in_file(&error, text, path))?,
    };
    let raw = raw.unwrap_or_default();
    let agent = raw.agent.unwrap_or_default();
    Ok(Settings {
        model: sourced(raw.model, path),
        max_depth: sourced(agent.max_depth, path),
        max_orchestration_depth: sourced(agent.max_orchestration_depth, path),
        max_turns: sourced(agent.max_turns, path),
        max_agents: sourced(agent.max_agents, path),
        max_tokens: sourced(agent.max_tokens, path),
        max_usd: sourced(agent.max_usd, path),
        max_time: sourced(agent.max_time, path),
        idle_timeout: sourced(agent.idle_timeout, path),
        parallel: sourced(agent.parallel, path),
        may_share_history: sourced(agent.may_share_history, path),
        include_sub_agent_events: sourced(agent.include_sub_agent_events, path),
        on_ask: sourced(raw.on_ask, path),
        base_url: None,
        providers: ProviderSettings::sourced(
            raw.providers.unwrap_or_default(),
            raw.prices.unwrap_or_default(),
            path,
        )?,
        proxy: sourced(raw.proxy, path),
        search: raw.search.unwrap_or_default().sourced(path),
        sandbox: raw.sandbox.unwrap_or_default().sourced(path),
        workspace: raw.workspace.unwrap_or_default().sourced(path),
        gc: raw.gc.unwrap_or_default().sourced(path),
        hooks: raw.hooks.unwrap_or_default().sourced(path),
        rules: sourced(raw.rules, path),
        project_rules: Vec::new(),
    })
}
