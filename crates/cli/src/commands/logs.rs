//! `posse logs`.

use std::collections::VecDeque;

use posse::event::EventBody;
use posse::view::{REFUSED_LISTED_MAX, RefusedOperation};
use posse::{AgentId, EventKind, JournalEvent, Posse, RunId, api, nearest};

use super::wait::interrupted;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::{PartArg, WorkArg};
use crate::output::{Output, note, output_width, reader_gone};
use crate::runtime;
use crate::since::Since;
use crate::term;
use crate::text::clock;
use crate::view::width::hanging;

/// From this width on, an event is printed with its kind.
const KIND_FROM_COLUMNS: usize = 110;
/// The prefix of most kinds, which may be omitted in a filter.
const AGENT_KIND: &str = "agent.";

/// Print the events of a run, or of one of its agents
///
/// Long texts are named by their hash and length; `posse trace` has them in full.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    work: WorkArg,
    /// Follow until the run ends, or until no process executes it any more
    #[arg(long, short)]
    follow: bool,
    /// Only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Only events since then: an age such as `30m` or `2h`, a date, or a time
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only the last N of these events, and with --follow all that come
    #[arg(long, short = 'n', value_name = "N")]
    tail: Option<usize>,
    /// Only events of this kind, such as `tool_finished` or `run.started`; can be repeated
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Vec<EventKind>,
    /// Only events of this agent of the run, such as 2.1
    #[arg(long = "agent", value_name = "AGENT", conflicts_with = "agent")]
    only: Option<PartArg>,
    /// Only operations that were refused, each with the source of the refusal
    #[arg(long, conflicts_with_all = ["follow", "kind"])]
    refused: bool,
    /// Print each event as a JSON line
    #[arg(long)]
    json: bool,
}

fn kind(text: &str) -> Result<EventKind, String> {
    let found = EventKind::parse(text).or_else(|| EventKind::parse(&format!("{AGENT_KIND}{text}")));
    found.ok_or_else(|| {
        let short = EventBody::KINDS.iter().map(|kind| kind.strip_prefix(AGENT_KIND).unwrap_or(kind));
        match nearest(text, short.chain(EventBody::KINDS.iter().copied())) {
            Some(near) => format!("there is no such kind of event; did you mean `{near}`?"),
            None => "there is no such kind of event; docs/reference/events.md lists them".to_owned(),
        }
    })
}

/// Prints the events of a run.
pub(crate) fn logs(args: &LogsArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    runtime::looking(async {
        tokio::select! {
            printed = print(args, &posse, context) => printed,
            // Without this, a closed pipe would only be noticed at the next event.
            () = reader_gone(), if args.follow => Err(CliError::reader_gone()),
        }
    })
}

/// Decides which events are printed, and prints them.
struct Printer<'a> {
    args: &'a LogsArgs,
    only: Option<AgentId>,
    output: Output,
    /// The last events so far, if only those are printed.
    held: VecDeque<JournalEvent>,
    /// How many events are held; `None` to print each at once.
    hold: Option<usize>,
    /// The width of the terminal.
    width: Option<usize>,
}

impl Printer<'_> {
    fn take(&mut self, event: JournalEvent) -> Result<(), CliError> {
        let is_meant = self.only.as_ref().is_none_or(|agent| *agent == event.agent_id)
            && self.args.since.is_none_or(|since| event.at_ms >= since.0)
            && (self.args.kind.is_empty() || self.args.kind.contains(&event.kind))
            && (!self.args.refused || matches!(&event.body, EventBody::ToolFinished(e) if e.is_refused()));
        if !is_meant {
            return Ok(());
        }
        let Some(most) = self.hold else { return self.print(&event) };
        self.held.push_back(event);
        if self.held.len() > most {
            self.held.pop_front();
        }
        Ok(())
    }

    /// Prints what is held. From now on each event is printed at once.
    fn release(&mut self) -> Result<(), CliError> {
        self.hold = None;
        for event in std::mem::take(&mut self.held) {
            self.print(&event)?;
        }
        self.output.flush()
    }

    fn print(&mut self, event: &JournalEvent) -> Result<(), CliError> {
        if self.args.json {
            return self.output.json(&api::Event::new(event));
        }
        let summary = term::line(&event.summary);
        let (seq, time, agent) = (event.seq, clock(event.at_ms), &event.agent_id);
        let start = format!("{seq:>6}  {time}  {agent:12}  ");
        let kind = format!("{:32}  ", event.kind.as_str());
        self.output.own(&match self.width {
            Some(width) if width < KIND_FROM_COLUMNS => hanging(&start, &summary, width),
            Some(width) => hanging(&format!("{start}{kind}"), &summary, width),
            None => format!("{start}{kind}{summary}\n"),
        })
    }
}

