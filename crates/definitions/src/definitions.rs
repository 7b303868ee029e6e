//! The set of definitions that a run can use.
//!
//! Why it is like this: `docs/decisions/definitions-under-coder.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use posse_domain::definition::{Definition, Mode, Trust};
use posse_domain::nearest::{hint, nearest, some_of};
use thiserror::Error;

use super::builtin::builtin;
use super::names::{NAMES_MAX, without_doubles};

/// The error for a name that no definition has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown definition `{name}`{}; available: {known}", hint(.nearest.as_deref()))]
pub struct UnknownDefinition {
    /// The name as given, shortened if it is long.
    pub name: String,
    /// The name that was probably meant.
    pub nearest: Option<String>,
    /// Some known names, for users and models to choose from.
    pub known: String,
}

/// Maximum number of patterns of one definition that are resolved. Further patterns match nothing.
const PATTERNS_MAX: usize = 16;

/// Names that other programs have for built-in definitions.
const OTHER_NAMES: [(&str, &str); 3] =
    [("general-purpose", "general"), ("explorer", "explore"), ("plan", "planner")];

/// The built-in definition that other programs call `name`.
pub(super) fn known_as(name: &str) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(other, _)| *other == name).map(|(_, own)| *own)
}

/// Every name under which a built-in definition is found.
pub fn builtin_names() -> Vec<String> {
    let others = OTHER_NAMES.iter().map(|(other, _)| (*other).to_owned());
    builtin().into_iter().map(|one| one.name).chain(others).collect()
}

/// Whether a name matches a pattern in which `*` is anything.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

fn asks(definition: &Definition) -> bool {
    definition.trust == Trust::Untrusted
}

/// Definitions by name. Lookups ignore case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Definitions {
    by_name: BTreeMap<String, Arc<Definition>>,
}

impl Definitions {
    pub fn builtin() -> Self {
        builtin().into_iter().collect()
    }

    /// The built-in definitions and the user's own, with resolved `spawns`: `*` and `review-*` match every child by
    /// name, and other programs' names of built-in definitions are translated. A definition with the name of a built-in
    /// one replaces it. The built-in primary definitions may spawn all others, because a user who adds a definition to
    /// a run wants it used there.
    pub fn builtin_and(own: Vec<Definition>) -> Self {
        let mut children: Vec<&Definition> =
            own.iter().filter(|definition| definition.mode != Mode::Primary).collect();
        // Lists have a limit: untrusted definitions are dropped first.
        children.sort_by_key(|child| asks(child));
        let children: Vec<String> = children.iter().map(|definition| definition.name.clone()).collect();
        let offer = |mut definition: Definition| {
            if let (Mode::Primary, Some(spawns)) = (definition.mode, &mut definition.spawns) {
                *spawns = without_doubles(std::mem::take(spawns).into_iter().chain(children.iter().cloned()));
            }
            definition
        };
        let mut all: Self = builtin().into_iter().map(offer).chain(own).collect();
        let changed = |definition: &Arc<Definition>| {
            let names = definition.spawns.as_ref()?;
            let made_out = all.made_out(definition, names);
            (made_out != *names).then(|| (definition.name.clone(), made_out))
        };
        let changed: Vec<(String, Vec<String>)> = all.iter().filter_map(changed).collect();
        for (name, spawns) in changed {
            if let Some(definition) = all.by_name.get_mut(&name) {
                Arc::make_mut(definition).spawns = Some(spawns);
            }
        }
        all
    }

    /// Resolves the names in `spawns`. The cost is bounded for any files: at most the square of their number, if all
    /// list all.
    fn made_out(&self, of: &Definition, names: &[String]) -> Vec<String> {
        let mut patterns = 0;
        let one = |name: &String| -> Vec<String> {
            if !name.contains('*') {
                let known = self.get(name).map_or_else(|| name.clone(), |found| found.name.clone());
                return vec![known];
            }
            patterns += 1;
            if patterns > PATTERNS_MAX {
                return Vec::new();
            }
            let children = self.iter().filter(|child| child.mode != Mode::Primary && child.name != of.name);
            let fitting = children.filter(|child| fits(name, &child.name));
            let trusted = fitting.clone().filter(|child| !asks(child));
            let all = trusted.chain(fitting.filter(|child| asks(child)));
            all.map(|child| child.name.clone()).take(NAMES_MAX).collect()
        };
        without_doubles(names.iter().flat_map(one))
    }

    pub fn get(&self, name: &str) -> Option<&Arc<Definition>> {
        let lower = name.to_ascii_lowercase();
        let by_name = |name: &str| self.by_name.get(name);
        by_name(name).or_else(|| by_name(&lower)).or_else(|| by_name(known_as(&lower)?))
    }

