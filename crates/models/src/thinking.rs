//! The thinking in a recorded reply, for users who read a conversation. Models get it back as their provider wrote it.

use posse_domain::message::RawReply;
use serde_json::Value;

/// How deep the content of a reply is searched.
const DEPTH_MAX: usize = 4;
/// The fields that hold thinking, in the order in which they are tried.
const FIELDS: [&str; 3] = ["thinking", "reasoning_content", "reasoning"];

/// The thinking before a reply, if its provider showed any; parts are separated by an empty line.
pub fn thinking(reply: &RawReply) -> Option<String> {
    let mut parts = Vec::new();
    collect(&reply.content, DEPTH_MAX, &mut parts);
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

fn collect<'a>(value: &'a Value, depth: usize, parts: &mut Vec<&'a str>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, depth - 1, parts)),
        Value::Object(fields) => {
            let is_summary = fields.get("type").is_some_and(|of| of == "reasoning");
            if let Some(summary) = fields.get("summary").and_then(Value::as_array).filter(|_| is_summary) {
                parts.extend(
                    summary
                        .iter()
                        .filter_map(|part| part.get("text")?.as_str())
                        .filter(|text| !text.is_empty()),
                );
            } else if let Some(found) = FIELDS.iter().find_map(|field| fields.get(*field)) {
                match found {
                    Value::String(text) if !text.is_empty() => parts.push(text),
                    nested @ Value::Array(_) => collect_texts(nested, parts),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The texts of a list of text parts.
fn collect_texts<'a>(list: &'a Value, parts: &mut Vec<&'a str>) {
    let items = list.as_array().into_iter().flatten();
    parts.extend(items.filter_map(|item| item.get("text")?.as_str()).filter(|text| !text.is_empty()));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_thinking_of_every_wire_format_is_found() {
        let of = |content| thinking(&RawReply { model: "a/b".to_owned(), content });
        let messages = json!([{"type": "thinking", "thinking": "I look.", "signature": "x"}, {"type": "text", "text": "Hi"}]);
        assert_eq!(of(messages).as_deref(), Some("I look."));
        let responses = json!([
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}]},
            {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]},
        ]);
        assert_eq!(of(responses).as_deref(), Some("one\n\ntwo"));
        assert_eq!(of(json!({"content": "Hi", "reasoning_content": "hm"})).as_deref(), Some("hm"));
        for without in
            [json!(null), json!([]), json!([{"type": "thinking", "thinking": ""}]), json!({"content": "Hi"})]
        {
            assert_eq!(of(without), None);
        }
    }
}
