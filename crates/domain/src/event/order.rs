//! Checks the order of a child's events, for the engine, `posse verify` and the tests.
//!
//! `created queued? (started attempt*)? ( waiting_for_merge (checks_*|worktree_*)* (integration_passed |
//! integration_failed) | failed ) closed workspace_removed*`; events of other kinds may come between.

use std::collections::HashMap;

use thiserror::Error;

use crate::id::AgentId;

/// An event that violates the order.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{agent}: `{kind}` may not follow `{after}`")]
pub struct OrderBreach {
    /// The child whose event it is.
    pub agent: AgentId,
    /// The event's kind.
    pub kind: String,
    /// The stage that the child was in before the event.
    pub after: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Absent,
    Created,
    Queued,
    Started,
    WaitingForMerge,
    Integrated,
    Failed,
    Closed,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Absent => "nothing",
            Stage::Created => "created",
            Stage::Queued => "queued",
            Stage::Started => "started",
            Stage::WaitingForMerge => "waiting_for_merge",
            Stage::Integrated => "integration",
            Stage::Failed => "failed",
            Stage::Closed => "closed",
        }
    }

    /// The stage after an event of this kind. None if the order forbids the event now.
    fn next(self, kind: &str) -> Option<Stage> {
        use Stage::{Absent, Closed, Created, Failed, Integrated, Queued, Started, WaitingForMerge};
        let rest = kind.strip_prefix("agent.")?;
        Some(match (self, rest) {
            (Absent, "subagent_created") => Created,
            (Created, "subagent_queued") => Queued,
            (Created | Queued, "subagent_started") | (Started, "subagent_attempt") => Started,
            (Started, "subagent_waiting_for_merge") => WaitingForMerge,
            (WaitingForMerge, _) if rest.starts_with("checks_") || rest.starts_with("worktree_") => self,
            (WaitingForMerge, "integration_passed" | "integration_failed") => Integrated,
            (Created | Queued | Started, "subagent_failed") => Failed,
            (Integrated | Failed, "subagent_closed") => Closed,
            _ => return None,
        })
    }
}

/// Whether the order of a child's events covers this kind.
fn is_ordered(kind: &str) -> bool {
    ["agent.subagent_", "agent.checks_", "agent.worktree_", "agent.integration_"]
        .iter()
        .any(|prefix| kind.starts_with(prefix))
        && kind != "agent.subagent_refused"
}

/// Reads a run's events in sequence and reports those out of order.
#[derive(Debug, Clone, Default)]
pub struct OrderChecker {
    stages: HashMap<AgentId, Stage>,
}

impl OrderChecker {
    /// Checks the next event of the run.
    pub fn push(&mut self, agent: &AgentId, kind: &str) -> Result<(), OrderBreach> {
        let stage = self.stages.get(agent).copied().unwrap_or(Stage::Absent);
        let breach = || OrderBreach { agent: agent.clone(), kind: kind.to_owned(), after: stage.name() };
        if !is_ordered(kind) {
            // After the close of a child only the removal of its workspace may follow.
            let silent =
                stage == Stage::Closed && kind.starts_with("agent.") && kind != "agent.workspace_removed";
            return if silent { Err(breach()) } else { Ok(()) };
        }
        if agent.is_root() {
            return Err(breach());
        }
        let next = stage.next(kind).ok_or_else(breach)?;
        self.stages.insert(agent.clone(), next);
        Ok(())
    }

    /// The children that are not closed.
    pub fn open(&self) -> impl Iterator<Item = &AgentId> {
        self.stages.iter().filter(|(_, stage)| **stage != Stage::Closed).map(|(agent, _)| agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kinds: &[&str]) -> Result<(), OrderBreach> {
        let agent: AgentId = "k3f9ab2c.1".parse().unwrap();
        let mut checker = OrderChecker::default();
        kinds.iter().try_for_each(|kind| checker.push(&agent, &format!("agent.{kind}")))
    }

    #[test]
    fn legal_orders_pass() {
        for order in [
            &[
                "subagent_created",
                "subagent_started",
                "model_called",
                "subagent_waiting_for_merge",
                "integration_passed",
                "subagent_closed",
            ][..],
            &[
                "subagent_created",
                "subagent_queued",
                "subagent_started",
                "subagent_attempt",
                "subagent_attempt",
                "subagent_failed",
                "subagent_closed",
            ],
            &["subagent_created", "subagent_failed", "subagent_closed", "workspace_removed"],
            &[
                "subagent_created",
                "subagent_started",
                "subagent_waiting_for_merge",
                "checks_passed",
                "worktree_merged",
                "integration_failed",
                "subagent_closed",
            ],
        ] {
            assert_eq!(check(order), Ok(()), "{order:?}");
        }
    }

    #[test]
    fn illegal_orders_are_breaches() {
        for order in [
            &["subagent_started"][..],
            &["subagent_created", "subagent_created"],
            &["subagent_created", "subagent_attempt"],
            &["subagent_created", "subagent_closed"],
            &["subagent_created", "subagent_started", "integration_passed"],
            &["subagent_created", "subagent_started", "subagent_waiting_for_merge", "subagent_failed"],
            &["subagent_created", "subagent_failed", "subagent_closed", "subagent_closed"],
            &["subagent_created", "subagent_failed", "subagent_closed", "model_called"],
            &["subagent_created", "subagent_started", "subagent_queued"],
        ] {
            assert!(check(order).is_err(), "{order:?}");
        }
    }
}
