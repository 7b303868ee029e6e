//! `posse wait`.

use std::time::Duration;

use jiff::tz::TimeZone;
use posse::api::{self, RunExit};
use posse::{AgentId, AgentWaitOutcome, Posse, RunId, WaitOutcome};
use posse_setup::limit::{TimeLimit, typed};

use crate::context::Context;
use crate::display::Display;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::text::now_ms;
use crate::view;

/// Wait until a run, or one of its agents, ends; exits with its exit code
///
/// The exit code is 124 if the time of `--timeout` has passed: the run continues.
#[derive(Debug, clap::Args)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    work: WorkArg,
    /// Wait no longer than this, such as `90s`, `30m` or `2h`
    #[arg(long, value_name = "TIME")]
    timeout: Option<TimeLimit>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Waits for a run or an agent.
pub(crate) fn wait(args: &WaitArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    runtime::looking(async {
        let agent = args.work.find(&posse, context).await?;
        let waiting = async {
            if agent.is_root() {
                wait_for_run(&posse, &agent.run(), args.json, context.display).await
            } else {
                wait_for_agent(&posse, &agent, args.json, context.display).await
            }
        };
        match args.timeout.and_then(|limit| limit.0) {
            None => waiting.await,
            Some(limit) => {
                let waited = tokio::time::timeout(limit, waiting).await;
                waited.unwrap_or_else(|_| Ok(timed_out(&agent, limit)))
            }
        }
    })
}

fn timed_out(agent: &AgentId, limit: Duration) -> Exit {
    note(&format!("{agent} has not ended after {}; it continues", typed(limit)));
    Exit::TIMED_OUT
}

async fn wait_for_run(posse: &Posse, run: &RunId, json: bool, display: Display) -> Result<Exit, CliError> {
    let finished = match posse.wait_while_executed(run).await? {
        WaitOutcome::Ended(finished) => finished,
        WaitOutcome::Interrupted => return Err(interrupted(run)),
    };
    let mut output = Output::new();
    if json {
        output.json(&api::Outcome::new(&finished, None))?;
    } else {
        view::print(&mut output, &finished, display.detail)?;
    }
    if display.notifies {
        view::notify(&format!("run {run} {}", finished.status));
    }
    Ok(Exit::of(&finished))
}

async fn wait_for_agent(
    posse: &Posse,
    agent: &AgentId,
    json: bool,
    display: Display,
) -> Result<Exit, CliError> {
    let summary = match posse.wait_for_agent(agent).await? {
        AgentWaitOutcome::Closed { summary } | AgentWaitOutcome::RunEnded { summary } => summary,
        AgentWaitOutcome::Interrupted => return Err(interrupted(&agent.run())),
    };
    let state = posse.current_state(&agent.run()).await?;
    let report = posse.report(agent).await?;
    let mut output = Output::new();
    if json {
        let outcome = api::AgentOutcome::new(&state, agent, report, now_ms(), &TimeZone::system());
        let outcome = outcome.ok_or_else(|| posse::Error::NoAgent(agent.clone()))?;
        output.json(&outcome)?;
    } else {
        note(&format!("agent {agent}: {summary}"));
        if let Some(report) = report {
            output.paragraph(&report)?;
            output.flush()?;
        }
    }
    if display.notifies {
        view::notify(&format!("agent {agent} has ended"));
    }
    let exit = state.agents().get(agent).map_or(RunExit::Failed, RunExit::of_agent);
    Ok(Exit(exit.code()))
}

/// The error for a run that has not ended and that no process executes.
pub(crate) fn interrupted(run: &RunId) -> CliError {
    CliError::interrupted(format!("run {run} was interrupted and no process is running it"))
        .hint(format!("`posse resume {run}` continues it"))
}
