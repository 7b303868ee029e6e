//! Asks the user at the terminal for a message to an agent.

use posse::AgentId;

use crate::error::CliError;
use crate::questions::PendingLine;
use crate::view::View;

/// A message that the user is typing.
pub(crate) struct MessagePrompt {
    /// The agent that gets it.
    pub(crate) agent: AgentId,
    reading: PendingLine,
}

impl MessagePrompt {
    /// Shows the prompt below the tree.
    pub(crate) fn begin(agent: AgentId, view: &mut View) -> Result<Self, CliError> {
        view.pause(&format!("message to {agent} (Enter sends it, an empty line does not): "));
        match PendingLine::begin() {
            Ok(reading) => Ok(Self { agent, reading }),
            Err(error) => {
                view.resume_drawing("\n");
                Err(error)
            }
        }
    }

    /// The typed line; `None` at the end of the input.
    pub(crate) async fn line(&mut self) -> Option<String> {
        self.reading.line().await
    }
}
