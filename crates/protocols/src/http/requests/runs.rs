//! Runs that a request starts: new ones, and those that continue, retry or replay an earlier one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::http::StatusCode;
use posse::{Decision, Pattern, Rule};
use posse_setup::RunDraft;
use posse_setup::draft::{PlanInput, ReplayDraft, RunPermissions};
use posse_setup::settings::keys::{Key, with_flag};
use posse_setup::settings::{Origin, Settings, WithOrigin};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::problem::{Problem, ProblemCode};
use super::refused;

/// What a rule of a run decides. A rule cannot allow: that is an approval.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum RuleDecision {
    /// A client is asked first.
    Ask,
    /// It is refused.
    Deny,
}

/// A rule of the run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RunRule {
    /// The operations, such as `bash:git *` or `write:src/**`.
    pattern: String,
    /// What is decided about them.
    decision: RuleDecision,
}

/// A run to start. Omitted fields come from the user's settings, from what the project may choose, and from
/// the defaults.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct StartRun {
    /// What to do. `/NAME` at its beginning calls the skill of that name. Optional with a plan or a skill.
    #[serde(default)]
    request: Option<String>,
    /// Text beside the request, such as the output of a program. The root reads it after the request.
    #[serde(default)]
    context: Option<String>,
    /// The working directory, on the server's machine. By default it is the project that the server was started in.
    #[serde(default)]
    dir: Option<PathBuf>,
    /// The name of the root's definition.
    #[serde(default)]
    agent: Option<String>,
    /// The name of the skill that executes the request.
    #[serde(default)]
    skill: Option<String>,
    /// The plan that is executed: an object, or YAML as a text.
    #[serde(default)]
    plan: Option<Value>,
    /// Operations that are approved in advance, such as `network`.
    #[serde(default)]
    allow: Vec<String>,
    /// The run's own rules; the last one that matches an operation wins.
    #[serde(default)]
    rules: Vec<RunRule>,
    /// The base URL of the model's provider.
    #[serde(default)]
    base_url: Option<String>,
    /// Settings of this run by their names, such as `agent.max_usd`.
    #[serde(default)]
    #[schemars(schema_with = "settings_schema")]
    settings: BTreeMap<String, Value>,
}

impl StartRun {
    /// Converts the request. `session` marks the run as started by it.
    pub(in super::super) fn draft(self, session: Option<String>) -> Result<RunDraft, Problem> {
        let settings = settings_of(&self.settings, self.base_url)?;
        let permissions = permissions_of(&self.allow, &self.rules)?;
        let plan = self.plan.as_ref().map(plan_text).transpose()?.map(PlanInput::Text);
        Ok(RunDraft {
            text: self.request,
            context: self.context,
            dir: self.dir,
            agent: self.agent,
            skill: self.skill,
            plan,
            permissions,
            settings,
            session_id: session,
            // Clients answer the questions of every agent, unless `on_ask` says that they are denied.
            answers_sub_agents: true,
            ..RunDraft::default()
        })
    }
}

/// A follow-up for an agent that has ended: a new run that begins with its conversation and its files.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct ContinueRun {
    /// The next message in the conversation of the agent.
    text: String,
    /// Another definition for the root of the new run. By default it is that of the earlier agent.
    #[serde(default)]
    agent: Option<String>,
    /// Operations that are approved in advance, such as `network`.
    #[serde(default)]
    allow: Vec<String>,
    /// The run's own rules; the last one that matches an operation wins.
    #[serde(default)]
    rules: Vec<RunRule>,
    /// The base URL of the model's provider. By default it is that of the earlier run.
    #[serde(default)]
    base_url: Option<String>,
    /// Settings of this run by their names. The model is that of the earlier run unless it is named.
    #[serde(default)]
    #[schemars(schema_with = "settings_schema")]
    settings: BTreeMap<String, Value>,
}

impl ContinueRun {
    /// The draft, without what it takes from the earlier run.
    pub(in super::super) fn draft(self, session: Option<String>) -> Result<RunDraft, Problem> {
        if self.text.trim().is_empty() {
            return Err(refused("the message is empty".to_owned()).field("text"));
        }
        Ok(RunDraft {
            text: Some(self.text),
            agent: self.agent,
            permissions: permissions_of(&self.allow, &self.rules)?,
            settings: settings_of(&self.settings, self.base_url)?,
            session_id: session,
            answers_sub_agents: true,
            ..RunDraft::default()
        })
    }
}

