//! `posse explain`.

use std::path::Path;

use posse::{BeyondRules, CommandLimits, api};
use posse_setup::hooks_before;

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::Output;
use crate::runtime;
use crate::term;

/// Explain why an agent may or may not execute an operation
///
/// Every layer of rules is listed with its decision; the strictest counts: deny, then ask, then allow. Approvals are
/// taken into account. What limits it beyond the rules is named too: the sandbox, files that Posse keeps out of workspaces,
/// and the hooks of your present settings that run before the operation.
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
    let tool = operation.split([':', '@']).next().unwrap_or_default();
    if tool.trim().is_empty() {
        return Err(CliError::usage("the operation is missing")
            .hint(format!("for example, `{} explain @ write:src/main.rs`", context.program)));
    }
    let posse = context.open_read_only()?;
    let tool = tool.trim();
    let (explained, sandbox, hooks) = runtime::looking(async {
        let agent = agent.find(&posse, context).await?;
        let mut explained = posse.explain(&agent, operation).await?;
        if let Some(server) = context.server() {
            // The sandbox, the files and the hooks are those of the server's machine.
            let path = format!("/api/v1/runs/{}/agents/{agent}/explain", agent.run());
            let there: api::Explanation =
                server.get(&path, &[("operation", operation)]).await.map_err(posse::Error::from)?;
            explained.is_kept_out = there.kept_out;
            return Ok((explained, there.command.and_then(|command| command.sandbox), there.hook_commands));
        }
        let dir = posse.summary(&agent.run()).await?.dir;
        let sandbox = if explained.command.is_some() { context.sandbox_level().await } else { None };
        Ok((explained, sandbox, hooks_before(tool, Path::new(&dir), context)?))
    })?;
    let mut output = Output::new();
    if args.json {
        output.json(&api::Explanation::new(&explained).with_sandbox(sandbox).with_hooks(hooks))?;
    } else {
        output.paragraph(&explained.explanation.to_string())?;
        if explained.is_ask_refused {
            output
                .paragraph("in this run it is refused: the run does not let sub-agents ask (on_ask: deny)")?;
        }
        if explained.is_kept_out {
            output.paragraph(
                "the workspace does not have it: Posse keeps well-known secret files out, unless git tracks them or \
                 `workspace.copy` names them",
            )?;
        }
        if let Some(beyond) = BeyondRules::of(&explained.explanation) {
            output.paragraph(&beyond_rules(&beyond, explained.command, sandbox.as_deref()))?;
        }
        for line in hook_lines(&hooks) {
            output.paragraph(&line)?;
        }
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// The hooks that run before the operation, then those that do not run.
fn hook_lines(hooks: &[api::HookCommand]) -> Vec<String> {
    let mut lines = Vec::new();
    let (running, others): (Vec<_>, Vec<_>) = hooks.iter().partition(|hook| hook.runs);
    if !running.is_empty() {
        lines.push("hooks that run first and can block it:".to_owned());
    }
    let place =
        |hook: &api::HookCommand| (term::visible(&hook.origin, "  "), term::visible(&hook.command, "    "));
    for hook in running {
        let (origin, command) = place(hook);
        lines.push(format!("  {origin}: {command}"));
    }
    for hook in others {
        let (origin, command) = place(hook);
        lines.push(format!("project hook {origin} does not run: not trusted: {command}"));
    }
    lines
}

/// What lies beyond the rules, with the flags of the command.
fn beyond_rules(beyond: &BeyondRules, command: Option<CommandLimits>, sandbox: Option<&str>) -> String {
    match beyond {
        BeyondRules::OpenedBy(pattern) => format!("allow it with --allow '{pattern}'"),
        BeyondRules::PublicAddressesOnly => {
            "an address that is not public is refused, unless --allow names its host".to_owned()
        }
        BeyondRules::NetworkInAdvance => {
            "Posse never asks about the network; allow it in advance with --allow network".to_owned()
        }
        BeyondRules::SandboxLimits => match command {
            Some(command) => format!("{beyond}: {}", sandbox_limits(command, sandbox)),
            None => beyond.to_string(),
        },
    }
}

/// What a command can reach.
fn sandbox_limits(command: CommandLimits, sandbox: Option<&str>) -> String {
    let Some(sandbox) = sandbox else {
        return "this machine has no sandbox, so commands are refused; `posse doctor` says why".to_owned();
    };
    let writable = if command.can_change_workspace {
        "it can write to its workspace and to temporary directories"
    } else {
        "it can write to temporary directories only"
    };
    let network = if command.has_network {
        "it has the network of this machine"
    } else {
        "it has no network (--allow network opens it)"
    };
    format!("{writable}; {network}; isolation: {sandbox}")
}
