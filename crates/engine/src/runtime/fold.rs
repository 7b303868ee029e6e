//! Folds a run from its whole journal for the runtime, and checks the hash chain while it reads.

use posse_domain::event::Event;
use posse_domain::hash::Hash;
use posse_domain::lifecycle::Run;

use super::{Runtime, RuntimeError};
use crate::driver::OpenEvents;
use crate::history::{HistoryError, decode, fill, first_event, read_events};
use crate::ports::{Head, RunKey, Store, StoreError};

pub(super) struct LoadedRun {
    pub(super) run: Run,
    pub(super) events: OpenEvents,
    pub(super) last_at_ms: i64,
    pub(super) head: Head,
}

impl Runtime {
    /// Folds the run again if another process wrote to its journal between the fold and the claim of the lease. After
    /// the claim, only this process writes.
    pub(super) async fn up_to_date(
        &self,
        key: &RunKey,
        mut folded: LoadedRun,
    ) -> Result<LoadedRun, RuntimeError> {
        let head = self.0.parts.store.head(key).await?;
        if folded.head != head {
            folded = self.fold(key).await?;
        }
        if folded.head != head {
            let (run, seq) = (key.run.clone(), folded.head.seq + 1);
            let problem =
                format!("the last event is {}, but the stored head is {}", folded.head.seq, head.seq);
            return Err(RuntimeError::Damaged { run, seq, problem });
        }
        Ok(folded)
    }

    /// Folds the journal of a run and checks its hash chain.
    pub(super) async fn fold(&self, key: &RunKey) -> Result<LoadedRun, RuntimeError> {
        let store = &*self.0.parts.store;
        let damaged = |seq, problem: String| RuntimeError::Damaged { run: key.run.clone(), seq, problem };
        let mut head = Head { seq: 0, hash: Hash::ZERO };
        let mut run: Option<Run> = None;
        let mut kept: Vec<Event> = Vec::new();
        let mut last_at_ms = 0;
        let mut problem = None;
        let first = first_event(store, key).await?;
        let read = read_events(store, key, 0, |stored| {
            let seq = stored.seq;
            let bad = |text: String| HistoryError::Missing(text);
            if seq != head.seq + 1
                || stored.expected_hash(&head.hash, key.tenant.as_str(), &key.run) != stored.hash
            {
                problem = Some((seq, "the hash chain is broken".to_owned()));
                return Err(bad("chain".to_owned()));
            }
            head = Head { seq, hash: stored.hash };
            last_at_ms = stored.at_ms;
            let event = decode(key, &stored)?;
            let applied = match &mut run {
                Some(run) => run.apply(&event),
                // The state needs the long texts of the first event, so that event was read with its texts.
                None => Run::begin(first.as_ref().unwrap_or(&event)).map(|begun| run = Some(begun)),
            };
            if let Err(illegal) = applied {
                problem = Some((seq, illegal.to_string()));
                return Err(bad("illegal".to_owned()));
            }
            kept.push(event);
            Ok(())
        })
        .await;
        match (read, problem) {
            (_, Some((seq, problem))) => return Err(damaged(seq, problem)),
            (Err(HistoryError::Store(error)), None) => return Err(error.into()),
            (Err(HistoryError::Event { seq, error, .. }), None) => {
                return Err(damaged(seq, error.to_string()));
            }
            (Err(HistoryError::Missing(text)), None) => return Err(damaged(head.seq, text)),
            (Ok(()), None) => {}
        }
        let run = run.ok_or_else(|| StoreError::UnknownRun(key.run.clone()))?;
        let events = open_events(store, key, &run, kept).await?;
        Ok(LoadedRun { run, events, last_at_ms, head })
    }
}

/// The events of agents that are still open, with their long texts.
async fn open_events(
    store: &dyn Store,
    key: &RunKey,
    run: &Run,
    kept: Vec<Event>,
) -> Result<OpenEvents, StoreError> {
    let mut open = OpenEvents::new();
    if run.outcome.is_some() {
        return Ok(open);
    }
    for mut event in kept {
        if run.open(&event.agent).is_some() {
            fill(store, key, &mut event).await?;
            open.entry(event.agent.clone()).or_default().push(event);
        }
    }
    Ok(open)
}
