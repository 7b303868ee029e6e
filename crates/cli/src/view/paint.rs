//! Turns lines and rows into the bytes of a frame.
//!
//! A frame replaces the one before: lines that stay are written where the old rows began, the new rows follow below. Each
//! line is erased from its end, and the rest of the screen once, below the last row. A terminal multiplexer takes the
//! erasing of a screen from its first line for a cleared screen and saves it in its history, so no frame does that.
//!
//! When a window becomes narrower, the terminal breaks the rows of the last frame. The program may learn of the new size
//! a few frames later: rows are written without line wrap, so that those frames take as many lines as they have rows, and
//! the first frame of the new size begins where the broken rows began.

use crossterm::cursor::MoveToPreviousLine;
use crossterm::queue;
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, DisableLineWrap, EnableLineWrap, EndSynchronizedUpdate,
};

use super::rows::{Row, Tint};
use super::width::{columns, cut, wrap};

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: u16,
    pub(super) rows: u16,
}

impl Size {
    /// The columns of a row. The last column stays free: a terminal that has written it may begin a new line.
    fn row_columns(self) -> usize {
        usize::from(self.columns).saturating_sub(1).max(1)
    }
}

/// What the terminal shows of the last frame.
#[derive(Debug, Default)]
pub(super) struct Painter {
    /// The columns of each row; the cursor is below the last one.
    drawn: Vec<usize>,
    is_coloured: bool,
}

impl Painter {
    pub(super) fn new(is_coloured: bool) -> Self {
        Self { drawn: Vec::new(), is_coloured }
    }

    /// Leaves the rows on the screen: the next frame begins below.
    pub(super) fn leave(&mut self) {
        self.drawn.clear();
    }

    /// The bytes that replace the last frame: `lines` stay, `rows` are replaced by the next frame.
    pub(super) fn frame(&mut self, lines: &[Row], rows: &[Row], size: Size) -> Vec<u8> {
        let mut bytes = Vec::new();
        let up = self.rows_on_screen(size);
        drop(queue!(bytes, BeginSynchronizedUpdate, DisableLineWrap));
        if up > 0 {
            drop(queue!(bytes, MoveToPreviousLine(up)));
        }
        for line in lines.iter().flat_map(|line| wrap(line, size.row_columns())) {
            self.write_row(&mut bytes, &line);
        }
        let rows: Vec<Row> = rows.iter().map(|row| cut(row, size.row_columns())).collect();
        for row in &rows {
            self.write_row(&mut bytes, row);
        }
        if lines.is_empty() && rows.is_empty() {
            // Nothing was written, so the cursor may be in the first line.
            for _ in 0..up {
                drop(queue!(bytes, Clear(ClearType::UntilNewLine), Print('\n')));
            }
            if up > 0 {
                drop(queue!(bytes, MoveToPreviousLine(up)));
            }
        } else {
            drop(queue!(bytes, Clear(ClearType::FromCursorDown)));
        }
        drop(queue!(bytes, EnableLineWrap, EndSynchronizedUpdate));
        self.drawn = rows.iter().map(row_columns).collect();
        bytes
    }

    /// How many lines the last frame takes. In a window that became narrower, a long row takes several.
    fn rows_on_screen(&self, size: Size) -> u16 {
        let columns = usize::from(size.columns).max(1);
        let rows: usize = self.drawn.iter().map(|drawn| drawn.div_ceil(columns).max(1)).sum();
        u16::try_from(rows).unwrap_or(u16::MAX).min(size.rows)
    }

    fn write_row(&self, bytes: &mut Vec<u8>, row: &Row) {
        for (tint, text) in &row.pieces {
            write_piece(bytes, *tint, text, self.is_coloured);
        }
        drop(queue!(bytes, Clear(ClearType::UntilNewLine), Print('\n')));
    }
}

