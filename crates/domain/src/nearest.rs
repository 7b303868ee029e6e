//! Suggestions for error messages about an unknown name: the name that the user or model probably meant, and some that
//! exist.

/// Maximum length of a compared name, because the cost is quadratic.
const COMPARED_MAX_CHARS: usize = 128;
/// Maximum number of names in one message.
const NAMES_SHOWN_MAX: usize = 20;

/// The candidate nearest to `name`, if one is near enough. Among equals, a candidate of the same length wins, then the
/// first.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    let length = name.chars().count();
    // A third of the letters may differ, and one letter in a short name.
    let most = (length / 3).max(1);
    let near = candidates.into_iter().map(|candidate| {
        let lower = candidate.to_lowercase();
        (distance(&name, &lower), lower.chars().count().abs_diff(length), candidate)
    });
    let near = near.filter(|(distance, ..)| *distance <= most);
    near.min_by_key(|(distance, longer, _)| (*distance, *longer)).map(|(.., name)| name)
}

/// The suggestion that an error appends. Empty if there is none.
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// The first of these names and the number of the others. Empty if there are none. Files decide how many names exist,
/// so the list is bounded.
pub fn some_of<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let mut names = names.into_iter();
    let shown: Vec<T> = names.by_ref().take(NAMES_SHOWN_MAX).collect();
    let shown: Vec<&str> = shown.iter().map(AsRef::as_ref).collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The edit distance: letters added, removed, changed or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().take(COMPARED_MAX_CHARS).collect();
    let left: Vec<char> = left.chars().take(COMPARED_MAX_CHARS).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (line, letter) in left.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(line + 1);
        for (at, other) in right.iter().enumerate() {
            let changed = above[at] + usize::from(letter != other);
            let mut least = changed.min(above[at + 1] + 1).min(row[at] + 1);
            if line > 0 && at > 0 && *letter == right[at - 1] && left[line - 1] == *other {
                least = least.min(before[at - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_some_are_told() {
        assert_eq!(some_of::<&str>([]), "");
        assert_eq!(some_of(["a", "b"]), "a, b");
        let told = some_of((0..2_000).map(|number| format!("agent-{number}")));
        assert!(told.starts_with("agent-0, ") && told.ends_with(", agent-19 and 1980 more"), "{told}");
    }

    #[test]
    fn a_typing_error_finds_its_name() {
        let names = ["explore", "general", "planner", "researcher"];
        for (typed, meant) in [
            ("explor", Some("explore")),
            ("Explorer", Some("explore")),
            ("genral", Some("general")),
            ("palnner", Some("planner")),
            ("plan", None),
            ("", None),
            ("something else", None),
        ] {
            assert_eq!(nearest(typed, names), meant, "{typed}");
        }
    }

    #[test]
    fn two_letters_in_the_wrong_order_are_one_mistake() {
        assert_eq!(nearest("modle", ["mode", "model", "memory"]), Some("model"));
        assert_eq!(nearest("tolos", ["tools"]), Some("tools"));
    }

    #[test]
    fn the_distance_counts_single_changes() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
        assert_eq!(distance("modle", "model"), 1);
        assert_eq!(distance("ca", "abc"), 3);
    }
}
