//! Reads the answer: blocks that are written one after the other, and the usage.

use std::sync::Arc;

use posse_domain::budget::Usage;
use posse_domain::message::{RawReply, Reply, ToolCall};
use posse_engine::ports::StreamPart;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{error_of, type_of};
use crate::wire::text::{Str, arguments, is_whole_object};
use crate::wire::{
    Answer, BufferedValues, Flow, MAX_ARGUMENT_BYTES, Problem, ProblemKind, ReplyReader, StopReason,
    StreamEvent, Target, short,
};

const MAX_BLOCKS: usize = 4096;

pub(super) struct Reader {
    full_name: String,
    begun: bool,
    stopped: bool,
    stop: Option<StopReason>,
    blocks: Vec<Block>,
    argument_bytes: usize,
    kept: BufferedValues,
    usage: UsageIn,
}

/// One block, as far as it has arrived.
struct Block {
    index: u64,
    kind: BlockKind,
    /// The block as it was opened. Its further content is in the other fields until it is closed.
    opened: Map<String, Value>,
    text: String,
    signature: String,
    closed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
    Call,
    /// Kept unchanged.
    Other,
}

#[derive(Deserialize)]
struct TypedEvent<'a> {
    #[serde(borrow)]
    r#type: Str<'a>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    #[serde(default)]
    usage: UsageIn,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u64,
    content_block: Map<String, Value>,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: u64,
    #[serde(borrow)]
    delta: Delta<'a>,
}

/// The field that the delta's kind has. The others are `None`.
#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    text: Option<Str<'a>>,
    #[serde(borrow)]
    thinking: Option<Str<'a>>,
    #[serde(borrow)]
    partial_json: Option<Str<'a>>,
    #[serde(borrow)]
    signature: Option<Str<'a>>,
    citation: Option<Value>,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u64,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: MessageStop,
    #[serde(default)]
    usage: UsageIn,
}

#[derive(Deserialize)]
struct MessageStop {
    stop_reason: Option<String>,
    stop_details: Option<Value>,
}

#[derive(Deserialize)]
struct CompleteReply {
    content: Vec<Map<String, Value>>,
    #[serde(flatten)]
    stopped: MessageStop,
    #[serde(default)]
    usage: UsageIn,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
struct UsageIn {
    #[serde(rename = "input_tokens")]
    input: Option<u64>,
    #[serde(rename = "cache_creation_input_tokens")]
    written: Option<u64>,
    #[serde(rename = "cache_read_input_tokens")]
    read: Option<u64>,
    #[serde(rename = "output_tokens")]
    output: Option<u64>,
    #[serde(rename = "output_tokens_details")]
    details: Option<OutputDetails>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl UsageIn {
    /// Later counts replace earlier ones, because they are totals.
    fn update(&mut self, later: UsageIn) {
        self.input = later.input.or(self.input);
        self.written = later.written.or(self.written);
        self.read = later.read.or(self.read);
        self.output = later.output.or(self.output);
        self.details = later.details.or(self.details);
    }

    fn usage(self) -> Option<Usage> {
        let (read, written) = (self.read.unwrap_or(0), self.written.unwrap_or(0));
        Some(Usage {
            input_tokens: self.input?.saturating_add(read).saturating_add(written),
            output_tokens: self.output?,
            cached_tokens: read,
            cache_write_tokens: written,
            reasoning_tokens: self.details.and_then(|details| details.thinking_tokens).unwrap_or(0),
            micro_usd: None,
            ..Usage::ZERO
        })
    }
}

impl Reader {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            full_name: target.full_name.clone(),
            begun: false,
            stopped: false,
            stop: None,
            blocks: Vec::new(),
            argument_bytes: 0,
            kept: BufferedValues::default(),
            usage: UsageIn::default(),
        }
    }

    fn open(
        &mut self,
        index: u64,
        opened: Map<String, Value>,
        show: &mut dyn FnMut(StreamPart),
    ) -> Result<(), Problem> {
        if self.blocks.len() >= MAX_BLOCKS || self.blocks.iter().any(|block| block.index == index) {
            return Err(Problem::cut(format!("the answer opens block {index} once too often")));
        }
        self.kept.fields(&opened)?;
        let field = |name: &str| opened.get(name).and_then(Value::as_str).unwrap_or("");
        let kind = match field("type") {
            "text" => BlockKind::Text,
            "thinking" => BlockKind::Thinking,
            "tool_use" => BlockKind::Call,
            _ => BlockKind::Other,
        };
        let text = match kind {
            BlockKind::Text => field("text"),
            BlockKind::Thinking => field("thinking"),
            BlockKind::Call | BlockKind::Other => "",
        };
        show(match kind {
            BlockKind::Text if !text.is_empty() => StreamPart::Text(text.to_owned()),
            BlockKind::Thinking if !text.is_empty() => StreamPart::Thinking(text.to_owned()),
            BlockKind::Call => StreamPart::Tool(field("name").to_owned()),
            _ => StreamPart::Alive,
        });
        let (text, signature) = (text.to_owned(), field("signature").to_owned());
        self.blocks.push(Block { index, kind, opened, text, signature, closed: false });
        Ok(())
    }

