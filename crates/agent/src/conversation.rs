//! The conversation of an agent with its model: its messages, their estimated size and their hash.

use std::collections::HashMap;
use std::sync::Arc;

use posse_domain::canonical::{Canonical, canonical_json};
use posse_domain::hash::Hash;
use posse_domain::message::{Image, RawReply, ToolCall};
use posse_domain::text::Text;
use serde::{Deserialize, Serialize};

/// Bytes of text per token, where the provider has not counted.
pub const BYTES_PER_TOKEN: u64 = 4;
/// Tokens per message beside its text.
pub(crate) const TOKENS_PER_MESSAGE: u64 = 8;
/// Tokens per image: about what providers count for the largest image that they do not scale down.
const IMAGE_TOKENS: u64 = 1_600;
/// Shorter outputs are never trimmed: the placeholder would save nothing.
const TRIM_MIN_BYTES: usize = 256;
/// The newest messages, which are never trimmed because the model still works with them.
const TRIM_KEEP_MESSAGES: usize = 4;

/// The result of one tool call, as the model reads it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    pub call_id: Arc<str>,
    pub tool: Arc<str>,
    /// Whether the call succeeded.
    pub ok: bool,
    pub text: Arc<str>,
    /// The images that the model sees beside the text.
    pub images: Vec<Image>,
}

impl CallResult {
    fn bytes(&self) -> u64 {
        32 + self.text.len() as u64 + self.images.len() as u64 * IMAGE_TOKENS * BYTES_PER_TOKEN
    }

    /// Whether omitting the output saves space.
    fn can_be_trimmed(&self) -> bool {
        !self.images.is_empty() || (self.text.len() >= TRIM_MIN_BYTES && !is_mark(&self.text))
    }

    /// The bytes that omitting the output saves. Its placeholder takes space too.
    fn saved_bytes(&self) -> u64 {
        self.bytes().saturating_sub(32 + mark(&self.tool, self.text.len()).len() as u64)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// From outside: the prompt, a user, a child's result, the host.
    User(Arc<str>),
    Assistant {
        /// The text that the model wrote.
        text: Arc<str>,
        /// The tool calls that the model requested.
        calls: Arc<[ToolCall]>,
        /// The reply in the provider's format, if the provider wants it back.
        raw: Option<Arc<RawReply>>,
    },
    /// The results of all calls of the previous assistant message, in the order of the calls.
    Results(Vec<CallResult>),
}

impl Message {
    /// Whether the model wrote the message.
    pub(crate) fn is_reply(&self) -> bool {
        matches!(self, Message::Assistant { .. })
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Message::User(text) => text.len() as u64,
            // A request has either the raw reply or its parts.
            Message::Assistant { raw: Some(raw), .. } => value_bytes(&raw.content),
            Message::Assistant { text, calls, raw: None } => {
                text.len() as u64 + calls.iter().map(|call| 32 + value_bytes(&call.input)).sum::<u64>()
            }
            Message::Results(results) => results.iter().map(CallResult::bytes).sum(),
        }
    }

    fn hash_after(&self, previous: &Hash) -> Hash {
        match self {
            Message::User(text) => Hash::of_parts([previous.as_bytes().as_slice(), b"user", text.as_bytes()]),
            Message::Assistant { text, calls, raw } => {
                let calls: Vec<HashedCall<'_>> = calls.iter().map(HashedCall::of).collect();
                let calls = serde_json::to_vec(&calls).unwrap_or_default();
                let raw = raw.as_ref().map(|raw| canonical_json(&raw.content));
                let parts = [previous.as_bytes().as_slice(), b"assistant", text.as_bytes(), &calls];
                Hash::of_parts(parts.into_iter().chain(raw.as_deref().map(str::as_bytes)))
            }
            Message::Results(results) => {
                let mut parts: Vec<&[u8]> = vec![previous.as_bytes().as_slice(), b"results"];
                for result in results {
                    parts.extend([
                        result.call_id.as_bytes(),
                        if result.ok { b"ok" } else { b"no" },
                        result.text.as_bytes(),
                    ]);
                    parts.extend(result.images.iter().filter_map(|image| match &image.base64 {
                        Text::Here(base64) => Some(base64.as_bytes()),
                        // Cannot happen: a conversation consists of events with all their texts.
                        Text::Stored(_) => None,
                    }));
                }
                Hash::of_parts(parts)
            }
        }
    }
}

