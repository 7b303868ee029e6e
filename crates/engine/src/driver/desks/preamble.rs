//! Builds the preamble of every model request of an agent: its system prompt and the offered tools.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posse_agent::prompts::system_prompt;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::{EffectClass, Preamble};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, OpenAgent, Run, SKILL_TOOL};
use posse_domain::permission::ToolName;

use super::known_skills::{KnownSkills, known};
use crate::driver::session::SessionError;
use crate::ports::{SkillDirs, Spawnable, Tool};

/// The tools of an agent, with values that are computed once for all agents with the same tools.
#[derive(Debug)]
pub(crate) struct ToolList {
    pub(crate) specs: Arc<[Arc<ToolSpec>]>,
    text: Arc<str>,
    hash: Hash,
    skills: KnownSkills,
}

impl Default for ToolList {
    fn default() -> Self {
        Self::new(Arc::new([]), KnownSkills::default())
    }
}

impl ToolList {
    fn new(specs: Arc<[Arc<ToolSpec>]>, skills: KnownSkills) -> Self {
        // Serialising plain data with text keys cannot fail.
        let text: Arc<str> = serde_json::to_string(&specs).unwrap_or_default().into();
        let hash = Hash::of(text.as_bytes());
        Self { specs, text, hash, skills }
    }
}

/// The preamble of one agent's requests.
#[derive(Debug, Clone)]
pub(crate) struct AgentPreamble {
    pub(crate) system: Arc<str>,
    system_hash: Hash,
    /// The tools that the model is offered. The grant decides which of them the agent may use.
    pub(crate) tools: Arc<ToolList>,
    /// Hash of prompt and tools.
    pub(crate) hash: Hash,
    /// Size of prompt and tools.
    pub(crate) bytes: u64,
}

/// Creates preambles. Thousands of agents share the same prompt and tools, so each text is created, hashed and
/// journalled once.
#[derive(Debug, Default)]
pub(crate) struct PreambleDesk {
    system_texts: HashMap<String, (Arc<str>, Hash)>,
    tool_lists: HashMap<String, Arc<ToolList>>,
    /// Hashes of the prompts and tool lists whose text is in the journal.
    journalled: HashSet<Hash>,
    by_agent: HashMap<AgentId, AgentPreamble>,
}

impl PreambleDesk {
    /// Creates the preamble of an agent, and returns the directories of the skills that it may use. An agent that
    /// begins with its parent's conversation gets its parent's preamble, so that the provider's cache of that
    /// conversation matches.
    pub(crate) fn open(
        &mut self,
        id: &AgentId,
        run: &Run,
        known_tools: &HashMap<&'static str, Tool>,
    ) -> Result<Arc<SkillDirs>, SessionError> {
        let agent = run.open(id).ok_or_else(|| SessionError::NotOpen(id.clone()))?;
        let tools = self.tools_of(agent, run, known_tools);
        let skill_dirs = tools.skills.dirs.clone();
        let preamble = if agent.contract.execution.share_history {
            let parent = id.parent().and_then(|parent| self.of(&parent));
            parent.cloned().ok_or_else(|| SessionError::NoParent(id.clone()))?
        } else {
            self.make(agent, run, tools)
        };
        self.by_agent.insert(id.clone(), preamble);
        Ok(skill_dirs)
    }

    pub(crate) fn close(&mut self, id: &AgentId) {
        self.by_agent.remove(id);
    }

    pub(crate) fn of(&self, id: &AgentId) -> Option<&AgentPreamble> {
        self.by_agent.get(id)
    }

    fn make(&mut self, agent: &OpenAgent, run: &Run, tools: Arc<ToolList>) -> AgentPreamble {
        let others = agent.authority.rules_of_others();
        let mut text =
            system_prompt(&agent.prepared.definition, &agent.contract, run.agents_md.as_deref(), &others);
        text.push_str(&tools.skills.section);
        let (system, system_hash) = self.system_text(text);
        let hash = Hash::of_parts([system_hash.as_bytes().as_slice(), tools.hash.as_bytes()]);
        let bytes = (system.len() + tools.text.len()) as u64;
        AgentPreamble { system, system_hash, tools, hash, bytes }
    }

    /// The preamble for the event of the agent's first call, so that a replay can show differences. A text that is
    /// journalled already is omitted.
    pub(crate) fn take_unjournalled(&mut self, preamble: &AgentPreamble) -> Box<Preamble> {
        let (system, tools) = (preamble.system_hash, preamble.tools.hash);
        let system_text = self.journalled.insert(system).then(|| preamble.system.clone().into());
        let tools_text = self.journalled.insert(tools).then(|| preamble.tools.text.clone().into());
        Box::new(Preamble { system, system_text, tools, tools_text })
    }

    fn system_text(&mut self, text: String) -> (Arc<str>, Hash) {
        if let Some(known) = self.system_texts.get(&text) {
            return known.clone();
        }
        let known: (Arc<str>, Hash) = (text.as_str().into(), Hash::of(text.as_bytes()));
        self.system_texts.insert(text, known.clone());
        known
    }

    /// The tools offered to an agent. All agents of a definition with the same tools and skills share one list.
    fn tools_of(
        &mut self,
        agent: &OpenAgent,
        run: &Run,
        known_tools: &HashMap<&'static str, Tool>,
    ) -> Arc<ToolList> {
        let grant = agent.authority.grant();
        let context = &agent.contract.context;
        let spawns =
            grant.can_spawn_children && grant.max_delegation_depth > 0 && context.can_spawn_sub_agent();
        let mut names: Vec<&str> = grant.allowed_tools.iter().map(ToolName::as_str).collect();
        names.retain(|name| {
            let tool = known_tools.get(name);
            tool.is_some_and(|tool| spawns || tool.class != EffectClass::Delegate)
        });
        let skill = run.initial_skill(agent).unwrap_or_default();
        let denied = run.denied_skills(agent);
        let denied_text = denied.iter().copied().collect::<Vec<_>>().join(",");
        let key = format!(
            "{}\0{skill}\0{spawns}\0{denied_text}\0{}",
            agent.prepared.definition.name,
            names.join("\0")
        );
        if let Some(list) = self.tool_lists.get(&key) {
            return list.clone();
        }
        let skills = known(run, agent, spawns, &denied);
        names.retain(|name| match *name {
            SKILL_TOOL => skills.any_to_load,
            DELEGATE_TO_AGENT => skills.any_to_delegate,
            _ => true,
        });
        let spawnable = if spawns { spawnable(agent, run) } else { Vec::new() };
        let describe = |name: &&str| known_tools.get(name).map(|tool| Arc::new((tool.describe)(&spawnable)));
        let list = Arc::new(ToolList::new(names.iter().filter_map(describe).collect(), skills));
        self.tool_lists.insert(key, list.clone());
        list
    }
}

/// The definitions that an agent may spawn, as its tools describe them.
fn spawnable(agent: &OpenAgent, run: &Run) -> Vec<Spawnable> {
    let names = agent.prepared.definition.spawns.iter().flatten();
    names
        .filter_map(|name| run.prepared_definition(name))
        .filter(|kind| kind.definition.mode != posse_domain::definition::Mode::Primary)
        .map(|kind| Spawnable {
            name: kind.definition.name.clone(),
            description: kind.definition.description.clone(),
            may_spawn: kind.definition.spawns.is_some(),
            asks: kind.definition.trust == posse_domain::definition::Trust::Untrusted,
        })
        .collect()
}