    /// The definition of this name, or an error that suggests the right one.
    pub fn find(&self, name: &str) -> Result<&Arc<Definition>, UnknownDefinition> {
        self.get(name).ok_or_else(|| UnknownDefinition {
            name: name.chars().take(posse_domain::definition::DEFINITION_NAME_MAX).collect(),
            nearest: nearest(name, self.names()).map(ToOwned::to_owned),
            known: some_of(self.names().map(|name| format!("`{name}`"))),
        })
    }

    /// The definitions that an agent of this definition may spawn, in its order. A primary definition is never a child.
    /// Unknown names are skipped.
    pub fn spawnable<'a>(&'a self, definition: &'a Definition) -> impl Iterator<Item = &'a Arc<Definition>> {
        let listed = definition.spawns.iter().flatten().filter_map(|name| self.get(name));
        listed.filter(|child| child.mode != Mode::Primary)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// All definitions, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Definition>> + Clone {
        self.by_name.values()
    }
}

/// Of two definitions with the same name the later one wins.
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
    fn what_other_programs_call_a_built_in_is_found_unless_a_person_has_one() {
        let definitions = Definitions::builtin_and(vec![definition("plan", &["general-purpose"])]);
        assert_eq!(definitions.get("General-Purpose").map(|found| found.name.as_str()), Some("general"));
        assert_eq!(definitions.get("plan").map(|found| found.name.as_str()), Some("plan"));
        assert_eq!(
            definitions.get("plan").expect("plan").spawns.as_deref(),
            Some(["general".to_owned()].as_slice())
        );
    }

    #[test]
    fn a_star_is_every_child_whose_name_fits() {
        let definitions = Definitions::builtin_and(vec![
            definition("lead", &["*"]),
            definition("review-all", &["review-*", "explore"]),
            definition("review-style", &[]),
            definition("review-tests", &["nobody-*"]),
        ]);
        assert_eq!(
            spawnable(&definitions, "lead"),
            ["explore", "general", "planner", "researcher", "review-all", "review-style", "review-tests"]
        );
        assert_eq!(spawnable(&definitions, "review-all"), ["review-style", "review-tests", "explore"]);
        assert_eq!(spawnable(&definitions, "review-tests"), [""; 0]);
        for (pattern, name, expected) in [
            ("*", "x", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("*b*", "abc", true),
            ("*b*c*", "acb", false),
            ("a**b", "ab", true),
            ("ab", "abc", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn thousands_that_may_spawn_each_other_are_made_out() {
        let own = (0..2_000).map(|number| definition(&format!("agent-{number:04}"), &["*", "agent-0001"]));
        let definitions = Definitions::builtin_and(own.collect());
        let spawns =
            |name: &str| definitions.get(name).and_then(|one| one.spawns.as_ref()).expect(name).len();
        assert_eq!(spawns("coder"), 4 + 2_000, "what was found is offered in full");
        assert_eq!(spawns("agent-1999"), NAMES_MAX);
    }

    #[test]
    fn untrusted_definitions_are_offered_last() {
        let untrusted = |number: usize| Definition {
            trust: Trust::Untrusted,
            ..definition(&format!("a-{number:04}"), &[])
        };
        let own = (0..NAMES_MAX).map(untrusted).chain([definition("mine", &[]), definition("lead", &["*"])]);
        let definitions = Definitions::builtin_and(own.collect());
        assert_eq!(spawnable(&definitions, "coder")[4..6], ["mine", "lead"]);
        let of_lead = spawnable(&definitions, "lead");
        assert_eq!((of_lead.len(), of_lead.iter().any(|name| name == "mine")), (NAMES_MAX, true));
    }

    #[test]
    fn every_name_of_a_built_in_is_known() {
        let definitions = Definitions::builtin();
        for name in builtin_names() {
            assert!(definitions.get(&name).is_some(), "{name}");
        }
        assert!(["coder", "plan"].iter().all(|name| builtin_names().iter().any(|known| known == name)));
    }

    #[test]
    fn an_unknown_name_gets_a_hint_and_the_list() {
        let error = Definitions::builtin().find("explor").expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "unknown definition `explor` (did you mean `explore`?); available: `coder`, `explore`, `general`, \
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
        assert_eq!(definitions.get("explore").map(|found| &*found.prompt), Some(""));
        assert_eq!(
            spawnable(&definitions, "coder"),
            ["general", "explore", "planner", "researcher", "reviewer"]
        );
        let shadowed =
            Definitions::builtin_and(vec![definition("coder", &["explore"]), definition("x", &[])]);
        assert_eq!(spawnable(&shadowed, "coder"), ["explore"]);
    }
}
