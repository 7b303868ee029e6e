//! What every request of an agent begins with: its system prompt and the tools it is offered.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use posse_agent::definition::system_prompt;
use posse_agent::tool_spec::ToolSpec;
use posse_domain::event::{EffectClass, Preamble};
use posse_domain::hash::Hash;
use posse_domain::id::AgentId;
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, OpenAgent, Run, SKILL_TOOL};
use posse_domain::permission::{Decision, ToolName};

use super::known_skills::{KnownSkills, known};
use crate::ports::{SkillDirs, Spawnable, Tool};

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
    skills: KnownSkills,
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

/// What every request of one agent begins with.
#[derive(Debug, Clone)]
pub(crate) struct AgentPreamble {
    pub(crate) system: Arc<str>,
    system_hash: Hash,
    /// The tools that it is offered, which is no right to use them.
    pub(crate) tools: Arc<ToolList>,
    /// Where the files of the skills are that it may use.
    pub(crate) skill_dirs: Arc<SkillDirs>,
    /// Hash of prompt and tools.
    pub(crate) hash: Hash,
    /// Their size.
    pub(crate) bytes: u64,
}

/// Makes preambles. Thousands of agents have the same prompt and tools: each text is made, hashed and journalled once.
#[derive(Debug, Default)]
pub(crate) struct PreambleDesk {
    system_texts: HashMap<String, (Arc<str>, Hash)>,
    tool_lists: HashMap<String, Arc<ToolList>>,
    /// The prompts and lists of tools whose text is in the journal.
    journalled: HashSet<Hash>,
}

impl PreambleDesk {
    /// The preamble of an agent of the state. An agent that begins with its parent's conversation has its parent's, so
    /// that what a provider has cached of that conversation is found.
    pub(crate) fn preamble_of(
        &mut self,
        id: &AgentId,
        run: &Run,
        known_tools: &HashMap<&'static str, Tool>,
        parent: Option<&AgentPreamble>,
    ) -> Result<AgentPreamble, String> {
        let agent = run.open(id).ok_or("the agent is not open")?;
        let tools = self.tools_of(agent, run, known_tools);
        let skill_dirs = tools.skills.dirs.clone();
        if agent.contract.execution.share_history {
            let parent = parent.ok_or("the agent whose conversation it begins with is not there")?;
            return Ok(AgentPreamble { skill_dirs, ..parent.clone() });
        }
        let others = agent.authority.rules_of_others();
        let mut text =
            system_prompt(&agent.kind.definition, &agent.contract, run.agents_md.as_deref(), &others);
        text.push_str(&tools.skills.section);
        let (system, system_hash) = self.system_text(text);
        let hash = Hash::of_parts([system_hash.as_bytes().as_slice(), tools.hash.as_bytes()]);
        let bytes = (system.len() + tools.text.len()) as u64;
        Ok(AgentPreamble { system, system_hash, tools, skill_dirs, hash, bytes })
    }

    /// What the journal keeps of a preamble with the agent's first call, so that a replay can show what is different.
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

    /// The tools an agent is offered. One list for all agents of a definition with the same tools and skills.
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
        let skill = run.skill_in_hand(agent).unwrap_or_default();
        let denied = run.denied_skills(agent);
        let denied_text = denied.iter().copied().collect::<Vec<_>>().join(",");
        let key =
            format!("{}\0{skill}\0{spawns}\0{denied_text}\0{}", agent.kind.definition.name, names.join("\0"));
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
    let names = agent.kind.definition.spawns.iter().flatten();
    names
        .filter_map(|name| run.prepared_definition(name))
        .filter(|kind| kind.definition.mode != posse_domain::definition::Mode::Primary)
        .map(|kind| Spawnable {
            name: kind.definition.name.clone(),
            description: kind.definition.description.clone(),
            may_spawn: kind.definition.spawns.is_some(),
            asks: kind.definition.default == Decision::Ask,
        })
        .collect()
}