/// The hashed form of a call. Journals depend on its exact text. The input's keys are sorted.
#[derive(Serialize)]
struct HashedCall<'a> {
    id: &'a str,
    name: &'a str,
    input: Canonical<'a>,
}

impl<'a> HashedCall<'a> {
    fn of(call: &'a ToolCall) -> Self {
        Self { id: &call.id, name: &call.name, input: Canonical(&call.input) }
    }
}

/// An estimate of the size of a JSON value, without serialising it.
fn value_bytes(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::String(text) => text.len() as u64 + 2,
        serde_json::Value::Array(items) => items.iter().map(|item| 1 + value_bytes(item)).sum(),
        serde_json::Value::Object(map) => map.iter().map(|(k, v)| k.len() as u64 + 4 + value_bytes(v)).sum(),
        _ => 6,
    }
}

/// The messages so far. Their size and hash are updated with each message, so that no turn walks over all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    messages: Vec<Arc<Message>>,
    bytes: u64,
    hash: Hash,
}

impl FromIterator<Message> for Conversation {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut conversation = Self::default();
        messages.into_iter().for_each(|message| conversation.push(message));
        conversation
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self { messages: Vec::new(), bytes: 0, hash: Hash::ZERO }
    }
}

impl Conversation {
    /// The messages, which are shared and not copied.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// The calls and their results, if the conversation ends with results.
    pub fn last_results(&self) -> Option<(&[ToolCall], &[CallResult])> {
        match self.messages.as_slice() {
            [.., asked, answered] => match (&**asked, &**answered) {
                (Message::Assistant { calls, .. }, Message::Results(results)) => Some((calls, results)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The hash over all messages in order.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The estimated number of tokens to send the conversation.
    pub fn estimated_tokens(&self) -> u64 {
        self.bytes / BYTES_PER_TOKEN + self.messages.len() as u64 * TOKENS_PER_MESSAGE
    }

    /// The hash and size of the conversation with these messages appended.
    pub fn with<'a>(&self, messages: impl IntoIterator<Item = &'a Message>) -> (Hash, u64) {
        let mut with = Self { messages: Vec::new(), ..*self };
        let mut count = self.messages.len() as u64;
        for message in messages {
            with.bytes += message.bytes();
            with.hash = message.hash_after(&with.hash);
            count += 1;
        }
        (with.hash, with.bytes / BYTES_PER_TOKEN + count * TOKENS_PER_MESSAGE)
    }

    pub fn push(&mut self, message: Message) {
        self.push_shared(Arc::new(message));
    }

    fn push_shared(&mut self, message: Arc<Message>) {
        self.bytes += message.bytes();
        self.hash = message.hash_after(&self.hash);
        self.messages.push(message);
    }

    /// The conversation before the model's last reply. None if there is no reply.
    pub fn before_reply(&self) -> Option<Self> {
        let reply = self.messages.iter().rposition(|message| message.is_reply())?;
        Some(Self::of_shared(&self.messages[..reply]))
    }

    /// The conversation of these messages, which are shared and not copied.
    pub(crate) fn of_shared(messages: &[Arc<Message>]) -> Self {
        let mut conversation = Self::default();
        for message in messages {
            conversation.push_shared(message.clone());
        }
        conversation
    }

    /// Keeps the message at `assignment` and those from `cut` on. The summary, which follows the assignment, replaces all
    /// others.
    pub(crate) fn compact(&mut self, assignment: usize, cut: usize, summary: Message) {
        let newest = self.messages.split_off(cut.min(self.messages.len()));
        let assignment = self.messages.get(assignment).cloned();
        *self = Self::default();
        for message in assignment.into_iter().chain([Arc::new(summary)]).chain(newest) {
            self.push_shared(message);
        }
    }

    /// The oldest outputs whose removal brings the conversation under `limit_tokens`. Empty if it is shorter already,
    /// or if nothing can be removed.
    pub fn excess(&self, limit_tokens: u64) -> Vec<String> {
        self.excess_before(self.messages.len().saturating_sub(TRIM_KEEP_MESSAGES), limit_tokens)
    }

    /// Like [`excess`](Self::excess), with outputs of the first `old` messages.
    fn excess_before(&self, old: usize, limit_tokens: u64) -> Vec<String> {
        let mut over = self.estimated_tokens().saturating_sub(limit_tokens).saturating_mul(BYTES_PER_TOKEN);
        let mut excess = Vec::new();
        for message in &self.messages[..old] {
            let Message::Results(results) = &**message else { continue };
            for result in results {
                if over == 0 {
                    return excess;
                }
                if result.can_be_trimmed() {
                    over = over.saturating_sub(result.saved_bytes());
                    excess.push(result.call_id.to_string());
                }
            }
        }
        excess
    }

    /// Replaces the outputs of these calls with a placeholder. Returns the number of bytes saved.
    ///
    /// Models may reuse the ids of one turn in the next. So an id means its oldest output that can still be trimmed,
    /// and an id that is listed twice means the two oldest. This trims exactly the outputs that
    /// [`excess`](Self::excess) returned, and no newer one.
    pub fn trim(&mut self, call_ids: &[String]) -> u64 {
        self.trim_before(self.messages.len().saturating_sub(TRIM_KEEP_MESSAGES), call_ids)
    }

    /// Omits the oldest outputs, also of the newest messages, until the conversation has at most `limit_tokens` or no
    /// output can be omitted.
    pub(crate) fn trim_all(&mut self, limit_tokens: u64) {
        let all = self.messages.len();
        let call_ids = self.excess_before(all, limit_tokens);
        self.trim_before(all, &call_ids);
    }

    fn trim_before(&mut self, old: usize, call_ids: &[String]) -> u64 {
        let mut wanted: HashMap<&str, usize> = HashMap::new();
        for id in call_ids {
            *wanted.entry(id).or_default() += 1;
        }
        let mut freed = 0;
        for message in &mut self.messages[..old] {
            let Message::Results(results) = &**message else { continue };
            if !results.iter().any(|result| wanted.get(&*result.call_id).is_some_and(|left| *left > 0)) {
                continue;
            }
            let mut results = results.clone();
            for result in results.iter_mut().filter(|result| result.can_be_trimmed()) {
                let Some(left) = wanted.get_mut(&*result.call_id).filter(|left| **left > 0) else { continue };
                *left -= 1;
                freed += result.saved_bytes();
                result.text = mark(&result.tool, result.text.len()).into();
                result.images.clear();
            }
            *message = Arc::new(Message::Results(results));
        }
        self.bytes = self.messages.iter().map(|message| message.bytes()).sum();
        self.hash = self.messages.iter().fold(Hash::ZERO, |hash, message| message.hash_after(&hash));
        freed
    }
}

const MARK: &str = "[output left out to keep the conversation short: ";

fn mark(tool: &str, bytes: usize) -> String {
    format!("{MARK}{bytes} bytes of `{tool}`; call it again if you need it]")
}

fn is_mark(text: &str) -> bool {
    text.starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_reply_does_not_depend_on_the_order_of_keys() {
        let said = |input: &str, content: &str| {
            let json = |text: &str| serde_json::from_str(text).expect("json");
            let mut conversation = Conversation::default();
            conversation.push(Message::Assistant {
                text: "Reading.".into(),
                calls: [ToolCall { id: "c1".into(), name: "read".into(), input: json(input) }].into(),
                raw: Some(Arc::new(RawReply { model: "a/b".into(), content: json(content) })),
            });
            conversation.hash()
        };
        let hash =
            said(r#"{"path": "a", "limit": {"to": 2, "from": 1}}"#, r#"[{"type": "text", "text": "x"}]"#);
        assert_eq!(
            hash,
            said(r#"{"limit": {"from": 1, "to": 2}, "path": "a"}"#, r#"[{"text": "x", "type": "text"}]"#)
        );
        // The hashes of every journal contain this text: it must never change.
        let calls = br#"[{"id":"c1","name":"read","input":{"limit":{"from":1,"to":2},"path":"a"}}]"#;
        let raw = br#"[{"text":"x","type":"text"}]"#;
        let parts: [&[u8]; 5] = [Hash::ZERO.as_bytes(), b"assistant", b"Reading.", calls, raw];
        assert_eq!(hash, Hash::of_parts(parts));
    }
}
