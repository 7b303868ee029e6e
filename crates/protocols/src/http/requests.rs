//! The bodies of requests. A field that is not known is refused: a misspelled limit would limit nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use axum::http::StatusCode;
use posse::{Answer, Decision, Pattern, Rule};
use posse_setup::RunDraft;
use posse_setup::draft::{PlanInput, RunPermissions};
use posse_setup::settings::keys::{Key, with_flag};
use posse_setup::settings::{Origin, Settings, WithOrigin};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::problem::{Problem, ProblemCode};

/// Reads the body of a request. An empty body is an object without fields.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = if body.is_empty() { b"{}" } else { body };
    // A list of values would be read as the fields in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        let detail = "expected an object";
        return Err(Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, detail));
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let message = error.inner().to_string();
        let path = error.path().to_string();
        let field = named_field(&message, &path);
        let problem = Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, message);
        match field {
            Some(field) => problem.field(field),
            None => problem,
        }
    });
    let read = read?;
    reader.end().map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, ProblemCode::InvalidRequest, error.to_string())
    })?;
    Ok(read)
}

/// The field that an error of the parser is about.
fn named_field(message: &str, path: &str) -> Option<String> {
    let quoted = ["unknown field `", "missing field `"].iter().find_map(|start| {
        let rest = message.strip_prefix(start)?;
        rest.split_once('`').map(|(name, _)| name)
    });
    let parent = (path != "." && !path.is_empty()).then_some(path);
    match (parent, quoted) {
        (Some(parent), Some(name)) if parent.rsplit('.').next() == Some(name) => Some(parent.to_owned()),
        (Some(parent), Some(name)) => Some(format!("{parent}.{name}")),
        (Some(path), None) => Some(path.to_owned()),
        (None, name) => name.map(str::to_owned),
    }
}

/// What a rule of a run decides. A rule cannot allow: that is an approval.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RuleDecision {
    /// A client is asked first.
    Ask,
    /// It is refused.
    Deny,
}

/// A rule of the run.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunRule {
    /// The operations, such as `bash:git *` or `write:src/**`.
    pattern: String,
    /// What is decided about them.
    decision: RuleDecision,
}

/// A run to start. Omitted fields come from the user's settings, from what the project may choose, and from
/// the defaults.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StartRun {
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
    pub(super) fn draft(self, session: Option<String>) -> Result<RunDraft, Problem> {
        let mut settings = read_settings(&self.settings)?;
        settings.base_url = WithOrigin::request(self.base_url, "base_url");
        let pattern = |field: String, text: &str| {
            text.parse::<Pattern>().map_err(|problem| refused(problem.to_string()).field(field))
        };
        let allow = self.allow.iter().enumerate();
        let allow = allow.map(|(at, text)| pattern(format!("allow[{at}]"), text));
        let rules = self.rules.iter().enumerate().map(|(at, rule)| {
            let decision = match rule.decision {
                RuleDecision::Ask => Decision::Ask,
                RuleDecision::Deny => Decision::Deny,
            };
            Ok(Rule { pattern: pattern(format!("rules[{at}].pattern"), &rule.pattern)?, decision })
        });
        let permissions = RunPermissions {
            allow: allow.collect::<Result<_, _>>()?,
            rules: rules.collect::<Result<_, Problem>>()?,
        };
        let plan = match self.plan {
            None => None,
            Some(Value::String(text)) => Some(PlanInput::Text(text)),
            Some(plan @ Value::Object(_)) => Some(PlanInput::Text(plan.to_string())),
            Some(_) => {
                return Err(refused("expected a plan as an object, or as a text".to_owned()).field("plan"));
            }
        };
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

fn refused(detail: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, detail)
}

/// The settings of one run.
fn run_keys() -> impl Iterator<Item = &'static Key> {
    with_flag().map(|(key, _)| key)
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

/// The end of a run or of one of its agents.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EndRun {
    /// The agent to end with its subtree, by its id or as `2.1`. Without it, the whole run ends.
    #[serde(default)]
    pub(super) agent: Option<String>,
    /// The reason, which the journal and the agents have.
    #[serde(default)]
    pub(super) reason: Option<String>,
}

