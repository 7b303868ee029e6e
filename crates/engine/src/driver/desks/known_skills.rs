//! Lists the skills that an agent can use, for its system prompt, and the skill directories that it may read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use posse_agent::prompts::{SkillTools, skills_section};
use posse_domain::lifecycle::{DELEGATE_TO_AGENT, OpenAgent, Run, SKILL_TOOL};
use posse_domain::skill::Skill;

use crate::ports::{SkillDir, SkillDirs};

/// The skills that agents of one definition with the same tools can use.
#[derive(Debug, Default)]
pub(super) struct KnownSkills {
    /// The section of the system prompt that lists the skills.
    pub(super) section: String,
    /// The directories of the skills whose files the agents may read.
    pub(super) dirs: Arc<SkillDirs>,
    /// Whether the agents can load or fork a skill with `skill`.
    pub(super) any_to_load: bool,
    /// Whether the agents can fork a skill with `delegate_to_agent`.
    pub(super) any_to_delegate: bool,
}

/// The skills that an agent can use. `spawns` states whether it can have children. Rules deny it the skills in
/// `denied`.
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
    let listed = open().filter(|skill| loads(skill) || delegates(skill));
    // An agent that was forked with a skill may read the skill's files even if it could not load the skill.
    let own = run.initial_skill(agent);
    let readable = open().filter(|skill| loads(skill) || own == Some(skill.name.as_str()));
    let dirs = readable.filter_map(|skill| {
        let project = skill.project.as_ref().map(PathBuf::from);
        Some((skill.name.clone(), SkillDir { path: PathBuf::from(skill.dir.as_ref()?), project }))
    });
    KnownSkills {
        section: skills_section(listed, tools),
        dirs: Arc::new(dirs.collect::<BTreeMap<_, _>>()),
        any_to_load: open().any(loads),
        any_to_delegate: open().any(delegates),
    }
}
