//! Merges children's changes for the file desk: executes the decisions of the
//! [`MergeQueue`](crate::integrate::MergeQueue) of an agent's files.
//!
//! Why it is like this: `docs/decisions/workspace-snapshot-time.md`.

use std::fmt::Write;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{CheckRecord, ChecksFailed, ChecksPassed, WorktreeConflicted, WorktreeMerged};
use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;
use posse_domain::plan::COMMAND_TIMEOUT_MAX_MS;

use super::{FilesDesk, FilesEffect, FilesOutcome, workspace_of};
use crate::driver::Stop;
use crate::driver::core::Core;
use crate::driver::desks::merging::{MergeResult, position_of};
use crate::driver::effects::Effect;
use crate::integrate::{Fact, MergeEffect};
use crate::ports::{
    CheckRequest, Merge, MergeRequest, RefusedCode, UpdateOutcome, WorkspaceError, WorkspaceId,
};

/// Timeout of a command criterion that states none.
const CHECK_TIMEOUT_DEFAULT: Duration = Duration::from_mins(10);
/// Longest timeout that a command criterion may state.
const CHECK_TIMEOUT_MAX: Duration = Duration::from_millis(COMMAND_TIMEOUT_MAX_MS);
/// Limit of file names in a reason.
const FILES_NAMED_MAX: usize = 20;
/// Limit of characters of a failed check's output that a reason repeats.
const OUTPUT_REPEATED_MAX_CHARS: usize = 4_000;

impl FilesDesk {
    /// Adds a new child that may need integration to the merge queue of its parent.
    pub(crate) fn enqueue(&mut self, core: &Core, child: &AgentId) {
        let (Some(parent), Some(number)) = (child.parent(), child.number()) else { return };
        if let Some(position) = position_of(child, &core.run) {
            self.merge_queue(core, &parent).apply(Fact::Enqueued(number, position));
        }
    }

    /// Reserves positions in the root's merge queue for plan steps that are not created yet.
    pub(crate) fn reserve_positions(&mut self, core: &mut Core) {
        if core.run.planned.is_some() {
            let due = core.run.first_due_rank();
            let root = core.run.id.root();
            self.merge_queue(core, &root).apply(Fact::PlanWaitsFrom(due));
            core.mark_merge_queue(&root);
        }
    }

    /// Makes a child that has ended its work wait for its integration.
    pub(crate) fn wait_for_merge(&mut self, core: &mut Core, child: &AgentId) {
        let (Some(parent), Some(number), Some(agent)) =
            (child.parent(), child.number(), core.run.open(child))
        else {
            return;
        };
        let checks = agent.contract.checks().next().is_some();
        let merged = agent.files.merging.is_some();
        self.merge_queue(core, &parent).apply(Fact::Ready { child: number, checks, merged });
        core.mark_merge_queue(&parent);
    }

    /// Starts the effects that the merge queue of an agent's files decides on, until the driver must handle an outcome
    /// or no effect remains.
    pub(crate) fn advance_queue(&mut self, core: &mut Core, id: &AgentId) -> Option<FilesOutcome> {
        // Files cannot be merged into while they are being checked out.
        if self.is_making(id) {
            return None;
        }
        while let Some(effect) = self.merging.decide(id) {
            self.merge_queue(core, id).apply(Fact::Began(effect));
            let outcome = self.integrate(core, id, effect);
            if outcome.is_some() || core.stop.is_some() {
                return outcome;
            }
        }
        None
    }

    fn integrate(&mut self, core: &mut Core, id: &AgentId, effect: MergeEffect) -> Option<FilesOutcome> {
        match effect {
            MergeEffect::Snapshot => {
                let files = core.run.open(id).map(|agent| agent.files.clone()).unwrap_or_default();
                let known = match (files.made, files.origin(), workspace_of(core, id)) {
                    (true, _, Some(of)) => {
                        core.after_commit(Effect::Files(FilesEffect::Snapshot { of }));
                        return None;
                    }
                    (_, Some(origin), _) => Ok(origin),
                    _ => Err(WorkspaceError::Damaged("the agent is gone".to_owned())),
                };
                return Some(FilesOutcome::SnapshotKnown(id.clone(), known));
            }
            MergeEffect::Merge(number) => return self.merge(core, id, &id.child(number)),
            MergeEffect::Check(number) => self.check(core, id, &id.child(number)),
            MergeEffect::StopCheck(number) => self.merging.stop_check(&id.child(number)),
            MergeEffect::Update(number) => self.update(core, id, &id.child(number)),
            MergeEffect::Accept(number) => {
                return Some(FilesOutcome::Accepted { child: id.child(number), conflicts_left: Vec::new() });
            }
        }
        None
    }