/// Another try at the work of a run or of an agent that did not complete.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct RetryRun {
    /// Another definition for the root of the new run. By default it is that of the earlier agent.
    #[serde(default)]
    agent: Option<String>,
    /// Operations that are approved in advance, such as `network`.
    #[serde(default)]
    allow: Vec<String>,
    /// The run's own rules; the last one that matches an operation wins.
    #[serde(default)]
    rules: Vec<RunRule>,
    /// The base URL of the model's provider. By default it is that of the earlier run.
    #[serde(default)]
    base_url: Option<String>,
    /// Settings of this run by their names. Model and limits are those of the earlier run unless they are named.
    #[serde(default)]
    #[schemars(schema_with = "settings_schema")]
    settings: BTreeMap<String, Value>,
}

impl RetryRun {
    /// The draft, without what it takes from the earlier run.
    pub(in super::super) fn draft(self, session: Option<String>) -> Result<RunDraft, Problem> {
        Ok(RunDraft {
            agent: self.agent,
            permissions: permissions_of(&self.allow, &self.rules)?,
            settings: settings_of(&self.settings, self.base_url)?,
            session_id: session,
            answers_sub_agents: true,
            ..RunDraft::default()
        })
    }
}

/// A replay of a run, whose terms and files are those of the recorded run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct ReplayRun {
    /// Operations that are approved in advance, such as `network`. Those of the recorded run do not apply.
    #[serde(default)]
    allow: Vec<String>,
    /// The replay's own rules; the last one that matches an operation wins.
    #[serde(default)]
    rules: Vec<RunRule>,
}

impl ReplayRun {
    /// The draft of the replay of a run. `session` marks the replay as started by this request.
    pub(in super::super) fn draft(
        self,
        run: &posse::RunId,
        session: Option<String>,
    ) -> Result<ReplayDraft, Problem> {
        Ok(ReplayDraft {
            recorded: run.to_string(),
            permissions: permissions_of(&self.allow, &self.rules)?,
            session_id: session,
            ..ReplayDraft::default()
        })
    }
}

/// The settings of one run.
fn run_keys() -> impl Iterator<Item = &'static Key> {
    with_flag().map(|(key, _)| key)
}

/// What a request approves in advance, and its rules.
fn permissions_of(allow: &[String], rules: &[RunRule]) -> Result<RunPermissions, Problem> {
    let pattern = |field: String, text: &str| {
        text.parse::<Pattern>().map_err(|problem| refused(problem.to_string()).field(field))
    };
    let allow = allow.iter().enumerate().map(|(at, text)| pattern(format!("allow[{at}]"), text));
    let rules = rules.iter().enumerate().map(|(at, rule)| {
        let decision = match rule.decision {
            RuleDecision::Ask => Decision::Ask,
            RuleDecision::Deny => Decision::Deny,
        };
        Ok(Rule { pattern: pattern(format!("rules[{at}].pattern"), &rule.pattern)?, decision })
    });
    Ok(RunPermissions {
        allow: allow.collect::<Result<_, _>>()?,
        rules: rules.collect::<Result<_, Problem>>()?,
    })
}

/// The text of a plan.
pub(in super::super) fn plan_text(plan: &Value) -> Result<String, Problem> {
    match plan {
        Value::String(text) => Ok(text.clone()),
        Value::Object(_) => Ok(plan.to_string()),
        _ => Err(refused("expected a plan as an object, or as a text".to_owned()).field("plan")),
    }
}

/// The settings of a request, with the base URL of the model's provider.
fn settings_of(given: &BTreeMap<String, Value>, base_url: Option<String>) -> Result<Settings, Problem> {
    let mut settings = read_settings(given)?;
    settings.base_url = WithOrigin::request(base_url, "base_url");
    Ok(settings)
}

fn read_settings(given: &BTreeMap<String, Value>) -> Result<Settings, Problem> {
    let mut settings = Settings::default();
    for (name, value) in given {
        let field = format!("settings.{name}");
        let key = run_keys().find(|key| key.name == name);
        let key = key.ok_or_else(|| {
            let names: Vec<&str> = run_keys().map(|key| key.name).collect();
            let detail = format!("a run has no such setting; it has {}", names.join(", "));
            Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail).field(&field)
        })?;
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(is_set) => is_set.to_string(),
            _ => {
                let detail = "expected a text, a number, or true or false";
                return Err(
                    Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail).field(field)
                );
            }
        };
        key.set(&mut settings, &text, Origin::Request(key.name))
            .map_err(|problem| refused(problem).field(field))?;
    }
    Ok(settings)
}

/// The settings of one run, each with its meaning.
fn settings_schema(_: &mut SchemaGenerator) -> Schema {
    let property = |key: &'static Key| {
        let schema = json!({ "type": ["string", "number", "boolean"], "description": key.meaning });
        (key.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = run_keys().map(property).collect();
    json_schema!({
        "type": "object",
        "description": "Settings of this run by their names; a limit is a number or `none`.",
        "properties": properties,
        "additionalProperties": false,
    })
}
