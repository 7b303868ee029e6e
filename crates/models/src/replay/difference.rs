//! Describes the difference between a request and the recorded one, for users.

use std::sync::Arc;

use posse_agent::conversation::{CallResult, Message};
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::Purpose;
use posse_engine::ports::ModelRequest;
use posse_engine::{RecordedCall, RecordedRequest, Recording};

use super::lines::differing;
use super::position;

/// Limit of tool names that are listed.
const NAMES_MAX: usize = 20;

/// The difference between a request and the recorded one, whose hashes differ. Begins with the position of the request.
/// `None` if secrets were removed from the recorded texts since, and nothing else differs.
pub(super) fn describe(recording: &Recording, call: &RecordedCall, request: &ModelRequest) -> Option<String> {
    let recorded = recording.request(request.agent.relative(), call);
    let run = recording.run();
    let head =
        format!("the replay is not the recorded run {run}: {} asks for something else", position(request));
    let what = in_system(&recorded, request)
        .or_else(|| in_tools(&recorded, request))
        .or_else(|| in_messages(&recorded.messages, &request.messages));
    if what.is_none() && recording.has_changed_texts() {
        return None;
    }
    let what = what.unwrap_or_else(|| {
        "what is different is not in the journal: the run was recorded by another version of Posse".to_owned()
    });
    Some(format!("{head}\n{what}"))
}

fn both(what: &str, recorded: &str, now: &str) -> Option<String> {
    (recorded != now).then(|| format!("{what} (- recorded, + now):\n{}", differing(recorded, now)))
}

fn in_system(recorded: &RecordedRequest, request: &ModelRequest) -> Option<String> {
    both("the system prompt differs", recorded.system.as_deref()?, &request.system)
}

fn in_tools(recorded: &RecordedRequest, request: &ModelRequest) -> Option<String> {
    // A report is requested without tools. A difference in tools would have shown in an earlier call.
    let now = (request.purpose != Purpose::Report).then_some(&request.tools)?;
    let recorded: Vec<ToolSpec> = serde_json::from_str(recorded.tools.as_deref()?).ok()?;
    for old in &recorded {
        let Some(new) = now.iter().find(|new| new.name == old.name) else { continue };
        let name = &old.name;
        let text = both(&format!("the text of tool `{name}` differs"), &old.description, &new.description);
        let schema = || {
            let pretty =
                |tool: &ToolSpec| serde_json::to_string_pretty(&tool.input_schema).unwrap_or_default();
            both(&format!("the input of tool `{name}` differs"), &pretty(old), &pretty(new))
        };
        if let Some(found) = text.or_else(schema) {
            return Some(found);
        }
    }
    let old: Vec<&str> = recorded.iter().map(|tool| tool.name.as_str()).collect();
    let new: Vec<&str> = now.iter().map(|tool| tool.name.as_str()).collect();
    if old == new {
        return None;
    }
    let only = |those: &[&str], others: &[&str]| {
        let only: Vec<&str> =
            those.iter().filter(|name| !others.contains(name)).copied().take(NAMES_MAX).collect();
        if only.is_empty() { "none".to_owned() } else { format!("`{}`", only.join("`, `")) }
    };
    Some(format!(
        "{} tools were offered, now {} are\n- only recorded: {}\n+ only now: {}",
        old.len(),
        new.len(),
        only(&old, &new),
        only(&new, &old)
    ))
}

fn in_messages(recorded: &[Arc<Message>], now: &[Arc<Message>]) -> Option<String> {
    let same = recorded.iter().zip(now).take_while(|(old, new)| old == new).count();
    let number = same + 1;
    match (recorded.get(same), now.get(same)) {
        (None, None) => None,
        (Some(old), None) => Some(format!(
            "message {number} of the conversation is missing: {}\n{}",
            speaker(old),
            differing(&text_of(old), "")
        )),
        (None, Some(new)) => Some(format!(
            "message {number} of the conversation was not there: {}\n{}",
            speaker(new),
            differing("", &text_of(new))
        )),
        (Some(old), Some(new)) => Some(in_message(number, old, new)),
    }
}

fn in_message(number: usize, old: &Message, new: &Message) -> String {
    if let (Message::Results(old), Message::Results(new)) = (old, new)
        && let Some(found) = in_results(number, old, new)
    {
        return found;
    }
    let (was, is) = (speaker(old), speaker(new));
    let who = if was == is { was } else { format!("{was}, now {is}") };
    let head = format!("message {number} of the conversation differs ({who}; - recorded, + now)");
    format!("{head}:\n{}", differing(&text_of(old), &text_of(new)))
}

fn in_results(number: usize, old: &[CallResult], new: &[CallResult]) -> Option<String> {
    let (old, new) = old.iter().zip(new).find(|(old, new)| old != new)?;
    if old.tool != new.tool {
        return None;
    }
    let head = format!("message {number} of the conversation differs: the result of `{}`", old.tool);
    if old.ok == new.ok && old.text == new.text {
        return Some(format!("{head}: it is the same text, with other pictures or another call id"));
    }
    let told = |result: &CallResult| {
        let failed = if result.ok { "" } else { "[it failed] " };
        format!("{failed}{}", result.text)
    };
    Some(format!("{head} (- recorded, + now):\n{}", differing(&told(old), &told(new))))
}

fn speaker(message: &Message) -> String {
    match message {
        Message::User(_) => "said to the model".to_owned(),
        Message::Assistant { .. } => "said by the model".to_owned(),
        Message::Results(results) => {
            let tools: Vec<&str> = results.iter().map(|result| &*result.tool).take(NAMES_MAX).collect();
            format!("results of `{}`", tools.join("`, `"))
        }
    }
}

fn text_of(message: &Message) -> String {
    match message {
        Message::User(text) => text.to_string(),
        Message::Assistant { text, calls, .. } => {
            let calls = calls.iter().map(|call| format!("\n[{} {}]", call.name, call.input));
            format!("{text}{}", calls.collect::<String>())
        }
        Message::Results(results) => {
            let texts: Vec<String> =
                results.iter().map(|result| format!("[{}] {}", result.tool, result.text)).collect();
            texts.join("\n")
        }
    }
}
