//! Calls that wait for a person.
//!
//! An `ask` is journalled as a question and the call waits in the engine: it holds no slot, but keeps its place, so
//! what must come after it does. The answer is a command from outside like a cancel; whoever gives it, and whether
//! before or after a crash, it is taken in the commit that acts on it. From then on the call is dispatched as if for
//! the first time, and finds the answer in the state. There is one way to go on for a call that was just answered
//! and for one whose answer is found by a resume.

use std::sync::Arc;

use posse_domain::code::Code;
use posse_domain::event::{AnsweredBy, EffectClass};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{OpenAgent, Question, RequestState, call_of_command};
use posse_domain::message::ToolCall;
use posse_domain::permission::{Answer, Decision, LayerName, Operation, Verdict, approval_hash};

use super::Driver;
use super::calls::brief;
use super::session::{CallInFlight, CallStage, SeenDuringCall};
use crate::ports::ToolFailure;

/// What becomes of a call that is not refused.
pub(super) enum Admission {
    /// It goes on.
    Goes,
    /// It waits for a person.
    Asks,
}

/// The operation of a call that a person said yes to.
pub(super) fn consented<'a>(agent: &'a OpenAgent, call_id: &str) -> Option<Operation<'a>> {
    let request = agent.requests.get(call_id)?;
    (request.state == RequestState::Allowed).then(|| Operation::parse(&request.operation))
}

impl Driver {
    /// Rules ask about a call, or about a command of the call `of`: a person is asked, or it is a no where there is nobody.
    pub(super) fn ask(
        &mut self,
        id: &AgentId,
        of: &str,
        call: &ToolCall,
        operation: &Operation<'_>,
        verdict: &Verdict,
    ) -> Result<Admission, ToolFailure> {
        self.emit_decision(id, of, operation, verdict);
        if !self.run.may_ask(id, self.attended) {
            let by_hook = verdict.by() == Some(&LayerName::Hook);
            return Err(self.no_person_to_ask(id, operation, verdict, by_hook));
        }
        let question = Question {
            call_id: &call.id,
            operation,
            verdict,
            arguments: call.input.to_string().into(),
            approval: self.approval_of(id, call)?,
        };
        let decided = self.run.ask(id, question);
        let Some((id, body)) = decided else { return Err(ToolFailure::failed("the call was asked about")) };
        self.emit(id, body);
        Ok(Admission::Asks)
    }

    /// A call that a person was asked about: goes on with their answer, or waits for it.
    pub(super) fn resolve_answer(
        &mut self,
        id: &AgentId,
        call: &ToolCall,
        operation: &Operation<'_>,
        verdict: &Verdict,
    ) -> Result<Admission, ToolFailure> {
        let approval = self.approval_of(id, call)?;
        let request = self.run.open(id).and_then(|agent| agent.requests.get(&call.id)).cloned();
        let Some(request) = request else { return Err(ToolFailure::failed("the agent is not open")) };
        if request.approval != approval {
            // A journal that was kept whole cannot tell of another call; if it does, nothing is believed.
            return Err(denied(format!("`{}` is not what a person was asked about", brief(operation))));
        }
        match (request.state, verdict.decision) {
            (RequestState::Denied { by: AnsweredBy::Host, .. }, _) => {
                Err(self.no_person_to_ask(id, operation, verdict, request.by_hook))
            }
            (RequestState::Denied { by: AnsweredBy::Person, reason }, _) => {
                let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                Err(denied(format!("a person said no to `{}`{why}", brief(operation))))
            }
            // What the rules say is looked at again: a yes lifts an ask and nothing else.
            (RequestState::Allowed, _) => match verdict.clone().consented() {
                Verdict { decision: Decision::Allow, .. } => Ok(Admission::Goes),
                verdict => Err(denied(format!("`{}` is not allowed ({verdict})", brief(operation)))),
            },
            (RequestState::Open, Decision::Allow) if !request.by_hook => {
                // Somebody said "always" to the same operation of another call meanwhile.
                self.answer_as_host(id, &call.id, &approval, Answer::Once);
                Ok(Admission::Goes)
            }
            (RequestState::Open, _) if self.run.may_ask(id, self.attended) => Ok(Admission::Asks),
            (RequestState::Open, _) => {
                let reason = Some("there is nobody to ask".to_owned());
                self.answer_as_host(id, &call.id, &approval, Answer::Deny { reason });
                Err(self.no_person_to_ask(id, operation, verdict, request.by_hook))
            }
        }
    }

    /// What an answer about this call is bound to.
    fn approval_of(&self, id: &AgentId, call: &ToolCall) -> Result<Hash, ToolFailure> {
        let agent = self.run.open(id).ok_or_else(|| ToolFailure::failed("the agent is not open"))?;
        Ok(approval_hash(&call.name, &call.input, &agent.contract.hash()))
    }

