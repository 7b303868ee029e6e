//! The common part of `approve` and `deny`: finds the call, shows it, asks, and answers exactly this call.

use posse::{Answer, FoundQuestions, PendingQuestion, Posse, QuestionScope, RunSummary, StoredApproval, api};

use crate::confirm::confirm;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::{AgentArg, PartArg, is_path};
use crate::output::{Output, note, output_width};
use crate::questions::{describe, not_stored};
use crate::runtime;
use crate::term;
use crate::view::width::hanging;

/// Selects the call to answer.
#[derive(Debug, clap::Args)]
pub(super) struct CallSelector {
    /// The run, or an agent such as RUN.2.1 [default: all runs]
    run: Option<AgentArg>,
    /// An agent of the run such as 2.1, and the id of the call if several wait
    #[arg(value_name = "AGENT|CALL", num_args = 0..=2)]
    rest: Vec<String>,
    /// Do not ask, for scripts
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CallSelector {
    /// The agent after the run, and the id of the call.
    fn rest(&self) -> Result<(Option<PartArg>, Option<&str>), CliError> {
        match &self.rest[..] {
            [] => Ok((None, None)),
            [agent] if is_path(agent) => Ok((Some(part(agent)?), None)),
            [call] => Ok((None, Some(call))),
            [agent, call, ..] => Ok((Some(part(agent)?), Some(call))),
        }
    }

    /// Finds the selected calls.
    async fn find(&self, posse: &Posse, context: &Context) -> Result<FoundQuestions, CliError> {
        let (part, call) = self.rest()?;
        let scope = match (&self.run, &part) {
            (None, _) => QuestionScope::AllRuns,
            (Some(run), None) if run.is_run() => QuestionScope::Run(run.find_run(posse, context).await?),
            (Some(run), part) => QuestionScope::Agent(run.find_part(part.as_ref(), posse, context).await?),
        };
        Ok(posse.find_questions(&scope, call).await?)
    }
}

fn part(text: &str) -> Result<PartArg, CliError> {
    text.parse().map_err(|problem: String| CliError::usage(format!("`{text}`: {problem}")))
}

/// Answers the selected call. Lists the calls if the selection is ambiguous.
pub(super) fn answer(which: &CallSelector, answer: &Answer, context: &Context) -> Result<Exit, CliError> {
    let reader = context.open_read_only()?;
    let FoundQuestions { unanswered: mut waiting, has_answered } =
        runtime::looking(which.find(&reader, context))?;
    drop(reader);
    let mut output = Output::new();
    if waiting.len() > 1 {
        list(&waiting, which.json, &mut output)?;
        return Err(CliError::usage(format!("{} calls wait for an answer", waiting.len()))
            .hint("name one by its agent, and by its call if the agent has several; nothing was answered"));
    }
    let Some((info, question)) = waiting.pop() else {
        return Err(nothing_waits(has_answered, which)?);
    };
    if *answer == Answer::Always && question.always.is_none() {
        return Err(CliError::failed(format!(
            "--always has no effect: {} asks every time",
            term::visible_line(&question.why())
        ))
        .hint("omit --always to allow it once"));
    }
    note_plainly(&describe(&question));
    note_plainly(&format!("  call {}", term::visible_line(&question.call_id)));
    if !which.yes && !confirm(&asked(answer, &question), "the call still waits")? {
        note("nothing was answered: the call still waits");
        return Ok(Exit::FAILED);
    }
    // The answer is bound to the question that was shown: if another one waits by now, this fails.
    let posse = context.open_for_commands()?;
    match runtime::looking(async { Ok(posse.answer(&question, answer.clone()).await?) })? {
        StoredApproval::None => {}
        StoredApproval::Stored { literal, dir } => {
            note_plainly(&format!(
                "always allowed from now on in {dir}: `{}`",
                term::visible(literal.as_str(), "    ")
            ));
        }
        StoredApproval::Failed(error) => return Err(not_stored(error)),
    }
    report(answer, &info);
    if which.json {
        output.json(&api::Answer::new(&question, answer, info.holder.is_some()))?;
    }
    Ok(Exit::DONE)
}

/// The error for a selection without a call that waits.
fn nothing_waits(has_answered: bool, which: &CallSelector) -> Result<CliError, CliError> {
    let (_, call) = which.rest()?;
    Ok(match (&which.run, call) {
        _ if has_answered => {
            CliError::failed("the call was already answered").hint("it takes effect once its run is resumed")
        }
        (_, Some(call)) => {
            let call = term::visible_line(call);
            CliError::failed(format!("the call {call} does not wait for an answer"))
                .hint("`posse approvals` lists what waits")
        }
        (Some(run), None) => CliError::failed(format!("nothing is waiting for approval in {run}"))
            .hint("`posse approvals` lists what waits"),
        (None, None) => CliError::failed("nothing is waiting for approval"),
    })
}

/// The question before an answer.
fn asked(answer: &Answer, question: &PendingQuestion) -> String {
    match (answer, &question.always) {
        (Answer::Always, Some(literal)) => format!(
            "approve this call, and always allow exactly `{}` in this directory?",
            term::visible(literal.as_str(), "    ")
        ),
        (Answer::Once | Answer::Always, _) => "approve exactly this call?".to_owned(),
        (Answer::Deny { .. }, _) => "deny this call?".to_owned(),
    }
}

fn report(answer: &Answer, info: &RunSummary) {
    let outcome = match answer {
        Answer::Once => "approved",
        Answer::Always => "approved, always",
        Answer::Deny { .. } => "denied",
    };
    if info.holder.is_none() {
        let run = &info.run;
        note(&format!("{outcome}; no process is running it: `posse resume {run}` continues with the answer"));
    } else {
        note(outcome);
    }
}

/// Lists calls that wait, each with its agent, its id and the literal operation.
pub(super) fn list(
    waiting: &[(RunSummary, PendingQuestion)],
    json: bool,
    output: &mut Output,
) -> Result<(), CliError> {
    for (_, question) in waiting {
        if json {
            output.json(&api::Question::new(question))?;
        } else {
            let operation = term::visible_line(&question.operation);
            let start = format!("{}  {}  ", question.agent, term::line(&question.call_id));
            output.own(&match output_width() {
                Some(width) => hanging(&start, &operation, width),
                None => format!("{start}{operation}\n"),
            })?;
        }
    }
    output.flush()
}

/// Writes a text whose control characters were already made visible.
fn note_plainly(text: &str) {
    note(text.trim_end());
}
