//! `posse cancel`.

use posse::{AgentId, Posse, Resume, RunId};

use super::wait::abandoned;
use crate::context::Context;
use crate::drive::{drive_quietly, is_end};
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::models;
use crate::output::note;
use crate::runtime;
use crate::settings::Settings;
use crate::signals::Signals;

/// Cancel a run, or one of its agents with all below it
///
/// The wish is durable before anything else happens, and is honoured even if the process that executes the run
/// dies. If no process is running the run, this command goes on with it just to end it. A single agent of such a run is
/// ended when the run is resumed.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    agent: WorkArg,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the user")]
    reason: String,
    /// Return as soon as the wish is durable
    #[arg(long)]
    no_wait: bool,
}

/// Cancels a run or an agent.
pub(crate) fn cancel(args: &CancelArgs, context: &Context) -> Result<Exit, CliError> {
    let looking = context.open_read_only()?;
    let (agent, is_closed) = runtime::looking(async {
        let agent = args.agent.find(&looking).await?;
        let info = looking.get(&agent.run()).await?;
        let is_closed = info.agents.iter().any(|known| known.id == agent && known.state == "closed");
        Ok((agent, is_closed && info.status == "running"))
    })?;
    drop(looking);
    if is_closed {
        note(&format!("agent {agent} had ended already"));
        return Ok(Exit::DONE);
    }
    runtime::driving(async {
        let posse = context.open(models::usual(context)?, &Settings::own(&context.environment)?)?;
        posse.cancel(&agent, &args.reason).await?;
        if args.no_wait {
            note(&format!("{agent} will be cancelled"));
            return Ok(Exit::DONE);
        }
        let run = agent.run();
        loop {
            tokio::select! {
                biased;
                closed = closed(&posse, &agent) => {
                    note(&closed?);
                    return Ok(Exit::DONE);
                }
                alone = abandoned(&posse, &run) => alone?,
            }
            if !agent.is_root() {
                note(&format!(
                    "no process is running it: {agent} is cancelled once `posse resume {run}` goes on"
                ));
                return Ok(Exit::DONE);
            }
            if take_over(&posse, &run).await? {
                note(&format!("run {run} was cancelled"));
                return Ok(Exit::DONE);
            }
        }
    })
}

/// Waits until the agent has ended, and says so.
async fn closed(posse: &Posse, agent: &AgentId) -> Result<String, CliError> {
    let run = agent.run();
    let mut events = posse.events(&run, 0);
    loop {
        let event = events.next().await?;
        if event.agent_id == *agent && event.kind == "agent.subagent_closed" {
            return Ok(format!("agent {agent}: {}", event.summary));
        }
        if is_end(event.kind) {
            return Ok(format!("{run}: {}", event.summary));
        }
    }
}

/// Goes on with a run that no process is running, to end it. False if another process came first.
async fn take_over(posse: &Posse, run: &RunId) -> Result<bool, CliError> {
    let mut signals = Signals::listen()?;
    match posse.resume(run).await? {
        Resume::Going(handle) => drive_quietly(posse, &handle, &mut signals).await.map(|()| true),
        Resume::Held(_) => Ok(false),
        Resume::Ended => Ok(true),
    }
}
