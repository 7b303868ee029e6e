//! The bodies of requests. A field that is not known is refused: a misspelled limit would limit nothing.

mod commands;
mod runs;

use axum::http::StatusCode;
use serde::de::DeserializeOwned;

use super::problem::{Problem, ProblemCode};
pub(super) use commands::{
    AddProject, AnswerQuestion, ApplyWork, CheckPlan, EndRun, QuestionDecision, SendMessage, which,
};
pub(super) use runs::{ContinueRun, ReplayRun, RetryRun, StartRun};

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

fn refused(detail: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, ProblemCode::Refused, detail)
}

#[cfg(test)]
mod tests {
    use posse::Answer;

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
