//! `posse apply`, and `--apply` at the end of a run.

use std::fmt::Write as _;

use posse::{
    AgentId, AppliedAtEnd, AppliedRun, ApplyError, ApplyPlan, ApplySummary, ApplyWhich, CheckedApply,
    FileConflicts, PlannedFile, PlannedWrite, Posse, RunOutcome, api,
};
use posse_setup::project_runs::Project;

use crate::conflicts::{self, ConflictSides};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::WorkArg;
use crate::output::Output;
use crate::runtime;
use crate::term;
use crate::text::plural;

/// How many applied runs and agents an error names.
const APPLIED_NAMED_MAX: usize = 5;

/// Apply the changes of a run, or of one of its agents, to your working tree
///
/// Applies all changes, or nothing if you changed the same lines since; then the conflicting lines are shown. Neither the
/// index nor a branch is touched. Applying twice changes nothing. With an agent such as RUN.3, only its changes are applied,
/// also if they were not merged into the result. --undo takes back what the last apply of the run or agent wrote; files
/// that you changed since are merged, or named and left as they are.
#[derive(Debug, clap::Args)]
// Changing an argument moves it to the end, so both places are given.
#[command(
    mut_arg("run", |run| run.index(1).required_unless_present("undo").help(
        "The run, or an agent such as RUN.2.1; `@` is the newest run of this project; --undo alone takes the last apply in \
         this project"
    )),
    mut_arg("agent", |agent| agent.index(2)),
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    work: WorkArg,
    /// Also apply a failed or cancelled run or agent, whose changes may be incomplete
    #[arg(long, conflicts_with = "undo")]
    unfinished: bool,
    /// Only show what would be written
    #[arg(long, conflicts_with = "undo")]
    check: bool,
    /// Take back what the last apply wrote
    #[arg(long)]
    undo: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Applies a run, or takes that back.
