//! Rows of the live tree: selects the agents to show if there is no room for all, and draws each.
//!
//! An agent that has completed leaves the tree: its row becomes a line above ([`finished`]), so that the tree keeps what is
//! open and what failed.

mod agent_row;

use std::collections::HashSet;

use posse::view::{AgentView, Stage, StepView};
use posse::{AgentId, RunView, Usage};

use crate::text::{cost_cell, duration, plural};
use agent_row::agent_row;

/// The colour of a piece of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tint {
    /// The terminal's default.
    Plain,
    /// For less important text.
    Dim,
    /// For success.
    Good,
    /// For failure.
    Bad,
    /// For work in progress.
    Busy,
    /// For what the user should know or decide.
    Warning,
    /// For names.
    Bold,
    /// For the row that keys apply to.
    Selected,
}

/// A row in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The texts, each with its colour.
    pub(crate) pieces: Vec<(Tint, String)>,
    /// The agent that it shows.
    pub(crate) agent: Option<AgentId>,
}

impl Row {
    /// A row of one colour.
    pub(crate) fn tinted(tint: Tint, text: impl Into<String>) -> Self {
        Self { pieces: vec![(tint, text.into())], agent: None }
    }

    /// A row without colour.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::tinted(Tint::Plain, text)
    }

    pub(crate) fn push(&mut self, tint: Tint, text: impl Into<String>) -> &mut Self {
        self.pieces.push((tint, text.into()));
        self
    }

    /// The row as plain text.
    pub(crate) fn text(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// How a tree is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DrawOptions<'a> {
    /// Advances the spinner of running agents.
    pub(crate) frame: usize,
    /// The time, in milliseconds since 1970.
    pub(crate) now_ms: i64,
    /// The columns of a row.
    pub(crate) columns: usize,
    /// The agents whose children are hidden.
    pub(crate) folded: &'a HashSet<AgentId>,
    /// The agent that keys apply to.
    pub(crate) selected: Option<&'a AgentId>,
}

/// The tree in about `max` rows, and the lines below it.
pub(crate) fn rows(run: &RunView, max: usize, drawing: DrawOptions<'_>) -> Vec<Row> {
    let Some(root) = run.agents().root() else { return vec![] };
    let mut below: Vec<Row> = plan_bar(run).into_iter().collect();
    below.push(totals(run, drawing.now_ms));
    let tree =
        TreeDrawing { run, shown: shown(run, max.saturating_sub(below.len()), drawing.folded), drawing };
    let mut rows = Vec::new();
    tree.agent(root, "", "", &mut rows);
    rows.extend(below);
    rows
}

/// The line that an agent leaves when it has completed.
pub(crate) fn finished(run: &RunView, agent: &AgentId, drawing: DrawOptions<'_>) -> Option<Row> {
    let agent = run.agents().get(agent)?;
    Some(agent_row(run, agent, "", DrawOptions { selected: None, ..drawing }))
}

/// The row of an agent in a tree that all agents stay in.
pub(crate) fn tree_row(run: &RunView, agent: &AgentView, lead: &str, drawing: DrawOptions<'_>) -> Row {
    agent_row(run, agent, lead, drawing)
}

/// Whether an agent is no longer part of the tree.
fn has_left(agent: &AgentView) -> bool {
    agent.stage() == Stage::Completed && !agent.id.is_root()
}

/// The agents to show: all if there is room, else the most interesting and those that changed last, each with its
/// ancestors.
fn shown(run: &RunView, max: usize, folded: &HashSet<AgentId>) -> HashSet<AgentId> {
    let is_folded = |agent: &AgentView| {
        let mut at = agent.id.parent();
        while let Some(id) = at {
            if folded.contains(&id) {
                return true;
            }
            at = id.parent();
        }
        false
    };
    let mut by_interest: Vec<&AgentView> =
        run.agents().iter().filter(|agent| !has_left(agent) && !is_folded(agent)).collect();
    by_interest.sort_by_key(|agent| (interest(agent.stage()), std::cmp::Reverse(agent.last_seq)));
    let mut shown = HashSet::new();
    let mut used = 0;
    for agent in by_interest {
        let mut fresh: Vec<AgentId> = Vec::new();
        let mut at = Some(agent.id.clone());
        while let Some(id) = at.filter(|id| !shown.contains(id)) {
            at = id.parent();
            fresh.push(id);
        }
        // Each with its refusals, and a row for hidden children.
        let rows: usize = fresh.iter().filter_map(|id| run.agents().get(id)).map(height).sum();
        if used + rows > max && !shown.is_empty() {
            continue;
        }
        used += rows;
        shown.extend(fresh);
    }
    shown
}

/// Order of interest: running agents first, then failed ones.
fn interest(stage: Stage) -> u8 {
    match stage {
        Stage::Running | Stage::WaitingForMerge => 0,
        Stage::Failed | Stage::Cancelled => 1,
        Stage::Queued => 2,
        Stage::Completed => 3,
    }
}

/// Rows that an agent takes without its children.
fn height(agent: &AgentView) -> usize {
    let refusals = agent.refused.len() + usize::from(agent.refused_count > agent.refused.len());
    1 + refusals + usize::from(!agent.children.is_empty())
}

struct TreeDrawing<'a> {
    run: &'a RunView,
    shown: HashSet<AgentId>,
    drawing: DrawOptions<'a>,
}

