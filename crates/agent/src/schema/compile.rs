//! Compiles a schema into nodes, for [`super::Schema::compile`], and refuses every malformed keyword by its place.

mod applicators;
mod assertions;

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::draft::Draft;
use super::node::{CompiledSchema, JsonType, Keyword, Node, NodeId, PatternId};
use super::pattern::{PATTERN_TEXTS_MAX_BYTES, Pattern};
use super::pointer::{Token, pointer};
use super::words::quote;
use super::{SchemaProblem, target};

/// Annotations, which are not checked against answers, and the type that each must have. Draft 7 and earlier leave it to
/// the validator whether `format` and `content…` are checked, later drafts make them annotations.
const ANNOTATIONS: [(&str, JsonType); 11] = [
    ("$id", JsonType::String),
    ("$comment", JsonType::String),
    ("title", JsonType::String),
    ("description", JsonType::String),
    ("format", JsonType::String),
    ("contentEncoding", JsonType::String),
    ("contentMediaType", JsonType::String),
    ("deprecated", JsonType::Boolean),
    ("readOnly", JsonType::Boolean),
    ("writeOnly", JsonType::Boolean),
    ("examples", JsonType::Array),
];

/// Compiles a schema whose shape is within its limits.
pub(super) fn compile(root: &Value) -> Result<CompiledSchema, SchemaProblem> {
    let draft = draft_of(root)?;
    let mut compiler = Compiler {
        root,
        draft,
        nodes: Vec::new(),
        patterns: Vec::new(),
        pattern_bytes: 0,
        ids: HashMap::new(),
        origins: Vec::new(),
        open: Vec::new(),
    };
    compiler.node(root, Origin::Root);
    // The walk has its own stack, so a deep schema cannot fill the thread's.
    while let Some((id, value)) = compiler.open.pop() {
        compiler.nodes[id.0] = compiler.compile_node(id, value)?;
    }
    Ok(CompiledSchema { nodes: compiler.nodes, patterns: compiler.patterns })
}

fn draft_of(root: &Value) -> Result<Draft, SchemaProblem> {
    let Some(name) = root.get("$schema") else { return Ok(Draft::DEFAULT) };
    name.as_str().and_then(Draft::named).ok_or_else(|| {
        let problem = "is not the address of a draft from 4 to 2020-12 of JSON Schema";
        SchemaProblem::Invalid(format!("/$schema: {} {problem}", quote(name)))
    })
}

/// How the compiler reached a node, for the pointer of a problem.
enum Origin<'a> {
    Root,
    Reference(&'a str),
    Within { parent: NodeId, keyword: &'static str, token: Option<Token<'a>> },
}

struct Compiler<'a> {
    root: &'a Value,
    draft: Draft,
    nodes: Vec<Node>,
    patterns: Vec<Pattern>,
    pattern_bytes: usize,
    /// The node of each part by its address, because several references may lead to one part.
    ids: HashMap<*const Value, NodeId>,
    origins: Vec<Origin<'a>>,
    open: Vec<(NodeId, &'a Value)>,
}

/// A part of the schema that is compiled.
#[derive(Clone, Copy)]
struct Part<'a> {
    id: NodeId,
    fields: &'a Map<String, Value>,
}

impl<'a> Compiler<'a> {
    /// The node of a part, which is compiled later if it is new.
    fn node(&mut self, value: &'a Value, origin: Origin<'a>) -> NodeId {
        if let Some(id) = self.ids.get(&std::ptr::from_ref(value)) {
            return *id;
        }
        let id = NodeId(self.nodes.len());
        self.ids.insert(value, id);
        self.nodes.push(Node::default());
        self.origins.push(origin);
        self.open.push((id, value));
        id
    }

    fn compile_node(&mut self, id: NodeId, value: &'a Value) -> Result<Node, SchemaProblem> {
        match value {
            Value::Bool(is_valid) if self.draft > Draft::Draft4 || self.may_be_flag(id) => {
                let keywords = if *is_valid { Vec::new() } else { vec![Keyword::Never] };
                Ok(Node { keywords, tracks: false })
            }
            Value::Object(fields) => self.compile_fields(Part { id, fields }),
            other => {
                let expected = if self.draft > Draft::Draft4 {
                    ", which is a map or a flag"
                } else {
                    ", which is a map"
                };
                Err(self.invalid(id, None, &format!("{} is not a schema{expected}", quote(other))))
            }
        }
    }

    /// Whether draft 4 has `true` and `false` at this place.
    fn may_be_flag(&self, id: NodeId) -> bool {
        let keywords = ["additionalItems", "additionalProperties"];
        matches!(self.origins[id.0], Origin::Within { keyword, .. } if keywords.contains(&keyword))
    }

