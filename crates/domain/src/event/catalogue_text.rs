//! The definitions and skills that a run discovered, as `run.started` stores them.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::skill::DiscoveredDefinitions;
use crate::text::{BlobRef, Text};

/// [`DiscoveredDefinitions`] as a text for the journal and as a parsed value. Hundreds of definitions make megabytes of
/// text, so each form is created from the other at most once, on demand. One of them is always set.
#[derive(Debug, Clone)]
pub struct CatalogueText {
    text: OnceLock<Text>,
    read: OnceLock<Arc<DiscoveredDefinitions>>,
}

impl CatalogueText {
    /// Returns none if nothing was discovered: such a request has no catalogue.
    pub fn of(discovered: DiscoveredDefinitions) -> Option<Self> {
        (!discovered.is_empty()).then(|| Arc::new(discovered).into())
    }

    /// The parsed text, or the error of parsing it.
    pub fn read(&self) -> Result<Arc<DiscoveredDefinitions>, String> {
        if let Some(read) = self.read.get() {
            return Ok(read.clone());
        }
        let Text::Here(text) = self.text() else { return Err("its text was not fetched".to_owned()) };
        let read = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Ok(self.read.get_or_init(|| Arc::new(read)).clone())
    }

    /// The blob to fetch, if the text is not in memory.
    pub fn missing(&self) -> Option<BlobRef> {
        self.text.get().and_then(Text::missing)
    }

    /// The text. Serialising it is slow if much was discovered.
    pub fn text(&self) -> &Text {
        self.text.get_or_init(|| self.read.get().cloned().unwrap_or_default().to_json().into())
    }

    /// Like [`text`](Self::text), for the codec that moves it out of the event. Never none.
    pub(super) fn text_mut(&mut self) -> Option<&mut Text> {
        self.text();
        self.text.get_mut()
    }
}

impl From<Arc<DiscoveredDefinitions>> for CatalogueText {
    fn from(catalogue: Arc<DiscoveredDefinitions>) -> Self {
        Self { text: OnceLock::new(), read: OnceLock::from(catalogue) }
    }
}

/// Two catalogues are equal if their texts are.
impl PartialEq for CatalogueText {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Serialize for CatalogueText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CatalogueText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { text: OnceLock::from(Text::deserialize(deserializer)?), read: OnceLock::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_once_and_only_if_it_is_here() {
        let catalogue = Arc::new(DiscoveredDefinitions::default());
        let made = CatalogueText::from(catalogue.clone());
        assert!(Arc::ptr_eq(&made.read().expect("made"), &catalogue));
        let text = serde_json::to_string(&made).expect("JSON");
        let kept: CatalogueText = serde_json::from_str(&text).expect("kept");
        assert_eq!(kept, made);
        let read = kept.read().expect("read");
        assert_eq!(read, catalogue);
        assert!(Arc::ptr_eq(&kept.read().expect("read"), &read));
        let away = r#"{"blob":"0000000000000000000000000000000000000000000000000000000000000000","bytes":9}"#;
        let away: CatalogueText = serde_json::from_str(away).expect("kept elsewhere");
        assert_eq!(away.read(), Err("its text was not fetched".to_owned()));
        let wrong: CatalogueText = serde_json::from_str(r#""{}""#).expect("kept");
        assert!(wrong.read().expect_err("wrong").contains("definitions"));
    }
}
