//! Journals the results of tool calls for the call desk.
//!
//! Why it is like this: `docs/decisions/integration-parallel-results.md`.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use posse_domain::event::{EffectClass, FilesCommit, SeenFile, ToolFinished, ToolInterrupted};
use posse_domain::id::AgentId;
use posse_domain::lifecycle::DELEGATE_TO_AGENT;

use super::task::CallEffect;
use super::{CallDesk, CallStage, CommittedFiles};
use crate::driver::core::Core;
use crate::driver::desks::files::FilesDesk;
use crate::driver::effects::Effect;
use crate::ports::{RecoveredEffect, ToolFailure, ToolOutput, ToolResult};
use crate::skill_report::not_delegated;

/// Limit of a tool result in a conversation. The rest is cut and marked.
pub(crate) const OUTPUT_MAX_BYTES: usize = 256 * 1024;

/// The result of a call that is about to be journalled.
pub(crate) struct Answer<'a> {
    pub(crate) call_id: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) result: ToolResult,
    pub(crate) child: Option<AgentId>,
    pub(crate) seen: Vec<SeenFile>,
    pub(crate) files: CommittedFiles,
    pub(crate) elapsed_ms: u64,
}

/// How a call's task ended.
pub(crate) struct CallEnd {
    pub(crate) result: ToolResult,
    pub(crate) elapsed: Duration,
    /// Whether the call was aborted at a limit.
    pub(crate) cut: bool,
    pub(crate) files: CommittedFiles,
}

impl CallEnd {
    /// The end of a call that changed no file.
    pub(super) fn unchanged(result: ToolResult) -> Self {
        Self { result, elapsed: Duration::ZERO, cut: false, files: CommittedFiles::default() }
    }
}

impl CallDesk {
    /// Takes the result of a call's task.
    pub(crate) fn ended(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        end: CallEnd,
    ) {
        let CallEnd { result, elapsed, cut, files: after } = end;
        let Some(session) = core.sessions.get(id) else { return };
        let name = session.machine.call_of(call_id).map(|call| call.name.clone());
        let Some(call) = self.remove(id, call_id) else { return };
        let Some(name) = name else { return };
        core.release_slot(id);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        if cut && call.class == EffectClass::Exec {
            let text = "the call did not end in time and was cut off; what it did is unknown";
            interrupted(core, id, call_id, &name, text, after.commit, elapsed_ms);
        } else {
            let seen = call.seen.take();
            self.finish(
                core,
                files,
                id,
                Answer { call_id, tool: &name, result, child: None, seen, files: after, elapsed_ms },
            );
        }
        // Hooks of the result still use the files of the call.
        match self.call_mut(id, call_id) {
            Some(hooking) => hooking.holds = call.holds,
            None => files.end_change(core, id, call.holds),
        }
        core.mark_ready(id);
    }

    /// Takes the recovery result of a write that a crash interrupted.
    pub(crate) fn recovered(
        &mut self,
        core: &mut Core,
        files: &mut FilesDesk,
        id: &AgentId,
        call_id: &Arc<str>,
        recovered: RecoveredEffect,
        after: CommittedFiles,
    ) {
        match recovered {
            RecoveredEffect::Done(output) => {
                let end = CallEnd { files: after, ..CallEnd::unchanged(Ok(output)) };
                self.ended(core, files, id, call_id, end);
            }
            RecoveredEffect::Apply(prepared) => {
                let Some((context, _, _, limit)) = self.effect_of(core, files, id, call_id) else {
                    // The agent is ending, so the write is not repeated.
                    return self.forget_call(core, files, id, call_id);
                };
                if let Some(call) = self.call_mut(id, call_id) {
                    call.stage = CallStage::Committing;
                }
                core.after_commit(Effect::Call(Box::new(CallEffect::Run { call: context, prepared, limit })));
            }
            RecoveredEffect::Unknown => {
                let Some(session) = core.sessions.get(id) else { return };
                let name = session.machine.call_of(call_id).map(|call| call.name.clone()).unwrap_or_default();
                let held = self.remove(id, call_id).is_some_and(|call| call.holds);
                core.release_slot(id);
                let text = "the process ended during this call and the file has changed since; read it before you continue";
                Self::interrupt(core, id, call_id, &name, text, after.commit);
                files.end_change(core, id, held);
                core.mark_ready(id);
            }
        }
    }

    /// Journals that the outcome of a call is unknown, with the files that it left, if they are known.
    pub(crate) fn interrupt(
        core: &mut Core,
        id: &AgentId,
        call_id: &str,
        tool: &str,
        text: &str,
        files: Option<FilesCommit>,
    ) {
        interrupted(core, id, call_id, tool, text, files, 0);
    }

    /// Gives a call its result. Every result passes through here.
    pub(crate) fn finish(&mut self, core: &mut Core, files: &FilesDesk, id: &AgentId, answer: Answer<'_>) {
        let hooked = Self::post_tool_hook_input(core, id, &answer);
        let (ok, failure, text, images) = match answer.result {
            Ok(ToolOutput { text, images }) => (true, None, text, images),
            Err(ToolFailure { code, text }) => {
                let text = format!("{code}: {text}");
                // Results of this tool are JSON, also if it failed.
                let json = answer.tool == DELEGATE_TO_AGENT;
                (false, Some(code), if json { not_delegated(&text, id) } else { text }, Vec::new())
            }
        };
        let finished = ToolFinished {
            call_id: answer.call_id.to_owned(),
            tool: answer.tool.chars().take(64).collect(),
            ok,
            code: failure,
            output: bounded(text).into(),
            images,
            child: answer.child,
            seen: answer.seen,
            files: answer.files.commit,
            files_problem: answer.files.problem,
            elapsed_ms: answer.elapsed_ms,
        };
        core.emit(id.clone(), finished);
        if let Some(call) = hooked {
            self.start_post_tool_hooks(core, files, id, call);
        }
    }
}

fn interrupted(
    core: &mut Core,
    id: &AgentId,
    call_id: &str,
    tool: &str,
    text: &str,
    files: Option<FilesCommit>,
    elapsed_ms: u64,
) {
    let output = format!("Interrupted, outcome unknown: {text}").into();
    let interrupted =
        ToolInterrupted { call_id: call_id.to_owned(), tool: tool.to_owned(), output, files, elapsed_ms };
    core.emit(id.clone(), interrupted);
}

fn bounded(mut text: String) -> String {
    if text.len() > OUTPUT_MAX_BYTES {
        let whole = text.len();
        text.truncate(text.floor_char_boundary(OUTPUT_MAX_BYTES));
        let _ = write!(text, "\n[cut: {whole} bytes in all]");
    }
    text
}
