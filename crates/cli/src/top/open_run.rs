//! The run that is open: its tree, and a track for each of its agents.

use std::collections::HashSet;

use posse::view::{AgentView, TrackActivity, Tracks};
use posse::{AgentId, JournalEvent, RunView};

use crate::commands::show::in_tree_order;
use crate::text::duration;
use crate::view::rows::{DrawOptions, Row, Tint, tree_row};
use crate::view::width::clip;

/// Columns of the names before the tracks.
const NAME_COLUMNS: usize = 20;

/// A run with its agents.
#[derive(Debug)]
pub(super) struct OpenRun {
    pub(super) view: RunView,
    pub(super) tracks: Tracks,
    folded: HashSet<AgentId>,
    /// The agent that keys apply to.
    pub(super) agent: AgentId,
    /// The first row of the tree on the screen.
    pub(super) top: usize,
}

impl OpenRun {
    pub(super) fn new(view: RunView, tracks: Tracks, root: AgentId) -> Self {
        Self { view, tracks, folded: HashSet::new(), agent: root, top: 0 }
    }

    /// Takes over what the user selected in an earlier state of the same run.
    pub(super) fn keep_selection_of(&mut self, before: Self) {
        if before.agent.run() == self.agent.run() {
            (self.folded, self.agent, self.top) = (before.folded, before.agent, before.top);
        }
    }

    pub(super) fn apply(&mut self, event: &JournalEvent) {
        self.view.apply(event);
        self.tracks.apply_event(event);
    }

    /// The agents that are not folded away, each with the branch that leads to it.
    pub(super) fn agents(&self) -> Vec<(String, &AgentView)> {
        let mut agents = in_tree_order(&self.view, &self.agent.run().root());
        if !self.folded.is_empty() {
            agents.retain(|(_, agent)| !self.is_hidden(&agent.id));
        }
        agents
    }

    fn is_hidden(&self, agent: &AgentId) -> bool {
        let mut at = agent.parent();
        while let Some(id) = at {
            if self.folded.contains(&id) {
                return true;
            }
            at = id.parent();
        }
        false
    }

    /// The position of the selected agent.
    pub(super) fn at(&self) -> usize {
        self.agents().iter().position(|(_, agent)| agent.id == self.agent).unwrap_or(0)
    }

    /// Selects an agent by its position.
    pub(super) fn select(&mut self, at: usize) {
        if let Some(agent) = self.agents().get(at).map(|(_, agent)| agent.id.clone()) {
            self.agent = agent;
        }
    }

    /// Hides or shows the children of the selected agent.
    pub(super) fn fold(&mut self, is_folded: bool) {
        if is_folded {
            self.folded.insert(self.agent.clone());
        } else {
            self.folded.remove(&self.agent);
        }
    }

    /// The rows of the tree, from `top` on.
    pub(super) fn tree(&self, now_ms: i64, columns: usize, height: usize) -> Vec<Row> {
        let drawing = DrawOptions {
            // Once a second, with the times.
            frame: usize::try_from(now_ms / 1_000).unwrap_or(0),
            now_ms,
            columns,
            folded: &self.folded,
            selected: None,
        };
        let shown = self.agents().into_iter().skip(self.top).take(height);
        shown.map(|(lead, agent)| tree_row(&self.view, agent, &lead, drawing)).collect()
    }

    /// The tracks of the agents, from `top` on, below a scale.
    pub(super) fn timeline(&self, now_ms: i64, columns: usize, height: usize) -> Vec<Row> {
        let width = columns.saturating_sub(NAME_COLUMNS + 1).max(1);
        let scale = Scale::new(self, now_ms, width);
        let mut rows = vec![scale.heading()];
        for (_, agent) in self.agents().into_iter().skip(self.top).take(height.saturating_sub(1)) {
            let name = if agent.id.is_root() { agent.id.as_str() } else { agent.id.relative() };
            let indent = "  ".repeat(usize::try_from(agent.depth()).unwrap_or(0).min(4));
            let (name, used) = clip(&format!("{indent}{name} {}", agent.definition), NAME_COLUMNS);
            let mut row = Row { agent: Some(agent.id.clone()), ..Row::default() };
            row.push(Tint::Bold, format!("{name}{}", " ".repeat(NAME_COLUMNS - used + 1)));
            scale.track(self, &agent.id, &mut row);
            rows.push(row);
        }
        rows
    }
}

/// The meaning of the marks in a track.
pub(super) const LEGEND: &str = "█ model ▒ tools ? approval ─ integration · waits";

fn mark(activity: Option<TrackActivity>) -> (Tint, char) {
    match activity {
        None => (Tint::Plain, ' '),
        Some(TrackActivity::Waiting) => (Tint::Dim, '·'),
        Some(TrackActivity::Model) => (Tint::Busy, '█'),
        Some(TrackActivity::Tools) => (Tint::Good, '▒'),
        Some(TrackActivity::Approver) => (Tint::Warning, '?'),
        Some(TrackActivity::Integration) => (Tint::Dim, '─'),
    }
}

/// The times of the columns of a timeline.
struct Scale {
    from_ms: i64,
    until_ms: i64,
    columns: usize,
}

impl Scale {
    fn new(run: &OpenRun, now_ms: i64, columns: usize) -> Self {
        let from_ms = run.view.started_at_ms();
        let elapsed = i64::try_from(run.view.elapsed_ms(now_ms)).unwrap_or(i64::MAX);
        Self { from_ms, until_ms: from_ms.saturating_add(elapsed.max(1)), columns }
    }

    /// When a column begins.
    fn time(&self, column: usize) -> i64 {
        let length = i128::from(self.until_ms - self.from_ms);
        let passed = length * column as i128 / self.columns as i128;
        self.from_ms + i64::try_from(passed).unwrap_or(0)
    }

    fn heading(&self) -> Row {
        let end = duration((self.until_ms - self.from_ms).max(0).cast_unsigned());
        let middle = duration((self.time(self.columns / 2) - self.from_ms).max(0).cast_unsigned());
        let half = self.columns / 2;
        let left = format!("{:half$}", "0 s");
        let right = format!("{middle:rest$}", rest = self.columns.saturating_sub(half + end.chars().count()));
        Row::tinted(Tint::Dim, format!("{:1$} {left}{right}{end}", "AGENT", NAME_COLUMNS))
    }

    fn track(&self, run: &OpenRun, agent: &AgentId, row: &mut Row) {
        let Some(track) = run.tracks.get(agent) else { return };
        for column in 0..self.columns {
            let (from, until) = (self.time(column), self.time(column + 1));
            let (tint, mark) = mark(track.between(from, until.max(from + 1)));
            match row.pieces.last_mut() {
                Some((last, text)) if *last == tint => text.push(mark),
                _ => drop(row.push(tint, mark.to_string())),
            }
        }
    }
}