    fn merge(&mut self, core: &mut Core, parent: &AgentId, child: &AgentId) -> Option<FilesOutcome> {
        let Some(ours) = self.tip_alone(core, parent) else {
            let reason = "its parent's files are not known".to_owned();
            return Some(rejected(child, Code::IntegrationConflict, reason));
        };
        let agent = core.run.open(child)?;
        let base = agent.files.base?;
        let Some(theirs) = agent.files.change else {
            // The child has no change to merge. Its checks run on the parent's unchanged files.
            self.merging.keep_result(child, MergeResult { ours, commit: ours, tree: ours, paths: 0 });
            let number = child.number().unwrap_or(0);
            self.merge_queue(core, parent).apply(Fact::Merged { child: number, same: true });
            return None;
        };
        let request = MergeRequest {
            child: child.clone(),
            title: agent.contract.step.title.clone(),
            ours,
            base,
            theirs,
            owns: agent.contract.step.owns.clone(),
            approvals: core.run.terms.approvals.clone(),
        };
        core.after_commit(Effect::Files(FilesEffect::Merge { request }));
        None
    }

    /// Takes the result of merging a child's change.
    pub(crate) fn merge_made(
        &mut self,
        core: &mut Core,
        request: &MergeRequest,
        merge: Result<Merge, WorkspaceError>,
    ) -> Option<FilesOutcome> {
        let child = &request.child;
        let (parent, number) = (child.parent()?, child.number()?);
        if !core.waits_for_merge(child) {
            self.merge_queue(core, &parent).apply(Fact::Left(number));
            return None;
        }
        match merge {
            Ok(Merge::Merged { commit, tree, paths }) => {
                self.merging.keep_result(child, MergeResult { ours: request.ours, commit, tree, paths });
                self.merge_queue(core, &parent).apply(Fact::Merged { child: number, same: paths == 0 });
                None
            }
            Ok(Merge::Conflict { files }) => {
                let reason = format!("merge conflict with the parent in {}", named(&files));
                core.emit(child.clone(), WorktreeConflicted { ours: request.ours, files });
                Some(rejected(child, Code::IntegrationConflict, reason))
            }
            Ok(Merge::Refused { code: refused, problems }) => {
                let (failure, why) = if refused == RefusedCode::Ownership {
                    (Code::OwnershipViolation, "it changed files that it does not own")
                } else {
                    (Code::PermissionDenied, "it changed files that no agent may change")
                };
                let reason = format!("{why}: {}", named(&problems));
                core.emit(child.clone(), WorktreeConflicted { ours: request.ours, files: problems });
                Some(rejected(child, failure, reason))
            }
            Err(problem) => {
                let reason = format!("its change cannot be merged: {problem}");
                Some(rejected(child, Code::IntegrationConflict, reason))
            }
        }
    }

    fn check(&mut self, core: &mut Core, parent: &AgentId, child: &AgentId) {
        let (Some(agent), Some(made)) = (core.run.open(child), self.merging.result_of(child)) else { return };
        let limit =
            |ms: Option<u64>| ms.map_or(CHECK_TIMEOUT_DEFAULT, Duration::from_millis).min(CHECK_TIMEOUT_MAX);
        let commands =
            agent.contract.checks().map(|check| (check.command.clone(), limit(check.timeout_ms))).collect();
        let network = agent.authority.allows_network(&core.run.terms.approvals);
        let request = CheckRequest {
            child: child.clone(),
            parent: parent.clone(),
            commit: made.commit,
            commands,
            network,
        };
        let signal = self.merging.begin_check(child);
        core.after_commit(Effect::Files(FilesEffect::Check { request, signal }));
    }

