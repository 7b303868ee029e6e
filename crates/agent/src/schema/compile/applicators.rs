//! Compiles the keywords that apply other schemas to a value or to its children.

use serde_json::Value;

use super::super::SchemaProblem;
use super::super::draft::Draft;
use super::super::node::{Contains, Keyword, NodeId, PropertySchemas};
use super::super::pointer::Token;
use super::assertions::names;
use super::{Compiler, Origin, Part};

impl<'a> Compiler<'a> {
    /// Returns whether one of the keywords has to know what the others evaluated.
    pub(super) fn applicators(
        &mut self,
        part: Part<'a>,
        keywords: &mut Vec<Keyword>,
    ) -> Result<bool, SchemaProblem> {
        self.dependencies(part, keywords)?;
        keywords.extend(self.schema(part, "propertyNames").map(Keyword::PropertyNames));
        self.properties(part, keywords)?;
        self.items(part, keywords)?;
        self.contains(part, keywords)?;
        keywords.extend(self.schemas(part, "allOf")?.map(Keyword::AllOf));
        keywords.extend(self.schemas(part, "anyOf")?.map(Keyword::AnyOf));
        keywords.extend(self.schemas(part, "oneOf")?.map(Keyword::OneOf));
        keywords.extend(self.schema(part, "not").map(Keyword::Not));
        let (then, otherwise) = (self.schema(part, "then"), self.schema(part, "else"));
        let condition = self.schema(part, "if").map(|test| Keyword::Condition { test, then, otherwise });
        keywords.extend(condition);
        // It describes the content of a text, which is not checked, but it must be a schema.
        self.schema(part, "contentSchema");
        let unevaluated_from = keywords.len();
        keywords.extend(self.schema(part, "unevaluatedItems").map(Keyword::UnevaluatedItems));
        keywords.extend(self.schema(part, "unevaluatedProperties").map(Keyword::UnevaluatedProperties));
        Ok(keywords.len() > unevaluated_from)
    }

    fn properties(&mut self, part: Part<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaProblem> {
        let named = self.schemas_by_name(part, "properties")?;
        let by_pattern = self.schemas_by_name(part, "patternProperties")?;
        let additional = self.schema(part, "additionalProperties");
        if named.is_none() && by_pattern.is_none() && additional.is_none() {
            return Ok(());
        }
        let mut patterns = Vec::new();
        for (pattern, id) in by_pattern.unwrap_or_default() {
            patterns.push((self.pattern(part, "patternProperties", pattern)?, id));
        }
        let named = named.unwrap_or_default().into_iter().map(|(name, id)| (name.to_owned(), id));
        keywords.push(Keyword::Properties(PropertySchemas { named: named.collect(), patterns, additional }));
        Ok(())
    }

    /// Before draft 2020-12 a list of schemas is in `items`, and `additionalItems` has the schema of the other items.
    fn items(&mut self, part: Part<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaProblem> {
        let is_list = self.draft < Draft::Draft2020 && part.fields.get("items").is_some_and(Value::is_array);
        let additional = self.schema(part, "additionalItems");
        let (prefix, rest) = if is_list {
            (self.schemas(part, "items")?, additional)
        } else {
            (self.schemas(part, "prefixItems")?, self.schema(part, "items"))
        };
        if prefix.is_some() || rest.is_some() {
            keywords.push(Keyword::Items { prefix: prefix.unwrap_or_default(), rest });
        }
        Ok(())
    }

    fn contains(&mut self, part: Part<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaProblem> {
        let at_least = self.count(part, "minContains")?.unwrap_or(1);
        let at_most = self.count(part, "maxContains")?;
        let evaluates = self.draft >= Draft::Draft2020;
        let contains = self.schema(part, "contains");
        keywords
            .extend(contains.map(|node| Keyword::Contains(Contains { node, at_least, at_most, evaluates })));
        Ok(())
    }

    /// `dependentRequired`, `dependentSchemas`, and `dependencies`, which has both.
    fn dependencies(&mut self, part: Part<'a>, keywords: &mut Vec<Keyword>) -> Result<(), SchemaProblem> {
        let mut required: Vec<(String, Vec<String>)> = Vec::new();
        let mut schemas: Vec<(&str, NodeId)> =
            self.schemas_by_name(part, "dependentSchemas")?.unwrap_or_default();
        for keyword in ["dependentRequired", "dependencies"] {
            let Some(value) = self.get(part, keyword) else { continue };
            let Some(fields) = value.as_object() else {
                return Err(self.wrong(part, keyword, value, "a map"));
            };
            for (name, field) in fields {
                if keyword == "dependencies" && !field.is_array() {
                    let token = Some(Token::Name(name));
                    let origin = Origin::Within { parent: part.id, keyword, token };
                    schemas.push((name, self.node(field, origin)));
                    continue;
                }
                let Some(names) = names(field) else {
                    return Err(self.wrong(part, keyword, field, "a list of different names"));
                };
                required.push((name.clone(), names));
            }
        }
        if !required.is_empty() {
            keywords.push(Keyword::DependentRequired(required));
        }
        if !schemas.is_empty() {
            let schemas = schemas.into_iter().map(|(name, id)| (name.to_owned(), id));
            keywords.push(Keyword::DependentSchemas(schemas.collect()));
        }
        Ok(())
    }
}
