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
mod files_progress;
mod keys;
mod live;
mod notify;
mod paint;
mod plain;
pub(crate) mod rows;
mod screen;
mod stream;
mod tty;
mod width;
mod writer;

use std::path::PathBuf;
use std::pin::Pin;

use posse::{
    Code, Delta, EventBody, FailKind, FilesProgress, FinalStatus, JournalEvent, PendingQuestion, Posse,
    RunId, RunOutcome, RunResult, RunView, api,
};

use crate::context::Context;
use crate::display::{Detail, Display};
use crate::error::CliError;
use crate::foreground::WaitingProcess;
use crate::output::{Output, note};
use crate::questions::write_out;
use crate::term;
use crate::text::{bytes, plural, spent_by_run};
pub(crate) use controls::Wish;
pub(crate) use files_progress::next_report;
use keys::Key;
use live::Live;
use plain::LineView;
pub(crate) use screen::TerminalEvent;
pub(crate) use tty::is_in_foreground;
pub(crate) use width::clip;

/// Limit of agents that the end of a run lists as cut off by their turn limit.
const TURN_LIMITED_SHOWN_MAX: usize = 10;
/// Limit of omitted paths that the end of a run lists.
const LEFT_OUT_SHOWN_MAX: usize = 10;

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
        Self { kind, display, run: RunView::default(), output: Output::new(), reader_gone: false, detacher }
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
            detacher: None,
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
        if let ViewType::Plain(lines) = &mut self.kind {
            lines.deltas(deltas);
        }
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
