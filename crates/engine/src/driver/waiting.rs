//! Waiting for the provider of a model: for leave to call it, and for a pause after a call that failed.
//!
//! Who waits holds no slot and has reserved nothing. A wait that people should know of is in the journal, so a run that
//! is resumed goes on waiting for what is left of it.

use std::time::Duration;

use posse_agent::call_retry::{self, CallFailureClass, UNANSWERED_MAX};
use posse_domain::code::Code;
use posse_domain::event::{ProviderWaitEnded, ProviderWaitStarted};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure};
use tokio::time::Instant;

use super::Driver;
use super::effects::{Input, ModelDone};
use super::session::ModelCallStage;
use crate::ports::{Admission, CallSize, Notice, Permit, QueuedCall};

/// A wait that takes at least this long is in the journal, and shown.
const TOLD_FROM: Duration = Duration::from_secs(1);
/// Part of what a conversation has that it is cut to once a model says that it is too long.
const OVERFLOW_KEPT_PERCENT: u64 = 50;

/// How long a model has given no answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SilentSince {
    /// When that began. Moved on by pauses that the provider asked for: they do not count.
    since: Instant,
}

/// How a wait ended.
pub(super) enum WaitEnd {
    /// With leave to call.
    Leave(Permit),
    /// A pause is over; leave is still to be asked for.
    Pause,
    /// In vain: it took too long.
    InVain,
}

/// What follows a call that failed.
pub(super) enum AfterFailure {
    /// Nothing: the attempt has failed.
    Over,
    /// Another call, after a pause.
    Again {
        /// The pause.
        after: Duration,
        /// Whether the provider asked for it.
        limited: bool,
    },
    /// Another call, without these old outputs.
    Shorter(Vec<String>),
}

impl Driver {
    /// Leave to make the agent's next call. Without it the agent waits, and comes back.
    pub(super) fn acquire_permit(&mut self, id: &AgentId, size: CallSize) -> bool {
        let Some(session) = self.sessions.get_mut(id) else { return false };
        if session.permit.is_some() {
            return true;
        }
        match session.model.admit(size) {
            Admission::Go(permit) => {
                session.permit = Some(permit);
                true
            }
            Admission::Wait(waiting) => {
                self.queue_for_provider(id, waiting);
                false
            }
        }
    }

    fn queue_for_provider(&mut self, id: &AgentId, waiting: QueuedCall) {
        let QueuedCall { turn, notice } = waiting;
        let Some(session) = self.sessions.get_mut(id) else { return };
        let mut give_up = None;
        if notice.as_ref().is_some_and(|notice| notice.unwell) {
            let since = session.unanswered.get_or_insert(SilentSince { since: Instant::now() }).since;
            give_up = Some(since + UNANSWERED_MAX);
        }
        if let Some(notice) = notice {
            self.emit_wait(id, &notice);
        }
        self.wait(id, async move {
            match give_up {
                None => WaitEnd::Leave(turn.await),
                Some(at) => tokio::time::timeout_at(at, turn).await.map_or(WaitEnd::InVain, WaitEnd::Leave),
            }
        });
    }

    fn emit_wait(&mut self, id: &AgentId, notice: &Notice) {
        if notice.expected < TOLD_FROM || self.run.open(id).is_none_or(|agent| agent.provider_wait.is_some())
        {
            return;
        }
        let Some(session) = self.sessions.get(id) else { return };
        let expected_ms = i64::try_from(notice.expected.as_millis()).unwrap_or(i64::MAX);
        let provider = session.model.provider().to_string();
        // A failure of the provider names it already.
        let reason =
            notice.reason.strip_prefix(&format!("{provider}: ")).unwrap_or(&notice.reason).to_owned();
        let started = ProviderWaitStarted {
            provider,
            reason,
            until_ms: self.rt.parts.system.now_ms().saturating_add(expected_ms),
        };
        self.emit(id.clone(), started);
    }

    /// Starts a wait; it ends with an input.
    fn wait(&mut self, id: &AgentId, until: impl Future<Output = WaitEnd> + Send + 'static) {
        let sender = self.sender.clone();
        let agent = id.clone();
        let task = tokio::spawn(async move {
            let waited = until.await;
            drop(sender.send(Input::Waited { agent, waited }));
        });
        if let Some(session) = self.sessions.get_mut(id) {
            session.model_call = ModelCallStage::Provider(task.abort_handle());
        }
    }

