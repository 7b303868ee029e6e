//! Permission rules, layers and their meet: decides what an agent may do, from values alone.
//!
//! Layers are never merged. Every source of rules (operator, project, run, each ancestor, the definition, the contract)
//! stays a separate [`Layer`], and the decision about an [`Operation`] is the lowest of theirs. An agent's
//! [`Authority`] contains its parent's, so a child has all layers of its parent and some more, and more layers can only
//! lower the decision. That proves that no child, at any depth, after any resume, may do what its parent may not. One
//! merged list would lose this as soon as a later, wider rule shadows an ancestor's narrower one.
//!
//! Rules are a convenience for users. The security boundary is the sandbox and the workspace. Still, every doubt here
//! (no layer decides, a path with `..` or from outside, a text beyond its limit) is a deny.

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
pub use operation::{
    BASH, Doubt, NETWORK, Operation, PATH_SPECIFIER_MAX_BYTES, PATH_TOOLS, SPECIFIER_MAX_BYTES,
};
pub use path_rules::PathRules;
pub use pattern::{InvalidPattern, PATTERN_MAX_BYTES, Pattern, PatternProblem};
pub use project::ProjectRules;
pub use protected::{INSTRUCTIONS, PROTECTED, instructs, protected, still_protected, write_refusal};
pub use rule::{Decision, RULES_MAX, Rule, Rules};
pub use tool::{InvalidToolName, TOOL_NAME_MAX_BYTES, ToolName, ToolSet};
