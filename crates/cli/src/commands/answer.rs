//! The common part of `approve` and `deny`: finds the call, shows it and answers it.

use posse::{Answer, FoundQuestions, PendingQuestion, Posse, QuestionScope, RunSummary, StoredApproval, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::output::{Output, note};
use crate::questions::{describe, not_stored};
use crate::runtime;
use crate::term;

/// Selects the call to answer.
pub(super) struct CallSelector<'a> {
    /// A run or an agent.
    pub(super) agent: Option<&'a AgentArg>,
    /// The id of a call.
    pub(super) call: Option<&'a str>,
}

/// Answers the selected call. Lists the calls if the selection is ambiguous.
pub(super) fn answer(
    which: &CallSelector<'_>,
    answer: &Answer,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let reader = context.open_read_only()?;
    let FoundQuestions { unanswered: mut waiting, has_answered } = runtime::looking(find(&reader, which))?;
    drop(reader);
    let mut output = Output::new();
    if waiting.len() > 1 {
        list(&waiting, json, &mut output)?;
        return Err(CliError::usage(format!("{} calls wait for an answer", waiting.len()))
            .hint("name the one you mean by its agent, and its call if need be; nothing was done"));
    }
    let Some((info, question)) = waiting.pop() else {
        return Err(if has_answered {
            CliError::failed("the call was already answered").hint("it takes effect once its run is resumed")
        } else if which.agent.is_some() || which.call.is_some() {
            CliError::failed("no such call waits for an answer")
        } else {
            CliError::failed("no call waits for an answer")
        });
    };
    let always = *answer == Answer::Always;
    if always && question.always.is_none() {
        return Err(CliError::failed(format!(
            "--always would change nothing: {} asks every time",
            term::visible_line(&question.why())
        ))
        .hint("without --always it is allowed this once"));
    }
    note_plainly(&describe(&question));
    let posse = context.open_for_commands()?;
    match runtime::looking(async { Ok(posse.answer(&question, answer.clone()).await?) })? {
        StoredApproval::None => {}
        StoredApproval::Stored { literal, dir } => {
            note_plainly(&format!("kept `{}` for {dir}", term::visible(literal.as_str(), "    ")));
        }
        StoredApproval::Failed(error) => return Err(not_stored(error)),
    }
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
    if json {
        output.json(&api::Answer::new(&question, answer, info.holder.is_some()))?;
    }
    Ok(Exit::DONE)
}

/// Finds the selected calls.
async fn find(posse: &Posse, which: &CallSelector<'_>) -> Result<FoundQuestions, CliError> {
    let scope = match which.agent {
        None => QuestionScope::AllRuns,
        Some(agent) if agent.is_run() => QuestionScope::Run(agent.find(posse).await?.run()),
        Some(agent) => QuestionScope::Agent(agent.find(posse).await?),
    };
    Ok(posse.find_questions(&scope, which.call).await?)
}

fn list(waiting: &[(RunSummary, PendingQuestion)], json: bool, output: &mut Output) -> Result<(), CliError> {
    for (_, question) in waiting {
        if json {
            output.json(&api::Question::new(question))?;
        } else {
            let operation = term::visible_line(&question.operation);
            output.own(&format!("{}  {}  {operation}\n", question.agent, term::line(&question.call_id)))?;
        }
    }
    output.flush()
}

/// Writes a text whose control characters were already made visible.
fn note_plainly(text: &str) {
    note(text.trim_end());
}
