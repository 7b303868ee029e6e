//! The name that was probably meant.

/// Longest name that is compared: the cost grows with the square of it.
const COMPARED_MAX_CHARS: usize = 128;

/// The candidate most like `name`, if one is like it at all. Of equals the first counts.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    // A third of the letters may differ; in a short name one.
    let most = (name.chars().count() / 3).max(1);
    let near =
        candidates.into_iter().map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate));
    near.filter(|(distance, _)| *distance <= most).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// The name that was probably meant, as an error adds it; empty if there is none.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// How many letters must be added, left out or changed to make one text of the other.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(COMPARED_MAX_CHARS).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, letter) in left.chars().take(COMPARED_MAX_CHARS).enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (at, other) in right.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[at + 1];
            row[at + 1] = changed.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name() {
        let names = ["explore", "general", "planner", "researcher"];
        for (typed, meant) in [
            ("explor", Some("explore")),
            ("Explorer", Some("explore")),
            ("genral", Some("general")),
            ("plan", None),
            ("", None),
            ("something else", None),
        ] {
            assert_eq!(nearest(typed, names), meant, "{typed}");
        }
    }

    #[test]
    fn the_distance_counts_single_changes() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
