//! `task_cancel`: cancels a child and all agents below it.

use posse_domain::event::EffectClass;
use posse_engine::ports::{EngineRequest, RequestTool, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::spec::{Parts, request};

const NAME: &str = "task_cancel";

const REASON_MAX_BYTES: usize = 2 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The id of one of your tasks.
    task_id: String,
    /// Why it is not needed any more, in a sentence.
    reason: String,
}

pub(crate) fn tool() -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Delegate,
        text: include_str!("task_cancel.md"),
        specifier: |input| Some(input.get("task_id")?.as_str()?.to_owned()),
    };
    request::<Input>(&parts, TaskCancel)
}

struct TaskCancel;

impl RequestTool for TaskCancel {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let check = Check::of(NAME);
        let Input { task_id, reason } = parse(NAME, input)?;
        Ok(EngineRequest::Cancel {
            task_id: check.task_id("task_id", task_id)?,
            reason: check.text("reason", reason, REASON_MAX_BYTES)?,
        })
    }
}
