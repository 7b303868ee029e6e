//! Waits for the provider of a model: for a permit to call it, and for the end of a pause after a failed call.
//!
//! An agent that waits here holds no slot and has no reserve. A wait that users should know of is journalled, so a
//! resumed run waits only for the rest of it.

use std::time::Duration;

use posse_agent::call_retry::{self, CallFailureClass, UNANSWERED_MAX};
use posse_domain::code::Code;
use posse_domain::event::{ProviderWaitEnded, ProviderWaitStarted};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure};
use tokio::time::Instant;

use super::{ModelDesk, ModelDone};
use crate::driver::core::Core;
use crate::driver::effects::Input;
use crate::driver::session::AgentWait;
use crate::ports::{Admission, CallSize, Notice, Permit, QueuedCall};

/// A wait of at least this duration is journalled and shown.
const JOURNALLED_FROM: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
pub(super) struct SilentSince {
    /// The start of the time without an answer. A pause that the provider requested does not count, so it moves this to
    /// a later time.
    since: Instant,
}

/// How a wait ended.
pub(crate) enum WaitEnd {
    Permit(Permit),
    /// A pause is over. The call still needs a permit.
    Pause,
    /// The provider did not answer for too long.
    TimedOut,
}

/// How an agent continues after a failed call.
pub(super) enum AfterFailure {
    /// The attempt has failed.
    Over,
    /// Another call, after a pause.
    Again {
        after: Duration,
        /// Whether the provider requested the pause.
        limited: bool,
        /// How often the turn retries a call that fails in this way.
        most: u32,
    },
    /// Another call, after these old outputs are omitted.
    Shorter(Vec<String>),
    /// Another call, after a summary has replaced the older part of the conversation.
    Compact,
}

impl ModelDesk {
    /// Acquires a permit for the agent's next call, or queues for one. Returns whether the agent has a permit.
    pub(super) fn acquire_permit(&mut self, core: &mut Core, id: &AgentId, size: CallSize) -> bool {
        let Some(agent) = self.agents.get_mut(id) else { return false };
        if agent.permit.is_some() {
            return true;
        }
        match agent.model.admit(size) {
            Admission::Go(permit) => {
                agent.permit = Some(permit);
                true
            }
            Admission::Wait(queued) => {
                self.queue_for_provider(core, id, queued);
                false
            }
        }
    }

    fn queue_for_provider(&mut self, core: &mut Core, id: &AgentId, queued: QueuedCall) {
        let QueuedCall { turn, notice } = queued;
        let Some(agent) = self.agents.get_mut(id) else { return };
        let mut give_up = None;
        if notice.as_ref().is_some_and(|notice| notice.unwell) {
            let since = agent.silent.get_or_insert(SilentSince { since: Instant::now() }).since;
            give_up = Some(since + UNANSWERED_MAX);
        }
        if let Some(notice) = notice {
            self.emit_wait(core, id, &notice);
        }
        start_wait(core, id, async move {
            match give_up {
                None => WaitEnd::Permit(turn.await),
                Some(at) => {
                    tokio::time::timeout_at(at, turn).await.map_or(WaitEnd::TimedOut, WaitEnd::Permit)
                }
            }
        });
    }

    fn emit_wait(&self, core: &mut Core, id: &AgentId, notice: &Notice) {
        let waits = core.run.open(id).is_none_or(|agent| agent.provider_wait.is_some());
        if notice.expected < JOURNALLED_FROM || waits {
            return;
        }
        let Some(agent) = self.agents.get(id) else { return };
        let expected_ms = i64::try_from(notice.expected.as_millis()).unwrap_or(i64::MAX);
        let provider = agent.model.provider().to_string();
        // The reason of a failing provider contains its name already.
        let reason =
            notice.reason.strip_prefix(&format!("{provider}: ")).unwrap_or(&notice.reason).to_owned();
        let until_ms = core.now_ms().saturating_add(expected_ms);
        core.emit(id.clone(), ProviderWaitStarted { provider, reason, until_ms });
    }

    /// Pauses before the next call. A pause that the provider requested does not count as time without an answer.
    pub(super) fn pause(
        &mut self,
        core: &mut Core,
        id: &AgentId,
        after: Duration,
        limited: bool,
        reason: &str,
    ) {
        let Some(agent) = self.agents.get_mut(id) else { return };
        let now = Instant::now();
        let silent = agent.silent.get_or_insert(SilentSince { since: now });
        if limited {
            silent.since = (silent.since + after).min(now + after);
        }
        if after.is_zero() {
            return;
        }
        let notice = Notice { reason: reason.to_owned(), expected: after, unwell: !limited };
        self.emit_wait(core, id, &notice);
        start_pause(core, id, after);
    }

