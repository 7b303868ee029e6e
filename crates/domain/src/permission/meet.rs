//! The grant of a contract, and the only way to create a child's grant: the meet with its parent's.
//!
//! Why it is like this: `docs/decisions/permission-tools-intersect.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rule::Rules;
use super::tool::ToolSet;

/// How an `ask` of a child is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnAsk {
    /// It is a deny: sub-agents cannot request permission.
    Deny,
    /// It waits for a user, durably.
    Escalate,
}

/// The part of a contract that states what the agent may do (its `permissions`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// The tools that the agent is offered. A call to any other is denied.
    pub allowed_tools: ToolSet,
    /// Rules of this contract. The last match wins.
    pub rules: Rules,
    /// Whether the agent may have children.
    pub can_spawn_children: bool,
    /// How many levels of agents may be below the agent.
    pub max_delegation_depth: u32,
    /// Whether the agent may share its conversation with a child.
    pub may_share_history: bool,
    /// How an `ask` is decided.
    pub on_ask: OnAsk,
}

impl Grant {
    /// A child's grant: the part of its request that its parent's grant covers. No other function creates one.
    ///
    /// The rules are the child's own. Its ancestors' rules stay separate layers (see [`Authority`](super::Authority)).
    /// If they were merged, a child's later rule would shadow a parent's deny.
    pub fn meet(parent: &Grant, requested: &Grant) -> Grant {
        let escalates = parent.on_ask == OnAsk::Escalate && requested.on_ask == OnAsk::Escalate;
        Grant {
            allowed_tools: parent.allowed_tools.meet(&requested.allowed_tools),
            rules: requested.rules.clone(),
            can_spawn_children: parent.can_spawn_children && requested.can_spawn_children,
            max_delegation_depth: requested
                .max_delegation_depth
                .min(parent.max_delegation_depth.saturating_sub(1)),
            may_share_history: parent.may_share_history && requested.may_share_history,
            on_ask: if escalates { OnAsk::Escalate } else { OnAsk::Deny },
        }
    }

    pub fn covers(&self, tool: &str) -> bool {
        self.allowed_tools.contains(tool)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rule::Decision;
    use super::super::testing::{grant, rules};
    use super::*;

    #[test]
    fn a_child_gets_what_both_have() {
        let parent = Grant {
            can_spawn_children: true,
            max_delegation_depth: 2,
            may_share_history: false,
            on_ask: OnAsk::Deny,
            ..grant(&["read", "bash", "task"])
        };
        let requested = Grant {
            can_spawn_children: true,
            max_delegation_depth: 9,
            may_share_history: true,
            on_ask: OnAsk::Escalate,
            rules: rules(&[("bash:git push*", Decision::Deny)]),
            ..grant(&["read", "write", "bash"])
        };
        let child = Grant::meet(&parent, &requested);
        assert_eq!(child.allowed_tools, ToolSet::parse(["bash", "read"]).expect("tools"));
        assert_eq!((child.can_spawn_children, child.max_delegation_depth), (true, 1));
        assert_eq!((child.may_share_history, child.on_ask), (false, OnAsk::Deny));
        assert_eq!(child.rules, requested.rules);
        assert!(child.covers("bash") && !child.covers("write") && !child.covers("task"));
        let grandchild = Grant::meet(&child, &requested);
        assert_eq!(Grant::meet(&grandchild, &requested).max_delegation_depth, 0, "it stops at zero");
    }

    #[test]
    fn escalation_needs_both() {
        let escalate = Grant { on_ask: OnAsk::Escalate, ..grant(&["read"]) };
        let deny = grant(&["read"]);
        assert_eq!(Grant::meet(&escalate, &escalate).on_ask, OnAsk::Escalate);
        assert_eq!(Grant::meet(&escalate, &deny).on_ask, OnAsk::Deny);
        assert_eq!(Grant::meet(&deny, &escalate).on_ask, OnAsk::Deny);
    }

    #[test]
    fn the_json_is_the_contracts_permissions() {
        let text = r#"{"allowed_tools":["bash","edit","grep","read"],"rules":[{"pattern":"bash:git push*","decision":"deny"}],"can_spawn_children":false,"max_delegation_depth":0,"may_share_history":false,"on_ask":"deny"}"#;
        let grant: Grant = serde_json::from_str(text).expect("grant");
        assert_eq!(serde_json::to_string(&grant).expect("json"), text);
        let widened = text.replacen('{', r#"{"sandbox":false,"#, 1);
        let error = serde_json::from_str::<Grant>(&widened).expect_err("unknown field").to_string();
        assert!(error.contains("`sandbox`"), "{error}");
        let schema = schemars::schema_for!(Grant).to_value().to_string();
        assert!(schema.contains(r#""additionalProperties":false"#) && schema.contains("on_ask"), "{schema}");
    }
}
