//! Draws the line that is typed: the text over several rows, the cursor, and suggestions below.

use std::fmt::Write;

use super::editor::Editor;
use crate::term;
use crate::view::width::{clip, columns, text_columns};

/// Rows of suggestions.
const MENU_ROWS: usize = 6;
/// Before the first row of a text, and before the others.
const FIRST: &str = "> ";
const NEXT: &str = "  ";

/// Rows on a terminal, and the cursor in them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct LineFrame {
    pub(super) rows: Vec<String>,
    /// The number of rows that belong to the text; suggestions follow.
    pub(super) text_rows: usize,
    pub(super) cursor_row: usize,
    pub(super) cursor_column: usize,
}

/// The rows of an editor on a terminal of this size.
pub(super) fn draw(editor: &Editor, width: usize, height: usize) -> LineFrame {
    // The last column stays free: a terminal that has written it may begin a new line.
    let width = width.saturating_sub(1).max(text_columns(FIRST) + 2);
    let mut drawn = text_rows(editor, width);
    if let Some(search) = &editor.search {
        let query = term::visible_line(&search.query);
        drawn.rows.push(clip(&format!("search: {query}"), width).0);
    }
    if let Some(menu) = &editor.menu {
        let first = menu.chosen.unwrap_or(0).saturating_sub(MENU_ROWS - 1);
        for (at, item) in menu.items.iter().enumerate().skip(first).take(MENU_ROWS) {
            let mark = if menu.chosen == Some(at) { "▸" } else { " " };
            let text = format!("{mark} {:16} {}", item.text.trim_end(), item.about);
            drawn.rows.push(clip(text.trim_end(), width).0);
        }
        let more = menu.items.len().saturating_sub(first + MENU_ROWS);
        if more > 0 {
            drawn.rows.push(format!("  {more} more"));
        }
    }
    cut(&mut drawn, height.max(1));
    drawn
}

/// The rows of the text alone.
fn text_rows(editor: &Editor, width: usize) -> LineFrame {
    let mut drawn = LineFrame { rows: vec![FIRST.to_owned()], ..LineFrame::default() };
    let mut used = text_columns(FIRST);
    let mark = |drawn: &mut LineFrame, used: usize| {
        (drawn.cursor_row, drawn.cursor_column) = (drawn.rows.len() - 1, used);
    };
    for (at, c) in editor.text.char_indices() {
        // What a terminal would act on is shown as its escape.
        let shown =
            if term::is_plain(c) || c == '\n' { c.to_string() } else { term::visible_line(&c.to_string()) };
        let needed: usize = if c == '\n' { 0 } else { shown.chars().map(columns).sum() };
        if used + needed > width {
            drawn.rows.push(NEXT.to_owned());
            used = text_columns(NEXT);
        }
        if at == editor.cursor {
            mark(&mut drawn, used);
        }
        if c == '\n' {
            drawn.rows.push(NEXT.to_owned());
            used = text_columns(NEXT);
        } else {
            if let Some(row) = drawn.rows.last_mut() {
                row.push_str(&shown);
            }
            used += needed;
        }
    }
    if editor.cursor == editor.text.len() {
        if used >= width {
            drawn.rows.push(NEXT.to_owned());
            used = text_columns(NEXT);
        }
        mark(&mut drawn, used);
    }
    drawn.text_rows = drawn.rows.len();
    drawn
}

/// Leaves as many rows as the terminal has, around the cursor.
fn cut(drawn: &mut LineFrame, height: usize) {
    let first = (drawn.cursor_row + 1).saturating_sub(height);
    drawn.rows.drain(..first);
    drawn.rows.truncate(height);
    drawn.cursor_row -= first;
    drawn.text_rows = drawn.text_rows.saturating_sub(first).min(drawn.rows.len());
}

/// The bytes that replace what was drawn, with the cursor in its place.
pub(super) fn bytes(before: &LineFrame, now: &LineFrame) -> String {
    let mut bytes = String::from("\u{1b}[?2026h\r");
    if before.cursor_row > 0 {
        let _ = write!(bytes, "\u{1b}[{}A", before.cursor_row);
    }
    for (at, row) in now.rows.iter().enumerate() {
        if at > 0 {
            bytes.push_str("\r\n");
        }
        bytes.push_str(row);
        // The last row also removes what an earlier one left below. It is never empty at the top of the screen, which
        // a multiplexer would take for a cleared screen.
        bytes.push_str(if at + 1 == now.rows.len() { "\u{1b}[J" } else { "\u{1b}[K" });
    }
    let up = now.rows.len().saturating_sub(now.cursor_row + 1);
    if up > 0 {
        let _ = write!(bytes, "\u{1b}[{up}A");
    }
    bytes.push('\r');
    if now.cursor_column > 0 {
        let _ = write!(bytes, "\u{1b}[{}C", now.cursor_column);
    }
    bytes.push_str("\u{1b}[?2026l");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn editor(text: &str, cursor: usize) -> Editor {
        let mut editor = Editor::new(1_000);
        (editor.text, editor.cursor) = (text.to_owned(), cursor);
        editor
    }

    #[test]
    fn a_long_text_takes_several_rows_and_the_cursor_is_in_the_right_one() {
        let drawn = draw(&editor("abcdefgh", 8), 8, 20);
        assert_eq!(drawn.rows, ["> abcde", "  fgh"]);
        assert_eq!((drawn.cursor_row, drawn.cursor_column), (1, 5));
        let drawn = draw(&editor("one\ntwo", 3), 20, 20);
        assert_eq!((drawn.rows.len(), drawn.cursor_row, drawn.cursor_column), (2, 0, 5));
        let drawn = draw(&editor("世界世", 3), 8, 20);
        assert_eq!(drawn.rows, ["> 世界", "  世"]);
        assert_eq!((drawn.cursor_row, drawn.cursor_column), (0, 4));
        let drawn = draw(&editor("abcde", 5), 8, 20);
        assert_eq!((drawn.cursor_row, drawn.cursor_column), (1, 2), "at the edge it is on the next row");
    }

    #[test]
    fn a_text_that_is_higher_than_the_screen_is_shown_around_the_cursor() {
        let text = "1\n2\n3\n4\n5";
        let drawn = draw(&editor(text, text.len()), 20, 3);
        assert_eq!(drawn.rows, ["  3", "  4", "  5"]);
        assert_eq!(drawn.cursor_row, 2);
    }

    #[test]
    fn what_is_pasted_does_not_steer_the_terminal() {
        let drawn = draw(&editor("a\u{202e}b\u{9b}2J", 0), 40, 3);
        assert_eq!(drawn.rows, [r"> a\u{202e}b\u{9b}2J"]);
    }

    #[test]
    fn a_frame_replaces_the_one_before() {
        let before = draw(&editor("one\ntwo", 7), 20, 20);
        let now = draw(&editor("x", 1), 20, 20);
        assert_eq!(bytes(&before, &now), "\u{1b}[?2026h\r\u{1b}[1A> x\u{1b}[J\r\u{1b}[3C\u{1b}[?2026l");
    }
}
