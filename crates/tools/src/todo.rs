//! `todo`: replaces the agent's own to-do list.

use posse_domain::event::{EffectClass, TodoItem, TodoStatus};
use posse_engine::ports::{EngineRequest, RequestTool, Tool, ToolFailure};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::input::{Check, parse};
use crate::spec::{Parts, request};

const NAME: &str = "todo";

const ITEMS_MAX: usize = 100;
const ITEM_MAX_BYTES: usize = 500;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// The whole list, in order; it replaces the last one. Empty to clear it.
    items: Vec<Item>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// What is to be done, in a few words.
    text: String,
    /// How far it is.
    status: Status,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Done,
}

pub(crate) fn tool() -> Tool {
    let parts =
        Parts { name: NAME, class: EffectClass::Journal, text: include_str!("todo.md"), specifier: |_| None };
    request::<Input>(&parts, Todo)
}

struct Todo;

impl RequestTool for Todo {
    fn request(&self, input: Value) -> Result<EngineRequest, ToolFailure> {
        let check = Check::of(NAME);
        let input: Input = parse(NAME, input)?;
        check.count("items", &input.items, ITEMS_MAX)?;
        let items = input.items.into_iter().enumerate().map(|(index, item)| {
            let text = check.text(&format!("items[{index}].text"), item.text, ITEM_MAX_BYTES)?;
            let status = match item.status {
                Status::Pending => TodoStatus::Pending,
                Status::InProgress => TodoStatus::InProgress,
                Status::Done => TodoStatus::Done,
            };
            Ok(TodoItem { text, status })
        });
        Ok(EngineRequest::Todo(items.collect::<Result<_, ToolFailure>>()?))
    }
}
