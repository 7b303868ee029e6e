//! `task_send`: sends a message to a running child.

use posse_domain::event::EffectClass;
use posse_engine::ports::{EngineRequest, RequestTool, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::spec::{Parts, request};

const NAME: &str = "task_send";

const MESSAGE_MAX_BYTES: usize = 64 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The id of one of your running tasks.
    task_id: String,
    /// What to tell the agent.
    message: String,
}

pub(crate) fn tool() -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Delegate,
        text: include_str!("task_send.md"),
        specifier: |input| Some(input.get("task_id")?.as_str()?.to_owned()),
    };
    request::<Input>(&parts, TaskSend)
}

struct TaskSend;

impl RequestTool for TaskSend {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let check = Check::of(NAME);
        let Input { task_id, message } = parse(NAME, input)?;
        Ok(EngineRequest::Send {
            task_id: check.task_id("task_id", task_id)?,
            message: check.text("message", message, MESSAGE_MAX_BYTES)?,
        })
    }
}
