//! The table of operations.

use posse::api::TokenRight;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::super::limits::{AUDIT_PAGE_MAX, CONVERSATION_PAGE_MAX, EVENTS_PAGE_MAX, RUNS_PAGE_MAX};
use super::super::query::{Parameter, ParameterType};
use super::super::requests::{
    AddProject, AnswerQuestion, ApplyWork, CheckPlan, ContinueRun, EndRun, ReplayRun, RetryRun, SendMessage,
    StartRun,
};
use super::{
    Answers, Effect, Handler, Operation, commands, events, machine, reading, runs, session, starting, work,
};

const DIR: Parameter =
    Parameter::new("dir", ParameterType::Text, "The directory [default: the server's own].");
const AFTER: Parameter =
    Parameter::new("after", ParameterType::Number(u64::MAX), "Only events after this number.");
const AT: Parameter =
    Parameter::new("at", ParameterType::Number(u64::MAX), "The files as they were at this event.");
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
    Operation {
        effect: Effect::Reads,
        path,
        name,
        meaning,
        right: TokenRight::Read,
        query,
        body: None,
        answers,
        handler,
    }
}

const fn acts(
    path: &'static str,
    name: &'static str,
    meaning: &'static str,
    body: Option<fn(&mut SchemaGenerator) -> Schema>,
    answers: Answers,
    handler: Handler,
) -> Operation {
    Operation {
        effect: Effect::Acts,
        path,
        name,
        meaning,
        right: TokenRight::Run,
        query: &[],
        body,
        answers,
        handler,
    }
}

/// The same operation for callers with another right.
const fn needs(right: TokenRight, operation: Operation) -> Operation {
    Operation { right, ..operation }
}

use Answers::{Bundle, Object, Stream, Text};