    /// Takes the end of a wait. Returns the failure of an attempt whose provider does not answer.
    pub(crate) fn wait_ended(&mut self, core: &mut Core, id: &AgentId, end: WaitEnd) -> Option<Failure> {
        let session = core.sessions.get_mut(id)?;
        // If the wait was dropped meanwhile, its permit is returned here.
        if !matches!(session.wait, AgentWait::Provider(_)) {
            return None;
        }
        session.wait = AgentWait::Idle;
        let reason = end_provider_wait(core, id);
        match end {
            WaitEnd::Pause => {}
            WaitEnd::Permit(permit) => {
                if let Some(agent) = self.agents.get_mut(id) {
                    agent.permit = Some(permit);
                }
            }
            WaitEnd::TimedOut => return Some(no_answer(reason)),
        }
        core.mark_ready(id);
        None
    }

    /// Ends the agent's wait for its provider or a budget, because the agent is ending or its report is next.
    pub(crate) fn stop_waiting(&mut self, core: &mut Core, id: &AgentId) {
        if let Some(session) = core.sessions.get_mut(id)
            && matches!(session.wait, AgentWait::Provider(_) | AgentWait::Budget)
        {
            session.drop_model_call();
        }
        if let Some(agent) = self.agents.get_mut(id) {
            agent.permit = None;
            agent.silent = None;
        }
        end_provider_wait(core, id);
    }

    /// After a crash: waits for the rest of a journalled wait.
    pub(crate) fn resume_wait(core: &mut Core, id: &AgentId) {
        let Some(wait) = core.run.open(id).and_then(|agent| agent.provider_wait.as_ref()) else { return };
        let left_ms = u64::try_from(wait.until_ms - core.now_ms()).unwrap_or(0);
        start_pause(core, id, Duration::from_millis(left_ms));
    }

    pub(super) fn after_failure(&self, core: &Core, done: &ModelDone) -> AfterFailure {
        let (Err(failure), Some(agent)) = (&done.result, self.agents.get(&done.agent)) else {
            return AfterFailure::Over;
        };
        if failure.error.code == Code::ContextOverflow {
            return self.after_refusal(core, done);
        }
        let Some(retry) = failure.retry else { return AfterFailure::Over };
        let failed = match (retry.limited, failure.error.code) {
            (true, _) => CallFailureClass::Limited,
            (false, Code::Timeout) => CallFailureClass::Silent,
            (false, _) => CallFailureClass::Unwell,
        };
        let silent = agent.silent.map_or(done.elapsed, |silent| silent.since.elapsed());
        if call_retry::follows(failed, done.place.call, silent) {
            let most = call_retry::retries_max(failed);
            AfterFailure::Again { after: retry.after, limited: retry.limited, most }
        } else {
            AfterFailure::Over
        }
    }
}

/// Starts a wait whose end is an input of the driver.
fn start_wait(core: &mut Core, id: &AgentId, until: impl Future<Output = WaitEnd> + Send + 'static) {
    let sender = core.sender.clone();
    let agent = id.clone();
    let task = tokio::spawn(async move {
        let end = until.await;
        drop(sender.send(Input::Waited { agent, end }));
    });
    if let Some(session) = core.sessions.get_mut(id) {
        session.wait = AgentWait::Provider(task.abort_handle());
    }
}

fn start_pause(core: &mut Core, id: &AgentId, pause: Duration) {
    start_wait(core, id, async move {
        tokio::time::sleep(pause).await;
        WaitEnd::Pause
    });
}

/// Journals the end of a wait that is in the journal, and returns the reason of the wait.
fn end_provider_wait(core: &mut Core, id: &AgentId) -> Option<String> {
    let wait = core.run.open(id)?.provider_wait.as_ref()?;
    let reason = format!("{}: {}", wait.provider, wait.reason);
    let waited_ms = u64::try_from(core.now_ms() - wait.since_ms).unwrap_or(0);
    core.emit(id.clone(), ProviderWaitEnded { waited_ms });
    Some(reason)
}

fn no_answer(reason: Option<String>) -> Failure {
    let minutes = UNANSWERED_MAX.as_secs() / 60;
    let reason = reason.unwrap_or_else(|| "it does not respond".to_owned());
    Failure {
        kind: FailKind::Execution,
        code: Code::ModelError,
        reason: format!("no answer from the model within {minutes} minutes: {reason}"),
        report: None,
    }
}
