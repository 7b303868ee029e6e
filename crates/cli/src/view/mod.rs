//! Shows a run that this process executes: as a live tree on a terminal, as one line per state change elsewhere, as
//! JSON lines for programs.

mod ending;
mod files_progress;
mod live;
mod plain;
pub(crate) mod rows;

use std::io::IsTerminal;
use std::pin::Pin;

use posse::{
    Delta, EventBody, FilesProgress, JournalEvent, PendingQuestion, Posse, RunOutcome, RunView, api,
};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Output, note};
use crate::questions::write_out;
use crate::term;
pub(crate) use ending::{Work, print, print_end, refused_lines};
use files_progress::ProgressLines;
pub(crate) use files_progress::next_report;
use live::Live;
pub(crate) use live::clip;

/// How a run is shown.
pub(crate) struct View {
    kind: ViewType,
    /// The run as of the last applied event.
    run: RunView,
    output: Output,
    reader_gone: bool,
}

enum ViewType {
    Live(Box<Live>),
    Plain(ProgressLines),
    Json,
}

impl View {
    /// JSON if requested, else by the type of standard error.
    pub(crate) fn new(json: bool, context: &Context) -> Self {
        let kind = if json {
            ViewType::Json
        } else if std::io::stderr().is_terminal() && !context.plain {
            ViewType::Live(Box::default())
        } else {
            ViewType::Plain(ProgressLines::default())
        };
        Self { kind, run: RunView::default(), output: Output::new(), reader_gone: false }
    }

    /// Lines on standard error, whatever its type.
    pub(crate) fn plain() -> Self {
        let kind = ViewType::Plain(ProgressLines::default());
        Self { kind, run: RunView::default(), output: Output::new(), reader_gone: false }
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
        match &mut self.kind {
            ViewType::Json if self.reader_gone => {}
            // The next frame shows it.
            ViewType::Live(_) => {}
            ViewType::Plain(_) => plain::event(event),
            ViewType::Json => {
                let written = self.output.json(&api::Event::new(event));
                return self.unless_gone(written);
            }
        }
        Ok(())
    }

    /// Whether it shows replies in progress.
    pub(crate) fn wants(&self) -> bool {
        matches!(self.kind, ViewType::Live(_))
    }

    /// Shows pieces of replies in progress.
    pub(crate) fn on_event(&mut self, deltas: &[Delta]) {
        for delta in deltas {
            self.run.apply_delta(delta);
        }
        // At once, because they were already collected for a moment.
        if let ViewType::Live(live) = &mut self.kind
            && live.is_drawn()
        {
            live.redraw(&self.run);
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
            }
        }
    }

    /// Shows how far a long operation on files is; `None` if there is none.
    pub(crate) fn progress(&mut self, report: Option<&FilesProgress>) {
        match &mut self.kind {
            ViewType::Live(live) => live.progress(report.map(files_progress::text), &self.run),
            ViewType::Plain(lines) => lines.print(report),
            ViewType::Json => {}
        }
    }

    /// Shows a note beside the events.
    pub(crate) fn note(&mut self, text: &str) {
        match &mut self.kind {
            ViewType::Live(live) if live.is_open() => live.note(text, &self.run),
            _ => note(text),
        }
    }

    /// Stops drawing and writes a question below. The text was created here and contains nothing foreign.
    pub(crate) fn pause(&mut self, text: &str) {
        if let ViewType::Live(live) = &mut self.kind {
            live.pause(&self.run);
        }
        write_out(text);
    }

    /// Ends a question and resumes drawing, beneath it.
    pub(crate) fn resume_drawing(&mut self, text: &str) {
        write_out(text);
        if let ViewType::Live(live) = &mut self.kind {
            live.resume_drawing();
        }
    }

    /// Waits until the view should be drawn again; forever for views that are not drawn.
    pub(crate) async fn due(&mut self) {
        match &mut self.kind {
            ViewType::Live(live) if live.is_drawn() => live.due().await,
            _ => std::future::pending().await,
        }
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

    /// Shows how the run ended: its report on standard output, the rest on standard error. `applied` says whether it
    /// was applied, if that was requested.
    pub(crate) fn result(&mut self, finished: &RunOutcome, applied: Option<bool>) -> Result<(), CliError> {
        let written = if matches!(self.kind, ViewType::Json) {
            self.output.json(&api::Outcome::new(finished, applied))
        } else {
            print(&mut self.output, finished)
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
