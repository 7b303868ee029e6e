//! Creates a run's notes about discovery: files that cannot be used, and files that wait for trust. `posse agents
//! validate` and `posse skills validate` show everything else.

use std::collections::BTreeSet;
use std::path::PathBuf;

use posse::Definition;
use posse::discovery::{DefinitionType, SkipReason};
use posse_definitions::{Severity, UnusedModel, Warning};
use posse_domain::skill::{DiscoveredDefinitions, Skill, UNTRUSTED_MAX};

use super::{DiscoveryResult, Entry, Precedence, Unusable};
use crate::error::Remedy;
use crate::notes::{Note, Notes};
use crate::text::plural;
use posse_domain::printable as term;

/// Limit of single notes about unusable files.
const UNUSABLE_SHOWN: usize = 3;
/// Limit of single notes about unusable models.
const MODELS_SHOWN: usize = 3;
/// Limit of single notes about mistakes that allow more than intended.
const WIDENING_SHOWN: usize = 3;
/// Limit of names in one note.
const NAMES_SHOWN: usize = 5;

/// A warning about a file that was not even read.
pub(super) fn skipped(file: &str, why: &SkipReason) -> Warning {
    // Nothing is lost, and the same note would appear in every run.
    let level = if *why == SkipReason::LeadsNowhere { Severity::Note } else { Severity::Problem };
    Warning {
        level,
        file: file.to_owned(),
        line: None,
        problem: why.to_string(),
        fix: None,
        widens: false,
        needs_trust: false,
    }
}

impl DiscoveryResult {
    /// The notes for the user of a run that can reach `reached`. The user named `root` and `skill`, so all warnings
    /// about these are included. For other reachable definitions, only unusable models are.
    pub fn run_notes(
        &self,
        root: &Definition,
        skill: Option<&Skill>,
        reached: &DiscoveredDefinitions,
    ) -> Notes {
        let mut notes = Notes::none();
        self.note_models(root, skill, reached, &mut notes);
        let root = self.agents.iter().find(|entry| entry.is_first() && entry.value.name == root.name);
        let skill = skill.and_then(|skill| {
            self.skills.iter().find(|entry| entry.is_first() && entry.value.name == skill.name)
        });
        let of_root = root.iter().flat_map(|entry| &entry.warnings);
        for warning in of_root.chain(skill.iter().flat_map(|entry| &entry.warnings)) {
            notes.push(Note::info(warning.to_string()));
        }
        self.note_mistakes(
            root.map(|entry| &entry.path),
            skill.map(|entry| &entry.path),
            reached,
            &mut notes,
        );
        let wrong: Vec<&Unusable> = self.unusable.iter().filter(|unusable| unusable.is_wrong()).collect();
        for first in wrong.iter().take(UNUSABLE_SHOWN).filter_map(|unusable| unusable.warnings.first()) {
            notes.push(Note::info(first.to_string()));
        }
        if let Some(more) = wrong.len().checked_sub(UNUSABLE_SHOWN).filter(|more| *more > 0) {
            let files = plural(more as u64, "more file");
            notes.push(
                Note::info(format!("{files} cannot be used"))
                    .remedy(Remedy::Validate(vec![DefinitionType::Agents, DefinitionType::Skills])),
            );
        }
        notes.extend(self.untrusted());
        self.note_omitted(reached, &mut notes);
        notes
    }

    /// Notes that skills were omitted, because a run knows a limited number of untrusted skills.
    fn note_omitted(&self, reached: &DiscoveredDefinitions, notes: &mut Notes) {
        let untrusted = |skill: &&Skill| skill.needs_consent();
        if reached.skills.iter().filter(untrusted).count() >= UNTRUSTED_MAX {
            let all = self.usable_skills().filter(untrusted).count();
            if let Some(omitted) = all.checked_sub(UNTRUSTED_MAX).filter(|omitted| *omitted > 0) {
                let skills = plural(omitted as u64, "skill");
                notes.push(Note::info(format!(
                    "{skills} of this project omitted: a run has at most {UNTRUSTED_MAX} that are not trusted"
                )));
            }
        }
    }

