//! Compares outputs without what differs from run to run: ids, hashes, numbers, times, sizes and widths of columns.

/// A line of a page that stands for any lines.
pub(super) const ANY_LINES: &str = "...";

/// Letters and digits of the id of a run.
const ID_LEN: usize = 8;
/// A word of hexadecimal digits from this length on is a hash.
const HASH_LEN: usize = 12;
const UNITS_OF_TIME: [&str; 5] = ["ms", "s", "min", "h", "d"];
const UNITS_OF_SIZE: [&str; 4] = ["B", "KiB", "MiB", "GiB"];

/// Whether the printed lines are those that a page shows.
pub(super) fn fits(shown: &[String], printed: &[String]) -> bool {
    let shown: Vec<String> = shown.iter().map(|line| plain(line)).collect();
    let printed: Vec<String> = printed.iter().map(|line| plain(line)).collect();
    fits_from(&shown, &printed)
}

fn fits_from(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == ANY_LINES => {
            (0..=printed.len()).any(|skipped| fits_from(rest, &printed[skipped..]))
        }
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, others)| line == first && fits_from(rest, others))
        }
    }
}

/// A line with everything that differs from run to run replaced by a word.
fn plain(line: &str) -> String {
    if line.trim() == ANY_LINES {
        return ANY_LINES.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let word = plain_word(word);
        let bare = word.trim_end_matches([',', ';', ':', ')']);
        let after_number = words.last().is_some_and(|last| last.trim_start_matches('(') == "#");
        let unit = match after_number {
            true if UNITS_OF_TIME.contains(&bare) => Some("TIME"),
            true if UNITS_OF_SIZE.contains(&bare) => Some("SIZE"),
            _ => None,
        };
        match unit {
            Some(unit) => {
                let last = words.pop().unwrap_or_default();
                let opens = if last.starts_with('(') { "(" } else { "" };
                words.push(format!("{opens}{unit}{}", &word[bare.len()..]));
            }
            None => words.push(word),
        }
    }
    words.join(" ")
}

/// Replaces ids, hashes and numbers, and shortens rules.
fn plain_word(word: &str) -> String {
    // `2026-03-31T14:00:00.000Z`
    let is_time =
        word.len() >= 20 && word.ends_with('Z') && word.bytes().take(4).all(|byte| byte.is_ascii_digit());
    if is_time {
        return "TIMESTAMP".to_owned();
    }
    let mut plain = String::new();
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric();
        let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        if len == 0 {
            if !(first == '─' && plain.ends_with('─')) {
                plain.push(first);
            }
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (part, after) = rest.split_at(len);
        plain.push_str(plain_part(part));
        rest = after;
    }
    // `24.7k` and `1.2.3` are numbers too, and the random name of a temporary directory is none of ours.
    while let Some(at) = plain.find("#.#") {
        plain.replace_range(at..at + 3, "#");
    }
    plain
}

fn plain_part(part: &str) -> &str {
    let is_number = part.trim_end_matches(['k', 'M']).bytes().all(|byte| byte.is_ascii_digit());
    let is_id = |part: &str| {
        part.len() == ID_LEN && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    match part {
        "k" | "M" => part,
        _ if is_number && part.len() < ID_LEN => "#",
        _ if is_id(part) => "ID",
        _ if part.len() >= HASH_LEN && part.bytes().all(|byte| byte.is_ascii_hexdigit()) => "HASH",
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn ids_numbers_times_sizes_and_columns_are_not_compared() {
        let shown = "started 2026-03-31T14:00:00.000Z\nrun k3f9ab2c completed: 2.1 s, 24.7k tokens\nk3f9ab2c  completed   2   (1.5 KiB)  ╭────";
        let printed = "started 2027-01-02T03:04:05.678Z\nrun zzzzzzz0 completed: 120 ms, 980 tokens\nzzzzzzz0 completed 11 (800 B) ╭─";
        assert!(fits(&lines(shown), &lines(printed)));
    }

    #[test]
    fn words_are_compared() {
        assert!(!fits(&lines("run k3f9ab2c completed: 2.1 s"), &lines("run k3f9ab2c failed: 2.1 s")));
        assert!(!fits(&lines("one"), &lines("one\ntwo")));
    }

    #[test]
    fn three_dots_stand_for_any_lines() {
        assert!(fits(&lines("one\n...\nfour"), &lines("one\ntwo\nthree\nfour")));
        assert!(fits(&lines("one\n..."), &lines("one")));
        assert!(!fits(&lines("one\n...\nfive"), &lines("one\ntwo\nthree\nfour")));
    }
}
