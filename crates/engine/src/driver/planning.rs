//! Executes a plan for the driver. A step is spawned when all steps that it depends on are integrated. The root's model
//! is called only if a step fails.

use std::collections::BTreeSet;
use std::sync::Arc;

use posse_domain::id::AgentId;

use super::Driver;
use super::desks::calls::StepAdmission;

/// Whether the child of a step will work, and so needs a budget for its report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReportRoom {
    Needed,
    NotNeeded,
}

enum StepOutcome {
    Child(AgentId),
    /// The step was refused and gets no child.
    Refused,
    /// The limits have no room for the child now.
    Later,
}

impl Driver {
    pub(super) fn advance_plan(&mut self) {
        if self.core.run.planned.is_none() || self.core.stop.is_some() {
            return;
        }
        let root = self.core.run.id.root();
        if !self.core.is_active(&root) || self.core.run.is_cancelled(&root) {
            return;
        }
        // A refused step has failed, which can also end the steps that depend on it, or the whole plan.
        while let Some(step) = self.take_admitted_step() {
            match self.create_step(step, ReportRoom::Needed) {
                StepOutcome::Child(child) => self.begin_child(&child),
                StepOutcome::Refused => {}
                // The end of a working child will make room.
                StepOutcome::Later => break,
            }
            if self.core.stop.is_some() {
                return;
            }
        }
        self.files.reserve_positions(&mut self.core);
        // The root waits while steps can still start. If it was advanced before this change of the plan, it must check
        // again.
        self.core.mark_ready(&root);
    }

    /// Returns the first step that may start. Refuses steps that may not run, and skips steps that wait for a user or
    /// for hooks.
    fn take_admitted_step(&mut self) -> Option<usize> {
        let mut skipped = BTreeSet::new();
        // A refusal can end other steps that could have started, so the list is computed again after each.
        while let Some(step) = self.core.run.next_steps().into_iter().find(|step| !skipped.contains(step)) {
            match self.calls.admit_step(&mut self.core, &self.files, step) {
                StepAdmission::Goes => return Some(step),
                StepAdmission::Waits => {}
                StepAdmission::Refused(refusal) => {
                    self.calls.refuse_step(&mut self.core, step, &refusal);
                }
            }
            skipped.insert(step);
        }
        None
    }

    pub(super) fn plan_continues(&self, id: &AgentId) -> bool {
        id.is_root() && self.core.run.planned.is_some() && !self.core.run.next_steps().is_empty()
    }

    /// Creates the child of a step, unless the step is refused.
    fn create_step(&mut self, step: usize, room: ReportRoom) -> StepOutcome {
        let class_of = |name: &str| self.core.rt.tools.get(name).map(|tool| tool.class);
        let decided = match self.core.run.spawn_step(step, &class_of) {
            Ok(decided) => decided,
            Err(refusal) => {
                self.calls.refuse_step(&mut self.core, step, &refusal);
                return StepOutcome::Refused;
            }
        };
        if let (ReportRoom::Needed, Err(refusal)) = (room, self.check_room(&decided)) {
            if self.core.has_working_children(&self.core.run.id.root()) {
                return StepOutcome::Later;
            }
            self.calls.refuse_step(&mut self.core, step, &refusal);
            return StepOutcome::Refused;
        }
        self.calls.forget_step_hooks(&self.core, step);
        let (child, body) = decided;
        self.core.emit(child.clone(), body);
        if self.open_child(&child) { StepOutcome::Child(child) } else { StepOutcome::Refused }
    }

    /// Creates the steps that waited for a failed step and lets them fail, so that the journal contains every step.
    pub(super) fn abandon_steps(&mut self) {
        for step in self.core.run.due_steps() {
            let StepOutcome::Child(child) = self.create_step(step, ReportRoom::NotNeeded) else { continue };
            match self.core.run.abandon(&child) {
                Ok((id, body)) => self.core.emit(id, body),
                Err(refused) => return self.core.stop_for_refusal(&child, "abandon", refused),
            }
            self.drop_session(&child);
            self.fresh.retain(|fresh| *fresh != child);
            self.close_ended(&child);
        }
    }

    /// The root's report: its own text, if its model was called, and the results of the plan.
    pub(super) fn with_plan(&self, report: &Arc<str>) -> Arc<str> {
        match self.core.run.plan_report() {
            None => report.clone(),
            Some(plan) if report.trim().is_empty() => plan.into(),
            Some(plan) => format!("{report}\n\n{plan}").into(),
        }
    }
}
