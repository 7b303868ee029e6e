//! Checks the names by which all parsed files refer to each other, after all files were read.

use std::collections::{BTreeMap, BTreeSet};

use posse_domain::definition::Mode;
use posse_domain::nearest::{hint, nearest};

use super::builtin::builtin;
use super::definitions::known_as;
use super::notes::quoted;
use super::parse_options::{Mention, Role, Severity, Warning};
use super::tool_list::EVERY;

/// Maximum length of a reported cycle of skills.
const CYCLE_MAX: usize = 64;

/// The remedy for a name that should be removed.
const REMOVE: &str = "remove it there";

/// The type of a checked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CheckedType {
    /// A definition that can be a child.
    Definition,
    /// A definition that is only a root.
    Primary,
    Skill,
}

impl CheckedType {
    fn is_skill(self) -> bool {
        self == CheckedType::Skill
    }

    fn word(self) -> &'static str {
        if self.is_skill() { "skill" } else { "definition" }
    }
}

/// A parsed file.
#[derive(Debug, Clone, Copy)]
pub struct CheckedFile<'a> {
    /// The file's name in warnings.
    pub file: &'a str,
    /// The location in which discovery found the file. Two files with one name in the same location are a mistake. In
    /// two locations, one shadows the other.
    pub place: &'a str,
    pub kind: CheckedType,
    pub name: &'a str,
    /// The names of other files that this file refers to.
    pub mentions: &'a [Mention],
}

/// Checks all files against each other and against the built-in definitions, in the given order: of two files with one
/// name in one place, the first wins.
///
/// The check removes nothing: an unknown name can be neither spawned nor delegated to anyway.
pub fn cross_check(all: &[CheckedFile<'_>]) -> Vec<Warning> {
    let built_in: Vec<(String, CheckedType)> = builtin()
        .into_iter()
        .map(|one| {
            (one.name, if one.mode == Mode::Primary { CheckedType::Primary } else { CheckedType::Definition })
        })
        .collect();
    let built_in = built_in.iter().map(|(name, kind)| (name.as_str(), *kind));
    // Files come first: they shadow built-in definitions of the same name.
    let known = all.iter().map(|one| (one.name, one.kind)).chain(built_in).collect();
    let names = Names(known);
    let mut files = BTreeMap::new();
    let mut warnings = Vec::new();
    for one in all {
        let first = *files.entry((one.place, one.kind.is_skill(), one.name)).or_insert(one.file);
        if first != one.file {
            let problem = format!("the {} `{}` is also in {first}, which is used", one.kind.word(), one.name);
            warnings.push(warning(one, None, problem, "give one of them another name"));
        }
        for mention in one.mentions {
            if let Some((problem, fix)) = names.problem(mention) {
                warnings.push(warning(one, mention.line, problem, fix));
            }
        }
    }
    warnings.extend(cycles(all));
    warnings
}

/// Finds skills that delegate to each other in a cycle. The depth limit ends it, which may not be what the author
/// wants. Each cycle is reported once, where it closes.
fn cycles(all: &[CheckedFile<'_>]) -> Vec<Warning> {
    let skills: BTreeMap<&str, &CheckedFile<'_>> =
        all.iter().rev().filter(|one| one.kind.is_skill()).map(|one| (one.name, one)).collect();
    let mut search = Cycles { skills: &skills, done: BTreeSet::new(), warnings: Vec::new() };
    for name in skills.keys() {
        search.from(name, &mut Vec::new());
    }
    search.warnings
}

struct Cycles<'s, 'a> {
    skills: &'s BTreeMap<&'a str, &'s CheckedFile<'a>>,
    /// Skills whose cycles are all reported.
    done: BTreeSet<&'a str>,
    warnings: Vec<Warning>,
}

impl<'a> Cycles<'_, 'a> {
    fn from(&mut self, name: &str, path: &mut Vec<&'a str>) {
        let Some(one) = self.skills.get(name).copied() else { return };
        if path.len() == CYCLE_MAX || self.done.contains(one.name) {
            return;
        }
        path.push(one.name);
        for mention in one.mentions.iter().filter(|mention| mention.role == Role::SubAgent) {
            // A skill that lists itself is a common way to recurse, up to the depth limit.
            match path.iter().position(|before| *before == mention.name).filter(|_| mention.name != one.name)
            {
                Some(start) => {
                    let circle: Vec<String> = path[start..].iter().map(|name| format!("`{name}`")).collect();
                    let problem = format!(
                        "sub_agents: {} and back: a circle, which only the limit of depth ends",
                        circle.join(" -> ")
                    );
                    let fix = "remove one of them, unless this is intended";
                    self.warnings
                        .push(Warning { level: Severity::Note, ..warning(one, mention.line, problem, fix) });
                }
                None => self.from(&mention.name, path),
            }
        }
        path.pop();
        self.done.insert(one.name);
    }
}

fn warning(one: &CheckedFile<'_>, line: Option<u64>, problem: String, fix: &str) -> Warning {
    Warning {
        level: Severity::Problem,
        file: one.file.to_owned(),
        line,
        problem,
        fix: Some(fix.to_owned()),
        widens: false,
        needs_trust: false,
    }
}

/// Every known name with its type.
struct Names<'a>(Vec<(&'a str, CheckedType)>);

