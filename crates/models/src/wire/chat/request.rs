//! Builds the request.

use std::borrow::Cow;
use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::message::{Image, RawReply, ToolCall};
use posse_engine::ports::ModelRequest;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{CacheControl, LimitName, ServerQuirks};
use crate::wire::Target;
use crate::wire::text::{as_object, image_data, image_note};

/// Bytes of a request beside its texts, so that its body is allocated once.
const BODY_BYTES: usize = 16 * 1024;
/// The text of an assistant message that a server requires and the model never wrote.
const BRIDGE: &str = "I have the results.";
/// The text before pictures, which the format does not allow in results.
const PICTURES: &str = "Pictures that belong to the results above, in their order:";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    messages: Vec<Turn<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a Arc<ToolSpec>) -> Self {
        let ToolSpec { name, description, input_schema } = &**tool;
        Self { r#type: "function", function: Function { name, description, parameters: input_schema } }
    }
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Turn<'a> {
    /// As the provider wrote it.
    Raw(&'a Value),
    Own(OwnTurn<'a>),
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum OwnTurn<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<&'a str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

/// A picture as a data URL, serialised without building the whole string first.
struct DataUrl<'a> {
    media_type: &'static str,
    base64: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("data:{};base64,{}", self.media_type, self.base64))
    }
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: FunctionCall<'a>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    /// JSON in a string.
    arguments: String,
}

pub(super) fn body(quirks: ServerQuirks, target: &Target, request: &ModelRequest) -> Vec<u8> {
    // Not all servers respect `tool_choice`, so tools that may not be called are not sent.
    let tools = match request.callable() {
        [] => None,
        _ => target.tool_lists.json(&request.tools, |tools| tools.iter().map(Tool::of).collect::<Vec<_>>()),
    };
    let most = Some(request.max_output_tokens.max(1));
    let sampling = target.abilities.sampling;
    let body = Body {
        model: &target.model,
        stream: true,
        stream_options: quirks.ask_for_usage.then_some(StreamOptions { include_usage: true }),
        tools,
        messages: turns(quirks, target, request),
        cache_control: quirks.cache_control,
        max_completion_tokens: most.filter(|_| quirks.limit == LimitName::MaxCompletionTokens),
        max_tokens: most.filter(|_| quirks.limit == LimitName::MaxTokens),
        temperature: request.temperature.filter(|_| sampling),
        top_p: request.top_p.filter(|_| sampling),
    };
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    // Serialising plain values to memory cannot fail.
    let _ = serde_json::to_writer(&mut bytes, &body);
    bytes
}

fn turns<'a>(quirks: ServerQuirks, target: &Target, request: &'a ModelRequest) -> Vec<Turn<'a>> {
    let mut turns = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.trim().is_empty() {
        turns.push(Turn::Own(OwnTurn::System { content: &request.system }));
    }
    for message in &request.messages {
        match &**message {
            Message::User(text) if text.trim().is_empty() => {}
            Message::User(text) => {
                bridge(quirks, &mut turns);
                push_user(&mut turns, text);
            }
            Message::Assistant { text, calls, raw } => {
                turns.extend(assistant_message(target, text, calls, raw.as_ref()));
            }
            Message::Results(results) => push_results(quirks, &mut turns, target, results),
        }
    }
    turns
}

/// Adds an assistant message between results and the next user message, if the server requires one.
fn bridge(quirks: ServerQuirks, turns: &mut Vec<Turn<'_>>) {
    if quirks.model_before_user && matches!(turns.last(), Some(Turn::Own(OwnTurn::Tool { .. }))) {
        turns.push(Turn::Own(OwnTurn::Assistant { content: Some(BRIDGE), tool_calls: Vec::new() }));
    }
}

/// Joins consecutive user texts, because many templates of local models require alternating roles.
fn push_user<'a>(turns: &mut Vec<Turn<'a>>, text: &'a str) {
    if let Some(Turn::Own(OwnTurn::User { content: Content::Text(before) })) = turns.last_mut() {
        let before = before.to_mut();
        before.push_str("\n\n");
        before.push_str(text);
        return;
    }
    turns.push(Turn::Own(OwnTurn::User { content: Content::Text(text.into()) }));
}

fn assistant_message<'a>(
    target: &Target,
    text: &'a str,
    calls: &'a [ToolCall],
    raw: Option<&'a Arc<RawReply>>,
) -> Option<Turn<'a>> {
    if let Some(raw) = raw.filter(|raw| raw.model == target.full_name && raw.content.is_object()) {
        return Some(Turn::Raw(&raw.content));
    }
    let content = (!text.trim().is_empty()).then_some(text);
    if content.is_none() && calls.is_empty() {
        return None;
    }
    let tool_calls = calls
        .iter()
        .map(|call| Call {
            id: &call.id,
            r#type: "function",
            function: FunctionCall { name: &call.name, arguments: as_object(&call.input).to_string() },
        })
        .collect();
    Some(Turn::Own(OwnTurn::Assistant { content, tool_calls }))
}

fn push_results<'a>(
    quirks: ServerQuirks,
    turns: &mut Vec<Turn<'a>>,
    target: &Target,
    results: &'a [CallResult],
) {
    let mut shown: Vec<(&'a Image, &'a str)> = Vec::new();
    for result in results {
        let mut content = Cow::Borrowed(&*result.text);
        for image in &result.images {
            if let Some(data) = image_data(image, target.abilities.images) {
                shown.push((image, data));
            } else {
                let text = content.to_mut();
                text.push('\n');
                text.push_str(&image_note(image));
            }
        }
        turns.push(Turn::Own(OwnTurn::Tool { tool_call_id: &result.call_id, content }));
    }
    if shown.is_empty() {
        return;
    }
    bridge(quirks, turns);
    let images = shown.into_iter().map(|(image, base64)| Part::ImageUrl {
        image_url: ImageUrl { url: DataUrl { media_type: image.media_type.as_str(), base64 } },
    });
    let parts = std::iter::once(Part::Text { text: PICTURES }).chain(images).collect();
    turns.push(Turn::Own(OwnTurn::User { content: Content::Parts(parts) }));
}
