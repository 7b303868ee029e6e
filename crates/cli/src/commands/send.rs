//! `posse send`.

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::output::note;
use crate::runtime;

/// Send a message to an agent at work; it reads it before its next turn
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The agent; a run stands for its root
    agent: AgentArg,
    /// The message; `-` reads it from standard input
    #[arg(required = true)]
    message: Vec<String>,
}

/// Sends a message.
pub(crate) fn send(args: &SendArgs, context: &Context) -> Result<Exit, CliError> {
    let message = super::run::typed("message", &args.message)?;
    let looking = context.open_read_only()?;
    let (agent, info) = runtime::looking(async {
        let agent = args.agent.find_known(&looking).await?;
        let info = looking.get(&agent.run()).await?;
        Ok((agent, info))
    })?;
    drop(looking);
    if info.agents.iter().any(|known| known.id == agent && known.state == "closed") {
        return Err(CliError::failed(format!("agent {agent} has ended and reads no more messages")));
    }
    let posse = context.open_to_post()?;
    runtime::looking(async { Ok(posse.send(&agent, &message).await?) })?;
    if info.holder.is_none() {
        note(&format!(
            "kept for {agent}: no process is running its run; `posse resume {}` delivers it",
            info.run
        ));
    } else {
        note(&format!("sent to {agent}"));
    }
    Ok(Exit::DONE)
}
