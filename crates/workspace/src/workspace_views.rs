//! Computes how programs in the sandbox see the workspaces of this machine.

use posse_engine::ports::{CallContext, CallFiles, WorkspaceResult};
use posse_sandbox::{WorkspaceView, WorkspaceViews};

use super::local_workspaces::LocalWorkspaces;

impl WorkspaceViews for LocalWorkspaces {
    fn view(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView> {
        let CallFiles::Workspace(of) = call.files.clone() else { return self.bare(call) };
        self.with(&of.agent.run(), move |opened| {
            let agent = of.agent.to_string();
            let layers = opened.space.layers(&agent, of.attempt, &opened.caches);
            Ok(WorkspaceView {
                in_folder: false,
                objects: Some(opened.space.objects_of(&agent, of.attempt)?),
                caches: layers.unwrap_or_default(),
                disk_limit: Some(opened.disk_limit.clone()),
            })
        })
    }

    fn bare(&self, call: &CallContext) -> WorkspaceResult<WorkspaceView> {
        if let CallFiles::Workspace(of) = call.files.clone() {
            return self.with(&of.agent.run(), move |opened| {
                let objects = opened.space.objects_of(&of.agent.to_string(), of.attempt)?;
                let (objects, disk_limit) = (Some(objects), Some(opened.disk_limit.clone()));
                Ok(WorkspaceView { in_folder: false, objects, caches: Vec::new(), disk_limit })
            });
        }
        // Shared files have no repository. The folder of a replay is beneath the state directory, which the sandbox
        // hides.
        let isolated = call.files.is_isolated();
        let in_folder = !isolated && !self.0.is_hidden(&call.workspace);
        let opened = self.0.open_run(call.agent.run().as_str()).ok().filter(|_| isolated);
        let disk_limit = opened.map(|opened| opened.disk_limit.clone());
        Box::pin(std::future::ready(Ok(WorkspaceView { in_folder, disk_limit, ..WorkspaceView::default() })))
    }
}
