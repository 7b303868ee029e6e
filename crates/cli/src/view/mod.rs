//! Shows a run: as a live tree on a terminal, as one line per state change elsewhere, as JSON lines for programs.
//!
//! | file | content |
//! |---|---|
//! | `live` | the live tree: what is drawn, and when |
//! | `rows`, `controls` | its rows, and what the user selected in it |
//! | `screen`, `tty`, `writer` | the terminal: taken and given back, its keys, writing without waiting for it |
//! | `paint`, `width`, `keys` | pure: bytes of a frame, texts by their width, keys from bytes |
//! | `plain`, `stream` | lines without a terminal |
//! | `notify` | the bell and desktop notices |

mod controls;
mod ending;
mod files_progress;
pub(crate) mod keys;
mod live;
mod notify;
pub(crate) mod paint;
mod plain;
pub(crate) mod rows;
mod screen;
mod stream;
pub(crate) mod tty;
pub(crate) mod width;
pub(crate) mod writer;

use std::collections::HashSet;
use std::path::PathBuf;
use std::pin::Pin;

use posse::{
    Delta, EventBody, FilesProgress, FinalStatus, JournalEvent, PendingQuestion, Posse, RunId, RunOutcome,
    RunView, api,
};

use crate::context::Context;
use crate::display::{Detail, Display};
use crate::error::CliError;
use crate::foreground::WaitingProcess;
use crate::output::{Output, note};
use crate::questions::write_out;
use crate::term;
pub(crate) use controls::Wish;
pub(crate) use ending::{Work, print, print_end, refused_lines};
pub(crate) use files_progress::next_report;
pub(crate) use keys::Key;
use live::Live;
pub(crate) use notify::write as notify;
use plain::LineView;
pub(crate) use screen::{TerminalEvent, screen_size};
pub(crate) use tty::is_in_foreground;
pub(crate) use width::clip;

/// Limit of pieces of replies that wait for the event of their call.
const EARLY_DELTAS_MAX: usize = 1_000;
/// How many notes about workspaces of one run are shown.
const WORKSPACE_NOTES_MAX: usize = 20;

/// How a run is shown.
pub(crate) struct View {
    kind: ViewType,
    display: Display,
    /// The run as of the last applied event.
    run: RunView,
    output: Output,
    reader_gone: bool,
    /// How this process leaves its terminal, if it can.
    detacher: Option<Detacher>,
    /// Pieces of replies that arrived before the event of their call.
    early: Vec<Delta>,
    /// The notes about workspaces that were shown.
    workspace_notes: HashSet<String>,
}

struct Detacher {
    waiting: WaitingProcess,
    state_dir: PathBuf,
}

enum ViewType {
    Live(Box<Live>),
    Plain(LineView),
    Json,
}

impl View {
    /// JSON if requested, else by the type of standard error.
    pub(crate) fn new(json: bool, context: &Context) -> Self {
        let display = context.display;
        let live = || Live::new(display.is_coloured).ok().map(|live| ViewType::Live(Box::new(live)));
        let kind = if json {
            ViewType::Json
        } else {
            let live = if display.is_live { live() } else { None };
            live.unwrap_or_else(|| ViewType::Plain(LineView::new(display)))
        };
        let state_dir = context.state_dir().ok();
        let detacher = context
            .waiting
            .zip(state_dir)
            .map(|(waiting, dir)| Detacher { waiting, state_dir: dir.to_owned() });
        let (run, output) = (RunView::default(), Output::new());
        let (early, workspace_notes) = (Vec::new(), HashSet::new());
        Self { kind, display, run, output, reader_gone: false, detacher, early, workspace_notes }
    }

    /// Lines for a log file.
    pub(crate) fn plain() -> Self {
        let display = Display::of_log();
        Self {
            kind: ViewType::Plain(LineView::new(display)),
            display,
            run: RunView::default(),
            output: Output::new(),
            reader_gone: false,
            early: Vec::new(),
            detacher: None,
            workspace_notes: HashSet::new(),
        }
    }

    /// The same view of a run that cannot be detached, because its command needs its result.
    pub(crate) fn without_detach(mut self) -> Self {
        self.detacher = None;
        self
    }

    /// Whether the view needs all events, including those before a resume.
    pub(crate) fn needs_past(&self) -> bool {
        matches!(self.kind, ViewType::Live(_))
    }

    /// Starts with a loaded run, for a view that does not need earlier events.
    pub(crate) fn start_from(&mut self, run: RunView) {
        self.run = run;
    }