    fn block(&mut self, index: u64) -> Result<&mut Block, Problem> {
        let found = self.blocks.iter_mut().rev().find(|block| block.index == index && !block.closed);
        found.ok_or_else(|| Problem::cut(format!("the answer writes into block {index}, which is not open")))
    }

    fn write(
        &mut self,
        index: u64,
        delta: Delta<'_>,
        show: &mut dyn FnMut(StreamPart),
    ) -> Result<(), Problem> {
        let arguments = delta.partial_json.as_ref().map_or(0, |json| json.0.len());
        self.argument_bytes += arguments;
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(Problem::cut(format!(
                "the arguments of its calls are longer than {MAX_ARGUMENT_BYTES} bytes"
            )));
        }
        if let Some(citation) = &delta.citation {
            self.kept.value(citation)?;
        }
        let block = self.block(index)?;
        if let Some(Str(text)) = delta.text {
            block.text.push_str(&text);
            show(StreamPart::Text(text.into_owned()));
        } else if let Some(Str(text)) = delta.thinking {
            block.text.push_str(&text);
            show(StreamPart::Thinking(text.into_owned()));
        } else if let Some(Str(json)) = delta.partial_json {
            block.text.push_str(&json);
            show(StreamPart::Alive);
        } else {
            if let Some(Str(signature)) = delta.signature {
                block.signature.push_str(&signature);
            }
            if let Some(citation) = delta.citation {
                let citations = block.opened.entry("citations").or_insert(Value::Null);
                match citations {
                    Value::Array(citations) => citations.push(citation),
                    other => *other = Value::Array(vec![citation]),
                }
            }
            show(StreamPart::Alive);
        }
        Ok(())
    }

    fn stopped(&mut self, stopped: MessageStop) {
        let Some(reason) = stopped.stop_reason else { return };
        self.stop = Some(match reason.as_str() {
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "refusal" => {
                let details = stopped.stop_details.as_ref();
                let why = details.and_then(|details| details.get("explanation")).and_then(Value::as_str);
                StopReason::Refused(why.map_or_else(|| "refusal".to_owned(), short))
            }
            // Includes a pause, which only the provider's own tools cause. None of these are offered.
            _ => StopReason::Done,
        });
    }

    /// The problem of an error within the answer. When the answer has begun, its cost is unknown.
    fn error(&self, data: &str) -> Problem {
        let usage = if self.begun { None } else { Some(Usage::ZERO) };
        let json: Value = serde_json::from_str(data).unwrap_or_default();
        let (kind, message) = error_of(&json).unwrap_or(("error", data));
        let kind = type_of(kind, message).unwrap_or(ProblemKind::Unwell { after: None });
        Problem { usage, ..Problem::free(kind, short(message)) }
    }
}

fn read<'de, T: Deserialize<'de>>(data: &'de str) -> Result<T, Problem> {
    serde_json::from_str(data)
        .map_err(|error| Problem::cut(format!("an event of the answer is malformed: {error}")))
}

impl ReplyReader for Reader {
    fn event(&mut self, event: StreamEvent<'_>, show: &mut dyn FnMut(StreamPart)) -> Result<Flow, Problem> {
        let kinded: TypedEvent<'_>;
        let kind = if event.event.is_empty() {
            kinded = read(event.data)?;
            &*kinded.r#type.0
        } else {
            event.event
        };
        match kind {
            "content_block_delta" => {
                let BlockDelta { index, delta } = read(event.data)?;
                self.write(index, delta, show)?;
            }
            "message_start" => {
                let start: MessageStart = read(event.data)?;
                self.begun = true;
                self.usage.update(start.message.usage);
                show(StreamPart::Alive);
            }
            "content_block_start" => {
                let BlockStart { index, content_block } = read(event.data)?;
                self.open(index, content_block, show)?;
            }
            "content_block_stop" => {
                let BlockStop { index } = read(event.data)?;
                self.block(index)?.closed = true;
                show(StreamPart::Alive);
            }
            "message_delta" => {
                let MessageDelta { delta, usage } = read(event.data)?;
                self.usage.update(usage);
                self.stopped(delta);
                show(StreamPart::Alive);
            }
            "message_stop" => {
                self.stopped = true;
                return Ok(Flow::End);
            }
            "error" => return Err(self.error(event.data)),
            // Pings and unknown kinds.
            _ => {}
        }
        Ok(Flow::On)
    }

