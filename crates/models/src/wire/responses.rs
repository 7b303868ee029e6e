//! The wire format of OpenAI Responses, streaming and stateless: the provider stores nothing, and encrypted thinking is
//! part of the conversation.

mod reader;

use std::borrow::Cow;
use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::message::{Image, RawReply, ToolCall};
use posse_engine::ports::ModelRequest;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::text::{image_data, image_note};
use super::{ErrorResponse, Problem, ReplyReader, Target, Wire, WireRequest};

/// Thinking that only the provider can read, so that later requests can contain it.
const ENCRYPTED_THINKING: &str = "reasoning.encrypted_content";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Responses;

impl Wire for Responses {
    fn request(&self, target: &Target, request: &ModelRequest) -> WireRequest {
        let sampling = target.abilities.sampling;
        let body = Body {
            model: &target.model,
            stream: true,
            store: false,
            // Models without thinking refuse a request that includes it.
            include: if sampling { &[] } else { &[ENCRYPTED_THINKING] },
            instructions: &request.system,
            tool_choice: (request.callable().is_empty() && !request.tools.is_empty()).then_some("none"),
            tools: target
                .tool_lists
                .json(&request.tools, |tools| tools.iter().map(|tool| Tool::of(tool)).collect::<Vec<_>>()),
            input: request.messages.iter().flat_map(|message| items(target, message)).collect(),
            max_output_tokens: request.max_output_tokens,
            temperature: request.temperature.filter(|_| sampling),
            top_p: request.top_p.filter(|_| sampling),
        };
        WireRequest {
            path: "/responses".to_owned(),
            headers: Vec::new(),
            // Every key is a string and every number is finite, so this cannot fail.
            body: serde_json::to_vec(&body).unwrap_or_default(),
        }
    }

    fn reader(&self, target: &Target, _: &ModelRequest) -> Box<dyn ReplyReader> {
        Box::new(reader::Reader::new(target))
    }

    fn refusal(&self, refused: &ErrorResponse<'_>) -> Problem {
        refused.problem()
    }
}

/// The request body. Stable fields come first, fields that differ between calls come last.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    input: Vec<Item<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    /// Strict schemas have no optional fields, but the tools' schemas do.
    strict: bool,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a ToolSpec) -> Self {
        Self {
            r#type: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: &tool.input_schema,
            strict: false,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Message {
        r#type: &'static str,
        role: &'static str,
        content: [Part<'a>; 1],
    },
    Call {
        r#type: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: String,
    },
    Output {
        r#type: &'static str,
        call_id: &'a str,
        output: Output<'a>,
    },
    /// As the provider wrote it.
    Raw(&'a Value),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str },
    InputImage { image_url: String, detail: &'static str },
}

fn items<'a>(target: &Target, message: &'a Message) -> Vec<Item<'a>> {
    match message {
        Message::User(text) => vec![output_items("user", Part::InputText { text: Cow::Borrowed(text) })],
        Message::Assistant { text, calls, raw } => match raw.as_deref() {
            Some(RawReply { model, content: Value::Array(items) }) if *model == target.full_name => {
                items.iter().map(Item::Raw).collect()
            }
            _ => {
                let text = (!text.is_empty()).then(|| output_items("assistant", Part::OutputText { text }));
                text.into_iter().chain(calls.iter().map(call)).collect()
            }
        },
        Message::Results(results) => results.iter().map(|result| output(target, result)).collect(),
    }
}

fn output_items<'a>(role: &'static str, part: Part<'a>) -> Item<'a> {
    Item::Message { r#type: "message", role, content: [part] }
}

fn call(call: &ToolCall) -> Item<'_> {
    let arguments = match &call.input {
        // Text that did not parse is sent back unchanged.
        Value::String(text) => text.clone(),
        input => input.to_string(),
    };
    Item::Call { r#type: "function_call", call_id: &call.id, name: &call.name, arguments }
}

fn output<'a>(target: &Target, result: &'a CallResult) -> Item<'a> {
    let output = if result.images.is_empty() {
        Output::Text(&result.text)
    } else {
        let text = Part::InputText { text: Cow::Borrowed(&result.text) };
        let images = result.images.iter().map(|image| shown(target, image));
        Output::Parts(std::iter::once(text).chain(images).collect())
    };
    Item::Output { r#type: "function_call_output", call_id: &result.call_id, output }
}

fn shown<'a>(target: &Target, image: &'a Image) -> Part<'a> {
    match image_data(image, target.abilities.images) {
        Some(data) => Part::InputImage {
            image_url: format!("data:{};base64,{data}", image.media_type.as_str()),
            detail: "auto",
        },
        None => Part::InputText { text: image_note(image).into() },
    }
}

#[cfg(test)]
mod tests;
