//! The live tree: redrawn on standard error, a few times a second, below the lines that stay.

use std::time::Duration;

use posse::{AgentId, RunView};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::controls::{Controls, Wish};
use super::keys::Key;
use super::paint::Size;
use super::rows::{DrawOptions, Row, Tint, finished, rows};
use super::screen::{LiveScreen, TerminalEvent};
use super::tty::is_in_foreground;
use crate::text::now_ms;

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Lines of the reply in progress below the tree.
const REPLY_LINES: usize = 5;
/// Limit of rows in the final tree.
const FINAL_ROWS_MAX: usize = 60;
/// Rows that the tree has at least, however small the terminal is.
const TREE_ROWS_MIN: usize = 3;
/// Terminals of fewer rows have no room for more than the tree.
const ROWS_FOR_REPLY: u16 = 12;

/// A line that stays above the tree.
enum Line {
    Text(Row),
    Finished(AgentId),
}

/// A tree that is redrawn while it changes.
pub(super) struct Live {
    screen: LiveScreen,
    /// Lines for the next frame.
    lines: Vec<Line>,
    /// How far a long operation on files is.
    progress: Option<String>,
    controls: Controls,
    /// The agents on the screen, from top to bottom.
    shown: Vec<AgentId>,
    ticks: Option<Interval>,
    frame: usize,
    paused: bool,
    closing: bool,
    closed: bool,
}

impl Live {
    pub(super) fn new(is_coloured: bool) -> std::io::Result<Self> {
        Ok(Self {
            screen: LiveScreen::new(is_coloured)?,
            lines: Vec::new(),
            progress: None,
            controls: Controls::default(),
            shown: Vec::new(),
            ticks: None,
            frame: 0,
            paused: false,
            closing: false,
            closed: false,
        })
    }

    /// Whether it is not closed yet.
    pub(super) fn is_open(&self) -> bool {
        !self.closed
    }

    /// Whether it is being redrawn.
    pub(super) fn is_drawn(&self) -> bool {
        !self.closed && !self.paused
    }

    /// Draws it once more and leaves it on the screen, with a question below.
    pub(super) fn pause(&mut self, run: &RunView, text: &str) {
        let is_drawn = self.is_drawn() && self.screen.is_ready();
        self.paused = true;
        if is_drawn {
            self.paint(run);
        }
        self.screen.write_below(text);
    }

    /// Resumes drawing, below what was written meanwhile.
    pub(super) fn resume_drawing(&mut self, text: &str) {
        self.paused = false;
        self.screen.write(text);
        self.screen.take();
    }

    /// Puts a text above the tree, where it stays.
    pub(super) fn note(&mut self, text: &str, run: &RunView) {
        self.lines.push(Line::Text(Row::plain(text)));
        self.redraw(run);
    }

    /// Puts the row of an agent that has completed above the tree.
    pub(super) fn finished(&mut self, agent: &AgentId) {
        self.lines.push(Line::Finished(agent.clone()));
    }

    /// Shows or hides how far a long operation on files is.
    pub(super) fn progress(&mut self, text: Option<String>, run: &RunView) {
        if self.progress != text {
            self.progress = text;
            self.redraw(run);
        }
    }

    /// Rings the bell.
    pub(super) fn notify(&self, sequences: &str) {
        self.screen.write(sequences);
    }

    /// The next thing that happens at the terminal.
    pub(super) async fn next(&mut self) -> TerminalEvent {
        let is_drawn = self.is_drawn();
        let ticks = self.ticks.get_or_insert_with(|| {
            let mut ticks = interval(FRAME);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            ticks
        });
        tokio::select! {
            event = self.screen.next() => event,
            _ = ticks.tick(), if is_drawn => TerminalEvent::FrameDue,
        }
    }

    /// Whether keys are read.
    pub(super) fn has_keys(&self) -> bool {
        self.screen.has_keys()
    }

    /// Handles a key.
    pub(super) fn on_key(&mut self, key: Key, run: &RunView) -> Option<Wish> {
        let wish = self.controls.key(key, &self.shown, run);
        self.redraw(run);
        wish
    }

    /// Asks what Ctrl-C means. `false` if it need not be asked: no user could answer, or it is the second one.
    pub(super) fn interrupt(&mut self, run: &RunView) -> bool {
        let asks = self.screen.has_keys() && self.controls.interrupt();
        if asks {
            self.redraw(run);
        }
        asks
    }

