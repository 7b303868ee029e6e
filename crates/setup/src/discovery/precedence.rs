//! Decides which of several entries with the same name counts.

use std::collections::BTreeMap;

use posse::Definition;
use posse_domain::skill::Skill;

use super::Entry;

/// Whether the name of an entry refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precedence {
    /// The name refers to this entry.
    First,
    /// The entry at this index of the same list comes first.
    Shadowed(usize),
    /// The entry would replace another one, but the user has not trusted it. The other one is at this index of the same
    /// list, or built in.
    WaitsForTrust(Option<usize>),
}

pub(super) trait HasName {
    fn name(&self) -> &str;
}

impl HasName for Definition {
    fn name(&self) -> &str {
        &self.name
    }
}

impl HasName for Skill {
    fn name(&self) -> &str {
        &self.name
    }
}

/// Decides for all entries. They are in falling precedence, and the built-in ones come last.
///
/// The first trusted entry of a name counts. If none is trusted, the first one counts, unless it would replace a
/// built-in one under any of its names: an untrusted file can only add new names.
pub(super) fn rank<T: HasName>(entries: &mut [Entry<T>], built_in: &[String]) {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        by_name.entry(entry.value.name()).or_default().push(at);
    }
    let mut standings = vec![Precedence::First; entries.len()];
    for (name, all) in by_name {
        let trusted = all.iter().copied().find(|at| entries[*at].trusted);
        let winner =
            trusted.or_else(|| all.first().copied().filter(|_| !built_in.iter().any(|own| own == name)));
        for at in all {
            standings[at] = match winner {
                Some(winner) if at == winner => Precedence::First,
                Some(winner) if at > winner => Precedence::Shadowed(winner),
                other => Precedence::WaitsForTrust(other),
            };
        }
    }
    for (entry, standing) in entries.iter_mut().zip(standings) {
        entry.standing = standing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasName for &'static str {
        fn name(&self) -> &str {
            self
        }
    }

    fn ranked(entries: &[(&'static str, bool)], built_in: &[&str]) -> Vec<Precedence> {
        let entry = |&(value, trusted): &(&'static str, bool)| Entry {
            value,
            place: 0,
            path: value.into(),
            trusted,
            standing: Precedence::First,
            warnings: Vec::new(),
            unused_model: None,
            mentions: Vec::new(),
        };
        let mut entries: Vec<Entry<&'static str>> = entries.iter().map(entry).collect();
        rank(&mut entries, &built_in.iter().map(ToString::to_string).collect::<Vec<_>>());
        entries.into_iter().map(|entry| entry.standing).collect()
    }

    use Precedence::{First, Shadowed, WaitsForTrust};

    #[test]
    fn the_first_counts_and_shadows_the_rest() {
        assert_eq!(ranked(&[("a", true), ("b", true), ("a", true)], &["a"]), [First, First, Shadowed(0)]);
    }

    #[test]
    fn an_untrusted_file_adds_but_replaces_nothing() {
        assert_eq!(ranked(&[("new", false)], &["coder"]), [First]);
        assert_eq!(ranked(&[("coder", false)], &["coder"]), [WaitsForTrust(None)]);
        assert_eq!(ranked(&[("own", false), ("own", true)], &[]), [WaitsForTrust(Some(1)), First]);
        assert_eq!(ranked(&[("two", false), ("two", false)], &[]), [First, Shadowed(0)]);
        assert_eq!(ranked(&[("own", true), ("own", false)], &[]), [First, Shadowed(0)]);
    }
}
