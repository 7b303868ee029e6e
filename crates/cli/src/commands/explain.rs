//! `posse explain`.

use posse::{Decision, DecisionReason, Explanation, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::output::Output;
use crate::runtime;

/// Explain why an agent may or may not execute an operation
///
/// Every layer of rules is listed with its decision; the strictest counts: deny, then ask, then allow. Approvals are
/// taken into account.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The agent; a run means its root
    agent: AgentArg,
    /// The operation, as tool or tool:specifier, such as `write:src/main.rs`; `network` is what its commands may reach
    operation: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Explains a decision.
pub(crate) fn explain(args: &ExplainArgs, context: &Context) -> Result<Exit, CliError> {
    let tool = args.operation.split(':').next().unwrap_or_default();
    if tool.trim().is_empty() {
        return Err(
            CliError::usage("the operation names no tool").hint("write it as `tool` or `tool:specifier`")
        );
    }
    let posse = context.open_read_only()?;
    let explanation = runtime::looking(async {
        let agent = args.agent.find_known(&posse).await?;
        Ok(posse.explain(&agent, &args.operation).await?)
    })?;
    let mut output = Output::new();
    if args.json {
        let note = beyond_rules(tool, &explanation);
        output.json(&api::Explanation::new(&explanation, note.as_deref()))?;
    } else {
        output.paragraph(&explanation.to_string())?;
        if let Some(note) = beyond_rules(tool, &explanation) {
            output.paragraph(&note)?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// A note beyond the rules: further checks of an allowed call, and the flag that opens a protected name.
fn beyond_rules(tool: &str, explanation: &Explanation) -> Option<String> {
    if let DecisionReason::Protected { opening: Some(opening), .. } = &explanation.verdict.because {
        return Some(format!("a run may write there with --allow '{opening}'"));
    }
    let allowed = explanation.verdict.decision == Decision::Allow;
    let note = match tool {
        "webfetch" if allowed => {
            Some("beyond the rules: an address that is not public is refused, unless --allow names its host")
        }
        "network" if !allowed => {
            Some("the network is never a question: it is opened in advance, with --allow network")
        }
        "bash" if allowed => Some("beyond the rules: what the command does is bounded by the sandbox"),
        _ => None,
    };
    note.map(str::to_owned)
}
