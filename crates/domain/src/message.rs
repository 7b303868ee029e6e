//! What models say: replies with tool calls.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::Text;

/// One call that a model asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The model's id of the call, unique in its reply once the reply was accepted.
    pub id: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments. A string is text that did not parse as JSON, kept as the model wrote it.
    pub input: Value,
}

/// One reply of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The text; may be empty.
    pub text: Text,
    /// The calls, in the model's order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// What the provider wants back exactly as it came, such as thinking with its signature; none if text and calls say
    /// it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Arc<RawReply>>,
}

/// A reply as its provider wrote it. It is only ever sent back to the model that gave it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReply {
    /// The model's full name.
    pub model: String,
    /// The content, in the provider's own format: text, calls and all else, in order.
    pub content: Value,
}

/// A picture that a model is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// What kind of picture.
    pub media_type: MediaType,
    /// Its bytes as base64, the form in which every provider wants them.
    pub base64: Text,
}

/// Pictures in words for people, such as `1 picture (image/png, 12 kB)`; none if there are none.
pub fn pictures(images: &[Image]) -> Option<String> {
    let each = |image: &Image| {
        // Base64 writes three bytes as four.
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

/// The kinds of pictures that models take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MediaType {
    /// PNG.
    #[serde(rename = "image/png")]
    Png,
    /// JPEG.
    #[serde(rename = "image/jpeg")]
    Jpeg,
    /// GIF.
    #[serde(rename = "image/gif")]
    Gif,
    /// WebP.
    #[serde(rename = "image/webp")]
    Webp,
}

impl MediaType {
    /// The name of the kind in HTTP.
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
