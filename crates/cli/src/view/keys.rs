//! Keys, mouse events and pasted text, from the bytes of a terminal.

/// Longest escape sequence of a key. A longer one is no key.
const SEQUENCE_MAX_BYTES: usize = 32;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    /// Enter with Alt, or with Shift where the terminal tells.
    AltEnter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Char(char),
    /// A letter with Ctrl.
    Control(char),
    /// The key that interrupts a program, usually Ctrl-C, if the terminal sends it no signal.
    Interrupt,
    Mouse(Mouse),
    /// What follows was pasted, until the end.
    PasteStart,
    PasteEnd,
}

/// A mouse event, at a position from the top left corner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mouse {
    pub(crate) action: MouseAction,
    pub(crate) column: u16,
    pub(crate) row: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MouseAction {
    /// The left button was pressed.
    Press,
    WheelUp,
    WheelDown,
}

/// Reads keys from bytes as they arrive: a sequence or a character may be cut in two.
#[derive(Debug, Default)]
pub(crate) struct KeyReader {
    /// The beginning of a sequence or of a character.
    waiting: Vec<u8>,
    is_pasting: bool,
}

impl KeyReader {
    /// The keys that these bytes complete. Unknown sequences are skipped.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.waiting.extend_from_slice(bytes);
        let taken = std::mem::take(&mut self.waiting);
        let whole = match std::str::from_utf8(&taken) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => taken.len(),
        };
        let text = String::from_utf8_lossy(&taken[..whole]);
        let mut keys = Vec::new();
        let mut rest = text.as_ref();
        while let Some(c) = rest.chars().next() {
            let after = &rest[c.len_utf8()..];
            if c != '\u{1b}' {
                keys.extend(self.plain(c));
                rest = after;
                continue;
            }
            match sequence(after, self.is_pasting) {
                Sequence::Ended(key, behind) => {
                    self.is_pasting = match key {
                        Some(Key::PasteStart) => true,
                        Some(Key::PasteEnd) => false,
                        _ => self.is_pasting,
                    };
                    keys.extend(key);
                    rest = behind;
                }
                Sequence::Cut if rest.len() > SEQUENCE_MAX_BYTES => rest = "",
                Sequence::Cut => {
                    self.waiting.extend_from_slice(rest.as_bytes());
                    rest = "";
                }
            }
        }
        self.waiting.extend_from_slice(&taken[whole..]);
        keys
    }

    fn plain(&self, c: char) -> Option<Key> {
        match c {
            '\r' | '\n' => Some(Key::Enter),
            // A tab in a pasted text is no request to complete it.
            '\t' if self.is_pasting => Some(Key::Char(' ')),
            '\t' => Some(Key::Tab),
            '\u{8}' | '\u{7f}' => Some(Key::Backspace),
            '\u{1}'..='\u{1a}' if !self.is_pasting => Some(Key::Control(char::from(b'a' - 1 + c as u8))),
            c if c.is_control() => None,
            c => Some(Key::Char(c)),
        }
    }
}

/// What follows an escape character.
enum Sequence<'a> {
    /// A whole sequence: its key if it has one, and the text after it.
    Ended(Option<Key>, &'a str),
    /// The end is yet to come.
    Cut,
}

fn sequence(rest: &str, is_pasting: bool) -> Sequence<'_> {
    let body = match rest.chars().next() {
        // The key itself; in a pasted text, the beginning of its end.
        None if is_pasting => return Sequence::Cut,
        Some('\r' | '\n') => return Sequence::Ended(Some(Key::AltEnter), &rest[1..]),
        Some('[' | 'O') => &rest[1..],
        _ => return Sequence::Ended(Some(Key::Escape), rest),
    };
    let Some(end) = body.find(|c: char| c.is_ascii_alphabetic() || c == '~') else { return Sequence::Cut };
    Sequence::Ended(key(&body[..=end]), &body[end + 1..])
}

/// The key of a sequence without its beginning.
fn key(body: &str) -> Option<Key> {
    Some(match body {
        "A" => Key::Up,
        "B" => Key::Down,
        "C" => Key::Right,
        "D" => Key::Left,
        "H" | "1~" | "7~" => Key::Home,
        "F" | "4~" | "8~" => Key::End,
        "Z" => Key::BackTab,
        "3~" => Key::Delete,
        "5~" => Key::PageUp,
        "6~" => Key::PageDown,
        "13;2u" | "13;3u" | "27;2;13~" | "27;3;13~" => Key::AltEnter,
        "200~" => Key::PasteStart,
        "201~" => Key::PasteEnd,
        body => return mouse(body).map(Key::Mouse),
    })
}

