//! Integration: carries out what the [`MergeQueue`](crate::integrate::MergeQueue) of an agent's files decides on.
//!
//! Why it is like this: `docs/decisions/workspace-snapshot-time.md`.

use std::fmt::Write;
use std::time::Duration;

use posse_domain::code::Code;
use posse_domain::event::{CheckRecord, ChecksFailed, ChecksPassed, WorktreeConflicted, WorktreeMerged};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, OpenState};
use posse_domain::object_id::ObjectId;
use posse_domain::plan::COMMAND_TIMEOUT_MAX_MS;

use super::desks::merging::{MergeResult, position_of};
use super::effects::Effect;
use super::place::WorkspaceState;
use super::{Driver, Stop};
use crate::integrate::{Fact, MergeEffect};
use crate::ports::{CheckRequest, Merge, MergeRequest, UpdateOutcome, WorkspaceId, WorkspaceProblem};

/// How long a command criterion may take if nobody says.
const CHECK_TIMEOUT_DEFAULT: Duration = Duration::from_mins(10);
/// How long a command criterion may take at most, whoever wrote it.
const CHECK_TIMEOUT_MAX: Duration = Duration::from_millis(COMMAND_TIMEOUT_MAX_MS);
/// Most files that a reason names.
const FILES_NAMED_MAX: usize = 20;
/// Most characters of a failed check's output that its reason repeats.
const OUTPUT_REPEATED_MAX_CHARS: usize = 4_000;

impl Driver {
    /// A child that may come to be integrated takes its place in the order.
    pub(super) fn enqueue_for_merge(&mut self, child: &AgentId) {
        let (Some(parent), Some(number)) = (child.parent(), child.number()) else { return };
        if let Some(position) = position_of(child, &self.run) {
            self.merge_queue(&parent).apply(Fact::Joined(number, position));
        }
    }

    /// A child has ended its work and waits to be integrated.
    pub(super) fn wait_for_merge(&mut self, child: &AgentId) {
        let (Some(parent), Some(number), Some(agent)) =
            (child.parent(), child.number(), self.run.open(child))
        else {
            return;
        };
        let checks = agent.contract.checks().next().is_some();
        let merged = agent.files.merging.is_some();
        self.merge_queue(&parent).apply(Fact::Ready { child: number, checks, merged });
        self.mark_merge_queue(&parent);
    }

    /// Does whatever the lane of an agent's files says is next.
    pub(super) fn advance_merge_queue(&mut self, id: &AgentId) {
        // Files that are being laid out cannot be merged into at the same time.
        if self.sessions.get(id).is_some_and(|session| session.place == WorkspaceState::Making) {
            return;
        }
        while let Some(action) = self.merging.decide(id) {
            self.merge_queue(id).apply(Fact::Began(action));
            self.integrate(id, action);
            if self.poisoned.is_some() {
                return;
            }
        }
        let waits = self.sessions.get(id).is_some_and(|session| !session.parked.is_empty());
        if waits {
            self.request_workspace(id);
            self.unpark(id);
        }
    }

    fn integrate(&mut self, id: &AgentId, action: MergeEffect) {
        match action {
            MergeEffect::Snapshot => {
                let files = self.run.open(id).map(|agent| agent.files.clone()).unwrap_or_default();
                match (files.made, files.origin(), self.workspace_of(id)) {
                    (true, _, Some(of)) => self.after_commit(Effect::Snapshot { of }),
                    (_, Some(origin), _) => self.snapshot_taken(id, Ok(origin)),
                    _ => self.snapshot_taken(id, Err("the agent is gone".into())),
                }
            }
            MergeEffect::Merge(number) => self.merge(id, &id.child(number)),
            MergeEffect::Check(number) => self.check(id, &id.child(number)),
            MergeEffect::StopCheck(number) => {
                self.merging.stop_check(&id.child(number));
            }
            MergeEffect::Update(number) => self.update(id, &id.child(number)),
            MergeEffect::Accept(number) => self.accept(&id.child(number), Vec::new()),
        }
    }

    /// The commit that the files of an agent are while its lane has them alone.
    fn ours(&self, id: &AgentId) -> Option<ObjectId> {
        let agent = self.run.open(id)?;
        if agent.files.made { self.sessions.get(id)?.tip } else { agent.files.origin() }
    }

