//! Short constructors of rules and grants for tests.

use super::{Approvals, Decision, DefinitionLayer, Grant, Layer, LayerName, OnAsk, Rule, Rules, ToolSet};
use crate::id::RunId;

pub(super) fn run() -> RunId {
    "k3f9ab2c".parse().expect("run id")
}

pub(super) fn rules(rules: &[(&str, Decision)]) -> Rules {
    let rule =
        |&(pattern, decision): &(&str, Decision)| Rule { pattern: pattern.parse().expect(pattern), decision };
    rules.iter().map(rule).collect()
}

pub(super) fn layer(name: LayerName, listed: &[(&str, Decision)]) -> Layer {
    Layer { name, rules: rules(listed), default: None }
}

pub(super) fn approvals(patterns: &[&str]) -> Approvals {
    patterns.iter().map(|pattern| pattern.parse().expect(pattern)).collect()
}

pub(super) fn definition(name: &str, default: Decision, listed: &[(&str, Decision)]) -> DefinitionLayer {
    DefinitionLayer { name: name.into(), default, rules: rules(listed) }
}

/// A grant of these tools and nothing else.
pub(super) fn grant(tools: &[&str]) -> Grant {
    Grant {
        allowed_tools: ToolSet::parse(tools.iter().copied()).expect("tool names"),
        rules: Rules::default(),
        can_spawn_children: false,
        max_delegation_depth: 0,
        may_share_history: false,
        on_ask: OnAsk::Deny,
    }
}