/// A text with the sequences of its colour.
pub(crate) fn painted(tint: Tint, text: &str, is_coloured: bool) -> String {
    let mut bytes = Vec::new();
    write_piece(&mut bytes, tint, text, is_coloured);
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn write_piece(bytes: &mut Vec<u8>, tint: Tint, text: &str, is_coloured: bool) {
    drop(match tint {
        _ if !is_coloured => queue!(bytes, Print(text)),
        Tint::Plain => queue!(bytes, Print(text)),
        Tint::Dim => attribute(bytes, Attribute::Dim, text),
        Tint::Bold => attribute(bytes, Attribute::Bold, text),
        Tint::Selected => attribute(bytes, Attribute::Reverse, text),
        Tint::Good => colour(bytes, Color::Green, text),
        Tint::Bad => colour(bytes, Color::Red, text),
        Tint::Busy => colour(bytes, Color::Cyan, text),
        Tint::Warning => colour(bytes, Color::Yellow, text),
    });
}

fn row_columns(row: &Row) -> usize {
    row.pieces.iter().flat_map(|(_, text)| text.chars()).map(columns).sum()
}

fn attribute(bytes: &mut Vec<u8>, attribute: Attribute, text: &str) -> std::io::Result<()> {
    queue!(bytes, SetAttribute(attribute), Print(text), SetAttribute(Attribute::Reset))
}

fn colour(bytes: &mut Vec<u8>, colour: Color, text: &str) -> std::io::Result<()> {
    queue!(bytes, SetForegroundColor(colour), Print(text), ResetColor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { columns: 20, rows: 6 };

    fn row(text: &str) -> Row {
        Row::plain(text)
    }

    fn frame(painter: &mut Painter, lines: &[&str], rows: &[&str], size: Size) -> String {
        let convert = |texts: &[&str]| texts.iter().map(|text| row(text)).collect::<Vec<_>>();
        let bytes = painter.frame(&convert(lines), &convert(rows), size);
        let text = String::from_utf8(bytes).expect("UTF-8");
        let body = text.strip_prefix("\u{1b}[?2026h\u{1b}[?7l");
        let body = body.and_then(|text| text.strip_suffix("\u{1b}[?7h\u{1b}[?2026l"));
        body.expect("a synchronized update").to_owned()
    }

    #[test]
    fn a_frame_is_erased_line_by_line_and_once_below_its_last_row() {
        let mut painter = Painter::new(false);
        assert_eq!(frame(&mut painter, &[], &["one", "two"], SIZE), "one\u{1b}[K\ntwo\u{1b}[K\n\u{1b}[J");
        assert_eq!(
            frame(&mut painter, &["stays"], &["one"], SIZE),
            "\u{1b}[2Fstays\u{1b}[K\none\u{1b}[K\n\u{1b}[J"
        );
    }

    #[test]
    fn a_frame_without_rows_never_erases_the_screen_from_its_first_line() {
        let mut painter = Painter::new(false);
        frame(&mut painter, &[], &["one", "two"], SIZE);
        assert_eq!(frame(&mut painter, &[], &[], SIZE), "\u{1b}[2F\u{1b}[K\n\u{1b}[K\n\u{1b}[2F");
        assert_eq!(frame(&mut painter, &[], &[], SIZE), "");
    }

    #[test]
    fn rows_that_a_narrower_window_has_broken_are_replaced_in_full() {
        let mut painter = Painter::new(false);
        frame(&mut painter, &[], &["fourteen chars", "x"], SIZE);
        let narrow = Size { columns: 6, rows: 6 };
        // Three lines of the first row, and one of the second.
        assert_eq!(frame(&mut painter, &[], &["y"], narrow), "\u{1b}[4Fy\u{1b}[K\n\u{1b}[J");
    }

    #[test]
    fn lines_that_stay_are_wrapped_and_rows_are_cut() {
        let mut painter = Painter::new(false);
        let text = "a note that is longer than the terminal";
        assert_eq!(
            frame(&mut painter, &[text], &[text], SIZE),
            "a note that is\u{1b}[K\nlonger than the\u{1b}[K\nterminal\u{1b}[K\na note that is lon…\u{1b}[K\n\u{1b}[J"
        );
    }

    #[test]
    fn without_colour_there_are_no_colours() {
        let coloured = Row { pieces: vec![(Tint::Bad, "x".to_owned())], agent: None };
        let bytes = |is_coloured| Painter::new(is_coloured).frame(&[], std::slice::from_ref(&coloured), SIZE);
        assert!(!String::from_utf8(bytes(false)).expect("UTF-8").contains('m'));
        assert!(String::from_utf8(bytes(true)).expect("UTF-8").contains("\u{1b}[38;5;9mx\u{1b}[0m"));
    }
}
