//! Which agent may use which skill, and the sub-agent that executes one.
//!
//! Why it is like this: `docs/decisions/runs-one-skill.md`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::spawn::Refusal;
use super::{NewEvent, OpenAgent, PreparedDefinition, Run, SpawnFrom, SpawnRequest};
use crate::code::Code;
use crate::contract::Contract;
use crate::definition::{Definition, Mode};
use crate::event::EffectClass;
use crate::id::AgentId;
use crate::nearest::{hint, nearest, some_of};
use crate::permission::{Decision, Operation, ToolSet, Verdict};
use crate::skill::{DEFAULT_SKILL_AGENT, Skill};
pub use crate::skill::{DELEGATE_TO_AGENT, SKILL_TOOL, TASK_TOOL};
use crate::text::{QUOTE_MAX_CHARS, clip};

/// Call id of the one child in a run of a skill. No tool call requested that child.
const RUN_SKILL_CALL: &str = "skill";

/// An agent's rights to use skills: by its definition, and by the skill that it executes itself.
#[derive(Debug, Clone, Copy)]
pub struct SkillRights<'a> {
    definition: &'a Definition,
    own: Option<&'a Skill>,
}

impl<'a> SkillRights<'a> {
    /// The rights of an agent with this definition that executes the skill `own`, if any.
    pub fn new(definition: &'a Definition, own: Option<&'a Skill>) -> Self {
        Self { definition, own }
    }

    /// Whether the agent may delegate work to a sub-agent of this skill.
    pub fn may_delegate_to(&self, skill: &Skill) -> bool {
        self.may_use(skill) && self.own.is_none_or(|own| is_listed(own.sub_agents.as_deref(), skill))
    }

    /// Whether the agent may load or fork this skill with the `skill` tool.
    pub fn may_load(&self, skill: &Skill) -> bool {
        if skill.fork { self.may_delegate_to(skill) } else { self.may_use(skill) }
    }

    fn may_use(&self, skill: &Skill) -> bool {
        skill.for_models && is_listed(self.definition.skills.as_deref(), skill)
    }

    /// The agent's tools without those it cannot use: without a permitted skill, an agent has no tool for skills.
    pub fn tools<'s, S>(&self, tools: &ToolSet, skills: &S) -> ToolSet
    where
        S: Iterator<Item = &'s Skill> + Clone,
    {
        let useless = |name: &str| match name {
            SKILL_TOOL => !skills.clone().any(|skill| self.may_load(skill)),
            DELEGATE_TO_AGENT => !skills.clone().any(|skill| self.may_delegate_to(skill)),
            _ => false,
        };
        if tools.iter().any(|name| useless(name.as_str())) {
            tools.iter().filter(|name| !useless(name.as_str())).cloned().collect::<ToolSet>()
        } else {
            tools.clone()
        }
    }

    /// Whether an agent with these tools may have children.
    pub fn can_spawn<'s>(&self, tools: &ToolSet, mut skills: impl Iterator<Item = &'s Skill>) -> bool {
        let by_name = self.definition.spawns.as_ref().is_some_and(|spawns| !spawns.is_empty());
        let delegates = tools.contains(DELEGATE_TO_AGENT);
        let forks = tools.contains(SKILL_TOOL);
        by_name
            || (delegates || forks)
                && skills.any(|skill| (delegates || skill.fork) && self.may_delegate_to(skill))
    }
}

/// Whether a list names this skill. No list means every skill.
fn is_listed(names: Option<&[String]>, skill: &Skill) -> bool {
    names.is_none_or(|names| names.iter().any(|name| name.eq_ignore_ascii_case(&skill.name)))
}

/// A request for a child after its definition and skill were resolved.
#[derive(Clone, Copy)]
pub(super) struct ChildRequest<'a> {
    pub(super) prepared: &'a Arc<PreparedDefinition>,
    pub(super) skill: Option<&'a Skill>,
}

impl Run {
    /// The agent's rights to use skills.
    pub fn skill_rights<'a>(&'a self, agent: &'a OpenAgent) -> SkillRights<'a> {
        let own = agent.contract.execution.skill.as_deref().and_then(|name| self.skill(name));
        SkillRights::new(&agent.prepared.definition, own.map(|own| &own.skill))
    }

    /// The skill whose instructions an agent has from the start: the one it executes, or the one that the user called
    /// for the root.
    pub fn initial_skill<'a>(&'a self, agent: &'a OpenAgent) -> Option<&'a str> {
        let called = self.terms.loaded_skill.as_deref().filter(|_| agent.authority.agent().is_root());
        let called = called.and_then(|name| self.skill(name)).map(|found| found.skill.name.as_str());
        agent.contract.execution.skill.as_deref().or(called)
    }

    /// The decision of a rule about a skill, whichever tool the agent uses it with: a rule about `skill:NAME` is about
    /// the skill. None if no rule matches, or if the rule asks and a user has consented.
    pub fn skill_ruling(&self, agent: &OpenAgent, name: &str) -> Option<Verdict> {
        let ruling =
            agent.authority.ruling(&self.terms.approvals, &Operation::new(SKILL_TOOL, Some(name)))?;
        let asked = ruling.decision == Decision::Ask && agent.consented_skills.contains(name);
        (!asked).then_some(ruling)
    }