/// A mouse event such as `<0;12;3M`, with positions from 1.
fn mouse(body: &str) -> Option<Mouse> {
    let pressed = body.strip_prefix('<')?.strip_suffix('M')?;
    let mut numbers = pressed.split(';').map(|number| number.parse::<u16>().ok());
    let action = match numbers.next()?? {
        0 => MouseAction::Press,
        64 => MouseAction::WheelUp,
        65 => MouseAction::WheelDown,
        _ => return None,
    };
    let (column, row) = (numbers.next()??, numbers.next()??);
    Some(Mouse { action, column: column.saturating_sub(1), row: row.saturating_sub(1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_keys(bytes: &[u8]) -> Vec<Key> {
        KeyReader::default().read(bytes)
    }

    #[test]
    fn bytes_of_a_terminal_are_keys() {
        assert_eq!(read_keys(b"\x1b[A\x1bOBc\r"), [Key::Up, Key::Down, Key::Char('c'), Key::Enter]);
        assert_eq!(read_keys(b"\x1b[C\x1b[Dd?"), [Key::Right, Key::Left, Key::Char('d'), Key::Char('?')]);
        assert_eq!(
            read_keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[4~"),
            [Key::PageUp, Key::PageDown, Key::Home, Key::End]
        );
        assert_eq!(read_keys(b"\x1b"), [Key::Escape]);
        assert_eq!(read_keys(b"\x1b[1;5A\x1b[24~x"), [Key::Char('x')], "unknown sequences are skipped");
        assert_eq!(
            read_keys("é\u{12}\u{7f}\t".as_bytes()),
            [Key::Char('é'), Key::Control('r'), Key::Backspace, Key::Tab]
        );
        assert_eq!(read_keys(b"\x1b\r"), [Key::AltEnter]);
    }

    #[test]
    fn what_is_cut_in_two_is_one_key() {
        for bytes in ["\u{1b}[A", "\u{1b}[<0;12;3M", "世", "\u{1b}[3~"] {
            let whole = read_keys(bytes.as_bytes());
            for cut in 1..bytes.len() {
                // An escape character alone is the key.
                if cut == 1 && bytes.starts_with('\u{1b}') {
                    continue;
                }
                let mut reader = KeyReader::default();
                let mut keys = reader.read(&bytes.as_bytes()[..cut]);
                keys.extend(reader.read(&bytes.as_bytes()[cut..]));
                assert_eq!(keys, whole, "{bytes:?} at {cut}");
            }
        }
    }

    #[test]
    fn a_pasted_text_has_a_beginning_and_an_end_wherever_it_is_cut() {
        let pasted = b"\x1b[200~a\tb\n\x03\x1b[201~c";
        let expected = [
            Key::PasteStart,
            Key::Char('a'),
            Key::Char(' '),
            Key::Char('b'),
            Key::Enter,
            Key::PasteEnd,
            Key::Char('c'),
        ];
        for cut in 2..pasted.len() {
            let mut reader = KeyReader::default();
            let mut keys = reader.read(&pasted[..cut]);
            keys.extend(reader.read(&pasted[cut..]));
            assert_eq!(keys, expected, "{cut}");
        }
    }

    #[test]
    fn a_mouse_has_a_position_from_the_corner() {
        let at = |action, column, row| Key::Mouse(Mouse { action, column, row });
        assert_eq!(read_keys(b"\x1b[<0;1;3M\x1b[<0;1;3m"), [at(MouseAction::Press, 0, 2)], "not its release");
        assert_eq!(read_keys(b"\x1b[<64;9;9M"), [at(MouseAction::WheelUp, 8, 8)]);
        assert_eq!(read_keys(b"\x1b[<65;9;9M\x1b[<2;1;1M\x1b[<0;;1M"), [at(MouseAction::WheelDown, 8, 8)]);
    }

    #[test]
    fn a_sequence_without_an_end_is_not_kept_forever() {
        let mut reader = KeyReader::default();
        assert_eq!(reader.read(&[b"\x1b[".as_slice(), &[b'1'; 100]].concat()), []);
        assert_eq!(reader.read(b"x"), [Key::Char('x')]);
    }
}
