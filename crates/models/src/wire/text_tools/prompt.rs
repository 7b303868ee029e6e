//! Writes a conversation with tools as text.

use std::fmt::Write;
use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::canonical_json;
use posse_domain::message::ToolCall;
use posse_engine::ports::ModelRequest;
use serde_json::{Value, json};

use super::Form;
use crate::wire::text::image_note;

/// Explains how a call is written as a marked block.
const FENCED: &str = "
# Tools

You call a tool by writing a block like this one, at the beginning of a line:

```tool_call
{\"name\": \"<the tool>\", \"arguments\": {<its arguments>}}
```

Nothing else is a call. You may write several blocks; then end your reply, and you will be given the results. Never write results yourself. A reply without such a block is your final answer.
";

/// Explains how a call is written if a schema is enforced.
const SCHEMA: &str = "
# Tools

Your whole reply is one JSON object: `text` is what you say, and `calls` are the tools that you call, each with its `name` and `arguments`. You will be given the results. Never write results yourself. A reply whose `calls` are empty is your final answer.
";

/// The request for a model without native tool calls.
pub(super) fn without_tools(request: &ModelRequest, form: Form) -> ModelRequest {
    let mut told = ModelRequest { tools: Arc::new([]), messages: Vec::new(), ..request.clone() };
    if !request.callable().is_empty() {
        told.system = format!("{}{}", request.system, tools(request.callable(), form)).into();
    }
    // Many models require alternating user and assistant messages.
    let mut heard = String::new();
    for message in &request.messages {
        match &**message {
            Message::User(text) => result_text(&mut heard, text),
            Message::Results(results) => {
                for (at, result) in results.iter().enumerate() {
                    result_text(&mut heard, &result_message(at + 1, result));
                }
            }
            Message::Assistant { text, calls, .. } => {
                flush(&mut told.messages, &mut heard);
                let text = call_text(text, calls, form).into();
                told.messages.push(Arc::new(Message::Assistant { text, calls: Arc::new([]), raw: None }));
            }
        }
    }
    flush(&mut told.messages, &mut heard);
    told
}

fn result_text(heard: &mut String, text: &str) {
    if !heard.is_empty() {
        heard.push_str("\n\n");
    }
    heard.push_str(text);
}

fn flush(messages: &mut Vec<Arc<Message>>, heard: &mut String) {
    if !heard.is_empty() {
        messages.push(Arc::new(Message::User(std::mem::take(heard).into())));
    }
}

/// Name, first line and schema of each tool.
fn tools(tools: &[Arc<ToolSpec>], form: Form) -> String {
    let mut text = match form {
        Form::Fenced => FENCED,
        Form::Schema => SCHEMA,
    }
    .to_owned();
    text.push_str("\nThese are the tools, with the JSON Schema of their arguments:\n");
    for tool in tools {
        let line = tool.description.lines().next().unwrap_or_default();
        let _ = write!(text, "\n- `{}`: {line} `{}`", tool.name, canonical_json(&tool.input_schema));
    }
    text.push('\n');
    text
}

/// The model's own message, as it would have written it.
fn call_text(text: &str, calls: &[ToolCall], form: Form) -> String {
    match form {
        Form::Schema => {
            let calls: Vec<Value> =
                calls.iter().map(|call| json!({"name": call.name, "arguments": call.input})).collect();
            // Written by hand, so that the text comes first in every build.
            format!(r#"{{"text":{},"calls":{}}}"#, Value::from(text), Value::Array(calls))
        }
        Form::Fenced => {
            let mut said = text.to_owned();
            for call in calls {
                if !said.is_empty() {
                    said.push('\n');
                }
                let body = match &call.input {
                    // Text that did not parse is shown unchanged.
                    Value::String(text) => text.trim().to_owned(),
                    input => format!(r#"{{"name":{},"arguments":{input}}}"#, Value::from(call.name.as_str())),
                };
                let _ = write!(said, "```tool_call\n{body}\n```");
            }
            said
        }
    }
}

fn result_message(number: usize, result: &CallResult) -> String {
    let how = if result.ok { "Result" } else { "Failure" };
    let mut text = format!("{how} of call {number}, `{}`:\n\n{}", result.tool, result.text);
    for image in &result.images {
        let _ = write!(text, "\n{}", image_note(image));
    }
    text
}
