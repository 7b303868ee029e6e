//! A value in a settings file, with its line.

use std::borrow::Cow;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_saphyr::Spanned;

use super::{Origin, WithOrigin};

/// A value with its line. In the schema it is the value alone.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct WithLine<T>(Spanned<T>);

impl<T> WithLine<T> {
    /// The value with its origin.
    pub(super) fn sourced(self, path: &Path) -> WithOrigin<T> {
        let Spanned { value, referenced, .. } = self.0;
        WithOrigin { value, origin: Origin::File { path: path.to_owned(), line: referenced.line() } }
    }
}

/// A value with its origin, if it is set.
pub(super) fn sourced<T>(value: Option<WithLine<T>>, path: &Path) -> Option<WithOrigin<T>> {
    value.map(|value| value.sourced(path))
}

impl<T: JsonSchema> JsonSchema for WithLine<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
