//! Encodes and decodes events for the store: writes the current payload format and upgrades older ones on read. No
//! other module knows format versions.

use thiserror::Error;

use super::catalogue_text::CatalogueText;
use super::{EncodedEvent, Event, EventBody, FilesCommit, StoredEvent};
use crate::text::{Blob, BlobRef, INLINE_MAX_BYTES, Text};

/// Version of the payload format that this code writes.
pub const EVENT_VERSION: u32 = 1;

/// Why an event cannot be encoded or decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CodecError {
    /// This version of Posse does not know the kind.
    #[error("unknown event kind `{kind}`")]
    UnknownKind {
        /// The kind in the journal.
        kind: String,
    },
    /// The payload does not match its kind.
    #[error("event `{kind}`: {error}")]
    Malformed {
        /// The kind in the journal.
        kind: String,
        /// The parser's error.
        error: String,
    },
    /// A newer version of Posse wrote the event.
    #[error("event `{kind}` has version {found}, newer than this Posse understands ({EVENT_VERSION})")]
    Newer {
        /// The kind in the journal.
        kind: String,
        /// The version in the journal.
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

    /// Decodes a stored event. Texts that are blobs remain references until [`EventBody::fill`] fetches them.
    pub fn decode(stored: &StoredEvent) -> Result<Event, CodecError> {
        if stored.version > EVENT_VERSION {
            return Err(CodecError::Newer { kind: stored.kind.to_string(), found: stored.version });
        }
        let body = EventBody::from_json(&stored.kind, &stored.payload)?;
        Ok(Event { agent: stored.agent.clone(), at_ms: stored.at_ms, body })
    }
}

impl EventBody {
    /// The fields that may contain a long text.
    fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            EventBody::RunStarted(e) => {
                let request = &mut e.request;
                let catalogue = request.catalogue.iter_mut().filter_map(CatalogueText::text_mut);
                let texts = std::iter::once(&mut request.text).chain(&mut request.prompt);
                let prior =
                    request.continues.iter_mut().filter_map(|continued| continued.conversation.as_mut());
                texts.chain(catalogue).chain(&mut request.agents_md).chain(prior).collect()
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
            EventBody::ContextCompacted(e) => vec![&mut e.summary],
            EventBody::InputRequested(e) => vec![&mut e.arguments],
            EventBody::ChecksPassed(e) => e.checks.iter_mut().map(|check| &mut check.output).collect(),
            EventBody::ChecksFailed(e) => e.checks.iter_mut().map(|check| &mut check.output).collect(),
            // `stow_reply` stores the text of a model's reply. The other kinds have no long text.
            EventBody::ModelReplied(_)
            | EventBody::RunPlanned(_)
            | EventBody::RunResumed(_)
            | EventBody::RunCancelled(_)
            | EventBody::SubagentCreated(_)
            | EventBody::SubagentQueued(_)
            | EventBody::SubagentStarted(_)
            | EventBody::SubagentAttempt(_)
            | EventBody::SubagentClosed(_)
            | EventBody::SubagentRefused(_)
            | EventBody::IntegrationPassed(_)
            | EventBody::IntegrationFailed(_)
            | EventBody::WorktreeConflicted(_)
            | EventBody::WorktreeMerged(_)
            | EventBody::WorkspaceMade(_)
            | EventBody::WorkspaceSalvaged(_)
            | EventBody::WorkspaceRemoved(_)
            | EventBody::ProviderWaitStarted(_)
            | EventBody::ProviderWaitEnded(_)
            | EventBody::ToolIntended(_)
            | EventBody::PermissionDecided(_)
            | EventBody::InputAnswered(_)
            | EventBody::CancelRequested(_)
            | EventBody::ContextTrimmed(_)
            | EventBody::TodoChanged(_) => Vec::new(),
        }
    }

    fn stow(&mut self, blobs: &mut Vec<Blob>) {
        if let EventBody::ModelReplied(replied) = self {
            stow_reply(replied, blobs);
        }
        // The catalogue is always a blob, however short it is.
        if let EventBody::RunStarted(started) = self {
            let catalogue = started.request.catalogue.iter_mut();
            catalogue.filter_map(CatalogueText::text_mut).for_each(|text| text.put_away(blobs));
        }
        for text in self.texts_mut() {
            text.stow(blobs);
        }
        if let Some(pack) = self.files_mut().and_then(|files| files.pack.as_mut()) {
            pack.stow(blobs);
        }
    }

    fn files_mut(&mut self) -> Option<&mut FilesCommit> {
        match self {
            EventBody::ToolFinished(e) => e.files.as_mut(),
            EventBody::ToolInterrupted(e) => e.files.as_mut(),
            _ => None,
        }
    }

    /// The files of a workspace that the event records. Their pack is not among the blobs that [`Self::missing`] names,
    /// because only a reader of the files needs it.
    pub fn files(&self) -> Option<&FilesCommit> {
        match self {
            EventBody::ToolFinished(e) => e.files.as_ref(),
            EventBody::ToolInterrupted(e) => e.files.as_ref(),
            _ => None,
        }
    }

    /// The blobs that must be fetched before the event is complete.
    pub fn missing(&mut self) -> Vec<BlobRef> {
        let mut missing: Vec<BlobRef> = self.texts_mut().iter().filter_map(|text| text.missing()).collect();
        if let EventBody::ModelReplied(replied) = self {
            missing.extend(replied.reply_at);
        }
        missing
    }

    /// Replaces references with the fetched texts. `fetch` returns the text of a blob.
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

/// Stores a long reply as one JSON blob: length alone does not separate its calls from its text.
fn stow_reply(replied: &mut super::ModelReplied, blobs: &mut Vec<Blob>) {
    let Some(reply) = &replied.reply else { return };
    // Most replies are a short text and need not be encoded twice.
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
