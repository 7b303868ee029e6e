//! A run as it is asked for: the one description that front ends make, that the engine checks, that `run.started` keeps and
//! that a replay reads. Who watches the run and what becomes of its result afterwards is no part of it.
//!
//! Why it is like this: `docs/decisions/runs-request.md`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH};
use crate::contract::DEFAULT_IDLE_TIMEOUT_MS;
use crate::definition::Definition;
use crate::event::CatalogueText;
use crate::permission::{Approvals, OnAsk, ProjectRules, Rules};
use crate::plan::{Plan, UnownedWriters};
use crate::skill::DiscoveredDefinitions;
use crate::text::Text;

/// The definition of a root for which a request names none.
pub const DEFAULT_ROOT: &str = "coder";
/// Calls that may run at once in a tree, unless the request says otherwise.
pub const DEFAULT_PARALLEL: u32 = 32;
/// Agents that a tree may have in all, unless the request says otherwise.
pub const DEFAULT_MAX_AGENTS: u64 = 200;

/// A run to start. The part in [`RunTerms`] holds for the whole tree; the rest says what the root does, and with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// What the user asks for.
    #[serde(rename = "request")]
    pub text: Text,
    /// The root's definition.
    pub definition: String,
    /// The root's model, `provider/model`.
    pub model: String,
    /// The working directory.
    pub dir: String,
    /// The embedder's session, opaque.
    #[serde(default)]
    pub session_id: Option<String>,
    /// What the root's first message says, where that is not the text of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Text>,
    /// The definitions that the run can use, built in or given to this run. The run keeps them as they are now.
    pub definitions: Vec<Definition>,
    /// The definitions and skills that were discovered on the machine; none has the name of one of `definitions`. Runs
    /// that discovered the same share one text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueText>,
    /// The project's instructions for agents (`AGENTS.md`), part of every system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_md: Option<Text>,
    /// Deepest depth that an agent may have.
    pub max_depth: u32,
    /// What the whole tree may spend.
    pub budget: Budget,
    /// How long a model or a tool may be silent.
    pub idle_timeout_ms: u64,
    /// Whether the root may give its conversation to children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_share_history: bool,
    /// What becomes of an `ask` that no person attends to.
    pub on_ask: OnAsk,
    /// Limits and rules of the whole run.
    pub terms: RunTerms,
    /// The plan that the host carries out; without one the root decides. In a journal it is in `run.planned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
}

/// How a run is limited beyond its root's contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// Base of the turn limit by depth; none does not limit.
    pub base_turns: Option<u32>,
    /// How many calls may run at once in the tree.
    pub parallel: u32,
    /// Whether children close by themselves once integrated; otherwise their parent closes them.
    pub close_on_completion: bool,
    /// Rules of the user's settings.
    pub operator_rules: Rules,
    /// Rules of the run.
    pub run_rules: Rules,
    /// What a person allowed in advance: `--allow`, and what they stored by answering "always".
    #[serde(default, skip_serializing_if = "Approvals::is_empty")]
    pub approvals: Approvals,
    /// What becomes of writers that own nothing of their own.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub unowned_writers: UnownedWriters,
    /// Where a provider is for this run, if a person named a place. Never with a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<GivenBaseUrl>,
    /// Rules of the project's settings.
    #[serde(default, skip_serializing_if = "<[Rules]>::is_empty")]
    pub project_rules: ProjectRules,
    /// The forked skill that is all the root does: no model is asked there. One of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The skill that a person had the root take in: the root's prompt is its text, and the root may read its files. One
    /// of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called_skill: Option<String>,
    /// Whether a task's followers also get the events of the sub-agents below it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_sub_agent_events: bool,
}

/// Where a provider is, as a person named it for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenBaseUrl {
    /// The provider.
    pub provider: String,
    /// Its base URL.
    pub url: String,
}

impl RunRequest {
    /// A run for this text, with the usual limits and no rules. A definition, a model and a directory are still to be set.
    pub fn new(text: impl Into<Text>) -> Self {
        Self {
            text: text.into(),
            definition: DEFAULT_ROOT.to_owned(),
            model: String::new(),
            dir: String::new(),
            session_id: None,
            prompt: None,
            definitions: Vec::new(),
            catalogue: None,
            agents_md: None,
            max_depth: DEFAULT_MAX_DEPTH,
            budget: Budget { agents: Some(DEFAULT_MAX_AGENTS), ..Budget::NONE },
            idle_timeout_ms: DEFAULT_IDLE_TIMEOUT_MS,
            may_share_history: false,
            on_ask: OnAsk::Deny,
            terms: RunTerms::default(),
            plan: None,
        }
    }

    /// What was discovered on the machine; the error says why that cannot be known.
    pub fn discovered(&self) -> Result<Arc<DiscoveredDefinitions>, String> {
        self.catalogue.as_ref().map_or_else(|| Ok(Arc::default()), CatalogueText::read)
    }
}

impl Default for RunTerms {
    fn default() -> Self {
        Self {
            base_turns: Some(DEFAULT_BASE_TURNS),
            parallel: DEFAULT_PARALLEL,
            close_on_completion: true,
            operator_rules: Rules::default(),
            run_rules: Rules::default(),
            approvals: Approvals::none(),
            unowned_writers: UnownedWriters::default(),
            base_url: None,
            project_rules: ProjectRules::default(),
            skill: None,
            called_skill: None,
            include_sub_agent_events: false,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_usual(unowned: &UnownedWriters) -> bool {
    *unowned == UnownedWriters::default()
}