impl Names<'_> {
    fn find(&self, name: &str, skill: bool) -> Option<CheckedType> {
        let same =
            |known: &&(&str, CheckedType)| known.0.eq_ignore_ascii_case(name) && known.1.is_skill() == skill;
        self.0.iter().find(same).map(|(_, kind)| *kind)
    }

    /// The problem with a mentioned name, and its remedy.
    fn problem(&self, mention: &Mention) -> Option<(String, &'static str)> {
        let Mention { role, name, .. } = mention;
        let (key, wants_skill) = match role {
            Role::Spawns => ("spawns", false),
            Role::Agent => ("agent", false),
            Role::Skill => ("skills", true),
            Role::SubAgent => ("sub_agents", true),
        };
        if name.contains('*') {
            let means_nothing = match role {
                Role::Spawns => false,
                Role::Agent => true,
                Role::Skill | Role::SubAgent => name != EVERY,
            };
            let problem = || format!("{key}: {} is a pattern, which matches nothing here", quoted(name));
            return means_nothing.then(|| (problem(), "name each of them"));
        }
        let found = self.find(name, wants_skill).or_else(|| self.find(known_as(name)?, wants_skill));
        match (found, role) {
            (Some(CheckedType::Primary), Role::Spawns) => {
                Some((format!("{key}: `{name}` is a primary definition, which is never a child"), REMOVE))
            }
            (Some(_), _) => None,
            (None, _) => Some(self.nowhere(key, name, wants_skill)),
        }
    }

    fn nowhere(&self, key: &str, name: &str, wants_skill: bool) -> (String, &'static str) {
        let word = if wants_skill { "skill" } else { "definition" };
        if self.find(name, !wants_skill).is_some() {
            let other = if wants_skill { "definition" } else { "skill" };
            let problem = format!("{key}: unknown {word} `{name}`, only a {other} of that name");
            return (problem, "correct or remove it");
        }
        let same_kind = self.0.iter().filter(|(_, kind)| kind.is_skill() == wants_skill);
        let hint = hint(nearest(name, same_kind.map(|(name, _)| *name)));
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        (format!("{key}: unknown {word} `{name}`{hint}"), "correct or remove it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mention(role: Role, name: &str) -> Mention {
        Mention { role, name: name.to_owned(), line: Some(4) }
    }

    fn told(all: &[CheckedFile<'_>]) -> Vec<String> {
        cross_check(all).iter().map(ToString::to_string).collect()
    }

    fn checked<'a>(
        file: &'a str,
        kind: CheckedType,
        name: &'a str,
        mentions: &'a [Mention],
    ) -> CheckedFile<'a> {
        CheckedFile { file, place: "project", kind, name, mentions }
    }

    #[test]
    fn skills_that_delegate_in_a_circle_are_told_once() {
        let to_b = [mention(Role::SubAgent, "b"), mention(Role::SubAgent, "c")];
        let to_a = [mention(Role::SubAgent, "a")];
        let to_itself = [mention(Role::SubAgent, "c")];
        let all = [
            checked("a.yaml", CheckedType::Skill, "a", &to_b),
            checked("b.yaml", CheckedType::Skill, "b", &to_a),
            checked("c.yaml", CheckedType::Skill, "c", &to_itself),
        ];
        let told = cross_check(&all);
        let circles: Vec<&Warning> = told.iter().filter(|warning| warning.level == Severity::Note).collect();
        assert_eq!(circles.len(), 1, "{told:?}");
        assert!(circles[0].to_string().starts_with("b.yaml:4: sub_agents: `a` -> `b` and back"), "{told:?}");
    }

    #[test]
    fn names_that_lead_somewhere_say_nothing() {
        let lead = [
            mention(Role::Spawns, "explore"),
            mention(Role::Spawns, "worker"),
            mention(Role::Skill, "style"),
        ];
        let style = [mention(Role::Agent, "general-purpose"), mention(Role::SubAgent, "lint")];
        let worker = [mention(Role::Spawns, "*"), mention(Role::Spawns, "review-*")];
        let all = [
            checked("lead.md", CheckedType::Primary, "lead", &lead),
            checked("worker.md", CheckedType::Definition, "worker", &worker),
            checked("style/SKILL.md", CheckedType::Skill, "style", &style),
            checked("lint.yaml", CheckedType::Skill, "lint", &[]),
        ];
        assert_eq!(told(&all), [""; 0]);
    }

    #[test]
    fn a_name_that_leads_nowhere_is_told_with_the_nearest() {
        let lead = [
            mention(Role::Spawns, "explor"),
            mention(Role::Spawns, "coder"),
            mention(Role::Spawns, "lead"),
            mention(Role::Skill, "stile"),
        ];
        let style = [
            mention(Role::Agent, "zzz"),
            mention(Role::SubAgent, "style"),
            mention(Role::SubAgent, "lead"),
            mention(Role::SubAgent, "sytle2"),
            mention(Role::SubAgent, "review-*"),
            mention(Role::SubAgent, "*"),
            mention(Role::Skill, "st*"),
            mention(Role::Agent, "*"),
        ];
        let all = [
            checked("lead.md", CheckedType::Definition, "lead", &lead),
            checked("style/SKILL.md", CheckedType::Skill, "style", &style),
        ];
        assert_eq!(
            told(&all),
            [
                "lead.md:4: spawns: unknown definition `explor` (did you mean `explore`?) (correct or remove it)",
                "lead.md:4: spawns: `coder` is a primary definition, which is never a child (remove it there)",
                "lead.md:4: skills: unknown skill `stile` (did you mean `style`?) (correct or remove it)",
                "style/SKILL.md:4: agent: unknown definition `zzz` (correct or remove it)",
                "style/SKILL.md:4: sub_agents: unknown skill `lead`, only a definition of that name (correct or \
                 remove it)",
                "style/SKILL.md:4: sub_agents: unknown skill `sytle2` (did you mean `style`?) (correct or remove it)",
                "style/SKILL.md:4: sub_agents: `review-*` is a pattern, which matches nothing here (name each of them)",
                "style/SKILL.md:4: skills: `st*` is a pattern, which matches nothing here (name each of them)",
                "style/SKILL.md:4: agent: `*` is a pattern, which matches nothing here (name each of them)",
            ]
        );
    }

    #[test]
    fn two_of_one_name_in_one_place_are_told() {
        let elsewhere = CheckedFile { place: "user", ..checked("c.md", CheckedType::Definition, "a", &[]) };
        let all = [
            checked("a.md", CheckedType::Definition, "a", &[]),
            checked("b.md", CheckedType::Primary, "a", &[]),
            checked("a/SKILL.md", CheckedType::Skill, "a", &[]),
            elsewhere,
        ];
        assert_eq!(
            told(&all),
            ["b.md: the definition `a` is also in a.md, which is used (give one of them another name)"]
        );
    }
}