    fn merge(&mut self, parent: &AgentId, child: &AgentId) {
        let Some(ours) = self.ours(parent) else {
            return self.reject(
                child,
                Code::IntegrationConflict,
                "its parent's files are not known".to_owned(),
            );
        };
        let Some(agent) = self.run.open(child) else { return };
        let Some(base) = agent.files.base else { return };
        let Some(theirs) = agent.files.change else {
            // Nothing to merge; its checks run on the parent's files as they are.
            self.merging.keep_result(child, MergeResult { ours, commit: ours, tree: ours, paths: 0 });
            let number = child.number().unwrap_or(0);
            return self.merge_queue(parent).apply(Fact::Merged { child: number, same: true });
        };
        let request = MergeRequest {
            child: child.clone(),
            title: agent.contract.step.title.clone(),
            ours,
            base,
            theirs,
            owns: agent.contract.step.owns.clone(),
            approvals: self.run.terms.approvals.clone(),
        };
        self.after_commit(Effect::Merge { request });
    }

    /// A child's change was merged, or cannot be.
    pub(super) fn merge_made(&mut self, request: &MergeRequest, merge: Result<Merge, WorkspaceProblem>) {
        let child = &request.child;
        let (Some(parent), Some(number)) = (child.parent(), child.number()) else { return };
        if self.waits_for_merge(child) {
            match merge {
                Ok(Merge::Merged { commit, tree, paths }) => {
                    self.merging.keep_result(child, MergeResult { ours: request.ours, commit, tree, paths });
                    self.merge_queue(&parent).apply(Fact::Merged { child: number, same: paths == 0 });
                }
                Ok(Merge::Conflict { files }) => {
                    let reason =
                        format!("its change does not merge with what its parent has: {}", named(&files));
                    self.emit(child.clone(), WorktreeConflicted { ours: request.ours, files });
                    self.reject(child, Code::IntegrationConflict, reason);
                }
                Ok(Merge::Refused { ownership, problems }) => {
                    let (code, why) = if ownership {
                        (Code::OwnershipViolation, "it changed what it does not own")
                    } else {
                        (Code::PermissionDenied, "it changed what no agent may change")
                    };
                    let reason = format!("{why}: {}", named(&problems));
                    self.emit(child.clone(), WorktreeConflicted { ours: request.ours, files: problems });
                    self.reject(child, code, reason);
                }
                Err(problem) => {
                    let reason = format!("its change cannot be merged: {problem}");
                    self.reject(child, Code::IntegrationConflict, reason);
                }
            }
        } else {
            self.merge_queue(&parent).apply(Fact::Left(number));
        }
        self.mark_merge_queue(&parent);
        self.mark_ready(&parent);
    }

    pub(super) fn waits_for_merge(&self, child: &AgentId) -> bool {
        self.run.open(child).is_some_and(|agent| matches!(agent.state, OpenState::WaitingForMerge { .. }))
    }

    fn check(&mut self, parent: &AgentId, child: &AgentId) {
        let (Some(agent), Some(made)) = (self.run.open(child), self.merging.result_of(child)) else { return };
        let limit =
            |ms: Option<u64>| ms.map_or(CHECK_TIMEOUT_DEFAULT, Duration::from_millis).min(CHECK_TIMEOUT_MAX);
        let commands =
            agent.contract.checks().map(|check| (check.command.clone(), limit(check.timeout_ms))).collect();
        let network = agent.authority.allows_network(&self.run.terms.approvals);
        let request = CheckRequest {
            child: child.clone(),
            parent: parent.clone(),
            commit: made.commit,
            commands,
            network,
        };
        let signal = self.merging.begin_check(child);
        self.after_commit(Effect::Check { request, signal });
    }

    /// A child's command criteria were run, or stopped.
    pub(super) fn checks_run(&mut self, child: &AgentId, checks: Result<Vec<CheckRecord>, WorkspaceProblem>) {
        let (Some(parent), Some(number)) = (child.parent(), child.number()) else { return };
        let stopped = self.merging.is_check_stopped(child);
        self.merging.end_check(child);
        let tree = self.merging.result_of(child).map(|made| made.tree);
        match (self.waits_for_merge(child) && !stopped, tree, checks) {
            (true, Some(tree), Ok(checks)) if checks.iter().all(|check| check.ok) => {
                self.emit(child.clone(), ChecksPassed { tree, checks });
                self.merge_queue(&parent).apply(Fact::Checked(number));
            }
            (true, Some(tree), Ok(checks)) => {
                let reason = failed_check(&checks);
                self.emit(child.clone(), ChecksFailed { tree, checks });
                self.reject(child, Code::ChecksFailed, reason);
            }
            (true, _, Err(problem)) => {
                let reason = format!("its command criteria could not be run: {problem}");
                self.reject(child, Code::ChecksFailed, reason);
            }
            _ => self.merge_queue(&parent).apply(Fact::CheckStopped(number)),
        }
        self.mark_merge_queue(&parent);
        self.mark_ready(&parent);
    }