/// A message to an agent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendMessage {
    /// The text, which the agent reads before its next turn.
    pub(super) text: String,
}

/// The decision about a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum QuestionDecision {
    /// The call may run.
    Allow,
    /// The call may run, and so may the same operation in later runs of the same directory.
    Always,
    /// The call must not run.
    Deny,
}

/// The answer to a question.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerQuestion {
    /// The `approval` of the question, so that the answer is about exactly what was shown.
    pub(super) approval: String,
    /// The agent that asks, if several ask the same.
    #[serde(default)]
    pub(super) agent: Option<String>,
    /// The id of its call, if several calls ask the same.
    #[serde(default)]
    pub(super) call_id: Option<String>,
    /// The decision.
    pub(super) decision: QuestionDecision,
    /// Why the call is denied, which the agent reads.
    #[serde(default)]
    reason: Option<String>,
}

impl AnswerQuestion {
    /// The answer for the journal.
    pub(super) fn answer(&self) -> Result<Answer, Problem> {
        match (self.decision, &self.reason) {
            (QuestionDecision::Allow, None) => Ok(Answer::Once),
            (QuestionDecision::Always, None) => Ok(Answer::Always),
            (QuestionDecision::Deny, reason) => Ok(Answer::Deny { reason: reason.clone() }),
            (_, Some(_)) => Err(refused("only a denial has a reason".to_owned()).field("reason")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(body: &str) -> Option<String> {
        let read = read::<StartRun>(body.as_bytes()).and_then(|request| request.draft(None));
        read.err().and_then(|problem| problem.field)
    }

    #[test]
    fn an_error_names_the_field_that_is_wrong() {
        assert_eq!(
            field(r#"{"request": "x", "settings": {"agent.max_turns": 3, "agent.max_usd": "none"}}"#),
            None
        );
        for (body, wrong) in [
            (r#"{"reqest": "x"}"#, "reqest"),
            (r#"{"request": 1}"#, "request"),
            (r#"{"rules": [{"pattern": "bash", "decision": "allow"}]}"#, "rules[0].decision"),
            (r#"{"rules": [{"pattern": "bash"}]}"#, "rules[0].decision"),
            (r#"{"rules": [{"pattern": "", "decision": "ask"}]}"#, "rules[0].pattern"),
            (r#"{"allow": ["network", ""]}"#, "allow[1]"),
            (r#"{"plan": 1}"#, "plan"),
            (r#"{"settings": {"agent.max_turn": 3}}"#, "settings.agent.max_turn"),
            (r#"{"settings": {"agent.max_turns": "many"}}"#, "settings.agent.max_turns"),
            (r#"{"settings": {"agent.max_turns": []}}"#, "settings.agent.max_turns"),
        ] {
            assert_eq!(field(body).as_deref(), Some(wrong), "{body}");
        }
    }

    #[test]
    fn a_body_is_one_object() {
        for body in ["{", "[]", "{} {}", "null", "\"x\""] {
            assert!(read::<EndRun>(body.as_bytes()).is_err(), "{body}");
        }
        assert!(read::<EndRun>(b"").is_ok(), "no field is required");
        let missing = read::<SendMessage>(b"").expect_err("a field is required");
        assert_eq!(missing.field.as_deref(), Some("text"));
    }

    #[test]
    fn only_a_denial_has_a_reason() {
        let answer =
            |body: &str| read::<AnswerQuestion>(body.as_bytes()).and_then(|request| request.answer());
        assert_eq!(answer(r#"{"approval": "a", "decision": "always"}"#), Ok(Answer::Always));
        let denied = Answer::Deny { reason: Some("no".to_owned()) };
        assert_eq!(answer(r#"{"approval": "a", "decision": "deny", "reason": "no"}"#), Ok(denied));
        let wrong = answer(r#"{"approval": "a", "decision": "allow", "reason": "no"}"#);
        assert_eq!(wrong.expect_err("a reason").field.as_deref(), Some("reason"));
    }
}
