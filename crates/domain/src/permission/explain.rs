//! Explains a decision layer by layer, for `posse explain`.

use std::fmt;

use super::approval::Approvals;
use super::decide::{DecisionReason, LayerDecision, Source, Verdict, meet, undecidable};
use super::layer::{Layer, LayerName};
use super::operation::{Doubt, Operation};

/// A layer and its decision, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSay {
    pub layer: LayerName,
    pub say: Option<LayerDecision>,
}

/// The decision of every layer, and the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The operation, `tool:specifier`.
    pub operation: String,
    pub layers: Vec<LayerSay>,
    /// Equals the result of [`decide`](super::decide()).
    pub verdict: Verdict,
}

pub fn explain<'l>(
    layers: impl IntoIterator<Item = &'l Layer>,
    approvals: &Approvals,
    operation: &Operation<'_>,
) -> Explanation {
    let listed =
        |layer: &Layer| LayerSay { layer: layer.name.clone(), say: layer.decide(approvals, operation) };
    let layers: Vec<LayerSay> = layers.into_iter().map(listed).collect();
    let verdict = match undecidable(approvals, operation) {
        Some(because) => Verdict::deny(because),
        None => meet(layers.iter().filter_map(|layer| layer.say.clone())),
    };
    Explanation { operation: operation.to_string(), layers, verdict }
}

impl Explanation {
    /// The verdict for the user. A verdict itself prints the words that models and journals have.
    pub fn because(&self) -> String {
        let Verdict { decision, because } = &self.verdict;
        match because {
            DecisionReason::Layer(layer, source) => {
                let owner = owner(layer);
                let source = match source {
                    Source::Rule(rule) => format!("rule `{}` of {owner}", rule.pattern),
                    Source::Default => format!("default of {owner}"),
                    Source::Approval(_) | Source::Answer | Source::HookReason(_) => {
                        format!("{owner}, {source}")
                    }
                };
                format!("{decision}: {source}")
            }
            DecisionReason::NotOwned { owns } => {
                format!("{decision}: this agent owns {owns} and cannot change other files")
            }
            // The caller says how to allow it.
            DecisionReason::Protected { name, opening: Some(_) } => {
                format!("{decision}: `{name}` is a protected name")
            }
            DecisionReason::Doubt(Doubt::NotBeneath) => {
                format!("{decision}: use a path relative to the workspace")
            }
            DecisionReason::Protected { opening: None, .. }
            | DecisionReason::NoLayerDecides
            | DecisionReason::ToolNotGranted
            | DecisionReason::Doubt(_) => self.verdict.to_string(),
        }
    }
}

/// Whose rules a layer has, for the user.
fn owner(layer: &LayerName) -> String {
    match layer {
        LayerName::Operator => "your settings".to_owned(),
        LayerName::Project => "the project's settings".to_owned(),
        LayerName::Run => "the run's options".to_owned(),
        LayerName::AncestorDefinition { agent, definition } => format!("{definition} ({agent}, an ancestor)"),
        LayerName::AncestorContract { agent } => format!("the contract of {agent}, an ancestor"),
        LayerName::Definition { definition } => format!("definition {definition}"),
        LayerName::Contract => "the agent's contract".to_owned(),
        LayerName::Hook => "a hook".to_owned(),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.operation, self.because())?;
        if self.verdict.because == DecisionReason::ToolNotGranted {
            // Without this line the layers below suggest that one of them allows it.
            f.write_str("\nThe agent does not have this tool. If it had, its rules would decide:")?;
        }
        for LayerSay { layer, say } in &self.layers {
            let owner = owner(layer);
            match say {
                Some(LayerDecision { decision, source: Source::Rule(rule), .. }) => {
                    write!(f, "\n  {owner}: {decision}, rule `{}`", rule.pattern)?;
                }
                Some(say) => write!(f, "\n  {owner}: {}, {}", say.decision, say.source)?,
                None => write!(f, "\n  {owner}: no matching rule")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Decision;
    use super::super::testing::{definition, grant, layer, rules, run};
    use super::super::{Authority, RunLayers};
    use super::*;
    use crate::id::AgentId;

    #[test]
    fn the_text_names_every_layer_and_the_deciding_rule() {
        let layers = [
            layer(LayerName::Operator, &[("webfetch", Decision::Ask)]),
            layer(LayerName::Run, &[("bash", Decision::Allow), ("bash:git push*", Decision::Deny)]),
            Layer {
                name: LayerName::Definition { definition: "coder".into() },
                rules: rules(&[]),
                default: Some(Decision::Allow),
            },
        ];
        let explanation = explain(&layers, &Approvals::none(), &Operation::parse("bash:git push origin"));
        let expected = "\
bash:git push origin
deny: rule `bash:git push*` of the run's options
  your settings: no matching rule
  the run's options: deny, rule `bash:git push*`
  definition coder: allow, by default";
        assert_eq!(explanation.to_string(), expected);
    }

    #[test]
    fn a_tool_that_the_agent_lacks_is_said_before_any_rule() {
        let coder = definition("coder", Decision::Allow, &[]);
        let authority = Authority::root(&run(), RunLayers::default(), coder, grant(&["read"]));
        let explanation = authority.explain(&Approvals::none(), &Operation::parse("write:a"));
        let expected = "\
write:a
deny: the tool is not among the agent's tools
The agent does not have this tool. If it had, its rules would decide:
  your settings: no matching rule
  the project's settings: no matching rule
  the run's options: no matching rule
  definition coder: allow, by default
  the agent's contract: no matching rule";
        assert_eq!(explanation.to_string(), expected);
    }
    #[test]
    fn the_verdict_names_the_rule_before_its_owner() {
        let agent: AgentId = "k3f9ab2c.1".parse().expect("an id");
        let ancestor = LayerName::AncestorDefinition { agent: agent.clone(), definition: "coder".into() };
        let contract = LayerName::AncestorContract { agent };
        let because = |name: LayerName, operation: &str| {
            let layers = [layer(name, &[("bash", Decision::Deny)])];
            explain(&layers, &Approvals::none(), &Operation::parse(operation)).because()
        };
        assert_eq!(because(ancestor, "bash:ls"), "deny: rule `bash` of coder (k3f9ab2c.1, an ancestor)");
        assert_eq!(
            because(contract, "bash:ls"),
            "deny: rule `bash` of the contract of k3f9ab2c.1, an ancestor"
        );
        assert_eq!(because(LayerName::Run, "read:a"), "deny: no rule matches");
        assert_eq!(because(LayerName::Run, "read:/etc/passwd"), "deny: use a path relative to the workspace");
        assert_eq!(because(LayerName::Run, "write:.npmrc"), "deny: `.npmrc` is a protected name");
        let coder = Layer {
            name: LayerName::Definition { definition: "coder".into() },
            rules: rules(&[]),
            default: Some(Decision::Allow),
        };
        let explained = explain(&[coder], &Approvals::none(), &Operation::parse("bash:ls"));
        assert_eq!(explained.because(), "allow: default of definition coder");
    }
}
