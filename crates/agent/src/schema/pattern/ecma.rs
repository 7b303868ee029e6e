//! Translates a pattern from the syntax of ECMA-262, which JSON Schema prescribes, to the syntax of the library.
//!
//! Every character of the result is an escape or was checked here, so the library never reads one of its own extensions
//! into a pattern that means something else in ECMA-262.

use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

const DIGITS: &str = "0-9";
const WORD: &str = "0-9A-Z_a-z";
const SPACE: &str = r"\t-\r\x20\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
const NOT_LINE_END: &str = r"[^\n\r\x{2028}\x{2029}]";
const ALL: &str = r"\x00-\x{10ffff}";

const LOOK_AROUND: &str = "look-around such as `(?=…)` cannot be matched in linear time";
const BACK_REFERENCE: &str = "back-references such as `\\1` cannot be matched in linear time";

pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator { rest: pattern.chars().peekable(), result: String::new() };
    while let Some(next) = translator.rest.next() {
        translator.translate(next)?;
    }
    Ok(translator.result)
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    result: String,
}

/// What one escape, or one member of a class, stands for.
enum Atom {
    Char(char),
    /// The members of a class in the library's syntax, in brackets.
    Set(String),
}

impl Translator<'_> {
    /// Translates what begins with `next`, outside of classes.
    fn translate(&mut self, next: char) -> Result<(), String> {
        match next {
            '\\' => return self.escape_outside(),
            '[' => return self.class(),
            '(' => return self.group(),
            '{' => return self.count(),
            '.' => self.result.push_str(NOT_LINE_END),
            '^' | '$' | '|' | ')' | '*' | '+' | '?' => self.result.push(next),
            other => self.push(&Atom::Char(other)),
        }
        Ok(())
    }

    fn push(&mut self, atom: &Atom) {
        match atom {
            Atom::Char(letter) if letter.is_ascii_alphanumeric() => self.result.push(*letter),
            Atom::Char(letter) => {
                let _ = write!(self.result, r"\x{{{:x}}}", u32::from(*letter));
            }
            Atom::Set(members) => self.result.push_str(members),
        }
    }

    fn escape_outside(&mut self) -> Result<(), String> {
        let assertion = match self.rest.peek() {
            Some('b') => r"(?-u:\b)",
            Some('B') => r"(?-u:\B)",
            _ => {
                let atom = self.escape()?;
                self.push(&atom);
                return Ok(());
            }
        };
        self.rest.next();
        self.result.push_str(assertion);
        Ok(())
    }

    /// An escape that means the same within classes and outside, after its backslash.
    fn escape(&mut self) -> Result<Atom, String> {
        let set = |members: &str| Ok(Atom::Set(format!("[{members}]")));
        let letter = self.rest.next().ok_or("it ends with a backslash")?;
        Ok(Atom::Char(match letter {
            'd' => return set(DIGITS),
            'D' => return set(&format!("^{DIGITS}")),
            'w' => return set(WORD),
            'W' => return set(&format!("^{WORD}")),
            's' => return set(SPACE),
            'S' => return set(&format!("^{SPACE}")),
            'p' | 'P' => return self.property(letter),
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'v' => '\x0b',
            'f' => '\x0c',
            '0' if !self.rest.peek().is_some_and(char::is_ascii_digit) => '\0',
            'x' => self.code_of(2)?,
            'u' => self.unicode()?,
            'c' => match self.rest.next() {
                Some(control) if control.is_ascii_alphabetic() => {
                    char::from(u8::try_from(control).unwrap_or(0) % 32)
                }
                _ => return Err(r"`\c` needs a letter after it".to_owned()),
            },
            '1'..='9' | 'k' => return Err(BACK_REFERENCE.to_owned()),
            other if other == ' ' || other.is_ascii_punctuation() => other,
            other => return Err(format!("`\\{other}` is not an escape of ECMA-262")),
        }))
    }

    /// `\p{…}`, which the library knows by the same names.
    fn property(&mut self, letter: char) -> Result<Atom, String> {
        let mut name = String::new();
        let mut is_open = self.rest.next() == Some('{');
        while is_open {
            match self.rest.next() {
                Some('}') if !name.is_empty() => return Ok(Atom::Set(format!(r"\{letter}{{{name}}}"))),
                Some(next) if next.is_ascii_alphanumeric() || next == '_' || next == '=' => name.push(next),
                _ => is_open = false,
            }
        }
        Err(format!(r"`\{letter}` needs the name of a Unicode property in braces"))
    }

    fn hex(&mut self, length: usize) -> Result<u32, String> {
        let digits: String = self.rest.by_ref().take(length).collect();
        let is_hex = digits.len() == length && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let code = is_hex.then(|| u32::from_str_radix(&digits, 16).ok()).flatten();
        code.ok_or_else(|| format!("an escape needs {length} hexadecimal digits"))
    }

    fn code_of(&mut self, length: usize) -> Result<char, String> {
        let code = self.hex(length)?;
        char::from_u32(code).ok_or_else(|| r"half of a surrogate pair is not a character".to_owned())
    }

    /// `\u`: four digits, a surrogate pair of them, or any number of digits in braces.
    fn unicode(&mut self) -> Result<char, String> {
        if self.rest.next_if_eq(&'{').is_some() {
            let mut digits = String::new();
            while let Some(next) = self.rest.next_if(char::is_ascii_hexdigit) {
                digits.push(next);
            }
            let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
            let is_closed = self.rest.next() == Some('}');
            return code.filter(|_| is_closed).ok_or_else(|| r"`\u{…}` is not a character".to_owned());
        }
        let mut units = Vec::from([self.unit()?]);
        if (0xd800..0xdc00).contains(&units[0]) && self.rest.next_if_eq(&'\\').is_some() {
            if self.rest.next() != Some('u') {
                return Err("half of a surrogate pair is not a character".to_owned());
            }
            units.push(self.unit()?);
        }
        match char::decode_utf16(units).collect::<Result<Vec<char>, _>>().as_deref() {
            Ok([letter]) => Ok(*letter),
            _ => Err("half of a surrogate pair is not a character".to_owned()),
        }
    }

    fn unit(&mut self) -> Result<u16, String> {
        let unit = self.hex(4)?;
        u16::try_from(unit).map_err(|error| error.to_string())
    }

    /// A class, after its `[`.
    fn class(&mut self) -> Result<(), String> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let mut members = String::new();
        std::mem::swap(&mut members, &mut self.result);
        while self.rest.next_if_eq(&']').is_none() {
            let first = self.member()?;
            let dash = self.rest.next_if_eq(&'-').is_some();
            if !dash {
                self.push(&first);
                continue;
            }
            // A dash at the end of a class, or beside a set, is a member itself.
            if self.rest.peek() == Some(&']') {
                self.push(&first);
                self.push(&Atom::Char('-'));
                continue;
            }
            match (first, self.member()?) {
                (Atom::Char(first), Atom::Char(last)) if first > last => {
                    return Err(format!("the range `{first}-{last}` is out of order"));
                }
                (Atom::Char(first), Atom::Char(last)) => {
                    self.push(&Atom::Char(first));
                    self.result.push('-');
                    self.push(&Atom::Char(last));
                }
                (first, last) => [first, Atom::Char('-'), last].iter().for_each(|atom| self.push(atom)),
            }
        }
        std::mem::swap(&mut members, &mut self.result);
        let class = match (is_negated, members.is_empty()) {
            (false, true) => format!("[^{ALL}]"),
            (true, true) => format!("[{ALL}]"),
            (false, false) => format!("[{members}]"),
            (true, false) => format!("[^{members}]"),
        };
        self.result.push_str(&class);
        Ok(())
    }

    fn member(&mut self) -> Result<Atom, String> {
        match self.rest.next().ok_or("a class is not closed by `]`")? {
            '\\' if self.rest.next_if_eq(&'b').is_some() => Ok(Atom::Char('\x08')),
            '\\' => self.escape(),
            other => Ok(Atom::Char(other)),
        }
    }

    /// A group, after its `(`. ECMA-262 has no flags such as `(?i)` in a pattern. The library has them, but folding the
    /// case of a wide class takes milliseconds, and a pattern may have thousands of them.
    fn group(&mut self) -> Result<(), String> {
        self.result.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.result.push('?');
        let mut head = String::new();
        loop {
            let next = self.rest.next().ok_or("a group is not closed by `)`")?;
            head.push(next);
            match (head.as_str(), next) {
                ("=" | "!" | "<=" | "<!", _) => return Err(LOOK_AROUND.to_owned()),
                (":", _) => break,
                (name, '>') if name.starts_with('<') => break,
                (name, _) if name.starts_with('<') && (next == '<' || is_word(next)) => {}
                _ => return Err(format!("`(?{head}` does not begin a group of ECMA-262")),
            }
        }
        self.result.push_str(&head);
        Ok(())
    }

    /// A count such as `{2,5}`, after its `{`.
    fn count(&mut self) -> Result<(), String> {
        let mut count = String::new();
        while let Some(next) = self.rest.next_if(|next| next.is_ascii_digit() || *next == ',') {
            count.push(next);
        }
        let (least, most) = count.split_once(',').unwrap_or((&count, ""));
        let is_count = !least.is_empty() && !most.contains(',') && self.rest.next() == Some('}');
        if !is_count {
            return Err(r"a brace that is not part of a count such as `{2}` must be written `\{`".to_owned());
        }
        let _ = write!(self.result, "{{{count}}}");
        Ok(())
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
