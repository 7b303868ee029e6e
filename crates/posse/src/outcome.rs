//! The outcome of a run, read from its last event.

use posse_domain::budget::{Figures, Usage};
use posse_domain::code::Code;
use posse_domain::event::{EventBody, FailedChild, RunResult, TurnLimited};
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::{FailKind, FailureReason, RunStatus};

use crate::view::RefusedOperations;

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The run that ended.
    pub run: RunId,
    /// Its final status.
    pub status: RunStatus,
    /// The root's report; empty if it has none.
    pub text: String,
    /// The reason of a failure.
    pub failure: Option<FailureReason>,
    /// The kind of a failure.
    pub fail_kind: Option<FailKind>,
    /// What all agents spent; for a replay, what they spent in the recorded run.
    pub usage: Usage,
    /// Whether it is a replay of a recorded run.
    pub is_replay: bool,
    /// How a replay compares with the recorded run.
    pub replay: Option<ReplayVerdict>,
    /// How long the run took.
    pub elapsed_ms: u64,
    /// The operations that were refused.
    pub refused: RefusedOperations,
    /// The sub-agents that completed and can change files, but changed none.
    pub unchanged: Vec<AgentId>,
    /// The turns of all agents.
    pub turns: u64,
    /// The number of agents.
    pub agents: u64,
    /// The children that failed.
    pub failed: Vec<FailedChild>,
    /// Whether the root ran out of turns.
    pub turns_exhausted: bool,
    /// The children that completed, but ran out of turns.
    pub turn_limited: Vec<TurnLimited>,
    /// The run's changes to files, if there are any.
    pub result: Option<RunResult>,
    /// The disk usage of its workspaces, if it changed files.
    pub disk_bytes: Option<u64>,
}

/// How the model requests of a replay compare with those of the recorded run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayVerdict {
    /// How many requests were the recorded ones.
    pub same: u64,
    /// How many requests were recorded; `None` if the recording is gone.
    pub recorded: Option<u64>,
    /// Whether a request differed, which ended the replay.
    pub differs: bool,
}

impl RunOutcome {
    pub(crate) fn from_event(run: &RunId, body: &EventBody) -> Option<Self> {
        let finished = |status, text, figures: Figures, failed: &[FailedChild]| RunOutcome {
            run: run.clone(),
            status,
            text,
            failure: failure_of(body),
            fail_kind: fail_kind_of(body),
            usage: figures.usage,
            is_replay: false,
            replay: None,
            elapsed_ms: 0,
            refused: RefusedOperations::default(),
            unchanged: Vec::new(),
            turns: figures.turns,
            agents: 0,
            failed: failed.to_vec(),
            turns_exhausted: match body {
                EventBody::RunCompleted(e) => e.turns_exhausted,
                EventBody::RunFailed(e) => e.code == Code::TurnLimit,
                _ => false,
            },
            turn_limited: match body {
                EventBody::RunCompleted(e) => e.turn_limited.clone(),
                _ => Vec::new(),
            },
            result: result_of(body).cloned(),
            disk_bytes: None,
        };
        Some(match body {
            EventBody::RunCompleted(e) => {
                finished(RunStatus::Completed, e.text.to_shared().to_string(), e.figures, &e.failed)
            }
            EventBody::RunFailed(e) => {
                let text = e.text.as_ref().map_or_else(String::new, |text| text.to_shared().to_string());
                finished(RunStatus::Failed, text, e.figures, &e.failed)
            }
            EventBody::RunCancelled(e) => finished(RunStatus::Cancelled, String::new(), e.figures, &e.failed),
            _ => return None,
        })
    }
}

impl RunOutcome {
    /// The reason of a failure in words; for a cancelled run, the reason given with the cancellation.
    pub fn why(&self) -> Option<String> {
        let failure = self.failure.as_ref()?;
        Some(match self.status {
            RunStatus::Cancelled => failure.reason.clone(),
            _ => failure.to_string(),
        })
    }

    /// Whether the root or a required sub-agent ran out of turns.
    pub fn is_turn_limited(&self) -> bool {
        self.turns_exhausted || self.turn_limited.iter().any(|child| child.required)
    }

    /// [`is_turn_limited`](Self::is_turn_limited) for the run with this last event.
    pub(crate) fn is_turn_limited_by(body: &EventBody) -> bool {
        match body {
            EventBody::RunCompleted(e) => {
                e.turns_exhausted || e.turn_limited.iter().any(|child| child.required)
            }
            EventBody::RunFailed(e) => e.code == Code::TurnLimit,
            _ => false,
        }
    }
}

fn failure_of(body: &EventBody) -> Option<FailureReason> {
    let (code, reason) = match body {
        EventBody::RunFailed(e) => (e.code, &e.reason),
        EventBody::RunCancelled(e) => (Code::Cancelled, &e.reason),
        _ => return None,
    };
    Some(FailureReason { code, reason: reason.clone() })
}

fn fail_kind_of(body: &EventBody) -> Option<FailKind> {
    match body {
        EventBody::RunFailed(e) => Some(e.kind),
        EventBody::RunCancelled(_) => Some(FailKind::Cancelled),
        _ => None,
    }
}

fn result_of(body: &EventBody) -> Option<&RunResult> {
    match body {
        EventBody::RunCompleted(e) => e.result.as_ref(),
        EventBody::RunFailed(e) => e.result.as_ref(),
        EventBody::RunCancelled(e) => e.result.as_ref(),
        _ => None,
    }
}
