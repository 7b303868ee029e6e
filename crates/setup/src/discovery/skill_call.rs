//! Skills that a person names: with `--skill`, or with `/NAME` at the beginning of a request.

use posse::discovery::Holds;
use posse_agent::definition::nearest;
use posse_domain::nearest::hint;
use posse_domain::skill::Skill;

use super::DiscoveryResult;
use crate::error::{Remedy, SetupError, Subject};
use crate::notes::WithNotes;
use posse_domain::printable as term;

/// Begins the name of a skill in a request.
const MARK: char = '/';

/// A skill with what was written after its name.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillCall {
    /// The skill.
    pub skill: Skill,
    /// What it is to be done with; may be empty.
    pub arguments: String,
}

impl SkillCall {
    /// The request of a run that was given nothing but the skill's name.
    pub fn request(name: &str) -> String {
        format!("{MARK}{name}")
    }

    /// What the sub-agent of a forked skill is told to do; its instructions are its own already.
    pub fn prompt(&self) -> Option<String> {
        self.skill.fork.then(|| match self.arguments.as_str() {
            "" => format!("Carry out the skill `{}`.", self.skill.name),
            arguments => arguments.to_owned(),
        })
    }

    /// What the root takes in, if it is not forked: the skill's name, and what was written after it.
    pub fn taken_in(&self) -> Option<(String, String)> {
        (!self.skill.fork).then(|| (self.skill.name.clone(), self.arguments.clone()))
    }
}

/// The skill of this name that `--skill` means.
pub fn named_skill(found: &DiscoveryResult, name: &str) -> Result<Skill, SetupError> {
    let wanted = name.strip_prefix(MARK).unwrap_or(name).to_ascii_lowercase();
    let counting = || found.skills.iter().filter(|entry| entry.counts()).map(|entry| &entry.value);
    if let Some(skill) = counting().find(|skill| skill.name == wanted) {
        // Both ways to name a skill mean the same. One that agents may not use either has no other way.
        if !skill.for_people && skill.for_models {
            let problem = format!("`{}` is for agents only (`user-invocable: false`)", skill.name);
            return Err(SetupError::about(Subject::Skill, problem)
                .hint("an agent uses it when it needs it; or change its file"));
        }
        return Ok(skill.clone());
    }
    let near = nearest(&wanted, counting().map(|skill| skill.name.as_str()));
    let problem = found
        .why_unusable(&wanted, Holds::Skills)
        .unwrap_or_else(|| format!("there is no skill `{}`{}", term::line(name), hint(near)));
    Err(SetupError::about(Subject::Skill, problem).remedy(Remedy::ListSkills))
}

impl DiscoveryResult {
    /// The skill that a request begins with, if it begins with one. Only the exact name of a skill that is for people
    /// counts: everything else is a request like any other, such as one about a path.
    pub fn called(&self, request: &str) -> WithNotes<Option<SkillCall>> {
        let Some(typed) = request.trim_start().strip_prefix(MARK) else { return WithNotes::silent(None) };
        let (name, arguments) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        if name.is_empty() || name.contains(MARK) {
            return WithNotes::silent(None);
        }
        let for_people = || {
            self.skills
                .iter()
                .filter(|entry| entry.counts() && entry.value.for_people)
                .map(|entry| &entry.value)
        };
        let wanted = name.to_ascii_lowercase();
        if let Some(skill) = for_people().find(|skill| skill.name == wanted) {
            let call = SkillCall { skill: skill.clone(), arguments: arguments.trim().to_owned() };
            return WithNotes::silent(Some(call));
        }
        if let Some(why) = self.why_unusable(&wanted, Holds::Skills) {
            return WithNotes::noted(None, format!("note: the skill {why}; it is taken as a plain request"));
        }
        let near = nearest(&wanted, for_people().map(|skill| skill.name.as_str()));
        let note = near.map(|near| {
            format!(
                "note: there is no skill `/{}` (did you mean `/{near}`?); it is taken as a plain request",
                term::line(name)
            )
        });
        WithNotes::new(None, note.into_iter().collect())
    }
}
