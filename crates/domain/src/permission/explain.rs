//! Explains a decision layer by layer, for `posse explain`.

use std::fmt;

use super::approval::Approvals;
use super::decide::{DecisionReason, LayerDecision, Verdict, meet, undecidable};
use super::layer::{Layer, LayerName};
use super::operation::Operation;

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

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.operation, self.verdict)?;
        if self.verdict.because == DecisionReason::ToolNotGranted {
            // Without this line the layers below suggest that one of them allows it.
            f.write_str("\nNo rule gives an agent a tool. With the tool, its rules would say:")?;
        }
        for LayerSay { layer, say } in &self.layers {
            match say {
                Some(say) => write!(f, "\n  {layer}: {}, {}", say.decision, say.source)?,
                None => write!(f, "\n  {layer}: no rule")?,
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
deny: run, by the rule `bash:git push*`
  operator: no rule
  run: deny, by the rule `bash:git push*`
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
No rule gives an agent a tool. With the tool, its rules would say:
  operator: no rule
  project: no rule
  run: no rule
  definition coder: allow, by default
  contract: no rule";
        assert_eq!(explanation.to_string(), expected);
    }
}