    /// The run that is shown.
    pub(crate) fn run(&self) -> &RunView {
        &self.run
    }

    /// Records that an answer to this question was posted.
    pub(crate) fn mark_answered(&mut self, request: &PendingQuestion) {
        self.run.mark_answered(request);
    }

    /// Applies an event without showing it.
    pub(crate) fn past(&mut self, event: &JournalEvent) {
        self.run.apply(event);
    }

    /// Applies an event and shows it.
    pub(crate) fn event(&mut self, event: &JournalEvent) -> Result<(), CliError> {
        self.run.apply(event);
        if let (EventBody::RunStarted(started), false) = (&event.body, matches!(self.kind, ViewType::Json)) {
            // Notes about the files are shown once, before the user relies on them.
            for line in started.base.iter().flat_map(|base| &base.notes) {
                self.note(&format!("note: {}", term::line(line)));
            }
        }
        if let (EventBody::WorkspaceMade(made), false) = (&event.body, matches!(self.kind, ViewType::Json)) {
            for line in &made.notes {
                // Many workspaces may have the same note.
                if self.workspace_notes.len() < WORKSPACE_NOTES_MAX
                    && self.workspace_notes.insert(line.clone())
                {
                    self.note(&format!("note: workspace of {}: {}", event.agent_id, term::line(line)));
                }
            }
        }
        if let EventBody::InputRequested(_) = &event.body {
            self.notify(&format!("run {} needs your approval", event.agent_id.run()));
        }
        match &mut self.kind {
            ViewType::Json if self.reader_gone => {}
            // The next frame shows it.
            ViewType::Live(live) => {
                if let EventBody::SubagentClosed(closed) = &event.body
                    && closed.final_status == FinalStatus::Completed
                {
                    live.finished(&event.agent_id);
                }
            }
            ViewType::Plain(lines) => lines.event(event),
            ViewType::Json => {
                let written = self.output.json(&api::Event::new(event));
                return self.unless_gone(written);
            }
        }
        self.print_early();
        Ok(())
    }

    /// Whether it shows replies in progress.
    pub(crate) fn wants(&self) -> bool {
        match self.kind {
            ViewType::Live(_) => true,
            ViewType::Plain(_) => self.display.detail > Detail::Quiet,
            ViewType::Json => false,
        }
    }

