//! Bookkeeping of the call desk for tool calls that were dispatched and have no result yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use posse_domain::event::{EffectClass, SeenFile};
use posse_domain::hash::Hash;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::commands::HookVerdicts;
use crate::ports::{SeenFiles, StopSignal, Urgency};

#[derive(Debug)]
pub(super) struct CallInFlight {
    pub(super) class: EffectClass,
    pub(super) stage: CallStage,
    pub(super) seen: Arc<SeenDuringCall>,
    /// Asks the call to end. Only set for exec calls, for which the agent waits.
    pub(super) stop: Option<watch::Sender<Urgency>>,
    /// Whether the call uses the agent's files, so that no merge may have exclusive access to them.
    pub(super) holds: bool,
    /// The verdicts of hooks, until the call is admitted.
    pub(super) verdicts: Option<Box<HookVerdicts>>,
}

impl CallInFlight {
    pub(super) fn new(class: EffectClass, stage: CallStage, seen: Arc<SeenDuringCall>) -> Self {
        let stop = (class == EffectClass::Exec).then(|| StopSignal::new().0);
        Self { class, stage, seen, stop, holds: false, verdicts: None }
    }

    /// The stop signal for the call's task.
    pub(super) fn signal(&self) -> StopSignal {
        self.stop.as_ref().map_or_else(StopSignal::never, StopSignal::of)
    }

    pub(super) fn hurry(&self, urgency: Urgency) {
        if let Some(stop) = &self.stop {
            stop.send_if_modified(|now| std::mem::replace(now, urgency.max(*now)) < urgency);
        }
    }
}

/// The progress of a dispatched call.
#[derive(Debug)]
pub(super) enum CallStage {
    /// Waits for a slot.
    Queued,
    /// Holds a slot; its task prepares or acts.
    Running(AbortHandle),
    /// Holds a slot; waits for its intent, or the reply that asked for it, to be durable.
    Committing,
    /// Waits inside the engine for a child or a status change. Holds no slot.
    Waiting,
    /// Waits for its workspace, or until its files are free. Holds no slot.
    Parked,
    /// Waits for a user, and keeps its position among the calls of its reply. Holds no slot.
    Asking,
    /// Waits for hooks, before it is admitted or after its result. Keeps its position. Holds no slot.
    Hooking,
}

/// The dispatched calls of a reply, counted by class, so that dispatching a call need not visit all others.
#[derive(Debug, Default)]
pub(super) struct Calls {
    by_id: HashMap<Arc<str>, CallInFlight>,
    reading: usize,
    changing: usize,
}

impl Calls {
    pub(super) fn insert(&mut self, id: Arc<str>, call: CallInFlight) {
        if let Some(count) = self.count(call.class) {
            *count += 1;
        }
        self.by_id.insert(id, call);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<CallInFlight> {
        let call = self.by_id.remove(id)?;
        if let Some(count) = self.count(call.class) {
            *count -= 1;
        }
        Some(call)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut CallInFlight> {
        self.by_id.get_mut(id)
    }

    pub(super) fn get(&self, id: &str) -> Option<&CallInFlight> {
        self.by_id.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &CallInFlight)> {
        self.by_id.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &CallInFlight> {
        self.by_id.values()
    }

    fn count(&mut self, class: EffectClass) -> Option<&mut usize> {
        match class {
            EffectClass::Write | EffectClass::Exec => Some(&mut self.changing),
            EffectClass::Read | EffectClass::Net => Some(&mut self.reading),
            EffectClass::Delegate | EffectClass::Journal => None,
        }
    }

    /// Whether an unfinished call prevents a call of `class` from starting. A change waits for every earlier read, and
    /// every call waits for an earlier change. Delegates block no other call.
    pub(super) fn block(&self, class: EffectClass) -> bool {
        self.changing > 0 || (class.changes_workspace() && self.reading > 0)
    }
}

/// The files that an agent has read before and during a call. Those read during the call are journalled with its
/// result.
#[derive(Debug, Default)]
pub(super) struct SeenDuringCall {
    before: Arc<BTreeMap<String, Hash>>,
    noted: Mutex<Vec<SeenFile>>,
}

impl SeenDuringCall {
    pub(super) fn new(before: Arc<BTreeMap<String, Hash>>) -> Self {
        Self { before, noted: Mutex::default() }
    }

    pub(super) fn take(&self) -> Vec<SeenFile> {
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
