//! Text by its width on a terminal: cutting, wrapping, padding.

use super::rows::{Row, Tint};

/// The beginning of a text that fits, and its width in columns. A cut is marked.
pub(crate) fn clip(text: &str, width: usize) -> (String, usize) {
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let columns = columns(c);
        if used + columns > width {
            // The mark replaces as many characters as it needs.
            while used + 1 > width {
                let Some(last) = cut.pop() else { return (cut, used) };
                used -= self::columns(last);
            }
            cut.push('…');
            return (cut, used + 1);
        }
        used += columns;
        cut.push(c);
    }
    (cut, used)
}

/// The width of a text in columns.
pub(crate) fn text_columns(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// The columns of a character: two for wide East Asian characters and emoji, none for combining marks.
pub(crate) fn columns(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe4f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// The row, cut at a width.
pub(crate) fn cut(row: &Row, width: usize) -> Row {
    let whole: usize = row.pieces.iter().map(|(_, text)| text_columns(text)).sum();
    if whole <= width {
        return row.clone();
    }
    let mut left = width;
    let mut pieces = Vec::new();
    for (tint, text) in &row.pieces {
        let used = text_columns(text);
        if used < left {
            left -= used;
            pieces.push((*tint, text.clone()));
            continue;
        }
        // Something follows or does not fit, so the mark is needed in any case.
        let mut cut = String::new();
        for c in text.chars() {
            if text_columns(&cut) + columns(c) + 1 > left {
                break;
            }
            cut.push(c);
        }
        cut.push('…');
        pieces.push((*tint, cut));
        break;
    }
    Row { pieces, agent: row.agent.clone() }
}

/// The row in several rows, broken between words where possible.
pub(crate) fn wrap(row: &Row, width: usize) -> Vec<Row> {
    wrap_with(row, width, true)
}

fn wrap_with(row: &Row, width: usize, breaks_words: bool) -> Vec<Row> {
    let mut wrapped = LineWrapper { rows: vec![Row::default()], used: 0, width, breaks_words };
    for (tint, text) in &row.pieces {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                wrapped.new_row();
            }
            for word in line.split_inclusive(' ') {
                wrapped.add(*tint, word);
            }
        }
    }
    wrapped.rows.iter_mut().for_each(trim_end);
    wrapped.rows
}

/// A text in lines that fit, broken between words. The lines of a paragraph begin where its first line does. A word that is
/// longer than a line, such as a path or a hash, has a line of its own: the terminal shows all of it, and it can be copied.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut whole = String::new();
    for line in text.split_inclusive('\n') {
        let (words, end) = line.strip_suffix('\n').map_or((line, ""), |words| (words, "\n"));
        let rest = words.trim_start_matches(' ');
        let indent = &words[..words.len() - rest.len()];
        if text_columns(words) <= width || indent.len() >= width / 2 {
            whole.push_str(line);
            continue;
        }
        let rows = wrap_with(&Row::plain(rest), width - indent.len(), false);
        let lines: Vec<String> = rows.iter().map(|row| format!("{indent}{}", row.text())).collect();
        whole.push_str(&lines.join("\n"));
        whole.push_str(end);
    }
    whole
}

/// A text beside what comes before its first line, in lines that fit.
pub(crate) fn hanging(start: &str, text: &str, width: usize) -> String {
    let indent = text_columns(start);
    let rows = wrap(&Row::plain(text), width.saturating_sub(indent).max(HANGING_MIN_COLUMNS));
    let mut whole = String::new();
    for (at, row) in rows.iter().enumerate() {
        let before = if at == 0 { start.to_owned() } else { " ".repeat(indent) };
        whole.push_str(format!("{before}{}", row.text()).trim_end());
        whole.push('\n');
    }
    whole
}

/// The least width of a text beside another one. A narrower terminal breaks it anyhow.
const HANGING_MIN_COLUMNS: usize = 16;

struct LineWrapper {
    rows: Vec<Row>,
    used: usize,
    width: usize,
    /// Whether a word that is longer than a row continues in the next one.
    breaks_words: bool,
}

impl LineWrapper {
    fn new_row(&mut self) {
        self.rows.push(Row::default());
        self.used = 0;
    }

    fn add(&mut self, tint: Tint, word: &str) {
        // A space at the end may be beyond the edge.
        if self.used > 0 && self.used + text_columns(word.trim_end()) > self.width {
            self.new_row();
        }
        for c in word.chars() {
            let columns = columns(c);
            if self.used + columns > self.width && (self.breaks_words || c == ' ') {
                if c == ' ' {
                    continue;
                }
                self.new_row();
            }
            self.used += columns;
            self.push(tint, c);
        }
    }

    fn push(&mut self, tint: Tint, c: char) {
        let Some(row) = self.rows.last_mut() else { return };
        match row.pieces.last_mut() {
            Some((last, text)) if *last == tint => text.push(c),
            _ => row.pieces.push((tint, c.to_string())),
        }
    }
}

fn trim_end(row: &mut Row) {
    if let Some((_, text)) = row.pieces.last_mut() {
        text.truncate(text.trim_end().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_the_terminal_ends() {
        assert_eq!(clip("short", 10), ("short".to_owned(), 5));
        assert_eq!(clip("exactly", 7), ("exactly".to_owned(), 7));
        assert_eq!(clip("too long", 5), ("too …".to_owned(), 5));
        assert_eq!(clip("世界世界", 5), ("世界…".to_owned(), 5));
        assert_eq!(clip("世界", 3), ("世…".to_owned(), 3));
        assert_eq!(clip("x", 0), (String::new(), 0));
    }

    #[test]
    fn a_row_of_pieces_is_cut_once() {
        let row =
            Row { pieces: vec![(Tint::Bold, "abc".to_owned()), (Tint::Dim, "defg".to_owned())], agent: None };
        let text = |width| cut(&row, width).text();
        assert_eq!([text(7), text(6), text(4), text(3), text(1)], ["abcdefg", "abcde…", "abc…", "ab…", "…"]);
    }

    #[test]
    fn a_paragraph_is_broken_between_words_and_keeps_its_indent() {
        assert_eq!(wrapped("short\n", 20), "short\n");
        assert_eq!(wrapped("one two three\n  four five six", 9), "one two\nthree\n  four\n  five\n  six");
        assert_eq!(wrapped("one two \n\nthree", 7), "one two\n\nthree");
        assert_eq!(wrapped("in /a/long/path there", 9), "in\n/a/long/path\nthere", "a path can be copied");
    }

    #[test]
    fn a_text_beside_another_continues_beneath_its_own_beginning() {
        assert_eq!(hanging("key ", "one two three four", 24), "key one two three four\n");
        assert_eq!(hanging("key ", "one two three four", 20), "key one two three\n    four\n");
    }

    #[test]
    fn a_word_that_is_longer_than_a_line_is_broken() {
        let texts = |text: &str| wrap(&Row::plain(text), 5).iter().map(Row::text).collect::<Vec<_>>();
        assert_eq!(texts("ab abcdefgh i"), ["ab", "abcde", "fgh i"]);
        assert_eq!(texts("ab\n\ncd"), ["ab", "", "cd"]);
        assert_eq!(texts("世界世"), ["世界", "世"]);
    }
}
