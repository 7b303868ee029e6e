//! The table of operations: each with its path, its parameters, its body, its answer and the function that executes it.
//! The router and the OpenAPI document follow from it.

mod commands;
mod events;
mod machine;
mod runs;
mod session;

use std::path::Path;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use futures::future::BoxFuture;
use posse::{AgentId, RunId, RunSummary};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::callers::Caller;
use super::idempotency::RequestKey;
use super::limits::{EVENTS_PAGE_MAX, RUNS_PAGE_MAX};
use super::problem::{Problem, ProblemCode};
use super::query::{Parameter, ParameterType, Query};
use super::reply::Reply;
use super::requests::{AnswerQuestion, EndRun, SendMessage, StartRun};
use super::state::ServerState;

/// What an operation does, by the method of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It reads: GET.
    Reads,
    /// It starts or decides something: POST.
    Acts,
}

/// What an operation answers if it succeeds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answers {
    /// An object of `posse::api` with this name and this status.
    Object(&'static str, u16),
    /// A text.
    Text,
    /// Server-sent events, each with such an object.
    Stream(&'static str),
}

/// A request that passed all checks but those of the operation itself.
pub(super) struct Call {
    pub(super) state: Arc<ServerState>,
    pub(super) caller: Caller,
    pub(super) path: Vec<(String, String)>,
    pub(super) query: Query,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) key: Option<RequestKey>,
}

/// Executes an operation.
type Handler = fn(Call) -> BoxFuture<'static, Result<Reply, Problem>>;

/// One operation of the API.
pub(super) struct Operation {
    pub(super) effect: Effect,
    pub(super) path: &'static str,
    /// Its name in the OpenAPI document, which generated clients use.
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) query: &'static [Parameter],
    /// The schema of its body, if it has one.
    pub(super) body: Option<fn(&mut SchemaGenerator) -> Schema>,
    pub(super) answers: Answers,
    pub(super) handler: Handler,
}

const DIR: Parameter =
    Parameter::new("dir", ParameterType::Text, "The directory [default: the server's own].");
const AFTER: Parameter =
    Parameter::new("after", ParameterType::Number(u64::MAX), "Only events after this number.");
const EVENT_AGENT: Parameter =
    Parameter::new("agent", ParameterType::Text, "Only events of this agent.").repeated();
const EVENT_KIND: Parameter =
    Parameter::new("kind", ParameterType::Text, "Only events of this kind, such as `agent.tool_finished`.")
        .repeated();

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const fn reads(
    path: &'static str,
    name: &'static str,
    meaning: &'static str,
    query: &'static [Parameter],
    answers: Answers,
    handler: Handler,
) -> Operation {
    Operation { effect: Effect::Reads, path, name, meaning, query, body: None, answers, handler }
}

const fn acts(
    path: &'static str,
    name: &'static str,
    meaning: &'static str,
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
    answers: Answers,
    handler: Handler,
) -> Operation {
    Operation { effect: Effect::Acts, path, name, meaning, query: &[], body, answers, handler }
}

use Answers::{Object, Stream, Text};

