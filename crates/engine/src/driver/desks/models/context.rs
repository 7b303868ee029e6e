//! Fits the requests of an agent into the context of its model.
//!
//! 1. The oldest outputs are omitted.
//! 2. If that is not enough, a summary call comes first, whose summary replaces the older part of the conversation.
//! 3. If the provider refuses every request for a summary as too long, the host writes the summary.
//! 4. A conversation that cannot become shorter is sent as it is: sizes are estimates, and the provider decides.
//!
//! Why it is like this: `docs/decisions/context-compaction.md`.

use posse_agent::compaction::longest_part;
use posse_agent::conversation::BYTES_PER_TOKEN;
use posse_agent::machine::Overflow;
use posse_domain::event::{ContextTrimmed, Purpose, ReportCause, SummaryScope};
use posse_domain::id::AgentId;

use super::provider::AfterFailure;
use super::{CallPurpose, ModelDesk, ModelDone};
use crate::driver::core::Core;
use crate::driver::desks::preamble::PreambleDesk;

/// Part of a model's context that the conversation may fill before old outputs are omitted.
const CONTEXT_FILL_PERCENT: u64 = 80;
/// Part of a model's context that is kept for its reply. A small context may be no longer than the longest reply.
const REPLY_MAX_PERCENT: u64 = 50;
/// Part of the conversation that is kept when a model reports that it is too long.
const OVERFLOW_KEPT_PERCENT: u64 = 50;
/// How many requests for a summary a provider may refuse as too long. Each has half the length of the one before.
const REFUSED_SUMMARIES_MAX: u32 = 2;

/// A call for a summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummaryCall {
    pub(crate) scope: SummaryScope,
    /// The desired maximum length of the summary.
    pub(crate) output_tokens: u64,
}

/// The room in the context of a model for the messages of a request.
struct ContextRoom {
    /// Beside the preamble and a reply.
    messages: u64,
    /// Beside the preamble alone.
    messages_and_reply: u64,
    /// Beside a reply alone.
    conversation: u64,
}

impl ModelDesk {
    /// Makes the agent's next request fit into the context. Returns the call, or the summary call that comes before it.
    pub(super) fn fit_context(
        &self,
        core: &mut Core,
        preambles: &PreambleDesk,
        id: &AgentId,
        call: CallPurpose,
    ) -> CallPurpose {
        let Some(room) = self.context_room(preambles, id) else { return call };
        trim(core, id, &room, call.cause);
        let Some(machine) = core.sessions.get(id).map(|session| &session.machine) else { return call };
        let Some(cut) = machine.due_compaction(call.cause, room.messages) else { return call };
        // The budget or the time that is left is for the report.
        if matches!(call.cause, Some(ReportCause::Budget | ReportCause::Time)) {
            return CallPurpose { trimmed: true, ..call };
        }
        let refused = machine.refused_summaries();
        if refused >= REFUSED_SUMMARIES_MAX {
            let compacted = machine.compacted_by_host(cut);
            core.emit(id.clone(), compacted);
            return call;
        }
        let mut input_tokens = room.messages_and_reply.saturating_sub(cut.summary_tokens);
        if machine.overflow() == Overflow::Refused {
            let kept = machine.conversation().estimated_tokens() * OVERFLOW_KEPT_PERCENT / 100;
            input_tokens = input_tokens.min(kept);
        }
        let scope = SummaryScope { messages: cut.messages as u64, input_tokens: input_tokens >> refused };
        let summary = Some(SummaryCall { scope, output_tokens: cut.summary_tokens });
        CallPurpose { purpose: Purpose::Summary, cause: None, reason: None, trimmed: false, summary }
    }

    fn context_room(&self, preambles: &PreambleDesk, id: &AgentId) -> Option<ContextRoom> {
        let facts = self.facts(id)?;
        let preamble_tokens = preambles.of(id)?.bytes / BYTES_PER_TOKEN;
        let messages_and_reply = facts.context_tokens.saturating_sub(preamble_tokens);
        let reply = facts.max_output_tokens.min(facts.context_tokens * REPLY_MAX_PERCENT / 100);
        Some(ContextRoom {
            messages: messages_and_reply.saturating_sub(reply),
            messages_and_reply,
            conversation: facts.context_tokens - reply,
        })
    }

    /// How an agent continues whose request was refused as too long: once with fewer old outputs, then once with a
    /// summary. A refused request for a summary is followed by a shorter one, and in the end by the host's summary.
    pub(super) fn after_refusal(&self, core: &Core, done: &ModelDone) -> AfterFailure {
        if done.place.summary {
            return AfterFailure::Compact;
        }
        let Some(machine) = core.sessions.get(&done.agent).map(|session| &session.machine) else {
            return AfterFailure::Over;
        };
        let conversation = machine.conversation();
        let call_ids = conversation.excess(conversation.estimated_tokens() * OVERFLOW_KEPT_PERCENT / 100);
        let may_compact = match machine.overflow() {
            Overflow::No if !call_ids.is_empty() => return AfterFailure::Shorter(call_ids),
            Overflow::No | Overflow::Trimmed => true,
            Overflow::Refused | Overflow::Compacted => false,
        };
        // A replay does not know the model's context. It repeats what was recorded.
        let can_compact = match &done.result {
            Err(failure) if core.replaying.is_some() => failure.retry.is_some(),
            _ => {
                self.facts(&done.agent).is_some_and(|facts| machine.can_compact_refused(facts.context_tokens))
            }
        };
        if may_compact && can_compact { AfterFailure::Compact } else { AfterFailure::Over }
    }
}

/// Omits the oldest outputs until the conversation fits. A conversation that was refused is compacted instead.
fn trim(core: &mut Core, id: &AgentId, room: &ContextRoom, cause: Option<ReportCause>) {
    let Some(machine) = core.sessions.get(id).map(|session| &session.machine) else { return };
    if machine.overflow() == Overflow::Refused {
        return;
    }
    let conversation = machine.conversation();
    let added = machine.upcoming(cause).1.saturating_sub(conversation.estimated_tokens());
    let limit = (room.conversation * CONTEXT_FILL_PERCENT / 100).min(room.messages.saturating_sub(added));
    let call_ids = conversation.excess(limit);
    if !call_ids.is_empty() {
        omit_outputs(core, id, call_ids);
    }
}

pub(super) fn omit_outputs(core: &mut Core, id: &AgentId, call_ids: Vec<String>) {
    let Some(session) = core.sessions.get(id) else { return };
    let freed_bytes = session.machine.conversation().clone().trim(&call_ids);
    core.emit(id.clone(), ContextTrimmed { call_ids, freed_bytes });
}

/// The error of a refused request that cannot become shorter. A replay has these words in its recording.
pub(super) fn name_longest_part(core: &Core, id: &AgentId, message: &mut String) {
    let Some(session) = core.sessions.get(id).filter(|_| core.replaying.is_none()) else { return };
    let longest = longest_part(session.machine.conversation());
    message.push_str("; even the newest turn does not fit into the model's context: ");
    message.push_str(&longest);
}
