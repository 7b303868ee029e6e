//! A terminal as far as Posse's live view needs one: text, colours, and the few movements that it makes.

/// The look of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Style {
    /// A number of the palette of 16 colours.
    pub(super) colour: Option<u8>,
    pub(super) bold: bool,
    pub(super) dim: bool,
}

/// The visible rows; each is its characters with their looks.
pub(super) type Frame = Vec<Vec<(char, Style)>>;

pub(super) struct TerminalEmulator {
    /// All rows since the beginning; the last ones are visible.
    rows: Frame,
    width: usize,
    height: usize,
    row: usize,
    column: usize,
    style: Style,
    /// The rest of a sequence whose end was not printed yet.
    unfinished: String,
}

impl TerminalEmulator {
    pub(super) fn new(width: usize, height: usize) -> Self {
        let style = Style::default();
        Self { rows: vec![Vec::new()], width, height, row: 0, column: 0, style, unfinished: String::new() }
    }

    pub(super) fn frame(&self) -> Frame {
        self.rows[self.top()..].to_vec()
    }

    fn top(&self) -> usize {
        self.rows.len().saturating_sub(self.height)
    }

    pub(super) fn print(&mut self, text: &str) {
        let text = std::mem::take(&mut self.unfinished) + text;
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            if first == '\u{1b}' {
                let Some(len) = sequence_len(rest) else {
                    rest.clone_into(&mut self.unfinished);
                    return;
                };
                self.obey(&rest[1..len]);
                rest = &rest[len..];
                continue;
            }
            self.put(first);
            rest = &rest[first.len_utf8()..];
        }
    }

    fn put(&mut self, c: char) {
        match c {
            '\n' => {
                self.column = 0;
                self.row += 1;
                if self.row == self.rows.len() {
                    self.rows.push(Vec::new());
                }
            }
            '\r' => self.column = 0,
            c if c.is_control() => {}
            c if self.column >= self.width => {
                self.put('\n');
                self.put(c);
            }
            c => {
                let (column, cell) = (self.column, (c, self.style));
                let row = &mut self.rows[self.row];
                row.resize(row.len().max(column + 1), (' ', Style::default()));
                row[column] = cell;
                self.column += 1;
            }
        }
    }

    /// A sequence without its escape character.
    fn obey(&mut self, sequence: &str) {
        let Some(parameters) = sequence.strip_prefix('[') else { return };
        let (parameters, last) = parameters.split_at(parameters.len().saturating_sub(1));
        let numbers: Vec<usize> = parameters.split(';').map(|part| part.parse().unwrap_or(0)).collect();
        let count = numbers.first().copied().unwrap_or(0).max(1);
        match last {
            "A" => self.row = self.row.saturating_sub(count).max(self.top()),
            "F" => {
                self.row = self.row.saturating_sub(count).max(self.top());
                self.column = 0;
            }
            "G" => self.column = count - 1,
            "K" => self.rows[self.row].truncate(self.column),
            "J" => {
                self.rows[self.row].truncate(self.column);
                self.rows.truncate(self.row + 1);
            }
            "m" => self.set_style(&numbers),
            _ => {}
        }
    }

    fn set_style(&mut self, numbers: &[usize]) {
        let mut numbers = numbers.iter().copied();
        while let Some(number) = numbers.next() {
            match number {
                0 => self.style = Style::default(),
                1 => self.style.bold = true,
                2 => self.style.dim = true,
                22 => (self.style.bold, self.style.dim) = (false, false),
                30..=37 => self.style.colour = u8::try_from(number - 30).ok(),
                39 => self.style.colour = None,
                90..=97 => self.style.colour = u8::try_from(number - 82).ok(),
                // `38;5;N` is a colour of the larger palette, whose first 16 are the same.
                38 if numbers.next() == Some(5) => {
                    self.style.colour = numbers.next().and_then(|colour| u8::try_from(colour).ok());
                }
                _ => {}
            }
        }
    }
}

/// The length of the sequence that the text begins with; `None` if its end is missing.
fn sequence_len(text: &str) -> Option<usize> {
    let after = text.get(1..)?;
    match after.chars().next()? {
        '[' => after[1..].find(|c: char| ('@'..='~').contains(&c)).map(|at| at + 3),
        ']' => after.find(['\u{7}', '\\']).map(|at| at + 2),
        c => Some(1 + c.len_utf8()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(screen: &TerminalEmulator) -> Vec<String> {
        screen.frame().iter().map(|row| row.iter().map(|(c, _)| c).collect()).collect()
    }

    #[test]
    fn a_frame_that_is_drawn_over_another_replaces_it() {
        let mut screen = TerminalEmulator::new(80, 10);
        screen.print("\u{1b}[?2026hone\u{1b}[K\ntwo\u{1b}[K\n\u{1b}[J\u{1b}[?2026l");
        screen.print("\u{1b}[2Fstays\u{1b}[K\n1\u{1b}[K\n\u{1b}");
        screen.print("[J");
        assert_eq!(rows(&screen), ["stays", "1", ""]);
    }

    #[test]
    fn only_the_last_rows_are_visible_and_colours_are_kept() {
        let mut screen = TerminalEmulator::new(80, 2);
        screen.print("a\nb\n\u{1b}[38;5;9mc\u{1b}[0md");
        assert_eq!(rows(&screen), ["b", "cd"]);
        let colours: Vec<Option<u8>> = screen.frame()[1].iter().map(|(_, style)| style.colour).collect();
        assert_eq!(colours, [Some(9), None]);
    }
}
