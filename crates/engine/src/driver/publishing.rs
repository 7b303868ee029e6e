//! The end of a run: what it made is put where the person finds it, and only then does the journal say that it ended.

use posse_domain::event::RunResult;
use posse_domain::lifecycle::RunEnd;

use super::Driver;
use super::effects::Effect;
use super::session::SalvageProgress;
use crate::ports::WorkspaceProblem;

/// Whether what the run made is where the person finds it.
#[derive(Debug, Clone)]
pub(super) enum Delivery {
    /// Not yet.
    Due,
    /// It is, if it made anything.
    Done(Option<RunResult>),
}

impl Driver {
    /// Ends the run, once what it made is where the person finds it.
    pub(super) fn end_run(&mut self, end: RunEnd) {
        let Delivery::Done(result) = self.delivery.clone() else { return self.publish_result(end) };
        let now_ms = self.rt.parts.system.now_ms();
        if let Ok((id, body)) = self.run.end(end, result, now_ms) {
            self.emit(id, body);
        }
    }

    fn publish_result(&mut self, end: RunEnd) {
        let root = self.run.id.root();
        let changed =
            self.run.open(&root).is_some_and(|agent| agent.files.made || agent.files.merged.is_some());
        if !changed {
            self.delivery = Delivery::Done(None);
            return self.end_run(end);
        }
        if let Some(session) =
            self.sessions.get_mut(&root).filter(|session| session.keeping == SalvageProgress::No)
        {
            session.keeping = SalvageProgress::UnderWay;
            self.after_commit(Effect::Deliver { approvals: self.run.terms.approvals.clone() });
        }
    }

    /// The run's result is where the person finds it, or the text says why not; it is kept in any case.
    pub(super) fn result_published(&mut self, result: Result<Option<RunResult>, WorkspaceProblem>) {
        let root = self.run.id.root();
        let merged = self.run.open(&root).and_then(|agent| agent.files.merged.or(agent.files.base));
        let result = result.unwrap_or_else(|problem| {
            merged.map(|commit| RunResult {
                commit,
                branch: None,
                files: 0,
                problem: Some(problem.text),
                left_out: Vec::new(),
                instructions: Vec::new(),
            })
        });
        self.delivery = Delivery::Done(result);
        if let Some(session) = self.sessions.get_mut(&root) {
            session.keeping = SalvageProgress::No;
        }
        self.mark_ready(&root);
    }
}
