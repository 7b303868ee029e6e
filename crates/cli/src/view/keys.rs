//! Keys of the live view, from the bytes of a terminal.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Left,
    Right,
    Enter,
    Escape,
    Char(char),
}

/// The keys in these bytes. Unknown sequences are skipped.
pub(super) fn read_keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let mut keys = Vec::new();
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let key = match c {
            '\u{1b}' => {
                let (key, after) = sequence(rest);
                rest = after;
                key
            }
            '\r' | '\n' => Some(Key::Enter),
            c if c.is_control() => None,
            c => Some(Key::Char(c)),
        };
        keys.extend(key);
    }
    keys
}

/// The key of an escape sequence, and the text after it.
fn sequence(rest: &str) -> (Option<Key>, &str) {
    let Some(body) = rest.strip_prefix(['[', 'O']) else { return (Some(Key::Escape), rest) };
    let Some(end) = body.find(|c: char| c.is_ascii_alphabetic() || c == '~') else { return (None, "") };
    let key = match &body[..=end] {
        "A" => Some(Key::Up),
        "B" => Some(Key::Down),
        "C" => Some(Key::Right),
        "D" => Some(Key::Left),
        _ => None,
    };
    (key, &body[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_terminal_are_keys() {
        assert_eq!(read_keys(b"\x1b[A\x1bOBc\r"), [Key::Up, Key::Down, Key::Char('c'), Key::Enter]);
        assert_eq!(read_keys(b"\x1b[C\x1b[Dd?"), [Key::Right, Key::Left, Key::Char('d'), Key::Char('?')]);
        assert_eq!(read_keys(b"\x1b"), [Key::Escape]);
        assert_eq!(
            read_keys(b"\x1b[1;5A\x1b[3~\x1b[200~x"),
            [Key::Char('x')],
            "unknown sequences are skipped"
        );
        assert_eq!(read_keys("é\u{3}".as_bytes()), [Key::Char('é')]);
        assert_eq!(read_keys(b"\x1b[12"), []);
    }
}