pub(crate) fn apply(args: &ApplyArgs, context: &Context) -> Result<Exit, CliError> {
    let posse = context.open_read_only()?;
    let which = if args.unfinished { ApplyWhich::Ended } else { ApplyWhich::Completed };
    if args.check {
        return check(args, which, &posse, context);
    }
    let (agent, applied) = runtime::looking(async {
        if !args.undo {
            let agent = args.work.find(&posse, context).await?;
            let applied = posse.apply_agent(&agent, which).await;
            return Ok((agent, applied));
        }
        let agent = if args.work.is_named() {
            args.work.find(&posse, context).await?
        } else {
            let newest = applied_here(&posse, context).await?.into_iter().next();
            newest.ok_or_else(nothing_applied)?
        };
        let undone = posse.undo_apply(&agent).await;
        if let Err(posse::Error::NotUndone { problem: ApplyError::NotApplied, .. }) = undone {
            return Err(is_not_applied(&agent, &applied_here(&posse, context).await?));
        }
        Ok((agent, undone))
    })?;
    let applied = match applied {
        // No agent of it could change files.
        Err(posse::Error::NoFiles(_)) if !args.undo => None,
        applied => Some(applied?),
    };
    let mut output = Output::new();
    if args.json {
        output.json(&api::ApplyResult::new(&agent, args.undo, applied.as_ref()))?;
    } else {
        let summary =
            if args.undo { undone(&agent, applied.as_ref()) } else { summary(&agent, applied.as_ref()) };
        output.paragraph(&summary)?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// Shows what an apply would write.
fn check(args: &ApplyArgs, which: ApplyWhich, posse: &Posse, context: &Context) -> Result<Exit, CliError> {
    let (agent, checked) = runtime::looking(async {
        let agent = args.work.find(posse, context).await?;
        let checked = posse.check_apply(&agent, which).await;
        Ok((agent, checked))
    })?;
    let checked = match checked {
        // No agent of it could change files.
        Err(posse::Error::NoFiles(_)) => None,
        checked => Some(checked?),
    };
    let mut output = Output::new();
    if args.json {
        output.json(&api::ApplyCheck::new(&agent, checked.as_ref()))?;
    } else {
        output.own(&plan(&agent, checked.as_ref()))?;
    }
    output.flush()?;
    Ok(Exit::DONE)
}

/// What an apply would write, one line for each file.
fn plan(agent: &AgentId, checked: Option<&CheckedApply>) -> String {
    let what = named(agent);
    let Some(CheckedApply { dir, plan: Some(ApplyPlan { files, summary }) }) = checked else {
        return format!("{what} changed no files: there is nothing to apply\n");
    };
    let mut text = String::new();
    for PlannedFile { path, write } in files {
        let word = match write {
            PlannedWrite::Add => "add",
            PlannedWrite::Change => "change",
            PlannedWrite::Merge => "merge",
            PlannedWrite::Remove => "remove",
        };
        text.extend([&format!("{word:<7} "), term::line(path).as_str(), "\n"]);
    }
    let more = summary.files.saturating_sub(files.len());
    if more > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(text, "and {more} more");
    }
    let count = |number: usize| plural(number as u64, "file");
    let already = match summary.already {
        0 => String::new(),
        already => format!(", {already} already up to date"),
    };
    let line =
        format!("an apply of {what} would change {} in {}{already}\n", count(summary.files), dir.display());
    text.push_str(&line);
    text
}

/// The agents whose work is applied, of the runs of this project; the newest apply is first.
async fn applied_here(posse: &Posse, context: &Context) -> Result<Vec<AgentId>, CliError> {
    let runs = Project::current(&context.environment).runs(posse).await?;
    Ok(posse.applied(runs.into_iter().map(|run| run.run).collect()).await?)
}

/// The error for an undo without a name where nothing is applied.
fn nothing_applied() -> CliError {
    CliError::failed("no run of this project is applied, so there is nothing to undo")
        .hint("`posse apply RUN` applies the changes of a run; an apply is undone once")
}

/// The error for an undo of work that is not applied.
fn is_not_applied(agent: &AgentId, applied: &[AgentId]) -> CliError {
    let error = CliError::failed(format!("{} is not applied, so there is nothing to undo", named(agent)));
    let Some(newest) = applied.first() else {
        return error.hint("no run of this project is applied; an apply is undone once");
    };
    let shown: Vec<&str> = applied.iter().take(APPLIED_NAMED_MAX).map(AgentId::as_str).collect();
    let more = if applied.len() > shown.len() { ", ..." } else { "" };
    error.hint(format!(
        "applied in this project: {}{more}; `posse apply --undo {newest}` takes the newest apply back",
        shown.join(", ")
    ))
}

/// A run or an agent in a sentence.
fn named(agent: &AgentId) -> String {
    if agent.is_root() { format!("run {agent}") } else { format!("agent {agent}") }
}

/// Describes the result of applying.
fn summary(agent: &AgentId, applied: Option<&AppliedRun>) -> String {
    let what = named(agent);
    let Some(AppliedRun { dir, applied: Some(applied) }) = applied else {
        return format!("{what} changed no files: there is nothing to apply");
    };
    let dir = dir.display();
    let ApplySummary { files, merged, already } = *applied;
    let count = |number: usize| plural(number as u64, "file");
    match (files, merged, already) {
        (0, _, 0) => format!("{what} changed no files: there is nothing to apply"),
        (0, _, already) => {
            format!("{what} was already applied: {} in {dir} up to date", count(already))
        }
        (files, merged, already) => {
            let some = |number: usize, what: &str| match number {
                0 => String::new(),
                number => format!(", {number} {what}"),
            };
            let merged = some(merged, "of them merged with your changes");
            let already = some(already, "already up to date");
            format!("applied {what}: {} changed in {dir}{merged}{already}", count(files))
        }
    }
}

/// Describes the result of taking an apply back.
fn undone(agent: &AgentId, undone: Option<&AppliedRun>) -> String {
    let what = named(agent);
    let Some(AppliedRun { dir, applied: Some(ApplySummary { files, merged, already }) }) = undone else {
        return format!("{what} is not applied: there is nothing to undo");
    };
    let kept = match merged {
        0 => String::new(),
        merged => format!(", {merged} of them with your later changes kept"),
    };
    let already = match already {
        0 => String::new(),
        1 => ", 1 file was as before already".to_owned(),
        already => format!(", {already} files were as before already"),
    };
    let files = plural(*files as u64, "file");
    format!("undid the apply of {what}: {files} changed back in {}{kept}{already}", dir.display())
}

/// Applies a run that has just ended, if it completed. Returns a description of the result, or the error. `None` for a
/// run that did not complete.
pub(crate) async fn apply_at_end(posse: &Posse, finished: &RunOutcome) -> Option<Result<String, CliError>> {
    match posse.apply_at_end(finished).await {
        Ok(AppliedAtEnd::NotCompleted) => None,
        Ok(AppliedAtEnd::NoFiles) => Some(Ok(summary(&finished.run.root(), None))),
        Ok(AppliedAtEnd::Applied(applied)) => Some(Ok(summary(&finished.run.root(), Some(&applied)))),
        Err(error) => Some(Err(error.into())),
    }
}

/// Work that was not applied.
pub(crate) struct NotApplied<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) problem: &'a ApplyError,
    /// The branch with the result, if it exists.
    pub(crate) branch: Option<&'a str>,
    pub(crate) is_unfinished: bool,
}

