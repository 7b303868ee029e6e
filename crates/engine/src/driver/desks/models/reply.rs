//! The end of a model call: the model desk charges and journals it, and may decide on another call.

use posse_agent::machine::{CallPlace, accept};
use posse_domain::budget::{Price, Usage};
use posse_domain::code::Code;
use posse_domain::event::{CallError, ContextCompacted, ModelReplied};
use posse_domain::id::AgentId;
use posse_domain::message::Reply;

use super::context::{name_longest_part, omit_outputs};
use super::provider::AfterFailure;
use super::{ModelDesk, ModelDone};
use crate::driver::core::Core;
use crate::driver::session::AgentWait;
use crate::ports::{ModelFailure, ModelReply};

/// Largest reply that is accepted. A larger one is a failed call.
const REPLY_MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How the agent continues after a model call.
pub(crate) enum ReplyOutcome {
    /// The agent does not wait for this call any more.
    Stale,
    /// The request differs from the recorded one. The replay ends with this reason.
    ReplayDiffers(String),
    /// The call is charged. These tool calls of its reply are answered with a problem and never run.
    Charged { unrunnable: Vec<(String, String, &'static str)> },
}

impl ModelDesk {
    /// Takes the end of a model call: frees its slot, charges it, and journals it.
    pub(crate) fn replied(&mut self, core: &mut Core, done: &ModelDone) -> ReplyOutcome {
        let id = &done.agent;
        let Some(session) = core.sessions.get_mut(id) else { return ReplyOutcome::Stale };
        let machine = &session.machine;
        if machine.in_flight() != Some(done.place) || !matches!(session.wait, AgentWait::Reply(_)) {
            return ReplyOutcome::Stale;
        }
        session.wait = AgentWait::Idle;
        let report_turn = machine.is_reporting();
        core.release_slot(id);
        let next = self.after_failure(core, done);
        let price = self.facts(id).and_then(|facts| facts.price);
        let (reply, repeated, mut replied) = charge_call(done, price);
        if let Some(error) = &mut replied.error {
            error.again = !matches!(next, AfterFailure::Over);
            if error.code == Code::ContextOverflow && !error.again {
                name_longest_part(core, id, &mut error.message);
            }
        }
        let compacted = compaction(core, done, &replied);
        let reason = replied.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
        core.emit(id.clone(), Box::new(replied));
        if let Some(compacted) = compacted {
            core.emit(id.clone(), compacted);
        }
        if let Err(ModelFailure { error, .. }) = &done.result
            && error.code == Code::ReplayDiffers
        {
            return ReplyOutcome::ReplayDiffers(error.message.clone());
        }
        match next {
            AfterFailure::Over => {
                if let Some(agent) = self.agents.get_mut(id) {
                    agent.silent = None;
                }
            }
            AfterFailure::Again { after, limited, most } => {
                // After the first call, the second one is the first retry.
                let retry = format!("{reason}, retry {} of {most}", done.place.call);
                self.pause(core, id, after, limited, &retry);
            }
            AfterFailure::Shorter(call_ids) => omit_outputs(core, id, call_ids),
            // The summary is the agent's next call.
            AfterFailure::Compact => {}
        }
        ReplyOutcome::Charged { unrunnable: unrunnable(reply.as_ref(), &repeated, report_turn) }
    }

    /// Charges a model call that was cut off before its reply with its reserve. With `again`, another call may follow
    /// in the same turn.
    pub(crate) fn forfeit(core: &mut Core, id: &AgentId, cause: Code, message: &str, again: bool) {
        let Some(reserved) = core.run.open(id).and_then(|agent| agent.calling) else { return };
        let Some(session) = core.sessions.get(id) else { return };
        let Some(CallPlace { attempt, turn, call, summary }) = session.machine.in_flight() else { return };
        let replied = ModelReplied {
            attempt,
            turn,
            call,
            reply: None,
            reply_at: None,
            error: Some(CallError { code: cause, message: message.to_owned(), status: None, again }),
            usage: reserved.as_usage(),
            estimated: true,
            tag: None,
            // Filled in with the event's time.
            elapsed_ms: 0,
            cut_off: false,
            summary,
        };
        core.emit(id.clone(), Box::new(replied));
    }
}

/// The compaction that follows from the reply to a summary call. It is in the commit of the reply, so that no crash
/// separates them.
fn compaction(core: &Core, done: &ModelDone, replied: &ModelReplied) -> Option<ContextCompacted> {
    let reply = replied.reply.as_ref().filter(|_| replied.summary)?;
    let machine = &core.sessions.get(&done.agent)?.machine;
    machine.compacted_by_reply(&reply.text.to_shared(), replied.cut_off, done.reserved.output_tokens)
}

/// The tool calls that are answered and never run: calls with a repeated id, and calls on a turn without tools.
fn unrunnable(
    reply: Option<&Reply>,
    repeated: &[String],
    report_turn: bool,
) -> Vec<(String, String, &'static str)> {
    // Repeated ids are in call order. Comparing only the next one keeps a reply with many calls cheap.
    let mut repeated = repeated.iter().peekable();
    let calls = reply.into_iter().flat_map(|reply| &reply.calls);
    let problem = |id: &String| {
        if report_turn {
            Some("no tool could be called on the report turn")
        } else if repeated.next_if(|repeated| *repeated == id).is_some() {
            Some("another call of this reply has the same id; this one was not run")
        } else {
            None
        }
    };
    let mut problem = problem;
    calls
        .filter_map(|call| problem(&call.id).map(|text| (call.id.clone(), call.name.clone(), text)))
        .collect()
}

/// The event of an ended call, its reply, and the repeated ids.
fn charge_call(done: &ModelDone, price: Option<Price>) -> (Option<Reply>, Vec<String>, ModelReplied) {
    let mut replied = ModelReplied {
        attempt: done.place.attempt,
        turn: done.place.turn,
        call: done.place.call,
        reply: None,
        reply_at: None,
        error: None,
        usage: done.reserved.as_usage(),
        estimated: false,
        tag: None,
        elapsed_ms: u64::try_from(done.elapsed.as_millis()).unwrap_or(u64::MAX),
        cut_off: false,
        summary: done.place.summary,
    };
    match &done.result {
        Ok(ModelReply { reply, usage, cut_off, tag }) => {
            replied.cut_off = *cut_off;
            replied.usage = priced(*usage, price);
            replied.tag.clone_from(tag);
            if reply.text.len_bytes() > REPLY_MAX_BYTES {
                let message = format!("a reply of {} bytes is more than is taken", reply.text.len_bytes());
                replied.error = Some(CallError::new(Code::ModelError, message));
                return (None, Vec::new(), replied);
            }
            let (mut reply, repeated) = accept(reply.clone());
            if done.place.summary {
                // No tool was offered. Without its calls, the reply's own format is of no use either.
                (reply.calls, reply.raw) = (Vec::new(), None);
            }
            replied.reply = Some(reply.clone());
            (Some(reply), repeated, replied)
        }
        Err(failure) => {
            replied.error = Some((*failure.error).clone());
            replied.tag.clone_from(&failure.tag);
            match failure.usage {
                Some(usage) => replied.usage = priced(usage, price),
                None => replied.estimated = true,
            }
            (None, Vec::new(), replied)
        }
    }
}

fn priced(usage: Usage, price: Option<Price>) -> Usage {
    Usage { micro_usd: usage.micro_usd.or_else(|| price.map(|price| price.cost(&usage))), ..usage }
}
