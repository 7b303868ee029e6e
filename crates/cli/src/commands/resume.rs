//! `posse resume`.

use posse::{Posse, Resume, RunId};

use crate::carry::carry_and_tell;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::launch;
use crate::runtime;
use crate::signals::Signals;
use crate::view::View;

/// Runs that `--last` looks through.
const LOOKED_THROUGH: u32 = 1_000;

/// Go on with a run that was interrupted, and watch it until it ends
///
/// A run that has ended is only told. One that another process carries is left alone.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run
    #[arg(required_unless_present = "last", conflicts_with = "last")]
    run: Option<RunArg>,
    /// The newest run that was interrupted
    #[arg(long)]
    last: bool,
    /// Print events and the result as JSON lines
    #[arg(long)]
    json: bool,
}

/// Goes on with a run.
pub(crate) fn resume(args: &ResumeArgs, context: &Context) -> Result<Exit, CliError> {
    let looking = context.look()?;
    let (run, known) = runtime::looking(find(&looking, args))?;
    drop(looking);
    runtime::carrying(async {
        let mut signals = Signals::listen()?;
        let posse = context.open(launch::models(context))?;
        let mut view = View::new(args.json, context);
        match posse.resume(&run).await? {
            Resume::Going(handle) => carry_and_tell(&posse, &handle, known, &mut signals, view).await,
            Resume::Held(holder) => Err(held(&run, holder.pid)),
            Resume::Ended => {
                let finished = posse.wait(&run).await?;
                view.result(&finished)?;
                Ok(Exit::of(&finished))
            }
        }
    })
}

/// The error of a run that another process carries.
pub(crate) fn held(run: &RunId, pid: u32) -> CliError {
    CliError::failed(format!("run {run} is carried by process {pid}"))
        .hint(format!("`posse logs -f {run}` follows it, `posse wait {run}` waits for its end"))
}

/// The run that is meant, and how many events it has already told.
async fn find(posse: &Posse, args: &ResumeArgs) -> Result<(RunId, u64), CliError> {
    let candidates = match &args.run {
        Some(run) => posse.runs(run.find(posse).await?.as_str(), 1).await?,
        None => posse.runs("", LOOKED_THROUGH).await?,
    };
    let is_meant = |run: &posse::RunSummary| !args.last || (run.status == "running" && run.holder.is_none());
    match candidates.into_iter().find(is_meant) {
        Some(run) => Ok((run.run, run.events)),
        None => Err(CliError::usage("no run was interrupted").hint("`posse ps` lists the runs")),
    }
}
