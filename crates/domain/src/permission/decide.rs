//! Decides an operation: the meet of all layers that have a decision about it.
//!
//! Why it is like this: `docs/decisions/permission-rules-bind-effects.md`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::approval::Approvals;
use super::layer::{Layer, LayerName};
use super::operation::{Doubt, Operation};
use super::pattern::Pattern;
use super::protected::closed;
use super::rule::{Decision, Rule};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerDecision {
    pub layer: LayerName,
    pub decision: Decision,
    pub source: Source,
}

/// What a layer's decision is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The last matching rule.
    Rule(Rule),
    /// No rule matches, and the layer has a default.
    Default,
    /// The layer asks, and a user's approval in advance lifts it.
    Approval(Pattern),
    /// The layer asks, and a user allowed this one call.
    Answer,
    /// A hook's decision about this one call, with its reason.
    HookReason(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Rule(rule) => write!(f, "by the rule `{}`", rule.pattern),
            Source::Default => f.write_str("by default"),
            Source::Approval(pattern) => write!(f, "because a user allowed `{pattern}`"),
            Source::Answer => f.write_str("because a user allowed this call"),
            Source::HookReason(reason) => write!(f, "which said: {reason}"),
        }
    }
}

/// A decision and its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    pub because: DecisionReason,
}

/// What a verdict is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionReason {
    /// The first layer, in layer order, with the lowest decision.
    Layer(LayerName, Source),
    /// No layer has a decision.
    NoLayerDecides,
    /// The tool is not in the agent's grant.
    ToolNotGranted,
    /// The operation cannot be decided.
    Doubt(Doubt),
    /// It would change a path that the agent does not own.
    NotOwned {
        /// The paths that the agent owns.
        owns: String,
    },
    /// It would write to a protected name.
    Protected {
        /// The protected name, as the path begins.
        name: Arc<str>,
        /// The approval that would allow it. None if no approval can.
        opening: Option<Pattern>,
    },
}

impl Verdict {
    pub(super) fn deny(because: DecisionReason) -> Self {
        Self { decision: Decision::Deny, because }
    }

    /// The verdict of a hook about one call.
    pub fn of_hook(decision: Decision, reason: String) -> Self {
        Self { decision, because: DecisionReason::Layer(LayerName::Hook, Source::HookReason(reason)) }
    }

    /// The lower of two verdicts. Of equals `other`, because it was decided later.
    #[must_use]
    pub fn meet(self, other: Self) -> Self {
        if self.decision < other.decision { self } else { other }
    }

    /// The layer that decided, if one did.
    pub fn by(&self) -> Option<&LayerName> {
        match &self.because {
            DecisionReason::Layer(name, _) => Some(name),
            DecisionReason::NoLayerDecides
            | DecisionReason::ToolNotGranted
            | DecisionReason::Doubt(_)
            | DecisionReason::NotOwned { .. }
            | DecisionReason::Protected { .. } => None,
        }
    }

    /// The rule that decided, if one did.
    pub fn rule(&self) -> Option<&Rule> {
        match &self.because {
            DecisionReason::Layer(_, Source::Rule(rule)) => Some(rule),
            _ => None,
        }
    }

    /// The hook's reason, if a hook decided.
    pub fn hook_reason(&self) -> Option<&str> {
        match &self.because {
            DecisionReason::Layer(_, Source::HookReason(reason)) => Some(reason),
            _ => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.decision)?;
        match &self.because {
            DecisionReason::Layer(name, source) => write!(f, "{name}, {source}"),
            DecisionReason::NoLayerDecides => f.write_str("no rule matches"),
            DecisionReason::ToolNotGranted => f.write_str("the tool is not among the agent's tools"),
            DecisionReason::Doubt(doubt) => doubt.fmt(f),
            DecisionReason::NotOwned { owns } => {
                write!(f, "the agent owns {owns} and may change nothing else")
            }
            DecisionReason::Protected { name, opening: Some(opening) } => {
                write!(f, "`{name}` is a protected name; a user opens it by allowing `{opening}`")
            }
            DecisionReason::Protected { name, opening: None } => {
                write!(f, "`{name}` is a protected name, and nothing opens it to file tools")
            }
        }
    }
}

/// Decides an operation: the lowest decision of the layers. An undecidable operation is denied.
pub fn decide<'l>(
    layers: impl IntoIterator<Item = &'l Layer>,
    approvals: &Approvals,
    operation: &Operation<'_>,
) -> Verdict {
    match undecidable(approvals, operation) {
        Some(because) => Verdict::deny(because),
        None => meet(layers.into_iter().filter_map(|layer| layer.decide(approvals, operation))),
    }
}

/// The reason to deny an operation before any layer decides.
pub(super) fn undecidable(approvals: &Approvals, operation: &Operation<'_>) -> Option<DecisionReason> {
    operation.doubt().map(DecisionReason::Doubt).or_else(|| closed(approvals, operation))
}