/// Every operation of the API.
pub(in super::super) const OPERATIONS: &[Operation] = &[
    reads(
        "/api/v1/runs",
        "listRuns",
        "List the runs, newest first.",
        &[
            Parameter::new("status", ParameterType::Word(runs::STATUSES), "Only runs with this status.")
                .repeated(),
            Parameter::new("dir", ParameterType::Text, "Only runs of the project in this directory."),
            Parameter::new("prefix", ParameterType::Text, "Only runs whose id begins like this."),
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
        |call| Box::pin(starting::start(call)),
    ),
    reads(
        "/api/v1/runs/{run}",
        "getRun",
        "A run with its agents, now or as it was at an event.",
        &[Parameter::new("at", ParameterType::Number(u64::MAX), "The run as it was at this event.")],
        Object("RunDetail", 200),
        |call| Box::pin(runs::detail(call)),
    ),
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
            AT,
        ],
        Text,
        |call| Box::pin(work::diff(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/diff/files",
        "listChangedFiles",
        "The files that an agent changed, with the numbers of lines; `0` is the root.",
        &[AT],
        Object("ChangedFileList", 200),
        |call| Box::pin(work::changed_files(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/diff/file",
        "getFileDiff",
        "The change of one file by an agent.",
        &[
            Parameter::new("path", ParameterType::Text, "The path of the file, before or after the change.")
                .required(),
            AT,
        ],
        Object("FileDiff", 200),
        |call| Box::pin(work::file_diff(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/contract",
        "getContract",
        "The terms of an agent: in words, and in full.",
        &[],
        Object("ContractDetail", 200),
        |call| Box::pin(reading::contract(call)),
    ),
    reads(
        "/api/v1/runs/{run}/agents/{agent}/conversation",
        "getConversation",
        "A part of the conversation of an agent: prompts, replies, tool calls with input and output, compactions.",
        &[
            AFTER,
            Parameter::new(
                "limit",
                ParameterType::Number(CONVERSATION_PAGE_MAX),
                "The most events of the agent on the page [default: 100].",
            ),
        ],
        Object("Conversation", 200),
        |call| Box::pin(reading::conversation(call)),
    ),
    reads(
        "/api/v1/runs/{run}/timeline",
        "getTimeline",
        "When each agent of a run did what.",
        &[],
        Object("RunTimeline", 200),
        |call| Box::pin(reading::timeline(call)),
    ),
    reads(
        "/api/v1/runs/{run}/salvage",
        "listSalvage",
        "The work of a run that was not merged and is kept.",
        &[],
        Object("SalvageList", 200),
        |call| Box::pin(work::salvage(call)),
    ),
    reads(
        "/api/v1/runs/{run}/apply",
        "checkApply",
        "What an apply would write. Nothing is written.",
        &[
            Parameter::new("agent", ParameterType::Text, "Only the work of this agent."),
            Parameter::new(
                "unfinished",
                ParameterType::Word(&["true", "false"]),
                "Also for a run or an agent that failed or was cancelled [default: false].",
            ),
        ],
        Object("ApplyCheck", 200),
        |call| Box::pin(work::check_apply(call)),
    ),
    acts(
        "/api/v1/runs/{run}/apply",
        "apply",
        "Apply the changes of a run, or of one of its agents, to its directory; or take that back.",
        Some(schema::<ApplyWork>),
        Object("ApplyResult", 200),
        |call| Box::pin(work::apply(call)),
    ),
    needs(
        TokenRight::Run,
        reads(
            "/api/v1/runs/{run}/export",
            "exportRun",
            "A run as one file, a bundle, which can be replayed on any machine.",
            &[],
            Bundle,
            |call| Box::pin(work::export(call)),
        ),
    ),
    acts(
        "/api/v1/runs/{run}/replay",
        "replay",
        "Start a replay of a run: a run that repeats its replies and results.",
        Some(schema::<ReplayRun>),
        Object("StartedRun", 201),
        |call| Box::pin(starting::replay(call)),
    ),
    acts(
        "/api/v1/runs/{run}/agents/{agent}/continue",
        "continueAgent",
        "Start a run that continues the conversation of an agent that has ended; `0` is the root.",
        Some(schema::<ContinueRun>),
        Object("StartedRun", 201),
        |call| Box::pin(starting::continue_agent(call)),
    ),
    acts(
        "/api/v1/runs/{run}/agents/{agent}/retry",
        "retryAgent",
        "Start a run that does the work of a run or an agent again, on what is integrated; `0` is the root.",
        Some(schema::<RetryRun>),
        Object("StartedRun", 201),
        |call| Box::pin(starting::retry(call)),
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
    needs(
        TokenRight::Answer,
        acts(
            "/api/v1/runs/{run}/answers",
            "answerQuestion",
            "Answer a question.",
            Some(schema::<AnswerQuestion>),
            Object("Answer", 200),
            |call| Box::pin(commands::answer(call)),
        ),
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
        |call| Box::pin(async move { session::session(&call) }),
    ),
    reads(
        "/api/v1/projects",
        "listProjects",
        "The projects in which the client may start runs.",
        &[],
        Object("ServerProjectList", 200),
        |call| Box::pin(async move { session::projects(&call) }),
    ),
    needs(
        TokenRight::Admin,
        acts(
            "/api/v1/projects",
            "addProject",
            "Let the clients of a tenant start runs in a project.",
            Some(schema::<AddProject>),
            Object("ServerProjectList", 201),
            |call| Box::pin(session::add_project(call)),
        ),
    ),
    needs(
        TokenRight::Admin,
        reads(
            "/api/v1/audit",
            "listAudit",
            "What clients decided, newest first, with the name of the token.",
            &[Parameter::new(
                "limit",
                ParameterType::Number(AUDIT_PAGE_MAX),
                "The most entries [default: 100].",
            )],
            Object("AuditPage", 200),
            |call| Box::pin(session::audit(call)),
        ),
    ),
    needs(
        TokenRight::Read,
        acts(
            "/api/v1/plans/check",
            "checkPlan",
            "Check a plan, and start nothing.",
            Some(schema::<CheckPlan>),
            Object("PlanCheck", 200),
            |call| Box::pin(machine::check_plan(call)),
        ),
    ),
    reads(
        "/api/v1/trust",
        "listTrust",
        "The files of a project that could run code or widen permissions, and whether the user trusts them.",
        &[DIR],
        Object("TrustList", 200),
        |call| Box::pin(machine::trust(call)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The documentation, whose examples `cargo xtask docs` runs.
    const PAGE: &str = include_str!("../../../../../docs/api.md");

    /// The requests of its examples: what they do, and their paths.
    fn examples() -> Vec<(Effect, String)> {
        let page = PAGE.replace("\\\n", " ").replace("$(cat api.txt)", "/api/v1").replace("$api", "/api/v1");
        let page = page.replace("$(cat run.txt)", "RUN");
        let commands = page.lines().filter(|line| line.contains("curl "));
        let request = |line: &str| {
            let acts = line.contains(" -d ") || line.contains(" -X POST");
            let effect = if acts { Effect::Acts } else { Effect::Reads };
            let mut words =
                line.split(|letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | ')'));
            let path = words.find(|word| word.starts_with("/api/"))?;
            Some((effect, path.split(['?', ';']).next().unwrap_or(path).to_owned()))
        };
        commands.filter_map(request).collect()
    }

    fn is_path_of(template: &str, path: &str) -> bool {
        let (of, parts) = (template.split('/'), path.split('/'));
        of.clone().count() == parts.clone().count()
            && of.zip(parts).all(|(of, part)| of == part || of.starts_with('{'))
    }

    #[test]
    fn the_documentation_has_an_example_of_every_operation() {
        let examples = examples();
        for operation in OPERATIONS {
            let is_there = examples
                .iter()
                .any(|(effect, path)| *effect == operation.effect && is_path_of(operation.path, path));
            assert!(is_there, "docs/api.md has no curl example of {} ({})", operation.name, operation.path);
        }
    }
}
