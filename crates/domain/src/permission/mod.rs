//! Rules, layers and their meet: what an agent may do, decided from values alone.
//!
//! Layers are never merged. Every source of rules (operator, project, run, each ancestor, the definition, the
//! contract) stays a [`Layer`] of its own, and the answer to an [`Operation`] is the lowest of what they say.
//! An agent's [`Authority`] holds its parent's, so a child asks every layer its parent asks, and some more;
//! more layers can only lower the answer. That is the whole proof that no child, at any depth, after any
//! resume, may do what its parent may not. One merged list loses it as soon as a later, wider rule shadows an
//! ancestor's narrower one.
//!
//! Rules are for people's comfort; the boundary is the sandbox and the workspace. Still, every doubt here
//! (nobody has a say, a path with `..` or from outside, a text beyond its limit) is a deny.

mod answer;
mod approval;
mod authority;
mod decide;
mod explain;
mod layer;
mod matcher;
mod meet;
mod operation;
mod path_rules;
mod pattern;
mod project;
mod protected;
mod rule;
mod tool;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use answer::{ANSWER_REASON_MAX_BYTES, Answer, approval_hash};
pub use approval::{APPROVALS_MAX, Approvals};
pub use authority::{Authority, DefinitionLayer, RunLayers};
pub use decide::{DecisionReason, LayerDecision, Source, Verdict, decide};
pub use explain::{Explanation, LayerSay, explain};
pub use layer::{Layer, LayerName};
pub use meet::{Grant, OnAsk};
pub use operation::{Doubt, NETWORK, Operation, PATH_SPECIFIER_MAX_BYTES, PATH_TOOLS, SPECIFIER_MAX_BYTES};
pub use path_rules::PathRules;
pub use pattern::{InvalidPattern, PATTERN_MAX_BYTES, Pattern, PatternProblem};
pub use project::ProjectRules;
pub use protected::{INSTRUCTIONS, PROTECTED, instructs, protected, still_protected, write_refusal};
pub use rule::{Decision, RULES_MAX, Rule, Rules};
pub use tool::{InvalidToolName, TOOL_NAME_MAX_BYTES, ToolName, ToolSet};
