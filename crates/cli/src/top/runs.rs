//! The list of runs.

use std::path::PathBuf;

use posse::view::ListStatus;
use posse::{ListedRun, RunId};
use posse_setup::project_runs::Project;

use crate::commands::ps;
use crate::term;
use crate::text::ago;
use crate::view::rows::{Row, Tint};
use crate::view::width::clip;

/// From this width on, the list has columns for agents and directories.
const WIDE_COLUMNS: usize = 100;

/// The runs, and which of them are shown.
#[derive(Debug, Default)]
pub(super) struct RunList {
    all: Vec<ListedRun>,
    /// Whether the runs were read.
    pub(super) is_loaded: bool,
    /// Only runs with this status.
    pub(super) status: Option<ListStatus>,
    /// The project that the list can be limited to.
    project: Option<Project>,
    pub(super) is_only_project: bool,
    /// Only runs whose row contains this text.
    pub(super) search: String,
    selected: Option<RunId>,
    /// The first row on the screen.
    pub(super) top: usize,
    home: Option<PathBuf>,
}

impl RunList {
    /// The list before the runs are read, with its filters.
    pub(super) fn new(
        status: Option<ListStatus>,
        project: Option<Project>,
        is_only_project: bool,
        home: Option<PathBuf>,
    ) -> Self {
        Self { status, project, is_only_project, home, ..Self::default() }
    }

    /// Takes the runs as they are now. `false` if they have not changed.
    pub(super) fn load(&mut self, runs: Vec<ListedRun>) -> bool {
        let is_changed = !self.is_loaded || self.all != runs;
        self.all = runs;
        self.is_loaded = true;
        is_changed
    }

    /// The run with this id.
    pub(super) fn get(&self, run: &RunId) -> Option<&ListedRun> {
        self.all.iter().find(|listed| listed.run.run == *run)
    }

    /// The runs that the filters leave.
    pub(super) fn shown(&self) -> Vec<&ListedRun> {
        let search = self.search.to_lowercase();
        let fits = |listed: &&ListedRun| {
            let run = &listed.run;
            let words = [run.run.as_str(), &run.title, &run.dir, &run.definition];
            self.status.is_none_or(|status| status == listed.status())
                && (!self.is_only_project || self.project.as_ref().is_none_or(|project| project.has(run)))
                && (search.is_empty() || words.iter().any(|word| word.to_lowercase().contains(&search)))
        };
        self.all.iter().filter(fits).collect()
    }

    /// How many runs are known.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// The position of the selected run among those that are shown.
    pub(super) fn at(&self) -> usize {
        let selected = self.selected.as_ref();
        self.shown().iter().position(|listed| Some(&listed.run.run) == selected).unwrap_or(0)
    }

    /// The run that keys apply to.
    pub(super) fn selected(&self) -> Option<RunId> {
        self.shown().get(self.at()).map(|listed| listed.run.run.clone())
    }

    /// Selects by position.
    pub(super) fn select(&mut self, at: usize) {
        self.selected = self.shown().get(at).map(|listed| listed.run.run.clone());
    }

    /// Shows the runs with the next status.
    pub(super) fn next_status(&mut self) {
        let at = self.status.and_then(|status| ListStatus::ALL.iter().position(|known| *known == status));
        self.status = match at {
            None => ListStatus::ALL.first().copied(),
            Some(at) => ListStatus::ALL.get(at + 1).copied(),
        };
    }

    /// What is listed, in one line.
    pub(super) fn about(&self) -> String {
        let (shown, all) = (self.shown().len(), self.count());
        let runs = crate::text::plural(all as u64, "run");
        let mut parts = vec![if shown == all { runs } else { format!("{shown} of {runs}") }];
        parts.extend(self.status.map(|status| format!("status {}", status.as_str())));
        if let (true, Some(project)) = (self.is_only_project, &self.project) {
            parts.push(format!("in {}", term::line(&project.top().display().to_string())));
        }
        if !self.search.is_empty() {
            parts.push(format!("with \u{201c}{}\u{201d}", term::line(&self.search)));
        }
        parts.join(" · ")
    }

    /// The heading of the list.
    pub(super) fn heading(columns: usize) -> Row {
        let cells = Cells { run: "RUN", status: "STATUS", agents: "AGENTS", time: "TIME", cost: "COST" };
        let mut row = Row::default();
        cells.push(&mut row, Tint::Dim, columns);
        row.push(Tint::Dim, Self::end("STARTED", "DIR", "REQUEST", columns));
        row
    }

    /// The row of a run.
    pub(super) fn row(&self, listed: &ListedRun, now_ms: i64, columns: usize) -> Row {
        let run = &listed.run;
        let cost = ps::cost(listed);
        let (agents, time) = (run.agents.to_string(), ps::took(listed, now_ms));
        let cells = Cells {
            run: run.run.as_str(),
            status: listed.status().as_str(),
            agents: &agents,
            time: &time,
            cost: &cost,
        };
        let mut row = Row::default();
        cells.push(&mut row, ps::tint(listed.status()), columns);
        let dir = ps::shown_dir(&run.dir, self.home.as_deref());
        let started = ago(run.created_at_ms, now_ms);
        row.push(Tint::Plain, Self::end(&started, &dir, &term::line(&ps::title(run)), columns));
        row
    }

    fn end(started: &str, dir: &str, title: &str, columns: usize) -> String {
        if columns >= WIDE_COLUMNS {
            return format!("  {started:>10}  {dir:24}  {title}");
        }
        format!("  {started:>10}  {title}")
    }
}

/// The first cells of a row.
struct Cells<'a> {
    run: &'a str,
    status: &'a str,
    agents: &'a str,
    time: &'a str,
    cost: &'a str,
}

impl Cells<'_> {
    fn push(&self, row: &mut Row, status: Tint, columns: usize) {
        row.push(Tint::Bold, format!("{:8}", clip(self.run, 8).0));
        row.push(status, format!("  {:11}", self.status));
        if columns >= WIDE_COLUMNS {
            row.push(Tint::Plain, format!("  {:>6}", self.agents));
        }
        row.push(Tint::Plain, format!("  {:>11}  {:>8}", self.time, self.cost));
    }
}
