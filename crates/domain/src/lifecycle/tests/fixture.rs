//! A test run: its commands are decided, stamped and applied, and the order of events is checked.

use crate::budget::{Amount, Budget, Usage};
use crate::code::Code;
use crate::contract::{
    CONTRACT_VERSION, Contract, DEFAULT_IDLE_TIMEOUT_MS, DEFAULT_REPORT_PATH_PATTERN, ExecutionContext,
    ExecutionTerms, OutputTerms, ParentTerms, ReportFormat, StepTerms,
};
use crate::definition::{Definition, Mode, Trust};
use crate::event::{
    CallError, EffectClass, Event, EventBody, ModelCalled, ModelReplied, OrderChecker, Purpose, RunStarted,
    ToolFinished,
};
use crate::hash::Hash;
use crate::id::{AgentId, RunId};
use crate::lifecycle::{
    Attempt, FailKind, Failure, Finish, NewEvent, Refusal, Run, SpawnFrom, SpawnRequest, tools_of,
};
use crate::message::Reply;
use crate::permission::{Grant, OnAsk, Rules, ToolSet};
use crate::request::{RunRequest, RunTerms};
use crate::skill::{DiscoveredDefinitions, Skill};

pub(super) fn run_id() -> RunId {
    "k3f9ab2c".parse().expect("run id")
}

pub(super) fn id(relative: &str) -> AgentId {
    AgentId::from_relative(&run_id(), relative).expect("agent id")
}

pub(super) fn definition(name: &str, tools: &[&str], spawns: Option<&[&str]>) -> Definition {
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    Definition {
        name: name.to_owned(),
        display_name: name.to_owned(),
        description: String::new(),
        prompt: "".into(),
        tools: list(tools),
        spawns: spawns.map(list),
        max_turns: None,
        model: None,
        temperature: None,
        top_p: None,
        mode: Mode::All,
        trust: Trust::Trusted,
        rules: Vec::new(),
        parallel: None,
        background: false,
        may_share_history: false,
        skills: None,
    }
}

/// A `lead` that spawns, a `scout` that reads and a `builder` that changes files. A `boss` is only ever a root.
pub(super) fn definitions() -> Vec<Definition> {
    let spawns: &[&str] = &["lead", "scout", "builder", "boss"];
    let boss = definition("boss", &["read", "write", "bash"], Some(spawns));
    vec![
        Definition { mode: Mode::Primary, ..boss },
        definition("lead", &["read", "write", "bash"], Some(spawns)),
        definition("scout", &["read"], None),
        definition("builder", &["read", "write"], None),
        definition("secret", &["read"], None),
    ]
}

pub(super) fn class_of(tool: &str) -> Option<EffectClass> {
    Some(match tool {
        "read" => EffectClass::Read,
        "write" => EffectClass::Write,
        "bash" => EffectClass::Exec,
        _ if tool.starts_with("task") => EffectClass::Delegate,
        _ => return None,
    })
}

pub(super) fn root_contract(definition: &Definition, max_depth: u32, budget: Budget) -> Contract {
    let tools = tools_of(definition);
    Contract {
        version: CONTRACT_VERSION,
        context: ExecutionContext::root(max_depth),
        parent: ParentTerms {
            run_id: run_id(),
            agent_id: run_id().root(),
            message_id: None,
            step_idx: 0,
            task_prompt: "do it".into(),
            goal_summary: "do it".into(),
            continues: None,
            repairs: None,
        },
        step: StepTerms {
            title: "do it".to_owned(),
            description: "do it".to_owned(),
            success_criteria: Vec::new(),
            owns: Vec::new(),
            required: true,
        },
        permissions: Grant {
            allowed_tools: ToolSet::parse(tools.iter().map(String::as_str)).expect("tools"),
            rules: Rules::default(),
            can_spawn_children: definition.spawns.is_some(),
            max_delegation_depth: max_depth,
            may_share_history: false,
            on_ask: OnAsk::Deny,
        },
        execution: ExecutionTerms {
            definition: definition.name.clone(),
            skill: None,
            model: "test/model".to_owned(),
            temperature: None,
            top_p: None,
            max_turns: Some(15),
            turn_timeout_ms: None,
            attempt_timeout_ms: None,
            idle_timeout_ms: DEFAULT_IDLE_TIMEOUT_MS,
            max_retries: 0,
            max_retries_per_tool: 3,
            close_on_completion: true,
            share_history: false,
            extra_context: None,
        },
        budget,
        outputs: OutputTerms {
            report_format: ReportFormat::Markdown,
            report_path_pattern: DEFAULT_REPORT_PATH_PATTERN.to_owned(),
            result_schema: None,
        },
    }
}

