//! Carrying out a plan: steps are spawned as what they depend on is integrated; the root is asked only if one fails.

use std::collections::BTreeSet;
use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::Sender;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Refusal;

use super::Driver;
use super::commands::StepAdmission;
use crate::integrate::Fact;

/// Whether the child of a step will work, and so needs room for its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Needed,
    NotNeeded,
}

/// What became of a step.
enum StepOutcome {
    /// It has a child.
    Child(AgentId),
    /// It has none, and will not have one.
    Refused,
    /// There is no room for it now.
    Later,
}

impl Driver {
    /// Starts every step that may start.
    pub(super) fn advance_plan(&mut self) {
        if self.run.planned.is_none() || self.poisoned.is_some() {
            return;
        }
        let root = self.run.id.root();
        let ending = self.sessions.get(&root).is_none_or(|session| session.ending.is_some());
        if ending || self.run.is_cancelled(&root) {
            return;
        }
        // A step that is refused has failed, which may be the end of those that depend on it, or of all.
        while let Some(step) = self.take_admitted_step() {
            match self.create_step(step, Room::Needed) {
                StepOutcome::Child(child) => self.begin_child(&child),
                StepOutcome::Refused => {}
                // The end of one that works makes room.
                StepOutcome::Later => break,
            }
            if self.poisoned.is_some() {
                return;
            }
        }
        self.keep_places();
        // The root waits as long as a step may start by itself; it may have been looked at before this.
        self.mark_ready(&root);
    }

    /// Asks for leave for the steps that could start, in their order, until one has it. Refuses those that may not run,
    /// and passes over those that wait for a person or for hooks.
    fn take_admitted_step(&mut self) -> Option<usize> {
        let mut passed_over = BTreeSet::new();
        // A refusal may be the end of others that could have started, so they are looked up again after each.
        while let Some(step) = self.run.next_steps().into_iter().find(|step| !passed_over.contains(step)) {
            match self.admit_step(step) {
                StepAdmission::Goes => return Some(step),
                StepAdmission::Waits => {}
                StepAdmission::Refused(refusal) => self.refuse_step(step, &refusal),
            }
            passed_over.insert(step);
        }
        None
    }

    /// Keeps the places of steps that are still to be created.
    pub(super) fn keep_places(&mut self) {
        if self.run.planned.is_some() {
            let due = self.run.first_due_rank();
            let root = self.run.id.root();
            self.merge_queue(&root).apply(Fact::PlanWaitsFrom(due));
            self.mark_merge_queue(&root);
        }
    }

    /// Whether a step may still start by itself.
    pub(super) fn plan_goes_on(&self, id: &AgentId) -> bool {
        id.is_root() && self.run.planned.is_some() && !self.run.next_steps().is_empty()
    }

    /// Creates the child of a step, unless that is refused.
    fn create_step(&mut self, step: usize, room: Room) -> StepOutcome {
        let class_of = |name: &str| self.rt.tools.get(name).map(|tool| tool.class);
        let decided = match self.run.spawn_step(step, &class_of) {
            Ok(decided) => decided,
            Err(refusal) => {
                self.refuse_step(step, &refusal);
                return StepOutcome::Refused;
            }
        };
        if let (Room::Needed, Err(refusal)) = (room, self.check_room(&decided)) {
            if self.has_working_children(&self.run.id.root()) {
                return StepOutcome::Later;
            }
            self.refuse_step(step, &refusal);
            return StepOutcome::Refused;
        }
        self.forget_step_hooks(step);
        let (child, body) = decided;
        self.emit(child.clone(), body);
        if self.open_child(&child) { StepOutcome::Child(child) } else { StepOutcome::Refused }
    }

    pub(super) fn refuse_step(&mut self, step: usize, refusal: &Refusal) {
        self.forget_step_hooks(step);
        let (parent, body) = self.run.refuse_step(step, refusal);
        self.emit(parent, body);
    }

    /// The child of a step has ended. Only a failure is news to the root.
    pub(super) fn step_ended(&mut self, child: &AgentId, result: &Result<Arc<str>, (Code, String)>) {
        let root = self.run.id.root();
        if let (Err((code, reason)), true) = (result, self.sessions.contains_key(&root)) {
            let title = self.run.planned.as_ref().and_then(|planned| {
                let at = planned.children.iter().position(|step| step.as_ref() == Some(child))?;
                planned.plan.steps.get(at).map(|step| step.title.clone())
            });
            let text = format!(
                "The step `{}` of the plan (task {id}) has failed: {code}: {reason}\n\nYou may repair it: start a task \
                 with `repairs: \"{id}\"`, which begins with everything that is integrated so far. Steps that depend on \
                 this one wait for that. Or answer without a tool call to leave it failed.",
                title.unwrap_or_default(),
                id = child.relative(),
            );
            if let Some(received) = self.in_turn(&root, Sender::Child(child.clone()), text.into()) {
                self.emit(root, received);
            }
        }
    }

    /// Nothing is left to do: steps that waited for one that failed are created and fail with it, so that each has
    /// its place in the journal.
    pub(super) fn abandon_steps(&mut self) {
        for step in self.run.due_steps() {
            let StepOutcome::Child(child) = self.create_step(step, Room::NotNeeded) else { continue };
            if let Some((id, body)) = self.run.abandon(&child) {
                self.emit(id, body);
            }
            self.sessions.remove(&child);
            self.fresh.retain(|fresh| *fresh != child);
            self.merging.leave(&child);
            self.report_abandoned(&child);
            self.close(&child);
        }
    }

    /// The root's report: what it said, if it was asked, and what became of the plan.
    pub(super) fn with_plan(&self, report: &Arc<str>) -> Arc<str> {
        match self.run.plan_report() {
            None => report.clone(),
            Some(plan) if report.trim().is_empty() => plan.into(),
            Some(plan) => format!("{report}\n\n{plan}").into(),
        }
    }
}