    /// Shows pieces of replies in progress; a tree with its next frame.
    pub(crate) fn deltas(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            self.run.apply_delta(delta);
        }
        self.early.extend_from_slice(deltas);
        self.print_early();
    }

    /// Prints the pieces of replies whose agents are known to have asked: a piece can arrive before the event of its call.
    fn print_early(&mut self) {
        let ViewType::Plain(lines) = &mut self.kind else { return self.early.clear() };
        let agents = self.run.agents();
        let is_expected = |delta: &mut Delta| agents.get(&delta.agent_id).is_some_and(|agent| agent.turn > 0);
        let expected: Vec<Delta> = self.early.extract_if(.., is_expected).collect();
        lines.deltas(&expected);
        // Pieces of a run that is not shown would wait forever.
        let excess = self.early.len().saturating_sub(EARLY_DELTAS_MAX);
        self.early.drain(..excess);
    }

    /// Tells a user who may look elsewhere, if they asked for that.
    fn notify(&mut self, text: &str) {
        if !self.display.notifies {
            return;
        }
        match &self.kind {
            ViewType::Live(live) if live.is_open() => live.notify(&notify::sequences(text)),
            _ => notify::write(text),
        }
    }

    /// Starts a run, and shows meanwhile how far its files are read.
    pub(crate) async fn while_starting<T>(
        &mut self,
        posse: &Posse,
        mut starting: Pin<Box<impl Future<Output = T>>>,
    ) -> T {
        let mut reports = posse.files_progress();
        loop {
            tokio::select! {
                started = &mut starting => {
                    self.progress(None);
                    return started;
                }
                report = next_report(&mut reports) => self.progress(report.as_ref()),
                event = self.next() => if event == TerminalEvent::Suspended {
                    self.suspend();
                },
            }
        }
    }

    /// Shows how far a long operation on files is; `None` if there is none.
    pub(crate) fn progress(&mut self, report: Option<&FilesProgress>) {
        match &mut self.kind {
            ViewType::Live(live) => live.progress(report.map(files_progress::text), &self.run),
            ViewType::Plain(lines) => lines.progress(report),
            ViewType::Json => {}
        }
    }

    /// Shows a note beside the events.
    pub(crate) fn note(&mut self, text: &str) {
        match &mut self.kind {
            ViewType::Live(live) if live.is_open() => {
                live.note(&term::clean(text).replace('\t', "    "), &self.run);
            }
            _ => note(text),
        }
    }

    /// Stops drawing and writes a question below. The text was created here and contains nothing foreign.
    pub(crate) fn pause(&mut self, text: &str) {
        match &mut self.kind {
            ViewType::Live(live) => live.pause(&self.run, text),
            _ => write_out(text),
        }
    }

    /// Ends a question and resumes drawing, beneath it.
    pub(crate) fn resume_drawing(&mut self, text: &str) {
        match &mut self.kind {
            ViewType::Live(live) => live.resume_drawing(text),
            _ => write_out(text),
        }
    }

    /// The next thing that happens at the terminal; forever for views without one.
    pub(crate) async fn next(&mut self) -> TerminalEvent {
        match &mut self.kind {
            ViewType::Live(live) if live.is_open() => live.next().await,
            _ => std::future::pending().await,
        }
    }

    /// Whether keys of the user are read.
    pub(crate) fn has_keys(&self) -> bool {
        matches!(&self.kind, ViewType::Live(live) if live.has_keys())
    }

    /// Handles a key.
    pub(crate) fn on_key(&mut self, key: Key) -> Option<Wish> {
        match &mut self.kind {
            ViewType::Live(live) => live.on_key(key, &self.run),
            _ => None,
        }
    }

    /// Asks what Ctrl-C means. `false` if it is to be obeyed: without a terminal, or for the second time.
    pub(crate) fn interrupt(&mut self) -> bool {
        match &mut self.kind {
            ViewType::Live(live) => live.interrupt(&self.run),
            _ => false,
        }
    }

    /// Removes the question about Ctrl-C.
    pub(crate) fn end_choice(&mut self) {
        if let ViewType::Live(live) = &mut self.kind {
            live.end_choice();
        }
    }

    /// Stops the process, as Ctrl-Z does.
    pub(crate) fn suspend(&mut self) {
        if let ViewType::Live(live) = &mut self.kind {
            live.suspend();
        }
    }

    /// Leaves the terminal to the shell, and shows the run in its log from now on; or says why this process cannot.
    pub(crate) fn detach(&mut self, run: &RunId) -> Result<(), String> {
        let Some(detacher) = &self.detacher else {
            return Err("this run cannot be detached: its command needs the result".to_owned());
        };
        let log = posse_setup::detach::open_log(&detacher.state_dir, run.as_str())
            .map_err(|error| CliError::from(error).text())?;
        let waiting = detacher.waiting;
        self.detacher = None;
        self.close();
        note(&format!("run {run} continues in the background; `posse attach {run}` shows it again"));
        self.display = Display::of_log();
        self.kind = ViewType::Plain(LineView::new(self.display));
        waiting.detach(&log).map_err(|error| format!("the terminal cannot be left: {error}"))
    }

    /// Draws the view.
    pub(crate) fn draw(&mut self) {
        if let ViewType::Live(live) = &mut self.kind {
            live.draw(&self.run);
        }
    }

    /// Draws the view a last time and leaves it there.
    pub(crate) fn close(&mut self) {
        if let ViewType::Live(live) = &mut self.kind {
            live.close(&self.run);
        }
    }

    /// Ends the view of a run that has not ended, with a line below.
    pub(crate) fn stop(&mut self, text: &str) {
        match &mut self.kind {
            ViewType::Live(live) if live.is_open() => live.stop(&self.run, &format!("{text}\n")),
            _ => note(text),
        }
    }

    /// Shows how the run ended: its report on standard output, the rest on standard error. `applied` says whether it
    /// was applied, if that was requested.
    pub(crate) fn result(&mut self, finished: &RunOutcome, applied: Option<bool>) -> Result<(), CliError> {
        self.notify(&format!("run {} {}", finished.run, finished.status));
        let written = if matches!(self.kind, ViewType::Json) {
            self.output.json(&api::Outcome::new(finished, applied))
        } else {
            print(&mut self.output, finished, self.display.detail)
        };
        self.unless_gone(written)
    }

    /// A run continues without a reader: its work is not lost with the pipe, and its exit code still counts.
    fn unless_gone(&mut self, written: Result<(), CliError>) -> Result<(), CliError> {
        match written {
            Err(error) if error.is_reader_gone() => {
                self.reader_gone = true;
                Ok(())
            }
            other => other,
        }
    }
}
