//! A driver without IO: it executes the machine's decisions, and the machine sees only events.

use posse_domain::budget::{Amount, Usage};
use posse_domain::code::Code;
use posse_domain::contract::Contract;
use posse_domain::event::{
    CallError, EffectClass, EventBody, HostNote, MessageReceived, ModelCalled, ModelReplied, Purpose,
    ReportCause, Sender, SubagentAttempt, SummaryScope, ToolFinished, ToolIntended, ToolInterrupted,
};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::FailKind;
use posse_domain::message::{Reply, ToolCall};
use serde_json::{Value, json};

use crate::conversation::{Conversation, Message};
use crate::machine::{Machine, Next, accept};

pub(super) fn contract(max_turns: Option<u32>, schema: Option<&Value>) -> Contract {
    let value = json!({
        "version": 1,
        "context": {"depth": 1, "max_depth": 2, "parent_task_id": "k3f9ab2c", "root_task_id": "k3f9ab2c"},
        "parent": {"run_id": "k3f9ab2c", "agent_id": "k3f9ab2c", "message_id": "m1", "step_idx": 0,
            "task_prompt": "all of it", "goal_summary": "all of it", "continues": null, "repairs": null},
        "step": {"title": "find it", "description": "Find it.", "success_criteria": [], "owns": [], "required": false},
        "permissions": {"allowed_tools": ["read"], "rules": [], "can_spawn_children": false,
            "max_delegation_depth": 0, "may_share_history": false, "on_ask": "deny"},
        "execution": {"definition": "scout", "skill": null, "model": "a/b", "temperature": null, "top_p": null,
            "max_turns": max_turns, "turn_timeout_ms": null, "attempt_timeout_ms": 600_000, "idle_timeout_ms": 120_000,
            "max_retries": 1, "max_retries_per_tool": 3, "close_on_completion": true, "share_history": false,
            "extra_context": null},
        "budget": {},
        "outputs": {"report_format": "markdown", "report_path_pattern": "x", "result_schema": schema},
    });
    serde_json::from_value(value).expect("a contract")
}

/// A machine with all events that were applied to it.
pub(super) struct MachineFixture {
    pub(super) contract: Contract,
    pub(super) machine: Machine,
    pub(super) events: Vec<EventBody>,
    pub(super) children: bool,
}

impl MachineFixture {
    pub(super) fn new(max_turns: Option<u32>, schema: Option<&Value>) -> Self {
        let contract = contract(max_turns, schema);
        let machine = Machine::new(&contract, Conversation::default());
        Self { contract, machine, events: Vec::new(), children: false }
    }

    pub(super) fn tell(&mut self, body: impl Into<EventBody>) {
        let body = body.into();
        self.machine.apply(&body);
        self.events.push(body);
    }

    pub(super) fn next(&self) -> Next {
        self.machine.next(self.children)
    }

    /// The machine that a new process folds from the same events.
    pub(super) fn folded(&self) -> Machine {
        let mut machine = Machine::new(&self.contract, Conversation::default());
        self.events.iter().for_each(|body| machine.apply(body));
        machine
    }

    /// Calls the model as the machine decides. Returns the turn and the purpose.
    pub(super) fn ask(&mut self) -> (u32, Purpose) {
        self.ask_because(None)
    }

    /// Like [`ask`](Self::ask), with the driver's own cause for the report.
    pub(super) fn ask_because(&mut self, cause_now: Option<ReportCause>) -> (u32, Purpose) {
        let Next::CallModel { turn, call, purpose, cause } = self.next() else { panic!("{:?}", self.next()) };
        let (purpose, cause) =
            if cause_now.is_some() { (Purpose::Report, cause_now) } else { (purpose, cause) };
        let (upcoming, _) = self.machine.upcoming(cause);
        self.tell(ModelCalled {
            attempt: self.machine.attempt(),
            turn,
            call,
            purpose,
            cause,
            reason: cause_now.map(|_| "the budget of the run is exhausted".to_owned()),
            trimmed: false,
            scope: None,
            model: "a/b".to_owned(),
            request_hash: upcoming,
            reserved: Amount { input_tokens: 1, output_tokens: 1, micro_usd: None },
            preamble: None,
        });
        assert_eq!(self.next(), Next::Wait);
        assert_eq!(self.machine.conversation().hash(), upcoming, "what was announced is what is sent");
        (turn, purpose)
    }

    /// Asks for the summary that is due if the messages of a request may have `window_tokens`.
    pub(super) fn ask_for_summary(&mut self, window_tokens: u64) {
        let Next::CallModel { turn, cause, .. } = self.next() else { panic!("{:?}", self.next()) };
        let cut = self.machine.due_compaction(cause, window_tokens).expect("a compaction is due");
        let hash = self.machine.conversation().hash();
        self.tell(ModelCalled {
            attempt: self.machine.attempt(),
            turn,
            call: self.machine.next_summary_call(),
            purpose: Purpose::Summary,
            cause: None,
            reason: None,
            trimmed: false,
            scope: Some(SummaryScope { messages: cut.messages as u64, input_tokens: window_tokens }),
            model: "a/b".to_owned(),
            request_hash: hash,
            reserved: Amount { input_tokens: 1, output_tokens: cut.summary_tokens, micro_usd: None },
            preamble: None,
        });
        assert_eq!(self.next(), Next::Wait);
        assert_eq!(self.machine.conversation().hash(), hash, "the conversation waits for the summary");
    }

