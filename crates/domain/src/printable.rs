//! Removes escape sequences from texts of models and tools before a terminal, git's log, a pager or an editor shows
//! them.
//!
//! A reply may contain escape sequences that set the clipboard or the title, control characters that overwrite a line,
//! or marks that change the direction of the text and make it read as something else. All of them are removed before a
//! text reaches a screen, a commit or a report. Line ends and tabs stay.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// Begins a control sequence.
const ESCAPE: char = '\u{1b}';
/// The same as ESC and `[`, in one character.
const CONTROL_SEQUENCE: char = '\u{9b}';
/// Ends a string that a terminal would interpret.
const STRING_TERMINATOR: char = '\u{9c}';
const BELL: char = '\u{7}';

/// The text without anything that a terminal would act on, except line ends and tabs.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| is_plain(c) && c != '\r') {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ESCAPE => skip_escape(&mut rest),
            CONTROL_SEQUENCE => skip_control(&mut rest),
            c if begins_string(c) => skip_string(&mut rest),
            // CR LF is one line end. A lone CR would overwrite the line.
            '\r' if rest.peek() == Some(&'\n') => {}
            '\r' => clean.push('\n'),
            c if is_plain(c) => clean.push(c),
            _ => {}
        }
    }
    Cow::Owned(clean)
}

/// The text on one line: line ends and tabs become spaces.
pub fn line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The whole text, with escapes in place of all characters that a terminal would act on, hide or show as something
/// else. Further lines begin with `lead`, so that none looks like a line of this program.
pub fn visible(text: &str, lead: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => {
                shown.push_str("\\n\n");
                shown.push_str(lead);
            }
            c if is_plain(c) && !c.is_control() && !passes_for_another(c) => shown.push(c),
            c => shown.extend(c.escape_default()),
        }
    }
    shown
}

/// Like [`visible`], on one line.
pub fn visible_line(text: &str) -> String {
    visible(text, "").replace('\n', "")
}

/// Characters that look like a space or are invisible.
fn passes_for_another(c: char) -> bool {
    (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200c}' | '\u{200d}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character may appear in JSON unescaped. The others can be escaped without loss.
pub fn is_plain(c: char) -> bool {
    !(steers(c) || turns(c))
}

/// Control characters (C0 and C1), except those that lay out text.
fn steers(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t' | '\r')
}

/// Marks that change the direction of text, end lines in unusual ways, or hide text.
fn turns(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Operating system command, device control, privacy message, application command, start of string.
fn begins_string(c: char) -> bool {
    matches!(c, '\u{9d}' | '\u{90}' | '\u{9e}' | '\u{9f}' | '\u{98}')
}

fn skip_escape(rest: &mut Peekable<Chars<'_>>) {
    match rest.peek() {
        Some('[') => {
            rest.next();
            skip_control(rest);
        }
        Some(']' | 'P' | '^' | '_' | 'X') => {
            rest.next();
            skip_string(rest);
        }
        _ => {
            // Intermediates, then one final character. Any other character is text.
            while rest.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            rest.next_if(|c| matches!(c, '0'..='~'));
        }
    }
}

/// Parameters and intermediates, then one final character.
fn skip_control(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    rest.next_if(|c| matches!(c, '@'..='~'));
}

/// Skips to the end of the string. A string that does not end on its line is not skipped: one stray character must not
/// swallow the rest of a report.
fn skip_string(rest: &mut Peekable<Chars<'_>>) {
    let mut ahead = rest.clone();
    while let Some(c) = ahead.next() {
        match c {
            '\n' => return,
            BELL | STRING_TERMINATOR => {
                *rest = ahead;
                return;
            }
            ESCAPE => {
                // ESC and `\` end the string. Any other sequence starts a new one.
                let mut after = ahead.clone();
                if after.next() == Some('\\') {
                    *rest = after;
                } else {
                    return;
                }
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_left_alone() {
        let text = "Grüße, 世界\n\tfn main() {}\n✓ done 🎉";
        assert!(matches!(clean(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn sequences_are_left_out_whole() {
        for (hostile, plain) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}]52;c;aGk=\u{7}clipboard", "clipboard"),
            ("\u{1b}]0;title\u{1b}\\text", "text"),
            ("\u{9d}0;title\u{9c}text", "text"),
            ("\u{1b}P1$q\u{1b}\\x", "x"),
            ("\u{9b}2Jx", "x"),
            ("\u{1b}(0x", "x"),
            ("\u{1b}cx", "x"),
            ("a\u{8}\u{8}b\u{7f}\0", "ab"),
            ("safe\rEVIL", "safe\nEVIL"),
            ("one\r\ntwo", "one\ntwo"),
            ("\u{202e}txt.exe\u{202c}", "txt.exe"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}]never ends\nnext", "never ends\nnext"),
        ] {
            assert_eq!(clean(hostile), plain, "{hostile:?}");
        }
    }

    #[test]
    fn nothing_that_steers_survives_whatever_stands_around_it() {
        let pieces = [
            "\u{1b}", "[", "]", "P", "\u{9b}", "\u{9d}", "\u{9c}", "\u{7}", "\\", "2", "J", "\n", "\u{202e}",
            "ä",
        ];
        // Every text of four of these pieces.
        for number in 0..pieces.len().pow(4) {
            let text: String =
                (0..4).map(|place| pieces[number / pieces.len().pow(place) % pieces.len()]).collect();
            assert!(clean(&text).chars().all(|c| is_plain(c) && c != '\r'), "{text:?}");
        }
    }

    #[test]
    fn what_is_made_visible_is_all_there_and_does_nothing() {
        for (text, shown) in [
            ("git push origin main", "git push origin main"),
            ("Grüße 世界", "Grüße 世界"),
            ("ls\u{1b}[2Jx", r"ls\u{1b}[2Jx"),
            ("a\u{202e}b\u{9b}c\u{7}", r"a\u{202e}b\u{9b}c\u{7}"),
            ("a\tb\rc", r"a\tb\rc"),
            ("a\u{a0}b\u{200d}c\u{3164}", r"a\u{a0}b\u{200d}c\u{3164}"),
            ("one\ntwo", "one\\n\n> two"),
        ] {
            assert_eq!(visible(text, "> "), shown);
        }
        assert_eq!(visible_line("one\ntwo\r\n"), r"one\ntwo\r\n");
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(line(" a\n\tb\u{1b}[1m  c\r\n"), "a b c");
    }
}
