//! Waiting for the end of a run or an agent, as long as a process executes the run.

use std::collections::HashMap;
use std::time::Duration;

use posse_domain::event::EventKind;
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::AgentState;

use crate::view::{ViewEvent, ViewPart};
use crate::{Error, Posse, RunOutcome};

/// How often a wait checks that a process still executes the run.
const HOLDER_CHECK: Duration = Duration::from_millis(500);
/// How many consecutive checks must find no lease holder: one may fall between two holders.
const HOLDER_CHECKS: u32 = 3;
/// The time between those checks. A user waits for all of them.
const NO_HOLDER_CHECK: Duration = Duration::from_millis(40);

/// How a wait for a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitOutcome {
    /// The run has ended.
    Ended(Box<RunOutcome>),
    /// The run has not ended, and no process executes it. [`Posse::resume`] continues it.
    Interrupted,
}

/// How a wait for an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentWaitOutcome {
    /// The agent has closed.
    Closed {
        /// How it closed, in one line.
        summary: String,
    },
    /// The run has ended, and all its agents with it.
    RunEnded {
        /// How it ended, in one line.
        summary: String,
    },
    /// The agent is open, and no process executes its run. A command to the agent takes effect once [`Posse::resume`]
    /// continues the run.
    Interrupted,
}

/// The closed agents of a run, each with how it closed.
#[derive(Default)]
struct ClosedAgents(HashMap<AgentId, String>);

impl ViewPart for ClosedAgents {
    fn needs(&self, kind: EventKind) -> bool {
        kind == EventKind::SubagentClosed
    }

    fn apply(&mut self, event: &ViewEvent<'_>) {
        self.0.insert(event.agent.clone(), event.body.summary());
    }
}

impl Posse {
    /// Waits until a run has ended, as [`wait`](Self::wait) does, but not longer than processes execute it.
    ///
    /// A run that has ended is always [`WaitOutcome::Ended`]. [`WaitOutcome::Interrupted`] means that several
    /// consecutive checks, about a tenth of a second from the first to the last, found no lease holder: a run that another
    /// process takes over within that time is waited for. A process may resume the run right after this function
    /// returns.
    pub async fn wait_while_executed(&self, run: &RunId) -> Result<WaitOutcome, Error> {
        tokio::select! {
            biased;
            finished = self.wait(run) => Ok(WaitOutcome::Ended(Box::new(finished?))),
            interrupted = self.wait_until_interrupted(run) => {
                interrupted?;
                Ok(WaitOutcome::Interrupted)
            }
        }
    }

    /// Waits until an agent has closed or its run has ended, but not longer than processes execute the run, with the
    /// guarantee of [`wait_while_executed`](Self::wait_while_executed).
    pub async fn wait_for_agent(&self, agent: &AgentId) -> Result<AgentWaitOutcome, Error> {
        let run = agent.run();
        tokio::select! {
            biased;
            ended = self.end_of_agent(agent) => ended,
            interrupted = self.wait_until_interrupted(&run) => {
                interrupted?;
                Ok(AgentWaitOutcome::Interrupted)
            }
        }
    }

    /// Waits until no process executes a run that has not ended; see
    /// [`wait_while_executed`](Self::wait_while_executed). Never returns for a run that has ended, so it is used beside
    /// a wait for the end.
    pub async fn wait_until_interrupted(&self, run: &RunId) -> Result<(), Error> {
        let mut without_holder = 0;
        loop {
            let summary = self.runs(run.as_str(), 1).await?.into_iter().next();
            let has_none = summary.is_some_and(|run| run.status.is_running() && run.holder.is_none());
            without_holder = if has_none { without_holder + 1 } else { 0 };
            if without_holder >= HOLDER_CHECKS {
                return Ok(());
            }
            tokio::time::sleep(if has_none { NO_HOLDER_CHECK } else { HOLDER_CHECK }).await;
        }
    }

