//! Rows of the live tree: selects the agents to show if there is no room for all, and draws each.

use std::collections::HashSet;

use posse::view::{AgentView, BlockedOn, Stage};
use posse::{AgentId, RunView, first_line};

use crate::blocked::on_provider;
use crate::term;
use crate::text::{count, duration, plural};

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
    /// For names and notes.
    Bold,
}

/// A row in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Row(pub(crate) Vec<(Tint, String)>);

impl Row {
    fn push(&mut self, tint: Tint, text: impl Into<String>) -> &mut Self {
        self.0.push((tint, text.into()));
        self
    }

    /// The row as plain text.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }
}

/// Longest title: the agent's activity needs room too.
const TITLE_MAX_CHARS: usize = 40;

/// Longest operation.
const OPERATION_MAX_CHARS: usize = 200;

/// The time at which a tree is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// Advances the spinner of running agents.
    pub(crate) frame: usize,
    /// The time, in milliseconds since 1970.
    pub(crate) now_ms: i64,
}

/// The tree in about `max` rows, and the line below it.
pub(crate) fn rows(run: &RunView, max: usize, moment: Moment) -> Vec<Row> {
    let Some(root) = run.agents().root() else { return vec![] };
    let shown = shown(run, max.saturating_sub(1));
    let mut rows = Vec::new();
    let drawing = TreeDrawing { run, shown: &shown, frame: moment.frame };
    drawing.agent(root, "", "", &mut rows);
    rows.push(totals(run, moment.now_ms));
    rows
}

/// The agents to show: all if there is room, else the most interesting and those that changed last, each with its
/// ancestors.
fn shown(run: &RunView, max: usize) -> HashSet<AgentId> {
    let mut by_interest: Vec<&AgentView> = run.agents().iter().collect();
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
    shown: &'a HashSet<AgentId>,
    frame: usize,
}

