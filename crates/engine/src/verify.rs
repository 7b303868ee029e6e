//! Verifies the journal of a run for `posse verify` and tests: event numbers, the hash chain, the order and legality of
//! events, and that the tables of current state match the events.

use std::collections::BTreeMap;

use posse_domain::budget::Figures;
use posse_domain::event::{Event, OrderChecker, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Run;
use thiserror::Error;

use crate::history::{HistoryError, fill};
use crate::ports::{AgentRow, Head, Mail, READ_MAX_EVENTS, RunEntry, RunKey, RunRow, Store, StoreError};
use crate::projection::Projection;

/// The result for an undamaged journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedJournal {
    pub events: u64,
    /// The end of the journal. A copy of it that is kept elsewhere shows whether the end of the journal was cut off
    /// later.
    pub head: Head,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// An event is missing, changed, or not allowed at its position.
    #[error("event {seq} of run {run}: {problem}")]
    Event {
        run: posse_domain::id::RunId,
        /// The number of the first bad event.
        seq: u64,
        problem: String,
    },
    #[error("the tables do not match the journal: {0}")]
    Tables(String),
    /// A row of the run that does not follow from its events is damaged: its head, its lease or its mailbox.
    #[error("{0}")]
    Rows(String),
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for VerifyError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged { problem, .. } => VerifyError::Rows(problem),
            other => VerifyError::Store(other),
        }
    }
}

/// How often the tables are read again because the run wrote events in the meantime.
const LOOKS_MAX: usize = 100;

/// Verifies a run, which may be executing. The compared events and tables belong to the same moment.
pub async fn verify(store: &dyn Store, key: &RunKey) -> Result<VerifiedJournal, VerifyError> {
    let mut check = Check::new(key);
    let mut head = store.head(key).await?;
    for _ in 0..LOOKS_MAX {
        // Read before the events: the agent of every command that is read here is then among the events.
        let mail = store.mail(key).await?;
        check.read_on(store).await?;
        if check.head.seq < head.seq {
            let problem =
                format!("the last event is {}, but the stored head is {}", check.head.seq, head.seq);
            return Err(check.bad(check.head.seq + 1, problem));
        }
        let rows = store.agents(key).await?;
        let entry = store.runs(&key.tenant, key.run.as_str(), 1).await?.into_iter().next();
        head = store.head(key).await?;
        if head.seq > check.head.seq {
            continue;
        }
        if head != check.head {
            let problem =
                format!("the last event is {}, but the stored head is {}", check.head.seq, head.seq);
            return Err(check.bad(check.head.seq, problem));
        }
        // The head did not move while the tables were read, so they belong to the last event.
        let Some(run) = check.run.take() else { return Err(StoreError::UnknownRun(key.run.clone()).into()) };
        compare(rows, &run, &mut check.projection)?;
        compare_mail(&mail, &run)?;
        compare_entry(entry, key, &check.projection.run_row(&run))?;
        if let Some(problem) = store.check_run(key).await?.problems.into_iter().next() {
            return Err(VerifyError::Rows(problem));
        }
        return Ok(VerifiedJournal { events: head.seq, head });
    }
    let text = "the run writes faster than its tables can be compared; verify it again when the run is idle";
    Err(StoreError::Failed(text.to_owned()).into())
}

struct Check<'a> {
    key: &'a RunKey,
    head: Head,
    run: Option<Run>,
    order: OrderChecker,
    projection: Projection,
}

impl<'a> Check<'a> {
    fn new(key: &'a RunKey) -> Self {
        Self {
            key,
            head: Head { seq: 0, hash: Hash::ZERO },
            run: None,
            order: OrderChecker::default(),
            projection: Projection::keeping(),
        }
    }

    /// Reads and checks the next events, up to the end of the journal.
    async fn read_on(&mut self, store: &dyn Store) -> Result<(), VerifyError> {
        loop {
            let page = self.page(store).await?;
            if page.is_empty() {
                return Ok(());
            }
            for stored in page {
                let seq = stored.seq;
                self.link(&stored)?;
                let mut event = Event::decode(&stored).map_err(|error| self.bad(seq, error.to_string()))?;
                fill(store, self.key, &mut event).await.map_err(|error| self.bad(seq, error.to_string()))?;
                self.pack(store, seq, &event).await?;
                self.event(seq, &event)?;
            }
        }
    }

