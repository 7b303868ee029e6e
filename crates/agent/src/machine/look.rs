//! Where a machine stands, for whoever drives it.
//!
//! Why it is like this: `docs/decisions/engine-same-call-failing.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use posse_domain::event::Purpose;
use posse_domain::hash::Hash;
use posse_domain::message::ToolCall;

use super::{FinalText, Machine, Phase, Slot};
use crate::conversation::{CallResult, Conversation};
use crate::notes;

impl Machine {
    /// The attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The turn of the attempt that was last begun; 0 before the first.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Working time of this attempt so far.
    pub fn active_ms(&self) -> u64 {
        self.active_ms
    }

    /// Working time of the turn that was last begun, as far as what it did has ended.
    pub fn turn_ms(&self) -> u64 {
        self.turn_ms
    }

    /// The conversation.
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// How often each tag came back.
    pub fn tags(&self) -> &Arc<BTreeMap<String, u32>> {
        &self.tags
    }

    /// The files the agent has seen.
    pub fn seen_files(&self) -> &Arc<BTreeMap<String, Hash>> {
        &self.seen
    }

    /// The calls under way and where each stands; empty if none are.
    pub fn calls(&self) -> (&[ToolCall], &[Slot]) {
        match &self.phase {
            Phase::Calling { calls, slots, .. } => (calls, slots),
            _ => (&[], &[]),
        }
    }

    /// The calls under way, shared.
    pub fn shared_calls(&self) -> Option<Arc<[ToolCall]>> {
        match &self.phase {
            Phase::Calling { calls, .. } => Some(calls.clone()),
            _ => None,
        }
    }

    /// The call with this id, if it is one of those under way.
    pub fn call_of(&self, call_id: &str) -> Option<&ToolCall> {
        match &self.phase {
            Phase::Calling { calls, index, .. } => index.get(call_id).and_then(|&at| calls.get(at)),
            _ => None,
        }
    }

    /// Whether the call at this place has its result.
    pub fn is_answered(&self, at: usize) -> bool {
        matches!(&self.phase, Phase::Calling { slots, .. } if matches!(slots.get(at), Some(Slot::Done { .. })))
    }

    /// The calls whose results no model has read, and these; without those a hook has objected to.
    pub fn unread_results(&self) -> Vec<(&ToolCall, &CallResult)> {
        let results: Vec<(&ToolCall, &CallResult)> = match (&self.phase, self.conversation.last_results()) {
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
        let told = |call: &ToolCall| {
            let opening = notes::hook_objects(&call.name, &call.id);
            self.inbox.iter().any(|note| note.starts_with(&opening))
        };
        results.into_iter().filter(|(call, _)| !told(call)).collect()
    }

    /// The calls that have no result yet.
    pub fn open_calls(&self) -> impl Iterator<Item = &ToolCall> {
        let (calls, slots) = self.calls();
        calls.iter().zip(slots).filter(|(_, slot)| matches!(slot, Slot::Open { .. })).map(|(call, _)| call)
    }

    /// The call of the turn under way, from 1; 0 between turns.
    pub fn call(&self) -> u32 {
        self.call
    }

    /// Why its report is next, if its model goes on asking for what no budget is left for.
    pub fn lacks_budget(&self) -> Option<&str> {
        self.lacks_budget.as_deref()
    }

    /// Whether the agent was told that most of a budget is used.
    pub fn is_warned(&self) -> bool {
        self.told.low
    }

    /// Whether the model said in this turn that the conversation is too long.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Whether the model call under way is for the report.
    pub fn is_reporting(&self) -> bool {
        matches!(self.phase, Phase::Asking { purpose: Purpose::Report, .. })
    }

    /// Whether the report that was asked for is there.
    pub fn has_reported(&self) -> bool {
        matches!(self.phase, Phase::Answered(FinalText { cause: Some(_), .. }))
    }

    /// Takes the messages that no turn has read, to hand them to another machine of the same agent.
    pub fn take_inbox(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.inbox)
    }

    /// Hands over messages that no turn has read.
    pub fn put_inbox(&mut self, inbox: Vec<Arc<str>>) {
        self.inbox = inbox;
    }

    /// Whether a model call is under way.
    pub fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Asking { .. })
    }

    /// What the agent could report now: the last text its model gave without calls, if that is where it stands,
    /// and what came since.
    pub fn report_so_far(&self) -> Option<Arc<str>> {
        match &self.phase {
            Phase::Answered(FinalText { text, .. }) if !text.trim().is_empty() => Some(self.report(text)),
            _ => None,
        }
    }
}
