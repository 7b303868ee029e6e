//! API type of a check of journals, for `verify`.

use posse_engine::VerifiedJournal;
use schemars::JsonSchema;
use serde::Serialize;

use crate::RunId;

/// The result of checking one journal, or the store that contains all of them.
#[derive(Default, Serialize, JsonSchema)]
#[expect(clippy::option_option, reason = "in JSON a key that is absent, a null and a value are three things")]
pub struct Verification<'a> {
    /// Whether no problem was found.
    ok: bool,
    /// The number of events in the journal; null if there is a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Option<u64>>,
    /// The hash of its last event; null if there is a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<Option<String>>,
    /// The number of the first damaged event, if the problem is in an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad_seq: Option<Option<u64>>,
    /// The description of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// The run that was checked; null for a problem of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Option<&'a str>>,
}

impl<'a> Verification<'a> {
    /// A journal without a problem.
    pub fn whole(journal: &VerifiedJournal) -> Self {
        let head = journal.head.hash.to_string();
        Self { ok: true, events: Some(Some(journal.events)), head: Some(Some(head)), ..Self::default() }
    }

    /// A journal with a problem, in the event `seq` if it is in one.
    pub fn damaged(seq: Option<u64>, problem: &'a str) -> Self {
        let problem = Some(problem);
        Self { events: Some(None), head: Some(None), first_bad_seq: Some(seq), problem, ..Self::default() }
    }

    /// A problem of the store as a whole.
    pub fn store_problem(problem: &'a str) -> Self {
        Self { problem: Some(problem), run: Some(None), ..Self::default() }
    }

    /// Sets the run that was checked.
    pub fn of_run(self, run: &'a RunId) -> Self {
        Self { run: Some(Some(run.as_str())), ..self }
    }
}
