//! `task_close`: closes a child that stays open after its end.

use posse_domain::event::EffectClass;
use posse_engine::ports::{EngineRequest, RequestTool, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::spec::{Parts, request};

const NAME: &str = "task_close";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The id of one of your tasks that has completed or failed.
    task_id: String,
}

pub(crate) fn tool() -> Tool {
    let parts = Parts {
        name: NAME,
        class: EffectClass::Delegate,
        text: include_str!("task_close.md"),
        specifier: |input| Some(input.get("task_id")?.as_str()?.to_owned()),
    };
    request::<Input>(&parts, TaskClose)
}

struct TaskClose;

impl RequestTool for TaskClose {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let Input { task_id } = parse(NAME, input)?;
        Ok(EngineRequest::Close { task_id: Check::of(NAME).task_id("task_id", task_id)? })
    }
}
