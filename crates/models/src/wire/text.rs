//! Helpers that the formats share: borrowed strings, arguments, and the text that replaces a picture.

use std::borrow::Cow;
use std::fmt;

use posse_domain::json_values::has_too_many_values;
use posse_domain::message::Image;
use posse_domain::text::Text;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::Value;

/// A JSON string that is copied only if it has escapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Str<'a>(pub(crate) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Str<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StrVisitor;
        impl<'de> Visitor<'de> for StrVisitor {
            type Value = Str<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Str<'de>, E> {
                Ok(Str(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(StrVisitor)
    }
}

/// The bytes of a picture as base64, if the model accepts pictures.
pub(crate) fn image_data(image: &Image, shown: bool) -> Option<&str> {
    match &image.base64 {
        Text::Here(base64) if shown => Some(base64),
        Text::Here(_) | Text::Stored(_) => None,
    }
}

/// The text that replaces a picture for a model without pictures.
pub(crate) fn image_note(image: &Image) -> String {
    format!("[a picture ({}) that you cannot be shown]", image.media_type.as_str())
}

/// Arguments of a call as the model wrote them. Empty text is an empty object. Text that is not JSON, or has too many
/// values to be parsed, stays text.
pub(crate) fn arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    if has_too_many_values(text.as_bytes()) {
        return Value::String(text.to_owned());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// Whether arguments are complete. This distinguishes a finished call from one that was cut, because no prefix of an
/// object is an object.
pub(crate) fn is_whole_object(text: &str) -> bool {
    !has_too_many_values(text.as_bytes())
        && serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok()
}

/// Arguments as the object that every provider expects, whatever the model wrote.
pub(crate) fn as_object(input: &Value) -> Cow<'_, Value> {
    if input.is_object() { Cow::Borrowed(input) } else { Cow::Owned(serde_json::json!({ "input": input })) }
}
