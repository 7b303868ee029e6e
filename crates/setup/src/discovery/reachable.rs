//! Selects the discovered definitions and skills that a run can reach.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use posse::{Definition, Definitions};
use posse_domain::skill::{
    DEFAULT_SKILL_AGENT, DiscoveredDefinitions, OUT_OF_REACH_MAX, Skill, UNTRUSTED_MAX,
};
use serde::{Deserialize, Serialize};

use super::DiscoveryResult;

/// The tools that use skills.
const SKILL_TOOLS: [&str; 2] = ["skill", "delegate_to_agent"];

impl DiscoveryResult {
    /// The definitions that their names refer to.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.agents.iter().filter(|entry| entry.is_first()).map(|entry| &entry.value)
    }

    /// The definitions that count, together with those given to a run, which take precedence.
    pub fn and_given(&self, given: &[Definition]) -> Vec<Definition> {
        self.beside(given).chain(given).cloned().collect()
    }

    /// The definitions that count and that no given definition replaces.
    fn beside<'a>(&'a self, given: &'a [Definition]) -> impl Iterator<Item = &'a Definition> {
        let given: BTreeSet<&str> = given.iter().map(|given| given.name.as_str()).collect();
        self.definitions().filter(move |found| !given.contains(found.name.as_str()))
    }

    /// The skills that their names refer to.
    pub fn usable_skills(&self) -> impl Iterator<Item = &Skill> {
        self.skills.iter().filter(|entry| entry.is_first()).map(|entry| &entry.value)
    }

    /// What a run with this root can reach, sorted by name. `known` are all definitions of the run, `given` those that
    /// were not discovered, `skill` the one that the run executes. A root that can neither spawn nor use skills reaches
    /// nothing.
    pub fn catalogue(
        &self,
        known: &Definitions,
        given: &[Definition],
        root: &Definition,
        skill: Option<&Skill>,
    ) -> DiscoveredDefinitions {
        let usable = self.usable_skills().map(|skill| (skill.name.as_str(), skill)).collect();
        let mut reached = ReachableSet {
            known,
            usable,
            kinds: BTreeMap::new(),
            skills: BTreeMap::new(),
            to_follow: Vec::new(),
            has_all_skills: false,
        };
        reached.add_definition(&root.name);
        if let Some(skill) = skill {
            reached.add_skill(&skill.name);
        }
        reached.finish();
        let ReachableSet { kinds, skills, .. } = reached;
        // By exact name, as in the file: names to spawn are resolved among all definitions.
        let found: BTreeMap<&str, &Definition> =
            self.beside(given).map(|own| (own.name.as_str(), own)).collect();
        let is_reached = |name: &&str| kinds.contains_key(*name);
        let beyond = found.keys().copied().filter(|name| root.spawns.is_some() && !is_reached(name));
        let out_of_reach = beyond.take(OUT_OF_REACH_MAX).map(str::to_owned).collect();
        DiscoveredDefinitions {
            out_of_reach,
            definitions: kinds.into_keys().filter_map(|name| found.get(name).copied().cloned()).collect(),
            skills: within_trust(skills.into_values(), skill).cloned().collect(),
            ..DiscoveredDefinitions::default()
        }
    }

    /// Whether a run with this root could reach any definition or skill at all.
    pub fn concerns(root: &Definition) -> bool {
        root.spawns.is_some() || reaches_skills(&root.tools)
    }
}

/// Omits untrusted skills beyond their limit, so that a project's skills do not make the user's own ask. The skill that
/// the user named stays.
fn within_trust<'a>(
    skills: impl Iterator<Item = &'a Skill>,
    named: Option<&Skill>,
) -> impl Iterator<Item = &'a Skill> {
    let is_named = move |skill: &Skill| named.is_some_and(|named| named.name == skill.name);
    let mut left = UNTRUSTED_MAX - usize::from(named.is_some_and(Skill::needs_consent));
    skills.filter(move |skill| {
        if !skill.needs_consent() || is_named(skill) {
            return true;
        }
        let fits = left > 0;
        left = left.saturating_sub(1);
        fits
    })
}

/// A skill's folder outside the workspace, which commands of a run see at its own path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SkillFolder {
    /// The path of the folder, on the machine and in the sandbox.
    pub path: PathBuf,
    /// The project that contains it; `None` if it belongs to the user.
    pub project: Option<PathBuf>,
}

/// The skill folders of a run in `dir`. An ignored folder may be inside `dir` and still be in no workspace.
pub fn folders_outside(skills: &[Skill], dir: &Path) -> Vec<SkillFolder> {
    let folder = |skill: &Skill| {
        let path = PathBuf::from(skill.dir.as_ref()?);
        Some(SkillFolder { path, project: skill.project.as_ref().map(PathBuf::from) })
    };
    let is_outside = |folder: &SkillFolder| folder.project.is_none() || !folder.path.starts_with(dir);
    skills.iter().filter_map(folder).filter(is_outside).collect()
}

/// The reached entries, with a queue of those not yet followed. Not recursive, because the files' authors decide how
/// long a chain is, and they may be hostile.
struct ReachableSet<'a> {
    known: &'a Definitions,
    usable: BTreeMap<&'a str, &'a Skill>,
    kinds: BTreeMap<&'a str, &'a Definition>,
    skills: BTreeMap<&'a str, &'a Skill>,
    to_follow: Vec<Step<'a>>,
    has_all_skills: bool,
}

enum Step<'a> {
    Kind(&'a Definition),
    Skill(&'a Skill),
}

impl ReachableSet<'_> {
    fn finish(&mut self) {
        while let Some(step) = self.to_follow.pop() {
            match step {
                Step::Kind(kind) => {
                    for child in self.known.spawnable(kind) {
                        self.add_definition(&child.name);
                    }
                    if reaches_skills(&kind.tools) {
                        self.add_skills(kind.skills.as_deref());
                    }
                }
                Step::Skill(skill) => {
                    self.add_definition(skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT));
                    if skill.tools.as_deref().is_some_and(reaches_skills) || skill.sub_agents.is_some() {
                        self.add_skills(skill.sub_agents.as_deref());
                    }
                }
            }
        }
    }

    fn add_definition(&mut self, name: &str) {
        let Some(kind) = self.known.get(name) else { return };
        if self.kinds.insert(&kind.name, kind).is_none() {
            self.to_follow.push(Step::Kind(kind));
        }
    }

    /// Adds the named skills, or all of them.
    fn add_skills(&mut self, names: Option<&[String]>) {
        if let Some(names) = names {
            for name in names {
                self.add_skill(name);
            }
        } else if !self.has_all_skills {
            self.has_all_skills = true;
            let all: Vec<&str> = self.usable.keys().copied().collect();
            for name in all {
                self.add_skill(name);
            }
        }
    }

    fn add_skill(&mut self, name: &str) {
        let Some(skill) = self.usable.get(name).copied() else { return };
        if self.skills.insert(&skill.name, skill).is_none() {
            self.to_follow.push(Step::Skill(skill));
        }
    }
}

/// Whether an agent with these tools can use skills.
pub fn reaches_skills(tools: &[String]) -> bool {
    tools.iter().any(|tool| SKILL_TOOLS.contains(&tool.as_str()))
}