async fn print(args: &LogsArgs, posse: &Posse, context: &Context) -> Result<Exit, CliError> {
    let named = args.work.find(posse, context).await?;
    let run = named.run();
    let only = match &args.only {
        Some(_) if !args.work.is_run() => {
            return Err(CliError::usage(format!("`{named}` is already the name of an agent")));
        }
        Some(agent) => Some(agent.find(posse, &run, context).await?),
        None if args.work.is_run() => None,
        None => Some(named),
    };
    if args.refused && !args.json {
        return print_refused(args, posse, &run, only.as_ref()).await;
    }
    let summary = posse.runs(run.as_str(), 1).await?.into_iter().next();
    let (ended, head) = summary.map_or((true, 0), |run| (!run.status.is_running(), run.events));
    // With a number beyond the end, the final event would be skipped and the wait would never end.
    let mut events = posse.events(&run, args.after.min(head));
    let width = output_width();
    let mut printer =
        Printer { args, only, output: Output::new(), held: VecDeque::new(), hold: args.tail, width };
    loop {
        let next = if let Some(event) = events.try_next().await? {
            event
        } else {
            printer.release()?;
            if ended || !args.follow {
                break;
            }
            tokio::select! {
                biased;
                event = events.next() => event?,
                alone = posse.wait_until_interrupted(&run) => {
                    alone?;
                    return Err(interrupted(&run));
                }
            }
        };
        let is_last = next.kind.ends_run();
        printer.take(next)?;
        if is_last {
            break;
        }
    }
    printer.release()?;
    if args.after >= head && args.after > 0 {
        note(&format!("the journal of run {run} ends with event {head}"));
    }
    Ok(Exit::DONE)
}

/// Prints the operations that were refused.
async fn print_refused(
    args: &LogsArgs,
    posse: &Posse,
    run: &RunId,
    only: Option<&AgentId>,
) -> Result<Exit, CliError> {
    let refused = posse.refused(run).await?;
    let is_shown = |one: &&RefusedOperation| {
        one.seq > args.after
            && only.is_none_or(|only| one.agent == *only)
            && args.since.is_none_or(|since| one.at_ms >= since.0)
    };
    let mut output = Output::new();
    let shown: Vec<&RefusedOperation> = refused.iter().filter(is_shown).collect();
    let skipped = args.tail.map_or(0, |last| shown.len().saturating_sub(last));
    for one in shown.into_iter().skip(skipped) {
        let start = format!("{:>6}  {}  {:12}  ", one.seq, clock(one.at_ms), one.agent);
        let (operation, reason) = (term::visible_line(&one.operation), term::line(&one.reason));
        let words = format!("{operation}  {reason} ({})", one.code);
        output.own(&match output_width() {
            Some(width) => hanging(&start, &words, width),
            None => format!("{start}{words}\n"),
        })?;
    }
    output.flush()?;
    match refused.count().saturating_sub(REFUSED_LISTED_MAX as u64) {
        0 => {}
        more => note(&format!("and {more} more; `posse logs {run} --refused --json` prints all of them")),
    }
    Ok(Exit::DONE)
}