    fn compile_fields(&mut self, part: Part<'a>) -> Result<Node, SchemaProblem> {
        let mut keywords = Vec::new();
        if let Some(name) = part.fields.get("$schema")
            && name.as_str().and_then(Draft::named) != Some(self.draft)
        {
            return Err(self.wrong(part, "$schema", name, "the draft of the whole schema"));
        }
        self.definitions(part)?;
        if let Some(reference) = part.fields.get("$ref") {
            let Some(reference) = reference.as_str() else {
                return Err(self.wrong(part, "$ref", reference, "a text"));
            };
            keywords.push(Keyword::Reference(self.reference(reference)?));
            if self.draft <= Draft::Draft7 {
                // These drafts ignore what stands beside a reference.
                return Ok(Node { keywords, tracks: false });
            }
        }
        for (keyword, json_type) in ANNOTATIONS {
            if let Some(value) = self.get(part, keyword)
                && !json_type.is_type_of(value)
            {
                return Err(self.wrong(part, keyword, value, &format!("of type \"{}\"", json_type.name())));
            }
        }
        self.assertions(part, &mut keywords)?;
        let tracks = self.applicators(part, &mut keywords)?;
        Ok(Node { keywords, tracks })
    }

    /// Parts that only references use must be schemas too.
    fn definitions(&mut self, part: Part<'a>) -> Result<(), SchemaProblem> {
        self.schemas_by_name(part, "$defs")?;
        self.schemas_by_name(part, "definitions")?;
        Ok(())
    }

    fn reference(&mut self, reference: &'a str) -> Result<NodeId, SchemaProblem> {
        let part = target(self.root, reference);
        let part = part.ok_or_else(|| SchemaProblem::Reference(reference.to_owned()))?;
        Ok(self.node(part, Origin::Reference(reference)))
    }

    /// The value of a keyword, if the draft has the keyword.
    fn get(&self, part: Part<'a>, keyword: &str) -> Option<&'a Value> {
        part.fields.get(keyword).filter(|_| self.draft.has(keyword))
    }

    fn schema(&mut self, part: Part<'a>, keyword: &'static str) -> Option<NodeId> {
        let value = self.get(part, keyword)?;
        Some(self.node(value, Origin::Within { parent: part.id, keyword, token: None }))
    }

    fn schemas(
        &mut self,
        part: Part<'a>,
        keyword: &'static str,
    ) -> Result<Option<Vec<NodeId>>, SchemaProblem> {
        let Some(value) = self.get(part, keyword) else { return Ok(None) };
        let Some(items) = value.as_array().filter(|items| !items.is_empty()) else {
            return Err(self.wrong(part, keyword, value, "a list of one or more schemas"));
        };
        let origin = |index| Origin::Within { parent: part.id, keyword, token: Some(Token::Index(index)) };
        let ids = items.iter().enumerate().map(|(index, item)| self.node(item, origin(index)));
        Ok(Some(ids.collect()))
    }

    fn schemas_by_name(
        &mut self,
        part: Part<'a>,
        keyword: &'static str,
    ) -> Result<Option<Vec<(&'a str, NodeId)>>, SchemaProblem> {
        let Some(value) = self.get(part, keyword) else { return Ok(None) };
        let Some(fields) = value.as_object() else {
            return Err(self.wrong(part, keyword, value, "a map of schemas"));
        };
        let origin = |name| Origin::Within { parent: part.id, keyword, token: Some(Token::Name(name)) };
        let ids = fields.iter().map(|(name, field)| (name.as_str(), self.node(field, origin(name))));
        Ok(Some(ids.collect()))
    }

    fn pattern(&mut self, part: Part<'a>, keyword: &str, text: &str) -> Result<PatternId, SchemaProblem> {
        self.pattern_bytes += text.len();
        if self.pattern_bytes > PATTERN_TEXTS_MAX_BYTES {
            let problem = format!("all patterns up to here have more than {PATTERN_TEXTS_MAX_BYTES} bytes");
            return Err(self.invalid(part.id, Some(keyword), &problem));
        }
        let pattern =
            Pattern::compile(text).map_err(|problem| self.invalid(part.id, Some(keyword), &problem))?;
        self.patterns.push(pattern);
        Ok(PatternId(self.patterns.len() - 1))
    }

    fn wrong(&self, part: Part<'a>, keyword: &str, value: &Value, expected: &str) -> SchemaProblem {
        self.invalid(part.id, Some(keyword), &format!("{} is not {expected}", quote(value)))
    }

    fn invalid(&self, id: NodeId, keyword: Option<&str>, problem: &str) -> SchemaProblem {
        let mut tokens: Vec<Token<'_>> = keyword.into_iter().map(Token::Name).collect();
        let mut next = id;
        let start = loop {
            match &self.origins[next.0] {
                Origin::Root => break "",
                Origin::Reference(reference) => break &reference[1..],
                Origin::Within { parent, keyword, token } => {
                    tokens.extend(*token);
                    tokens.push(Token::Name(keyword));
                    next = *parent;
                }
            }
        };
        let place = format!("{start}{}", pointer(tokens.iter().rev()));
        SchemaProblem::Invalid(if place.is_empty() {
            problem.to_owned()
        } else {
            format!("{place}: {problem}")
        })
    }
}
