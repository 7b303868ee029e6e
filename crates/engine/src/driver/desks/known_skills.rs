//! What an agent is told of skills: a part of its system prompt, and the directories that it may read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use posse_agent::definition::{SkillTools, skills_section};
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, OpenAgent, Run, SKILL_TOOL};
use posse_domain::skill::Skill;

use crate::ports::{SkillDir, SkillDirs};

/// What all agents of one kind with the same tools are told of skills.
#[derive(Debug, Default)]
pub(super) struct KnownSkills {
    /// The part of their system prompt.
    pub(super) section: String,
    /// Where the files of the ones they may use are.
    pub(super) dirs: Arc<SkillDirs>,
    /// Whether there is one that they can ask for with `skill`.
    pub(super) any_to_load: bool,
    /// Whether there is one that they can give work to with `delegate_to_agent`.
    pub(super) any_to_delegate: bool,
}

/// What an agent is told of skills; `spawns` says whether it can have a child, `denied` which a rule denies it.
pub(super) fn known(run: &Run, agent: &OpenAgent, spawns: bool, denied: &BTreeSet<&str>) -> KnownSkills {
    let grant = agent.authority.grant();
    if run.skills.is_empty() {
        return KnownSkills::default();
    }
    let tools =
        SkillTools { loads: grant.covers(SKILL_TOOL), delegates: spawns && grant.covers(DELEGATE_TO_AGENT) };
    let rights = run.skill_rights(agent);
    let open = || run.all_skills().filter(|skill| !denied.contains(skill.name.as_str()));
    let loads = |skill: &Skill| tools.loads && rights.may_load(skill) && (spawns || !skill.fork);
    let delegates = |skill: &Skill| tools.delegates && rights.may_delegate_to(skill);
    let told = open().filter(|skill| loads(skill) || delegates(skill));
    // Whoever has a skill's instructions has its files, whether or not it could have asked for them.
    let own = run.skill_in_hand(agent);
    let readable = open().filter(|skill| loads(skill) || own == Some(skill.name.as_str()));
    let dirs = readable.filter_map(|skill| {
        let project = skill.project.as_ref().map(PathBuf::from);
        Some((skill.name.clone(), SkillDir { path: PathBuf::from(skill.dir.as_ref()?), project }))
    });
    KnownSkills {
        section: skills_section(told, tools),
        dirs: Arc::new(dirs.collect::<BTreeMap<_, _>>()),
        any_to_load: open().any(loads),
        any_to_delegate: open().any(delegates),
    }
}
