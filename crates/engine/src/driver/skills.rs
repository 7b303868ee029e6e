//! Skills for the driver: an agent loads a skill, forks a skill as a sub-agent, or a run executes only a skill.

use posse_agent::prompts::loaded_skill;
use posse_domain::code::Code;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{FailKind, Failure, Refusal, SpawnRequest};
use posse_domain::message::ToolCall;
use posse_domain::permission::BASH;
use posse_domain::skill::{Skill, title_of};

use super::Driver;
use super::desks::calls::HookVerdicts;
use super::desks::calls::skills::{READ, loadable_skill};
use crate::ports::{ToolFailure, ToolOutput};

/// The prompt of a forked skill without arguments.
const NO_ARGUMENTS: &str = "Execute the skill.";

impl Driver {
    /// Answers a `skill` call: at once with the instructions of an inline skill, or later with the result of a forked
    /// sub-agent.
    pub(super) fn use_skill(&mut self, id: &AgentId, call: &ToolCall, name: &str, arguments: &str) {
        match loadable_skill(&self.core, id, name) {
            Err(Refusal { code, reason }) => {
                self.answer(id, &call.id, &call.name, Err(ToolFailure { code, text: reason }));
            }
            Ok(skill) if skill.fork => {
                let request = forked(skill, arguments);
                self.spawn(id, call, &request, &HookVerdicts::default());
            }
            Ok(skill) => {
                let has =
                    |tool| self.core.run.open(id).is_some_and(|agent| agent.authority.grant().covers(tool));
                let (reads, runs) = (has(READ), has(BASH));
                // The text comes from the run's state, so it is the same after a crash even if the file has changed.
                let text = loaded_skill(skill, arguments, reads, runs);
                self.answer(id, &call.id, &call.name, Ok(ToolOutput::text(text)));
            }
        }
    }

    /// Starts the child of a run that only executes a skill, unless it was started already.
    pub(super) fn begin_run_skill(&mut self) {
        let root = self.core.run.id.root();
        let due = self.core.run.open(&root).is_some_and(|agent| agent.children == 0);
        let ending = !self.core.is_active(&root);
        if self.core.run.terms.skill.is_none() || !due || ending || self.core.stop.is_some() {
            return;
        }
        let class_of = |name: &str| self.core.rt.tools.get(name).map(|tool| tool.class);
        // The user requested the skill, so the root needs no right to fork it.
        let decided = self.core.run.spawn_run_skill(&class_of);
        match decided.and_then(|decided| self.check_room(&decided).map(|()| decided)) {
            Ok((child, body)) => {
                self.core.emit(child.clone(), body);
                if self.open_child(&child) {
                    self.begin_child(&child);
                }
            }
            Err(refusal) => {
                let (root, body) = self.core.run.refuse_run_skill(&refusal);
                self.core.emit(root.clone(), body);
                let kind = match refusal.code {
                    Code::BudgetExhausted => FailKind::Budget,
                    Code::MaxDepthExceeded | Code::SpawnNotAllowed | Code::PermissionDenied => {
                        FailKind::Policy
                    }
                    _ => FailKind::Execution,
                };
                let Refusal { code, reason } = refusal;
                self.end_attempt(&root, Failure { kind, code, reason, report: None });
            }
        }
    }
}

/// The request for the sub-agent of a forked skill.
fn forked(skill: &Skill, arguments: &str) -> SpawnRequest {
    let arguments = arguments.trim();
    SpawnRequest {
        skill: Some(skill.name.clone()),
        prompt: if arguments.is_empty() { NO_ARGUMENTS } else { arguments }.to_owned(),
        title: title_of(&skill.name, arguments),
        background: Some(skill.background),
        ..SpawnRequest::default()
    }
}
