//! Shortens a long line to the part around a match.

/// Marks an omitted part.
const MARK: &str = "[…]";
/// How much is kept before the match.
const LEAD_BYTES: usize = 100;

/// The part of `line` around byte `around`, at most `max` bytes long without the marks, as text.
pub(super) fn clip(line: &[u8], around: usize, max: usize) -> String {
    if line.len() <= max {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = around.saturating_sub(LEAD_BYTES.min(max / 2)).min(line.len() - max);
    let end = start + max;
    let (start, end) = (boundary(line, start), boundary(line, end));
    let before = if start > 0 { MARK } else { "" };
    let after = if end < line.len() { MARK } else { "" };
    format!("{before}{}{after}", String::from_utf8_lossy(&line[start..end]))
}

/// The next character boundary at or after `at`.
fn boundary(line: &[u8], at: usize) -> usize {
    let inside = line[at..].iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000);
    at + inside.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_line_is_kept() {
        assert_eq!(clip(b"abc", 0, 3), "abc");
        assert_eq!(clip(b"a\xffc", 0, 9), "a\u{fffd}c");
    }

    #[test]
    fn a_long_line_is_cut_around_the_match() {
        let line = format!("{}needle{}", "a".repeat(1_000), "b".repeat(1_000));
        let clipped = clip(line.as_bytes(), 1_000, 220);
        assert_eq!(clipped, format!("[…]{}needle{}[…]", "a".repeat(100), "b".repeat(114)));
        assert_eq!(clip(line.as_bytes(), 0, 5), "aaaaa[…]");
        assert_eq!(clip(line.as_bytes(), 2_005, 5), "[…]bbbbb");
    }

    #[test]
    fn no_character_is_cut_in_two() {
        let line = "ä".repeat(500);
        for around in 0..40 {
            let clipped = clip(line.as_bytes(), 400 + around, 101);
            assert!(!clipped.contains('\u{fffd}'), "{clipped}");
        }
    }
}