    async fn end_of_agent(&self, agent: &AgentId) -> Result<AgentWaitOutcome, Error> {
        let run = agent.run();
        let state = self.current_state(&run).await?;
        if state.agents().get(agent).is_some_and(|agent| agent.state == AgentState::Closed) {
            // The root closes with its run.
            let mut closed: ClosedAgents = self.fold(&run).await?;
            if let Some(summary) = closed.0.remove(agent) {
                return Ok(AgentWaitOutcome::Closed { summary });
            }
        }
        // The rows are at least as new as the head. The end of a run is its last event.
        let is_running = state.status().is_running();
        let known = if is_running { state.last_seq() } else { state.last_seq().saturating_sub(1) };
        let mut events = self.events(&run, known);
        loop {
            let event = events.next().await?;
            if event.agent_id == *agent && event.kind == EventKind::SubagentClosed {
                return Ok(AgentWaitOutcome::Closed { summary: event.summary });
            }
            if event.kind.ends_run() {
                return Ok(AgentWaitOutcome::RunEnded { summary: event.summary });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
    use crate::{AppliedAtEnd, NewRun, Resume, RunStatus};

    /// Longer than the test waits: a call with this latency is in flight until it is dropped.
    const FOR_EVER: Duration = Duration::from_hours(1);

    /// A root with two children, which never get an answer.
    fn open(state: &Path) -> Posse {
        let model = FnModel::new(|request: &crate::ports::ModelRequest| {
            if request.depth > 0 {
                return ScriptedAnswer::text("never").latency(FOR_EVER);
            }
            let input = |n: usize| {
                let prompt = n.to_string();
                serde_json::json!({"subagent_type": "explore", "description": "wait", "prompt": prompt})
            };
            ScriptedAnswer::text("Go.").calls((0..2).map(|n| ScriptedCall::new("task", input(n))))
        });
        Posse::builder().state_dir(state).model("mock/pair", model).open().expect("open")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_wait_ends_with_what_it_waits_for_or_once_no_process_executes_the_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().join("state");
        let posse = open(&state);
        let new_run = NewRun::new("Wait.").model("mock/pair").dir(dir.path());
        let handle = posse.start(new_run).await.expect("started");
        let run = handle.id().clone();
        let child = run.root().child(1);
        let mut events = posse.events(&run, 0);
        while events.next().await.expect("an event").agent_id != run.root().child(2) {}
        posse.stop();
        assert!(handle.ended().await.is_err());

        let posse = open(&state);
        let (waited, waited_for_child) =
            tokio::join!(posse.wait_while_executed(&run), posse.wait_for_agent(&child));
        assert_eq!(waited, Ok(WaitOutcome::Interrupted));
        assert_eq!(waited_for_child, Ok(AgentWaitOutcome::Interrupted));

        assert_eq!(posse.claimable(9).await, Ok(vec![run.clone()]));
        assert_eq!(posse.claimable(0).await, Ok(Vec::new()));

        posse.cancel(&child, "enough of it").await.expect("posted");
        assert!(matches!(posse.resume(&run).await, Ok(Resume::Going(_))));
        assert_eq!(posse.claimable(9).await, Ok(Vec::new()), "this process executes it");
        let waited = posse.wait_for_agent(&child).await;
        assert!(matches!(waited, Ok(AgentWaitOutcome::Closed { .. })), "its sibling is open: {waited:?}");
        assert_eq!(posse.wait_for_agent(&child).await, waited, "an agent that has closed before");
        let waited_for_closed = waited;
        posse.cancel(&run.root(), "enough").await.expect("posted");
        let waited = posse.wait_for_agent(&run.root()).await;
        let Ok(AgentWaitOutcome::RunEnded { summary }) = waited else { panic!("{waited:?}") };
        assert!(summary.contains("enough"), "{summary}");
        assert_eq!(posse.wait_for_agent(&child).await, waited_for_closed, "also after the end of the run");
        let waited = posse.wait_while_executed(&run).await;
        let Ok(WaitOutcome::Ended(finished)) = waited else { panic!("{waited:?}") };
        assert_eq!(finished.status, RunStatus::Cancelled);
        assert_eq!(posse.apply_at_end(&finished).await, Ok(AppliedAtEnd::NotCompleted));
        assert_eq!(posse.claimable(9).await, Ok(Vec::new()), "it has ended");
    }
}