/// The lowest of the decisions. Of equals the first.
pub(super) fn meet(says: impl IntoIterator<Item = LayerDecision>) -> Verdict {
    let lowest = says.into_iter().reduce(|low, say| if say.decision < low.decision { say } else { low });
    match lowest {
        Some(say) => {
            Verdict { decision: say.decision, because: DecisionReason::Layer(say.layer, say.source) }
        }
        None => Verdict::deny(DecisionReason::NoLayerDecides),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{approvals, layer, rules};
    use super::*;

    fn definition(default: Decision) -> Layer {
        let name = LayerName::Definition { definition: "coder".into() };
        Layer { name, rules: rules(&[]), default: Some(default) }
    }

    #[test]
    fn the_lowest_say_counts_and_is_named() {
        let layers = [
            layer(LayerName::Operator, &[("bash:git *", Decision::Ask)]),
            layer(LayerName::Run, &[("bash:git push*", Decision::Deny)]),
            definition(Decision::Allow),
            layer(LayerName::Contract, &[("bash:git push*", Decision::Deny)]),
        ];
        let verdict = decide(&layers, &Approvals::none(), &Operation::parse("bash:git push origin"));
        assert_eq!(verdict.decision, Decision::Deny);
        assert_eq!(verdict.by(), Some(&LayerName::Run), "the first that reaches the lowest");
        assert_eq!(verdict.rule().map(ToString::to_string).as_deref(), Some("bash:git push* -> deny"));
        assert_eq!(verdict.to_string(), "deny: run, by the rule `bash:git push*`");
        let verdict = decide(&layers, &Approvals::none(), &Operation::parse("bash:git log"));
        assert_eq!((verdict.decision, verdict.by()), (Decision::Ask, Some(&LayerName::Operator)));
        let verdict = decide(&layers, &Approvals::none(), &Operation::parse("bash:ls"));
        assert_eq!(verdict.to_string(), "allow: definition coder, by default");
        assert_eq!(verdict.rule(), None);
    }

    #[test]
    fn a_hook_can_lower_a_verdict_and_never_raise_it() {
        let hook = |decision| Verdict::of_hook(decision, "not today".to_owned());
        for (rules, said, lowest) in [
            (Decision::Allow, Decision::Ask, Decision::Ask),
            (Decision::Allow, Decision::Deny, Decision::Deny),
            (Decision::Ask, Decision::Allow, Decision::Ask),
            (Decision::Deny, Decision::Ask, Decision::Deny),
            (Decision::Deny, Decision::Allow, Decision::Deny),
        ] {
            let verdict = decide([&definition(rules)], &Approvals::none(), &Operation::parse("bash:ls"));
            assert_eq!(verdict.meet(hook(said)).decision, lowest, "{rules} and {said}");
        }
        assert_eq!(hook(Decision::Ask).to_string(), "ask: hook, which said: not today");
    }

    #[test]
    fn a_layer_without_a_match_has_no_say() {
        let layers = [layer(LayerName::Operator, &[("read", Decision::Allow)])];
        let none = Approvals::none();
        assert_eq!(decide(&layers, &none, &Operation::parse("read:a")).decision, Decision::Allow);
        let verdict = decide(&layers, &none, &Operation::parse("bash:ls"));
        assert_eq!(verdict, Verdict::deny(DecisionReason::NoLayerDecides));
        assert_eq!(decide([], &none, &Operation::parse("read:a")).decision, Decision::Deny);
    }

    #[test]
    fn what_cannot_be_decided_is_denied_whatever_the_layers_say() {
        let layers = [definition(Decision::Allow)];
        let verdict = decide(&layers, &approvals(&["read"]), &Operation::parse("read:a/../b"));
        assert_eq!(verdict, Verdict::deny(DecisionReason::Doubt(Doubt::ParentDirectory)));
    }

    #[test]
    fn an_approval_lifts_an_ask_of_the_definition_only() {
        let operation = Operation::parse("bash:make");
        let allowed = approvals(&["bash:make"]);
        let asking = definition(Decision::Ask);
        let verdict = decide([&asking], &allowed, &operation);
        assert_eq!(verdict.to_string(), "allow: definition coder, because a user allowed `bash:make`");
        assert_eq!(decide([&asking], &allowed, &Operation::parse("bash:make x")).decision, Decision::Ask);
        for (other, lowest) in [(Decision::Ask, Decision::Ask), (Decision::Deny, Decision::Deny)] {
            let run = layer(LayerName::Run, &[("bash", other)]);
            assert_eq!(decide([&run, &asking], &allowed, &operation).decision, lowest);
        }
        assert_eq!(decide([&definition(Decision::Deny)], &allowed, &operation).decision, Decision::Deny);
    }
}
