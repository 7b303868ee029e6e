//! Texts of events that may be large: complete in memory, and blob references in the journal once they are long.

use std::fmt;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Hash;

/// Maximum length of a text inside an event. Longer texts are blobs.
pub const INLINE_MAX_BYTES: usize = 2 * 1024;
/// Maximum length of a name or a value that an error message repeats.
pub const QUOTE_MAX_CHARS: usize = 64;

/// A reference to a blob: a long text, or a pack of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlobRef {
    /// The content hash, which is the blob's name.
    pub blob: Hash,
    /// Length of the content.
    pub bytes: u64,
}

/// A text field of an event.
#[derive(Clone, PartialEq, Eq)]
pub enum Text {
    Here(Arc<str>),
    /// A blob reference whose text was not fetched.
    Stored(BlobRef),
}

impl Text {
    /// The text, or a placeholder that names the blob if the text was not fetched.
    pub fn to_shared(&self) -> Arc<str> {
        match self {
            Text::Here(text) => text.clone(),
            Text::Stored(at) => format!("[{} bytes, blob {}]", at.bytes, at.blob).into(),
        }
    }

    /// The length in bytes, also of a text that was not fetched.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Text::Here(text) => text.len() as u64,
            Text::Stored(at) => at.bytes,
        }
    }

    /// Moves a long text into `blobs` and keeps a reference.
    pub fn stow(&mut self, blobs: &mut Vec<Blob>) {
        if self.len_bytes() > INLINE_MAX_BYTES as u64 {
            self.put_away(blobs);
        }
    }

    /// Like [`stow`](Self::stow), however short the text is.
    pub(crate) fn put_away(&mut self, blobs: &mut Vec<Blob>) {
        if let Text::Here(text) = self {
            let blob = Blob { hash: Hash::of(text.as_bytes()), bytes: text.clone().into() };
            let at = BlobRef { blob: blob.hash, bytes: text.len() as u64 };
            blobs.push(blob);
            *self = Text::Stored(at);
        }
    }

    /// The blob to fetch, if the text is not in memory.
    pub fn missing(&self) -> Option<BlobRef> {
        match self {
            Text::Here(_) => None,
            Text::Stored(at) => Some(*at),
        }
    }
}

/// A content and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub hash: Hash,
    pub bytes: Arc<[u8]>,
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Text::Here(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Text::Here(text.into())
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Text::Here(text)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Text::Here(text) => write!(f, "{text:?}"),
            Text::Stored(at) => write!(f, "{at:?}"),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Text::Here(text) => serializer.serialize_str(text),
            Text::Stored(at) => at.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a blob reference")
            }
            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }
            fn visit_string<E>(self, text: String) -> Result<Text, E> {
                Ok(text.into())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Text, A::Error> {
                BlobRef::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(Text::Stored)
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// The first `max_chars` characters of a text, without a mark. Keeps a hostile text from filling an error message.
pub fn clip(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}

/// Shortens a text to `max_chars` characters and marks the cut.
pub fn shorten(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}[…]", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first line of a text, shortened to `max` characters, for one-line summaries.
pub fn first_line(text: &str, max: usize) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    let mut short: String = line.chars().take(max).collect();
    if line.chars().nth(max).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_only_if_it_is_too_long() {
        for (text, clipped, shortened) in [("", "", ""), ("äöü", "äöü", "äöü"), ("äöüx", "äöü", "äöü[…]")]
        {
            assert_eq!((clip(text, 3).as_str(), shorten(text, 3).as_str()), (clipped, shortened));
        }
    }
}
