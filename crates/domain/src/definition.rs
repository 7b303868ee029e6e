//! A kind of agent, as data. Reading definition files into this type is the agent crate's work.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::permission::{Decision, NETWORK, Operation, Rule};

/// Longest name of a definition.
pub const DEFINITION_NAME_MAX: usize = 64;

/// The tool that runs commands.
const SHELL_TOOL: &str = "bash";

/// Who may use a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only as a root; never offered as a child.
    Primary,
    /// As a child or as a root.
    All,
}

/// What an agent of this kind is, can do and is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Its name, `[a-z0-9_-]`.
    pub name: String,
    /// Its name for people.
    pub display_name: String,
    /// When to use it, as a parent's model reads it.
    pub description: String,
    /// Its system prompt.
    pub prompt: Arc<str>,
    /// The tools it lists.
    pub tools: Vec<String>,
    /// The definitions it may spawn; none means it may not spawn.
    pub spawns: Option<Vec<String>>,
    /// Its own turn limit, meant for the first level.
    pub max_turns: Option<u32>,
    /// Its model; none is the parent's.
    pub model: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Who may use it.
    pub mode: Mode,
    /// What holds for the tools it lists where no rule matches.
    pub default: Decision,
    /// Its rules.
    pub rules: Vec<Rule>,
    /// How many of its agents may run at once in a run; none does not limit.
    pub parallel: Option<u32>,
    /// The skills it may use; none means every skill there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// Whether its agents work in the background unless the caller says otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Whether its agents may give their conversation to children, if their parent may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_share_history: bool,
}

impl Definition {
    /// Whether it lists the tool that runs commands.
    pub fn has_shell(&self) -> bool {
        self.tools.iter().any(|tool| tool == SHELL_TOOL)
    }

    /// Whether its rules open the network.
    pub fn opens_network(&self) -> bool {
        let network = Operation::new(NETWORK, None);
        let last = self.rules.iter().rev().find(|rule| rule.pattern.matches(&network));
        last.is_some_and(|rule| rule.decision == Decision::Allow)
    }

    /// Lets it ask for the network where its rules would open it: what a file says is not what a person says.
    pub fn close_network(&mut self) {
        let asking = NETWORK.parse().map(|pattern| Rule { pattern, decision: Decision::Ask });
        if self.opens_network() {
            self.rules.extend(asking);
        }
    }
}
