//! What the driver knows about an agent beyond the journal: what is in flight, and what it waits for.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use posse_agent::machine::Machine;
use posse_domain::contract::ExecutionTerms;
use posse_domain::event::{EffectClass, SeenFile};
use posse_domain::hash::Hash;
use posse_domain::lifecycle::{Failure, SKILL_TOOL};
use posse_domain::message::ToolCall;
use posse_domain::object_id::ObjectId;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::commands::HookVerdicts;
use super::desks::preamble::AgentPreamble;
use super::hooking::PendingHooks;
use super::place::WorkspaceState;
use super::waiting::SilentSince;
use crate::ports::{Model, ModelFacts, Permit, SeenFiles, StopSignal, Urgency};

/// A tool call that was dispatched and has no result yet.
#[derive(Debug)]
pub(crate) struct CallInFlight {
    pub(crate) class: EffectClass,
    pub(crate) stage: CallStage,
    pub(crate) seen: Arc<SeenDuringCall>,
    /// Tells it to end, if it is of a kind that is waited for.
    pub(crate) stop: Option<watch::Sender<Urgency>>,
    /// Whether it shares the agent's files with other changes, so that nothing has them alone.
    pub(crate) holds: bool,
    /// What hooks have said before it is admitted.
    pub(crate) heard: Option<Box<HookVerdicts>>,
}

impl CallInFlight {
    pub(crate) fn new(class: EffectClass, stage: CallStage, seen: Arc<SeenDuringCall>) -> Self {
        let stop = (class == EffectClass::Exec).then(|| StopSignal::new().0);
        Self { class, stage, seen, stop, holds: false, heard: None }
    }

    /// What the call's task listens to.
    pub(crate) fn signal(&self) -> StopSignal {
        self.stop.as_ref().map_or_else(StopSignal::never, StopSignal::of)
    }

    pub(crate) fn hurry(&self, urgency: Urgency) {
        if let Some(stop) = &self.stop {
            stop.send_if_modified(|now| std::mem::replace(now, urgency.max(*now)) < urgency);
        }
    }
}

/// How far a dispatched call is.
#[derive(Debug)]
pub(crate) enum CallStage {
    /// Waits for a slot.
    Queued,
    /// Holds a slot; its task looks or acts.
    Running(AbortHandle),
    /// Holds a slot; waits for its intent, or the reply that asked for it, to be durable.
    Committing,
    /// Waits inside the engine, for a child or for a status to change; holds no slot.
    Waiting,
    /// Waits for its workspace, or for its files to be free; holds no slot.
    Parked,
    /// Waits for a person, and keeps its place among the calls of its reply; holds no slot.
    Asking,
    /// Waits for hooks: before it is admitted, or after its result; keeps its place, and holds no slot.
    Hooking,
}

/// Everything ephemeral about one open agent.
pub(crate) struct Session {
    pub(crate) machine: Machine,
    pub(crate) kind: Arc<str>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) facts: ModelFacts,
    /// What every request of this agent begins with.
    pub(crate) preamble: AgentPreamble,
    /// How far its next model call is.
    pub(crate) model_call: ModelCallStage,
    /// The right to make that call.
    pub(crate) permit: Option<Permit>,
    /// Since when its model has given no answer, once a call has failed or cannot be made.
    pub(crate) unanswered: Option<SilentSince>,
    /// What it begins with.
    pub(crate) start_point: StartPoint,
    /// The first call of the reply that was not dispatched.
    pub(crate) cursor: usize,
    pub(crate) calls: Calls,
    /// The hooks that have not answered yet.
    pub(crate) hooks: Vec<PendingHooks>,
    /// Whether hooks have heard that it is about to start.
    pub(crate) start: Start,
    /// The kind of its newest event.
    pub(crate) last_activity: &'static str,
    /// Why the attempt is ending, once it is.
    pub(crate) ending: Option<Failure>,
    /// How far it is with ending because its time is up.
    pub(crate) winding: TimeUp,
    /// Where its calls run.
    pub(crate) place: WorkspaceState,
    /// The calls that wait for that, or for its files.
    pub(crate) parked: Vec<Arc<str>>,
    /// The newest commit of its files.
    pub(crate) tip: Option<ObjectId>,
    /// The commit with what it made of its files, from the moment they are kept.
    pub(crate) change: Option<ObjectId>,
    /// Whether its files are being kept, or for the root delivered.
    pub(crate) keeping: SalvageProgress,
}

/// How far an agent is with ending because its time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeUp {
    /// Its time is not up.
    No,
    /// It starts nothing any more, and writes its report once its calls have ended.
    Up,
    /// Its deadline has passed while something that is not cut kept it from its report, which it may still write.
    Late,
}

/// Whether hooks have heard of an agent's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// They have not.
    Untold,
    /// They have, or are hearing of it.
    Told,
}

/// What a child begins with, as far as that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartPoint {
    /// The conversation of a closed child, which is being read.
    History,
    /// Nothing was asked for yet; an agent of a run without workspaces of its own stays here.
    Unknown,
    /// A snapshot of its parent's files, which is being taken.
    Awaited,
    /// This snapshot.
    Snapshot(ObjectId),
}