pub(super) fn started(definitions: Vec<Definition>, max_depth: u32, budget: Budget) -> Event {
    let contract = root_contract(&definitions[0], max_depth, budget);
    let request = RunRequest {
        dir: "/work".to_owned(),
        definitions,
        terms: RunTerms { base_turns: Some(15), ..RunTerms::default() },
        ..RunRequest::new("do it")
    };
    let started = RunStarted { request, contract_hash: contract.hash(), contract, base: None };
    Event { agent: run_id().root(), at_ms: 1_000, body: Box::new(started).into() }
}

/// Like [`started`], with skills.
pub(super) fn started_with(
    definitions: Vec<Definition>,
    skills: Vec<Skill>,
    max_depth: u32,
    budget: Budget,
) -> Event {
    let mut event = started(definitions, max_depth, budget);
    if let EventBody::RunStarted(begun) = &mut event.body {
        begun.contract.permissions.can_spawn_children = true;
        begun.contract_hash = begun.contract.hash();
        begun.request.catalogue = Some(
            std::sync::Arc::new(DiscoveredDefinitions { skills, ..DiscoveredDefinitions::default() }).into(),
        );
    }
    event
}

/// A forked skill of the agent `lead` with default values.
pub(super) fn skill(name: &str) -> Skill {
    Skill {
        name: name.to_owned(),
        description: String::new(),
        instructions: "Do it.".into(),
        fork: true,
        agent: Some("lead".to_owned()),
        tools: None,
        rules: Vec::new(),
        sub_agents: None,
        model: None,
        temperature: None,
        max_iterations: None,
        max_depth: None,
        max_retries_per_tool: None,
        turn_timeout_ms: None,
        include_sub_agent_events: false,
        for_models: true,
        for_people: true,
        argument_hint: None,
        background: false,
        trust: Trust::Trusted,
        dir: None,
        project: None,
        shown_dir: None,
    }
}

/// A run and all its events.
pub(super) struct PlayedRun {
    pub(super) run: Run,
    pub(super) events: Vec<Event>,
    order: OrderChecker,
    now_ms: i64,
}

impl PlayedRun {
    pub(super) fn new(max_depth: u32, budget: Budget) -> Self {
        Self::with(started(definitions(), max_depth, budget))
    }

    pub(super) fn with(started: Event) -> Self {
        let run = Run::begin(&started).expect("it begins");
        Self { run, now_ms: started.at_ms, events: vec![started], order: OrderChecker::default() }
    }

    /// Applies the event of a command, which must be legal.
    pub(super) fn put(&mut self, (agent, body): NewEvent) {
        self.now_ms += 7;
        let event = Event { agent, at_ms: self.now_ms, body };
        self.order.push(&event.agent, event.body.kind()).expect("decided in order");
        self.run.apply(&event).expect("what was decided can happen");
        self.events.push(event);
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.now_ms + 7
    }

