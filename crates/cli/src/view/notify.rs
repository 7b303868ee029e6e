//! Tells a user who looks elsewhere that a run needs them or has ended: a bell, and a desktop notice on terminals that
//! know one. Terminals ignore what they do not know.

use std::io::IsTerminal;

use crate::questions::write_out;
use crate::term;

/// The sequences of a notice: OSC 9 (iTerm2, Windows Terminal, kitty), OSC 777 (urxvt, foot, Konsole), the bell.
pub(super) fn sequences(text: &str) -> String {
    // A semicolon separates the fields, and the text may name foreign things.
    let text = term::line(text).replace(';', ",");
    format!("\u{1b}]9;Posse: {text}\u{1b}\\\u{1b}]777;notify;Posse;{text}\u{1b}\\\u{7}")
}

/// Writes a notice to the terminal of standard error; nothing if it is not one.
pub(crate) fn write(text: &str) {
    if std::io::stderr().is_terminal() {
        write_out(&sequences(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_contains_no_sequence_of_its_text() {
        let notice = sequences("run \u{1b}]52;c;x\u{7} a;b");
        assert_eq!(notice.matches('\u{1b}').count(), 4, "{notice:?}");
        assert!(
            notice.starts_with("\u{1b}]9;Posse: run") && notice.ends_with("a,b\u{1b}\\\u{7}"),
            "{notice:?}"
        );
    }
}
