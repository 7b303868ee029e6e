//! Publishes the changes of a run for the user before the journal records the end of the run.

use posse_domain::event::RunResult;

use super::{FilesDesk, FilesEffect};
use crate::driver::core::Core;
use crate::driver::effects::Effect;
use crate::driver::session::Session;
use crate::ports::WorkspaceError;

#[derive(Debug, Clone, Default)]
pub(crate) enum Publication {
    #[default]
    Due,
    /// The changes are published, if the run made any.
    Done(Option<RunResult>),
}

impl FilesDesk {
    /// Starts to publish the run's changes, unless they are published. Returns the progress.
    pub(crate) fn ensure_published(&mut self, core: &mut Core) -> &Publication {
        if matches!(self.publication, Publication::Done(_)) {
            return &self.publication;
        }
        let root = core.run.id.root();
        let changed =
            core.run.open(&root).is_some_and(|agent| agent.files.made || agent.files.merged.is_some());
        // The changes of an earlier run that it continues are part of its result.
        let continues = core.run.base.as_ref().is_some_and(|base| base.compared_with.is_some());
        if !changed && !continues {
            self.publication = Publication::Done(None);
            return &self.publication;
        }
        if core.sessions.get_mut(&root).is_some_and(Session::begin_salvage) {
            let approvals = core.run.terms.approvals.clone();
            core.after_commit(Effect::Files(FilesEffect::Publish { approvals }));
        }
        &self.publication
    }

    /// Takes the run's published result, or the reason why it could not be published. The changes are kept in both
    /// cases.
    pub(crate) fn published(&mut self, core: &mut Core, result: Result<Option<RunResult>, WorkspaceError>) {
        let root = core.run.id.root();
        let merged = core.run.open(&root).and_then(|agent| agent.files.merged.or(agent.files.base));
        let result = result.unwrap_or_else(|problem| {
            merged.map(|commit| RunResult {
                commit,
                branch: None,
                files: 0,
                problem: Some(problem.to_string()),
                left_out: Vec::new(),
                instructions: Vec::new(),
            })
        });
        self.publication = Publication::Done(result);
        if let Some(session) = core.sessions.get_mut(&root) {
            session.end_salvage();
        }
        core.mark_ready(&root);
    }
}
