//! What every request of an agent begins with: its system prompt and the tools it is offered.

use std::sync::Arc;

use posse_agent::definition::system_prompt;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::{EffectClass, Preamble};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, SKILL_TOOL};
use posse_domain::permission::Decision;

use super::Driver;
use super::skills::{self, KnownSkills};
use crate::ports::Spawnable;

/// The tools of an agent, with what is worked out once for all agents that have the same.
#[derive(Debug)]
pub(crate) struct ToolList {
    /// The tools.
    pub(crate) specs: Arc<[Arc<ToolSpec>]>,
    /// The same as JSON.
    text: Arc<str>,
    /// Its hash.
    hash: Hash,
    /// What these agents know of skills.
    pub(super) skills: KnownSkills,
}

impl Default for ToolList {
    fn default() -> Self {
        Self::new(Arc::new([]), KnownSkills::default())
    }
}

impl ToolList {
    fn new(specs: Arc<[Arc<ToolSpec>]>, skills: KnownSkills) -> Self {
        // Plain data with text keys: it always has a JSON form.
        let text: Arc<str> = serde_json::to_string(&specs).unwrap_or_default().into();
        let hash = Hash::of(text.as_bytes());
        Self { specs, text, hash, skills }
    }
}

/// Hash and size of what every request begins with.
pub(super) fn of(text_hash: &Hash, system: &str, tools: &ToolList) -> (Hash, u64) {
    let hash = Hash::of_parts([text_hash.as_bytes().as_slice(), tools.hash.as_bytes()]);
    (hash, (system.len() + tools.text.len()) as u64)
}

impl Driver {
    /// What the journal keeps of an agent's preamble with its first call, so that a replay can show what is different.
    /// The texts are long, and the same for many agents of a run: each is kept once.
    pub(super) fn preamble_to_keep(&mut self, id: &AgentId) -> Option<Box<Preamble>> {
        let session = self.sessions.get(id)?;
        let (system, tools) = (session.system_hash, session.tools.hash);
        let system_text = self.kept_texts.insert(system).then(|| session.system.clone().into());
        let tools_text = self.kept_texts.insert(tools).then(|| session.tools.text.clone().into());
        Some(Box::new(Preamble { system, system_text, tools, tools_text }))
    }

    /// What every request of an agent begins with: the text, its hash, the tools. One that begins with its parent's
    /// conversation has its parent's, so that what a provider has cached of that is found.
    pub(super) fn preamble_of(&mut self, id: &AgentId) -> Result<(Arc<str>, Hash, Arc<ToolList>), String> {
        let agent = self.run.open(id).ok_or("the agent is not open")?;
        if agent.contract.execution.share_history {
            let parent = id.parent().and_then(|parent| self.sessions.get(&parent));
            let parent = parent.ok_or("the agent whose conversation it begins with is not there")?;
            return Ok((parent.system.clone(), parent.system_hash, parent.tools.clone()));
        }
        let (definition, contract) = (&agent.kind.definition, &agent.contract);
        let others = agent.authority.rules_of_others();
        let mut text = system_prompt(definition, contract, self.run.agents_md.as_deref(), &others);
        let tools = self.tools_of(id);
        text.push_str(&tools.skills.section);
        let (system, hash) = if let Some(known) = self.system_texts.get(&text) {
            known.clone()
        } else {
            let known: (Arc<str>, Hash) = (text.as_str().into(), Hash::of(text.as_bytes()));
            self.system_texts.insert(text, known.clone());
            known
        };
        Ok((system, hash, tools))
    }

    /// The tools an agent is offered. One list for all agents of a definition with the same tools and skills.
    pub(super) fn tools_of(&mut self, id: &AgentId) -> Arc<ToolList> {
        let Some(agent) = self.run.open(id) else { return Arc::default() };
        let grant = agent.authority.grant();
        let context = &agent.contract.context;
        let spawns =
            grant.can_spawn_children && grant.max_delegation_depth > 0 && context.can_spawn_sub_agent();
        let mut names: Vec<&str> =
            grant.allowed_tools.iter().map(posse_domain::permission::ToolName::as_str).collect();
        names.retain(|name| {
            let tool = self.rt.tools.get(name);
            tool.is_some_and(|tool| spawns || tool.class != EffectClass::Delegate)
        });
        let skill = self.run.skill_in_hand(agent).unwrap_or_default();
        let denied = self.run.denied_skills(agent);
        let denied_text = denied.iter().copied().collect::<Vec<_>>().join(",");
        let key =
            format!("{}\0{skill}\0{spawns}\0{denied_text}\0{}", agent.kind.definition.name, names.join("\0"));
        if let Some(list) = self.tool_lists.get(&key) {
            return list.clone();
        }
        let skills = skills::known(&self.run, agent, spawns, &denied);
        names.retain(|name| match *name {
            SKILL_TOOL => skills.any_to_load,
            DELEGATE_TO_AGENT => skills.any_to_delegate,
            _ => true,
        });
        let spawnable = if spawns { self.spawnable(id) } else { Vec::new() };
        let describe =
            |name: &&str| self.rt.tools.get(name).map(|tool| Arc::new((tool.describe)(&spawnable)));
        let list = Arc::new(ToolList::new(names.iter().filter_map(describe).collect(), skills));
        self.tool_lists.insert(key, list.clone());
        list
    }

    fn spawnable(&self, id: &AgentId) -> Vec<Spawnable> {
        let Some(agent) = self.run.open(id) else { return Vec::new() };
        let names = agent.kind.definition.spawns.iter().flatten();
        names
            .filter_map(|name| self.run.prepared_definition(name))
            .filter(|kind| kind.definition.mode != posse_domain::definition::Mode::Primary)
            .map(|kind| Spawnable {
                name: kind.definition.name.clone(),
                description: kind.definition.description.clone(),
                may_spawn: kind.definition.spawns.is_some(),
                asks: kind.definition.default == Decision::Ask,
            })
            .collect()
    }
}
