//! The fixture of one test: a store, a model, tools and definitions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, pending};
use posse_domain::contract::Contract;
use posse_domain::definition::{Definition, Mode, Trust};
use posse_domain::event::{EffectClass, Event, EventBody};
use posse_domain::id::{AgentId, RunId};
use posse_domain::lifecycle::Run;
use posse_engine::ports::{
    Admission, AgentRow, CallSize, Commit, Faults, Hooks, MailCommand, Model, ModelFacts, ModelFailure,
    ModelReply, ModelRequest, Permit, RunKey, Store, StreamSink, System, TenantId, Tool,
};
use posse_engine::{
    Parts, RequestField, ResumeOutcome, RunHandle, RunRequest, Runtime, RuntimeError, RuntimeOptions,
};
use posse_models::ModelRegistry;
use posse_models::scripted::{DEFAULT_FACTS, FnModel, ScriptedAnswer};
use posse_store::MemoryStore;
use tempfile::TempDir;

use crate::checks;
use crate::power::{CrashPoint, LateStore, Power};
use crate::tools::{EffectLog, Latch, boom, put, trace};
use crate::workspaces::MemoryWorkspaces;

pub(crate) const MODEL: &str = "test/model";

/// Timeout after which a run counts as hanging. Far beyond the duration of any of these runs.
const HANGS: Duration = Duration::from_mins(1);
/// The timeout in tests with virtual time, in which an hour takes no time.
const HANGS_VIRTUAL: Duration = Duration::from_hours(100);

type Script = Arc<dyn Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync>;
type Admit = Arc<dyn Fn() -> Admission + Send + Sync>;
type Hold = Arc<dyn Fn(&ModelRequest) -> Option<Latch> + Send + Sync>;

/// Answers from a closure, records its requests, and delays the calls that a test selects.
struct TestModel {
    script: Script,
    hold: Hold,
    hold_end: Hold,
    admit: Admit,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
    facts: ModelFacts,
    power: Option<Power>,
}

impl Model for TestModel {
    fn facts(&self) -> ModelFacts {
        self.facts
    }

    fn provider(&self) -> Arc<str> {
        "acme".into()
    }

    fn admit(&self, _: CallSize) -> Admission {
        (self.admit)()
    }

    fn call(
        &self,
        request: ModelRequest,
        sink: Arc<dyn StreamSink>,
    ) -> BoxFuture<'static, Result<ModelReply, ModelFailure>> {
        let note = || self.asked.lock().expect("no panic while it is held").push(request.clone());
        let alive = if let Some(power) = &self.power {
            power.act(note).is_some()
        } else {
            note();
            true
        };
        if !alive {
            return pending().boxed();
        }
        let (latch, end) = ((self.hold)(&request), (self.hold_end)(&request));
        let script = self.script.clone();
        let answer = FnModel::new(move |request| script(request)).with_facts(self.facts).call(request, sink);
        async move {
            if let Some(latch) = latch {
                latch.pass().await;
            }
            let answer = answer.await;
            if let Some(end) = end {
                end.pass().await;
            }
            answer
        }
        .boxed()
    }
}

/// Tokio's clock, which stands still if a test paused it, and deterministic numbers instead of random ones.
struct TestSystem {
    began: tokio::time::Instant,
    drawn: AtomicU64,
}