    /// Removes the question about Ctrl-C.
    pub(super) fn end_choice(&mut self) {
        self.controls.end_choice();
    }

    /// Stops the process until its user continues it. The tree is then drawn below what was written meanwhile.
    pub(super) fn suspend(&mut self) {
        self.screen.suspend();
    }

    /// Draws the tree over its last frame.
    pub(super) fn draw(&mut self, run: &RunView) {
        self.frame = self.frame.wrapping_add(1);
        self.redraw(run);
    }

    /// The same, without advancing the animation. A terminal that is stopped, or that another job has, gets no frame.
    fn redraw(&mut self, run: &RunView) {
        if self.is_drawn() && self.screen.is_ready() {
            self.paint(run);
        }
    }

    /// Draws it a last time, larger than the screen if needed, and leaves it there.
    pub(super) fn close(&mut self, run: &RunView) {
        if !self.closed {
            self.paused = false;
            self.closing = true;
            // The screen of another job is not drawn over.
            if is_in_foreground() {
                self.paint(run);
            }
            self.closed = true;
            self.screen.close();
        }
    }

    /// Draws it a last time, with a text below. A terminal that is stopped does not delay the end.
    pub(super) fn stop(&mut self, run: &RunView, text: &str) {
        self.paused = false;
        self.closing = true;
        if is_in_foreground() {
            self.paint(run);
        }
        self.closed = true;
        self.screen.write_below(text);
        self.screen.drain_briefly();
    }

    fn paint(&mut self, run: &RunView) {
        let size = LiveScreen::size();
        let waiting = std::mem::take(&mut self.lines);
        let lines: Vec<Row> = waiting
            .into_iter()
            .filter_map(|line| match line {
                Line::Text(row) => Some(row),
                Line::Finished(agent) => finished(run, &agent, self.drawing(size)),
            })
            .collect();
        let below = self.below(run, size);
        let room = usize::from(size.rows).saturating_sub(1);
        let tree_room =
            if self.closing { FINAL_ROWS_MAX } else { room.saturating_sub(below.len()).max(TREE_ROWS_MIN) };
        let mut drawn = rows(run, tree_room, self.drawing(size));
        drawn.extend(below);
        if !self.closing {
            // A frame that is higher than the screen would scroll.
            drawn.truncate(room.max(1));
        }
        self.shown = drawn.iter().filter_map(|row| row.agent.clone()).collect();
        self.screen.frame(&lines, &drawn);
    }

    fn drawing(&self, size: Size) -> DrawOptions<'_> {
        DrawOptions {
            frame: self.frame,
            now_ms: now_ms(),
            columns: usize::from(size.columns).saturating_sub(1),
            folded: self.controls.folded(),
            selected: self.controls.selected().filter(|_| !self.closing),
        }
    }

    /// The rows below the tree.
    fn below(&self, run: &RunView, size: Size) -> Vec<Row> {
        if self.closing {
            return vec![];
        }
        let mut below = Vec::new();
        if size.rows >= ROWS_FOR_REPLY {
            below.extend(self.reply(run));
        }
        below.extend(self.progress.clone().map(|progress| Row::tinted(Tint::Busy, progress)));
        let columns = usize::from(size.columns).saturating_sub(1);
        // Above a question, keys are its answer.
        below.extend(self.controls.bottom(self.screen.has_keys() && !self.paused, columns));
        below
    }

    /// The reply in progress of the followed agent, else of the root.
    fn reply(&self, run: &RunView) -> Vec<Row> {
        let followed = self.controls.followed().and_then(|id| run.agents().get(id));
        let Some(agent) = followed.or_else(|| run.agents().root()) else { return vec![] };
        let text = if agent.asking { agent.last_lines(REPLY_LINES) } else { vec![] };
        match (followed, text.len()) {
            (Some(agent), 0) => {
                let doing = if agent.activity.is_empty() { "no text yet" } else { &agent.activity };
                vec![Row::tinted(Tint::Dim, format!("  │ {doing}"))]
            }
            // A single line is in the agent's own row.
            (None, 0 | 1) => vec![],
            _ => text.into_iter().map(|line| Row::tinted(Tint::Dim, format!("  │ {line}"))).collect(),
        }
    }
}
