//! Replies of models and their tool calls, as events and conversations store them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::Text;

/// A tool call that a model requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The model's id of the call. It is unique in its reply after the reply was accepted.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments. A string is text that did not parse as JSON, exactly as the model wrote it.
    pub input: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// May be empty.
    pub text: Text,
    /// In the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// Content that the provider wants back unchanged, such as thinking with its signature. None if text and calls are
    /// all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Arc<RawReply>>,
}

/// A reply in its provider's format. It is only sent back to the model that wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReply {
    /// The full name of the model.
    pub model: String,
    /// The content in the provider's format, in order: text, calls and all other parts.
    pub content: Value,
}

/// An image for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub media_type: MediaType,
    /// The bytes as base64, which every provider expects.
    pub base64: Text,
}

/// A description of images for users, such as `1 picture (image/png, 12 kB)`. None if there are no images.
pub fn pictures(images: &[Image]) -> Option<String> {
    let each = |image: &Image| {
        // Base64 encodes three bytes as four.
        let bytes = image.base64.len_bytes() / 4 * 3;
        format!("{}, {} kB", image.media_type.as_str(), bytes.div_ceil(1000))
    };
    match images {
        [] => None,
        [image] => Some(format!("1 picture ({})", each(image))),
        images => {
            let list: Vec<String> = images.iter().map(each).collect();
            Some(format!("{} pictures ({})", images.len(), list.join("; ")))
        }
    }
}

/// The image formats that models accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaType {
    #[serde(rename = "image/png")]
    Png,
    #[serde(rename = "image/jpeg")]
    Jpeg,
    #[serde(rename = "image/gif")]
    Gif,
    #[serde(rename = "image/webp")]
    Webp,
}

impl MediaType {
    /// The MIME type.
    pub fn as_str(self) -> &'static str {
        match self {
            MediaType::Png => "image/png",
            MediaType::Jpeg => "image/jpeg",
            MediaType::Gif => "image/gif",
            MediaType::Webp => "image/webp",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_told_by_kind_and_size() {
        let image = |media_type, bytes: usize| Image { media_type, base64: "A".repeat(bytes / 3 * 4).into() };
        let (png, gif) = (image(MediaType::Png, 12_000), image(MediaType::Gif, 3));
        assert_eq!(pictures(&[]), None);
        assert_eq!(pictures(std::slice::from_ref(&png)).as_deref(), Some("1 picture (image/png, 12 kB)"));
        assert_eq!(pictures(&[png, gif]).as_deref(), Some("2 pictures (image/png, 12 kB; image/gif, 1 kB)"));
    }
}
