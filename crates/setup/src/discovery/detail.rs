//! Resolves one definition or skill to what its agents have in a run, for `posse agents show` and `posse skills show`.

use std::path::Path;

use posse::api::{AgentDetail, FileFinding, SkillDetail};
use posse::discovery::DefinitionType;
use posse::{Definition, Definitions};
use posse_definitions::{nearest, with_default_asks};
use posse_domain::nearest::hint;
use posse_domain::permission::{NETWORK, Operation, RunLayers, Verdict};
use posse_domain::printable as term;
use posse_domain::skill::{DEFAULT_SKILL_AGENT, SKILL_TOOL, Skill};

use super::{DiscoveryResult, Entry, Origin};
use crate::Setup;
use crate::error::SetupError;
use crate::settings::Settings;

/// One definition as its agents have it in a run.
pub struct ResolvedAgent<'a> {
    /// The definition with the rules that a run adds, limited to rules about its own tools.
    pub definition: Definition,
    /// The discovered entry of this name; `None` for a built-in definition.
    pub entry: Option<&'a Entry<Definition>>,
    /// Who provides the definition.
    pub origin: Origin,
}

/// One skill, with the definition of its sub-agent in a run.
pub struct ResolvedSkill<'a> {
    /// The discovered skill.
    pub entry: &'a Entry<Skill>,
    /// Who provides the skill.
    pub origin: Origin,
    /// The definition of a forked skill's sub-agent; `None` if the skill is not forked.
    pub definition: Option<Definition>,
}

impl DiscoveryResult {
    /// Resolves the definition of this name.
    pub fn agent(&self, name: &str) -> Result<ResolvedAgent<'_>, SetupError> {
        let known = Definitions::builtin_and(self.and_given(&[]));
        let definition = known.find(name).map_err(|unknown| {
            let unusable = self.why_unusable(name, DefinitionType::Agents);
            SetupError::usage(unusable.unwrap_or_else(|| unknown.to_string()))
        })?;
        let entry = self.agents.iter().find(|entry| entry.is_first() && entry.value.name == definition.name);
        let mut definition = as_in_runs(definition, entry.is_some());
        keep_own_rules(&mut definition);
        let origin = entry.map_or(Origin::BuiltIn, |entry| self.origin(entry.place));
        Ok(ResolvedAgent { definition, entry, origin })
    }

    /// Resolves the skill of this name. Also accepts the form of a request (`/name`).
    pub fn skill(&self, name: &str) -> Result<ResolvedSkill<'_>, SetupError> {
        let wanted = name.trim_start_matches('/').to_ascii_lowercase();
        let entry = self.skills.iter().find(|entry| entry.is_first() && entry.value.name == wanted);
        let Some(entry) = entry else {
            let names = self.usable_skills().map(|skill| skill.name.as_str());
            let unknown = || format!("unknown skill `{}`{}", term::line(name), hint(nearest(&wanted, names)));
            let problem = self.why_unusable(&wanted, DefinitionType::Skills).unwrap_or_else(unknown);
            return Err(SetupError::usage(problem));
        };
        let definition = self.forked(&entry.value);
        Ok(ResolvedSkill { entry, origin: self.origin(entry.place), definition })
    }

    /// The definition of a skill's sub-agent; `None` if the skill has none.
    fn forked(&self, skill: &Skill) -> Option<Definition> {
        let known = Definitions::builtin_and(self.and_given(&[]));
        let base = known.get(skill.agent.as_deref().unwrap_or(DEFAULT_SKILL_AGENT)).filter(|_| skill.fork)?;
        let is_found = self.definitions().any(|definition| definition.name == base.name);
        let mut definition = skill.definition(&as_in_runs(base, is_found));
        keep_own_rules(&mut definition);
        Some(definition)
    }
}

impl ResolvedAgent<'_> {
    /// The API type. `agents_md` is the file whose text a run adds to the prompt.
    pub fn to_api<'a>(&'a self, agents_md: Option<&'a Path>) -> AgentDetail<'a> {
        let entry = self.entry;
        AgentDetail {
            definition: &self.definition,
            origin: self.origin.into(),
            path: entry.map(|entry| entry.path.as_path()),
            trusted: entry.is_none_or(|entry| entry.trusted),
            unused_model: entry.and_then(|entry| Some(entry.unused_model.as_ref()?.name.as_str())),
            warnings: entry.map(|entry| FileFinding::list(&entry.warnings)).unwrap_or_default(),
            agents_md,
        }
    }
}

impl ResolvedSkill<'_> {
    /// The API type. `agents_md` is the file whose text a run adds to the prompt, `ruling` the result of
    /// [`skill_ruling`].
    pub fn to_api<'a>(&'a self, agents_md: Option<&'a Path>, ruling: Option<&Verdict>) -> SkillDetail<'a> {
        let entry = self.entry;
        SkillDetail {
            skill: &entry.value,
            origin: self.origin.into(),
            path: &entry.path,
            trusted: entry.trusted,
            unused_model: entry.unused_model.as_ref().map(|unused| unused.name.as_str()),
            warnings: FileFinding::list(&entry.warnings),
            definition: self.definition.as_ref(),
            agents_md,
            decision: ruling.map(|verdict| verdict.decision),
            because: ruling.map(ToString::to_string),
        }
    }
}

/// The decision of a user's or project's rule about the use of a skill in `dir`, for any run and agent; `None` if no
/// rule matches.
pub fn skill_ruling(skill: &Skill, dir: &Path, setup: &Setup) -> Result<Option<Verdict>, SetupError> {
    let settings = Settings::resolve(setup, dir)?;
    let layers =
        RunLayers { operator: settings.rules(), project: settings.project_rules(), ..RunLayers::default() };
    Ok(layers.ruling(&Operation::new(SKILL_TOOL, Some(&skill.name))))
}

/// A definition with the rules that a run adds: a discovered one asks like the built-in ones.
fn as_in_runs(definition: &Definition, is_found: bool) -> Definition {
    let mut definition = definition.clone();
    if is_found {
        definition.close_network();
        definition = with_default_asks(definition);
    }
    definition
}

/// Removes rules about tools that the definition does not have.
fn keep_own_rules(definition: &mut Definition) {
    let has_shell = definition.has_shell();
    let Definition { rules, tools, .. } = definition;
    rules.retain(|rule| {
        let pattern = rule.pattern.as_str();
        let tool = pattern.split_once(':').map_or(pattern, |(tool, _)| tool);
        tool == "*" || (tool == NETWORK && has_shell) || tools.iter().any(|own| own == tool)
    });
}
