//! What agents of a run can be: its definitions and skills, with what all agents of one share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::definition::Definition;
use crate::permission::{DefinitionLayer, Rules, ToolSet};
use crate::skill::{DEFAULT_SKILL_AGENT, DiscoveredDefinitions, Skill};

/// The tools that come with the right to spawn, whether or not a definition lists them.
pub const DELEGATE_TOOLS: [&str; 5] = ["task", "task_status", "task_send", "task_cancel", "task_close"];

/// A definition with what ten thousand of its agents share.
#[derive(Debug)]
pub struct PreparedDefinition {
    /// The definition.
    pub definition: Definition,
    /// Its name.
    pub name: Arc<str>,
    /// Its tools, as a set.
    pub tools: ToolSet,
    common: Arc<CommonRules>,
    /// Whether the first rules are common ones.
    asks: bool,
    /// Made for the first agent: most definitions of a run have none.
    layer: OnceLock<DefinitionLayer>,
}

/// Rules that definitions of a run have in common, kept once.
#[derive(Debug)]
struct CommonRules {
    /// Before those of found definitions with a shell.
    first: Rules,
    /// After those of all definitions.
    last: Rules,
}

/// A skill with what all agents that are forked with it share.
#[derive(Debug)]
pub struct SkillKind {
    /// The skill.
    pub skill: Skill,
    /// What its agents are: its definition with what the skill says in place; none if there is no such definition.
    pub kind: Option<Arc<PreparedDefinition>>,
}

impl PreparedDefinition {
    fn new(definition: Definition, common: &Arc<CommonRules>, asks: bool) -> Result<Self, String> {
        let tools = tools_of(&definition);
        let tools = ToolSet::parse(tools.iter().map(String::as_str)).map_err(|error| error.to_string())?;
        let name = definition.name.as_str().into();
        Ok(Self { definition, name, tools, common: common.clone(), asks, layer: OnceLock::new() })
    }

    /// Its layer of rules.
    pub fn layer(&self) -> &DefinitionLayer {
        self.layer.get_or_init(|| {
            let first = self.common.first.iter().filter(|_| self.asks);
            let rules = first.chain(&self.definition.rules).chain(self.common.last.iter());
            DefinitionLayer {
                name: self.name.clone(),
                default: self.definition.default,
                rules: rules.cloned().collect(),
            }
        })
    }
}

/// All that agents of a run can be.
pub(super) struct PreparedDefinitions {
    pub(super) kinds: BTreeMap<String, Arc<PreparedDefinition>>,
    pub(super) skills: BTreeMap<String, Arc<SkillKind>>,
}

impl PreparedDefinitions {
    /// Of two definitions with one name the first counts, and the found ones come last.
    pub(super) fn new(own: &[Definition], found: &DiscoveredDefinitions) -> Result<Self, String> {
        let common = CommonRules { first: found.asks.clone().into(), last: found.unasked().into() };
        let common = Arc::new(common);
        let own = own.iter().map(|definition| (definition, false));
        let all = own.chain(found.definitions.iter().map(|definition| (definition, definition.has_shell())));
        let mut kinds = BTreeMap::new();
        for (definition, asks) in all {
            if !kinds.contains_key(&definition.name) {
                let kind = PreparedDefinition::new(definition.clone(), &common, asks)?;
                kinds.insert(definition.name.clone(), Arc::new(kind));
            }
        }
        let mut skills = BTreeMap::new();
        for skill in &found.skills {
            let agent = skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT).to_ascii_lowercase();
            let base = kinds.get(&agent);
            let kind = base
                .map(|base| PreparedDefinition::new(skill.definition(&base.definition), &common, base.asks));
            let kind = kind.transpose()?.map(Arc::new);
            skills.insert(skill.name.clone(), Arc::new(SkillKind { skill: skill.clone(), kind }));
        }
        Ok(Self { kinds, skills })
    }
}

/// The tools of a definition: the ones it lists, and with `spawns` the ones for delegating.
pub fn tools_of(definition: &Definition) -> Vec<String> {
    let mut tools = definition.tools.clone();
    if definition.spawns.as_ref().is_some_and(|spawns| !spawns.is_empty()) {
        tools.extend(DELEGATE_TOOLS.map(ToOwned::to_owned));
    }
    tools
}
