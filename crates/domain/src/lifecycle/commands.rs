//! Decides on commands that a model wrote as success criteria of a child.
//!
//! The host runs them, so each is a `bash` operation of the agent that requested the child, and is decided before the
//! child exists. For that, each command is a call with an id that is derived from the call (or the plan step) that it
//! belongs to.

use serde_json::json;

use super::plan::step_number;
use super::{Run, SpawnFrom, SpawnRequest};
use crate::contract::Criterion;
use crate::message::ToolCall;
use crate::permission::BASH;
use crate::plan::Author;

/// Separates a call's id from the number of one of its commands.
const COMMAND_OF: &str = "/command-";

/// The commands of a request as equivalent `bash` calls.
pub fn command_calls(call_id: &str, request: &SpawnRequest) -> Vec<ToolCall> {
    let commands = request.success_criteria.iter().filter_map(|criterion| match criterion {
        Criterion::Command(command) => Some(command),
        Criterion::Words(_) => None,
    });
    let of = request.skill.as_ref().unwrap_or(&request.definition);
    let description = format!("success criterion of {of}: {}", request.title);
    let call = |(at, command): (usize, &crate::contract::CommandCriterion)| {
        let mut input = json!({"command": command.command, "description": description});
        if let Some(timeout_ms) = command.timeout_ms {
            input["timeout_ms"] = timeout_ms.into();
        }
        ToolCall { id: format!("{call_id}{COMMAND_OF}{}", at + 1), name: BASH.to_owned(), input }
    };
    commands.enumerate().map(call).collect()
}

/// The call that a command belongs to. None if the id is not a command's.
pub fn call_of_command(id: &str) -> Option<&str> {
    let (call, number) = id.rsplit_once(COMMAND_OF)?;
    number.parse::<u32>().is_ok().then_some(call)
}

/// Whether the host assigned this id, to a command of a call or to a plan step. No call of a model has such an id.
pub fn is_host_call(id: &str) -> bool {
    call_of_command(id).is_some() || step_number(id).is_some()
}

impl Run {
    /// Whether a model wrote the request and no user read it.
    pub fn is_asked_by_model(&self, from: SpawnFrom<'_>) -> bool {
        let planned = || self.planned.as_ref().is_some_and(|planned| planned.plan.author == Author::Model);
        from.message_id.is_some() || from.step.is_some() && planned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::CommandCriterion;

    #[test]
    fn a_command_is_a_call_of_bash_that_names_the_call_it_belongs_to() {
        let command = |command: &str, timeout_ms| {
            Criterion::Command(CommandCriterion { command: command.to_owned(), timeout_ms })
        };
        let request = SpawnRequest {
            definition: "general".to_owned(),
            title: "port auth".to_owned(),
            success_criteria: vec![
                Criterion::Words("It is ported.".to_owned()),
                command("make test", Some(5)),
                command("make lint", None),
            ],
            ..SpawnRequest::default()
        };
        let calls = command_calls("c1", &request);
        assert_eq!(
            calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
            ["c1/command-1", "c1/command-2"]
        );
        assert!(calls.iter().all(|call| call.name == BASH && call_of_command(&call.id) == Some("c1")));
        let description = "success criterion of general: port auth";
        assert_eq!(
            calls[0].input,
            json!({"command": "make test", "description": description, "timeout_ms": 5})
        );
        for none in ["c1", "c1/command-", "c1/command-x", "c1/command--1"] {
            assert_eq!(call_of_command(none), None, "{none}");
            assert!(!is_host_call(none), "{none}");
        }
        for hosts in ["c1/command-1", "/command-2", "step-1", "step-2/command-3"] {
            assert!(is_host_call(hosts), "{hosts}");
        }
    }
}
