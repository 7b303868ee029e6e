//! An agent definition as data. The crate `definitions` parses files into this type.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::permission::{BASH, Decision, NETWORK, Operation, Rule};

/// Maximum length of a definition's name.
pub const DEFINITION_NAME_MAX: usize = 64;

/// Whether a definition is for roots or for children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Only as a root; never offered as a child.
    Primary,
    /// As a child or as a root.
    All,
}

/// Whether a user confirmed the content of a definition's or skill's file. Journals store the resulting decision under
/// the key `default`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Trust {
    /// No user confirmed it, or one of its rules cannot be parsed: every call that no rule decides asks a user.
    #[serde(rename = "ask", alias = "deny")]
    Untrusted,
    /// Built in, supplied by the embedder, or confirmed by the user.
    #[serde(rename = "allow")]
    Trusted,
}

impl Trust {
    /// The decision for listed tools that no rule matches.
    pub fn default_decision(self) -> Decision {
        match self {
            Self::Untrusted => Decision::Ask,
            Self::Trusted => Decision::Allow,
        }
    }
}

/// A kind of agent: its prompt, tools, rules and limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The name, `[a-z0-9_-]`.
    pub name: String,
    /// The display name.
    pub display_name: String,
    /// When to use it, for a parent's model.
    pub description: String,
    /// The system prompt.
    pub prompt: Arc<str>,
    /// The listed tools.
    pub tools: Vec<String>,
    /// The definitions that its agents may spawn. None means that they may not spawn.
    pub spawns: Option<Vec<String>>,
    /// The turn limit of its agents at the first level.
    pub max_turns: Option<u32>,
    /// The model. None means the parent's.
    pub model: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus sampling.
    pub top_p: Option<f64>,
    /// Whether it is for roots or for children.
    pub mode: Mode,
    /// Decides calls of the listed tools that no rule matches.
    #[serde(rename = "default")]
    pub trust: Trust,
    /// The permission rules.
    pub rules: Vec<Rule>,
    /// How many of its agents may run at once in a run. None means no limit.
    pub parallel: Option<u32>,
    /// The skills that its agents may use. None means every skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// Whether its agents work in the background unless the caller decides otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Whether its agents may share their conversation with children, if their parent may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_share_history: bool,
}

impl Definition {
    /// Whether the definition lists the shell tool.
    pub fn has_shell(&self) -> bool {
        self.tools.iter().any(|tool| tool == BASH)
    }

    /// Whether the definition's rules allow the network.
    pub fn opens_network(&self) -> bool {
        let network = Operation::new(NETWORK, None);
        let last = self.rules.iter().rev().find(|rule| rule.pattern.matches(&network));
        last.is_some_and(|rule| rule.decision == Decision::Allow)
    }

    /// Turns a rule that allows the network into one that asks: only a user opens the network, not a file.
    pub fn close_network(&mut self) {
        let asking = NETWORK.parse().map(|pattern| Rule { pattern, decision: Decision::Ask });
        if self.opens_network() {
            self.rules.extend(asking);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_stored_as_the_decision_that_follows_from_it() {
        for trust in [Trust::Untrusted, Trust::Trusted] {
            let stored = serde_json::to_string(&trust).expect("JSON");
            assert_eq!(stored, serde_json::to_string(&trust.default_decision()).expect("JSON"));
            assert_eq!(serde_json::from_str::<Trust>(&stored).ok(), Some(trust));
        }
        assert!(Trust::Untrusted < Trust::Trusted, "the lower of two counts");
    }
}
