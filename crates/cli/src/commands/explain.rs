//! `posse explain`.

use posse::{BeyondRules, api};

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
        output.json(&api::Explanation::new(&explanation))?;
    } else {
        output.paragraph(&explanation.to_string())?;
        if let Some(beyond) = BeyondRules::of(&explanation) {
            output.paragraph(&beyond_rules(&beyond))?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// What lies beyond the rules, with the flags of the command.
fn beyond_rules(beyond: &BeyondRules) -> String {
    match beyond {
        BeyondRules::OpenedBy(pattern) => format!("a run may write there with --allow '{pattern}'"),
        BeyondRules::PublicAddressesOnly => {
            "beyond the rules: an address that is not public is refused, unless --allow names its host"
                .to_owned()
        }
        BeyondRules::NetworkInAdvance => {
            "the network is never a question: it is opened in advance, with --allow network".to_owned()
        }
        BeyondRules::SandboxLimits => beyond.to_string(),
    }
}