impl TreeDrawing<'_> {
    /// Draws an agent and its subtree. `lead` comes before its own row, `below` before the rows beneath.
    fn agent(&self, agent: &AgentView, lead: &str, below: &str, rows: &mut Vec<Row>) {
        rows.push(self.row(agent, lead));
        let (shown, hidden): (Vec<&AgentId>, Vec<&AgentId>) =
            agent.children.iter().partition(|id| self.shown.contains(*id));
        let mut beneath: Vec<RowContent<'_>> =
            shown.into_iter().filter_map(|id| self.run.agents().get(id)).map(RowContent::Child).collect();
        beneath.extend(agent.refused.iter().map(|refusal| {
            RowContent::Text(Stage::Cancelled, format!("{} refused: {}", refusal.definition, refusal.code))
        }));
        let more_refused = agent.refused_count - agent.refused.len();
        if more_refused > 0 {
            beneath.push(RowContent::Text(Stage::Cancelled, format!("{more_refused} more refused")));
        }
        if !hidden.is_empty() {
            let over = hidden
                .iter()
                .filter(|id| self.run.agents().get(id).is_some_and(|agent| agent.stage().is_over()))
                .count();
            let text = format!("{}, {over} of them done", plural(hidden.len() as u64, "more agent"));
            beneath.push(RowContent::Text(Stage::Queued, text));
        }
        let last = beneath.len().saturating_sub(1);
        for (at, item) in beneath.into_iter().enumerate() {
            let (branch, space) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            match item {
                RowContent::Child(child) => {
                    self.agent(child, &format!("{below}{branch}"), &format!("{below}{space}"), rows);
                }
                RowContent::Text(stage, text) => {
                    let mut row = Row::default();
                    let sign = if stage == Stage::Cancelled { "⊘ " } else { "… " };
                    row.push(Tint::Dim, format!("{below}{branch}")).push(Tint::Dim, format!("{sign}{text}"));
                    rows.push(row);
                }
            }
        }
    }

    fn row(&self, agent: &AgentView, lead: &str) -> Row {
        let mut row = Row::default();
        let (sign, tint) = match agent.stage() {
            // Completed, but cut off by the turn limit.
            Stage::Completed if agent.is_turn_limited() => ("!", Tint::Busy),
            stage => sign(stage, self.frame),
        };
        row.push(Tint::Dim, lead).push(tint, format!("{sign} "));
        let name = if agent.id.is_root() { agent.id.as_str() } else { agent.id.relative() };
        row.push(Tint::Bold, name).push(Tint::Plain, format!(" {}", agent.definition));
        if let Some(skill) = &agent.skill {
            row.push(Tint::Plain, format!(" for skill {skill}"));
        }
        if !agent.title.is_empty() {
            row.push(Tint::Plain, format!(": {}", first_line(&agent.title, TITLE_MAX_CHARS)));
        }
        let mut facts = Vec::new();
        if agent.background {
            facts.push("background".to_owned());
        }
        if agent.attempt > 1 {
            facts.push(format!("attempt {}", agent.attempt));
        }
        if agent.turn > 0 {
            let limit = agent.turn_limit.map(|limit| format!("/{limit}")).unwrap_or_default();
            facts.push(format!("turn {}{limit}", agent.turn));
        }
        // The tokens of a call that was cut off are not known.
        if agent.own.usage.answered_tokens() > 0 {
            facts.push(format!("{} tokens", count(agent.own.usage.answered_tokens())));
        }
        facts.extend(files_fact(agent));
        if !facts.is_empty() {
            row.push(Tint::Dim, format!("  {}", facts.join(", ")));
        }
        let activity = self.activity(agent);
        if !activity.is_empty() {
            let tint = if agent.stage() == Stage::Failed { Tint::Bad } else { Tint::Dim };
            row.push(tint, format!("  {activity}"));
        }
        row
    }

    /// What an agent does now or waits for.
    fn activity(&self, agent: &AgentView) -> String {
        let blocked = self.run.blocked().of(&agent.id);
        match (agent.stage(), blocked) {
            (Stage::Completed, ..) if agent.is_turn_limited() => "completed at its turn limit".to_owned(),
            (Stage::Completed, ..) => String::new(),
            (Stage::Running, Some(BlockedOn::Approver { question, .. })) => {
                let operation: String = question.asked.operation.chars().take(OPERATION_MAX_CHARS).collect();
                format!("blocked: waits for an approver: {}", term::visible_line(&operation))
            }
            (Stage::Running, Some(BlockedOn::Provider(wait))) => on_provider(wait),
            (Stage::Running, None) if agent.is_saying() => agent.last_lines(1).pop().unwrap_or_default(),
            (Stage::Running, None) if !agent.asking && agent.open_children > 0 => match agent.open_children {
                1 => "waits for 1 child".to_owned(),
                open => format!("waits for {open} children"),
            },
            _ => agent.activity.clone(),
        }
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
    Text(Stage, String),
}

/// The spinner of running agents.
const WHEEL: [&str; 8] = ["⠋", "⠙", "⠸", "⠼", "⠴", "⠦", "⠇", "⠏"];

fn sign(stage: Stage, frame: usize) -> (&'static str, Tint) {
    match stage {
        Stage::Queued => ("◌", Tint::Dim),
        Stage::Running => (WHEEL[frame % WHEEL.len()], Tint::Busy),
        Stage::WaitingForMerge => ("◐", Tint::Busy),
        Stage::Completed => ("✓", Tint::Good),
        Stage::Failed => ("✗", Tint::Bad),
        Stage::Cancelled => ("⊘", Tint::Bad),
    }
}

/// The running totals.
fn totals(run: &RunView, now_ms: i64) -> Row {
    let counts = run.agents().counts();
    let is_over = !run.status().is_running();
    let until = if is_over { run.last_at_ms() } else { now_ms };
    let elapsed = until.saturating_sub(run.started_at_ms()).max(0).cast_unsigned();
    // A narrow terminal cuts the end of the row, so the most important parts come first.
    let mut parts = vec![duration(elapsed), crate::text::cost_of_run(&run.usage(), run.is_replay())];
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
    let mut row = Row::default();
    row.push(Tint::Dim, parts.join(" · "));
    row
}

#[cfg(test)]
mod tests;
