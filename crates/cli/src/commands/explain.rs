//! `posse explain`.

use posse::{Decision, Explanation, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::output::Output;
use crate::runtime;

/// Say why an agent may or may not do something
///
/// Every layer of rules is listed with what it says; the lowest counts: deny, then ask, then allow. What a person
/// allowed is taken into account.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The agent; a run stands for its root
    agent: AgentArg,
    /// What it would do, as tool or tool:specifier, such as `write:src/main.rs`; `network` is what its commands may
    /// reach
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
        output.json(&api::Explanation::new(&explanation, beyond_rules(tool, &explanation)))?;
    } else {
        output.paragraph(&explanation.to_string())?;
        if let Some(note) = beyond_rules(tool, &explanation) {
            output.paragraph(note)?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// What is looked at after the rules have allowed a call, when it runs.
fn beyond_rules(tool: &str, explanation: &Explanation) -> Option<&'static str> {
    let allowed = explanation.verdict.decision == Decision::Allow;
    match tool {
        "webfetch" if allowed => {
            Some("beyond the rules: an address that is not public is refused, unless --allow names its host")
        }
        "network" if !allowed => {
            Some("nobody is asked about the network: a person opens it in advance, with --allow network")
        }
        "bash" if allowed => Some("beyond the rules: what the command does is bounded by the sandbox"),
        _ => None,
    }
}
