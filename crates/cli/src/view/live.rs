//! The live tree: redrawn on standard error, a few times a second.

use std::io::Write;
use std::time::Duration;

use crossterm::cursor::MoveToPreviousLine;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType};
use crossterm::{queue, terminal};
use posse::RunView;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::rows::{Moment, Row, Tint, rows};
use crate::text::now_ms;

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(80);
/// Lines of the root's reply in progress below the tree.
const REPLY_LINES: usize = 5;
/// Limit of rows in the final tree.
const FINAL_ROWS_MAX: usize = 60;
/// The assumed size of a terminal that reports none.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// A tree that is redrawn while it changes.
#[derive(Default)]
pub(super) struct Live {
    note: Option<String>,
    /// How far a long operation on files is.
    progress: Option<String>,
    ticks: Option<Interval>,
    frame: usize,
    drawn_rows: u16,
    paused: bool,
    closing: bool,
    closed: bool,
}

impl Live {
    /// Whether it is not closed yet.
    pub(super) fn is_open(&self) -> bool {
        !self.closed
    }

    /// Whether it is being redrawn.
    pub(super) fn is_drawn(&self) -> bool {
        !self.closed && !self.paused
    }

    /// Draws it once more and leaves it on the screen, with a question below.
    pub(super) fn pause(&mut self, run: &RunView) {
        if self.is_drawn() {
            self.draw(run);
        }
        self.paused = true;
    }

    /// Resumes drawing, below what was written meanwhile.
    pub(super) fn resume_drawing(&mut self) {
        if self.paused {
            self.paused = false;
            self.drawn_rows = 0;
        }
    }

    /// Shows a text below the tree.
    pub(super) fn note(&mut self, text: &str, run: &RunView) {
        self.note = Some(text.to_owned());
        if self.is_drawn() {
            self.draw(run);
        }
    }

    /// Shows or hides how far a long operation on files is.
    pub(super) fn progress(&mut self, text: Option<String>, run: &RunView) {
        self.progress = text;
        if self.is_drawn() {
            self.redraw(run);
        }
    }

    /// Waits for the next frame.
    pub(super) async fn due(&mut self) {
        let ticks = self.ticks.get_or_insert_with(|| {
            let mut ticks = interval(FRAME);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            ticks
        });
        ticks.tick().await;
    }

    /// Draws the tree over its last frame.
    pub(super) fn draw(&mut self, run: &RunView) {
        self.frame = self.frame.wrapping_add(1);
        self.redraw(run);
    }

    /// The same, without advancing the animation.
    pub(super) fn redraw(&mut self, run: &RunView) {
        let (_, height) = size();
        // The last line stays free, because a terminal scrolls when it is full.
        let room = usize::from(height).saturating_sub(3 + REPLY_LINES).max(3);
        self.paint(room, run);
    }

    /// Draws it a last time, larger than the screen if needed, and leaves it there.
    pub(super) fn close(&mut self, run: &RunView) {
        if !self.closed {
            self.resume_drawing();
            self.closing = true;
            self.paint(FINAL_ROWS_MAX, run);
            self.closed = true;
        }
    }

    fn paint(&mut self, room: usize, run: &RunView) {
        let (width, _) = size();
        let mut lines = rows(run, room, Moment { frame: self.frame, now_ms: now_ms() });
        if let Some(root) = run.agents().root().filter(|root| root.asking && !self.closing) {
            let reply = root.last_lines(REPLY_LINES);
            // A single line is in the root's own row.
            if reply.len() > 1 {
                lines.extend(reply.into_iter().map(|line| Row(vec![(Tint::Dim, format!("  │ {line}"))])));
            }
        }
        if let Some(progress) = self.progress.as_ref().filter(|_| !self.closing) {
            lines.push(Row(vec![(Tint::Busy, progress.clone())]));
        }
        if let Some(note) = &self.note {
            lines.push(Row(vec![(Tint::Bold, note.clone())]));
        }
        let mut bytes = Vec::new();
        if self.drawn_rows > 0 {
            drop(queue!(bytes, MoveToPreviousLine(self.drawn_rows)));
        }
        drop(queue!(bytes, Clear(ClearType::FromCursorDown)));
        for line in &lines {
            write_row(&mut bytes, line, usize::from(width).saturating_sub(1));
        }
        self.drawn_rows = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        // One write per frame avoids flicker. A closed terminal is no reason to stop.
        let mut stderr = std::io::stderr();
        drop(stderr.write_all(&bytes).and_then(|()| stderr.flush()));
    }
}

fn size() -> (u16, u16) {
    match terminal::size() {
        Ok((width, height)) if width > 0 && height > 0 => (width, height),
        _ => DEFAULT_SIZE,
    }
}

/// Writes a row, cut at the width of the terminal.
fn write_row(bytes: &mut Vec<u8>, row: &Row, width: usize) {
    let mut left = width;
    for (tint, text) in &row.0 {
        let (cut, used) = clip(text, left);
        drop(match tint {
            Tint::Plain => queue!(bytes, Print(&cut)),
            Tint::Dim => paint(bytes, Attribute::Dim, &cut),
            Tint::Bold => paint(bytes, Attribute::Bold, &cut),
            Tint::Good => colour(bytes, Color::Green, &cut),
            Tint::Bad => colour(bytes, Color::Red, &cut),
            Tint::Busy => colour(bytes, Color::Cyan, &cut),
        });
        left -= used;
        if left == 0 {
            break;
        }
    }
    bytes.push(b'\n');
}

fn paint(bytes: &mut Vec<u8>, attribute: Attribute, text: &str) -> std::io::Result<()> {
    queue!(bytes, SetAttribute(attribute), Print(text), SetAttribute(Attribute::Reset))
}

fn colour(bytes: &mut Vec<u8>, colour: Color, text: &str) -> std::io::Result<()> {
    queue!(bytes, SetForegroundColor(colour), Print(text), ResetColor)
}

/// The beginning of a text that fits, and its width in columns. A cut is marked.
pub(crate) fn clip(text: &str, width: usize) -> (String, usize) {
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let columns = columns(c);
        if used + columns > width {
            // The mark replaces as many characters as it needs.
            while used + 1 > width {
                let Some(last) = cut.pop() else { return (cut, used) };
                used -= self::columns(last);
            }
            cut.push('…');
            return (cut, width);
        }
        used += columns;
        cut.push(c);
    }
    (cut, used)
}

/// The columns of a character: two for wide East Asian characters and emoji, none for combining marks.
fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_cut_where_the_terminal_ends() {
        assert_eq!(clip("short", 10), ("short".to_owned(), 5));
        assert_eq!(clip("exactly", 7), ("exactly".to_owned(), 7));
        assert_eq!(clip("too long", 5), ("too …".to_owned(), 5));
        assert_eq!(clip("世界世界", 5), ("世界…".to_owned(), 5));
        assert_eq!(clip("世界", 3), ("世…".to_owned(), 3));
        assert_eq!(clip("x", 0), (String::new(), 0));
    }
}
