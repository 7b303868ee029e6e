//! The set of definitions that a run knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use posse_domain::definition::{Definition, Mode};
use posse_domain::nearest::{hint, nearest};
use thiserror::Error;

use super::builtin::builtin;

/// A name that no definition has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no definition `{name}`{}; known are {known}", hint(.nearest.as_deref()))]
pub struct UnknownDefinition {
    /// The name as it was given, shortened if it is long.
    pub name: String,
    /// The name that was probably meant.
    pub nearest: Option<String>,
    /// All names, for people and models to choose from.
    pub known: String,
}

/// Definitions by name. Case does not matter when one is looked for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Definitions {
    by_name: BTreeMap<String, Arc<Definition>>,
}

impl Definitions {
    /// The built-in definitions.
    pub fn builtin() -> Self {
        builtin().into_iter().collect()
    }

    /// The built-in definitions and a person's own. One with the name of a built-in takes its place; the
    /// others can be spawned by the built-in primary definitions too, since whoever adds a definition to a run
    /// means it to be used there.
    pub fn builtin_and(own: Vec<Definition>) -> Self {
        let children = own.iter().filter(|definition| definition.mode != Mode::Primary);
        let children: Vec<String> = children.map(|definition| definition.name.clone()).collect();
        let offer = |mut definition: Definition| {
            if let (Mode::Primary, Some(spawns)) = (definition.mode, &mut definition.spawns) {
                let new = children.iter().filter(|name| !spawns.contains(name));
                let new: Vec<String> = new.cloned().collect();
                spawns.extend(new);
            }
            definition
        };
        builtin().into_iter().map(offer).chain(own).collect()
    }

    /// The definition of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Definition>> {
        self.by_name.get(name).or_else(|| self.by_name.get(&name.to_ascii_lowercase()))
    }

    /// The definition of this name, or an error that helps to find the right one.
    pub fn find(&self, name: &str) -> Result<&Arc<Definition>, UnknownDefinition> {
        self.get(name).ok_or_else(|| UnknownDefinition {
            name: name.chars().take(posse_domain::definition::DEFINITION_NAME_MAX).collect(),
            nearest: nearest(name, self.names()).map(ToOwned::to_owned),
            known: self.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
        })
    }

    /// The definitions that an agent of this definition may spawn, in the order in which it lists them. A
    /// primary definition is never a child, and a name that no definition has is passed over.
    pub fn spawnable<'a>(&'a self, definition: &'a Definition) -> impl Iterator<Item = &'a Arc<Definition>> {
        let listed = definition.spawns.iter().flatten().filter_map(|name| self.get(name));
        listed.filter(|child| child.mode != Mode::Primary)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// All definitions, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.by_name.values()
    }
}

/// Of two with the same name the later one counts.
impl FromIterator<Definition> for Definitions {
    fn from_iter<I: IntoIterator<Item = Definition>>(definitions: I) -> Self {
        let by_name =
            definitions.into_iter().map(|definition| (definition.name.clone(), Arc::new(definition)));
        Self { by_name: by_name.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin::plain;
    use super::*;

    fn definition(name: &str, spawns: &[&str]) -> Definition {
        let spawns = Some(spawns.iter().map(ToString::to_string).collect());
        Definition { name: name.into(), spawns, ..plain() }
    }

    fn spawnable(definitions: &Definitions, name: &str) -> Vec<String> {
        let definition = definitions.find(name).expect(name);
        definitions.spawnable(definition).map(|child| child.name.clone()).collect()
    }

    #[test]
    fn a_name_is_found_in_any_case() {
        let definitions = Definitions::builtin();
        assert_eq!(definitions.get("Explore").map(|found| found.name.as_str()), Some("explore"));
        assert!(definitions.get("nobody").is_none());
    }

    #[test]
    fn an_unknown_name_gets_a_hint_and_the_list() {
        let error = Definitions::builtin().find("explor").expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "there is no definition `explor` (did you mean `explore`?); known are `coder`, `explore`, `general`, \
             `planner`, `researcher`"
        );
        assert_eq!(Definitions::builtin().find("zzz").expect_err("unknown").nearest, None);
    }

    #[test]
    fn a_primary_definition_is_never_a_child() {
        let definitions = Definitions::builtin_and(vec![definition("lead", &["coder", "lead", "explore"])]);
        assert_eq!(spawnable(&definitions, "lead"), ["lead", "explore"]);
        assert_eq!(spawnable(&definitions, "general"), [""; 0]);
    }

    #[test]
    fn a_persons_own_definition_shadows_and_is_offered_to_the_coder() {
        let own = vec![definition("explore", &[]), definition("reviewer", &[])];
        let definitions = Definitions::builtin_and(own);
        assert_eq!(definitions.get("explore").map(|found| found.prompt.as_str()), Some(""));
        assert_eq!(
            spawnable(&definitions, "coder"),
            ["general", "explore", "planner", "researcher", "reviewer"]
        );
        let shadowed =
            Definitions::builtin_and(vec![definition("coder", &["explore"]), definition("x", &[])]);
        assert_eq!(spawnable(&shadowed, "coder"), ["explore"]);
    }
}