    fn whole(&mut self, body: &[u8], show: &mut dyn FnMut(StreamPart)) -> Result<(), Problem> {
        let text = String::from_utf8_lossy(body);
        if read::<TypedEvent<'_>>(&text)?.r#type.0 == "error" {
            return Err(self.error(&text));
        }
        let CompleteReply { content, stopped, usage } = read(&text)?;
        self.begun = true;
        self.usage.update(usage);
        for (index, block) in content.into_iter().enumerate() {
            self.open(index as u64, block, show)?;
        }
        self.blocks.iter_mut().for_each(|block| block.closed = true);
        self.stopped(stopped);
        self.stopped = true;
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Answer, Problem> {
        let usage = self.usage.usage();
        let Some(stop) = self.stop.filter(|_| self.stopped) else {
            return Err(Problem::cut("the answer ended before its end"));
        };
        let mut kept = self.blocks;
        if stop == StopReason::Length {
            kept.retain(Block::is_whole);
        }
        if kept.iter().any(|block| !block.closed) {
            return Err(Problem::cut("the answer ended within a block"));
        }
        Ok(Answer { reply: reply(self.full_name, kept), usage, stop })
    }
}

impl Block {
    /// Whether a block of an answer that reached its length limit is complete.
    fn is_whole(&self) -> bool {
        match self.kind {
            BlockKind::Text => true,
            BlockKind::Call => self.closed && (is_whole_object(&self.text) || self.has_whole_input()),
            BlockKind::Thinking => self.closed && !self.signature.is_empty(),
            BlockKind::Other => self.closed,
        }
    }

    /// Whether the input was in the opening event, as in an answer that does not stream.
    fn has_whole_input(&self) -> bool {
        self.text.is_empty()
            && self.opened.get("input").and_then(Value::as_object).is_some_and(|input| !input.is_empty())
    }

    fn is_blank(&self) -> bool {
        self.kind == BlockKind::Text && self.text.trim().is_empty()
    }

    fn input(&self) -> Value {
        if self.text.is_empty() {
            return self.opened.get("input").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        }
        arguments(&self.text)
    }

    /// The block as the provider expects it in later requests.
    fn into_raw(mut self) -> Value {
        match self.kind {
            BlockKind::Text => drop(self.opened.insert("text".into(), self.text.into())),
            BlockKind::Thinking => {
                self.opened.insert("thinking".into(), self.text.into());
                self.opened.insert("signature".into(), self.signature.into());
            }
            BlockKind::Call => {
                let input = self.input();
                let input = if input.is_object() { input } else { serde_json::json!({ "input": input }) };
                self.opened.insert("input".into(), input);
            }
            BlockKind::Other if !self.text.is_empty() => {
                drop(self.opened.insert("input".into(), arguments(&self.text)));
            }
            BlockKind::Other => {}
        }
        Value::Object(self.opened)
    }
}

fn reply(model: String, mut blocks: Vec<Block>) -> Reply {
    let mut text = String::new();
    let mut calls = Vec::new();
    let mut apart = false;
    for block in &blocks {
        match block.kind {
            BlockKind::Text if !block.is_blank() => {
                if std::mem::take(&mut apart) && !text.is_empty() {
                    text.push_str("\n\n");
                }
                text.push_str(&block.text);
            }
            BlockKind::Text => {}
            BlockKind::Call => {
                let field =
                    |name: &str| block.opened.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
                calls.push(ToolCall { id: field("id"), name: field("name"), input: block.input() });
                apart = true;
            }
            BlockKind::Thinking | BlockKind::Other => apart = true,
        }
    }
    // Text and calls are sufficient unless there is another kind of block. The API accepts no blank text and no
    // thinking that nothing follows.
    blocks.retain(|block| !block.is_blank());
    while blocks.last().is_some_and(|block| matches!(block.kind, BlockKind::Thinking) || block.is_redacted())
    {
        blocks.pop();
    }
    let plain = blocks.iter().all(|block| matches!(block.kind, BlockKind::Text | BlockKind::Call));
    let raw = (!plain).then(|| {
        let content = Value::Array(blocks.into_iter().map(Block::into_raw).collect());
        Arc::new(RawReply { model, content })
    });
    Reply { text: text.into(), calls, raw }
}

impl Block {
    fn is_redacted(&self) -> bool {
        self.opened.get("type").and_then(Value::as_str) == Some("redacted_thinking")
    }
}