    /// The names of the skills that a rule denies to an agent.
    pub fn denied_skills<'a>(&'a self, agent: &OpenAgent) -> BTreeSet<&'a str> {
        // Called for every request. Usually no rule is about skills, and there may be hundreds of skills.
        if self.skills.is_empty() || !agent.authority.speaks_of(SKILL_TOOL) {
            return BTreeSet::new();
        }
        let denied = |name: &&str| {
            let ruling = self.skill_ruling(agent, name);
            ruling.is_some_and(|ruling| ruling.decision == Decision::Deny)
        };
        self.all_skills().map(|skill| skill.name.as_str()).filter(denied).collect()
    }

    /// Every skill of the run, by name.
    pub fn all_skills(&self) -> impl Iterator<Item = &Skill> + Clone {
        self.skills.values().map(|prepared| &prepared.skill)
    }

    /// The skill that a model named, or a refusal that suggests the right one.
    pub fn find_skill(&self, agent: &OpenAgent, name: &str) -> Result<&Skill, Refusal> {
        if let Some(found) = self.skill(name) {
            return Ok(&found.skill);
        }
        let rights = self.skill_rights(agent);
        let denied = self.denied_skills(agent);
        let usable = self.all_skills().filter(|skill| rights.may_use(skill)).map(|skill| skill.name.as_str());
        let usable = usable.filter(|name| !denied.contains(name));
        let meant = hint(nearest(name, usable.clone()));
        let known = match some_of(usable) {
            names if names.is_empty() => "none is available".to_owned(),
            names => format!("available: {names}"),
        };
        let reason = format!("unknown skill `{}`{meant}; {known}", clip(name, QUOTE_MAX_CHARS));
        Err(Refusal { code: Code::UnknownSkill, reason })
    }

    /// The definition of a sub-agent that executes a skill. A skill that a user requested needs no right of the parent.
    pub(super) fn requested_skill<'a>(
        &'a self,
        from: SpawnFrom<'_>,
        parent: &'a OpenAgent,
        name: &str,
    ) -> Result<ChildRequest<'a>, Refusal> {
        let skill = self.find_skill(parent, name)?;
        let by_model = from.message_id.is_some();
        if by_model && !self.skill_rights(parent).may_delegate_to(skill) {
            let caller = parent.contract.execution.skill.as_deref();
            let caller = caller.unwrap_or(&parent.prepared.definition.name);
            let reason = format!("`{caller}` may not delegate to the skill `{}`", skill.name);
            return Err(Refusal { code: Code::SpawnNotAllowed, reason });
        }
        let prepared = self.skill(name).and_then(|skill| skill.prepared.as_ref());
        let agent = skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT);
        let prepared = prepared.ok_or_else(|| Refusal {
            code: Code::UnknownAgent,
            reason: format!(
                "the skill `{}` is for the agent `{}`, which does not exist",
                skill.name,
                clip(agent, QUOTE_MAX_CHARS)
            ),
        })?;
        if prepared.definition.mode == Mode::Primary {
            let reason = format!("the skill `{}` is for `{agent}`, which is never a sub-agent", skill.name);
            return Err(Refusal { code: Code::SpawnNotAllowed, reason });
        }
        Ok(ChildRequest { prepared, skill: Some(skill) })
    }

    /// The prepared definition that a contract names, by its skill or directly.
    pub(super) fn definition_of(&self, contract: &Contract) -> Option<&Arc<PreparedDefinition>> {
        match &contract.execution.skill {
            Some(skill) => self.skills.get(skill)?.prepared.as_ref(),
            None => self.prepared_definition(&contract.execution.definition),
        }
    }

    /// Decides on the one child of a run whose root only forks a skill.
    pub fn spawn_run_skill(
        &self,
        class_of: &dyn Fn(&str) -> Option<EffectClass>,
    ) -> Result<NewEvent, Refusal> {
        let root = self.id.root();
        let step = self.open(&root).map(|agent| &agent.contract.step);
        let request = SpawnRequest {
            skill: self.terms.skill.clone(),
            prompt: step.map(|step| step.description.clone()).unwrap_or_default(),
            title: step.map(|step| step.title.clone()).unwrap_or_default(),
            // No call of the root waits for the child.
            background: Some(true),
            required: true,
            ..SpawnRequest::default()
        };
        self.spawn(run_skill_call(&root), &request, class_of)
    }

    /// The event that records why the child of a skill's run was refused.
    pub fn refuse_run_skill(&self, refusal: &Refusal) -> NewEvent {
        let root = self.id.root();
        let skill = self.terms.skill.as_deref().unwrap_or_default();
        self.refuse(run_skill_call(&root), &clip(skill, QUOTE_MAX_CHARS), refusal)
    }

    /// Whether this agent is the one child of a skill's run.
    pub fn is_run_skill(&self, child: &AgentId) -> bool {
        self.terms.skill.is_some() && *child == self.id.root().child(1)
    }

    /// Whether a new child is the one child of a skill's run.
    pub(super) fn begins_run_skill(&self, child: &AgentId, contract: &Contract) -> bool {
        let named = self.terms.skill.as_deref().and_then(|name| self.skill(name));
        let named = named.map(|named| named.skill.name.as_str());
        self.is_run_skill(child) && named.is_some() && contract.execution.skill.as_deref() == named
    }
}

fn run_skill_call(root: &AgentId) -> SpawnFrom<'_> {
    SpawnFrom { parent: root, call_id: RUN_SKILL_CALL, message_id: None, step: None }
}
