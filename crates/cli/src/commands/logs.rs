//! `posse logs`.

use posse::view::{REFUSED_LISTED_MAX, RefusedOperation};
use posse::{AgentId, EventBody, JournalEvent, Posse, RunId, api};

use super::wait::interrupted;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::{AgentArg, PartArg, check_known};
use crate::output::{Output, note, reader_gone};
use crate::runtime;
use crate::term;
use crate::text::clock;

/// Print the events of a run
///
/// Long texts are named by their hash and length; `posse trace` has them in full.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// The run, or an agent of it: only its events
    run: AgentArg,
    /// Follow until the run ends, or until no process executes it any more
    #[arg(long, short)]
    follow: bool,
    /// Only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Only events of this agent of the run, such as 2.1
    #[arg(long, value_name = "AGENT")]
    agent: Option<PartArg>,
    /// Only operations that were refused, each with the source of the refusal
    #[arg(long, conflicts_with = "follow")]
    refused: bool,
    /// Print each event as a JSON line
    #[arg(long)]
    json: bool,
}

/// Prints the events of a run.
pub(crate) fn logs(args: &LogsArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    runtime::looking(async {
        tokio::select! {
            printed = print(args, &posse) => printed,
            // Without this, a closed pipe would only be noticed at the next event.
            () = reader_gone(), if args.follow => Err(CliError::reader_gone()),
        }
    })
}

async fn print(args: &LogsArgs, posse: &Posse) -> Result<Exit, CliError> {
    let named = args.run.find(posse).await?;
    let run = named.run();
    let only = match &args.agent {
        Some(_) if !args.run.is_run() => {
            return Err(CliError::usage(format!("`{}` is already the name of an agent", args.run)));
        }
        Some(agent) => Some(agent.find(posse, &run).await?),
        None if args.run.is_run() => None,
        None => {
            check_known(posse, &named).await?;
            Some(named)
        }
    };
    if args.refused && !args.json {
        return print_refused(args, posse, &run, only.as_ref()).await;
    }
    let summary = posse.runs(run.as_str(), 1).await?.into_iter().next();
    let (ended, head) = summary.map_or((true, 0), |run| (!run.status.is_running(), run.events));
    // With a number beyond the end, the final event would be skipped and the wait would never end.
    let mut events = posse.events(&run, args.after.min(head));
    let mut output = Output::new();
    loop {
        let next = if let Some(event) = events.try_next().await? {
            event
        } else {
            output.flush()?;
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
        let is_shown = !args.refused || matches!(&next.body, EventBody::ToolFinished(e) if e.is_refused());
        if is_shown {
            print_event(&mut output, &next, only.as_ref(), args.json)?;
        }
        if next.kind.ends_run() {
            break;
        }
    }
    output.flush()?;
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
    let is_shown =
        |one: &&RefusedOperation| one.seq > args.after && only.is_none_or(|only| one.agent == *only);
    let mut output = Output::new();
    for one in refused.iter().filter(is_shown) {
        output.own(&format!(
            "{:>6}  {}  {:12}  {}  {} ({})\n",
            one.seq,
            clock(one.at_ms),
            one.agent,
            term::visible_line(&one.operation),
            one.code,
            term::line(&one.reason),
        ))?;
    }
    output.flush()?;
    match refused.count().saturating_sub(REFUSED_LISTED_MAX as u64) {
        0 => {}
        more => note(&format!("and {more} more; `posse logs {run} --refused --json` prints all of them")),
    }
    Ok(Exit::DONE)
}

fn print_event(
    output: &mut Output,
    event: &JournalEvent,
    only: Option<&AgentId>,
    json: bool,
) -> Result<(), CliError> {
    if only.is_some_and(|agent| *agent != event.agent_id) {
        return Ok(());
    }
    if json {
        return output.json(&api::Event::new(event));
    }
    let kind = event.kind.as_str();
    let kind = kind.strip_prefix("agent.").unwrap_or(kind);
    let summary = term::line(&event.summary);
    output.own(&format!(
        "{:>6}  {}  {:12}  {kind:26}  {summary}\n",
        event.seq,
        clock(event.at_ms),
        event.agent_id
    ))
}
