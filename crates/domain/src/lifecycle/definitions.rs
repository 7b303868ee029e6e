//! The definitions and skills of a run, prepared once with the data that all their agents share.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::definition::Definition;
use crate::permission::{DefinitionLayer, Rules, ToolSet};
use crate::skill::{DEFAULT_SKILL_AGENT, DiscoveredDefinitions, Skill, TASK_TOOL};

/// The tools that come with the right to spawn, whether or not a definition lists them.
pub const DELEGATE_TOOLS: [&str; 5] = [TASK_TOOL, "task_status", "task_send", "task_cancel", "task_close"];

/// A definition with the data that ten thousand of its agents share.
#[derive(Debug)]
pub struct PreparedDefinition {
    pub definition: Definition,
    pub name: Arc<str>,
    pub tools: ToolSet,
    common: Arc<CommonRules>,
    /// Whether the common `first` rules apply.
    asks: bool,
    /// Created for the first agent, because most definitions of a run have no agent.
    layer: OnceLock<DefinitionLayer>,
}

/// Rules that definitions of a run share, stored once.
#[derive(Debug)]
struct CommonRules {
    /// Precede the rules of discovered definitions with a shell.
    first: Rules,
    /// Follow the rules of all definitions.
    last: Rules,
}

/// A skill with the data that all its forked agents share.
#[derive(Debug)]
pub struct PreparedSkill {
    pub skill: Skill,
    /// The definition of its agents, with the skill's own values. None if the skill names an unknown definition.
    pub prepared: Option<Arc<PreparedDefinition>>,
}

impl PreparedDefinition {
    fn new(definition: Definition, common: &Arc<CommonRules>, asks: bool) -> Result<Self, String> {
        let tools = tools_of(&definition);
        let tools = ToolSet::parse(tools.iter().map(String::as_str)).map_err(|error| error.to_string())?;
        let name = definition.name.as_str().into();
        Ok(Self { definition, name, tools, common: common.clone(), asks, layer: OnceLock::new() })
    }

    /// The permission layer of the definition.
    pub fn layer(&self) -> &DefinitionLayer {
        self.layer.get_or_init(|| {
            let first = self.common.first.iter().filter(|_| self.asks);
            let rules = first.chain(&self.definition.rules).chain(self.common.last.iter());
            DefinitionLayer {
                name: self.name.clone(),
                default: self.definition.trust.default_decision(),
                rules: rules.cloned().collect(),
            }
        })
    }
}

pub(super) struct PreparedDefinitions {
    pub(super) definitions: BTreeMap<String, Arc<PreparedDefinition>>,
    pub(super) skills: BTreeMap<String, Arc<PreparedSkill>>,
}

impl PreparedDefinitions {
    /// If two definitions share a name, the first wins. Discovered definitions come last.
    pub(super) fn new(own: &[Definition], found: &DiscoveredDefinitions) -> Result<Self, String> {
        let common = CommonRules { first: found.asks.clone().into(), last: found.consent_rules().into() };
        let common = Arc::new(common);
        let own = own.iter().map(|definition| (definition, false));
        let all = own.chain(found.definitions.iter().map(|definition| (definition, definition.has_shell())));
        let mut definitions = BTreeMap::new();
        for (definition, asks) in all {
            if !definitions.contains_key(&definition.name) {
                let prepared = PreparedDefinition::new(definition.clone(), &common, asks)?;
                definitions.insert(definition.name.clone(), Arc::new(prepared));
            }
        }
        let mut skills = BTreeMap::new();
        for skill in &found.skills {
            let agent = skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT).to_ascii_lowercase();
            let base = definitions.get(&agent);
            let prepared = base
                .map(|base| PreparedDefinition::new(skill.definition(&base.definition), &common, base.asks));
            let prepared = prepared.transpose()?.map(Arc::new);
            skills.insert(skill.name.clone(), Arc::new(PreparedSkill { skill: skill.clone(), prepared }));
        }
        Ok(Self { definitions, skills })
    }
}

/// The tools of a definition: those it lists, and with `spawns` the tools for delegating.
pub fn tools_of(definition: &Definition) -> Vec<String> {
    let mut tools = definition.tools.clone();
    if definition.spawns.as_ref().is_some_and(|spawns| !spawns.is_empty()) {
        tools.extend(DELEGATE_TOOLS.map(ToOwned::to_owned));
    }
    tools
}
