//! Garbage collection: removes what ended runs leave on disk and in the journal.

use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posse_engine::ports::{GcOptions, GcSummary, KeptItem, RunEntry, RunPhase, StoreError};

use crate::{Error, Posse, RunId};

/// Limit of runs that one cleaning inspects, so that it ends. The next one continues.
const RUNS_MAX: u32 = 1_000_000;
const DAY: Duration = Duration::from_hours(24);

/// Options of a cleaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRequest {
    /// Only report what would be removed.
    pub dry_run: bool,
    /// The minimum age of an ended run's workspaces.
    pub workspaces_older_than: Duration,
    /// The minimum age of salvage.
    pub salvage_older_than: Duration,
    /// How long ago a run must have ended to be removed completely, including its journal; `None` keeps all runs.
    pub runs_older_than: Option<Duration>,
}

impl Default for GcRequest {
    fn default() -> Self {
        Self {
            dry_run: false,
            workspaces_older_than: 7 * DAY,
            salvage_older_than: 30 * DAY,
            runs_older_than: None,
        }
    }
}

impl Posse {
    /// Removes what ended runs left, if it is old and reachable elsewhere or no longer wanted. An open run is never
    /// touched, and whatever cannot be inspected is kept.
    pub async fn clean(&self, cleaning: GcRequest) -> Result<GcSummary, Error> {
        let now = SystemTime::now();
        let mut cleaned = GcSummary::default();
        let mut entries = self.store.runs(&self.tenant, "", RUNS_MAX).await?;
        let old =
            |entry: &RunEntry| cleaning.runs_older_than.is_some_and(|age| has_ended_before(entry, age, now));
        let mut gone: HashSet<String> = HashSet::new();
        let mut dirs: HashSet<String> = HashSet::new();
        for entry in entries.iter().filter(|entry| old(entry)) {
            if self.clean_run(entry, cleaning.dry_run, &mut cleaned).await? {
                gone.insert(entry.run.to_string());
                dirs.insert(entry.row.dir.clone());
            }
        }
        entries.retain(|entry| !gone.contains(entry.run.as_str()));
        self.clean_folders(&entries, &dirs, cleaning.dry_run, &mut cleaned);
        if let Some(files) = &self.files {
            let phase = |entry: &RunEntry| if is_open(entry) { RunPhase::Open } else { RunPhase::Ended };
            let options = GcOptions {
                dry_run: cleaning.dry_run,
                workspaces_older_than: cleaning.workspaces_older_than,
                salvage_older_than: cleaning.salvage_older_than,
                runs: entries.iter().map(|entry| (entry.run.to_string(), phase(entry))).collect(),
                now,
            };
            cleaned.add(files.clean(options).await.map_err(Error::Cleaning)?);
        }
        // The directories of runs that a dry run would remove still exist.
        cleaned.kept.retain(|item| !item.whole_run.as_ref().is_some_and(|run| gone.contains(run)));
        Ok(cleaned)
    }

    /// Removes one run that has ended: its journal, its workspaces, its salvaged work, and the folder that Posse created for
    /// it, if it has one. Reports as kept what could not be
    /// removed. A run that has not ended, or whose process still writes its last events, is an error.
    pub async fn remove(&self, run: &RunId) -> Result<GcSummary, Error> {
        let entry = self.store.runs(&self.tenant, run.as_str(), 1).await?.into_iter().next();
        let entry = entry.ok_or_else(|| Error::NoRun(run.to_string()))?;
        if is_open(&entry) {
            return Err(Error::StillRunning(run.clone()));
        }
        let mut removed = GcSummary::default();
        if self.clean_run(&entry, false, &mut removed).await? {
            let remaining = self.store.runs(&self.tenant, "", RUNS_MAX).await?;
            self.clean_folders(&remaining, &HashSet::from([entry.row.dir]), false, &mut removed);
        }
        Ok(removed)
    }

    /// Removes a whole run and returns whether it is gone. Its files are first, so that its journal still leads to an
    /// interrupted removal.
    async fn clean_run(
        &self,
        entry: &RunEntry,
        dry_run: bool,
        cleaned: &mut GcSummary,
    ) -> Result<bool, Error> {
        let run = &entry.run;
        let kept = |why: String| KeptItem::whole_run(run.as_str(), why);
        // Before its files are removed: a journal that cannot be removed would stay without them.
        if let Some(problem) = self.damage_of(entry).await? {
            cleaned.kept.push(kept(format!("it is damaged: {problem}")));
            return Ok(false);
        }
        if let Some(files) = &self.files {
            match files.remove(run, dry_run).await {
                Ok(report) => cleaned.add(report),
                Err(problem) => {
                    cleaned.kept.push(kept(problem.to_string()));
                    return Ok(false);
                }
            }
        }
        if dry_run {
            return Ok(true);
        }
        match self.store.remove(&self.key(run)).await {
            // Another process may have removed it meanwhile.
            Ok(_) | Err(StoreError::UnknownRun(_)) => Ok(true),
            Err(error @ StoreError::Open(_)) => {
                cleaned.kept.push(kept(error.to_string()));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The damage in the rows that decide whether a run may be removed.
    async fn damage_of(&self, entry: &RunEntry) -> Result<Option<String>, Error> {
        match &entry.damage {
            Some(problem) => Ok(Some(problem.clone())),
            None => Ok(self.store.check_run(&self.key(&entry.run)).await?.problems.into_iter().next()),
        }
    }
}

/// A process may still write the last events of a run that has ended.
fn is_open(entry: &RunEntry) -> bool {
    entry.row.ended_at_ms.is_none() || entry.holder.is_some()
}

fn has_ended_before(entry: &RunEntry, age: Duration, now: SystemTime) -> bool {
    let ended = entry.row.ended_at_ms.and_then(|ended| u64::try_from(ended).ok());
    let ended = ended.map(|ended| UNIX_EPOCH + Duration::from_millis(ended));
    ended.is_some_and(|ended| !is_open(entry) && now.duration_since(ended).is_ok_and(|past| past >= age))
}
