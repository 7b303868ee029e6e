//! What of all that was found a run can reach.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use posse::{Definition, Definitions};
use posse_domain::skill::{Catalogue, DEFAULT_SKILL_AGENT, Skill};

use super::Found;

/// The tools that reach skills.
const SKILL_TOOLS: [&str; 2] = ["skill", "delegate_to_agent"];

impl Found {
    /// The definitions that count.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.agents.iter().filter(|entry| entry.counts()).map(|entry| &entry.value)
    }

    /// The definitions that count beside those that were given to a run, which come first, and those too.
    pub(crate) fn and_given(&self, given: &[Definition]) -> Vec<Definition> {
        let is_given = |found: &&Definition| given.iter().any(|given| given.name == found.name);
        self.definitions().filter(|found| !is_given(found)).chain(given).cloned().collect()
    }

    /// The skills that count.
    pub(crate) fn usable_skills(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|entry| entry.counts()).map(|entry| &entry.value)
    }

    /// What a run with this root can reach, sorted by name; `known` are all definitions of the run, and `skill` is the
    /// one that it carries out. A root that can neither spawn nor use skills reaches nothing.
    pub(crate) fn catalogue(
        &self,
        known: &Definitions,
        root: &Definition,
        skill: Option<&Skill>,
    ) -> Catalogue {
        let usable = self.usable_skills().map(|skill| (skill.name.as_str(), skill)).collect();
        let mut reached = Reached { known, usable, kinds: BTreeMap::new(), skills: BTreeMap::new() };
        reached.add_kind(root);
        if let Some(skill) = skill {
            reached.add_skill(skill);
        }
        let Reached { kinds, skills, .. } = reached;
        // One that was given to the run in its place is not among what was found.
        let own: BTreeMap<&str, &Definition> =
            self.definitions().map(|own| (own.name.as_str(), own)).collect();
        let found = |kind: &Definition| own.get(kind.name.as_str()).is_some_and(|own| *own == kind);
        Catalogue {
            definitions: kinds
                .into_values()
                .filter(|kind| found(kind))
                .map(|kind| Definition::clone(&kind))
                .collect(),
            skills: skills.into_values().cloned().collect(),
        }
    }

    /// Whether a run with this root could reach something, if there were anything.
    pub(crate) fn concerns(root: &Definition) -> bool {
        root.spawns.is_some() || reaches_skills(&root.tools)
    }
}

/// The folders of skills that are not in the workspace of a run in `dir`: its commands may read them.
pub(crate) fn folders_outside(skills: &[Skill], dir: &Path) -> Vec<PathBuf> {
    let folders = skills.iter().filter_map(|skill| skill.dir.as_ref().map(PathBuf::from));
    folders.filter(|folder| !folder.starts_with(dir)).collect()
}

struct Reached<'a> {
    known: &'a Definitions,
    usable: BTreeMap<&'a str, &'a Skill>,
    kinds: BTreeMap<String, Arc<Definition>>,
    skills: BTreeMap<String, &'a Skill>,
}

impl Reached<'_> {
    fn add_kind(&mut self, definition: &Definition) {
        let Some(own) = self.known.get(&definition.name) else { return };
        if self.kinds.insert(own.name.clone(), Arc::clone(own)).is_some() {
            return;
        }
        for child in self.known.spawnable(definition) {
            self.add_kind(child);
        }
        if reaches_skills(&definition.tools) {
            self.add_skills(definition.skills.as_deref());
        }
    }

    /// The named skills, or all of them.
    fn add_skills(&mut self, names: Option<&[String]>) {
        let usable = self.usable.values().copied();
        let meant: Vec<&Skill> =
            usable.filter(|skill| names.is_none_or(|names| names.contains(&skill.name))).collect();
        for skill in meant {
            self.add_skill(skill);
        }
    }

    fn add_skill(&mut self, skill: &Skill) {
        let Some(own) = self.usable.get(skill.name.as_str()).copied() else { return };
        if self.skills.insert(own.name.clone(), own).is_some() {
            return;
        }
        if let Some(kind) = self.known.get(own.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT)) {
            self.add_kind(&Arc::clone(kind));
        }
        let delegates = own.tools.as_deref().is_some_and(reaches_skills);
        if delegates || own.sub_agents.is_some() {
            self.add_skills(own.sub_agents.as_deref());
        }
    }
}

/// Whether an agent with these tools can use skills.
pub(crate) fn reaches_skills(tools: &[String]) -> bool {
    tools.iter().any(|tool| SKILL_TOOLS.contains(&tool.as_str()))
}
