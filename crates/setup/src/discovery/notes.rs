//! What a run tells of what was found: what cannot be used, and what waits for trust. Everything else is told by
//! `posse agents validate` and `posse skills validate`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use posse::Definition;
use posse::discovery::SkipReason;
use posse_agent::definition::{Severity, UnusedModel, Warning};
use posse_domain::skill::{DiscoveredDefinitions, Skill, UNTRUSTED_MAX};

use super::{DiscoveryResult, Entry, Precedence, Unusable};
use crate::notes::Notes;
use crate::text::plural;
use posse_domain::printable as term;

/// Most files that cannot be used and are told one by one.
const UNUSABLE_SHOWN: usize = 3;
/// Most models that cannot be used and are told one by one.
const MODELS_SHOWN: usize = 3;
/// Most mistakes that allow more than was meant and are told one by one.
const WIDENING_SHOWN: usize = 3;
/// Most names in one note.
const NAMES_SHOWN: usize = 5;

/// A file that was not even read.
pub(super) fn passed_over(file: &str, why: &SkipReason) -> Warning {
    // Nothing is lost with it, and it would be told again and again.
    let level = if *why == SkipReason::LeadsNowhere { Severity::Note } else { Severity::Problem };
    Warning { level, file: file.to_owned(), line: None, problem: why.to_string(), fix: None, widens: false }
}

impl DiscoveryResult {
    /// What the user of a run should know that can reach all of this. The user named `root` and `skill`, so the notes have
    /// everything that is odd about these; of what else the run can reach, only models that cannot be used.
    pub fn run_notes(
        &self,
        root: &Definition,
        skill: Option<&Skill>,
        reached: &DiscoveredDefinitions,
    ) -> Notes {
        let mut notes = Notes::none();
        self.note_models(root, skill, reached, &mut notes);
        let root = self.agents.iter().find(|entry| entry.counts() && entry.value.name == root.name);
        let skill = skill.and_then(|skill| {
            self.skills.iter().find(|entry| entry.counts() && entry.value.name == skill.name)
        });
        let of_root = root.iter().flat_map(|entry| &entry.warnings);
        for warning in of_root.chain(skill.iter().flat_map(|entry| &entry.warnings)) {
            notes.push(format!("note: {warning}"));
        }
        self.note_mistakes(
            root.map(|entry| &entry.path),
            skill.map(|entry| &entry.path),
            reached,
            &mut notes,
        );
        let wrong: Vec<&Unusable> = self.unusable.iter().filter(|unusable| unusable.is_wrong()).collect();
        for first in wrong.iter().take(UNUSABLE_SHOWN).filter_map(|unusable| unusable.warnings.first()) {
            notes.push(format!("note: {first}"));
        }
        if let Some(more) = wrong.len().checked_sub(UNUSABLE_SHOWN).filter(|more| *more > 0) {
            let files = plural(more as u64, "more file");
            notes.push(format!(
                "note: {files} cannot be used; `posse agents validate` and `posse skills validate` say why"
            ));
        }
        if let Some(text) = self.untrusted() {
            notes.push(text);
        }
        self.note_left_out(reached, &mut notes);
        notes
    }

    /// Of skills that nobody trusts a run knows so many and no more.
    fn note_left_out(&self, reached: &DiscoveredDefinitions, notes: &mut Notes) {
        let untrusted = |skill: &&Skill| skill.is_asked_for();
        if reached.skills.iter().filter(untrusted).count() >= UNTRUSTED_MAX {
            let all = self.usable_skills().filter(untrusted).count();
            if let Some(left) = all.checked_sub(UNTRUSTED_MAX).filter(|left| *left > 0) {
                let skills = plural(left as u64, "skill");
                notes.push(format!(
                    "note: {skills} of this project left out: a run has at most {UNTRUSTED_MAX} that nobody trusted"
                ));
            }
        }
    }

