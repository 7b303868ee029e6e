//! Garbage collection for `posse gc`: removes what is closed, old and reachable elsewhere. Whatever cannot be inspected
//! is kept.
//!
//! A directory is renamed into the trash beneath the state directory and deleted there. A crash leaves only trash,
//! which the next call removes. Objects are not repacked: a snapshot in progress may rely on an object that no ref
//! reaches yet, and such an object looks like a stale one. A project without runs is removed as a whole.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use posse_engine::ports::{GcOptions, GcSummary, KeptItem, RunPhase};

use super::project::Project;
use super::refs::check_id;
use super::salvages::{AllSalvages, SalvageEntry};
use super::{LocalFiles, RepositoryError, RunSpace, bases, disk, pack, quarantine};

/// Limit of entries that one call inspects, so that it ends. The next call continues.
const ENTRIES_MAX: usize = 1_000_000;

/// Why an entry was kept.
struct KeepReason(String);

impl From<&str> for KeepReason {
    fn from(why: &str) -> Self {
        Self(why.to_owned())
    }
}

impl From<RepositoryError> for KeepReason {
    fn from(error: RepositoryError) -> Self {
        Self(error.to_string())
    }
}

/// Collects the report of a cleaning.
trait CleaningReport {
    fn keep(&mut self, what: String, why: impl Into<KeepReason>);
    fn keep_run(&mut self, run: &str, why: impl Into<KeepReason>);
    fn gone(&mut self, what: String, bytes: u64);

    /// Records the result for one entry and returns whether it was removed.
    fn note(&mut self, what: String, gone: Result<u64, KeepReason>) -> bool {
        let is_gone = gone.is_ok();
        match gone {
            Ok(bytes) => self.gone(what, bytes),
            Err(why) => self.keep(what, why),
        }
        is_gone
    }
}

impl CleaningReport for GcSummary {
    fn keep(&mut self, what: String, why: impl Into<KeepReason>) {
        self.kept.push(KeptItem::part(what, why.into().0));
    }

    fn keep_run(&mut self, run: &str, why: impl Into<KeepReason>) {
        self.kept.push(KeptItem::whole_run(run, why.into().0));
    }

    fn gone(&mut self, what: String, bytes: u64) {
        self.removed.push(what);
        self.freed_bytes += bytes;
    }
}

impl LocalFiles {
    /// Removes what is closed, old, and reachable elsewhere.
    pub fn gc(&self, options: &GcOptions) -> Result<GcSummary, RepositoryError> {
        let mut report = GcSummary::default();
        self.empty_trash(options.dry_run, &mut report)?;
        let mut projects = BTreeSet::new();
        let mut unknown_project = false;
        let mut salvages = AllSalvages::default();
        for run in names_in(&self.state.join("runs"))? {
            if self.is_without_files(&run) {
                continue;
            }
            match self.open(&run) {
                Ok(space) => {
                    projects.insert(space.project_key());
                    self.gc_run(&space, &run, &mut salvages, options, &mut report);
                }
                Err(error) => {
                    unknown_project = true;
                    report.keep_run(&run, error);
                }
            }
        }
        // A run whose record is unreadable may belong to any project.
        if !unknown_project {
            self.gc_projects(&projects, options, &mut report)?;
        }
        Ok(report)
    }

    /// Removes all of one run: refs, workspaces and state. Refused if work is in no salvage ref.
    pub fn remove_run(&self, run: &str) -> Result<GcSummary, RepositoryError> {
        let mut report = GcSummary::default();
        if !self.is_without_files(run) {
            let space = self.open_to_remove(run)?;
            for (agent, attempt) in space.workspaces()? {
                let bytes = disk_bytes(&space.attempt_dir(&agent, attempt));
                self.let_go(&space, &agent, attempt, false)?;
                report.gone(format!("workspace {agent}/{attempt}"), bytes);
            }
            space.remove_refs()?;
            self.options.hit("workspace.remove_run.after_refs");
        }
        let dir = self.run_dir(run);
        let bytes = disk_bytes(&dir);
        if dir.exists() {
            self.discard(&dir)?;
        }
        report.gone(format!("run {run}"), bytes);
        Ok(report)
    }

