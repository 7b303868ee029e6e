//! A conversation as `genai` has it.

use genai::chat::{
    Binary, ChatMessage, ChatRequest, ContentPart, MessageContent, Tool, ToolCall, ToolResponse,
};
use posse_agent::conversation::{CallResult, Message};
use posse_domain::message::RawReply;
use posse_engine::ports::ModelRequest;

use crate::wire::Target;
use crate::wire::text::{as_object, image_data, image_note};

/// What stands before pictures, which not every vendor takes in results.
const PICTURES: &str = "Pictures that belong to the results above, in their order:";

/// The whole request.
pub(super) fn chat(target: &Target, request: &ModelRequest) -> ChatRequest {
    let mut chat = ChatRequest::default();
    if !request.system.is_empty() {
        chat = chat.with_system(&*request.system);
    }
    if !request.callable().is_empty() {
        chat = chat.with_tools(request.callable().iter().map(|tool| {
            let schema = tool.input_schema.clone();
            Tool::new(&tool.name).with_description(&tool.description).with_schema(schema)
        }));
    }
    for message in &request.messages {
        chat.messages.extend(messages(target, message));
    }
    chat
}

fn messages(target: &Target, message: &Message) -> Vec<ChatMessage> {
    match message {
        Message::User(text) => vec![ChatMessage::user(&**text)],
        Message::Assistant { text, calls, raw } => {
            let own = || {
                let text = (!text.is_empty()).then(|| ContentPart::from_text(&**text));
                let calls = calls.iter().map(|call| {
                    ContentPart::ToolCall(ToolCall {
                        call_id: call.id.clone(),
                        fn_name: call.name.clone(),
                        fn_arguments: as_object(&call.input).into_owned(),
                        thought_signatures: None,
                    })
                });
                MessageContent::from_parts(text.into_iter().chain(calls).collect::<Vec<_>>())
            };
            vec![ChatMessage::assistant(as_given(target, raw.as_deref()).unwrap_or_else(own))]
        }
        Message::Results(results) => {
            let responses = results.iter().map(|result| response(target, result)).collect();
            let mut messages = vec![ChatMessage::tool(MessageContent::from_tool_responses(responses))];
            messages.extend(pictures(target, results));
            messages
        }
    }
}

/// The reply as the same model gave it.
fn as_given(target: &Target, raw: Option<&RawReply>) -> Option<MessageContent> {
    let raw = raw.filter(|raw| raw.model == target.full_name)?;
    serde_json::from_value(raw.content.clone()).ok()
}

fn response(target: &Target, result: &CallResult) -> ToolResponse {
    let mut text = result.text.to_string();
    for image in result.images.iter().filter(|image| image_data(image, target.abilities.images).is_none()) {
        text.push('\n');
        text.push_str(&image_note(image));
    }
    ToolResponse::new(&*result.call_id, text).with_fn_name(&*result.tool)
}

fn pictures(target: &Target, results: &[CallResult]) -> Option<ChatMessage> {
    let images = results.iter().flat_map(|result| &result.images);
    let shown = images.filter_map(|image| {
        let data = image_data(image, target.abilities.images)?;
        Some(ContentPart::Binary(Binary::from_base64(image.media_type.as_str(), data, None)))
    });
    let shown: Vec<ContentPart> = shown.collect();
    (!shown.is_empty()).then(|| {
        let parts: Vec<ContentPart> =
            std::iter::once(ContentPart::from_text(PICTURES)).chain(shown).collect();
        ChatMessage::user(MessageContent::from_parts(parts))
    })
}
