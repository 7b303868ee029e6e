//! Read access to a machine's state, for its driver.
//!
//! Why it is like this: `docs/decisions/engine-same-call-failing.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use posse_domain::event::Purpose;
use posse_domain::hash::Hash;
use posse_domain::message::ToolCall;

use super::{CallPlace, FinalText, Machine, Overflow, Phase, Slot};
use crate::conversation::{CallResult, Conversation};

impl Machine {
    /// The attempt's number, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The number of the current or last turn. 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// The working time of this attempt so far.
    pub fn active_ms(&self) -> u64 {
        self.active_ms
    }

    /// The working time of the current or last turn, without calls that have not ended.
    pub fn turn_ms(&self) -> u64 {
        self.turn_ms
    }

    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// How often the model returned each tag.
    pub fn tags(&self) -> &Arc<BTreeMap<String, u32>> {
        &self.tags
    }

    /// The files that the agent has read or written, by hash.
    pub fn seen_files(&self) -> &Arc<BTreeMap<String, Hash>> {
        &self.seen
    }

    /// The calls in progress and their states. Empty if there are none.
    pub fn calls(&self) -> (&[ToolCall], &[Slot]) {
        match &self.phase {
            Phase::Calling { calls, slots, .. } => (calls, slots),
            _ => (&[], &[]),
        }
    }

    /// The calls in progress, shared.
    pub fn shared_calls(&self) -> Option<Arc<[ToolCall]>> {
        match &self.phase {
            Phase::Calling { calls, .. } => Some(calls.clone()),
            _ => None,
        }
    }

    /// The call with this id, if it is in progress.
    pub fn call_of(&self, call_id: &str) -> Option<&ToolCall> {
        match &self.phase {
            Phase::Calling { calls, index, .. } => index.get(call_id).and_then(|&at| calls.get(at)),
            _ => None,
        }
    }

    /// Whether the call at this index has its result.
    pub fn is_answered(&self, at: usize) -> bool {
        matches!(&self.phase, Phase::Calling { slots, .. } if matches!(slots.get(at), Some(Slot::Done { .. })))
    }

    /// The calls whose results no model has read, with the results. Calls that a hook objected to are omitted.
    pub fn unread_results(&self) -> Vec<(&ToolCall, &CallResult)> {
        let results: Vec<(&ToolCall, &CallResult)> =
            match (self.resting_phase(), self.conversation.last_results()) {
                (Phase::Calling { calls, slots, .. }, _) => calls
                    .iter()
                    .zip(slots)
                    .filter_map(|(call, slot)| match slot {
                        Slot::Done { result, .. } => Some((call, result)),
                        Slot::Open { .. } => None,
                    })
                    .collect(),
                (Phase::Ready { .. }, Some((calls, results))) if self.call == 0 => {
                    calls.iter().zip(results).collect()
                }
                _ => Vec::new(),
            };
        results.into_iter().filter(|(call, _)| !self.objected.contains(&call.id)).collect()
    }

    /// The calls that have no result yet.
    pub fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let (calls, slots) = self.calls();
        calls.iter().zip(slots).filter(|(_, slot)| matches!(slot, Slot::Open { .. })).map(|(call, _)| call)
    }

    /// The number of the current model call in its turn, from 1. 0 between turns.
    pub fn call(&self) -> u32 {
        self.call
    }

    /// The exhausted budget that makes the report next, because the model keeps calling tools that need it.
    pub fn lacks_budget(&self) -> Option<&str> {
        self.lacks_budget.as_deref()
    }

    /// Whether the agent was warned that most of a budget is spent.
    pub fn is_warned(&self) -> bool {
        self.notes_given.low
    }

    /// What happened since the provider refused the conversation of this turn as too long.
    pub fn overflow(&self) -> Overflow {
        self.overflow
    }

    /// The model call in flight.
    pub fn in_flight(&self) -> Option<CallPlace> {
        match &self.phase {
            Phase::Asking { .. } => {
                let Self { attempt, turn, call, .. } = *self;
                Some(CallPlace { attempt, turn, call, summary: false })
            }
            Phase::Summarising { place, .. } => Some(*place),
            _ => None,
        }
    }

    /// The phase, or the phase before the summary call in flight.
    fn resting_phase(&self) -> &Phase {
        match &self.phase {
            Phase::Summarising { before, .. } => before,
            phase => phase,
        }
    }

    /// Whether the model call in flight is for the report.
    pub fn is_reporting(&self) -> bool {
        matches!(self.phase, Phase::Asking { purpose: Purpose::Report, .. })
    }

    /// Whether a requested report has arrived.
    pub fn has_reported(&self) -> bool {
        matches!(self.phase, Phase::Answered(FinalText { cause: Some(_), .. }))
    }

    /// Removes the unread messages, so that the driver can move them to another machine of the same agent.
    pub fn take_inbox(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.inbox)
    }

    /// Adds the unread messages of another machine.
    pub fn put_inbox(&mut self, inbox: Vec<Arc<str>>) {
        self.inbox = inbox;
    }

    /// Whether a model call is in flight.
    pub fn is_asking(&self) -> bool {
        self.in_flight().is_some()
    }

    /// The report that the agent could give now: the model's last text without calls, if that is the last message, and
    /// the messages since.
    pub fn report_so_far(&self) -> Option<Arc<str>> {
        match self.resting_phase() {
            Phase::Answered(FinalText { text, .. }) if !text.trim().is_empty() => Some(self.report(text)),
            _ => None,
        }
    }
}
