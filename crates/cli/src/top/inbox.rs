//! The calls of all runs that wait for an answer.

use posse::PendingQuestion;

use crate::questions::describe;
use crate::term;
use crate::text::ago;
use crate::view::rows::{Row, Tint};
use crate::view::width::wrap;

/// Open questions, oldest first.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    pub(super) questions: Vec<PendingQuestion>,
    /// The agent, the event and the call of the selected question.
    selected: Option<(String, u64, String)>,
    pub(super) top: usize,
}

fn key(question: &PendingQuestion) -> (String, u64, String) {
    (question.agent.to_string(), question.seq, question.call_id.clone())
}

impl Inbox {
    /// Takes the questions as they are now. `false` if they have not changed.
    pub(super) fn load(&mut self, mut questions: Vec<PendingQuestion>) -> bool {
        questions.sort_by_key(|question| (question.asked_at_ms, key(question)));
        let is_changed = self.questions != questions;
        self.questions = questions;
        is_changed
    }

    /// Removes a question that was answered here.
    pub(super) fn remove(&mut self, question: &PendingQuestion) {
        self.questions.retain(|known| key(known) != key(question));
    }

    pub(super) fn at(&self) -> usize {
        let selected = self.selected.as_ref();
        self.questions.iter().position(|question| Some(&key(question)) == selected).unwrap_or(0)
    }

    pub(super) fn select(&mut self, at: usize) {
        self.selected = self.questions.get(at).map(key);
    }

    /// The question that keys apply to.
    pub(super) fn selected(&self) -> Option<&PendingQuestion> {
        self.questions.get(self.at())
    }

    /// One row for each question.
    pub(super) fn rows(&self, now_ms: i64) -> Vec<Row> {
        let row = |question: &PendingQuestion| {
            let mut row = Row::default();
            row.push(Tint::Bold, format!("{:14}", question.agent.as_str()));
            row.push(Tint::Dim, format!("  {:>10}  ", ago(question.asked_at_ms, now_ms)));
            row.push(Tint::Plain, term::visible_line(&question.operation));
            row
        };
        self.questions.iter().map(row).collect()
    }

    /// The selected question with its whole operation, and the keys that answer it.
    pub(super) fn detail(&self, columns: usize) -> Vec<Row> {
        let Some(question) = self.selected() else { return vec![] };
        let text = describe(question);
        let mut rows: Vec<Row> =
            text.lines().flat_map(|line| wrap(&Row::plain(line), columns.max(1))).collect();
        if let Some(literal) = &question.always {
            let kept = format!(
                r#"  "always" allows exactly `{}` in this directory"#,
                term::visible_line(literal.as_str())
            );
            rows.extend(wrap(&Row::plain(kept), columns.max(1)));
        }
        rows.push(Row::tinted(Tint::Warning, answers(question)));
        rows
    }
}

/// The answers that a question can have.
fn answers(question: &PendingQuestion) -> &'static str {
    match question.always {
        Some(_) => "o allow once · a allow always · d deny",
        None => "o allow once · d deny",
    }
}