    /// Checks the objects of a call's files. They are read one event at a time, because they may be large.
    async fn pack(&self, store: &dyn Store, seq: u64, event: &Event) -> Result<(), VerifyError> {
        let Some(pack) = event.body.files().and_then(|files| files.pack.as_ref()) else { return Ok(()) };
        let stored = store.get_blob(&self.key.tenant, &pack.at().blob).await;
        let bytes = stored.map_err(|error| self.bad(seq, error.to_string()))?;
        if bytes.len() as u64 == pack.at().bytes {
            return Ok(());
        }
        Err(self.bad(seq, format!("blob {} is not as long as the event says", pack.at().blob)))
    }

    /// The next events. If a page is damaged, the store returns no event of it. The events are then read one by one to
    /// find the first damaged one.
    async fn page(&self, store: &dyn Store) -> Result<Vec<StoredEvent>, VerifyError> {
        for limit in [READ_MAX_EVENTS, 1] {
            match store.read(self.key, self.head.seq, limit).await {
                Err(StoreError::Damaged { problem, .. }) if limit == 1 => {
                    return Err(self.bad(self.head.seq + 1, problem));
                }
                Err(StoreError::Damaged { .. }) => {}
                other => return Ok(other?),
            }
        }
        Ok(Vec::new())
    }

    fn bad(&self, seq: u64, problem: String) -> VerifyError {
        VerifyError::Event { run: self.key.run.clone(), seq, problem }
    }

    fn link(&mut self, stored: &StoredEvent) -> Result<(), VerifyError> {
        if stored.seq != self.head.seq + 1 {
            return Err(self.bad(self.head.seq + 1, "the event is missing".to_owned()));
        }
        if stored.expected_hash(&self.head.hash, self.key.tenant.as_str(), &self.key.run) != stored.hash {
            return Err(self.bad(stored.seq, "the event does not match the hash chain".to_owned()));
        }
        self.head = Head { seq: stored.seq, hash: stored.hash };
        Ok(())
    }

    fn event(&mut self, seq: u64, event: &Event) -> Result<(), VerifyError> {
        let ordered = self.order.push(&event.agent, event.body.kind());
        ordered.map_err(|breach| self.bad(seq, breach.to_string()))?;
        let applied = match &mut self.run {
            Some(run) => run.apply(event),
            None => Run::begin(event).map(|run| self.run = Some(run)),
        };
        applied.map_err(|illegal| self.bad(seq, illegal.to_string()))?;
        if let Some(run) = &self.run {
            self.projection.observe(event, run);
        }
        Ok(())
    }
}

/// Rebuilds the rows of agents from the events and compares them with the table.
fn compare(found: Vec<AgentRow>, run: &Run, projection: &mut Projection) -> Result<(), VerifyError> {
    let ids = run.iter().map(|(id, _)| id.clone()).collect();
    let mut rebuilt: BTreeMap<AgentId, AgentRow> =
        projection.rows(run, ids).into_iter().map(|row| (row.id.clone(), row)).collect();
    for row in found {
        match rebuilt.remove(&row.id) {
            Some(expected) if expected == row || is_of_older_version(&expected, &row) => {}
            Some(_) => return Err(VerifyError::Tables(format!("{} differs", row.id))),
            None => return Err(VerifyError::Tables(format!("{} is not in the journal", row.id))),
        }
    }
    match rebuilt.into_keys().next() {
        Some(id) => Err(VerifyError::Tables(format!("{id} is missing"))),
        None => Ok(()),
    }
}

/// Compares the row of the run with the row that follows from its events.
fn compare_entry(found: Option<RunEntry>, key: &RunKey, rebuilt: &RunRow) -> Result<(), VerifyError> {
    match found {
        Some(RunEntry { damage: Some(problem), .. }) => {
            Err(VerifyError::Rows(format!("run {}: {problem}", key.run)))
        }
        Some(entry) if entry.row == *rebuilt => Ok(()),
        _ => Err(VerifyError::Tables(format!("the row of run {} differs", key.run))),
    }
}

