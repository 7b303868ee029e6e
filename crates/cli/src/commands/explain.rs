//! `posse explain`.

use std::path::Path;

use posse::{BeyondRules, api};
use posse_setup::hooks_before;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::Output;
use crate::runtime;

/// Explain why an agent may or may not execute an operation
///
/// Every layer of rules is listed with its decision; the strictest counts: deny, then ask, then allow. Approvals are
/// taken into account. Hooks of your present settings that are called before the operation are named.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The run, or an agent such as RUN.2.1, or both as RUN 2.1 [default: the newest run of this project]; then the
    /// operation, as tool or tool:specifier, such as `write:src/main.rs`; `network` is what its commands may reach
    #[arg(required = true, num_args = 1..=3, value_names = ["RUN", "AGENT", "OPERATION"])]
    words: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl ExplainArgs {
    /// The agent, and the operation, which is the last word.
    fn read(&self) -> Result<(WorkArg, &str), CliError> {
        let wrong =
            |problem: String| CliError::usage(problem).hint("write `posse explain [RUN [AGENT]] OPERATION`");
        let (operation, named) = self.words.split_last().ok_or_else(|| wrong("no operation".to_owned()))?;
        WorkArg::read(named).map(|agent| (agent, operation.as_str())).map_err(wrong)
    }
}

/// Explains a decision.
pub(crate) fn explain(args: &ExplainArgs, context: &Context) -> Result<Exit, CliError> {
    let (agent, operation) = args.read()?;
    let tool = operation.split(':').next().unwrap_or_default();
    if tool.trim().is_empty() {
        return Err(
            CliError::usage("the operation names no tool").hint("write it as `tool` or `tool:specifier`")
        );
    }
    let posse = context.open_read_only()?;
    let (explanation, dir) = runtime::looking(async {
        let agent = agent.find(&posse, context).await?;
        let dir = posse.summary(&agent.run()).await?.dir;
        Ok((posse.explain(&agent, operation).await?, dir))
    })?;
    let tool = tool.split('@').next().unwrap_or_default().trim();
    let hooks = hooks_before(tool, Path::new(&dir), context)?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::Explanation::new(&explanation).with_hooks(hooks))?;
    } else {
        output.paragraph(&explanation.to_string())?;
        if let Some(beyond) = BeyondRules::of(&explanation) {
            output.paragraph(&beyond_rules(&beyond))?;
        }
        if !hooks.is_empty() {
            let called = format!("hooks that are called before it, and may refuse it: {}", hooks.join(", "));
            output.paragraph(&called)?;
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