    /// Whether all of one run could be removed: returns how many bytes that would free, or why it is refused.
    pub fn check_removable(&self, run: &str) -> Result<u64, RepositoryError> {
        if !self.is_without_files(run) {
            let space = self.open_to_remove(run)?;
            for (agent, attempt) in space.workspaces()? {
                self.let_go(&space, &agent, attempt, true)?;
            }
        }
        Ok(disk_bytes(&self.run_dir(run)))
    }

    /// The disk usage of a run without the project's repository; `None` if it has no files.
    pub fn disk_usage(&self, run: &str) -> Result<Option<u64>, RepositoryError> {
        check_id(run)?;
        let dir = self.run_dir(run);
        if dir.exists() { disk::bytes_beneath(&dir).map(Some) } else { Ok(None) }
    }

    fn open_to_remove(&self, run: &str) -> Result<RunSpace, RepositoryError> {
        let space = self.open(run)?;
        match space.strays()?.first() {
            None => Ok(space),
            Some(stray) => Err(RepositoryError::Unsupported(format!(
                "{} may hold work that is nowhere else; check it, move it elsewhere, and remove the run again",
                stray.display()
            ))),
        }
    }

    /// Whether a run belongs to no project: no agent of it could change files, or the run was removed.
    fn is_without_files(&self, run: &str) -> bool {
        let dir = self.run_dir(run);
        ["project.json", "workspaces", "shared"]
            .iter()
            .all(|part| fs::symlink_metadata(dir.join(part)).is_err_and(is_absent))
    }

    fn gc_run(
        &self,
        space: &RunSpace,
        run: &str,
        salvages: &mut AllSalvages,
        options: &GcOptions,
        report: &mut GcSummary,
    ) {
        match options.runs.get(run) {
            Some(RunPhase::Ended) => {}
            Some(RunPhase::Open) => return report.keep_run(run, "it is open"),
            None => return report.keep_run(run, "the journal does not know it"),
        }
        let mut occupied = BTreeSet::new();
        match space.workspaces() {
            Ok(found) => {
                for (agent, attempt) in found {
                    let gone = self.gc_workspace(space, &agent, attempt, options);
                    if !report.note(format!("workspace {agent}/{attempt}"), gone) {
                        occupied.insert((agent, attempt));
                    }
                }
            }
            Err(error) => return report.keep(format!("workspaces of run {run}"), error),
        }
        match space.strays() {
            Ok(strays) => {
                for stray in strays {
                    report.keep(stray.display().to_string(), "not a workspace that Posse knows; look at it");
                }
            }
            Err(error) => report.keep(format!("workspaces of run {run}"), error),
        }
        for (name, what) in [("shared", "shared checkouts"), ("objects", "lent objects")] {
            if self.run_dir(run).join(name).exists() {
                let gone = self.gc_made(run, name, options);
                report.note(format!("{what} of run {run}"), gone);
            }
        }
        match salvages.of(space) {
            Ok(found) => {
                for salvage in found {
                    let gone = gc_salvage(space, &salvage, &occupied, options);
                    let what = match salvage {
                        SalvageEntry { torn: true, .. } => "torn salvaged work",
                        SalvageEntry { git: true, .. } => "salvaged .git",
                        _ => "salvaged work",
                    };
                    report.note(format!("{what} of {}/{}", salvage.agent, salvage.attempt), gone);
                }
            }
            Err(error) => report.keep(format!("salvaged work of run {run}"), error),
        }
    }

    /// Removes a workspace that is old and completely salvaged.
    fn gc_workspace(
        &self,
        space: &RunSpace,
        agent: &str,
        attempt: u32,
        options: &GcOptions,
    ) -> Result<u64, KeepReason> {
        let dir = space.attempt_dir(agent, attempt);
        check_age(options, &dir)?;
        let bytes = disk_bytes(&dir);
        self.let_go(space, agent, attempt, options.dry_run)?;
        Ok(bytes)
    }

    /// Removes a workspace if all of it is salvaged, or a scratch directory, which contains no work.
    fn let_go(
        &self,
        space: &RunSpace,
        agent: &str,
        attempt: u32,
        dry_run: bool,
    ) -> Result<(), RepositoryError> {
        match (RunSpace::is_scratch(agent), dry_run) {
            (true, true) => Ok(()),
            (true, false) => {
                space.release(agent, attempt);
                self.discard(&space.attempt_dir(agent, attempt))
            }
            (false, true) => space.check_salvaged(agent, attempt),
            (false, false) => space.remove(agent, attempt),
        }
    }

