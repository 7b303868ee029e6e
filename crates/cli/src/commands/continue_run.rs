//! `posse continue`.

use crate::commands::run::{self, typed};
use crate::commands::wait::interrupted;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::permissions::PermissionArgs;
use crate::runtime;
use crate::server;
use crate::setting_flags::SettingFlags;
use posse::EndedAgent;
use posse_setup::RunDraft;
use posse_setup::execution::is_interrupted;

/// Send a follow-up to a finished run, or to one of its agents
///
/// Starts a new run that begins with the conversation and the files of the finished one, and with your message. Rules and
/// limits are those of your settings now; the model and the agent stay the same unless you name others. `posse diff` and
/// `posse apply` of the new run cover the changes of both.
#[derive(Debug, clap::Args)]
#[command(mut_arg("model", earlier_default))]
pub(crate) struct ContinueArgs {
    /// The finished run, or an agent of a run that has ended
    run: AgentArg,
    /// What to do next; `-` reads it from standard input
    #[arg(required = true, value_name = "MESSAGE")]
    message: Vec<String>,
    #[command(flatten)]
    pub(crate) further: ContinueOptions,
}

/// Options of runs that continue earlier ones.
#[derive(Debug, clap::Args)]
pub(crate) struct ContinueOptions {
    #[command(flatten)]
    settings: SettingFlags<false>,
    /// Another definition for the root [default: that of the earlier agent]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// More definitions: a JSON file, or the JSON itself
    #[arg(long, value_name = "FILE|JSON")]
    agents: Option<String>,
    #[command(flatten)]
    permissions: PermissionArgs,
    /// Apply the result to the checkout when the run has completed, as `posse apply` does
    #[arg(long)]
    apply: bool,
    /// Print the run's id and execute the run in the background
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Print events and the result as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    /// The session of a front end that the run belongs to
    #[arg(long, value_name = "ID", hide = true)]
    session: Option<String>,
}

/// A flag of a new run whose default is the value of the earlier run.
pub(crate) fn earlier_default(flag: clap::Arg) -> clap::Arg {
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let meaning = help.split(" [default:").next().unwrap_or_default();
    flag.help(format!("{meaning} [default: that of the earlier run]"))
}

/// The argument that names the earlier run, in errors about what it sets.
pub(crate) const EARLIER: &str = "RUN";

/// Continues a finished run.
pub(crate) fn continue_run(args: ContinueArgs, context: &Context) -> Result<Exit, CliError> {
    let (detach, json) = (args.further.detach, args.further.json);
    let text = typed("message", &args.message)?;
    let earlier = ended(&args.run, context)?;
    if let Some(server) = context.server() {
        let draft = args.further.draft(Some(text));
        return server::continue_agent(server, &earlier.continuation.agent, &draft, detach, json, context);
    }
    let draft = args.further.draft(Some(text)).follow_up(&earlier, EARLIER);
    run::start(draft, detach, json, context)
}

/// The agent that has ended.
pub(crate) fn ended(agent: &AgentArg, context: &Context) -> Result<EndedAgent, CliError> {
    let reader = context.open_read_only()?;
    runtime::looking(async {
        let agent = agent.find_known(&reader, context).await?;
        match reader.ended_agent(&agent).await {
            Err(posse::Error::StillRunning(run)) if is_interrupted(&reader.summary(&run).await?) => {
                Err(interrupted(&run))
            }
            Err(posse::Error::StillRunning(run)) => Err(CliError::failed(format!("run {run} has not ended"))
                .hint(format!("`posse send {run} MESSAGE` reaches it while it runs"))),
            found => Ok(found?),
        }
    })
}

impl ContinueOptions {
    /// Whether nothing is drawn for it.
    pub(crate) fn is_for_programs(&self) -> bool {
        self.json || self.detach
    }

    /// The draft of the new run, without what it takes from the earlier one.
    pub(crate) fn draft(self, text: Option<String>) -> RunDraft {
        RunDraft {
            text,
            settings: self.settings.0,
            agent: self.agent,
            agents: self.agents,
            permissions: self.permissions.0,
            apply: self.apply,
            session_id: self.session,
            ..RunDraft::default()
        }
    }
}