    /// Pauses before the next call; a pause that was asked for does not count as time without an answer.
    pub(super) fn pause(&mut self, id: &AgentId, after: Duration, limited: bool, reason: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let now = Instant::now();
        let unanswered = session.unanswered.get_or_insert(SilentSince { since: now });
        if limited {
            unanswered.since = (unanswered.since + after).min(now + after);
        }
        if after.is_zero() {
            return;
        }
        let notice = Notice { reason: reason.to_owned(), expected: after, unwell: !limited };
        self.emit_wait(id, &notice);
        self.wait(id, async move {
            tokio::time::sleep(after).await;
            WaitEnd::Pause
        });
    }

    /// A wait has ended.
    pub(super) fn waited(&mut self, id: &AgentId, waited: WaitEnd) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        // One that was dropped meanwhile gives its permit back here.
        if !matches!(session.model_call, ModelCallStage::Provider(_)) || session.ending.is_some() {
            return;
        }
        session.model_call = ModelCallStage::Idle;
        let reason = self.end_provider_wait(id);
        match waited {
            WaitEnd::Pause => {}
            WaitEnd::Leave(permit) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.permit = Some(permit);
                }
            }
            WaitEnd::InVain => return self.end_attempt(id, unanswered(reason)),
        }
        self.mark_ready(id);
    }

    /// The journal says that the agent waits no longer; gives what it waited for.
    pub(super) fn end_provider_wait(&mut self, id: &AgentId) -> Option<String> {
        let wait = self.run.open(id)?.provider_wait.as_ref()?;
        let reason = format!("{}: {}", wait.provider, wait.reason);
        let waited_ms = u64::try_from(self.rt.parts.system.now_ms() - wait.since_ms).unwrap_or(0);
        self.emit(id.clone(), ProviderWaitEnded { waited_ms });
        Some(reason)
    }

    /// The agent waits for its provider or a budget no longer: it is ending, or its report is next.
    pub(super) fn stop_waiting(&mut self, id: &AgentId) {
        if let Some(session) = self.sessions.get_mut(id) {
            if matches!(session.model_call, ModelCallStage::Provider(_) | ModelCallStage::Budget) {
                session.model_call.abort();
            }
            session.permit = None;
            session.unanswered = None;
        }
        self.end_provider_wait(id);
    }

    /// Goes on with a wait that the journal knows, for as long as it still takes.
    pub(super) fn resume_wait(&mut self, id: &AgentId) {
        let Some(wait) = self.run.open(id).and_then(|agent| agent.provider_wait.as_ref()) else { return };
        let left_ms = u64::try_from(wait.until_ms - self.rt.parts.system.now_ms()).unwrap_or(0);
        self.wait(id, async move {
            tokio::time::sleep(Duration::from_millis(left_ms)).await;
            WaitEnd::Pause
        });
    }

    /// What follows a call that failed.
    pub(super) fn after_failure(&self, done: &ModelDone) -> AfterFailure {
        let (Err(failure), Some(session)) = (&done.result, self.sessions.get(&done.agent)) else {
            return AfterFailure::Over;
        };
        if failure.error.code == Code::ContextOverflow {
            return self.shorter(&done.agent);
        }
        let Some(retry) = failure.retry else { return AfterFailure::Over };
        let failed = match (retry.limited, failure.error.code) {
            (true, _) => CallFailureClass::Limited,
            (false, Code::Timeout) => CallFailureClass::Silent,
            (false, _) => CallFailureClass::Unwell,
        };
        let unanswered = session.unanswered.map_or(done.elapsed, |unanswered| unanswered.since.elapsed());
        if call_retry::follows(failed, done.call, unanswered) {
            AfterFailure::Again { after: retry.after, limited: retry.limited }
        } else {
            AfterFailure::Over
        }
    }

    /// A conversation that is too long is made shorter, once in a turn.
    fn shorter(&self, id: &AgentId) -> AfterFailure {
        let Some(session) = self.sessions.get(id).filter(|session| !session.machine.overflowed()) else {
            return AfterFailure::Over;
        };
        let conversation = session.machine.conversation();
        let call_ids = conversation.excess(conversation.estimated_tokens() * OVERFLOW_KEPT_PERCENT / 100);
        if call_ids.is_empty() { AfterFailure::Over } else { AfterFailure::Shorter(call_ids) }
    }
}

fn unanswered(reason: Option<String>) -> Failure {
    let minutes = UNANSWERED_MAX.as_secs() / 60;
    let reason = reason.unwrap_or_else(|| "it does not answer".to_owned());
    Failure {
        kind: FailKind::Execution,
        code: Code::ModelError,
        reason: format!("no answer from the model within {minutes} minutes: {reason}"),
        report: None,
    }
}