    /// Removes directories that can be created from commits again: checkouts that readers shared, lent objects.
    fn gc_made(&self, run: &str, name: &str, options: &GcOptions) -> Result<u64, KeepReason> {
        let dir = self.run_dir(run).join(name);
        check_age(options, &dir)?;
        let bytes = disk_bytes(&dir);
        if !options.dry_run {
            self.discard(&dir)?;
        }
        Ok(bytes)
    }

    /// Removes projects without runs.
    fn gc_projects(
        &self,
        used: &BTreeSet<String>,
        options: &GcOptions,
        report: &mut GcSummary,
    ) -> Result<(), RepositoryError> {
        for key in names_in(&self.state.join("projects"))? {
            if used.contains(&key) {
                self.gc_unfinished(&key, options, report)?;
                self.gc_bases(&key, options, report)?;
                continue;
            }
            let gone = self.gc_project(&key, options);
            report.note(format!("project {key}"), gone);
        }
        Ok(())
    }

    /// Removes the shared layers of commits that no process uses and that were not used for long.
    fn gc_bases(
        &self,
        key: &str,
        options: &GcOptions,
        report: &mut GcSummary,
    ) -> Result<(), RepositoryError> {
        let project = Project::with_key(&self.state, key);
        // A removed layer may have been the last one over another.
        loop {
            let mut removed = false;
            for (dir, used) in bases::unused(&project, self.options.boot().as_deref())? {
                if !older(used, options.workspaces_older_than, options.now) {
                    continue;
                }
                let bytes = disk_bytes(&dir);
                let away = {
                    // A process that looks for this state now does not find it, and makes its own.
                    let _all = bases::lock_all(&project)?;
                    let Some(_held) = bases::lock_unused(&dir) else { continue };
                    if options.dry_run { Ok(None) } else { self.put_away(&dir).map(Some) }
                };
                removed |= matches!(away, Ok(Some(_)));
                let gone = away.and_then(|away| away.map_or(Ok(()), |away| disk::remove_tree(&away)));
                let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                report.note(format!("base {name}"), gone.map(|()| bytes).map_err(KeepReason::from));
            }
            if !removed {
                return Ok(());
            }
        }
    }

    /// Removes objects whose writer ended before it finished.
    fn gc_unfinished(
        &self,
        key: &str,
        options: &GcOptions,
        report: &mut GcSummary,
    ) -> Result<(), RepositoryError> {
        let objects = Project::with_key(&self.state, key).repository().join("objects");
        for (dir, prefix) in [(objects.clone(), quarantine::PREFIX), (objects.join("pack"), pack::UNFINISHED)]
        {
            let begins = |path: &PathBuf| {
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
            };
            // A recent one may still be written.
            let left =
                entries_of(&dir)?.into_iter().filter(begins).filter(|path| check_age(options, path).is_ok());
            for path in left {
                let bytes = disk_bytes(&path);
                let gone = if options.dry_run { Ok(()) } else { self.discard(&path) };
                report.note(
                    format!("unfinished objects {}", path.display()),
                    gone.map(|()| bytes).map_err(KeepReason::from),
                );
            }
        }
        Ok(())
    }

    fn gc_project(&self, key: &str, options: &GcOptions) -> Result<u64, KeepReason> {
        let project = Project::with_key(&self.state, key);
        let repository = project.repository();
        let dir = self.state.join("projects").join(key);
        // A run that is beginning has just modified one of these.
        for touched in [&dir, &repository, &repository.join("objects/pack")] {
            check_age(options, touched)?;
        }
        let bytes = disk_bytes(&dir);
        let _held = project.lock()?;
        if has_refs(&repository)? {
            return Err("it has refs of runs whose state is gone".into());
        }
        if !options.dry_run {
            self.discard(&dir)?;
        }
        Ok(bytes)
    }

    fn trash(&self) -> PathBuf {
        self.state.join("trash")
    }

