//! The row of one agent. On a narrow terminal its sign, id, definition, time and activity stay; the title and figures go,
//! turns and the cost last.

use posse::view::{AgentView, BlockedOn, IntegrationProgress, Stage};
use posse::{RunView, first_line};

use super::{DrawOptions, Row, Tint, cost, elapsed, files_fact};
use crate::term;
use crate::text::count;
use crate::view::width::{clip, text_columns};

/// Longest title: the agent's activity needs room too.
const TITLE_MAX_CHARS: usize = 40;
/// Columns of a shortened title. A narrower row has none.
const TITLE_MIN_COLUMNS: usize = 8;
/// Longest operation.
const OPERATION_MAX_CHARS: usize = 200;
/// Columns that are kept for an activity before figures and the title get any.
const ACTIVITY_COLUMNS: usize = 24;

/// The row of an agent, with `lead` before it.
pub(super) fn agent_row(run: &RunView, agent: &AgentView, lead: &str, drawing: DrawOptions<'_>) -> Row {
    let mut row = Row { agent: Some(agent.id.clone()), ..Row::default() };
    let (sign, tint) = sign(agent, drawing.frame);
    let name = if agent.id.is_root() { agent.id.as_str() } else { agent.id.relative() };
    let is_selected = drawing.selected == Some(&agent.id);
    // A sign of its own: without colour, no other one shows the selection.
    row.push(Tint::Dim, lead).push(tint, format!("{sign}{}", if is_selected { "▸" } else { " " }));
    row.push(if is_selected { Tint::Selected } else { Tint::Bold }, name);
    row.push(Tint::Plain, format!(" {}", agent.definition));
    let until = agent.completed_at_ms.unwrap_or(drawing.now_ms);
    let time = elapsed(agent.created_at_ms, until);
    let activity = activity(run, agent, drawing.now_ms);
    let fixed: usize =
        row.pieces.iter().map(|(_, text)| text_columns(text)).sum::<usize>() + 2 + text_columns(&time);
    let mut left = drawing.columns.saturating_sub(fixed);
    if !activity.is_empty() {
        left = left.saturating_sub(2 + text_columns(&activity).min(ACTIVITY_COLUMNS));
    }
    let is_folded = drawing.folded.contains(&agent.id) && !agent.children.is_empty();
    let (figures, title) = choose(agent, is_folded, left);
    if let Some(title) = title {
        row.push(Tint::Plain, title);
    }
    let mut facts = vec![time];
    facts.extend(figures);
    row.push(Tint::Dim, format!("  {}", facts.join(", ")));
    if !activity.is_empty() {
        row.push(activity_tint(run, agent), format!("  {activity}"));
    }
    row
}

/// The figures and the title for which there is room: turns and the cost first, then the title, then the rest.
fn choose(agent: &AgentView, is_folded: bool, mut left: usize) -> (Vec<String>, Option<String>) {
    let turn = (agent.turn > 0).then(|| {
        let limit = agent.turn_limit.map(|limit| format!("/{limit}")).unwrap_or_default();
        format!("turn {}{limit}", agent.turn)
    });
    let first = turn.into_iter().chain(cost(&agent.subtree.usage));
    let mut figures: Vec<String> = first.filter(|figure| fits(&format!(", {figure}"), &mut left)).collect();
    let skill = agent.skill.as_ref().map(|skill| format!(" for skill {skill}")).unwrap_or_default();
    let title = match agent.title.as_str() {
        "" => skill,
        title => format!("{skill}: {}", first_line(title, TITLE_MAX_CHARS)),
    };
    // A title is shortened before it goes: it says more than tokens.
    let title = match clip(&title, left.max(TITLE_MIN_COLUMNS)).0 {
        title if title.is_empty() || text_columns(&title) > left => None,
        title => Some(title),
    };
    left -= title.as_deref().map_or(0, text_columns);
    figures.extend(
        more_figures(agent, is_folded).into_iter().filter(|figure| fits(&format!(", {figure}"), &mut left)),
    );
    (figures, title)
}

