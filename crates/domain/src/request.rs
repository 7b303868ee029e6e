//! The one description of a run: front ends create it, the engine checks it, `run.started` stores it and a replay reads
//! it. Who watches the run and how its result is used afterwards are not part of it.
//!
//! Why it is like this: `docs/decisions/runs-request.md`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::budget::{Budget, DEFAULT_BASE_TURNS, DEFAULT_MAX_DEPTH};
use crate::contract::DEFAULT_IDLE_TIMEOUT_MS;
use crate::definition::Definition;
use crate::event::CatalogueText;
use crate::id::AgentId;
use crate::object_id::ObjectId;
use crate::permission::{Approvals, OnAsk, ProjectRules, Rules};
use crate::plan::{Plan, UnownedWriters};
use crate::skill::DiscoveredDefinitions;
use crate::text::Text;

/// The root's definition if a request names none.
pub const DEFAULT_ROOT: &str = "coder";
/// Default number of calls that may run at once in a tree.
pub const DEFAULT_PARALLEL: u32 = 32;
/// Default limit of agents in a tree.
pub const DEFAULT_MAX_AGENTS: u64 = 200;
/// Maximum length of a run's title, which is the first line of its request.
pub const RUN_TITLE_MAX_CHARS: usize = 120;

/// A run to start. [`RunTerms`] holds for the whole tree. The rest is about the root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// The user's request.
    #[serde(rename = "request")]
    pub text: Text,
    /// The name of the root's definition.
    pub definition: String,
    /// The root's model, as `provider/model`.
    pub model: String,
    pub dir: String,
    /// An id that the embedder chose. Posse does not interpret it.
    #[serde(default)]
    pub session_id: Option<String>,
    /// The root's first message, if it differs from `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<Text>,
    /// The built-in definitions and those given to this run. The run keeps them unchanged.
    pub definitions: Vec<Definition>,
    /// The definitions and skills that were discovered on the machine. Their names differ from all names in
    /// `definitions`. Runs that discovered the same share one text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueText>,
    /// The project's instructions for agents (`AGENTS.md`), which are part of every system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents_md: Option<Text>,
    /// The maximum depth of an agent.
    pub max_depth: u32,
    /// The budget of the whole tree.
    pub budget: Budget,
    /// How long a model or a tool may produce no output.
    pub idle_timeout_ms: u64,
    /// Whether the root may share its conversation with children.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_share_history: bool,
    /// How an `ask` is decided when no user attends the run.
    pub on_ask: OnAsk,
    pub terms: RunTerms,
    /// The plan that the host executes. Without a plan the root decides. The journal has it in `run.planned`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// The agent of an earlier run that the root continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<Continuation>,
}

/// An agent of an earlier run, which has ended, whose conversation and files a run begins with. The new run has all of it
/// in its own journal and refs, so that the earlier run can be removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Continuation {
    pub agent: AgentId,
    /// The conversation of the agent at its end, as JSON; `None` to begin a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Text>,
    /// The files that the run begins with; `None` for those of the user's folder, because no agent of the earlier run
    /// could change files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<ContinuedFiles>,
    /// Whether the run does the agent's work again, instead of continuing its conversation with a new request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_retry: bool,
}

/// The files of an earlier run that another one begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ContinuedFiles {
    /// Those of its result.
    Result,
    /// Those that one of its sub-agents left.
    Left {
        /// The commit that the sub-agent started from.
        base: ObjectId,
        /// The commit of the files that it left.
        commit: ObjectId,
    },
}

/// Limits and rules of the whole run, beyond the root's contract.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// The base of the turn limit by depth. None means no limit.
    pub base_turns: Option<u32>,
    /// How many calls may run at once in the tree.
    pub parallel: u32,
    /// Whether children close by themselves after integration. Otherwise their parent closes them.
    pub close_on_completion: bool,
    /// Rules from the user's settings.
    pub operator_rules: Rules,
    /// Rules given to this run.
    pub run_rules: Rules,
    /// What the user allowed in advance: `--allow`, and stored answers of "always".
    #[serde(default, skip_serializing_if = "Approvals::is_empty")]
    pub approvals: Approvals,
    /// How writers without ownership are scheduled.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub unowned_writers: UnownedWriters,
    /// A base URL that the user named for a provider in this run. It never contains a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<GivenBaseUrl>,
    /// Rules from the project's settings.
    #[serde(default, skip_serializing_if = "<[Rules]>::is_empty")]
    pub project_rules: ProjectRules,
    /// The forked skill that the root consists of. Such a root calls no model. The catalogue contains the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// The skill that the user asked the root to load. The root's prompt is its text, and the root may read its files.
    /// The catalogue contains the skill.
    #[serde(rename = "called_skill", default, skip_serializing_if = "Option::is_none")]
    pub loaded_skill: Option<String>,
    /// Whether subscribers of a task also receive the events of the sub-agents below it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub include_sub_agent_events: bool,
    /// In a replay, the name of the root's recorded model: the recorded requests of agents use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_model: Option<String>,
}

/// A provider's base URL that a user named for one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenBaseUrl {
    pub provider: String,
    pub url: String,
}

impl RunRequest {
    /// A run for this text with default limits and no rules. The caller still sets a definition, a model and a
    /// directory.
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
            continues: None,
        }
    }

    /// The definitions that were discovered on the machine, or the error of parsing them.
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
            loaded_skill: None,
            include_sub_agent_events: false,
            recorded_model: None,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_usual(unowned: &UnownedWriters) -> bool {
    *unowned == UnownedWriters::default()
}