    /// Moves a directory to the trash and deletes it there.
    pub(super) fn discard(&self, dir: &Path) -> Result<(), RepositoryError> {
        let away = self.put_away(dir)?;
        disk::remove_tree(&away)
    }

    /// Renames a directory into the trash, where no process uses it any more.
    pub(super) fn put_away(&self, dir: &Path) -> Result<std::path::PathBuf, RepositoryError> {
        let trash = self.trash();
        disk::make_dirs(&trash)?;
        let name = dir.file_name().unwrap_or_default();
        let to = disk::temporary(&trash.join(name));
        fs::rename(dir, &to).map_err(disk::failed("removing", dir))?;
        dir.parent().map_or(Ok(()), disk::sync_dir)?;
        self.options.hit("workspace.gc.after_rename");
        Ok(to)
    }

    fn empty_trash(&self, dry_run: bool, report: &mut GcSummary) -> Result<(), RepositoryError> {
        for path in entries_of(&self.trash())? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let bytes = disk_bytes(&path);
            match if dry_run { Ok(()) } else { disk::remove_tree(&path) } {
                Ok(()) => report.gone(format!("trash {name}"), bytes),
                Err(error) => report.keep(format!("trash {name}"), error),
            }
        }
        Ok(())
    }
}

/// Whether a path has been unchanged for long enough.
fn check_age(options: &GcOptions, path: &Path) -> Result<(), KeepReason> {
    let since = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    let since = since.map_err(disk::failed("looking at", path))?;
    let is_old = older(since, options.workspaces_older_than, options.now);
    if is_old { Ok(()) } else { Err("not old enough".into()) }
}

/// Removes a salvage that is old and whose workspace is gone.
fn gc_salvage(
    space: &RunSpace,
    salvage: &SalvageEntry,
    occupied: &BTreeSet<(String, u32)>,
    options: &GcOptions,
) -> Result<u64, KeepReason> {
    if occupied.contains(&(salvage.agent.clone(), salvage.attempt)) {
        return Err("its workspace still exists".into());
    }
    let since = UNIX_EPOCH + Duration::from_secs(salvage.time);
    if !older(since, options.salvage_older_than, options.now) {
        return Err("not old enough".into());
    }
    if !options.dry_run {
        space.remove_salvage(salvage)?;
    }
    Ok(0)
}

#[expect(clippy::needless_pass_by_value, reason = "what `is_err_and` hands over")]
fn is_absent(error: std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// A time in the future is never old.
fn older(since: SystemTime, than: Duration, now: SystemTime) -> bool {
    now.duration_since(since).is_ok_and(|age| age >= than)
}

/// The entries of a directory; empty if it does not exist.
pub(super) fn entries_of(dir: &Path) -> Result<Vec<PathBuf>, RepositoryError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RepositoryError::io("listing", dir, &error)),
    };
    let paths = entries.take(ENTRIES_MAX).map(|entry| entry.map(|entry| entry.path()));
    paths.collect::<Result<_, _>>().map_err(disk::failed("listing", dir))
}

/// The names in a directory that could be ids, sorted; empty if it does not exist.
pub(super) fn names_in(dir: &Path) -> Result<Vec<String>, RepositoryError> {
    let paths = entries_of(dir)?;
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let mut names: Vec<String> = names.filter(|name| check_id(name).is_ok()).map(str::to_owned).collect();
    names.sort();
    Ok(names)
}

/// Whether a repository has refs of runs, loose or packed.
fn has_refs(repository: &Path) -> Result<bool, RepositoryError> {
    let packed = disk::read_if_there(&repository.join("packed-refs"))?.unwrap_or_default();
    if String::from_utf8_lossy(&packed).contains(" refs/posse/") {
        return Ok(true);
    }
    let mut waiting = vec![repository.join("refs/posse")];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).map_err(disk::failed("listing", &dir))? {
            let entry = entry.map_err(disk::failed("listing", &dir))?;
            if !entry.file_type().map_err(disk::failed("listing", &dir))?.is_dir() {
                return Ok(true);
            }
            waiting.push(entry.path());
        }
    }
    Ok(false)
}

/// The disk usage, for the report only. No decision depends on it.
fn disk_bytes(dir: &Path) -> u64 {
    disk::bytes_beneath(dir).unwrap_or_default()
}
