//! Resolves skills that a user names: in the request, or with `/NAME` at the beginning of its text.

use posse::discovery::DefinitionType;
use posse_definitions::nearest;
use posse_domain::nearest::hint;
use posse_domain::skill::Skill;

use super::DiscoveryResult;
use crate::error::{Remedy, SetupError, Subject};
use crate::notes::{Note, WithNotes};
use posse_domain::printable as term;

/// Begins the name of a skill in a request.
const MARK: char = '/';
/// What happens to a text that begins with `/` but names no skill.
const PLAIN_REQUEST: &str = "it is used as a plain request";

/// A skill with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillCall {
    /// The resolved skill.
    pub skill: Skill,
    /// The text after the skill's name; may be empty.
    pub arguments: String,
}

impl SkillCall {
    /// The request text of a run that has only the skill's name.
    pub fn request(name: &str) -> String {
        format!("{MARK}{name}")
    }

    /// The task of a forked skill's sub-agent, whose prompt already has the instructions; `None` if the skill is not
    /// forked.
    pub fn prompt(&self) -> Option<String> {
        self.skill.fork.then(|| match self.arguments.as_str() {
            "" => format!("Execute the skill `{}`.", self.skill.name),
            arguments => arguments.to_owned(),
        })
    }

    /// The name and arguments of a skill that the root loads; `None` if the skill is forked.
    pub fn loaded(&self) -> Option<(String, String)> {
        (!self.skill.fork).then(|| (self.skill.name.clone(), self.arguments.clone()))
    }
}

/// Finds the skill that a request names.
pub fn named_skill(found: &DiscoveryResult, name: &str) -> Result<Skill, SetupError> {
    let wanted = name.strip_prefix(MARK).unwrap_or(name).to_ascii_lowercase();
    let counting = || found.skills.iter().filter(|entry| entry.is_first()).map(|entry| &entry.value);
    if let Some(skill) = counting().find(|skill| skill.name == wanted) {
        // Both ways to name a skill are equal. A skill that agents may not use either has no other way.
        if !skill.for_people && skill.for_models {
            let problem = format!("`{}` is for agents only (`user-invocable: false`)", skill.name);
            return Err(SetupError::about(Subject::Skill, problem)
                .hint("an agent uses it when it needs it; or change its file"));
        }
        return Ok(skill.clone());
    }
    let near = nearest(&wanted, counting().map(|skill| skill.name.as_str()));
    let problem = found
        .why_unusable(&wanted, DefinitionType::Skills)
        .unwrap_or_else(|| format!("unknown skill `{}`{}", term::line(name), hint(near)));
    Err(SetupError::about(Subject::Skill, problem).remedy(Remedy::ListSkills))
}

impl DiscoveryResult {
    /// The skill that a request begins with, if any. Only the exact name of a skill for users counts. Everything else
    /// is a plain request, such as one about a path.
    pub fn called(&self, request: &str) -> WithNotes<Option<SkillCall>> {
        let Some(typed) = request.trim_start().strip_prefix(MARK) else { return WithNotes::silent(None) };
        let (name, arguments) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        if name.is_empty() || name.contains(MARK) {
            return WithNotes::silent(None);
        }
        let for_people = || {
            self.skills
                .iter()
                .filter(|entry| entry.is_first() && entry.value.for_people)
                .map(|entry| &entry.value)
        };
        let wanted = name.to_ascii_lowercase();
        if let Some(skill) = for_people().find(|skill| skill.name == wanted) {
            let call = SkillCall { skill: skill.clone(), arguments: arguments.trim().to_owned() };
            return WithNotes::silent(Some(call));
        }
        if let Some(why) = self.why_unusable(&wanted, DefinitionType::Skills) {
            return WithNotes::noted(None, Note::info(format!("the skill {why}; {PLAIN_REQUEST}")));
        }
        let near = nearest(&wanted, for_people().map(|skill| skill.name.as_str()));
        let note = near.map(|near| {
            Note::info(format!(
                "unknown skill `/{}` (did you mean `/{near}`?); {PLAIN_REQUEST}",
                term::line(name)
            ))
        });
        WithNotes::new(None, note.into_iter().collect())
    }
}
