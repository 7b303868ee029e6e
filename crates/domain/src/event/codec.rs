//! The only place that knows format versions: writes the current one, upgrades older ones on read.

use thiserror::Error;

use super::catalogue_text::CatalogueText;
use super::{EncodedEvent, Event, EventBody, StoredEvent};
use crate::text::{Blob, BlobRef, INLINE_MAX_BYTES, Text};

/// Version of the payloads written today.
pub const EVENT_VERSION: u32 = 1;

/// An event that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodecError {
    /// Not one of the kinds this Posse knows.
    #[error("unknown event kind `{kind}`")]
    UnknownKind {
        /// The kind found.
        kind: String,
    },
    /// Its payload is not what its kind promises.
    #[error("event `{kind}`: {error}")]
    Malformed {
        /// The kind.
        kind: String,
        /// What is wrong.
        error: String,
    },
    /// Written by a newer Posse.
    #[error("event `{kind}` has version {found}, newer than this Posse understands ({EVENT_VERSION})")]
    Newer {
        /// The kind.
        kind: String,
        /// The version found.
        found: u32,
    },
}

impl Event {
    /// Encodes the event; long texts are moved into `blobs`.
    pub fn encode(mut self, blobs: &mut Vec<Blob>) -> Result<EncodedEvent, CodecError> {
        self.body.stow(blobs);
        let kind = self.body.kind();
        let payload = self
            .body
            .to_json()
            .map_err(|error| CodecError::Malformed { kind: kind.to_owned(), error: error.to_string() })?;
        Ok(EncodedEvent { agent: self.agent, kind, at_ms: self.at_ms, version: EVENT_VERSION, payload })
    }

    /// Decodes a stored event. Texts kept as blobs stay references until they are filled in.
    pub fn decode(stored: &StoredEvent) -> Result<Event, CodecError> {
        if stored.version > EVENT_VERSION {
            return Err(CodecError::Newer { kind: stored.kind.to_string(), found: stored.version });
        }
        let body = EventBody::from_json(&stored.kind, &stored.payload)?;
        Ok(Event { agent: stored.agent.clone(), at_ms: stored.at_ms, body })
    }
}

impl EventBody {
    /// The texts of an event that may be long.
    fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            EventBody::RunStarted(e) => {
                let request = &mut e.request;
                let catalogue = request.catalogue.iter_mut().filter_map(CatalogueText::text_mut);
                let texts = std::iter::once(&mut request.text).chain(&mut request.prompt);
                texts.chain(catalogue).chain(&mut request.agents_md).collect()
            }
            EventBody::RunCompleted(e) => vec![&mut e.text],
            EventBody::RunFailed(e) => e.text.iter_mut().collect(),
            EventBody::SubagentWaitingForMerge(e) => vec![&mut e.report],
            EventBody::SubagentFailed(e) => e.report.iter_mut().collect(),
            EventBody::ToolFinished(e) => {
                let images = e.images.iter_mut().map(|image| &mut image.base64);
                std::iter::once(&mut e.output).chain(images).collect()
            }
            EventBody::ModelCalled(e) => match &mut e.preamble {
                Some(preamble) => preamble.system_text.iter_mut().chain(&mut preamble.tools_text).collect(),
                None => Vec::new(),
            },
            EventBody::ToolInterrupted(e) => vec![&mut e.output],
            EventBody::MessageReceived(e) => vec![&mut e.text],
            EventBody::InputRequested(e) => vec![&mut e.arguments],
            EventBody::ChecksPassed(e) => e.checks.iter_mut().map(|check| &mut check.output).collect(),
            EventBody::ChecksFailed(e) => e.checks.iter_mut().map(|check| &mut check.output).collect(),
            _ => Vec::new(),
        }
    }

    fn stow(&mut self, blobs: &mut Vec<Blob>) {
        if let EventBody::ModelReplied(replied) = self {
            stow_reply(replied, blobs);
        }
        // In one shape, however little there is.
        if let EventBody::RunStarted(started) = self {
            let catalogue = started.request.catalogue.iter_mut();
            catalogue.filter_map(CatalogueText::text_mut).for_each(|text| text.put_away(blobs));
        }
        for text in self.texts_mut() {
            text.stow(blobs);
        }
    }

    /// The blobs that must be fetched before the event is whole.
    pub fn missing(&mut self) -> Vec<BlobRef> {
        let mut missing: Vec<BlobRef> = self.texts_mut().iter().filter_map(|text| text.missing()).collect();
        if let EventBody::ModelReplied(replied) = self {
            missing.extend(replied.reply_at);
        }
        missing
    }

    /// Puts fetched blobs back in their places; `fetch` gives a blob's text.
    pub fn fill(&mut self, fetch: &mut dyn FnMut(&BlobRef) -> Option<String>) -> Result<(), CodecError> {
        let kind = self.kind().to_owned();
        let lost = |at: &BlobRef| CodecError::Malformed {
            kind: kind.clone(),
            error: format!("blob {} is missing", at.blob),
        };
        for text in self.texts_mut() {
            if let Some(at) = text.missing() {
                *text = fetch(&at).ok_or_else(|| lost(&at))?.into();
            }
        }
        if let EventBody::ModelReplied(replied) = self
            && let Some(at) = replied.reply_at
        {
            let json = fetch(&at).ok_or_else(|| lost(&at))?;
            let reply = serde_json::from_str(&json)
                .map_err(|error| CodecError::Malformed { kind: kind.clone(), error: error.to_string() })?;
            replied.reply = Some(reply);
            replied.reply_at = None;
        }
        Ok(())
    }
}

/// A long reply is kept whole as one blob of JSON: its calls cannot be told apart from its text by length alone.
fn stow_reply(replied: &mut super::ModelReplied, blobs: &mut Vec<Blob>) {
    let Some(reply) = &replied.reply else { return };
    // Most replies are a short text: those need not be encoded twice.
    let is_plain = reply.calls.is_empty() && reply.raw.is_none();
    if is_plain && reply.text.len_bytes() <= INLINE_MAX_BYTES as u64 {
        return;
    }
    let Ok(json) = serde_json::to_string(reply) else { return };
    if json.len() <= INLINE_MAX_BYTES {
        return;
    }
    let blob = Blob { hash: crate::hash::Hash::of(json.as_bytes()), bytes: json.as_bytes().into() };
    replied.reply_at = Some(BlobRef { blob: blob.hash, bytes: json.len() as u64 });
    replied.reply = None;
    blobs.push(blob);
}

#[cfg(test)]
mod tests;
