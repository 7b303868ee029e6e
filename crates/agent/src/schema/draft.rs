//! The drafts of JSON Schema, and the keywords that each of them has.

/// In the order of their publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    Draft4,
    Draft6,
    Draft7,
    Draft2019,
    Draft2020,
}

/// What `$schema` names, without its scheme and an empty fragment.
const NAMES: [(&str, Draft); 5] = [
    ("json-schema.org/draft-04/schema", Draft::Draft4),
    ("json-schema.org/draft-06/schema", Draft::Draft6),
    ("json-schema.org/draft-07/schema", Draft::Draft7),
    ("json-schema.org/draft/2019-09/schema", Draft::Draft2019),
    ("json-schema.org/draft/2020-12/schema", Draft::Draft2020),
];

impl Draft {
    pub(super) const DEFAULT: Self = Self::Draft2020;

    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("https://").or_else(|| name.strip_prefix("http://"))?;
        let name = name.strip_suffix('#').unwrap_or(name);
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, draft)| *draft)
    }

    /// Whether a keyword means something in this draft. `dependencies` does in all of them, as most validators have it.
    pub(super) fn has(self, keyword: &str) -> bool {
        let since = match keyword {
            "additionalItems" => return self <= Self::Draft2019,
            "const" | "contains" | "propertyNames" | "examples" => Self::Draft6,
            "if" | "then" | "else" | "$comment" | "readOnly" | "writeOnly" | "contentEncoding"
            | "contentMediaType" => Self::Draft7,
            "$defs"
            | "dependentRequired"
            | "dependentSchemas"
            | "minContains"
            | "maxContains"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "deprecated"
            | "contentSchema" => Self::Draft2019,
            "prefixItems" => Self::Draft2020,
            _ => Self::Draft4,
        };
        self >= since
    }
}
