//! `posse send`.

use posse::api;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::output::{Output, note};
use crate::runtime;

/// Send a message to a running agent, which reads it before its next turn
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The agent, such as RUN.2.1; a run means its root, and `@` is the newest run of this project
    agent: AgentArg,
    /// The message; `-` reads it from standard input
    #[arg(required = true)]
    message: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Sends a message.
pub(crate) fn send(args: &SendArgs, context: &Context) -> Result<Exit, CliError> {
    let message = super::run::typed("message", &args.message)?;
    let reader = context.open_read_only()?;
    let (agent, state) = runtime::looking(async {
        let agent = args.agent.find_known(&reader, context).await?;
        let state = reader.current_state(&agent.run()).await?;
        Ok((agent, state))
    })?;
    drop(reader);
    let known = state.agents().get(&agent);
    if known.is_some_and(|known| known.state == posse::AgentState::Closed) {
        return Err(CliError::failed(format!("agent {agent} has finished; it cannot receive messages")));
    }
    let posse = context.open_for_commands()?;
    runtime::looking(async { Ok(posse.send(&agent, &message).await?) })?;
    if args.json {
        Output::new().json(&api::SentMessage::new(&agent, state.holder().is_some()))?;
    } else if state.holder().is_none() {
        note(&format!(
            "saved for {agent}: its run was interrupted; `posse resume {}` delivers it",
            agent.run()
        ));
    } else {
        note(&format!("sent to {agent}"));
    }
    Ok(Exit::DONE)
}
