//! Shows where two texts begin to differ, in a few lines.

/// Lines shown before the first difference.
const CONTEXT_LINES: usize = 2;
/// Differing lines shown of each side.
const SHOWN_LINES: usize = 8;
/// Characters shown of a line.
const LINE_CHARS: usize = 160;
/// Characters shown before the first difference of a long line.
const LEAD_CHARS: usize = 40;

/// The lines in which two texts differ: `-` is recorded, `+` is now. Bounded, whatever the texts are.
pub(super) fn differing(recorded: &str, now: &str) -> String {
    let old: Vec<&str> = recorded.lines().collect();
    let new: Vec<&str> = now.lines().collect();
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[same..], &new[same..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    let mut shown = Vec::new();
    for line in &old[same.saturating_sub(CONTEXT_LINES)..same] {
        shown.push(format!("  {}", clip(line, 0)));
    }
    // Long lines are shown from where they differ.
    let lead = match (old_rest.first(), new_rest.first()) {
        (Some(old), Some(new)) => common_chars(old, new).saturating_sub(LEAD_CHARS),
        _ => 0,
    };
    push(&mut shown, '-', old_rest, lead);
    push(&mut shown, '+', new_rest, lead);
    if old_rest.is_empty() && new_rest.is_empty() {
        shown.push("  (they differ only in how their lines end)".to_owned());
    }
    shown.join("\n")
}

fn push(shown: &mut Vec<String>, sign: char, lines: &[&str], lead: usize) {
    for (at, line) in lines.iter().take(SHOWN_LINES).enumerate() {
        shown.push(format!("{sign} {}", clip(line, if at == 0 { lead } else { 0 })));
    }
    if lines.len() > SHOWN_LINES {
        shown.push(format!("{sign} [{} more lines]", lines.len() - SHOWN_LINES));
    }
}

fn common_chars(old: &str, new: &str) -> usize {
    old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count()
}

fn clip(line: &str, lead: usize) -> String {
    let lead = if line.chars().nth(LINE_CHARS).is_some() { lead } else { 0 };
    let mut chars = line.chars().skip(lead);
    let mut text: String = chars.by_ref().take(LINE_CHARS).collect();
    if lead > 0 {
        text.insert(0, '…');
    }
    if chars.next().is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_differing_lines_are_shown_with_what_stands_before() {
        let shown = differing("a\nb\nc\nd\ne", "a\nb\nc\nD\ne");
        assert_eq!(shown, "  b\n  c\n- d\n+ D");
    }

    #[test]
    fn a_line_that_was_added_or_is_gone_stands_alone() {
        assert_eq!(differing("a\nc", "a\nb\nc"), "  a\n+ b");
        assert_eq!(differing("a\nb\nc", "a\nc"), "  a\n- b");
        assert_eq!(differing("a\n", "a"), "  a\n  (they differ only in how their lines end)");
    }

    #[test]
    fn long_lines_are_shown_from_where_they_differ() {
        let (old, new) = (format!("{}old tail", "x".repeat(500)), format!("{}new tail", "x".repeat(500)));
        let shown = differing(&old, &new);
        let lead = "x".repeat(LEAD_CHARS);
        assert_eq!(shown, format!("- …{lead}old tail\n+ …{lead}new tail"));
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let side = |c: char| (0..10_000).map(|_| c.to_string().repeat(1_000)).collect::<Vec<_>>().join("\n");
        let shown = differing(&side('a'), &side('b'));
        assert_eq!(shown.lines().count(), 2 * (SHOWN_LINES + 1));
        assert!(shown.lines().all(|line| line.chars().count() <= LINE_CHARS + 4), "{shown}");
        assert!(shown.ends_with("+ [9992 more lines]"));
    }
}