/// Every operation of the API.
pub(super) const OPERATIONS: &[Operation] = &[
    reads(
        "/api/v1/runs",
        "listRuns",
        "List the runs, newest first.",
        &[
            Parameter::new("status", ParameterType::Word(runs::STATUSES), "Only runs with this status.")
                .repeated(),
            Parameter::new("dir", ParameterType::Text, "Only runs of the project in this directory."),
            Parameter::new("cursor", ParameterType::Text, "The `next` of the page before."),
            Parameter::new(
                "limit",
                ParameterType::Number(RUNS_PAGE_MAX),
                "The most runs on the page [default: 50].",
            ),
        ],
        Object("RunPage", 200),
        |call| Box::pin(runs::list(call)),
    ),
    acts(
        "/api/v1/runs",
        "startRun",
        "Start a run. The clients of the server answer its questions.",
        Some(schema::<StartRun>),
        Object("StartedRun", 201),
        |call| Box::pin(commands::start(call)),
    ),
    reads("/api/v1/runs/{run}", "getRun", "A run with its agents.", &[], Object("RunDetail", 200), |call| {
        Box::pin(runs::detail(call))
    }),
    reads(
        "/api/v1/runs/{run}/outcome",
        "getOutcome",
        "How a run ended.",
        &[],
        Object("Outcome", 200),
        |call| Box::pin(runs::outcome(call)),
    ),
    reads(
        "/api/v1/runs/{run}/stats",
        "getRunStats",
        "What the agents of a run spent.",
        &[],
        Object("RunStats", 200),
        |call| Box::pin(runs::stats(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}",
        "getAgent",
        "An agent and its subtree.",
        &[],
        Object("RunDetail", 200),
        |call| Box::pin(runs::agent(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/report",
        "getReport",
        "The report of an agent; `0` is the root.",
        &[],
        Object("ReportResult", 200),
        |call| Box::pin(runs::report(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/diff",
        "getDiff",
        "The changes of an agent as a text; `0` is the root, whose changes are those of the run.",
        &[
            Parameter::new(
                "form",
                ParameterType::Word(&["patch", "stat", "name_status"]),
                "The form [default: patch].",
            ),
            Parameter::new("at", ParameterType::Number(u64::MAX), "The files as they were at this event."),
        ],
        Text,
        |call| Box::pin(runs::diff(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/explain",
        "explain",
        "Why an agent may or may not execute an operation.",
        &[Parameter::new("operation", ParameterType::Text, "The operation, such as `write:src/main.rs`.")
            .required()],
        Object("Explanation", 200),
        |call| Box::pin(runs::explain(call)),
    ),
    reads(
        "/api/v1/runs/{run}/events",
        "listEvents",
        "A part of the journal of a run.",
        &[
            AFTER,
            Parameter::new(
                "limit",
                ParameterType::Number(EVENTS_PAGE_MAX),
                "The most events on the page [default: 100].",
            ),
            EVENT_AGENT,
            EVENT_KIND,
        ],
        Object("EventPage", 200),
        |call| Box::pin(events::page(call)),
    ),
    reads(
        "/api/v1/runs/{run}/events/stream",
        "followEvents",
        "The journal of a run as it grows. The `id` of a message is the number of its event; after the last event comes \
         the message `end`.",
        &[AFTER, EVENT_AGENT, EVENT_KIND],
        Stream("Event"),
        |call| Box::pin(events::follow(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/task/stream",
        "followTask",
        "An agent in the form of a task: `status`, `message`, `error`, `done`.",
        &[],
        Stream("AgentTaskEvent"),
        |call| Box::pin(events::task(call)),
    ),
    reads(
        "/api/v1/runs/{run}/deltas/stream",
        "followDeltas",
        "What the models of a run that this server executes write at the moment. A slow client loses some of it.",
        &[Parameter::new("agent", ParameterType::Text, "Only of this agent.")],
        Stream("Delta"),
        |call| Box::pin(events::deltas(call)),
    ),
    reads(
        "/api/v1/questions",
        "listQuestions",
        "The questions of all runs that wait for an answer.",
        &[],
        Object("QuestionList", 200),
        |call| Box::pin(runs::questions(call)),
    ),
    reads(
        "/api/v1/runs/{run}/questions",
        "listRunQuestions",
        "The questions of a run that wait for an answer.",
        &[],
        Object("QuestionList", 200),
        |call| Box::pin(runs::questions(call)),
    ),
    acts(
        "/api/v1/runs/{run}/answers",
        "answerQuestion",
        "Answer a question.",
        Some(schema::<AnswerQuestion>),
        Object("Answer", 200),
        |call| Box::pin(commands::answer(call)),
    ),
    acts(
        "/api/v1/runs/{run}/agents/{agent}/messages",
        "sendMessage",
        "Send a message to an agent.",
        Some(schema::<SendMessage>),
        Object("SentMessage", 202),
        |call| Box::pin(commands::send(call)),
    ),
    acts(
        "/api/v1/runs/{run}/cancel",
        "cancel",
        "Cancel a run, or one of its agents with its subtree.",
        Some(schema::<EndRun>),
        Object("CancelResult", 202),
        |call| Box::pin(commands::cancel(call)),
    ),
    acts(
        "/api/v1/runs/{run}/kill",
        "kill",
        "The same, and stop its tool calls at once.",
        Some(schema::<EndRun>),
        Object("CancelResult", 202),
        |call| Box::pin(commands::kill(call)),
    ),
    acts(
        "/api/v1/runs/{run}/resume",
        "resume",
        "Take over an interrupted run.",
        None,
        Object("StartedRun", 202),
        |call| Box::pin(commands::resume(call)),
    ),
    reads(
        "/api/v1/session",
        "getSession",
        "Whose token the request has, what it may do, and what the server knows.",
        &[],
        Object("ServerSession", 200),
        |call| Box::pin(session::session(call)),
    ),
    reads(
        "/api/v1/stats",
        "getStats",
        "What all runs spent, by model and by day.",
        &[],
        Object("AllStats", 200),
        |call| Box::pin(machine::stats(call)),
    ),
    reads(
        "/api/v1/agents",
        "listDefinitions",
        "The agent definitions of a directory, with their origins.",
        &[DIR],
        Object("AgentList", 200),
        |call| Box::pin(machine::agents(call)),
    ),
    reads(
        "/api/v1/skills",
        "listSkills",
        "The skills of a directory, with their origins.",
        &[DIR],
        Object("SkillList", 200),
        |call| Box::pin(machine::skills(call)),
    ),
    reads(
        "/api/v1/settings",
        "listSettings",
        "Every setting of a directory with its origin. No key or password is shown.",
        &[DIR],
        Object("SettingsList", 200),
        |call| Box::pin(machine::settings(call)),
    ),
    reads(
        "/api/v1/models",
        "listModels",
        "Model providers, models with their prices, and short names.",
        &[],
        Object("ModelList", 200),
        |call| Box::pin(machine::models(call)),
    ),
    reads(
        "/api/v1/doctor",
        "inspectMachine",
        "What the machine offers to runs.",
        &[],
        Object("MachineReport", 200),
        |call| Box::pin(machine::doctor(call)),
    ),
];

impl Call {
    /// A part of the path.
    fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// The run in the path, as an id.
    fn run_id(&self) -> Result<RunId, Problem> {
        let text = self.part("run");
        text.parse().map_err(|_| {
            let detail = format!("there is no run `{}`", posse::printable::visible_line(text));
            Problem::new(StatusCode::NOT_FOUND, ProblemCode::UnknownRun, detail)
        })
    }

    /// The run in the path.
    async fn run(&self) -> Result<RunSummary, Problem> {
        match self.state.posse.summary(&self.run_id()?).await {
            // The error of a removed run says so.
            Err(posse::Error::NoRun(run)) => Err(match self.state.posse.find(&run).await {
                Err(error) => error.into(),
                Ok(_) => posse::Error::NoRun(run).into(),
            }),
            found => Ok(found?),
        }
    }

    /// The agent in the path, by its id or relative to the run.
    fn agent(&self, run: &RunId) -> Result<AgentId, Problem> {
        agent_of(run, self.part("agent"))
    }

    /// The directory that a request is about.
    fn dir(&self) -> Result<String, Problem> {
        let dir = self.query.one("dir").map(|dir| Path::new(dir).to_owned());
        Ok(posse_setup::working_dir::working_dir(dir, &self.state.setup.environment.cwd)?)
    }
}

/// An agent of a run, by its id or relative to the run.
fn agent_of(run: &RunId, text: &str) -> Result<AgentId, Problem> {
    AgentId::from_relative(run, text).map_err(|_| {
        let detail = format!("run {run} has no agent `{}`", posse::printable::visible_line(text));
        Problem::new(StatusCode::NOT_FOUND, ProblemCode::UnknownAgent, detail)
    })
}