impl NotApplied<'_> {
    /// The error, with the lines in conflict and what to do about them.
    pub(crate) fn error(&self, message: &str) -> CliError {
        let Self { agent, problem, branch, is_unfinished } = self;
        let flag = if *is_unfinished { "--unfinished " } else { "" };
        let again = format!("`posse apply {flag}{agent}`");
        let theirs = named(agent);
        let hint = match problem {
            ApplyError::Conflict(_) => {
                // Committing alone does not help: the result is compared with the run's base.
                let by_hand = match branch {
                    Some(branch) => format!("or commit it and merge by hand with `git merge {branch}`"),
                    None => format!("or take over by hand what `posse diff {agent}` shows"),
                };
                format!("undo your change of those lines, then {again}; {by_hand}")
            }
            ApplyError::Moved { .. } => format!("{again} continues"),
            ApplyError::Refused { .. } => format!("`posse diff {agent}` shows its changes"),
            ApplyError::ChangedSince(_) | ApplyError::NotApplied | ApplyError::Workspace(_) => {
                format!("fix that, then {again}; the work is kept")
            }
        };
        with_lines(message, problem, &theirs).hint(hint)
    }
}

/// The error for an apply that was not taken back.
pub(crate) fn not_undone(agent: &AgentId, message: &str, problem: &ApplyError) -> CliError {
    let again = format!("`posse apply --undo {agent}`");
    let hint = match problem {
        ApplyError::NotApplied => return is_not_applied(agent, &[]),
        ApplyError::ChangedSince(_) => format!("undo your change of those lines, then {again}"),
        ApplyError::Moved { .. } => format!("{again} continues"),
        _ => format!("fix that, then {again}"),
    };
    with_lines(message, problem, "before the apply").hint(hint)
}

/// An error with the conflicting lines beneath its message.
fn with_lines(message: &str, problem: &ApplyError, theirs: &str) -> CliError {
    let found: Option<&FileConflicts> = match problem {
        ApplyError::Conflict(found) | ApplyError::ChangedSince(found) => Some(found),
        _ => None,
    };
    let sides = ConflictSides { ours: "your file", theirs };
    let lines = found.map(|found| format!("\n{}", conflicts::files(found, &sides))).unwrap_or_default();
    CliError::failed(format!("{message}{lines}"))
}
