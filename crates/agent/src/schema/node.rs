//! A compiled schema: its parts in a list, with keywords that own their data.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::number::Decimal;
use super::pattern::Pattern;

/// The index of a part in [`CompiledSchema::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(pub(super) usize);

/// The index of a pattern in [`CompiledSchema::patterns`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PatternId(pub(super) usize);

/// The first node is the root.
#[derive(Debug)]
pub(super) struct CompiledSchema {
    pub(super) nodes: Vec<Node>,
    pub(super) patterns: Vec<Pattern>,
}

impl CompiledSchema {
    pub(super) const ROOT: NodeId = NodeId(0);

    /// Whether a part is the schema `false`.
    pub(super) fn is_never(&self, id: NodeId) -> bool {
        matches!(self.nodes[id.0].keywords[..], [Keyword::Never])
    }
}

/// One part of a schema. The schema `true` has no keywords.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// In the order in which they are checked: what is wrong with the value itself before what is wrong within it, and
    /// `unevaluated…` last, which depends on the others.
    pub(super) keywords: Vec<Keyword>,
    /// Whether the node has to know what its other keywords evaluated.
    pub(super) tracks: bool,
}

#[derive(Debug)]
pub(super) enum Keyword {
    /// The schema `false`.
    Never,
    Reference(NodeId),
    Type(Vec<JsonType>),
    Const(Value),
    Enum(Vec<Value>),
    Bound(NumberBound),
    MultipleOf {
        divisor: Decimal,
        text: Number,
    },
    Size {
        of: CountOf,
        at_most: bool,
        limit: u64,
    },
    Pattern(PatternId),
    UniqueItems,
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    PropertyNames(NodeId),
    Properties(PropertySchemas),
    Items {
        prefix: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains(Contains),
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not(NodeId),
    Condition {
        test: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    DependentSchemas(Vec<(String, NodeId)>),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Array,
    Boolean,
    Integer,
    Null,
    Number,
    Object,
    String,
}

impl JsonType {
    pub(super) const ALL: [(Self, &'static str); 7] = [
        (Self::Array, "array"),
        (Self::Boolean, "boolean"),
        (Self::Integer, "integer"),
        (Self::Null, "null"),
        (Self::Number, "number"),
        (Self::Object, "object"),
        (Self::String, "string"),
    ];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(json_type, _)| *json_type)
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(json_type, _)| *json_type == self).map_or("", |(_, name)| name)
    }

    pub(super) fn is_type_of(self, value: &Value) -> bool {
        match (self, value) {
            // Also in draft 4, which says otherwise: a writer of JSON may print whole numbers as `1.0`.
            (Self::Integer, Value::Number(number)) => Decimal::of(number).is_integer(),
            (Self::Array, Value::Array(_))
            | (Self::Boolean, Value::Bool(_))
            | (Self::Null, Value::Null)
            | (Self::Number, Value::Number(_))
            | (Self::Object, Value::Object(_))
            | (Self::String, Value::String(_)) => true,
            _ => false,
        }
    }
}

/// `minimum` and its relatives.
#[derive(Debug)]
pub(super) struct NumberBound {
    pub(super) is_maximum: bool,
    pub(super) is_exclusive: bool,
    pub(super) limit: Decimal,
    /// The limit as the schema has it.
    pub(super) text: Number,
}

impl NumberBound {
    pub(super) fn allows(&self, number: Decimal) -> bool {
        let order = if self.is_maximum { number.cmp(&self.limit) } else { self.limit.cmp(&number) };
        order.is_lt() || order.is_eq() && !self.is_exclusive
    }
}

/// The count that `minLength`, `maxItems` and their relatives limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CountOf {
    Characters,
    Items,
    Properties,
}

/// `properties`, `patternProperties` and `additionalProperties`, which depend on each other.
#[derive(Debug, Default)]
pub(super) struct PropertySchemas {
    pub(super) named: BTreeMap<String, NodeId>,
    pub(super) patterns: Vec<(PatternId, NodeId)>,
    pub(super) additional: Option<NodeId>,
}

#[derive(Debug)]
pub(super) struct Contains {
    pub(super) node: NodeId,
    pub(super) at_least: u64,
    pub(super) at_most: Option<u64>,
    /// Whether the items that it found count as evaluated, since draft 2020-12.
    pub(super) evaluates: bool,
}
