//! The requests to the mock server, parsed no further than needed.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::http::Head;

/// A wire format of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireFormat {
    Messages,
    Responses,
    Chat,
}

impl WireFormat {
    pub const ALL: [WireFormat; 3] = [WireFormat::Messages, WireFormat::Responses, WireFormat::Chat];

    pub fn path(self) -> &'static str {
        match self {
            WireFormat::Messages => "/v1/messages",
            WireFormat::Responses => "/v1/responses",
            WireFormat::Chat => "/v1/chat/completions",
        }
    }

    /// The format of a path, whatever precedes it.
    pub(super) fn of(path: &str) -> Option<WireFormat> {
        let path = path.split('?').next().unwrap_or_default();
        let ends = [
            ("/messages", WireFormat::Messages),
            ("/responses", WireFormat::Responses),
            ("/chat/completions", WireFormat::Chat),
        ];
        ends.into_iter().find_map(|(end, wire_format)| path.ends_with(end).then_some(wire_format))
    }
}

/// One request to a model.
#[derive(Debug)]
pub struct MockRequest {
    pub wire_format: WireFormat,
    /// The number of the request, from 1.
    pub number: u64,
    pub model: String,
    /// Whether a stream is requested.
    pub stream: bool,
    /// Whether token counts at the end of a stream are requested. Only Chat Completions has this option.
    pub(super) stream_usage: bool,
    pub(super) head: Head,
    pub body: Vec<u8>,
    json: OnceLock<Value>,
}

/// A tool's result that was sent to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The id of its call.
    pub call: String,
    pub text: String,
}

/// The fields that every answer depends on. The rest is skipped, which costs almost nothing.
#[derive(Deserialize)]
struct RequestHead<'a> {
    #[serde(borrow, default)]
    model: Cow<'a, str>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

impl MockRequest {
    /// Parses a request, or returns the problem with it.
    pub(super) fn new(
        wire_format: WireFormat,
        number: u64,
        head: Head,
        body: Vec<u8>,
    ) -> Result<Self, (String, Head, Vec<u8>)> {
        let glance = serde_json::from_slice::<RequestHead<'_>>(&body).map(|glance| {
            let usage = glance.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
            (glance.model.into_owned(), glance.stream.unwrap_or(false), usage)
        });
        match glance {
            Ok((model, stream, stream_usage)) => {
                let json = OnceLock::new();
                Ok(Self { wire_format, number, model, stream, stream_usage, head, body, json })
            }
            Err(error) => Err((format!("the request is not JSON of this format: {error}"), head, body)),
        }
    }

    pub fn json(&self) -> &Value {
        self.json.get_or_init(|| serde_json::from_slice(&self.body).unwrap_or_default())
    }

    /// A header by its name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// Whether the body contains this text, as JSON writes it. Cheap.
    pub fn contains(&self, text: &str) -> bool {
        let quoted = Value::from(text).to_string();
        let needle = &quoted.as_bytes()[1..quoted.len() - 1];
        needle.is_empty() || self.body.windows(needle.len()).any(|window| window == needle)
    }

    fn entries(&self) -> &[Value] {
        let name = if self.wire_format == WireFormat::Responses { "input" } else { "messages" };
        self.json()[name].as_array().map_or(&[], Vec::as_slice)
    }

    /// The requested turn, from 1: one more than the model's turns so far.
    pub fn turn(&self) -> usize {
        let mut turns = 1;
        let mut before = false;
        for entry in self.entries() {
            let own = is_models(entry);
            turns += usize::from(own && !before);
            before = own;
        }
        turns
    }

    pub fn system(&self) -> String {
        let json = self.json();
        match self.wire_format {
            WireFormat::Messages => text_of(&json["system"]),
            WireFormat::Responses if json["instructions"].is_string() => text_of(&json["instructions"]),
            WireFormat::Responses | WireFormat::Chat => {
                let is_system = |entry: &&Value| entry["role"] == "system" || entry["role"] == "developer";
                self.entries()
                    .iter()
                    .find(is_system)
                    .map(|entry| text_of(&entry["content"]))
                    .unwrap_or_default()
            }
        }
    }

    /// The text of the user's first message.
    pub fn first_text(&self) -> String {
        if let Some(text) = self.json()["input"].as_str() {
            return text.to_owned();
        }
        let first = self.entries().iter().find(|entry| entry["role"] == "user");
        first.map(|entry| text_of(&entry["content"])).unwrap_or_default()
    }

    /// The text of the last message, including a tool's result.
    pub fn last_text(&self) -> String {
        self.entries().last().map_or_else(|| self.first_text(), entry_text)
    }

    /// The texts since the model's last reply, without the system prompt.
    pub fn newest_texts(&self) -> Vec<String> {
        let entries = self.entries();
        if entries.is_empty() {
            return vec![self.first_text()];
        }
        let newest = entries.iter().rposition(is_models).map_or(0, |at| at + 1);
        let is_system = |entry: &&Value| entry["role"] == "system" || entry["role"] == "developer";
        entries[newest..].iter().filter(|entry| !is_system(entry)).map(entry_text).collect()
    }

    /// The results of tools, in the order of the conversation.
    pub fn results(&self) -> Vec<ToolResult> {
        let mut results = Vec::new();
        for entry in self.entries() {
            let one = |id: &Value, content: &Value| ToolResult {
                call: id.as_str().unwrap_or_default().to_owned(),
                text: text_of(content),
            };
            if entry["role"] == "tool" {
                results.push(one(&entry["tool_call_id"], &entry["content"]));
            } else if entry["type"] == "function_call_output" {
                results.push(one(&entry["call_id"], &entry["output"]));
            } else {
                let blocks = entry["content"].as_array().map_or(&[][..], Vec::as_slice);
                let blocks = blocks.iter().filter(|block| block["type"] == "tool_result");
                results.extend(blocks.map(|block| one(&block["tool_use_id"], &block["content"])));
            }
        }
        results
    }

    /// The names of the offered tools.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.json()["tools"].as_array().map_or(&[][..], Vec::as_slice);
        tools
            .iter()
            .filter_map(|tool| tool["name"].as_str().or_else(|| tool["function"]["name"].as_str()))
            .collect()
    }
}

/// Whether the model itself wrote an entry.
fn is_models(entry: &Value) -> bool {
    entry["role"] == "assistant" || entry["type"] == "function_call" || entry["type"] == "reasoning"
}

/// The text of a message or of a tool's result.
fn entry_text(entry: &Value) -> String {
    text_of(if entry["output"].is_null() { &entry["content"] } else { &entry["output"] })
}

/// The text of a content: a string, or the texts of its blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let text = |block: &Value| match block["text"].as_str() {
                Some(text) => text.to_owned(),
                None => text_of(&block["content"]),
            };
            let texts: Vec<String> = blocks.iter().map(text).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}
