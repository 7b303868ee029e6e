//! Selects parts of a text by line number.

/// Some consecutive lines of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRange<'a> {
    /// The lines without their line feeds, and without a carriage return before one.
    pub lines: Vec<&'a [u8]>,
    /// The number of lines of the whole text.
    pub total: usize,
}

/// Takes `count` lines of `bytes` from line `first` on, counted from 1. A line feed ends a line, so a final one does
/// not begin another.
pub fn line_range(bytes: &[u8], first: usize, count: usize) -> LineRange<'_> {
    let skipped = first.saturating_sub(1);
    let end = skipped.saturating_add(count);
    let mut lines = Vec::new();
    let mut total = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if (skipped..end).contains(&total) {
            lines.push(without_end(line));
        }
        total += 1;
    }
    LineRange { lines, total }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str, first: usize, count: usize) -> (Vec<&str>, usize) {
        let range = line_range(text.as_bytes(), first, count);
        (range.lines.into_iter().map(|line| str::from_utf8(line).unwrap()).collect(), range.total)
    }

    #[test]
    fn lines_are_counted_as_editors_do() {
        assert_eq!(range("", 1, 9), (vec![], 0));
        assert_eq!(range("a", 1, 9), (vec!["a"], 1));
        assert_eq!(range("a\n", 1, 9), (vec!["a"], 1));
        assert_eq!(range("a\n\n", 1, 9), (vec!["a", ""], 2));
        assert_eq!(range("a\r\nb\r\n", 1, 9), (vec!["a", "b"], 2));
        assert_eq!(range("a\nb\nc\nd", 2, 2), (vec!["b", "c"], 4));
        assert_eq!(range("a\nb", 7, 2), (vec![], 2));
        assert_eq!(range("a\nb", 0, usize::MAX), (vec!["a", "b"], 2));
    }
}