impl TreeDrawing<'_> {
    /// Draws an agent and its subtree. `lead` comes before its own row, `below` before the rows beneath.
    fn agent(&self, agent: &AgentView, lead: &str, below: &str, rows: &mut Vec<Row>) {
        rows.push(agent_row(self.run, agent, lead, self.drawing));
        let beneath = self.beneath(agent);
        let last = beneath.len().saturating_sub(1);
        for (at, item) in beneath.into_iter().enumerate() {
            let (branch, space) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            match item {
                RowContent::Child(child) => {
                    self.agent(child, &format!("{below}{branch}"), &format!("{below}{space}"), rows);
                }
                RowContent::Text(sign, text) => {
                    let mut row = Row::default();
                    row.push(Tint::Dim, format!("{below}{branch}")).push(Tint::Dim, format!("{sign} {text}"));
                    rows.push(row);
                }
            }
        }
    }

    /// What is drawn beneath an agent.
    fn beneath(&self, agent: &AgentView) -> Vec<RowContent<'_>> {
        let open = self.run.agents().children(agent).filter(|child| !has_left(child)).collect::<Vec<_>>();
        let (shown, hidden): (Vec<&AgentView>, Vec<&AgentView>) =
            open.into_iter().partition(|child| self.shown.contains(&child.id));
        // Borrowed from the run, not from `agent`.
        let mut beneath: Vec<RowContent<'_>> = shown
            .iter()
            .filter_map(|child| self.run.agents().get(&child.id))
            .map(RowContent::Child)
            .collect();
        beneath.extend(agent.refused.iter().map(|refusal| {
            RowContent::Text("⊘", format!("{} refused: {}", refusal.definition, refusal.code))
        }));
        let more_refused = agent.refused_count - agent.refused.len();
        if more_refused > 0 {
            beneath.push(RowContent::Text("⊘", format!("{more_refused} more refused")));
        }
        if !hidden.is_empty() {
            let over = hidden.iter().filter(|child| child.stage().is_over()).count();
            let ended = if over > 0 { format!(", {over} of them ended") } else { String::new() };
            let text = format!("{}{ended}", plural(hidden.len() as u64, "more agent"));
            beneath.push(RowContent::Text("…", text));
        }
        beneath
    }
}

/// What an agent that has ended changed. A child that could change files and changed none may have claimed that it did.
pub(crate) fn files_fact(agent: &AgentView) -> Option<String> {
    match agent.files_changed()? {
        0 if !agent.is_unchanged() => None,
        0 => Some("no changes".to_owned()),
        files => Some(plural(files, "file")),
    }
}

enum RowContent<'a> {
    Child(&'a AgentView),
    Text(&'static str, String),
}

/// Columns of the progress bar of a plan.
const BAR_COLUMNS: usize = 20;

/// How far the plan is; `None` if the run has none.
fn plan_bar(run: &RunView) -> Option<Row> {
    let steps = run.plan().steps();
    if steps.is_empty() {
        return None;
    }
    let stage = |agent: &Option<AgentId>| Some(run.agents().get(agent.as_ref()?)?.stage());
    let is_done =
        |step: &StepView| [stage(&step.agent), stage(&step.repair)].contains(&Some(Stage::Completed));
    let has_failed = |step: &StepView| {
        let newest = stage(&step.repair).or(stage(&step.agent));
        step.refused.is_some() || matches!(newest, Some(Stage::Failed | Stage::Cancelled))
    };
    let done = steps.iter().filter(|step| is_done(step)).count();
    let failed = steps.iter().filter(|step| !is_done(step) && has_failed(step)).count();
    let filled = BAR_COLUMNS * done / steps.len();
    let mut row = Row::default();
    row.push(Tint::Good, "█".repeat(filled)).push(Tint::Dim, "░".repeat(BAR_COLUMNS - filled));
    row.push(Tint::Plain, format!(" {done} of {} done", plural(steps.len() as u64, "step")));
    if failed > 0 {
        row.push(Tint::Bad, format!(", {failed} failed"));
    }
    Some(row)
}

/// What was spent, in a few characters; `None` if nothing is known to be spent.
fn cost(usage: &Usage) -> Option<String> {
    (usage.micro_usd_at_most() != Some(0)).then(|| cost_cell(usage)).filter(|cost| cost != "unknown")
}

/// The running totals: time and money first, because the end is cut off on a narrow terminal.
fn totals(run: &RunView, now_ms: i64) -> Row {
    let until = if run.status().is_running() { now_ms } else { run.last_at_ms() };
    let mut parts = vec![elapsed(run.started_at_ms(), until)];
    parts.push(crate::text::cost_of_view(run));
    let counts = run.agents().counts();
    parts.push(plural(counts.all(), "agent"));
    for (number, word) in [
        (counts.running, "running"),
        (counts.queued, "queued"),
        (counts.completed, "completed"),
        (counts.failed, "failed"),
        (counts.cancelled, "cancelled"),
    ] {
        if number > 0 {
            parts.push(format!("{number} {word}"));
        }
    }
    parts.push(plural(run.turns(), "turn"));
    parts.push(crate::text::tokens(&run.usage()));
    Row::tinted(Tint::Dim, parts.join(" · "))
}

/// The time between two moments. A clock that jumped back gives zero.
fn elapsed(from_ms: i64, until_ms: i64) -> String {
    duration(until_ms.saturating_sub(from_ms).max(0).cast_unsigned())
}

#[cfg(test)]
mod tests;
