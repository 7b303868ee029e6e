//! The tasks of the file desk. They hold no slot, and each completes its operation even if the agent ends meanwhile.

use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;
use posse_domain::permission::Approvals;

use super::FilesDesk;
use crate::driver::core::Core;
use crate::driver::effects::Input;
use crate::driver::workspace_retry::{retry, retry_unless};
use crate::ports::{CheckRequest, MergeRequest, StopSignal, WorkspaceId};

pub(crate) enum FilesEffect {
    /// Create an isolated workspace.
    Make { of: WorkspaceId, origin: ObjectId },
    /// Find or check out the files that readers share.
    Share { snapshot: ObjectId },
    /// Commit the files of a workspace, as the start of children or the target of a merge.
    Snapshot { of: WorkspaceId },
    /// Commit the files of a workspace and keep them as salvage.
    Salvage { of: WorkspaceId, base: ObjectId },
    /// Check a child's change against the gate, and merge it.
    Merge { request: MergeRequest },
    /// Run a child's command criteria on the merged tree.
    Check { request: CheckRequest, signal: StopSignal },
    /// Update a parent's files to a merge.
    Update { child: AgentId, of: WorkspaceId, old: ObjectId, new: ObjectId },
    /// Publish the root's files as the run's result.
    Publish { approvals: Approvals },
}

impl FilesDesk {
    pub(crate) fn start(core: &Core, effect: FilesEffect) {
        let Some(workspaces) = core.rt.parts.workspaces.clone() else { return };
        let (sender, faults) = (core.sender.clone(), core.rt.parts.faults.clone());
        let run = core.run.id.clone();
        tokio::spawn(async move {
            let input = match effect {
                FilesEffect::Make { of, origin } => {
                    faults.hit("engine.workspace.before_make");
                    let made = retry(|| workspaces.make(of.clone(), origin)).await;
                    faults.hit("engine.workspace.after_make");
                    Input::Made { agent: of.agent, made }
                }
                FilesEffect::Share { snapshot } => {
                    let dir = retry(|| workspaces.shared(&run, snapshot)).await;
                    Input::Shared { snapshot, dir }
                }
                FilesEffect::Snapshot { of } => {
                    faults.hit("engine.workspace.before_snapshot");
                    let taken = retry(|| workspaces.snapshot(of.clone())).await;
                    faults.hit("engine.workspace.after_snapshot");
                    Input::Snapshot { agent: of.agent, taken }
                }
                FilesEffect::Salvage { of, base } => {
                    faults.hit("engine.workspace.before_salvage");
                    let salvage = retry(|| workspaces.salvage(of.clone(), base)).await;
                    faults.hit("engine.workspace.after_salvage");
                    Input::Salvaged { agent: of.agent, salvage }
                }
                FilesEffect::Merge { request } => {
                    faults.hit("engine.merge.before");
                    let merge = retry(|| workspaces.merge(request.clone())).await;
                    faults.hit("engine.merge.after");
                    Input::Merged { request: Box::new(request), merge }
                }
                FilesEffect::Check { request, signal } => {
                    faults.hit("engine.check.before");
                    let child = request.child.clone();
                    let ask = || workspaces.check(request.clone(), signal.clone());
                    let checks = retry_unless(&signal, ask).await;
                    faults.hit("engine.check.after");
                    Input::Checked { child, checks }
                }
                FilesEffect::Update { child, of, old, new } => {
                    faults.hit("engine.update.before");
                    let updated = retry(|| workspaces.update(of.clone(), old, new)).await;
                    faults.hit("engine.update.after");
                    Input::Updated { child, of, new, updated }
                }
                FilesEffect::Publish { approvals } => {
                    faults.hit("engine.publish.before");
                    let result = retry(|| workspaces.publish(&run, approvals.clone())).await;
                    faults.hit("engine.publish.after");
                    Input::Published(result)
                }
            };
            drop(sender.send(input));
        });
    }
}
