//! An agent's depth and lineage as a value that callers pass on. No identity is ambient.
//!
//! Why it is like this: `docs/decisions/delegation-depth.md`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::budget::DEFAULT_MAX_DEPTH;
use crate::id::AgentId;

/// The position of an agent in its tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionContext {
    /// 0 for the root.
    pub depth: u32,
    /// Maximum depth of an agent in this tree.
    pub max_depth: u32,
    /// The parent's id. None for the root.
    pub parent_task_id: Option<AgentId>,
    /// The root's id. None for the root itself.
    pub root_task_id: Option<AgentId>,
}

impl ExecutionContext {
    pub fn root(max_depth: u32) -> Self {
        Self { depth: 0, max_depth, parent_task_id: None, root_task_id: None }
    }

    /// The context of a child of agent `id`, which has this context.
    pub fn create_child_context(&self, id: &AgentId) -> Self {
        Self {
            depth: self.depth.saturating_add(1),
            max_depth: self.max_depth,
            parent_task_id: Some(id.clone()),
            root_task_id: Some(self.root_task_id.clone().unwrap_or_else(|| id.clone())),
        }
    }

    /// Whether the tree may have one more level below this agent.
    pub fn can_spawn_sub_agent(&self) -> bool {
        self.depth < self.max_depth
    }
}

impl Default for ExecutionContext {
    fn default() -> Self {
        Self::root(DEFAULT_MAX_DEPTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> AgentId {
        text.parse().unwrap()
    }

    #[test]
    fn root_child_and_grandchild_contexts() {
        let root = ExecutionContext::default();
        assert_eq!((root.depth, root.max_depth), (0, 2));
        assert!(root.can_spawn_sub_agent());
        let child = root.create_child_context(&id("k3f9ab2c"));
        assert_eq!(child.depth, 1);
        assert_eq!(child.parent_task_id, Some(id("k3f9ab2c")));
        assert_eq!(child.root_task_id, Some(id("k3f9ab2c")));
        assert!(child.can_spawn_sub_agent());
        let grandchild = child.create_child_context(&id("k3f9ab2c.1"));
        assert_eq!(grandchild.depth, 2);
        assert_eq!(grandchild.parent_task_id, Some(id("k3f9ab2c.1")));
        assert_eq!(grandchild.root_task_id, Some(id("k3f9ab2c")));
        assert!(!grandchild.can_spawn_sub_agent());
    }

    #[test]
    fn default_depth_is_zero_and_an_explicit_depth_is_kept() {
        assert_eq!(ExecutionContext::default().depth, 0);
        let at = ExecutionContext { depth: 3, ..ExecutionContext::root(5) };
        assert_eq!(at.create_child_context(&id("k3f9ab2c.1.1.1")).depth, 4, "depth is taken from the caller");
    }
}
