//! Summarises each event in one line for condensed timelines. Computed from the event's data, never stored.

use super::{AnsweredBy, Change, EventBody, Purpose, QuestionAnswer, QueuedFor};
use crate::code::Code;
use crate::lifecycle::{CloseReason, FailKind, cancelled};
use crate::message::pictures;
use crate::permission::Decision;
use crate::shown_model;
use crate::text::{Text, first_line};

/// Maximum number of characters of a text in a summary.
const SHOWN: usize = 80;

impl EventBody {
    /// The event in one line.
    pub fn summary(&self) -> String {
        match self {
            EventBody::RunStarted(e) => format!("run started: {}", line(&e.request.text)),
            EventBody::RunPlanned(e) => {
                format!("plan of {}: {}", counted(e.plan.steps.len(), "step"), shown(&e.plan.goal))
            }
            EventBody::RunResumed(e) => {
                format!("run resumed after {} ({} process)", time(e.unowned_ms), ordinal(e.epoch))
            }
            EventBody::RunCompleted(e) if e.turns_exhausted => {
                format!("run completed at its turn limit: {}", line(&e.text))
            }
            EventBody::RunCompleted(e) => format!("run completed: {}", line(&e.text)),
            EventBody::RunFailed(e) => format!("run failed: {} ({})", shown(&e.reason), e.code),
            EventBody::RunCancelled(e) => format!("run {}", cancelled(&shown(&e.reason))),
            EventBody::SubagentCreated(e) => {
                let skill = e.skill.as_deref().map(|skill| format!(" for skill {}", shown(skill)));
                format!(
                    "created {}{} at depth {}: {}",
                    shown(&e.definition),
                    skill.unwrap_or_default(),
                    e.depth,
                    shown(&e.contract.step.title)
                )
            }
            EventBody::SubagentQueued(e) => match e.waits_for {
                QueuedFor::Slot => "waiting for a free slot",
                QueuedFor::Ownership => "waiting: another agent is changing the same files",
                QueuedFor::Budget => "waiting: the remaining budget does not cover another call",
            }
            .to_owned(),
            EventBody::SubagentStarted(_) => "started".to_owned(),
            EventBody::SubagentAttempt(e) => format!("attempt {}: {}", e.n, shown(&e.reason)),
            EventBody::SubagentWaitingForMerge(e) if e.turns_exhausted => {
                format!("finished at its turn limit: {}", line(&e.report))
            }
            EventBody::SubagentWaitingForMerge(e) => format!("finished: {}", line(&e.report)),
            EventBody::SubagentFailed(e) if e.kind == FailKind::Cancelled => cancelled(&shown(&e.reason)),
            EventBody::SubagentFailed(e) => format!("failed: {} ({})", shown(&e.reason), e.code),
            EventBody::SubagentClosed(e) => closed(e),
            EventBody::SubagentRefused(e) => {
                format!("could not start {}: {} ({})", shown(&e.definition), shown(&e.reason), e.code)
            }
            EventBody::IntegrationPassed(e) => match e.change {
                Change::None => "integrated: no changes",
                Change::InPlace => "integrated: changed files in place",
                Change::Merged => "integrated: changes merged",
            }
            .to_owned(),
            EventBody::IntegrationFailed(e) if e.kind == FailKind::Cancelled => {
                format!("not integrated: {}", cancelled(&shown(&e.reason)))
            }
            EventBody::IntegrationFailed(e) => format!("not integrated ({})", e.code),
            EventBody::ChecksPassed(e) => format!("{} passed", counted(e.checks.len(), "check")),
            EventBody::ChecksFailed(e) => match e.checks.iter().find(|check| !check.ok) {
                Some(check) => format!("check failed: {} ({})", shown(&check.command), shown(&check.ended)),
                None => "checks failed".to_owned(),
            },
            EventBody::WorktreeConflicted(e) => {
                let first = e.files.first().map(|file| shown(file)).unwrap_or_default();
                format!("not merged ({}): {first}", counted(e.files.len(), "file"))
            }
            EventBody::WorktreeMerged(e) => format!("merged ({})", counted(number(e.paths), "file")),
            EventBody::WorkspaceMade(_) => "workspace created".to_owned(),
            EventBody::WorkspaceSalvaged(e) => match &e.problem {
                None if e.left_out_count == 0 => "saved the workspace".to_owned(),
                None => {
                    let skipped = counted(number(e.left_out_count), "ignored file");
                    format!("saved the workspace, skipped {skipped}")
                }
                Some(problem) => {
                    format!("kept the workspace, because it could not be inspected: {}", shown(problem))
                }
            },
            EventBody::WorkspaceRemoved(_) => "workspace removed".to_owned(),
            EventBody::ModelCalled(e) => called(e),
            EventBody::ModelReplied(e) => replied(e),
            EventBody::ProviderWaitStarted(e) => {
                format!("waits for {}: {}", shown(&e.provider), shown(&e.reason))
            }
            EventBody::ProviderWaitEnded(e) => format!("waited {} for its provider", time(e.waited_ms)),
            EventBody::ToolIntended(e) => match &e.specifier {
                Some(specifier) => format!("{}: {}", shown(&e.tool), shown(specifier)),
                None => shown(&e.tool),
            },
            EventBody::ToolFinished(e) if e.ok => match pictures(&e.images) {
                Some(pictures) => format!("{} done, {pictures}", shown(&e.tool)),
                None => format!("{} done", shown(&e.tool)),
            },
            EventBody::ToolFinished(e) if e.code == Some(Code::Cancelled) => {
                format!("{} cancelled", shown(&e.tool))
            }
            EventBody::ToolFinished(e) => tool_failed(e),
            EventBody::ToolInterrupted(e) => format!("{} interrupted, outcome unknown", shown(&e.tool)),
            EventBody::PermissionDecided(e) => {
                let decided = match e.decision {
                    Decision::Allow => "allowed",
                    Decision::Ask => "approval required",
                    Decision::Deny => "denied",
                };
                format!("{decided}: {}", shown(&e.operation))
            }
            EventBody::InputRequested(e) => format!("needs approval: {}", shown(&e.operation)),
            EventBody::InputAnswered(e) => answered(e),
            EventBody::MessageReceived(e) => format!("message: {}", line(&e.text)),
            EventBody::CancelRequested(e) => {
                let wish = if e.kill { "kill" } else { "cancel" };
                let by = format!("{wish} requested by {}", shown(&e.by));
                // The usual reason says only that.
                let is_usual = e.reason.ends_with(&format!(" by the {}", e.by));
                if is_usual { by } else { format!("{by}: {}", shown(&e.reason)) }
            }
            EventBody::ContextTrimmed(e) => {
                format!("{} removed from the context", counted(e.call_ids.len(), "old output"))
            }
            EventBody::ContextCompacted(e) => format!(
                "conversation compacted: a summary replaced {}, about {} tokens became {}",
                counted(number(e.replaced), "message"),
                e.tokens_before,
                e.tokens_after
            ),
            EventBody::TodoChanged(e) => {
                let done = e.items.iter().filter(|item| item.status == super::TodoStatus::Done).count();
                format!("to-do list: {done} of {} done", e.items.len())
            }
        }
    }
}