    /// The model writes the summary.
    pub(super) fn summarise(&mut self, text: &str) {
        let compacted = self.machine.compacted_by_reply(text, false, 600).expect("a summary was asked for");
        self.reply(text, &[]);
        self.tell(compacted);
    }

    /// The provider refuses the request as too long, and another call follows.
    pub(super) fn refuse_as_too_long(&mut self) {
        let message = "prompt is too long".to_owned();
        let error = CallError { code: Code::ContextOverflow, message, status: Some(400), again: true };
        self.tell(self.replied(None, Some(error)));
    }

    fn replied(&self, reply: Option<Reply>, error: Option<CallError>) -> EventBody {
        let replied = ModelReplied {
            attempt: self.machine.attempt(),
            turn: self.machine.in_flight().map_or(0, |place| place.turn),
            call: self.machine.in_flight().map_or(0, |place| place.call),
            reply,
            reply_at: None,
            error,
            usage: Usage::ZERO,
            estimated: false,
            tag: Some("rule:1".to_owned()),
            elapsed_ms: 10,
            cut_off: false,
            summary: self.machine.in_flight().is_some_and(|place| place.summary),
        };
        Box::new(replied).into()
    }

    /// The model replies. Returns the ids of repeated calls.
    pub(super) fn reply(&mut self, text: &str, calls: &[(&str, &str, Value)]) -> Vec<String> {
        let call = |(id, name, input): &(&str, &str, Value)| ToolCall {
            id: (*id).to_owned(),
            name: (*name).to_owned(),
            input: input.clone(),
        };
        let reply = Reply { text: text.into(), calls: calls.iter().map(call).collect(), raw: None };
        let (reply, repeated) = accept(reply);
        self.tell(self.replied(Some(reply), None));
        repeated
    }

    pub(super) fn fail(&mut self, code: Code, message: &str) {
        let error = CallError { code, message: message.to_owned(), status: None, again: false };
        self.tell(self.replied(None, Some(error)));
    }

    pub(super) fn intend(&mut self, call_id: &str) {
        self.tell(ToolIntended {
            call_id: call_id.to_owned(),
            tool: "read".to_owned(),
            class: EffectClass::Exec,
            specifier: None,
            write: None,
            sandbox: None,
        });
    }

    pub(super) fn result(&mut self, call_id: &str, ok: bool, text: &str) {
        self.finished(call_id, (!ok).then_some(Code::ToolError), None, text);
    }

    pub(super) fn finished(&mut self, call_id: &str, code: Option<Code>, child: Option<AgentId>, text: &str) {
        self.tell(ToolFinished {
            call_id: call_id.to_owned(),
            tool: "read".to_owned(),
            ok: code.is_none(),
            code,
            output: text.into(),
            child,
            seen: Vec::new(),
            files: None,
            files_problem: None,
            elapsed_ms: 20,
            images: Vec::new(),
        });
    }

    pub(super) fn interrupt(&mut self, call_id: &str) {
        self.tell(ToolInterrupted {
            call_id: call_id.to_owned(),
            tool: "read".to_owned(),
            output: "outcome unknown".into(),
            files: None,
            elapsed_ms: 30,
        });
    }

    pub(super) fn message(&mut self, from: Sender, text: &str) {
        self.tell(MessageReceived { from, text: text.into() });
    }

    /// Adds the note that the machine requests.
    pub(super) fn say(&mut self) -> HostNote {
        let Next::Tell(note, text) = self.next() else { panic!("{:?}", self.next()) };
        self.tell(MessageReceived { from: Sender::Host(note), text: text.into() });
        note
    }

    pub(super) fn retry(&mut self, reason: &str) {
        let n = self.machine.attempt() + 1;
        self.tell(SubagentAttempt {
            n,
            kind: FailKind::Execution,
            code: Code::SubagentError,
            reason: reason.to_owned(),
            in_place: false,
        });
    }

    /// One turn with these calls, which all return this result.
    pub(super) fn turn(&mut self, calls: &[(&str, &str, Value)], ok: bool, text: &str) {
        self.ask();
        self.reply("", calls);
        for (id, ..) in calls {
            self.result(id, ok, text);
        }
    }
}

pub(super) fn child() -> AgentId {
    "k3f9ab2c.1.1".parse().expect("id")
}

/// The conversation in a readable form for failed assertions.
pub(super) fn said(machine: &Machine) -> Vec<String> {
    machine
        .conversation()
        .messages()
        .iter()
        .map(|message| match &**message {
            Message::User(text) => format!("user: {text}"),
            Message::Assistant { text, calls, .. } => {
                let calls: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
                format!("model: {text}{calls:?}")
            }
            Message::Results(results) => {
                let results: Vec<String> =
                    results.iter().map(|r| format!("{}={}", r.call_id, r.text)).collect();
                format!("results: {}", results.join(" "))
            }
        })
        .collect()
}

pub(super) fn hash_of(machine: &Machine) -> Hash {
    machine.conversation().hash()
}