    fn answer_as_host(&mut self, id: &AgentId, call_id: &str, approval: &Hash, answer: Answer) {
        if let Ok((id, body)) = self.run.answer(id, call_id, approval, answer, AnsweredBy::Host) {
            self.emit(id.clone(), body);
            self.watch_deadlines_below(&id);
        }
    }

    /// The call waits here, in its place among the calls of its reply.
    pub(super) fn wait_for_person(&mut self, id: &AgentId, call_id: &str, class: EffectClass) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let seen = Arc::new(SeenDuringCall::default());
        session.calls.insert(call_id.into(), CallInFlight::new(class, CallStage::Asking, seen));
    }

    /// An answer from outside. One that nobody waits for any more changes nothing.
    pub(super) fn take_answer(&mut self, id: &AgentId, call_id: &str, approval: &Hash, answer: Answer) {
        let always = answer == Answer::Always;
        match self.run.answer(id, call_id, approval, answer, AnsweredBy::Person) {
            Ok((id, body)) => self.emit(id, body),
            Err(problem) => {
                tracing::warn!(agent_id = %id, call_id, %problem, "an answer was ignored");
                return;
            }
        }
        self.watch_deadlines_below(id);
        self.go_on_with(id, call_id);
        if always {
            self.go_on_with_covered();
        }
    }

    /// Dispatches an answered call again. After a resume no call waits here: it is dispatched with the others of its reply.
    fn go_on_with(&mut self, id: &AgentId, call_id: &str) {
        let call_id = call_of_command(call_id).unwrap_or(call_id);
        if id.is_root() && self.run.step_called(call_id).is_some() {
            self.mark_plan();
            return self.mark_ready(id);
        }
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.ending.is_none()) else {
            return;
        };
        let asks = session.calls.get(call_id).is_some_and(|call| matches!(call.stage, CallStage::Asking));
        let Some(call) = session.machine.call_of(call_id).filter(|_| asks).cloned() else { return };
        session.calls.remove(call_id);
        self.dispatch_one(id, &call);
        // What had to come after it may come now.
        self.mark_ready(id);
    }

    /// Questions that an "always" has answered along with its own.
    fn go_on_with_covered(&mut self) {
        let approvals = &self.run.terms.approvals;
        let covered = self.run.open_requests().filter(|(id, _, request)| {
            let operation = Operation::parse(&request.operation);
            let verdict = self.run.open(id).map(|agent| agent.authority.decide(approvals, &operation));
            verdict.is_some_and(|verdict| verdict.decision == Decision::Allow)
        });
        let covered: Vec<(AgentId, String)> =
            covered.map(|(id, call_id, _)| (id.clone(), call_id.to_owned())).collect();
        for (id, call_id) in covered {
            self.go_on_with(&id, &call_id);
        }
    }

    /// Watches the deadlines that stood still.
    fn watch_deadlines_below(&mut self, id: &AgentId) {
        for id in self.run.subtree(id) {
            if !self.run.is_stopped(&id) {
                self.watch_deadline(&id);
            }
        }
    }

    /// What the agent asks a person about.
    pub(super) fn asks_about(&self, id: &AgentId) -> Option<&str> {
        let requests = &self.run.open(id)?.requests;
        let open = requests.values().find(|request| request.state == RequestState::Open);
        open.map(|request| request.operation.as_str())
    }

    /// Why an `ask` is a no, and what a person could have done about it.
    fn no_person_to_ask(
        &self,
        id: &AgentId,
        operation: &Operation<'_>,
        verdict: &Verdict,
        by_hook: bool,
    ) -> ToolFailure {
        let why = if id.is_root() {
            "needs a person's permission and there is nobody to ask"
        } else {
            "needs permission, and sub-agents cannot request permission"
        };
        let approvals = &self.run.terms.approvals;
        let agent = self.run.open(id);
        let lifting = || agent.and_then(|agent| agent.authority.literal_that_lifts(approvals, operation));
        let hint = if by_hook {
            // What is allowed in advance is a word to the rules, and a hook is asked all the same.
            let attending = if id.is_root() { "at the terminal of the run, or " } else { "" };
            Some(format!(
                "; no rule answers a hook's question, a person does: {attending}with `posse approve` in a run with \
                 --on-ask escalate"
            ))
        } else {
            lifting().map(|literal| format!("; a person allows it in advance with --allow '{literal}'"))
        };
        denied(format!("`{}` {why} ({verdict}){}", brief(operation), hint.unwrap_or_default()))
    }
}

fn denied(text: String) -> ToolFailure {
    ToolFailure { code: Code::PermissionDenied, text }
}
