//! Ends a run. Only its root decides that, when every child is closed.

use super::close::wall_since;
use super::{CommandRefused, FailKind, Failure, NewEvent, Node, Run};
use crate::budget::Figures;
use crate::code::Code;
use crate::event::{FailedChild, RunCancelled, RunCompleted, RunFailed, RunResult, TurnLimited};
use crate::text::Text;

/// How the root ended.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEnd {
    /// The root completed its work.
    Done {
        report: Text,
        /// Whether the root reached its turn limit.
        turns_exhausted: bool,
    },
    /// The root failed or was cancelled.
    Failed(Failure),
}

impl Run {
    /// Ends the run. A required child that failed and was not repaired fails the run even if the root completed.
    pub fn end(
        &self,
        end: RunEnd,
        result: Option<RunResult>,
        now_ms: i64,
    ) -> Result<NewEvent, CommandRefused> {
        let root = self.id.root();
        if self.outcome.is_some() {
            return Err(CommandRefused::RunEnded);
        }
        let agent = self.commanded(&root)?;
        if !agent.open_children.is_empty() {
            return Err(CommandRefused::OpenChildren);
        }
        let spent = self.ledger.subtree(&root).copied().unwrap_or_default();
        // The spending of the tree, with the wall time that passed for the user.
        let figures = Figures { wall_ms: 0, ..spent } + wall_since(self.started_at_ms, now_ms);
        let body = match end {
            RunEnd::Done { report, turns_exhausted } => {
                if let Some(child) = self.unrepaired() {
                    self.failed_by(child, report, figures, result)
                } else if let Some((step, refused)) = self.refused_step() {
                    RunFailed {
                        kind: match refused.code {
                            Code::BudgetExhausted => FailKind::Budget,
                            _ => FailKind::Execution,
                        },
                        code: refused.code,
                        reason: format!(
                            "the required step `{step}` could not be started: {}",
                            refused.reason
                        ),
                        text: Some(report),
                        failed: self.failed.clone(),
                        figures,
                        result,
                    }
                    .into()
                } else {
                    let failed = self.failed.clone();
                    let turn_limited = self.turn_limited();
                    let own = Figures { turn_limited: turns_exhausted.into(), ..Figures::default() };
                    let figures = figures + own;
                    RunCompleted { text: report, failed, figures, turns_exhausted, turn_limited, result }
                        .into()
                }
            }
            RunEnd::Failed(failure) if failure.kind == FailKind::Cancelled => {
                RunCancelled { reason: failure.reason, failed: self.failed.clone(), figures, result }.into()
            }
            RunEnd::Failed(failure) => RunFailed {
                kind: failure.kind,
                code: failure.code,
                reason: failure.reason,
                text: failure.report,
                failed: self.failed.clone(),
                figures,
                result,
            }
            .into(),
        };
        Ok((root, body))
    }

    /// The children that completed, but reached their turn limit, ordered by id.
    fn turn_limited(&self) -> Vec<TurnLimited> {
        if self.ledger.subtree(&self.id.root()).is_none_or(|all| all.turn_limited == 0) {
            return Vec::new();
        }
        let mut limited: Vec<TurnLimited> = self
            .iter()
            .filter_map(|(id, node)| match node {
                Node::Closed(closed) if closed.turns_exhausted => {
                    Some(TurnLimited { id: id.clone(), required: closed.required })
                }
                _ => None,
            })
            .collect();
        limited.sort_by(|one, other| one.id.cmp(&other.id));
        limited
    }

    /// A required child that failed and was not repaired.
    fn unrepaired(&self) -> Option<&FailedChild> {
        self.failed.iter().find(|child| {
            self.closed(&child.id).is_some_and(|closed| closed.required) && !self.repaired.contains(&child.id)
        })
    }

    fn failed_by(
        &self,
        child: &FailedChild,
        report: Text,
        figures: Figures,
        result: Option<RunResult>,
    ) -> crate::event::EventBody {
        // If the run consists of one child, it fails with the child's kind.
        let alone = self.is_run_skill(&child.id);
        let kind = self.closed(&child.id).and_then(|closed| closed.fail_kind);
        // A limit that ended a required child ends the run with the same kind and code.
        let limited =
            matches!(kind, Some(FailKind::Budget | FailKind::Timeout)) || child.code == Code::TurnLimit;
        let own = alone || limited;
        RunFailed {
            kind: kind.filter(|_| own).unwrap_or(FailKind::Execution),
            code: if own { child.code } else { Code::SubagentError },
            reason: format!("required sub-agent {} failed: {}", child.id.relative(), child.reason),
            text: Some(report),
            failed: self.failed.clone(),
            figures,
            result,
        }
        .into()
    }
}
