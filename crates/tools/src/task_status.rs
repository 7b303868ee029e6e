//! `task_status`: reports the states of children.

use posse_domain::event::EffectClass;
use posse_engine::ports::{EngineRequest, RequestTool, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::spec::{Parts, request};

const NAME: &str = "task_status";

/// Maximum wait for a change.
const WAIT_MAX_MS: u64 = 600_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The id of one of your tasks. Default: all of them.
    task_id: Option<String>,
    /// Wait for a change, at most this many milliseconds and never longer than 600000. Default 0: answer at
    /// once.
    wait_ms: Option<u64>,
}

pub(crate) fn tool() -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Delegate,
        text: include_str!("task_status.md"),
        specifier: |input| Some(input.get("task_id")?.as_str()?.to_owned()),
    };
    request::<Input>(&parts, TaskStatus)
}

struct TaskStatus;

impl RequestTool for TaskStatus {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let Input { task_id, wait_ms } = parse(NAME, input)?;
        // Models that must fill every field leave it empty.
        let task_id = task_id.filter(|id| !id.trim().is_empty());
        let task_id = task_id.map(|id| Check::of(NAME).task_id("task_id", id)).transpose()?;
        let wait_ms = wait_ms.filter(|wait| *wait > 0).map(|wait| wait.min(WAIT_MAX_MS));
        Ok(EngineRequest::Status { task_id, wait_ms })
    }
}
