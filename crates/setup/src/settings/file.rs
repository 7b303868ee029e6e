//! Parses a settings file by the table of keys. Strict: an unknown key or a wrong type is an error with its line.

use std::fmt;
use std::path::Path;

use serde::de::DeserializeSeed;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::keys::{self, SECTIONS};
use super::{Settings, problem};
use crate::error::SetupError;
use crate::project_dirs;

/// Reads the settings file. A missing file sets nothing.
pub(super) fn read(path: &Path) -> Result<Settings, SetupError> {
    match project_dirs::read(path) {
        Ok(Some(bytes)) => parse_bytes(bytes, path),
        Ok(None) => Ok(Settings::default()),
        Err(problem) => Err(unreadable(path, &problem)),
    }
}

/// Parses the content of a settings file.
pub(super) fn parse_bytes(bytes: Vec<u8>, path: &Path) -> Result<Settings, SetupError> {
    let text = String::from_utf8(bytes).map_err(|_| unreadable(path, "it is not UTF-8 text"))?;
    parse(&text, path)
}

/// The error for a file that cannot be read as text.
pub(super) fn unreadable(path: &Path, why: &str) -> SetupError {
    SetupError::usage(format!("{}: cannot read the settings: {why}", path.display()))
        .hint("fix or remove the file")
}

/// Parses the text of a settings file.
pub(super) fn parse(text: &str, path: &Path) -> Result<Settings, SetupError> {
    let options = serde_saphyr::options! { strict_booleans: true, emit_comments: false, with_snippet: false };
    let mut settings = Settings::default();
    let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Section { name: None, settings: &mut settings, path }.deserialize(deserializer)
    });
    match read {
        // A file with only comments is not a YAML document.
        Ok(()) | Err(serde_saphyr::Error::Eof { .. }) => {}
        Err(error) => return Err(problem::in_file(&error, text, path)),
    }
    settings.providers.check()?;
    Ok(settings)
}

/// A section of a file, or the whole file; may be empty.
struct Section<'a> {
    name: Option<&'static str>,
    settings: &'a mut Settings,
    path: &'a Path,
}

impl<'de> DeserializeSeed<'de> for Section<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Section<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { name: section, settings, path } = self;
        while let Some(name) = map.next_key_seed(KeyName(keys::names_in(section)))? {
            match section {
                None if SECTIONS.iter().any(|(known, _)| *known == name) => {
                    map.next_value_seed(Section { name: Some(name), settings: &mut *settings, path })?;
                }
                None => keys::read_value(name, &mut map, settings, path)?,
                Some(section) => {
                    keys::read_value(&format!("{section}.{name}"), &mut map, settings, path)?;
                }
            }
        }
        Ok(())
    }
}

/// One of these names. An unknown name is an error here, where the reader knows its line.
struct KeyName(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KeyName {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeyName {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        self.0.iter().copied().find(|known| *known == name).ok_or_else(|| E::unknown_field(name, self.0))
    }
}
