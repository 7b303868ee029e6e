//! Tables for users. On a terminal a table fits its width: columns of low value go, then the text column is cut. Elsewhere
//! every cell is there in full.

use crate::view::paint::painted;
use crate::view::rows::Tint;
use crate::view::width::{clip, text_columns};

/// Columns between two cells.
const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column<'a> {
    head: &'a str,
    /// Its usual width.
    width: usize,
    is_right: bool,
    /// Its place among the columns that go where there is no room, from 1; `None` for one that stays.
    goes: Option<u8>,
    /// To how many columns it may be cut; `None` for one that is never cut.
    least: Option<usize>,
}

impl<'a> Column<'a> {
    /// A column of text.
    pub(crate) const fn left(head: &'a str, width: usize) -> Self {
        Self { head, width, is_right: false, goes: None, least: None }
    }

    /// A column of figures.
    pub(crate) const fn right(head: &'a str, width: usize) -> Self {
        Self { is_right: true, ..Self::left(head, width) }
    }

    /// The same as the one with this number that goes where there is no room.
    pub(crate) const fn goes(self, number: u8) -> Self {
        Self { goes: Some(number), ..self }
    }

    /// The same with cells that may be cut, but not shorter than this.
    pub(crate) const fn cut_to(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }
}

/// A cell with its colour.
pub(crate) type Cell = (Tint, String);

/// A cell without colour.
pub(crate) fn plain(text: impl Into<String>) -> Cell {
    (Tint::Plain, text.into())
}

/// How a table is printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableForm {
    /// The width of the terminal; `None` for output that is not a terminal.
    pub(crate) width: Option<usize>,
    pub(crate) is_coloured: bool,
}

/// The rows of a table, each beneath the heading. The texts contain no control characters.
pub(crate) fn table<const N: usize>(
    columns: [Column<'_>; N],
    rows: &[[Cell; N]],
    form: TableForm,
) -> Vec<String> {
    let heading = columns.map(|column| plain(column.head));
    let lines: Vec<&[Cell; N]> = std::iter::once(&heading).chain(rows).collect();
    let widths = widths(&columns, &lines, form.width);
    lines.iter().map(|cells| line(&columns, cells, &widths, form)).collect()
}

/// The width of each column; `None` for one that is not shown.
fn widths<const N: usize>(
    columns: &[Column<'_>; N],
    lines: &[&[Cell; N]],
    width: Option<usize>,
) -> [Option<usize>; N] {
    let usual = columns.map(|column| Some(column.width));
    let Some(most) = width else { return usual };
    let needed: [usize; N] = std::array::from_fn(|at| {
        lines.iter().map(|cells| text_columns(&cells[at].1)).max().unwrap_or_default()
    });
    let wide: [Option<usize>; N] = std::array::from_fn(|at| Some(needed[at].max(columns[at].width)));
    // The last column is not filled with spaces.
    let last = |widths: [Option<usize>; N]| -> [Option<usize>; N] {
        std::array::from_fn(|at| if at + 1 == N { Some(needed[at]) } else { widths[at] })
    };
    if total(&last(wide)) <= most {
        return wide;
    }
    let mut widths = needed.map(Some);
    loop {
        if fit(columns, &mut widths, most) {
            return widths;
        }
        let next =
            (0..N).filter(|at| widths[*at].is_some()).filter_map(|at| Some((columns[at].goes?, at))).min();
        match next {
            Some((_, at)) => widths[at] = None,
            None => return widths,
        }
    }
}

/// Cuts the columns that may be cut until the table fits; `false`, and no change, if it does not.
fn fit<const N: usize>(columns: &[Column<'_>; N], widths: &mut [Option<usize>; N], most: usize) -> bool {
    let mut cut = *widths;
    for at in (0..N).rev() {
        let too_wide = total(&cut).saturating_sub(most);
        if let (Some(width), Some(least)) = (cut[at], columns[at].least) {
            cut[at] = Some(width.saturating_sub(too_wide).max(least.min(width)));
        }
    }
    let fits = total(&cut) <= most;
    if fits {
        *widths = cut;
    }
    fits
}

fn total(widths: &[Option<usize>]) -> usize {
    let shown = widths.iter().flatten();
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn line<const N: usize>(
    columns: &[Column<'_>; N],
    cells: &[Cell; N],
    widths: &[Option<usize>; N],
    form: TableForm,
) -> String {
    let mut text = String::new();
    // Spaces before the next cell: none are written at the end of a line.
    let mut spaces = 0;
    let mut used = 0;
    for ((column, (tint, cell)), width) in columns.iter().zip(cells).zip(widths) {
        let Some(width) = *width else { continue };
        let mut most = width;
        if let Some(all) = form.width {
            // A table that fits at no width is cut at the edge.
            most = most.min(all.saturating_sub(used + spaces));
        }
        let shown = if form.width.is_some() { clip(cell, most).0 } else { cell.clone() };
        let columns = text_columns(&shown);
        let fill = width.saturating_sub(columns);
        if column.is_right {
            spaces += fill;
        }
        if columns > 0 {
            text.extend(std::iter::repeat_n(' ', spaces));
            used += spaces + columns;
            spaces = 0;
            text.push_str(&painted(*tint, &shown, form.is_coloured));
        }
        spaces += GAP + if column.is_right { 0 } else { fill };
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'static>; 4] = [
        Column::left("RUN", 8),
        Column::right("AGENTS", 6).goes(1),
        Column::right("COST", 8),
        Column::left("REQUEST", 10).cut_to(8),
    ];

    fn printed(width: Option<usize>) -> Vec<String> {
        let row = |run: &str, title: &str| [plain(run), plain("3"), plain("$0.01"), plain(title)];
        let rows = [row("aaaaaaaa", "fix the failing test"), row("bbbbbbbb", "look")];
        table(COLUMNS, &rows, TableForm { width, is_coloured: false })
    }

    #[test]
    fn a_table_that_fits_is_the_same_on_a_terminal_and_elsewhere() {
        assert_eq!(
            printed(None),
            [
                "RUN       AGENTS      COST  REQUEST\n",
                "aaaaaaaa       3     $0.01  fix the failing test\n",
                "bbbbbbbb       3     $0.01  look\n",
            ]
        );
        assert_eq!(printed(Some(48)), printed(None));
    }

    #[test]
    fn a_narrow_table_loses_spaces_then_the_end_of_its_text_then_columns() {
        assert_eq!(printed(Some(47))[1], "aaaaaaaa       3  $0.01  fix the failing test\n");
        assert_eq!(printed(Some(34))[1], "aaaaaaaa       3  $0.01  fix the …\n");
        assert_eq!(
            printed(Some(32))[..2],
            ["RUN        COST  REQUEST\n", "aaaaaaaa  $0.01  fix the failin…\n"]
        );
        assert_eq!(printed(Some(25))[1], "aaaaaaaa  $0.01  fix the…\n");
        assert_eq!(printed(Some(12))[1], "aaaaaaaa     $…\n");
    }

    #[test]
    fn colour_takes_no_room() {
        let rows = [[(Tint::Good, "done".to_owned()), plain("x")]];
        let columns = [Column::left("STATUS", 8), Column::left("REQUEST", 4)];
        let coloured = table(columns, &rows, TableForm { width: Some(40), is_coloured: true });
        assert_eq!(coloured[1], "\u{1b}[38;5;10mdone\u{1b}[0m      x\n");
    }
}