/// A time: `80 ms`, or `2.1 s`.
fn time(ms: u64) -> String {
    let tenths = ms / 100;
    if tenths < 10 { format!("{ms} ms") } else { format!("{}.{} s", tenths / 10, tenths % 10) }
}

/// A number as a rank: `2nd`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn number(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// A number with its noun, in the singular for 1.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// How an agent closed. The journal records a cancelled agent as failed, but users see it as cancelled.
fn closed(e: &super::SubagentClosed) -> String {
    if e.close_reason == CloseReason::Failed(FailKind::Cancelled) {
        return "closed: cancelled".to_owned();
    }
    let limit = if e.usage.turn_limited > 0 { " at its turn limit" } else { "" };
    match e.close_reason {
        CloseReason::Integrated => format!("closed: completed{limit}"),
        CloseReason::Failed(kind) => format!("closed: failed ({}){limit}", kind.as_str()),
    }
}

fn called(e: &super::ModelCalled) -> String {
    let (turn, model) = (e.turn, shown(&shown_model(&e.model)));
    if e.purpose == Purpose::Summary {
        format!("turn {turn}: asked {model} to summarise the conversation")
    } else {
        format!("turn {turn}: sent to {model}")
    }
}

/// How a call failed. The result that the model reads begins with the code, which is for programs.
fn tool_failed(e: &super::ToolFinished) -> String {
    let code = e.code.map(|code| format!(" ({code})")).unwrap_or_default();
    let why = match &e.output {
        Text::Here(text) => shown(e.without_code(text)),
        Text::Stored(_) => line(&e.output),
    };
    format!("{} failed: {why}{code}", shown(&e.tool))
}

fn replied(e: &super::ModelReplied) -> String {
    match (&e.error, &e.reply) {
        (Some(error), _) if error.code == Code::Cancelled => {
            format!("turn {}: the call was cancelled", e.turn)
        }
        (Some(error), _) if e.estimated => {
            format!("turn {}: the call was cut off: {} ({})", e.turn, shown(&error.message), error.code)
        }
        (Some(error), _) => {
            format!("turn {}: the model failed: {} ({})", e.turn, shown(&error.message), error.code)
        }
        (None, _) if e.summary => format!("turn {}: wrote a summary of the conversation", e.turn),
        (None, Some(reply)) if reply.calls.is_empty() => format!("turn {}: {}", e.turn, line(&reply.text)),
        (None, Some(reply)) if reply.calls.len() == 1 => {
            format!("turn {}: calls {}", e.turn, shown(&reply.calls[0].name))
        }
        (None, Some(reply)) => format!("turn {}: {} calls", e.turn, reply.calls.len()),
        (None, None) => format!("turn {}: a long reply", e.turn),
    }
}

fn answered(e: &super::InputAnswered) -> String {
    let answer = match (e.decision, e.always) {
        (QuestionAnswer::Allow, false) => "yes",
        (QuestionAnswer::Allow, true) => "yes, always",
        (QuestionAnswer::Deny, _) => "no",
    };
    let by = match e.by {
        AnsweredBy::Person => "the user",
        AnsweredBy::Host => "the host",
    };
    match &e.reason {
        Some(reason) => format!("answered by {by}: {answer}: {}", shown(reason)),
        None => format!("answered by {by}: {answer}"),
    }
}

/// The first line of a text. Names are shortened too, because models choose them.
fn shown(text: &str) -> String {
    first_line(text, SHOWN)
}

fn line(text: &Text) -> String {
    match text {
        Text::Here(text) => shown(text),
        Text::Stored(at) => format!("({} bytes)", at.bytes),
    }
}