    /// Of files that were not named only what allows more than was meant is told, and how many have other mistakes.
    fn note_mistakes(
        &self,
        root: Option<&PathBuf>,
        skill: Option<&PathBuf>,
        reached: &DiscoveredDefinitions,
        notes: &mut Notes,
    ) {
        let agents: BTreeSet<&str> = reached.definitions.iter().map(|one| one.name.as_str()).collect();
        let skills: BTreeSet<&str> = reached.skills.iter().map(|one| one.name.as_str()).collect();
        let agents = self.agents.iter().filter(|entry| entry.counts() && agents.contains(&*entry.value.name));
        let skills = self.skills.iter().filter(|entry| entry.counts() && skills.contains(&*entry.value.name));
        let agents = agents.map(|entry| (&entry.path, &entry.warnings, "posse agents validate"));
        let skills = skills.map(|entry| (&entry.path, &entry.warnings, "posse skills validate"));
        let others = agents.chain(skills).filter(|(path, ..)| Some(*path) != root && Some(*path) != skill);
        let (mut told, mut more, mut verbs) = (0, 0_u64, BTreeSet::new());
        for (_, warnings, verb) in others {
            let mut has_more = false;
            for warning in warnings.iter().filter(|warning| warning.level == Severity::Problem) {
                if warning.widens && told < WIDENING_SHOWN {
                    told += 1;
                    notes.push(format!("note: {}", term::line(&warning.to_string())));
                } else {
                    has_more = true;
                }
            }
            if has_more {
                more += 1;
                verbs.insert(format!("`{verb}`"));
            }
        }
        if more > 0 {
            let files = plural(more, "file");
            let verbs = verbs.into_iter().collect::<Vec<_>>().join(" and ");
            notes.push(format!("note: {files} of agents and skills with mistakes: {verbs}"));
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
                .find(|entry| entry.counts() && entry.value.name == name)
                .map(|entry| (name, &entry.unused_model))
        });
        let skills = reached.skills.iter().map(|one| one.name.as_str());
        let skills = skills.filter(|name| skill.is_none_or(|skill| skill.name != *name));
        let skills = skills.filter_map(|name| {
            self.skills
                .iter()
                .find(|entry| entry.counts() && entry.value.name == name)
                .map(|entry| (name, &entry.unused_model))
        });
        let wrong: Vec<(&str, &UnusedModel)> = agents
            .chain(skills)
            .filter_map(|(name, unused)| Some((name, unused.as_ref().filter(|unused| unused.is_wrong)?)))
            .collect();
        for (name, unused) in wrong.iter().take(MODELS_SHOWN) {
            let text = format!(
                "note: `{name}` names the model `{}`, {}; its parent's is used",
                unused.name, unused.why
            );
            notes.push(term::line(&text));
        }
        if let Some(more) = wrong.len().checked_sub(MODELS_SHOWN).filter(|more| *more > 0) {
            notes.push(format!(
                "note: the models of {more} more cannot be used; `posse agents show` and `posse skills show` say why"
            ));
        }
    }

    /// What the project brings that the person has not trusted, in one line.
    fn untrusted(&self) -> Option<String> {
        let agents = self.agents.iter().filter_map(|entry| untrusted(entry, &entry.value.name));
        let skills = self.skills.iter().filter_map(|entry| untrusted(entry, &entry.value.name));
        let (waiting, limited): (Vec<_>, Vec<_>) = agents.chain(skills).partition(|(_, waits)| *waits);
        let says = |names: &[(&str, bool)], what: &str| {
            let shown: Vec<String> =
                names.iter().take(NAMES_SHOWN).map(|(name, _)| format!("`{name}`")).collect();
            let more = names.len().checked_sub(NAMES_SHOWN).filter(|more| *more > 0);
            let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
            (!names.is_empty()).then(|| format!("{}{more} {what}", shown.join(", ")))
        };
        let parts = [
            says(&limited, "of this project may use nothing without asking"),
            says(&waiting, "of this project would take the place of another and is not used"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| {
            format!("note: not trusted yet: {}; `posse trust` shows and trusts them", parts.join("; "))
        })
    }
}

/// The name of something that nobody trusted, and whether it waits for that.
fn untrusted<'a, T>(entry: &Entry<T>, name: &'a str) -> Option<(&'a str, bool)> {
    let waits = matches!(entry.standing, Precedence::WaitsForTrust(_));
    (!entry.trusted && (waits || entry.counts())).then_some((name, waits))
}
