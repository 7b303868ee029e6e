//! `posse verify`.

use posse::{Posse, RunId, VerifiedJournal, VerifyError, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::RunArg;
use crate::output::Output;
use crate::runtime;
use crate::text::plural;

/// Verify the integrity of a run's journal
///
/// Checks the numbers of the events, the hash chain, the order, and the tables beside the journal. Keep the printed
/// head elsewhere: if the journal is truncated later, its head differs. Also compares the files that the workspaces of
/// the run's project share with their commits; Posse does not use files that differ again.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// The run [default: the newest run of this project]
    #[arg(conflicts_with = "all")]
    run: Option<RunArg>,
    /// All runs, and the database itself
    #[arg(long, short)]
    all: bool,
    /// Print one JSON object for each run
    #[arg(long)]
    json: bool,
}

/// Checks journals.
pub(crate) fn verify(args: &VerifyArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let mut output = Output::new();
    runtime::looking(async {
        let (runs, mut problems) = if args.all {
            listed(&posse).await
        } else {
            let run = args.run.clone().unwrap_or_else(RunArg::newest);
            (vec![run.find_any(&posse, context).await?], Vec::new())
        };
        let mut exit = Exit::DONE;
        for run in &runs {
            let verdict = Verdict::of(&posse, run).await?;
            if !verdict.is_ok() {
                exit = Exit::FAILED;
            }
            if args.json {
                output.json(&verdict.to_api(run))?;
            } else {
                output.paragraph(&verdict.text(run))?;
            }
        }
        if args.all {
            problems.extend(posse.check().await?);
        }
        let run = runs.first().filter(|_| !args.all);
        let shared = match posse.check_shared_files(run).await {
            Ok(shared) => shared,
            Err(error) => vec![error.to_string()],
        };
        let problems = problems.into_iter().map(|problem| ("database", problem));
        for (place, problem) in problems.chain(shared.into_iter().map(|problem| ("files", problem))) {
            exit = Exit::FAILED;
            if args.json {
                output.json(&api::Verification::store_problem(&problem))?;
            } else {
                output.paragraph(&format!("{place}: {problem}"))?;
            }
        }
        output.flush()?;
        Ok(exit)
    })
}

/// All runs. If a damaged row prevents listing them, the check of the whole database reports it.
async fn listed(posse: &Posse) -> (Vec<RunId>, Vec<String>) {
    match posse.runs("", u32::MAX).await {
        Ok(runs) => (runs.into_iter().map(|run| run.run).collect(), Vec::new()),
        Err(error) => (Vec::new(), vec![error.to_string()]),
    }
}

enum Verdict {
    Whole(VerifiedJournal),
    Broken { seq: Option<u64>, problem: String },
}

impl Verdict {
    async fn of(posse: &Posse, run: &RunId) -> Result<Self, CliError> {
        match posse.verify(run).await {
            Ok(verified) => Ok(Verdict::Whole(verified)),
            Err(VerifyError::Store(error)) => Err(error.into()),
            Err(error) => {
                let seq = match &error {
                    VerifyError::Event { seq, .. } => Some(*seq),
                    VerifyError::Tables(_) | VerifyError::Rows(_) | VerifyError::Store(_) => None,
                };
                Ok(Verdict::Broken { seq, problem: error.to_string() })
            }
        }
    }

    fn is_ok(&self) -> bool {
        matches!(self, Verdict::Whole(_))
    }

    fn to_api<'a>(&'a self, run: &'a RunId) -> api::Verification<'a> {
        let found = match self {
            Verdict::Whole(journal) => api::Verification::whole(journal),
            Verdict::Broken { seq, problem } => api::Verification::damaged(*seq, problem),
        };
        found.of_run(run)
    }

    fn text(&self, run: &RunId) -> String {
        match self {
            Verdict::Whole(VerifiedJournal { events, head }) => {
                format!("run {run} is intact: {}, head {}", plural(*events, "event"), head.hash)
            }
            Verdict::Broken { problem, .. } => format!("run {run} is damaged: {problem}"),
        }
    }
}