    /// Journals a merge and brings the parent's files up to date; one that is journalled is only carried on.
    fn update(&mut self, parent: &AgentId, child: &AgentId) {
        let journalled = self.run.open(child).and_then(|agent| agent.files.merging.clone());
        let merged = match (journalled, self.merging.take_result(child)) {
            (Some(merged), _) => merged,
            (None, Some(MergeResult { ours, commit, tree, paths })) => {
                let merged = WorktreeMerged { ours, commit, tree, paths };
                self.emit(child.clone(), merged.clone());
                merged
            }
            (None, None) => return,
        };
        let Some(of) = self.workspace_of(parent) else { return };
        self.after_commit(Effect::Update { child: child.clone(), of, old: merged.ours, new: merged.commit });
    }

    /// The parent's files have the child's work.
    pub(super) fn updated(
        &mut self,
        child: &AgentId,
        of: &WorkspaceId,
        new: ObjectId,
        updated: Result<UpdateOutcome, WorkspaceProblem>,
    ) {
        let kept = match updated {
            Ok(UpdateOutcome { kept }) => kept,
            Err(problem) => {
                // The merge is journalled: it is finished when the run is resumed, or it would be half done.
                let problem =
                    format!("the files of {} cannot be brought up to date: {problem}", of.agent.relative());
                self.poisoned = Some(Stop::Unavailable(problem));
                return;
            }
        };
        if let Some(session) = self.sessions.get_mut(&of.agent) {
            session.tip = Some(new);
        }
        let number = child.number().unwrap_or(0);
        self.merge_queue(&of.agent).apply(Fact::Updated(number));
        self.accept(child, kept);
        self.mark_merge_queue(&of.agent);
        self.mark_ready(&of.agent);
    }

    pub(super) fn accept(&mut self, child: &AgentId, kept: Vec<String>) {
        let told = named(&kept);
        if let Some((id, body)) = self.run.accept(child, kept) {
            self.emit(id, body);
            if !told.is_empty() {
                self.merging.keep_note(child, told);
            }
            self.child_ended(child);
        }
    }

    pub(super) fn reject(&mut self, child: &AgentId, code: Code, reason: String) {
        self.reject_as(child, FailKind::Integration, code, reason);
    }

    /// Refuses a child's work, unless it is merged; whether it was refused.
    pub(super) fn reject_as(&mut self, child: &AgentId, kind: FailKind, code: Code, reason: String) -> bool {
        if self.ends_hooks_first(child, kind, code, &reason) {
            return true;
        }
        let Some((id, body)) = self.run.reject(child, kind, code, reason) else { return false };
        self.emit(id, body);
        self.child_ended(child);
        true
    }

    /// The files of an agent cannot be merged into: those that wait for that fail.
    pub(super) fn cannot_integrate(&mut self, id: &AgentId, reason: &str) {
        let children: Vec<AgentId> = self.run.open(id).map_or_else(Vec::new, |agent| {
            agent.open_children.iter().map(|&number| id.child(number)).collect()
        });
        for child in children {
            self.reject(&child, Code::IntegrationConflict, reason.to_owned());
        }
    }

    /// A child's work has ended: its stop hooks are asked first, where there are any, and then it is integrated.
    pub(super) fn begin_integration(&mut self, child: &AgentId) {
        if self.waits_for_merge(child) && !self.start_stop_hooks(child) {
            self.integrate_child(child);
        }
    }

    /// Integrates a child whose hooks have answered: at once if it changed nothing and has no checks, or else in its
    /// turn.
    pub(super) fn integrate_child(&mut self, child: &AgentId) {
        if self.run.has_nothing_to_merge(child) {
            self.accept(child, Vec::new());
        } else {
            self.wait_for_merge(child);
        }
    }
}

/// The first few of many.
fn named(files: &[String]) -> String {
    let mut text = files.iter().take(FILES_NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if files.len() > FILES_NAMED_MAX {
        let _ = write!(text, " and {} more", files.len() - FILES_NAMED_MAX);
    }
    text
}

/// Which check failed, how, and what it said last.
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