/// Checks that every command in the mailbox is for an agent of the run.
fn compare_mail(mail: &[Mail], run: &Run) -> Result<(), VerifyError> {
    match mail.iter().find(|mail| run.get(mail.command.agent()).is_none()) {
        Some(Mail { id, command }) => Err(VerifyError::Rows(format!(
            "command {id} in the mailbox of run {} is for agent {}, which is not in the journal",
            run.id,
            command.agent()
        ))),
        None => Ok(()),
    }
}

/// Whether an older version wrote `found` where this one writes `expected`. Older versions did not count in the figures
/// what was refused, which files changed, or what is known of the cost, and the oldest no turn limits; they stored no
/// numbers of events in force.
fn is_of_older_version(expected: &AgentRow, found: &AgentRow) -> bool {
    let mut expected = expected.clone();
    if found.events_in_force.is_none() {
        expected.events_in_force = None;
    }
    let without_outcome = |figures: Figures| Figures {
        refused: 0,
        files_changed: None,
        usage: figures.usage.without_known_cost(),
        ..figures
    };
    let without_cut_off_cost =
        |figures: Figures| Figures { usage: figures.usage.without_cut_off_cost(), ..figures };
    let without_turn_limits = |figures: Figures| Figures { turn_limited: 0, ..without_outcome(figures) };
    *found == expected
        || *found == with_figures(&expected, without_cut_off_cost)
        || *found == with_figures(&expected, without_outcome)
        || *found == with_figures(&expected, without_turn_limits)
}

/// The row with other figures.
fn with_figures(row: &AgentRow, change: impl Fn(Figures) -> Figures) -> AgentRow {
    let changed = |json: &str| match serde_json::from_str(json) {
        Ok(figures) => serde_json::to_string(&change(figures)).unwrap_or_default(),
        Err(_) => json.to_owned(),
    };
    let (usage_json, subtree_usage_json) = (changed(&row.usage_json), changed(&row.subtree_usage_json));
    AgentRow { usage_json, subtree_usage_json, ..row.clone() }
}

impl From<HistoryError> for VerifyError {
    fn from(error: HistoryError) -> Self {
        VerifyError::Store(StoreError::Failed(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use posse_domain::budget::Usage;
    use posse_domain::lifecycle::AgentState;

    use super::*;

    fn row(figures: Figures) -> AgentRow {
        let json = serde_json::to_string(&figures).expect("JSON");
        AgentRow {
            id: "k3f9ab2c".parse().expect("an id"),
            terms: None,
            state: AgentState::Closed,
            final_status: None,
            close_reason: None,
            result: None,
            error: None,
            usage_json: json.clone(),
            subtree_usage_json: json,
            completed_at_ms: None,
            events_in_force: Some(Vec::new()),
        }
    }

    #[test]
    fn rows_of_every_older_version_are_accepted_and_others_are_not() {
        let call = Usage { input_tokens: 100, output_tokens: 10, micro_usd: Some(7), ..Usage::ZERO };
        let usage = call + call.as_cut_off();
        let now = Figures {
            turns: 2,
            turn_limited: 1,
            refused: 3,
            files_changed: Some(4),
            usage,
            ..Figures::default()
        };
        let before_outcome =
            Figures { refused: 0, files_changed: None, usage: usage.without_known_cost(), ..now };
        let before_turn_limits = Figures { turn_limited: 0, ..before_outcome };
        for older in [before_outcome, before_turn_limits] {
            assert!(is_of_older_version(&row(now), &row(older)), "{older:?}");
            let without_events = AgentRow { events_in_force: None, ..row(older) };
            assert!(is_of_older_version(&row(now), &without_events), "{older:?}");
            let wrong = Figures { turns: 1, ..older };
            assert!(!is_of_older_version(&row(now), &row(wrong)), "{wrong:?}");
            let cheaper = Figures { usage: call, ..older };
            assert!(!is_of_older_version(&row(now), &row(cheaper)), "the reserve counts in every version");
        }
        assert!(!is_of_older_version(&row(now), &row(Figures { refused: 2, ..now })));
        let unpriced = Usage { micro_usd: None, ..call };
        let mixed = Figures { usage: usage + unpriced, ..now };
        let older = Figures { usage: mixed.usage.without_cut_off_cost(), ..mixed };
        assert_ne!(older, mixed);
        assert!(is_of_older_version(&row(mixed), &row(older)));
    }
}
