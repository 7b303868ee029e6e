//! A user's answer to one question.
//!
//! An `ask` of any layer is a question about one call. The answer decides exactly that call: it is bound to a
//! [hash](approval_hash) of the tool, its arguments and the agent's contract, and is used once. It lifts the `ask` of
//! every layer, because they all ask the same question. It never lifts a deny, because a layer that denies asks
//! nothing. [`Answer::Always`] also adds the operation's exact literal to the run's [`Approvals`](super::Approvals),
//! which lift less: only a definition's `ask`.
//!
//! Why it is like this: `docs/decisions/permission-answers.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decide::{DecisionReason, Source, Verdict};
use super::rule::Decision;
use crate::canonical::canonical_json;
use crate::hash::Hash;

/// Maximum length of the reason that is stored with an answer.
pub const ANSWER_REASON_MAX_BYTES: usize = 1024;

/// A user's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Allows this call.
    Once,
    /// Allows this call, and from now on the same operation wherever a definition asks about it.
    Always,
    /// Denies this call.
    Deny {
        /// The reason, which the agent reads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl Answer {
    pub fn allows(&self) -> bool {
        !matches!(self, Answer::Deny { .. })
    }
}

/// The hash that an answer is bound to: the tool, its arguments, and the contract of the calling agent.
pub fn approval_hash(tool: &str, arguments: &serde_json::Value, contract: &Hash) -> Hash {
    let arguments = canonical_json(arguments);
    Hash::of_parts([tool.as_bytes(), arguments.as_bytes(), contract.as_bytes()])
}

impl Verdict {
    /// The verdict after a user allowed this operation: an `ask` becomes an allow, whichever layer asked. The verdict
    /// is the lowest of all layers, so an `ask` means that no layer denies.
    #[must_use]
    pub fn consented(self) -> Self {
        match (self.decision, self.because) {
            (Decision::Ask, DecisionReason::Layer(layer, _)) => {
                Self { decision: Decision::Allow, because: DecisionReason::Layer(layer, Source::Answer) }
            }
            (decision, because) => Self { decision, because },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_approval_is_of_one_tool_one_input_and_one_contract() {
        let (contract, input) = (Hash::of(b"contract"), json!({"command": "git push", "timeout_ms": 5}));
        let approved = approval_hash("bash", &input, &contract);
        let reordered = serde_json::from_str(r#"{"timeout_ms": 5, "command": "git push"}"#).expect("json");
        assert_eq!(approval_hash("bash", &reordered, &contract), approved);
        for (tool, input, contract) in [
            ("bash2", input.clone(), contract),
            ("bash", json!({"command": "git push -f", "timeout_ms": 5}), contract),
            ("bash", json!({"command": "git push"}), contract),
            ("bash", json!({"command": "git push", "timeout_ms": "5"}), contract),
            ("bash", input, Hash::of(b"another")),
        ] {
            assert_ne!(approval_hash(tool, &input, &contract), approved, "{tool} {input}");
        }
    }

    #[test]
    fn an_answer_reads_as_it_is_written_and_nothing_else_does() {
        for answer in [
            Answer::Once,
            Answer::Always,
            Answer::Deny { reason: None },
            Answer::Deny { reason: Some("x".to_owned()) },
        ] {
            let text = serde_json::to_string(&answer).expect("json");
            assert_eq!(serde_json::from_str::<Answer>(&text).expect(&text), answer);
        }
        for bad in [r#""yes""#, r#"{"once":{"reason":"x"}}"#, r#"{"deny":{"always":true}}"#] {
            assert!(serde_json::from_str::<Answer>(bad).is_err(), "{bad}");
        }
    }
}
