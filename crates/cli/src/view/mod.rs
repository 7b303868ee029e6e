//! Shows a run that this process executes: as a live tree on a terminal, as one line per state change elsewhere, as
//! JSON lines for programs.

mod files_progress;
mod live;
mod plain;
pub(crate) mod rows;

use std::io::IsTerminal;
use std::pin::Pin;

use posse::{
    Code, Delta, EventBody, FailKind, FilesProgress, JournalEvent, PendingQuestion, Posse, RunOutcome,
    RunResult, RunView, api,
};

use crate::context::Context;
use crate::error::CliError;
use crate::output::{Output, note};
use crate::questions::write_out;
use crate::term;
use crate::text::{bytes, plural, spent_by_run};
use files_progress::ProgressLines;
pub(crate) use files_progress::next_report;
use live::Live;
pub(crate) use live::clip;

/// Limit of agents that the end of a run lists as cut off by their turn limit.
const TURN_LIMITED_SHOWN_MAX: usize = 10;
/// Limit of omitted paths that the end of a run lists.
const LEFT_OUT_SHOWN_MAX: usize = 10;

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
            let with_figures = self.shows_figures();
            print(&mut self.output, finished, with_figures)
        };
        self.unless_gone(written)
    }

    /// Whether the end shows what the run spent: the live tree has shown it already.
    pub(crate) fn shows_figures(&self) -> bool {
        matches!(self.kind, ViewType::Plain(_))
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

/// Prints how a run ended, with what it spent if `with_figures` is set.
pub(crate) fn print(output: &mut Output, finished: &RunOutcome, with_figures: bool) -> Result<(), CliError> {
    print_end(finished, with_figures);
    if !finished.text.is_empty() {
        output.paragraph(&finished.text)?;
    }
    output.flush()
}

/// A reason of several lines, such as a check's output, indented beneath its first line.
fn indented(reason: &str) -> String {
    reason.trim_end().replace('\n', "\n    ")
}

/// Prints how a run ended, without its report.
pub(crate) fn print_end(finished: &RunOutcome, with_figures: bool) {
    let figures = if with_figures {
        let (agents, turns) = (plural(finished.agents, "agent"), plural(finished.turns, "turn"));
        format!(": {agents}, {turns}, {}", spent_by_run(&finished.usage, finished.is_replay))
    } else {
        String::new()
    };
    let limit = if finished.turns_exhausted { " at its turn limit" } else { "" };
    note(&format!("run {} {}{limit}{figures}", finished.run, finished.status));
    for child in &finished.failed {
        let ended = match child.code {
            Code::Cancelled => "cancelled".to_owned(),
            code => format!("failed ({code})"),
        };
        note(&format!("  {} {ended}: {}", child.id, indented(&child.reason)));
    }
    for child in finished.turn_limited.iter().take(TURN_LIMITED_SHOWN_MAX) {
        let required = if child.required { ", and the run needs it" } else { "" };
        note(&format!("  {} completed at its turn limit{required}", child.id));
    }
    match finished.turn_limited.len().saturating_sub(TURN_LIMITED_SHOWN_MAX) {
        0 => {}
        more => note(&format!("  and {} more", plural(more as u64, "agent"))),
    }
    if finished.is_turn_limited() {
        note("  the work may be unfinished: --max-turns gives more turns");
    }
    if let Some(reason) = finished.why() {
        note(&format!("  {}", indented(&reason)));
        if finished.fail_kind == Some(FailKind::Budget) {
            note(
                "  a new run with a higher limit has more room: --max-tokens, --max-usd, --max-time, --max-agents",
            );
        }
    }
    if let Some(result) = &finished.result {
        note(&work(finished.run.as_str(), result, finished.disk_bytes));
    }
}

/// Names instruction files in a result: the user should read them before the next agent does.
fn instructions(paths: &[String]) -> String {
    if paths.is_empty() {
        return String::new();
    }
    let named: Vec<String> =
        paths.iter().take(LEFT_OUT_SHOWN_MAX).map(|path| term::visible_line(path)).collect();
    let more = match paths.len().saturating_sub(LEFT_OUT_SHOWN_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "\n  read before you apply the result, because agents and tools obey it: {}{more}",
        named.join(", ")
    )
}

/// Where the work of a run is, its disk usage, and what to type next.
pub(crate) fn work(run: &str, result: &RunResult, disk_bytes: Option<u64>) -> String {
    if let (0, Some(problem)) = (result.files, &result.problem) {
        return format!("its changes could not be published: {problem}");
    }
    let files = plural(result.files, "file");
    let branch = result.branch.as_ref().map(|branch| format!(" on branch {branch}")).unwrap_or_default();
    let taken = disk_bytes.map(|taken| format!(" ({} on disk)", bytes(taken))).unwrap_or_default();
    let problem = result.problem.as_ref().map(|problem| format!("\n  there is no branch: {problem}"));
    let problem = problem.unwrap_or_default();
    // Files that no agent may change: the user has to know before relying on the result.
    let left_out =
        result.left_out.iter().take(LEFT_OUT_SHOWN_MAX).fold(String::new(), |text, path| {
            format!("{text}\n  omitted from the result: {}", term::line(path))
        });
    let more = match result.left_out.len().saturating_sub(LEFT_OUT_SHOWN_MAX) {
        0 => String::new(),
        more => format!("\n  and {more} more; posse salvage {run} has all of it"),
    };
    let instructions = instructions(&result.instructions);
    format!(
        "{files} changed{branch}{taken}; posse diff {run}, posse apply {run}{problem}{left_out}{more}{instructions}"
    )
}
