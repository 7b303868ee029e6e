//! The summary calls of an agent, and the compaction of its conversation with their summaries.
//!
//! The driver asks whether a compaction is due, makes the summary call, and journals the compaction in the commit of its
//! reply. The call leaves the turn, the unread messages and the phase as they are.
//!
//! Why it is like this: `docs/decisions/context-compaction.md`.

use posse_domain::code::Code;
use posse_domain::event::{ContextCompacted, ModelCalled, ModelReplied, ReportCause, SummaryScope};

use super::{AttemptFailure, CallPlace, Machine, Overflow, Phase};
use crate::compaction::{self, CutPoint};
use crate::conversation::{Conversation, Message};
use crate::notes;

impl Machine {
    /// The compaction that is due before the next model call, if its messages may have `window_tokens`. None if they fit,
    /// or if a summary would not make the conversation shorter.
    pub fn due_compaction(&self, cause: Option<ReportCause>, window_tokens: u64) -> Option<CutPoint> {
        let upcoming = self.upcoming(cause).1;
        let is_refused = self.overflow == Overflow::Refused;
        if upcoming <= window_tokens && !is_refused {
            return None;
        }
        let added = upcoming.saturating_sub(self.conversation.estimated_tokens());
        compaction::cut(&self.conversation, self.assignment, added, window_tokens, is_refused)
    }

    /// Whether a compaction can make the conversation shorter that the provider just refused.
    pub fn can_compact_refused(&self, window_tokens: u64) -> bool {
        compaction::cut(&self.conversation, self.assignment, 0, window_tokens, true).is_some()
    }

    /// The number of the next summary call before the next turn.
    pub fn next_summary_call(&self) -> u32 {
        self.summary_calls.made + 1
    }

    /// How many summary calls before the next turn the provider refused as too long.
    pub fn refused_summaries(&self) -> u32 {
        self.summary_calls.refused
    }

    /// The messages of a summary call.
    pub fn summary_request(&self, scope: &SummaryScope) -> Conversation {
        let end = position(scope.messages).min(self.conversation.messages().len());
        compaction::request(&self.conversation.messages()[..end], &self.first, scope.input_tokens)
    }

    /// The compaction that follows from the reply to the summary call in flight, which may have had `output_tokens`. An
    /// empty reply is replaced by a summary of the host.
    pub fn compacted_by_reply(
        &self,
        text: &str,
        is_cut_off: bool,
        output_tokens: u64,
    ) -> Option<ContextCompacted> {
        let Phase::Summarising { place, scope, .. } = &self.phase else { return None };
        let cut = CutPoint { messages: position(scope.messages), summary_tokens: output_tokens };
        let summary = match text.trim() {
            "" => self.host_summary(cut),
            text if is_cut_off => {
                compaction::bounded(&format!("{text}\n\n{}", notes::CUT_SUMMARY), output_tokens)
            }
            text => compaction::bounded(text, output_tokens),
        };
        Some(self.compacted(place.turn, Some(place.call), cut, summary))
    }

    /// The compaction without a model, with a summary of the host.
    pub fn compacted_by_host(&self, cut: CutPoint) -> ContextCompacted {
        self.compacted(self.upcoming_turn(), None, cut, self.host_summary(cut))
    }

    fn host_summary(&self, cut: CutPoint) -> String {
        let end = cut.messages.min(self.conversation.messages().len());
        let replaced = &self.conversation.messages()[..end];
        compaction::host_summary(replaced, &self.first, cut.summary_tokens)
    }

    fn compacted(&self, turn: u32, call: Option<u32>, cut: CutPoint, summary: String) -> ContextCompacted {
        let count = self.conversation.messages().len();
        let end = cut.messages.min(count);
        let mut after = self.conversation.clone();
        after.compact(self.assignment, end, summary_message(&summary));
        ContextCompacted {
            attempt: self.attempt,
            turn,
            call,
            replaced: end.saturating_sub(1) as u64,
            kept: (count - end) as u64,
            summary: summary.into(),
            tokens_before: self.conversation.estimated_tokens(),
            tokens_after: after.estimated_tokens(),
        }
    }

    pub(super) fn summary_called(&mut self, called: &ModelCalled, scope: SummaryScope) {
        self.summary_calls.made = called.call;
        let before = Box::new(std::mem::replace(&mut self.phase, Phase::Ready { repair: false }));
        let ModelCalled { attempt, turn, call, .. } = *called;
        let place = CallPlace { attempt, turn, call, summary: true };
        self.phase = Phase::Summarising { place, scope, before };
    }

    pub(super) fn summary_replied(&mut self, replied: &ModelReplied) {
        let phase = std::mem::replace(&mut self.phase, Phase::Ready { repair: false });
        let Phase::Summarising { before, .. } = phase else { return };
        self.phase = match &replied.error {
            Some(error) if !error.again && error.code != Code::Interrupted => {
                Phase::Broken(AttemptFailure::of(error))
            }
            Some(error) => {
                self.summary_calls.refused += u32::from(error.code == Code::ContextOverflow);
                *before
            }
            None => *before,
        };
    }

    pub(super) fn context_compacted(&mut self, compacted: &ContextCompacted) {
        let cut = self.conversation.messages().len().saturating_sub(position(compacted.kept));
        self.conversation.compact(self.assignment, cut, summary_message(&compacted.summary.to_shared()));
        self.assignment = 0;
        self.summary_calls.refused = 0;
        if self.overflow == Overflow::Refused {
            self.overflow = Overflow::Compacted;
        }
    }
}

fn summary_message(summary: &str) -> Message {
    Message::User(notes::summary(summary).into())
}

fn position(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
