//! Lists definitions and skills for models, within a size limit. A machine may have hundreds of them, and each request
//! contains the list.

use std::fmt::Write;

use posse_domain::definition::Trust;
use posse_domain::skill::{DESCRIPTION_MAX_CHARS, Skill};

/// Maximum size of the lines of one list. Entries that do not fit are named without their description.
pub const LIST_MAX_BYTES: usize = 16 * 1024;
/// Maximum size of those names. Further ones are only counted.
const NAMES_MAX_BYTES: usize = 8 * 1024;

#[derive(Debug, Clone, Copy)]
pub struct ListEntry<'a> {
    pub name: &'a str,
    /// When to use the entry.
    pub description: &'a str,
    /// The text after the description.
    pub note: &'a str,
    /// Whether each operation of the entry needs an approval, because the user has not trusted it.
    pub asks: bool,
}

/// A list in Markdown, one entry per line. Untrusted entries come last, so that no project can crowd out a user's own.
pub fn list<'a>(entries: impl IntoIterator<Item = ListEntry<'a>>) -> String {
    let mut entries: Vec<ListEntry<'a>> = entries.into_iter().collect();
    entries.sort_by_key(|entry| entry.asks);
    let mut text = String::new();
    let mut names = String::new();
    let mut uncounted = 0_usize;
    for ListEntry { name, description, note, .. } in entries {
        let line = format!("\n- `{name}`: {}{note}", one_line(description));
        // After the first entry that does not fit, all others are only named, which keeps the order.
        if names.is_empty() && text.len() + line.len() <= LIST_MAX_BYTES {
            text.push_str(&line);
        } else if names.len() + name.len() <= NAMES_MAX_BYTES {
            let comma = if names.is_empty() { "" } else { ", " };
            let _ = write!(names, "{comma}`{name}`");
        } else {
            uncounted += 1;
        }
    }
    if !names.is_empty() {
        let more = if uncounted == 0 { String::new() } else { format!(" and {uncounted} more") };
        let _ = write!(text, "\n- further ones, by name only: {names}{more}");
    }
    text
}

fn one_line(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((end, _)) = words.char_indices().nth(DESCRIPTION_MAX_CHARS) {
        words.truncate(end);
        words.push('…');
    }
    words
}

/// The tools with which an agent can use the skills in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillTools {
    /// With `skill`.
    pub loads: bool,
    /// With `delegate_to_agent`.
    pub delegates: bool,
}

/// The part of a system prompt that lists the skills an agent may use. Empty if there are none.
pub fn skills_section<'a>(skills: impl IntoIterator<Item = &'a Skill>, tools: SkillTools) -> String {
    let entries = skills.into_iter().map(|skill| {
        let note = match (skill.fork, skill.trust) {
            (true, Trust::Untrusted) => {
                " (carried out by a sub-agent; not trusted: each of its calls asks a person)"
            }
            (true, Trust::Trusted) => " (carried out by a sub-agent)",
            (false, Trust::Untrusted) => " (not trusted: taking it in asks a person)",
            (false, Trust::Trusted) => "",
        };
        let asks = skill.trust == Trust::Untrusted;
        ListEntry { name: &skill.name, description: &skill.description, note, asks }
    });
    let list = list(entries);
    if list.is_empty() {
        return String::new();
    }
    let how = match tools {
        SkillTools { loads: true, delegates: false } => {
            "When one of these fits what you are doing, call `skill` with its name first: you get its instructions."
        }
        SkillTools { loads: false, .. } => {
            "Each of these can be given work: call `delegate_to_agent` with its name, and a sub-agent does it."
        }
        SkillTools { loads: true, delegates: true } => {
            "When one of these fits what you are doing, call `skill` with its name first: you get its instructions. To \
             have a sub-agent do a piece of work by one, call `delegate_to_agent`."
        }
    };
    format!("\n# Skills\n\n{how}\n{list}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed<'a>(name: &'a str, description: &'a str) -> ListEntry<'a> {
        ListEntry { name, description, note: "", asks: false }
    }

    #[test]
    fn what_nobody_trusted_comes_last_and_crowds_nothing_out() {
        let names: Vec<String> = (0..500).map(|number| format!("a-{number:03}")).collect();
        let long = "word ".repeat(40);
        let untrusted = names.iter().map(|name| ListEntry { asks: true, ..listed(name, &long) });
        let text = list(untrusted.chain([listed("pdf", "Mine."), listed("zip", "Mine too.")]));
        assert!(text.starts_with("\n- `pdf`: Mine.\n- `zip`: Mine too.\n- `a-000`: word"), "{text}");
    }

    #[test]
    fn a_short_list_is_shown_whole_and_each_entry_is_one_line() {
        let text =
            list([listed("a", " does\n  one\tthing "), ListEntry { note: " Really.", ..listed("b", "B.") }]);
        assert_eq!(text, "\n- `a`: does one thing\n- `b`: B. Really.");
        assert_eq!(list([]), "");
    }

    #[test]
    fn a_long_description_is_cut() {
        let text = list([listed("a", &"é".repeat(DESCRIPTION_MAX_CHARS + 1))]);
        assert_eq!(text.chars().filter(|letter| *letter == 'é').count(), DESCRIPTION_MAX_CHARS);
        assert!(text.ends_with('…'));
    }

    #[test]
    fn a_list_that_is_too_long_ends_in_names_and_those_in_a_count() {
        let names: Vec<String> = (0..2_000).map(|number| format!("skill-{number:04}")).collect();
        let long = "word ".repeat(40);
        let text = list(names.iter().map(|name| listed(name, &long)));
        assert!(text.len() < LIST_MAX_BYTES + NAMES_MAX_BYTES + 100, "{}", text.len());
        let (whole, rest) = text.split_once("\n- further ones, by name only: ").expect("a rest");
        let shown = whole.lines().count() - 1;
        let (bare, more) = rest.rsplit_once(" and ").expect("a count");
        let counted: usize = more.trim_end_matches(" more").parse().expect("a number");
        assert_eq!(shown + bare.split(", ").count() + counted, names.len(), "none is lost");
        assert!(shown > 50 && counted > 0);
    }
}
