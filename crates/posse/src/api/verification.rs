//! Whether a journal is whole.

use posse_engine::VerifiedJournal;
use schemars::JsonSchema;
use serde::Serialize;

use crate::RunId;

/// What the check of one journal found, or of the store that holds all of them.
#[derive(Default, Serialize, JsonSchema)]
#[expect(clippy::option_option, reason = "in JSON a key that is absent, a null and a value are three things")]
pub struct Verification<'a> {
    /// Whether nothing is wrong.
    ok: bool,
    /// How many events it has; null if something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<Option<u64>>,
    /// The hash of its last event; null if something is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<Option<String>>,
    /// The number of the first event that is wrong, if it is an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad_seq: Option<Option<u64>>,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    /// The run, where several are checked; null if the problem is of no single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Option<&'a str>>,
}

impl<'a> Verification<'a> {
    /// A journal in which nothing is wrong.
    pub fn whole(journal: &VerifiedJournal) -> Self {
        let head = journal.head.hash.to_string();
        Self { ok: true, events: Some(Some(journal.events)), head: Some(Some(head)), ..Self::default() }
    }

    /// A journal with a problem, in this event if it is in one.
    pub fn damaged(seq: Option<u64>, problem: &'a str) -> Self {
        let problem = Some(problem);
        Self { events: Some(None), head: Some(None), first_bad_seq: Some(seq), problem, ..Self::default() }
    }

    /// A problem of the store that is of no single run.
    pub fn store_problem(problem: &'a str) -> Self {
        Self { problem: Some(problem), run: Some(None), ..Self::default() }
    }

    /// The same with the run that was checked.
    pub fn of_run(self, run: &'a RunId) -> Self {
        Self { run: Some(Some(run.as_str())), ..self }
    }
}
