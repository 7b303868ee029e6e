//! Checks a run's journal: numbers, chain, order, legality, and the tables of current state against the events.

use std::collections::BTreeMap;

use posse_domain::budget::Figures;
use posse_domain::event::{Event, OrderChecker, StoredEvent};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::Run;
use thiserror::Error;

use crate::history::{HistoryError, fill};
use crate::ports::{AgentRow, Head, Mail, READ_MAX_EVENTS, RunKey, Store, StoreError};
use crate::projection::Projection;

/// A journal that holds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedJournal {
    /// How many events there are.
    pub events: u64,
    /// Where the journal ends; keep it elsewhere, and a cut tail will show.
    pub head: Head,
}

/// A journal that does not.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// An event is wrong.
    #[error("event {seq} of run {run}: {problem}")]
    Event {
        /// The run.
        run: posse_domain::id::RunId,
        /// The first bad event.
        seq: u64,
        /// What is wrong.
        problem: String,
    },
    /// A table does not say what the events say.
    #[error("the tables do not match the journal: {0}")]
    Tables(String),
    /// A row of the run that no event tells about is not what was written: its head, its lease, its mail.
    #[error("{0}")]
    Rows(String),
    /// The journal could not be read.
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

/// How often the tables are looked at again because the run went on meanwhile.
const LOOKS_MAX: usize = 100;

/// Verifies a run, also while it works: what is compared was true at one moment.
pub async fn verify(store: &dyn Store, key: &RunKey) -> Result<VerifiedJournal, VerifyError> {
    let mut check = Check::new(key);
    let mut head = store.head(key).await?;
    for _ in 0..LOOKS_MAX {
        // Before the events: an agent that a command was posted for is in the journal by then.
        let mail = store.mail(key).await?;
        check.read_on(store).await?;
        if check.head.seq < head.seq {
            let problem = format!("the journal ends at {}, its head says {}", check.head.seq, head.seq);
            return Err(check.bad(check.head.seq + 1, problem));
        }
        let rows = store.agents(key).await?;
        let entry = store.runs(&key.tenant, key.run.as_str(), 1).await?.into_iter().next();
        head = store.head(key).await?;
        if head.seq > check.head.seq {
            continue;
        }
        if head != check.head {
            let problem = format!("the journal ends at {}, its head says {}", check.head.seq, head.seq);
            return Err(check.bad(check.head.seq, problem));
        }
        // Nothing was written between the last event and the head: the tables are of the same moment.
        let Some(run) = check.run.take() else { return Err(StoreError::UnknownRun(key.run.clone()).into()) };
        compare(rows, &run, &mut check.projection)?;
        compare_mail(&mail, &run)?;
        if entry.map(|entry| entry.row).as_ref() != Some(&check.projection.run_row(&run)) {
            return Err(VerifyError::Tables(format!("the row of run {} differs", key.run)));
        }
        if let Some(problem) = store.check_run(key).await?.problems.into_iter().next() {
            return Err(VerifyError::Rows(problem));
        }
        return Ok(VerifiedJournal { events: head.seq, head });
    }
    let text = "the run writes faster than its tables can be compared; verify it again when it rests";
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

    /// Takes the events that follow, to the end of the journal.
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
                self.event(seq, &event)?;
            }
        }
    }

    /// The next events. Where the store finds a gap it gives none of its page: then they are read one by one, to
    /// learn which is the first that is wrong.
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
            return Err(self.bad(self.head.seq + 1, "it is missing".to_owned()));
        }
        if stored.expected_hash(&self.head.hash, self.key.tenant.as_str(), &self.key.run) != stored.hash {
            return Err(self.bad(stored.seq, "it does not fit the hash chain".to_owned()));
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

/// Rebuilds the rows from the events and compares them with the ones in the table.
fn compare(found: Vec<AgentRow>, run: &Run, projection: &mut Projection) -> Result<(), VerifyError> {
    let ids = run.iter().map(|(id, _)| id.clone()).collect();
    let mut rebuilt: BTreeMap<AgentId, AgentRow> =
        projection.rows(run, ids).into_iter().map(|row| (row.id.clone(), row)).collect();
    for row in found {
        match rebuilt.remove(&row.id) {
            Some(expected) if expected == row || as_before(&expected) == row => {}
            Some(_) => return Err(VerifyError::Tables(format!("{} differs", row.id))),
            None => return Err(VerifyError::Tables(format!("{} is not in the journal", row.id))),
        }
    }
    match rebuilt.into_keys().next() {
        Some(id) => Err(VerifyError::Tables(format!("{id} is missing"))),
        None => Ok(()),
    }
}

/// Commands are for agents that the run has.
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

/// A row as it was before turn limits were counted in figures.
fn as_before(row: &AgentRow) -> AgentRow {
    let before = |json: &str| match serde_json::from_str::<Figures>(json) {
        Ok(figures) => serde_json::to_string(&Figures { turn_limited: 0, ..figures }).unwrap_or_default(),
        Err(_) => json.to_owned(),
    };
    AgentRow {
        usage_json: before(&row.usage_json),
        subtree_usage_json: before(&row.subtree_usage_json),
        ..row.clone()
    }
}

impl From<HistoryError> for VerifyError {
    fn from(error: HistoryError) -> Self {
        VerifyError::Store(StoreError::Failed(error.to_string()))
    }
}
