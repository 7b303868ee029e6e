//! `posse cancel`.

use posse::api::{self, CancelState};
use posse::{AgentId, AgentWaitOutcome, Posse, Resume, RunId};
use posse_setup::models;
use posse_setup::settings::Settings;

use crate::context::Context;
use crate::drive::drive_quietly;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::NamedWorkArg;
use crate::output::{Output, note};
use crate::runtime;
use crate::signals::Signals;

/// Cancel a run, or one of its agents with its subtree
///
/// The request is recorded first and takes effect even if the process that executes the run dies. If no process
/// executes the run, this command ends it. A single agent of such a run ends when the run is resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    agent: NamedWorkArg,
    /// The reason
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the user")]
    reason: String,
    /// Return as soon as the request is recorded
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Cancels a run or an agent.
pub(crate) fn cancel(args: &CancelArgs, context: &Context) -> Result<Exit, CliError> {
    let ending = EndRequest { reason: &args.reason, at_once: false, no_wait: args.no_wait, json: args.json };
    end(&args.agent, &ending, context)
}

/// How a run or an agent is ended.
pub(super) struct EndRequest<'a> {
    pub(super) reason: &'a str,
    /// Whether its tool calls are stopped at once.
    pub(super) at_once: bool,
    /// Whether the command returns before the end.
    pub(super) no_wait: bool,
    /// Whether the result is printed for a program.
    pub(super) json: bool,
}

impl EndRequest<'_> {
    /// Prints what became of the request: in words, or as an object.
    fn print(
        &self,
        words: &str,
        agent: &AgentId,
        state: CancelState,
        summary: Option<&str>,
    ) -> Result<Exit, CliError> {
        if self.json {
            Output::new().json(&api::CancelResult::new(agent, state, summary.map(str::to_owned)))?;
        } else {
            note(words);
        }
        Ok(Exit::DONE)
    }
}

/// Ends a run or an agent.
pub(super) fn end(
    named: &NamedWorkArg,
    ending: &EndRequest<'_>,
    context: &Context,
) -> Result<Exit, CliError> {
    let reader = context.open_read_only()?;
    let (agent, is_closed) = runtime::looking(async {
        let agent = named.find(&reader, context).await?;
        let state = reader.current_state(&agent.run()).await?;
        let known = state.agents().get(&agent);
        let is_closed = known.is_some_and(|known| known.state == posse::AgentState::Closed);
        Ok((agent, is_closed && state.status().is_running()))
    })?;
    drop(reader);
    if is_closed {
        let words = format!("agent {agent} has already ended");
        return ending.print(&words, &agent, CancelState::AlreadyEnded, None);
    }
    runtime::driving(async {
        let posse = context.open(models::usual(context)?, &Settings::own(&context.environment)?)?;
        if ending.at_once {
            posse.kill(&agent, ending.reason).await?;
        } else {
            posse.cancel(&agent, ending.reason).await?;
        }
        warn_of_stopped_process(&posse, &agent.run()).await?;
        if ending.no_wait {
            let words = format!("{agent} will be cancelled");
            return ending.print(&words, &agent, CancelState::Requested, None);
        }
        wait_for_end(&posse, &agent, ending).await
    })
}

/// Says why nothing happens if the process that executes the run is stopped, as by Ctrl-Z.
async fn warn_of_stopped_process(posse: &Posse, run: &RunId) -> Result<(), CliError> {
    let state = posse.current_state(run).await?;
    if let Some(pid) = state.holder().and_then(|holder| holder.pid)
        && is_stopped(pid)
    {
        note(&format!(
            "process {pid}, which executes run {run}, is stopped: the request is recorded, and takes effect when the \
             process continues (`kill -CONT {pid}`) or ends (`kill -KILL {pid}`)"
        ));
    }
    Ok(())
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which may itself contain parentheses.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Waits until the agent has ended. If no process executes the run, this one ends it.
async fn wait_for_end(posse: &Posse, agent: &AgentId, ending: &EndRequest<'_>) -> Result<Exit, CliError> {
    let run = agent.run();
    loop {
        match posse.wait_for_agent(agent).await? {
            AgentWaitOutcome::Closed { summary } => {
                let words = format!("agent {agent}: {summary}");
                return ending.print(&words, agent, CancelState::Ended, Some(&summary));
            }
            AgentWaitOutcome::RunEnded { summary } => {
                let words = format!("{run}: {summary}");
                return ending.print(&words, agent, CancelState::Ended, Some(&summary));
            }
            AgentWaitOutcome::Interrupted if !agent.is_root() => {
                let words = format!(
                    "no process is running it: {agent} is cancelled when `posse resume {run}` continues it"
                );
                return ending.print(&words, agent, CancelState::AtResume, None);
            }
            AgentWaitOutcome::Interrupted => {}
        }
        take_over(posse, &run).await?;
    }
}

/// Continues a run that no process is running, to end it, unless another process came first.
async fn take_over(posse: &Posse, run: &RunId) -> Result<(), CliError> {
    let mut signals = Signals::listen()?;
    match posse.resume(run).await? {
        Resume::Going(handle) => drive_quietly(posse, &handle, &mut signals).await,
        Resume::Held(_) | Resume::Ended => Ok(()),
    }
}
