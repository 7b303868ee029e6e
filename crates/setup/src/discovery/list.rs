//! Lists the definitions and skills of a directory as API types.

use posse::Definition;
use posse::api::{
    AgentList, DefinitionCheck, DefinitionEntry, DefinitionSource, DefinitionStanding, FileFinding, SkillList,
};
use posse::discovery::DefinitionType;
use posse_domain::skill::Skill;

use super::{DiscoveryResult, Entry, Origin, Precedence, Unusable, ValidationReport};

/// A definition or a skill in a list.
pub trait ListItem {
    /// The name by which requests and agents use it.
    fn name(&self) -> &str;
    /// The text that says when to use it.
    fn description(&self) -> &str;
}

impl ListItem for Definition {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }
}

impl ListItem for Skill {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }
}

impl From<Origin> for DefinitionSource {
    fn from(origin: Origin) -> Self {
        match origin {
            Origin::Project => Self::Project,
            Origin::User => Self::User,
            Origin::BuiltIn => Self::BuiltIn,
        }
    }
}

/// All discovered entries of one kind, and the built-in ones.
pub struct DefinitionList<'a, T> {
    /// The discovery that the entries belong to.
    pub found: &'a DiscoveryResult,
    /// Sorted by search directory and path.
    pub entries: &'a [Entry<T>],
    /// Listed after all discovered entries.
    pub built_in: &'a [T],
    /// Which kind is listed.
    pub holds: DefinitionType,
}

impl<'a> DefinitionList<'a, Definition> {
    /// The list of agents.
    pub fn agents(found: &'a DiscoveryResult, built_in: &'a [Definition]) -> Self {
        Self { found, entries: &found.agents, built_in, holds: DefinitionType::Agents }
    }

    /// The API type of the list.
    pub fn to_api(&self) -> AgentList<'_> {
        AgentList { agents: self.api_entries(), unusable: self.api_unusable() }
    }
}

impl<'a> DefinitionList<'a, Skill> {
    /// The list of skills. No skill is built in.
    pub fn skills(found: &'a DiscoveryResult) -> Self {
        Self { found, entries: &found.skills, built_in: &[], holds: DefinitionType::Skills }
    }

    /// The API type of the list.
    pub fn to_api(&self) -> SkillList<'_> {
        SkillList { skills: self.api_entries(), unusable: self.api_unusable() }
    }
}

impl<T: ListItem> DefinitionList<'_, T> {
    /// Files of this kind that cannot be used.
    pub fn unusable(&self) -> impl Iterator<Item = &Unusable> {
        self.found
            .unusable
            .iter()
            .filter(|unusable| unusable.is_skill == (self.holds == DefinitionType::Skills))
    }

    /// The entry that replaces a built-in one.
    pub fn shadow_of(&self, built_in: &T) -> Option<&Entry<T>> {
        self.entries.iter().find(|entry| entry.is_first() && entry.value.name() == built_in.name())
    }

    fn api_entries(&self) -> Vec<DefinitionEntry<'_>> {
        let found = self.entries.iter().map(|entry| {
            let (standing, by) = match &entry.standing {
                Precedence::First => (DefinitionStanding::Used, None),
                Precedence::Shadowed(by) => {
                    (DefinitionStanding::Shadowed, Some(self.entries[*by].path.as_path()))
                }
                Precedence::WaitsForTrust(_) => (DefinitionStanding::WaitsForTrust, None),
            };
            DefinitionEntry {
                name: entry.value.name(),
                description: entry.value.description(),
                origin: self.found.origin(entry.place).into(),
                path: Some(&entry.path),
                standing,
                shadowed_by: by,
                trusted: entry.trusted,
                warnings: FileFinding::list(&entry.warnings),
            }
        });
        let built_in = self.built_in.iter().map(|built_in| {
            let shadow = self.shadow_of(built_in);
            let is_used = shadow.is_none();
            DefinitionEntry {
                name: built_in.name(),
                description: built_in.description(),
                origin: DefinitionSource::BuiltIn,
                path: None,
                standing: if is_used { DefinitionStanding::Used } else { DefinitionStanding::Shadowed },
                shadowed_by: shadow.map(|entry| entry.path.as_path()),
                trusted: true,
                warnings: Vec::new(),
            }
        });
        found.chain(built_in).collect()
    }

    fn api_unusable(&self) -> Vec<FileFinding<'_>> {
        self.unusable().flat_map(|unusable| FileFinding::list(&unusable.warnings)).collect()
    }
}

impl ValidationReport {
    /// The API type of the check's result.
    pub fn to_api(&self) -> DefinitionCheck<'_> {
        DefinitionCheck {
            ok: self.problems() == 0,
            files: self.files.len(),
            problems: FileFinding::list(&self.warnings),
        }
    }
}
