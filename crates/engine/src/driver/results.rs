//! The results of tool calls, on their way into the journal.
//!
//! Why it is like this: `docs/decisions/integration-parallel-results.md`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::{EffectClass, SeenFile, ToolFinished, ToolInterrupted};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::DELEGATE_TO_AGENT;

use super::Driver;
use super::effects::Effect;
use super::session::CallStage;
use crate::ports::{RecoveredEffect, ToolFailure, ToolOutput, ToolResult};
use crate::skill_report::not_delegated;

/// Most bytes of one tool result that a conversation takes; the rest is cut with a mark.
pub(super) const OUTPUT_MAX_BYTES: usize = 256 * 1024;

/// The result of a call, on its way into the journal.
pub(super) struct Answer<'a> {
    pub(super) call_id: &'a str,
    pub(super) tool: &'a str,
    pub(super) result: ToolResult,
    pub(super) child: Option<AgentId>,
    pub(super) seen: Vec<SeenFile>,
    pub(super) elapsed_ms: u64,
}

impl Driver {
    /// A call's task has ended.
    pub(super) fn tool_done(
        &mut self,
        id: &AgentId,
        call_id: &Arc<str>,
        result: ToolResult,
        elapsed: Duration,
        cut: bool,
    ) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let kind = session.kind.clone();
        let Some(flight) = session.calls.remove(call_id) else { return };
        let Some(name) = session.machine.call_of(call_id).map(|call| call.name.clone()) else { return };
        self.scheduler.release(&kind);
        let held = flight.holds;
        let exec_cut = cut && flight.class == EffectClass::Exec;
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if exec_cut {
            let text = "the call did not end in time and was cut off; what it did is unknown";
            self.interrupted(id, call_id, &name, text, elapsed_ms);
        } else {
            self.finished(
                id,
                Answer { call_id, tool: &name, result, child: None, seen: flight.seen.take(), elapsed_ms },
            );
        }
        self.call_over(id, call_id, held);
        self.mark_ready(id);
    }

    /// What became of a write that a crash cut off.
    pub(super) fn recovered(&mut self, id: &AgentId, call_id: &Arc<str>, recovered: RecoveredEffect) {
        match recovered {
            RecoveredEffect::Done(output) => self.tool_done(id, call_id, Ok(output), Duration::ZERO, false),
            RecoveredEffect::Apply(prepared) => {
                let Some((context, _, _, limit)) = self.effect_of(id, call_id) else {
                    // The agent ends before the write is done again; the call's task is over all the same.
                    return self.forget_call(id, call_id);
                };
                if let Some(flight) =
                    self.sessions.get_mut(id).and_then(|session| session.calls.get_mut(call_id))
                {
                    flight.stage = CallStage::Committing;
                }
                self.after_commit(Effect::Run { call: context, prepared, limit });
            }
            RecoveredEffect::Unknown => {
                let Some(session) = self.sessions.get_mut(id) else { return };
                let kind = session.kind.clone();
                let held = session.calls.remove(call_id).is_some_and(|call| call.holds);
                let name = session.machine.call_of(call_id).map(|call| call.name.clone()).unwrap_or_default();
                self.scheduler.release(&kind);
                let text = "the process ended during this call and the file has changed since; look before you go on";
                self.interrupt(id, call_id, &name, text);
                self.change_ended(id, held);
                self.mark_ready(id);
            }
        }
    }

    pub(super) fn interrupt(&mut self, id: &AgentId, call_id: &str, tool: &str, text: &str) {
        self.interrupted(id, call_id, tool, text, 0);
    }

    fn interrupted(&mut self, id: &AgentId, call_id: &str, tool: &str, text: &str, elapsed_ms: u64) {
        let output = format!("Interrupted, outcome unknown: {text}").into();
        let interrupted =
            ToolInterrupted { call_id: call_id.to_owned(), tool: tool.to_owned(), output, elapsed_ms };
        self.emit(id.clone(), interrupted);
    }

    /// Answers a call that was not carried out by a task.
    pub(super) fn answer(&mut self, id: &AgentId, call_id: &str, tool: &str, result: ToolResult) {
        self.finished(id, Answer { call_id, tool, result, child: None, seen: Vec::new(), elapsed_ms: 0 });
    }

    /// The one place where a call gets its result.
    pub(super) fn finished(&mut self, id: &AgentId, answer: Answer<'_>) {
        let heard = self.post_tool_hooks_answered(id, &answer);
        let (ok, code, text, images) = match answer.result {
            Ok(ToolOutput { text, images }) => (true, None, text, images),
            Err(ToolFailure { code, text }) => {
                let text = format!("{code}: {text}");
                // What this one answers is JSON, also where it did not do it.
                let json = answer.tool == DELEGATE_TO_AGENT;
                (false, Some(code), if json { not_delegated(&text, id) } else { text }, Vec::new())
            }
        };
        let finished = ToolFinished {
            call_id: answer.call_id.to_owned(),
            tool: answer.tool.chars().take(64).collect(),
            ok,
            code,
            output: bounded(text).into(),
            images,
            child: answer.child,
            seen: answer.seen,
            elapsed_ms: answer.elapsed_ms,
        };
        self.emit(id.clone(), finished);
        if let Some(call) = heard {
            self.start_post_tool_hooks(id, call);
        }
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > OUTPUT_MAX_BYTES {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(OUTPUT_MAX_BYTES));
        let _ = write!(text, "\n[cut: {whole} bytes in all]");
    }
    text
}
