//! Builds the request: the order of its parts, and the cache points for the provider.
//!
//! A request may have four cache points. They are at the ends of the prefixes that requests of a conversation, and of
//! agents with the same tools, have in common: after the tools, after the system prompt, after the last message, and
//! after the last message of the previous request. The last one is where the previous request wrote to the cache. The
//! provider looks back by itself, but not over as many blocks as a turn with many calls adds.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::Purpose;
use posse_domain::message::{RawReply, ToolCall};
use posse_engine::ports::ModelRequest;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::wire::Target;
use crate::wire::text::{as_object, image_data, image_note};

/// The number of newest messages to the model with a cache point.
const CACHED_MESSAGES: usize = 2;
/// Bytes of a request beside its texts, so that its body is allocated once.
const BODY_BYTES: usize = 16 * 1024;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Arc<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Block<'a>>,
    messages: Vec<Turn<'a>>,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<TypeOnly>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
}

/// An object that contains only its kind.
#[derive(Clone, Copy, Serialize)]
struct TypeOnly {
    r#type: &'static str,
}

const CACHE: TypeOnly = TypeOnly { r#type: "ephemeral" };
const NO_TOOL: TypeOnly = TypeOnly { r#type: "none" };

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<TypeOnly>,
}

impl<'a> Tool<'a> {
    fn of(tool: &'a Arc<ToolSpec>) -> Self {
        let ToolSpec { name, description, input_schema } = &**tool;
        Self { name, description, input_schema: Cow::Borrowed(input_schema), cache_control: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    /// As the provider wrote it.
    Raw(&'a Value),
    Own(OwnBlock<'a>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OwnBlock<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<TypeOnly>,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<OwnBlock<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<TypeOnly>,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'static str,
    data: &'a str,
}

pub(super) fn body(target: &Target, request: &ModelRequest) -> Vec<u8> {
    let mut messages = turns(target, &request.messages);
    let to_model = messages.iter_mut().rev().filter(|turn| turn.role == Role::User);
    for turn in to_model.take(CACHED_MESSAGES) {
        if let Some(Block::Own(last)) = turn.content.last_mut() {
            last.mark();
        }
    }
    let tools = tools(target, request);
    // Current models accept temperature or `top_p`, not both.
    let sampling = target.abilities.sampling;
    let temperature = request.temperature.filter(|_| sampling);
    let body = Body {
        model: &target.model,
        stream: true,
        tool_choice: (request.purpose != Purpose::Work && tools.is_some()).then_some(NO_TOOL),
        tools,
        system: system(&request.system),
        messages,
        max_tokens: request.max_output_tokens.max(1),
        temperature,
        top_p: request.top_p.filter(|_| sampling && temperature.is_none()),
    };
    let mut bytes = Vec::with_capacity(BODY_BYTES);
    // Serialising plain values to memory cannot fail.
    let _ = serde_json::to_writer(&mut bytes, &body);
    bytes
}

fn system(text: &str) -> Vec<Block<'_>> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    vec![Block::Own(OwnBlock::Text { text: text.into(), cache_control: Some(CACHE) })]
}

/// The offered tools. If none are offered, the tools in the conversation: the API refuses a conversation with calls of
/// tools that the request does not declare.
fn tools(target: &Target, request: &ModelRequest) -> Option<Arc<RawValue>> {
    if !request.tools.is_empty() {
        let lists = &target.tool_lists;
        return lists.json(&request.tools, |tools| with_cache_point(tools.iter().map(Tool::of).collect()));
    }
    let named: BTreeSet<&str> = request
        .messages
        .iter()
        .filter_map(|message| match &**message {
            Message::Assistant { calls, .. } => Some(calls.iter().map(|call| call.name.as_str())),
            Message::User(_) | Message::Results(_) => None,
        })
        .flatten()
        .filter(|name| fitting(name) == **name)
        .collect();
    let input_schema = json!({ "type": "object" });
    let tool = |name| Tool {
        name,
        description: "",
        input_schema: Cow::Owned(input_schema.clone()),
        cache_control: None,
    };
    let tools = with_cache_point(named.into_iter().map(tool).collect());
    if tools.is_empty() { None } else { to_raw_value(&tools).ok().map(Arc::from) }
}

/// Marks the last tool, up to which the provider caches the request.
fn with_cache_point(mut tools: Vec<Tool<'_>>) -> Vec<Tool<'_>> {
    if let Some(last) = tools.last_mut() {
        last.cache_control = Some(CACHE);
    }
    tools
}

/// The conversation with alternating roles, without empty texts.
fn turns<'a>(target: &Target, messages: &'a [Arc<Message>]) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(messages.len());
    for message in messages {
        let (role, blocks) = match &**message {
            Message::User(text) => (Role::User, text_block(text).into_iter().map(Block::Own).collect()),
            Message::Assistant { text, calls, raw } => {
                (Role::Assistant, assistant_content(target, text, calls, raw.as_deref()))
            }
            Message::Results(results) => {
                (Role::User, results.iter().map(|result| Block::Own(answer(target, result))).collect())
            }
        };
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => turns.push(Turn { role, content: blocks }),
        }
    }
    turns
}

fn text_block(text: &str) -> Option<OwnBlock<'_>> {
    (!text.trim().is_empty()).then(|| OwnBlock::Text { text: text.into(), cache_control: None })
}

fn assistant_content<'a>(
    target: &Target,
    text: &'a str,
    calls: &'a [ToolCall],
    raw: Option<&'a RawReply>,
) -> Vec<Block<'a>> {
    if let Some(Value::Array(blocks)) =
        raw.filter(|raw| raw.model == target.full_name).map(|raw| &raw.content)
    {
        return blocks.iter().map(Block::Raw).collect();
    }
    let calls = calls.iter().map(|call| OwnBlock::ToolUse {
        id: fitting(&call.id),
        name: fitting(&call.name),
        input: as_object(&call.input),
    });
    text_block(text).into_iter().chain(calls).map(Block::Own).collect()
}

fn answer<'a>(target: &Target, result: &'a CallResult) -> OwnBlock<'a> {
    let images = result.images.iter().map(|image| match image_data(image, target.abilities.images) {
        Some(data) => OwnBlock::Image {
            source: Source { r#type: "base64", media_type: image.media_type.as_str(), data },
        },
        None => OwnBlock::Text { text: image_note(image).into(), cache_control: None },
    });
    OwnBlock::ToolResult {
        tool_use_id: fitting(&result.call_id),
        is_error: !result.ok,
        content: text_block(&result.text).into_iter().chain(images).collect(),
        cache_control: None,
    }
}

/// An id or name in the characters that the API accepts. Ids of other models, and repeated ids, may have others.
fn fitting(text: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if text.is_empty() {
        return "_".into();
    }
    if text.chars().all(fits) {
        return text.into();
    }
    text.chars().map(|c| if fits(c) { c } else { '_' }).collect::<String>().into()
}

impl OwnBlock<'_> {
    /// Puts a cache point after the block.
    fn mark(&mut self) {
        match self {
            OwnBlock::Text { cache_control, .. } | OwnBlock::ToolResult { cache_control, .. } => {
                *cache_control = Some(CACHE);
            }
            OwnBlock::Image { .. } | OwnBlock::ToolUse { .. } => {}
        }
    }
}
