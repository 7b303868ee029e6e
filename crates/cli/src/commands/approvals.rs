//! `posse approvals`.

use std::fmt::Write;
use std::path::PathBuf;

use posse::{FoundQuestions, Pattern, QuestionScope, api};
use posse_setup::approvals::{FileApprovals, StoredOperation};
use posse_setup::working_dir::working_dir;

use crate::confirm::confirm;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};
use crate::runtime;
use crate::server;
use crate::term;
use crate::text::plural;

/// List the calls that need your approval, and the operations that are always allowed
///
/// An operation is always allowed in a directory after the answer "always" (`posse approve --always`, or `a` at the
/// terminal of a run).
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    action: Option<ApprovalsAction>,
    /// Print one JSON object for each call and each operation
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum ApprovalsAction {
    Revoke(RevokeArgs),
}

/// Revoke "always" answers: ask about these operations again
///
/// Later runs ask again. A run that has started keeps what it was allowed.
#[derive(Debug, clap::Args)]
pub(crate) struct RevokeArgs {
    /// The operations, as `posse approvals` lists them
    #[arg(value_name = "OPERATION", required_unless_present = "all", conflicts_with = "all")]
    operations: Vec<Pattern>,
    /// All operations that are allowed in the directory
    #[arg(long)]
    all: bool,
    /// The directory that they are allowed in [default: the current one]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Do not ask, for scripts
    #[arg(long, short)]
    yes: bool,
    /// With --yes: print one JSON object
    #[arg(long, requires = "yes")]
    json: bool,
}

/// Lists or revokes approvals.
pub(crate) fn approvals(args: &ApprovalsArgs, context: &Context) -> Result<Exit, CliError> {
    match &args.action {
        Some(ApprovalsAction::Revoke(revoked)) => {
            server::refuse(context, &[(true, "revoke")])?;
            revoke(revoked, context)
        }
        None => list(args.json, context),
    }
}

fn list(json: bool, context: &Context) -> Result<Exit, CliError> {
    // A server tells its clients which calls wait, not which operations its user always allows.
    let stored = match context.server() {
        None => FileApprovals::new(context.state_dir()?).all()?,
        Some(_) => Vec::new(),
    };
    let posse = context.open_read_only()?;
    let FoundQuestions { unanswered: waiting, .. } =
        runtime::looking(async { Ok(posse.find_questions(&QuestionScope::AllRuns, None).await?) })?;
    let mut output = Output::new();
    if json {
        super::answer::list(&waiting, true, &mut output)?;
        for StoredOperation { dir, operation } in &stored {
            output.json(&api::StoredApproval::new(dir, operation))?;
        }
        return Ok(Exit::DONE);
    }
    if waiting.is_empty() && stored.is_empty() {
        note("nothing is waiting for approval, and no operation is always allowed");
        return Ok(Exit::DONE);
    }
    if !waiting.is_empty() {
        output.prose("Waiting for an answer (agent, call, operation):\n")?;
        super::answer::list(&waiting, false, &mut output)?;
        note("answer with `posse approve AGENT CALL` or `posse deny AGENT CALL`");
    }
    output.own(&stored_page(&stored))?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// The stored operations by directory.
fn stored_page(stored: &[StoredOperation]) -> String {
    let mut page = String::new();
    let mut dir = None;
    for StoredOperation { dir: of, operation } in stored {
        if dir != Some(of) {
            let _ = writeln!(page, "Always allowed in {}:", term::visible_line(of));
            dir = Some(of);
        }
        let _ = writeln!(page, "  {}", term::visible_line(operation.as_str()));
    }
    page
}

fn revoke(args: &RevokeArgs, context: &Context) -> Result<Exit, CliError> {
    let named = args.dir.as_ref().map(|dir| context.environment.cwd.join(dir).display().to_string());
    // A directory that is gone still has its approvals, under the path that was stored.
    let dir = working_dir(args.dir.clone(), &context.environment.cwd).or_else(|error| named.ok_or(error))?;
    let store = FileApprovals::new(context.state_dir()?);
    let mut going = store.all()?;
    going.retain(|stored| stored.dir == dir && (args.all || args.operations.contains(&stored.operation)));
    let missing =
        args.operations.iter().find(|asked| !going.iter().any(|stored| stored.operation == **asked));
    if let Some(missing) = missing {
        let missing = term::visible_line(missing.as_str());
        return Err(CliError::usage(format!("`{missing}` is not always allowed in {dir}"))
            .hint("`posse approvals` lists the operations with their directories; nothing was revoked"));
    }
    if args.json {
        store.revoke(&going)?;
        let operations = going.iter().map(|stored| stored.operation.to_string()).collect();
        Output::new().json(&api::RevokedApprovals { dir, operations })?;
        return Ok(Exit::DONE);
    }
    if going.is_empty() {
        note(&format!("no operation is always allowed in {dir}"));
        return Ok(Exit::DONE);
    }
    let mut output = Output::new();
    output.own(&stored_page(&going))?;
    output.flush()?;
    let count = plural(going.len() as u64, "operation");
    if !args.yes && !confirm(&format!("ask again about {count}?"), "nothing was revoked")? {
        note("nothing was revoked");
        return Ok(Exit::FAILED);
    }
    store.revoke(&going)?;
    note(&format!("later runs ask again about {count}"));
    Ok(Exit::DONE)
}