    /// For files that the user did not name, notes only mistakes that allow more than intended, and the number of files
    /// with other mistakes.
    fn note_mistakes(
        &self,
        root: Option<&PathBuf>,
        skill: Option<&PathBuf>,
        reached: &DiscoveredDefinitions,
        notes: &mut Notes,
    ) {
        let agents: BTreeSet<&str> = reached.definitions.iter().map(|one| one.name.as_str()).collect();
        let skills: BTreeSet<&str> = reached.skills.iter().map(|one| one.name.as_str()).collect();
        let agents =
            self.agents.iter().filter(|entry| entry.is_first() && agents.contains(&*entry.value.name));
        let skills =
            self.skills.iter().filter(|entry| entry.is_first() && skills.contains(&*entry.value.name));
        let agents = agents.map(|entry| (&entry.path, &entry.warnings, DefinitionType::Agents));
        let skills = skills.map(|entry| (&entry.path, &entry.warnings, DefinitionType::Skills));
        let others = agents.chain(skills).filter(|(path, ..)| Some(*path) != root && Some(*path) != skill);
        let (mut shown, mut more, mut kinds) = (0, 0_u64, Vec::new());
        for (_, warnings, holds) in others {
            let mut has_more = false;
            for warning in warnings.iter().filter(|warning| warning.level == Severity::Problem) {
                if warning.widens && shown < WIDENING_SHOWN {
                    shown += 1;
                    notes.push(Note::info(term::line(&warning.to_string())));
                } else {
                    has_more = true;
                }
            }
            if has_more {
                more += 1;
                if !kinds.contains(&holds) {
                    kinds.push(holds);
                }
            }
        }
        if more > 0 {
            let files = plural(more, "file");
            let text = format!("problems in {files} of agents and skills");
            notes.push(Note::info(text).remedy(Remedy::Validate(kinds)));
        }
    }

    fn note_models(
        &self,
        root: &Definition,
        skill: Option<&Skill>,
        reached: &DiscoveredDefinitions,
        notes: &mut Notes,
    ) {
        let agents =
            reached.definitions.iter().map(|one| one.name.as_str()).filter(|name| *name != root.name);
        let agents = agents.filter_map(|name| {
            self.agents
                .iter()
                .find(|entry| entry.is_first() && entry.value.name == name)
                .map(|entry| (name, &entry.unused_model))
        });
        let skills = reached.skills.iter().map(|one| one.name.as_str());
        let skills = skills.filter(|name| skill.is_none_or(|skill| skill.name != *name));
        let skills = skills.filter_map(|name| {
            self.skills
                .iter()
                .find(|entry| entry.is_first() && entry.value.name == name)
                .map(|entry| (name, &entry.unused_model))
        });
        let wrong: Vec<(&str, &UnusedModel)> = agents
            .chain(skills)
            .filter_map(|(name, unused)| Some((name, unused.as_ref().filter(|unused| unused.is_wrong)?)))
            .collect();
        for (name, unused) in wrong.iter().take(MODELS_SHOWN) {
            let text = format!(
                "`{name}` names the model `{}`, {}; it uses the model of its parent",
                unused.name, unused.why
            );
            notes.push(Note::info(term::line(&text)));
        }
        if let Some(more) = wrong.len().checked_sub(MODELS_SHOWN).filter(|more| *more > 0) {
            let text = format!("the models of {more} more cannot be used");
            notes.push(Note::info(text).remedy(Remedy::ShowDefinitions));
        }
    }

    /// One note about everything in the project that the user has not trusted.
    fn untrusted(&self) -> Option<Note> {
        let agents = self.agents.iter().filter_map(|entry| untrusted(entry, &entry.value.name));
        let skills = self.skills.iter().filter_map(|entry| untrusted(entry, &entry.value.name));
        let (waiting, limited): (Vec<_>, Vec<_>) = agents.chain(skills).partition(|(_, waits)| *waits);
        let named = |names: &[(&str, bool)], what: &str| {
            let shown: Vec<String> =
                names.iter().take(NAMES_SHOWN).map(|(name, _)| format!("`{name}`")).collect();
            let more = names.len().checked_sub(NAMES_SHOWN).filter(|more| *more > 0);
            let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
            (!names.is_empty()).then(|| format!("{}{more} {what}", shown.join(", ")))
        };
        let parts = [
            named(&limited, "of this project must ask before every tool call"),
            named(&waiting, "of this project has the name of another one and is not used"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| {
            Note::info(format!("not trusted yet: {}", parts.join("; "))).remedy(Remedy::TrustProject)
        })
    }
}

/// The name of an untrusted entry, and whether it waits for trust.
fn untrusted<'a, T>(entry: &Entry<T>, name: &'a str) -> Option<(&'a str, bool)> {
    let waits = matches!(entry.standing, Precedence::WaitsForTrust(_));
    (!entry.trusted && (waits || entry.is_first())).then_some((name, waits))
}
