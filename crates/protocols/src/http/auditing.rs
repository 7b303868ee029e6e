//! Entries of the audit log about requests that act.

use std::sync::Arc;

use axum::body::Bytes;
use posse_setup::server::AuditEntry;
use serde_json::Value;

use super::assets::now_ms;
use super::callers::Caller;
use super::hosting::blocking;
use super::operations::Operation;
use super::problem::Problem;
use super::reply::Reply;
use super::state::ServerState;

/// The fields of bodies that say what is decided. The others are long texts, or what a user keeps to themselves.
const FIELDS: [&str; 9] =
    ["decision", "approval", "call_id", "agent", "reason", "undo", "unfinished", "dir", "tenant"];
/// Longest value of a field in an entry.
const VALUE_MAX_CHARS: usize = 200;

/// What is being decided.
pub(super) struct AuditedDecision(AuditEntry);

impl AuditedDecision {
    /// Adds the entry before a decision takes effect.
    pub(super) async fn begin(
        state: &Arc<ServerState>,
        caller: &Caller,
        operation: &Operation,
        path: &[(String, String)],
        body: &Bytes,
    ) -> Result<Self, Problem> {
        let part = |name: &str| path.iter().find(|(known, _)| known == name).map(|(_, value)| line(value));
        let agent = part("agent").map(|agent| format!("agent={agent}"));
        let details: Vec<String> = agent.into_iter().chain(detail(body)).collect();
        let id =
            posse_setup::server::access::random_hex().map_err(|error| Problem::failed(error.to_string()))?;
        let entry = AuditEntry {
            id: id.chars().take(ID_CHARS).collect(),
            at_ms: now_ms(),
            token: caller.name.clone(),
            tenant: caller.tenant.as_str().to_owned(),
            operation: operation.name.to_owned(),
            run: part("run"),
            detail: details.join(" "),
            outcome: None,
        };
        add(state, entry.clone()).await?;
        Ok(Self(entry))
    }

    /// The entry with what became of it.
    pub(super) fn outcome(self, result: &Result<Reply, Problem>) -> Outcome {
        let (run, outcome) = match result {
            Ok(Reply::Whole(status, _, body)) => (started_run(body), status.as_u16().to_string()),
            Ok(_) => (None, "200".to_owned()),
            Err(problem) => {
                let code = serde_json::to_value(problem.code).unwrap_or_default();
                (None, format!("{} {}", problem.status, code.as_str().unwrap_or_default()))
            }
        };
        let entry = AuditEntry { at_ms: now_ms(), outcome: Some(outcome), ..self.0 };
        Outcome(AuditEntry { run: entry.run.clone().or(run), ..entry })
    }
}

/// What became of a decision.
pub(super) struct Outcome(AuditEntry);

impl Outcome {
    /// Adds the entry. The decision has its first one, and has taken effect.
    pub(super) async fn add(self, state: &Arc<ServerState>) {
        if let Err(problem) = add(state, self.0).await {
            tracing::error!(detail = problem.detail, "an outcome is not in the audit log");
        }
    }
}

/// The length of the number of a decision.
const ID_CHARS: usize = 16;

async fn add(state: &Arc<ServerState>, entry: AuditEntry) -> Result<(), Problem> {
    let state = Arc::clone(state);
    Ok(blocking(move || state.audit.add(&entry)).await??)
}

/// What a body decides.
fn detail(body: &[u8]) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else { return Vec::new() };
    let value = |value: &Value| match value {
        Value::String(text) => Some(line(text)),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    FIELDS.iter().filter_map(|name| Some(format!("{name}={}", value(fields.get(*name)?)?))).collect()
}

fn line(text: &str) -> String {
    posse::printable::visible_line(&posse::first_line(text, VALUE_MAX_CHARS))
}

/// The run that a response names.
fn started_run(body: &[u8]) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(body) else { return None };
    fields.get("run").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_decision_and_not_what_users_wrote() {
        let body = br#"{"approval": "ab", "decision": "deny", "reason": "no\nnever", "text": "secret", "rules": []}"#;
        assert_eq!(detail(body), ["decision=deny", "approval=ab", "reason=no"]);
        assert!(detail(b"").is_empty() && detail(b"[1]").is_empty() && detail(b"{").is_empty());
    }
}