impl System for TestSystem {
    fn now_ms(&self) -> i64 {
        1_000_000 + i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn random(&self) -> u64 {
        // Spread over all digits of an id, so that the ids of one test are easy to tell apart.
        (self.drawn.fetch_add(1, Ordering::Relaxed) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

pub(crate) struct World {
    memory: MemoryStore,
    script: Script,
    hold: Hold,
    hold_end: Hold,
    admit: Admit,
    facts: ModelFacts,
    system: Arc<TestSystem>,
    more_tools: Vec<Tool>,
    hangs: Duration,
    workspaces: Option<MemoryWorkspaces>,
    hooks: Option<Arc<dyn Hooks>>,
    rewrite: fn(&mut Commit),
    pub(crate) asked: Arc<Mutex<Vec<ModelRequest>>>,
    pub(crate) outside: EffectLog,
    pub(crate) dir: TempDir,
}

pub(crate) struct Process {
    pub(crate) runtime: Runtime,
    /// Set for a process that can die.
    pub(crate) power: Option<Power>,
}

impl World {
    pub(crate) fn new(script: impl Fn(&ModelRequest) -> ScriptedAnswer + Send + Sync + 'static) -> Self {
        Self {
            memory: MemoryStore::new(),
            script: Arc::new(script),
            hold: Arc::new(|_| None),
            hold_end: Arc::new(|_| None),
            admit: Arc::new(|| Admission::Go(Permit::default())),
            facts: ModelFacts { price: None, ..DEFAULT_FACTS },
            system: Arc::new(TestSystem { began: tokio::time::Instant::now(), drawn: AtomicU64::new(0) }),
            more_tools: Vec::new(),
            hangs: HANGS,
            workspaces: None,
            hooks: None,
            rewrite: |_| (),
            asked: Arc::default(),
            outside: EffectLog::default(),
            dir: TempDir::new().expect("a directory"),
        }
    }

    /// Makes the calls that `hold` selects wait at a latch.
    pub(crate) fn holding(
        mut self,
        hold: impl Fn(&ModelRequest) -> Option<Latch> + Send + Sync + 'static,
    ) -> Self {
        self.hold = Arc::new(hold);
        self
    }

    /// Makes the calls that `hold` selects wait at a latch after their whole text, with their streams open.
    pub(crate) fn holding_open(
        mut self,
        hold: impl Fn(&ModelRequest) -> Option<Latch> + Send + Sync + 'static,
    ) -> Self {
        self.hold_end = Arc::new(hold);
        self
    }

    /// Lets `admit` decide when calls may be made.
    pub(crate) fn admitting(mut self, admit: impl Fn() -> Admission + Send + Sync + 'static) -> Self {
        self.admit = Arc::new(admit);
        self
    }

    /// For a test whose clock is paused.
    pub(crate) fn in_virtual_time(mut self) -> Self {
        self.hangs = HANGS_VIRTUAL;
        self
    }

    /// Sets the lease time of the store.
    pub(crate) fn with_lease(mut self, lease: Duration) -> Self {
        self.memory = self.memory.with_lease(lease);
        self
    }

    /// Sets the hooks that are notified in this world.
    pub(crate) fn with_hooks(mut self, hooks: impl Hooks) -> Self {
        self.hooks = Some(Arc::new(hooks));
        self
    }

    /// Lets processes that can die rewrite their commits, to imitate other versions of Posse.
    pub(crate) fn rewriting(mut self, rewrite: fn(&mut Commit)) -> Self {
        self.rewrite = rewrite;
        self
    }

    /// Gives every agent that can change files an isolated workspace.
    pub(crate) fn isolated(mut self) -> Self {
        self.workspaces = Some(MemoryWorkspaces::default());
        self
    }

    pub(crate) fn workspaces(&self) -> &MemoryWorkspaces {
        self.workspaces.as_ref().expect("an isolated world")
    }

    pub(crate) fn with_facts(mut self, facts: ModelFacts) -> Self {
        self.facts = facts;
        self
    }

    pub(crate) fn with_tool(mut self, make: impl FnOnce(&EffectLog) -> Tool) -> Self {
        self.more_tools.push(make(&self.outside));
        self
    }

    fn parts(&self, store: Arc<dyn Store>, faults: Faults, power: Option<Power>) -> Parts {
        let models = ModelRegistry::new(self.dir.path());
        let model = TestModel {
            script: self.script.clone(),
            hold: self.hold.clone(),
            hold_end: self.hold_end.clone(),
            admit: self.admit.clone(),
            asked: self.asked.clone(),
            facts: self.facts,
            power: power.clone(),
        };
        models.insert(MODEL, Arc::new(model));
        let mut tools = posse_tools::builtin(posse_tools::ToolServices::default());
        tools.push(trace("probe", EffectClass::Read, &self.outside, power.clone()));
        tools.push(trace("strike", EffectClass::Exec, &self.outside, power.clone()));
        tools.push(trace("ask_net", EffectClass::Net, &self.outside, power.clone()));
        tools.push(boom(&self.outside));
        let workspaces = self.workspaces.as_ref().map(|workspaces| workspaces.with_power(power));
        tools.push(put(workspaces.clone()));
        tools.extend(self.more_tools.iter().cloned());
        let workspaces =
            workspaces.map(|workspaces| Arc::new(workspaces) as Arc<dyn posse_engine::ports::Workspaces>);
        Parts {
            store,
            models: Arc::new(models),
            tools,
            system: self.system.clone(),
            workspaces,
            faults,
            hooks: self.hooks.clone(),
        }
    }

    /// A process that lives as long as the test.
    pub(crate) fn process(&self) -> Process {
        self.process_that_beats(RuntimeOptions::default().heartbeat)
    }

    /// A process that renews its leases at this interval.
    pub(crate) fn process_that_beats(&self, heartbeat: Duration) -> Process {
        let store = Arc::new(self.memory.another_process());
        let parts = self.parts(store, Faults::default(), None);
        let options = RuntimeOptions { heartbeat, ..RuntimeOptions::default() };
        Process { runtime: Runtime::new(parts, options), power: None }
    }

    /// A process whose commits are delayed and that may die.
    pub(crate) fn mortal(&self, death: Option<CrashPoint>) -> Process {
        let (store, power) = LateStore::open(self.memory.another_process(), death, self.rewrite);
        let parts = self.parts(store, power.faults(), Some(power.clone()));
        Process { runtime: Runtime::new(parts, RuntimeOptions::default()), power: Some(power) }
    }

    /// The request of a run. In an isolated world the boss may use `bash`, so it may request commands as criteria.
    pub(crate) fn spec(&self) -> RunRequest {
        let mut definitions = definitions();
        if self.workspaces.is_some() {
            definitions[0].tools.push("bash".to_owned());
        }
        RunRequest {
            definition: "boss".to_owned(),
            model: MODEL.to_owned(),
            dir: self.dir.path().display().to_string(),
            definitions,
            ..RunRequest::new("Do it.")
        }
    }

    #[expect(clippy::unused_self, reason = "reads as what it is: the key of a run in this world")]
    pub(crate) fn key(&self, run: &RunId) -> RunKey {
        RunKey { tenant: TenantId::local(), run: run.clone() }
    }

    /// What the store has for the report files of the root's children: their paths and their texts.
    pub(crate) async fn reports(&self, run: &RunId) -> BTreeMap<String, String> {
        let rows = self.store().agents(&self.key(run)).await.expect("agents");
        let children = rows.into_iter().filter(|row| row.id.parent() == Some(run.root()));
        let file = |row: AgentRow| {
            let contract = Contract::from_json(&row.terms.expect("terms").contract_json).expect("a contract");
            let error = row.error.map(|error| format!("{}: {}", error.code, error.reason));
            let text = [error, row.result].into_iter().flatten().collect::<Vec<_>>().join("\n");
            (contract.report_path(), text)
        };
        children.map(file).collect()
    }

    pub(crate) fn store(&self) -> &MemoryStore {
        &self.memory
    }

    /// Starts a run, waits for its end and checks it.
    pub(crate) async fn run(&self, spec: RunRequest) -> EndedRun {
        let process = self.process();
        let handle = process.runtime.start(spec).await.expect("the run starts");
        self.ended(&handle).await
    }

    /// Waits for the end of a run and checks it.
    pub(crate) async fn ended(&self, handle: &RunHandle) -> EndedRun {
        let ended = tokio::time::timeout(self.hangs, handle.ended()).await;
        if ended.is_err() {
            let events = checks::read(&self.memory, &self.key(handle.id())).await;
            panic!("the run hangs after:\n{}", listing(&events));
        }
        if let Err(error) = ended.expect("in time") {
            let events = checks::read(&self.memory, &self.key(handle.id())).await;
            panic!("{error}, after:\n{}", listing(&events));
        }
        self.look(handle.id()).await
    }

    /// Reads and checks an ended run.
    pub(crate) async fn look(&self, run: &RunId) -> EndedRun {
        let (events, state) = checks::check(&self.memory, &self.key(run)).await;
        EndedRun { events, run: state }
    }

    pub(crate) async fn resume(&self, process: &Process, run: &RunId) -> Option<RunHandle> {
        match process.runtime.resume(run).await {
            Ok(ResumeOutcome::Going(handle)) => Some(handle),
            Ok(ResumeOutcome::Ended(_)) => None,
            Ok(ResumeOutcome::Held(holder)) => panic!("held by {holder:?}"),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn post(&self, run: &RunId, command: MailCommand) {
        self.memory.post(&self.key(run), command).await.expect("posted");
    }

    pub(crate) async fn cancel(&self, agent: &AgentId) {
        let command = MailCommand::Cancel { agent: agent.clone(), reason: "enough".to_owned(), kill: false };
        self.post(&agent.run(), command).await;
    }

    /// Waits until the journal of a run has a matching event.
    pub(crate) async fn until(&self, run: &RunId, is_it: impl Fn(&Event) -> bool) {
        let key = self.key(run);
        let mut pulse = self.memory.watch(&key);
        let found = async {
            loop {
                pulse.borrow_and_update();
                if checks::read(&self.memory, &key).await.iter().any(&is_it) {
                    return;
                }
                pulse.changed().await.expect("the store lives");
            }
        };
        tokio::time::timeout(self.hangs, found).await.expect("the event comes");
    }

    pub(crate) async fn store_events(&self, run: &RunId) -> Vec<Event> {
        checks::read(&self.memory, &self.key(run)).await
    }

    /// The number of model calls of agents at this depth.
    pub(crate) fn asked_by_depth(&self, depth: u32) -> usize {
        let asked = self.asked.lock().expect("no panic while it is held");
        asked.iter().filter(|request| request.depth == depth).count()
    }

    /// The model requests of an agent.
    pub(crate) fn asked_by(&self, agent: &str) -> Vec<ModelRequest> {
        let asked = self.asked.lock().expect("no panic while it is held");
        asked.iter().filter(|request| request.agent.relative() == agent).cloned().collect()
    }
}

/// A run that has ended and was checked.
pub(crate) struct EndedRun {
    pub(crate) events: Vec<Event>,
    pub(crate) run: Run,
}

impl EndedRun {
    /// The kinds of an agent's events, without their prefixes.
    pub(crate) fn kinds(&self, agent: &str) -> Vec<&'static str> {
        let of = self.of(agent);
        of.map(|event| event.body.kind().split_once('.').map_or("", |(_, kind)| kind)).collect()
    }

    pub(crate) fn of(&self, agent: &str) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.agent.relative() == agent)
    }

    pub(crate) fn status(&self) -> &'static str {
        self.run.outcome.as_ref().expect("ended").status().as_str()
    }

    /// The text of the run's result.
    pub(crate) fn text(&self) -> String {
        match &self.events.last().expect("events").body {
            EventBody::RunCompleted(e) => e.text.to_shared().to_string(),
            EventBody::RunFailed(e) => format!("{}: {}", e.code, e.reason),
            EventBody::RunCancelled(e) => e.reason.clone(),
            other => panic!("ends with {}", other.kind()),
        }
    }

    /// The results of an agent's calls: tool, success, text.
    pub(crate) fn results(&self, agent: &str) -> Vec<(String, bool, String)> {
        self.of(agent)
            .filter_map(|event| match &event.body {
                EventBody::ToolFinished(e) => Some((e.tool.clone(), e.ok, e.output.to_shared().to_string())),
                EventBody::ToolInterrupted(e) => {
                    Some((e.tool.clone(), false, e.output.to_shared().to_string()))
                }
                _ => None,
            })
            .collect()
    }

    /// The only result of an agent.
    pub(crate) fn result(&self, agent: &str) -> (bool, String) {
        let mut results = self.results(agent);
        assert_eq!(results.len(), 1, "{results:?}");
        let (_, ok, text) = results.remove(0);
        (ok, text)
    }

    /// The position of the first matching event.
    pub(crate) fn position(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().position(is_it).expect("there is such an event")
    }
}

/// One event per line, for the message of a failed test.
pub(crate) fn listing(events: &[Event]) -> String {
    let line = |event: &Event| format!("{} {} {}", event.agent, event.body.kind(), event.body.summary());
    events.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(crate) fn definition(name: &str, tools: &[&str], spawns: &[&str]) -> Definition {
    let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    Definition {
        name: name.to_owned(),
        display_name: name.to_owned(),
        description: format!("a {name}"),
        prompt: format!("You are a {name}.").into(),
        tools: list(tools),
        spawns: (!spawns.is_empty()).then(|| list(spawns)),
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

/// A `boss` that may do and spawn everything, a `lead` that reads and spawns, a `scout` that reads, a `builder` that
/// writes.
pub(crate) fn definitions() -> Vec<Definition> {
    let all = ["probe", "strike", "put", "ask_net", "boom", "hold", "read", "list", "write", "edit", "todo"];
    vec![
        definition("boss", &all, &["lead", "crew", "scout", "builder"]),
        definition("lead", &["probe", "ask_net", "boom", "read", "todo"], &["lead", "scout", "builder"]),
        definition("crew", &["probe", "put", "boom", "read"], &["crew", "scout", "builder"]),
        definition("scout", &["probe", "ask_net", "boom", "read", "list"], &[]),
        definition("builder", &["probe", "strike", "put", "boom", "hold", "read", "write", "edit"], &[]),
    ]
}

/// Input of `task`.
pub(crate) fn child(definition: &str, prompt: &str) -> serde_json::Value {
    serde_json::json!({"subagent_type": definition, "prompt": prompt, "description": "a piece of it"})
}

/// Input of `task` for a background child.
pub(crate) fn background(definition: &str, prompt: &str) -> serde_json::Value {
    let mut input = child(definition, prompt);
    input["run_in_background"] = true.into();
    input
}

/// The messages since the model's last reply, as one text.
pub(crate) fn newest(request: &ModelRequest) -> String {
    use posse_agent::conversation::Message;
    let from = request.messages.iter().rposition(|message| matches!(**message, Message::Assistant { .. }));
    let texts = request.messages[from.map_or(0, |at| at + 1)..].iter().map(|message| match &**message {
        Message::User(text) | Message::Assistant { text, .. } => text.to_string(),
        Message::Results(results) => {
            results.iter().map(|r| r.text.to_string()).collect::<Vec<_>>().join("\n")
        }
    });
    texts.collect::<Vec<_>>().join("\n")
}

pub(crate) fn is_error(result: &Result<RunHandle, RuntimeError>, field: RequestField) -> bool {
    matches!(result, Err(RuntimeError::Invalid { field: found, .. }) if *found == field)
}