    /// Takes the result of a child's checks, which may have been stopped.
    pub(crate) fn checks_run(
        &mut self,
        core: &mut Core,
        child: &AgentId,
        checks: Result<Vec<CheckRecord>, WorkspaceError>,
    ) -> Option<FilesOutcome> {
        let (parent, number) = (child.parent()?, child.number()?);
        let stopped = self.merging.is_check_stopped(child);
        self.merging.end_check(child);
        let tree = self.merging.result_of(child).map(|made| made.tree);
        match (core.waits_for_merge(child) && !stopped, tree, checks) {
            (true, Some(tree), Ok(checks)) if checks.iter().all(|check| check.ok) => {
                core.emit(child.clone(), ChecksPassed { tree, checks });
                self.merge_queue(core, &parent).apply(Fact::Checked(number));
                None
            }
            (true, Some(tree), Ok(checks)) => {
                let reason = failed_check(&checks);
                core.emit(child.clone(), ChecksFailed { tree, checks });
                Some(rejected(child, Code::ChecksFailed, reason))
            }
            (true, _, Err(problem)) => {
                let reason = format!("its command criteria could not be run: {problem}");
                Some(rejected(child, Code::ChecksFailed, reason))
            }
            _ => {
                self.merge_queue(core, &parent).apply(Fact::CheckStopped(number));
                None
            }
        }
    }

    /// Journals a merge and updates the parent's files. A merge that is journalled already is only completed.
    fn update(&mut self, core: &mut Core, parent: &AgentId, child: &AgentId) {
        let journalled = core.run.open(child).and_then(|agent| agent.files.merging.clone());
        let merged = match (journalled, self.merging.take_result(child)) {
            (Some(merged), _) => merged,
            (None, Some(MergeResult { ours, commit, tree, paths })) => {
                let merged = WorktreeMerged { ours, commit, tree, paths };
                core.emit(child.clone(), merged.clone());
                merged
            }
            (None, None) => return,
        };
        let Some(of) = workspace_of(core, parent) else { return };
        let (old, new) = (merged.ours, merged.commit);
        core.after_commit(Effect::Files(FilesEffect::Update { child: child.clone(), of, old, new }));
    }

    /// Takes the result of updating the parent's files. If the update failed, the run is given up.
    pub(crate) fn updated(
        &mut self,
        core: &mut Core,
        child: &AgentId,
        of: &WorkspaceId,
        new: ObjectId,
        updated: Result<UpdateOutcome, WorkspaceError>,
    ) -> Option<FilesOutcome> {
        let conflicts_left = match updated {
            Ok(UpdateOutcome { conflicts_left, .. }) => conflicts_left,
            Err(problem) => {
                // The merge is journalled and must not stay half done. The run is given up, and completes the merge
                // when it is resumed.
                let problem =
                    format!("the files of {} cannot be brought up to date: {problem}", of.agent.relative());
                core.stop = Some(Stop::Unavailable(problem));
                return None;
            }
        };
        if let Some(files) = self.agents.get_mut(&of.agent) {
            files.tip = Some(new);
        }
        let number = child.number().unwrap_or(0);
        self.merge_queue(core, &of.agent).apply(Fact::Updated(number));
        Some(FilesOutcome::Accepted { child: child.clone(), conflicts_left })
    }
}

fn rejected(child: &AgentId, code: Code, reason: String) -> FilesOutcome {
    FilesOutcome::Rejected { child: child.clone(), code, reason }
}

/// The first files of a list, and the number of further files.
pub(super) fn named(files: &[String]) -> String {
    let mut text = files.iter().take(FILES_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > FILES_NAMED_MAX {
        let _ = write!(text, " and {} more", files.len() - FILES_NAMED_MAX);
    }
    text
}

/// The command of the failed check, its exit, and the end of its output.
fn failed_check(checks: &[CheckRecord]) -> String {
    let Some(check) = checks.iter().find(|check| !check.ok) else { return "a check failed".to_owned() };
    let output = check.output.to_shared();
    let skip = output.chars().count().saturating_sub(OUTPUT_REPEATED_MAX_CHARS);
    let tail: String = output.chars().skip(skip).collect();
    let cut = if skip > 0 { "[…]" } else { "" };
    let head = format!("the check `{}` failed ({})", check.command, check.ended);
    match tail.trim_end() {
        "" => format!("{head}, and printed nothing"),
        tail => format!("{head}:\n{cut}{tail}"),
    }
}
