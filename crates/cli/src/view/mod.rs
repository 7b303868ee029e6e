//! How a run that is carried here is shown: as a live tree on a terminal, as one line for each change of
//! somebody's state elsewhere, as JSON lines for programs.

mod live;
mod plain;
pub(crate) mod rows;

use std::io::IsTerminal;

use posse::{Delta, EventBody, JournalEvent, RunOutcome, RunResult, api};
use posse_domain::code::Code;
use posse_domain::lifecycle::FailKind;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::questions::write_out;
use crate::term;
use crate::text::{bytes, plural, spent_by_run};
use live::Live;
pub(crate) use live::clip;

/// Most agents that the end of a run lists as cut off by their turn limit.
const TURN_LIMITED_SHOWN_MAX: usize = 10;
/// Most paths that the end of a run lists as left out.
const LEFT_OUT_SHOWN_MAX: usize = 10;

/// How a run is shown.
pub(crate) struct View {
    kind: ViewType,
    output: Output,
    reader_gone: bool,
}

enum ViewType {
    Live(Box<Live>),
    Plain,
    Json,
}

impl View {
    /// The view that fits: JSON if asked for, else by what standard error is.
    pub(crate) fn new(json: bool, context: &Context) -> Self {
        let kind = if json {
            ViewType::Json
        } else if std::io::stderr().is_terminal() && !context.plain {
            ViewType::Live(Box::default())
        } else {
            ViewType::Plain
        };
        Self { kind, output: Output::new(), reader_gone: false }
    }

    /// Lines on standard error, whatever it is.
    pub(crate) fn plain() -> Self {
        Self { kind: ViewType::Plain, output: Output::new(), reader_gone: false }
    }

    /// Whether the view is drawn from all events, those before a resume included.
    pub(crate) fn needs_past(&self) -> bool {
        matches!(self.kind, ViewType::Live(_))
    }

    /// Takes in an event that was told before.
    pub(crate) fn past(&mut self, event: &JournalEvent) {
        if let ViewType::Live(live) = &mut self.kind {
            live.event(event);
        }
    }

    /// Shows an event.
    pub(crate) fn event(&mut self, event: &JournalEvent) -> Result<(), CliError> {
        if let (EventBody::RunStarted(started), false) = (&event.body, matches!(self.kind, ViewType::Json)) {
            // What is not as one might expect of the files: said once, before anybody relies on it.
            for line in started.base.iter().flat_map(|base| &base.notes) {
                self.note(&format!("note: {}", term::line(line)));
            }
        }
        match &mut self.kind {
            ViewType::Json if self.reader_gone => {}
            ViewType::Live(live) => live.event(event),
            ViewType::Plain => plain::event(event),
            ViewType::Json => {
                let written = self.output.json(&api::Event::new(event));
                return self.unless_gone(written);
            }
        }
        Ok(())
    }

    /// Whether it shows what models are saying while they say it.
    pub(crate) fn wants(&self) -> bool {
        matches!(self.kind, ViewType::Live(_))
    }

    /// Shows what models are saying.
    pub(crate) fn on_event(&mut self, deltas: &[Delta]) {
        if let ViewType::Live(live) = &mut self.kind {
            live.on_event(deltas);
        }
    }

    /// Says something beside the events.
    pub(crate) fn note(&mut self, text: &str) {
        match &mut self.kind {
            ViewType::Live(live) if live.is_open() => live.note(text),
            _ => note(text),
        }
    }

    /// Stops drawing and writes a question below; it is written here and holds nothing foreign.
    pub(crate) fn pause(&mut self, text: &str) {
        if let ViewType::Live(live) = &mut self.kind {
            live.pause();
        }
        write_out(text);
    }

    /// Ends a question and draws again, beneath it.
    pub(crate) fn go_on(&mut self, text: &str) {
        write_out(text);
        if let ViewType::Live(live) = &mut self.kind {
            live.go_on();
        }
    }

    /// Waits until the view should be drawn again; for views that are not drawn, for ever.
    pub(crate) async fn due(&mut self) {
        match &mut self.kind {
            ViewType::Live(live) if live.is_drawn() => live.due().await,
            _ => std::future::pending().await,
        }
    }

    /// Draws the view.
    pub(crate) fn draw(&mut self) {
        if let ViewType::Live(live) = &mut self.kind {
            live.draw();
        }
    }

    /// Draws the view a last time and leaves it standing.
    pub(crate) fn close(&mut self) {
        if let ViewType::Live(live) = &mut self.kind {
            live.close();
        }
    }

    /// Tells how the run ended: its report on standard output, the rest on standard error. With whether it was
    /// applied, if it was to be.
    pub(crate) fn result(&mut self, finished: &RunOutcome, applied: Option<bool>) -> Result<(), CliError> {
        let written = if matches!(self.kind, ViewType::Json) {
            self.output.json(&api::Outcome::new(finished, applied, Exit::of_applied(finished, applied).0))
        } else {
            let with_figures = self.shows_figures();
            print(&mut self.output, finished, with_figures)
        };
        self.unless_gone(written)
    }

    /// Whether what a run spent is still to be told: the live tree has told it.
    pub(crate) fn shows_figures(&self) -> bool {
        matches!(self.kind, ViewType::Plain)
    }

    /// A run goes on without a reader: its work is not lost with the pipe, and its exit code still counts.
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

/// Tells how a run ended, to people; with what it spent, unless they have seen that.
pub(crate) fn print(output: &mut Output, finished: &RunOutcome, with_figures: bool) -> Result<(), CliError> {
    print_end(finished, with_figures);
    if !finished.text.is_empty() {
        output.paragraph(&finished.text)?;
    }
    output.flush()
}

/// A reason of several lines, such as what a check printed, beneath its first.
fn indented(reason: &str) -> String {
    reason.trim_end().replace('\n', "\n    ")
}

/// Tells how a run ended, but not what it reported.
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

/// Files of a result that agents obey: the person should read them before the next agent does.
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
    format!("\n  read before you take it over, because agents and tools obey it: {}{more}", named.join(", "))
}

/// Where the work of a run is, what it takes on disk, and what to type next.
pub(crate) fn work(run: &str, result: &RunResult, disk_bytes: Option<u64>) -> String {
    if let (0, Some(problem)) = (result.files, &result.problem) {
        return format!("what it made of the files could not be delivered: {problem}");
    }
    let files = plural(result.files, "file");
    let branch = result.branch.as_ref().map(|branch| format!(" on branch {branch}")).unwrap_or_default();
    let taken = disk_bytes.map(|taken| format!(" ({} on disk)", bytes(taken))).unwrap_or_default();
    let problem = result.problem.as_ref().map(|problem| format!("\n  there is no branch: {problem}"));
    let problem = problem.unwrap_or_default();
    // What no agent may change: the person is told of it before they rely on the result.
    let left_out =
        result.left_out.iter().take(LEFT_OUT_SHOWN_MAX).fold(String::new(), |text, path| {
            format!("{text}\n  left out of the result: {}", term::line(path))
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
