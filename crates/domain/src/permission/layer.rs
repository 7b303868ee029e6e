//! One source of rules. Layers are never merged.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::approval::Approvals;
use super::decide::{LayerDecision, Source};
use super::operation::{NETWORK, Operation, PATH_TOOLS};
use super::rule::{Decision, Rule, Rules};
use crate::id::AgentId;

/// The source of a layer's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "layer", rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerName {
    Operator,
    Project,
    /// Rules given to the run.
    Run,
    /// The definition of an ancestor.
    AncestorDefinition {
        agent: AgentId,
        definition: Arc<str>,
    },
    /// The contract of an ancestor.
    AncestorContract {
        agent: AgentId,
    },
    /// The agent's own definition.
    Definition {
        definition: Arc<str>,
    },
    /// The agent's own contract.
    Contract,
    /// A user's hook that decided this one call. It has no rules.
    Hook,
}

impl LayerName {
    /// Parses what `Display` writes, which is how events name a layer.
    pub fn parse(text: &str) -> Option<Self> {
        let definition = |name: &str| Arc::<str>::from(name);
        match text {
            "operator" => return Some(LayerName::Operator),
            "project" => return Some(LayerName::Project),
            "run" => return Some(LayerName::Run),
            "contract" => return Some(LayerName::Contract),
            "hook" => return Some(LayerName::Hook),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("definition ") {
            return Some(LayerName::Definition { definition: definition(name) });
        }
        let (agent, part) = text.strip_prefix("ancestor ")?.split_once(", ")?;
        let agent = agent.parse().ok()?;
        match part.strip_prefix("definition ") {
            Some(name) => Some(LayerName::AncestorDefinition { agent, definition: definition(name) }),
            None => (part == "contract").then_some(LayerName::AncestorContract { agent }),
        }
    }

    /// Whether the rules belong to a definition: an approval lifts only a definition's ask.
    fn is_definition(&self) -> bool {
        matches!(self, LayerName::AncestorDefinition { .. } | LayerName::Definition { .. })
    }
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayerName::Operator => f.write_str("operator"),
            LayerName::Project => f.write_str("project"),
            LayerName::Run => f.write_str("run"),
            LayerName::AncestorDefinition { agent, definition } => {
                write!(f, "ancestor {agent}, definition {definition}")
            }
            LayerName::AncestorContract { agent } => write!(f, "ancestor {agent}, contract"),
            LayerName::Definition { definition } => write!(f, "definition {definition}"),
            LayerName::Contract => f.write_str("contract"),
            LayerName::Hook => f.write_str("hook"),
        }
    }
}

/// One source of rules. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    pub name: LayerName,
    /// The last matching rule wins.
    pub rules: Rules,
    /// The decision where no rule matches. None means that the layer does not decide.
    pub default: Option<Decision>,
}

impl Layer {
    /// Whether this layer can ask or deny for a path.
    pub(super) fn restrains_paths(&self) -> bool {
        restrains_paths(&self.rules, self.default)
    }

    /// The decision of this layer, if it has one.
    pub fn decide(&self, approvals: &Approvals, operation: &Operation<'_>) -> Option<LayerDecision> {
        let (decision, source) = match self.rules.last_match(operation) {
            Some(rule) => (rule.decision, Source::Rule(rule.clone())),
            // A definition's default does not cover the network, and no user is asked about it while a command waits.
            // Only an approval in advance opens it.
            None if operation.tool() == NETWORK => {
                self.default?;
                match approvals.find(operation) {
                    Some(pattern) => (Decision::Allow, Source::Approval(pattern.clone())),
                    None => (Decision::Deny, Source::Default),
                }
            }
            None => (self.default?, Source::Default),
        };
        let lifted = if decision == Decision::Ask && self.name.is_definition() {
            approvals.find(operation)
        } else {
            None
        };
        let (decision, source) = match lifted {
            Some(pattern) => (Decision::Allow, Source::Approval(pattern.clone())),
            None => (decision, source),
        };
        Some(LayerDecision { layer: self.name.clone(), decision, source })
    }
}

/// Whether rules and a default can ask or deny for a path.
pub(super) fn restrains_paths(rules: &Rules, default: Option<Decision>) -> bool {
    let lowers = |rule: &Rule| rule.decision != Decision::Allow && rule.pattern.is_about_any(&PATH_TOOLS);
    default.is_some_and(|default| default != Decision::Allow) || rules.iter().any(lowers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_as_it_is_written() {
        let agent: AgentId = "k3f9ab2c.1.2".parse().expect("an id");
        let definition: Arc<str> = "my, definition".into();
        for name in [
            LayerName::Operator,
            LayerName::Project,
            LayerName::Run,
            LayerName::AncestorDefinition { agent: agent.clone(), definition: definition.clone() },
            LayerName::AncestorContract { agent },
            LayerName::Definition { definition },
            LayerName::Contract,
            LayerName::Hook,
        ] {
            assert_eq!(LayerName::parse(&name.to_string()), Some(name));
        }
        for text in ["", "hooks", "ancestor x, contract", "ancestor k3f9ab2c, rules"] {
            assert_eq!(LayerName::parse(text), None, "{text}");
        }
    }
}