/// How far an agent's next model call is.
#[derive(Debug)]
pub(crate) enum ModelCallStage {
    /// It waits for nothing: no call is wanted, or its commit is under way.
    Idle,
    /// Waits for a slot.
    Slot,
    /// Did not fit into a budget; waits until another call is charged.
    Budget,
    /// This task waits for the provider: for a permit, or for a pause to end.
    Provider(AbortHandle),
    /// This task waits for the reply.
    Reply(AbortHandle),
}

impl ModelCallStage {
    pub(crate) fn task(&self) -> Option<&AbortHandle> {
        match self {
            Self::Provider(task) | Self::Reply(task) => Some(task),
            Self::Idle | Self::Slot | Self::Budget => None,
        }
    }

    /// Ends the task, if there is one; the call is not wanted any more.
    pub(crate) fn abort(&mut self) {
        if let Some(task) = self.task() {
            task.abort();
        }
        *self = Self::Idle;
    }
}

/// How far the files of an agent that ends are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SalvageProgress {
    /// Nothing is under way.
    No,
    /// They are being committed, or delivered.
    UnderWay,
}

impl Session {
    /// Whether an unfinished call keeps one of `class` from starting. One that spawns also waits for the hooks of such a
    /// call before it: children are numbered in the order in which they were asked for, whoever answers first.
    pub(crate) fn blocks(&self, call: &ToolCall, class: EffectClass) -> bool {
        // A skill may be one that forks.
        let spawns = |call: &ToolCall, class| class == EffectClass::Delegate || call.name == SKILL_TOOL;
        let asked_before = |id: &str| {
            let call = self.machine.call_of(id).zip(self.calls.get(id));
            call.is_some_and(|(call, flight)| spawns(call, flight.class))
        };
        let mut hooked = self.hooks.iter().filter_map(PendingHooks::before);
        self.calls.block(class) || (spawns(call, class) && hooked.any(asked_before))
    }

    /// Working time that the attempt and the turn under way still have; none if neither is limited.
    pub(crate) fn time_left_ms(&self, terms: &ExecutionTerms) -> Option<u64> {
        let attempt = terms.attempt_timeout_ms.map(|limit| limit.saturating_sub(self.machine.active_ms()));
        let turn = terms.turn_timeout_ms.map(|limit| limit.saturating_sub(self.machine.turn_ms()));
        [attempt, turn].into_iter().flatten().min()
    }

    /// Whether anything of this agent may still act on the outside.
    pub(crate) fn is_quiet(&self) -> bool {
        !matches!(self.model_call, ModelCallStage::Reply(_))
            && self.hooks.is_empty()
            && self.keeping == SalvageProgress::No
            && self.place != WorkspaceState::Making
            && self.calls.values().all(|call| !matches!(call.stage, CallStage::Running(_)))
    }
}

/// The dispatched calls of a reply. Counted by class, so that a wide reply is dispatched without a walk per call.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    by_id: HashMap<Arc<str>, CallInFlight>,
    looking: usize,
    changing: usize,
}

impl Calls {
    pub(crate) fn insert(&mut self, id: Arc<str>, call: CallInFlight) {
        if let Some(count) = self.count(call.class) {
            *count += 1;
        }
        self.by_id.insert(id, call);
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<CallInFlight> {
        let call = self.by_id.remove(id)?;
        if let Some(count) = self.count(call.class) {
            *count -= 1;
        }
        Some(call)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut CallInFlight> {
        self.by_id.get_mut(id)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&CallInFlight> {
        self.by_id.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &CallInFlight)> {
        self.by_id.iter()
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &CallInFlight> {
        self.by_id.values()
    }

    fn count(&mut self, class: EffectClass) -> Option<&mut usize> {
        match class {
            EffectClass::Write | EffectClass::Exec => Some(&mut self.changing),
            EffectClass::Read | EffectClass::Net => Some(&mut self.looking),
            EffectClass::Delegate | EffectClass::Journal => None,
        }
    }

    /// Whether an unfinished call keeps one of `class` from starting: a change waits for every look before it,
    /// and everything waits for a change before it. Delegates hold nobody up.
    pub(crate) fn block(&self, class: EffectClass) -> bool {
        self.changing > 0 || (class.changes_workspace() && self.looking > 0)
    }
}

/// Files seen before a call and during it. What is noted goes into the journal with the call's result.
#[derive(Debug, Default)]
pub(crate) struct SeenDuringCall {
    before: Arc<BTreeMap<String, Hash>>,
    noted: Mutex<Vec<SeenFile>>,
}

impl SeenDuringCall {
    pub(crate) fn new(before: Arc<BTreeMap<String, Hash>>) -> Self {
        Self { before, noted: Mutex::default() }
    }

    pub(crate) fn take(&self) -> Vec<SeenFile> {
        std::mem::take(&mut *self.noted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SeenFiles for SeenDuringCall {
    fn seen(&self, path: &str) -> Option<Hash> {
        let noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        let during = noted.iter().rev().find(|file| file.path == path).map(|file| file.hash);
        during.or_else(|| self.before.get(path).copied())
    }

    fn note(&self, path: &str, hash: Hash) {
        let file = SeenFile { path: path.to_owned(), hash };
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    }
}