/// Whether a text fits into the columns that are left, and takes them.
fn fits(text: &str, left: &mut usize) -> bool {
    let needed = text_columns(text);
    let fits = needed <= *left;
    *left -= if fits { needed } else { 0 };
    fits
}

/// The less important figures, the most important first.
fn more_figures(agent: &AgentView, is_folded: bool) -> Vec<String> {
    let mut figures = Vec::new();
    if agent.attempt > 1 {
        figures.push(format!("attempt {}", agent.attempt));
    }
    if is_folded {
        let count = agent.children.len();
        figures.push(format!("{count} {} folded", if count == 1 { "child" } else { "children" }));
    }
    figures.extend(files_fact(agent));
    // The tokens of a call that was cut off are not known.
    let (own, tree) = (agent.own.usage.answered_tokens(), agent.subtree.usage.answered_tokens());
    if own > 0 {
        figures.push(format!("{} tokens", count(own)));
    }
    if tree > own {
        figures.push(format!("{} tokens with its children", count(tree)));
    }
    if agent.background {
        figures.push("background".to_owned());
    }
    figures
}

fn activity_tint(run: &RunView, agent: &AgentView) -> Tint {
    match agent.stage() {
        Stage::Failed => Tint::Bad,
        _ if matches!(run.blocked().of(&agent.id), Some(BlockedOn::Approver { .. })) => Tint::Warning,
        _ if agent.is_turn_limited() => Tint::Warning,
        _ => Tint::Dim,
    }
}

/// What an agent does now or waits for.
fn activity(run: &RunView, agent: &AgentView, now_ms: i64) -> String {
    let blocked = run.blocked().of(&agent.id);
    match (agent.stage(), blocked) {
        (Stage::Completed, ..) if agent.is_turn_limited() => "completed at its turn limit".to_owned(),
        (Stage::Completed, ..) if agent.id.is_root() => String::new(),
        (Stage::Running, Some(BlockedOn::Approver { question, .. })) => {
            let operation: String = question.asked.operation.chars().take(OPERATION_MAX_CHARS).collect();
            format!("needs your approval: {}", term::visible_line(&operation))
        }
        (Stage::Running, Some(BlockedOn::Provider(wait))) => wait.words_now(now_ms),
        (Stage::Running, None) if agent.is_saying() => agent.last_lines(1).pop().unwrap_or_default(),
        (Stage::Running, None) if agent.asking => "waits for its model".to_owned(),
        (Stage::Running, None) if agent.open_children > 0 => match agent.open_children {
            1 => "waits for 1 child".to_owned(),
            open => format!("waits for {open} children"),
        },
        (Stage::WaitingForMerge, _) => integration(agent),
        _ => agent.activity.clone(),
    }
}

/// How far the integration of an agent's work is.
fn integration(agent: &AgentView) -> String {
    let progress = match agent.integration {
        None => "waiting for merge",
        Some(IntegrationProgress::ChecksPassed) => "checks passed, merging",
        Some(IntegrationProgress::ChecksFailed) => "checks failed",
        Some(IntegrationProgress::Conflicted) => "merge conflict",
        Some(IntegrationProgress::Merged) => "merged",
    };
    if agent.activity.is_empty() { progress.to_owned() } else { format!("{progress}: {}", agent.activity) }
}

/// The spinner of running agents.
const WHEEL: [&str; 8] = ["⠋", "⠙", "⠸", "⠼", "⠴", "⠦", "⠇", "⠏"];

fn sign(agent: &AgentView, frame: usize) -> (&'static str, Tint) {
    match agent.stage() {
        Stage::Queued => ("◌", Tint::Dim),
        Stage::Running => (WHEEL[frame % WHEEL.len()], Tint::Busy),
        Stage::WaitingForMerge => ("◐", Tint::Busy),
        // Completed, but cut off by the turn limit.
        Stage::Completed if agent.is_turn_limited() => ("!", Tint::Warning),
        Stage::Completed => ("✓", Tint::Good),
        Stage::Failed => ("✗", Tint::Bad),
        Stage::Cancelled => ("⊘", Tint::Bad),
    }
}