    /// Advances the clock.
    pub(super) fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
    }

    pub(super) fn open_children(&self) -> usize {
        self.order.open().count()
    }

    pub(super) fn try_spawn(&mut self, parent: &AgentId, request: &SpawnRequest) -> Result<AgentId, Refusal> {
        let from = SpawnFrom { parent, call_id: "call_1", message_id: Some("m1"), step: None };
        match self.run.spawn(from, request, &class_of) {
            Ok(decided) => {
                let child = decided.0.clone();
                self.put(decided);
                Ok(child)
            }
            Err(refusal) => {
                let refused = self.run.refuse(from, &request.definition, &refusal);
                if self.run.open(parent).is_some() && self.run.outcome.is_none() {
                    self.put(refused);
                }
                Err(refusal)
            }
        }
    }

    pub(super) fn spawn(&mut self, parent: &str, definition: &str) -> AgentId {
        self.try_spawn(&id(parent), &request(definition)).expect("spawned")
    }

    pub(super) fn start(&mut self, child: &AgentId) {
        let decided = self.run.start(child, None).expect("it can start");
        self.put(decided);
    }

    pub(super) fn finish(&mut self, child: &AgentId) -> bool {
        let finish = Finish { report: "found".into(), turns_exhausted: false, change: None };
        let Ok(decided) = self.run.finish(child, finish) else { return false };
        for decided in decided {
            self.put(decided);
        }
        true
    }

    pub(super) fn fail(&mut self, child: &AgentId, kind: FailKind) -> Option<Attempt> {
        let attempt = self.run.fail(child, failure(kind)).ok()?;
        let (Attempt::Again(decided) | Attempt::Over(decided)) = attempt.clone();
        self.put(decided);
        Some(attempt)
    }

    pub(super) fn close(&mut self, child: &AgentId) -> bool {
        let Ok(decided) = self.run.close(child, self.now_ms()) else { return false };
        self.put(decided);
        true
    }

    /// Plays a child from its spawn to its close. `ends` is its kind of failure.
    pub(super) fn whole(&mut self, parent: &str, request: &SpawnRequest, ends: Option<FailKind>) -> AgentId {
        let child = self.try_spawn(&id(parent), request).expect("spawned");
        self.start(&child);
        match ends {
            None => assert!(self.finish(&child)),
            Some(kind) => loop {
                assert!(self.call(&child) && self.reply(&child, true));
                if !matches!(self.fail(&child, kind), Some(Attempt::Again(_))) {
                    break;
                }
            },
        }
        assert!(self.close(&child));
        child
    }

    pub(super) fn call(&mut self, agent: &AgentId) -> bool {
        let Some(open) = self.run.open(agent) else { return false };
        let crate::lifecycle::OpenState::Running { attempt } = open.state else { return false };
        if open.calling.is_some() || self.run.is_cancelled(agent) || self.run.outcome.is_some() {
            return false;
        }
        let called = ModelCalled {
            attempt,
            turn: 1,
            call: 1,
            purpose: Purpose::Work,
            cause: None,
            reason: None,
            trimmed: false,
            scope: None,
            model: "test/model".to_owned(),
            request_hash: Hash::ZERO,
            reserved: Amount { input_tokens: 100, output_tokens: 50, micro_usd: Some(7) },
            preamble: None,
        };
        self.put((agent.clone(), called.into()));
        true
    }

    pub(super) fn reply(&mut self, agent: &AgentId, error: bool) -> bool {
        let Some(open) = self.run.open(agent).filter(|open| open.calling.is_some()) else { return false };
        let crate::lifecycle::OpenState::Running { attempt } = open.state else {
            panic!("it calls and does not run")
        };
        let error = error.then(|| CallError::new(Code::ModelError, "no".to_owned()));
        let text = "a long reply ".repeat(300);
        let replied = ModelReplied {
            attempt,
            turn: 1,
            call: 1,
            reply: error.is_none().then(|| Reply { text: text.into(), calls: Vec::new(), raw: None }),
            reply_at: None,
            error,
            usage: Usage {
                input_tokens: 90,
                output_tokens: 10,
                cached_tokens: 5,
                micro_usd: Some(3),
                cache_write_tokens: 0,
                reasoning_tokens: 0,
                ..Usage::ZERO
            },
            estimated: false,
            tag: None,
            elapsed_ms: 3,
            cut_off: false,
            summary: false,
        };
        self.put((agent.clone(), EventBody::from(Box::new(replied))));
        true
    }

    pub(super) fn tool(&mut self, agent: &AgentId) -> bool {
        if self.run.open(agent).is_none() || self.run.outcome.is_some() {
            return false;
        }
        self.tool_finished(agent, "call_1");
        true
    }

    pub(super) fn tool_finished(&mut self, agent: &AgentId, call_id: &str) {
        let finished = ToolFinished {
            call_id: call_id.to_owned(),
            tool: "read".to_owned(),
            ok: true,
            code: None,
            output: "what it read ".repeat(200).into(),
            child: None,
            seen: Vec::new(),
            files: None,
            files_problem: None,
            elapsed_ms: 2,
            images: Vec::new(),
        };
        self.put((agent.clone(), finished.into()));
    }
}

pub(super) fn request(definition: &str) -> SpawnRequest {
    SpawnRequest {
        definition: definition.to_owned(),
        prompt: "find it".to_owned(),
        title: "find it".to_owned(),
        ..SpawnRequest::default()
    }
}

pub(super) fn failure(kind: FailKind) -> Failure {
    let report = (kind == FailKind::Budget).then(|| "what it had ".repeat(300).into());
    Failure { kind, code: kind.code(), reason: format!("because of {}", kind.as_str()), report }
}
