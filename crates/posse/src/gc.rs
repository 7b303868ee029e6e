//! Cleaning: what runs that have ended leave on disk and in the journal.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posse_engine::ports::{RunEntry, StoreError};
use posse_workspace::{GcOptions, GcReport, WorkspaceError, Workspaces};

use crate::{Error, Posse};

/// Most runs that one cleaning looks at, so that it ends; the next one goes on.
const RUNS_MAX: u32 = 1_000_000;
const DAY: Duration = Duration::from_hours(24);

/// What to clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRequest {
    /// Only say what would go.
    pub dry_run: bool,
    /// How old the workspaces of a run that has ended must be to go.
    pub workspaces_older_than: Duration,
    /// How old salvaged work must be to go.
    pub salvage_older_than: Duration,
    /// How long ago a run must have ended to go as a whole, out of the journal too; none keeps them all.
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

/// What was cleaned.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcSummary {
    /// What went, or would go.
    pub removed: Vec<String>,
    /// What stayed, and why.
    pub kept: Vec<(String, String)>,
    /// How many bytes on disk that freed, or would.
    pub freed_bytes: u64,
}

impl GcSummary {
    fn add(&mut self, report: GcReport) {
        self.removed.extend(report.removed);
        self.kept.extend(report.kept);
        self.freed_bytes += report.freed_bytes;
    }
}

impl Posse {
    /// Removes what runs that have ended left, is old, and is reachable elsewhere or wanted no more. A run that is
    /// open is never touched, and whatever cannot be inspected is kept.
    pub async fn clean(&self, cleaning: GcRequest) -> Result<GcSummary, Error> {
        let now = SystemTime::now();
        let mut cleaned = GcSummary::default();
        let mut entries = self.store.runs(&self.tenant, "", RUNS_MAX).await?;
        let old =
            |entry: &RunEntry| cleaning.runs_older_than.is_some_and(|age| has_ended_before(entry, age, now));
        let mut gone: HashSet<String> = HashSet::new();
        for entry in entries.iter().filter(|entry| old(entry)) {
            if self.clean_run(entry, cleaning.dry_run, &mut cleaned).await? {
                gone.insert(entry.run.to_string());
            }
        }
        if let Some(files) = self.files.clone() {
            entries.retain(|entry| !gone.contains(entry.run.as_str()));
            let open = entries.into_iter().map(|entry| (entry.run.to_string(), is_open(&entry))).collect();
            let broken = |error: tokio::task::JoinError| WorkspaceError::Damaged(error.to_string());
            let task = tokio::task::spawn_blocking(move || clean_files(&files, &open, cleaning, now));
            let report = task.await.map_err(broken).and_then(|report| report);
            cleaned.add(report.map_err(Error::Cleaning)?);
        }
        // What would go is still there.
        cleaned.kept.retain(|(what, _)| !what.strip_prefix("run ").is_some_and(|run| gone.contains(run)));
        Ok(cleaned)
    }

    /// Removes a whole run: first its files, so that one cut off in between is found again by its journal. Whether it
    /// is gone.
    async fn clean_run(
        &self,
        entry: &RunEntry,
        dry_run: bool,
        cleaned: &mut GcSummary,
    ) -> Result<bool, Error> {
        let run = &entry.run;
        let what = format!("run {run}");
        // Before its files go: a journal that cannot be removed would stay without them.
        if let Some(problem) = self.damage_of(entry).await? {
            cleaned.kept.push((what, format!("it is damaged: {problem}")));
            return Ok(false);
        }
        if let Some(files) = self.files.clone() {
            let name = run.to_string();
            let task = tokio::task::spawn_blocking(move || remove_files(&files, &name, dry_run));
            let removed =
                task.await.map_err(|error| Error::Cleaning(WorkspaceError::Damaged(error.to_string())))?;
            match removed {
                Ok(report) => cleaned.add(report),
                Err(problem) => {
                    cleaned.kept.push((what, problem.to_string()));
                    return Ok(false);
                }
            }
        }
        if dry_run {
            return Ok(true);
        }
        match self.store.remove(&self.key(run)).await {
            // Somebody else may have removed it meanwhile.
            Ok(_) | Err(StoreError::UnknownRun(_)) => Ok(true),
            Err(error @ StoreError::Open(_)) => {
                cleaned.kept.push((what, error.to_string()));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Posse {
    /// What is wrong with the rows of a run that say whether it may be removed.
    async fn damage_of(&self, entry: &RunEntry) -> Result<Option<String>, Error> {
        match &entry.damage {
            Some(problem) => Ok(Some(problem.clone())),
            None => Ok(self.store.check_run(&self.key(&entry.run)).await?.problems.into_iter().next()),
        }
    }
}

fn remove_files(files: &Workspaces, run: &str, dry_run: bool) -> Result<GcReport, WorkspaceError> {
    if !dry_run {
        return files.remove_run(run);
    }
    let freed_bytes = files.check_removable(run)?;
    Ok(GcReport { removed: vec![format!("run {run}")], kept: Vec::new(), freed_bytes })
}

fn clean_files(
    files: &Workspaces,
    open: &HashMap<String, bool>,
    cleaning: GcRequest,
    now: SystemTime,
) -> Result<GcReport, WorkspaceError> {
    files.gc(GcOptions {
        dry_run: cleaning.dry_run,
        workspaces_older_than: cleaning.workspaces_older_than,
        salvage_older_than: cleaning.salvage_older_than,
        is_open: &|run| open.get(run).copied(),
        now,
    })
}

/// Somebody may still write the last of a run that has ended.
fn is_open(entry: &RunEntry) -> bool {
    entry.row.ended_at_ms.is_none() || entry.holder.is_some()
}

fn has_ended_before(entry: &RunEntry, age: Duration, now: SystemTime) -> bool {
    let ended = entry.row.ended_at_ms.and_then(|ended| u64::try_from(ended).ok());
    let ended = ended.map(|ended| UNIX_EPOCH + Duration::from_millis(ended));
    ended.is_some_and(|ended| !is_open(entry) && now.duration_since(ended).is_ok_and(|past| past >= age))
}
