//! Which of several with one name counts.

use std::collections::BTreeMap;

use posse::Definition;
use posse_domain::skill::Skill;

use super::Entry;

/// What becomes of something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Precedence {
    /// It is what its name stands for.
    Counts,
    /// Another one of its name comes first: the one at this position of the same list.
    Shadowed(usize),
    /// It would take the place of another one, and the person has not trusted it: the one at this position of the same
    /// list, or a built-in one.
    WaitsForTrust(Option<usize>),
}

/// Something with a name.
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

/// Decides for all of them. They are in falling precedence, and the built-in ones come after all.
///
/// Of one name the first that is trusted counts. If none is, the first one does, unless that would take the place of a
/// built-in one, under whichever of its names: what nobody trusted adds something new at most.
pub(super) fn rank<T: HasName>(entries: &mut [Entry<T>], built_in: &[String]) {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, entry) in entries.iter().enumerate() {
        by_name.entry(entry.value.name()).or_default().push(at);
    }
    let mut standings = vec![Precedence::Counts; entries.len()];
    for (name, all) in by_name {
        let trusted = all.iter().copied().find(|at| entries[*at].trusted);
        let winner =
            trusted.or_else(|| all.first().copied().filter(|_| !built_in.iter().any(|own| own == name)));
        for at in all {
            standings[at] = match winner {
                Some(winner) if at == winner => Precedence::Counts,
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
            standing: Precedence::Counts,
            warnings: Vec::new(),
            unused_model: None,
            mentions: Vec::new(),
        };
        let mut entries: Vec<Entry<&'static str>> = entries.iter().map(entry).collect();
        rank(&mut entries, &built_in.iter().map(ToString::to_string).collect::<Vec<_>>());
        entries.into_iter().map(|entry| entry.standing).collect()
    }

    use Precedence::{Counts, Shadowed, WaitsForTrust};

    #[test]
    fn the_first_counts_and_shadows_the_rest() {
        assert_eq!(ranked(&[("a", true), ("b", true), ("a", true)], &["a"]), [Counts, Counts, Shadowed(0)]);
    }

    #[test]
    fn what_nobody_trusted_adds_but_takes_no_place() {
        assert_eq!(ranked(&[("new", false)], &["coder"]), [Counts]);
        assert_eq!(ranked(&[("coder", false)], &["coder"]), [WaitsForTrust(None)]);
        assert_eq!(ranked(&[("own", false), ("own", true)], &[]), [WaitsForTrust(Some(1)), Counts]);
        assert_eq!(ranked(&[("two", false), ("two", false)], &[]), [Counts, Shadowed(0)]);
        assert_eq!(ranked(&[("own", true), ("own", false)], &[]), [Counts, Shadowed(0)]);
    }
}
