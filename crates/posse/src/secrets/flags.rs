//! Finds passwords after the short flags of commands. The meaning of a letter differs between programs.

use std::ops::Range;

use super::named::{SHELL_ENDS, is_placeholder, is_secret, value};

/// Shortest password after a short flag.
const FLAG_MIN_BYTES: usize = 4;
/// How far back the program of a flag is searched.
const COMMAND_MAX_BYTES: usize = 512;

/// What follows a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The password, in the same word.
    Attached,
    /// The password, in the same word or the next.
    Password,
    /// `name:password`, in the same word or the next.
    User,
}

/// Programs, their flags, and what follows.
const FLAGS: [(&str, &str, Form); 10] = [
    ("mysql", "-p", Form::Attached),
    ("mariadb", "-p", Form::Attached),
    ("sshpass", "-p", Form::Password),
    ("redis-cli", "-a", Form::Password),
    ("docker login", "-p", Form::Password),
    ("podman login", "-p", Form::Password),
    ("curl", "-u", Form::User),
    ("curl", "--user", Form::User),
    ("curl", "-U", Form::User),
    ("curl", "--proxy-user", Form::User),
];

/// The password after a flag that begins here.
pub(super) fn found(text: &[u8], at: usize) -> Option<Range<usize>> {
    let rest = &text[at..];
    let mut before = None;
    FLAGS.iter().filter(|(_, flag, _)| rest.starts_with(flag.as_bytes())).find_map(|(program, flag, form)| {
        let before = before.get_or_insert_with(|| String::from_utf8_lossy(command_before(text, at)));
        let runs = before.contains(program);
        runs.then(|| password(text, at + flag.len(), *form)).flatten()
    })
}

fn password(text: &[u8], after: usize, form: Form) -> Option<Range<usize>> {
    let separators = text[after..].iter().take(8).take_while(|byte| b" =".contains(byte)).count();
    if form == Form::Attached && separators > 0 {
        return None;
    }
    let value = value(text, after + separators, SHELL_ENDS)?;
    if form != Form::User {
        return is_secret(&text[value.clone()], FLAG_MIN_BYTES).then_some(value);
    }
    let colon = text[value.clone()].iter().position(|byte| *byte == b':')?;
    let password = value.start + colon + 1..value.end;
    (!is_placeholder(&text[password.clone()])).then_some(password)
}

/// The command up to here: its line, with preceding lines that end in a backslash, starting after the end of another
/// command.
fn command_before(text: &[u8], at: usize) -> &[u8] {
    let from = at.saturating_sub(COMMAND_MAX_BYTES);
    let ends = |place: &usize| match text[*place] {
        b'\n' => *place == 0 || text[*place - 1] != b'\\',
        byte => b";|&".contains(&byte),
    };
    let begin = (from..at).rev().find(ends).map_or(from, |end| end + 1);
    &text[begin..at]
}
