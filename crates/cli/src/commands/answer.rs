//! What `approve` and `deny` share: finding the call that is meant, showing it, answering.

use posse::{Answer, Posse, Request, RunInfo, StoredApproval, api};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::ids::AgentArg;
use crate::output::{Output, note};
use crate::questions::{describe, not_stored};
use crate::runtime;
use crate::term;

/// Runs that are looked through for calls that wait.
const LOOKED_THROUGH: u32 = 1_000;

/// Which call is meant.
pub(super) struct CallSelector<'a> {
    /// A run or an agent.
    pub(super) agent: Option<&'a AgentArg>,
    /// A call.
    pub(super) call: Option<&'a str>,
}

/// Answers the one call that is meant; lists them if it is not clear which.
pub(super) fn answer(
    which: &CallSelector<'_>,
    answer: &Answer,
    json: bool,
    context: &Context,
) -> Result<Exit, CliError> {
    let looking = context.open_read_only()?;
    let (mut waiting, answered) = runtime::looking(find(&looking, which))?;
    drop(looking);
    let mut output = Output::new();
    if waiting.len() > 1 {
        list(&waiting, json, &mut output)?;
        return Err(CliError::usage(format!("{} calls wait for a person", waiting.len()))
            .hint("name the one you mean by its agent, and its call if need be; nothing was done"));
    }
    let Some((info, request)) = waiting.pop() else {
        return Err(if answered {
            CliError::failed("the call has its answer already").hint("it counts once its run is resumed")
        } else {
            CliError::failed("no such call waits for a person")
        });
    };
    let always = *answer == Answer::Always;
    if always && request.always.is_none() {
        return Err(CliError::failed(format!(
            "--always would change nothing: {} asks every time",
            term::visible_line(&request.why())
        ))
        .hint("without --always it is allowed this once"));
    }
    note_plainly(&describe(&request));
    let posse = context.open_to_post()?;
    match runtime::looking(async { Ok(posse.answer(&request, answer.clone()).await?) })? {
        StoredApproval::None => {}
        StoredApproval::Stored { literal, dir } => {
            note_plainly(&format!("kept `{}` for {dir}", term::visible(literal.as_str(), "    ")));
        }
        StoredApproval::Failed(error) => return Err(not_stored(error)),
    }
    let said = match answer {
        Answer::Once => "approved",
        Answer::Always => "approved, always",
        Answer::Deny { .. } => "denied",
    };
    if info.holder.is_none() {
        let run = &info.run;
        note(&format!("{said}; no process is running it: `posse resume {run}` goes on with the answer"));
    } else {
        note(said);
    }
    if json {
        output.json(&api::Answer::new(&request, answer, info.holder.is_some()))?;
    }
    Ok(Exit::DONE)
}

/// The calls that may be meant, each with its run; and whether one of them has its answer already.
async fn find(posse: &Posse, which: &CallSelector<'_>) -> Result<(Vec<(RunInfo, Request)>, bool), CliError> {
    let (agent, runs) = if let Some(agent) = which.agent {
        let found = agent.find(posse).await?;
        let run = found.run();
        ((!agent.is_run()).then_some(found), vec![run])
    } else {
        let all = posse.runs("", LOOKED_THROUGH).await?;
        (None, all.into_iter().filter(|run| run.status.is_running()).map(|run| run.run).collect())
    };
    let mut waiting = Vec::new();
    let mut answered = false;
    for run in runs {
        let info = posse.get(&run).await?;
        if let Some(agent) = &agent
            && !info.agents.iter().any(|known| known.id == *agent)
        {
            return Err(posse::Error::NoAgent(agent.clone()).into());
        }
        if which.agent.is_some() && !info.status.is_running() {
            return Err(posse::Error::Ended { run, status: info.status }.into());
        }
        for request in posse.requests(&run).await? {
            let meant = agent.as_ref().is_none_or(|agent| request.agent == *agent)
                && which.call.is_none_or(|call| request.call_id == call);
            if meant && request.is_answered {
                answered = true;
            } else if meant {
                waiting.push((info.clone(), request));
            }
        }
    }
    Ok((waiting, answered))
}

fn list(waiting: &[(RunInfo, Request)], json: bool, output: &mut Output) -> Result<(), CliError> {
    for (_, request) in waiting {
        if json {
            output.json(&api::Question::new(request))?;
        } else {
            let operation = term::visible_line(&request.operation);
            output.own(&format!("{}  {}  {operation}\n", request.agent, term::line(&request.call_id)))?;
        }
    }
    output.flush()
}

/// Writes a text in which everything was made visible.
fn note_plainly(text: &str) {
    note(text.trim_end());
}
