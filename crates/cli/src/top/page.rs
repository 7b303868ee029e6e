//! A text that fills the screen: the conversation of an agent, its contract, its diff, or the journal.

use std::cell::RefCell;

use posse::{AgentId, JournalEvent};

use super::state::Tab;
use super::{contract, scroll::Move};
use crate::commands::{diff, trace};
use crate::term;
use crate::text::clock;
use crate::view::rows::{Row, Tint};
use crate::view::width::{cut, wrap};

/// Limit of rows of a page. Of a longer text the end is kept.
const PAGE_MAX_ROWS: usize = 20_000;

/// A text with its position on the screen.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) tab: Tab,
    pub(super) agent: AgentId,
    /// Events up to this number are in the text.
    pub(super) last_seq: u64,
    rows: Vec<Row>,
    /// How many rows were dropped at the beginning.
    dropped: usize,
    /// The first line on the screen.
    pub(super) top: usize,
    /// Whether the end is shown as the text grows.
    follows: bool,
    /// The rows as lines of a width.
    wrapped: RefCell<Option<(usize, Vec<Row>)>>,
}

impl Page {
    pub(super) fn new(tab: Tab, agent: AgentId, last_seq: u64) -> Self {
        let follows = tab == Tab::Journal;
        let wrapped = RefCell::new(None);
        Self { tab, agent, last_seq, rows: Vec::new(), dropped: 0, top: 0, follows, wrapped }
    }

    /// Adds a text. Lines without an indentation are headings.
    pub(super) fn push_text(&mut self, text: &str) {
        let row = |line: &str| {
            let tint = if line.starts_with(' ') { Tint::Plain } else { Tint::Bold };
            Row::tinted(tint, line.replace('\t', "    "))
        };
        self.push_rows(text.lines().map(row));
    }

    fn push_rows(&mut self, rows: impl IntoIterator<Item = Row>) {
        let known = self.rows.len();
        self.rows.extend(rows);
        let excess = self.rows.len().saturating_sub(PAGE_MAX_ROWS);
        match self.wrapped.get_mut() {
            Some((columns, lines)) if excess == 0 => {
                lines.extend(self.rows[known..].iter().flat_map(|row| lines_of(row, self.tab, *columns)));
            }
            wrapped => *wrapped = None,
        }
        self.rows.drain(..excess);
        self.dropped += excess;
    }

    /// Adds a diff.
    pub(super) fn push_diff(&mut self, bytes: &[u8]) {
        let rows: Vec<Row> = diff::lines(bytes)
            .into_iter()
            .map(|(kind, line)| Row::tinted(kind.tint(), line.replace('\t', "    ")))
            .collect();
        if rows.is_empty() {
            return self.push_rows([Row::tinted(Tint::Dim, "no changes")]);
        }
        self.push_rows(rows);
    }

    /// Adds a contract.
    pub(super) fn push_contract(&mut self, record: &posse::AgentRecord) {
        self.push_rows(contract::rows(record));
    }

    /// Adds an event that the text does not have yet, if it belongs to it. `false` if nothing changed.
    pub(super) fn apply(&mut self, event: &JournalEvent) -> bool {
        if event.seq <= self.last_seq {
            return false;
        }
        self.last_seq = event.seq;
        match self.tab {
            Tab::Conversation if event.agent_id == self.agent => self.push_text(&trace::entry(event)),
            Tab::Journal => self.push_rows([journal_row(event)]),
            _ => return false,
        }
        true
    }

    /// Calls `look` with the lines at this width.
    pub(super) fn with_lines<T>(&self, columns: usize, look: impl FnOnce(&[Row]) -> T) -> T {
        let columns = columns.max(1);
        let mut wrapped = self.wrapped.borrow_mut();
        let is_current = wrapped.as_ref().is_some_and(|(width, _)| *width == columns);
        if !is_current {
            let mut lines: Vec<Row> = Vec::new();
            if self.dropped > 0 {
                let earlier = format!("… {} earlier lines are omitted", self.dropped);
                lines.push(Row::tinted(Tint::Dim, earlier));
            }
            lines.extend(self.rows.iter().flat_map(|row| lines_of(row, self.tab, columns)));
            *wrapped = Some((columns, lines));
        }
        look(wrapped.as_ref().map_or(&[], |(_, lines)| lines))
    }

    /// The first line to show on a screen of this size.
    pub(super) fn first(&self, columns: usize, height: usize) -> usize {
        let last = self.with_lines(columns, |lines| lines.len().saturating_sub(height));
        if self.follows { last } else { self.top.min(last) }
    }

    /// Moves the screen over the text.
    pub(super) fn scroll(&mut self, movement: Move, columns: usize, height: usize) {
        let len = self.with_lines(columns, <[Row]>::len);
        let last = len.saturating_sub(height);
        self.top = movement.from(self.first(columns, height), len, height).min(last);
        self.follows = self.top == last && movement != Move::Start && self.tab != Tab::Diff;
    }

    /// Moves to the next line that contains a text, or to the one before. `false` if there is none.
    pub(super) fn find(&mut self, text: &str, is_back: bool, columns: usize, height: usize) -> bool {
        let at = self.first(columns, height);
        let wanted = text.to_lowercase();
        let found = self.with_lines(columns, |lines| {
            let fits = |at: &usize| lines[*at].text().to_lowercase().contains(&wanted);
            if is_back {
                (0..at.min(lines.len())).rev().find(fits)
            } else {
                (at + 1..lines.len()).chain(0..(at + 1).min(lines.len())).find(fits)
            }
        });
        if let Some(found) = found {
            self.top = found;
            self.follows = false;
        }
        found.is_some()
    }
}

/// A row in lines of a width: the next lines of a text begin below its first one. An event has one line.
fn lines_of(row: &Row, tab: Tab, columns: usize) -> Vec<Row> {
    if tab == Tab::Journal {
        return vec![cut(row, columns)];
    }
    let indent = row.pieces.first().map_or(0, |(_, text)| text.len() - text.trim_start_matches(' ').len());
    let indent = if indent < columns / 2 { indent } else { 0 };
    let mut lines = wrap(row, columns);
    if indent > 0 && lines.len() > 1 {
        let mut unindented = row.clone();
        unindented.pieces[0].1.drain(..indent);
        lines = wrap(&unindented, columns - indent);
        for line in &mut lines {
            line.pieces.insert(0, (Tint::Plain, " ".repeat(indent)));
        }
    }
    lines
}

/// An event in a row that has room for its summary on a narrow terminal.
fn journal_row(event: &JournalEvent) -> Row {
    let name = if event.agent_id.is_root() { "root" } else { event.agent_id.relative() };
    let kind = event.kind.as_str();
    let kind = kind.strip_prefix("agent.").unwrap_or(kind);
    // Without the milliseconds.
    let time: String = clock(event.at_ms).chars().take(8).collect();
    let mut row = Row::default();
    row.push(Tint::Dim, format!("{:>5}  {time}  ", event.seq));
    row.push(Tint::Bold, format!("{name:6}")).push(Tint::Busy, format!("  {kind:26}"));
    row.push(Tint::Plain, format!("  {}", term::line(&event.summary)));
    row
}
