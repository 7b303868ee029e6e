//! Splits a hook's command into words and finds the files that it names.

use std::path::{Path, PathBuf};

/// Prefixes of a word that refer to the home directory.
pub(super) const HOMES: [&str; 3] = ["~/", "$HOME/", "${HOME}/"];

/// Whether an unquoted character ends a word in a shell.
fn separates(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

/// The words of a command as a shell reads them, and the parts after a `=`. Quoted text is read again without its
/// quotes, because `sh -c '...'` has a command there. Variables are not expanded.
pub(super) fn words(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let assigned = |word: &String| Some(word.split_once('=')?.1.to_owned());
    let in_order = in_order(command);
    for word in in_order.iter().cloned().chain(in_order.iter().filter_map(assigned)) {
        if !word.is_empty() && !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

/// The words of a command in order, and then again with quotes ignored.
pub(super) fn in_order(command: &str) -> Vec<String> {
    let loose = command.split(|c| separates(c) || matches!(c, '"' | '\'' | '=')).map(str::to_owned);
    shell_words(command).into_iter().chain(loose).filter(|word| !word.is_empty()).collect()
}

/// A part of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// A word of a simple command.
    Word(String),
    /// The end of a simple command.
    End,
}

impl Piece {
    pub(super) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            Self::End => None,
        }
    }
}

/// The words of a command, divided into simple commands. Files that are read or written by `<` and `>` are omitted.
pub(super) fn pieces(command: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut is_redirected = false;
    let mut before = None;
    for (word, ended_by) in ended_words(command) {
        if !word.is_empty() && !std::mem::take(&mut is_redirected) {
            pieces.push(Piece::Word(word));
        }
        match ended_by {
            Some('<' | '>') => is_redirected = true,
            // `2>&1`
            Some('&') if before == Some('>') && is_redirected => {}
            Some(';' | '&' | '|' | '(' | ')' | '\n') => {
                is_redirected = false;
                pieces.push(Piece::End);
            }
            _ => {}
        }
        before = ended_by;
    }
    pieces
}

/// The words of a command without quotes and escapes.
pub(super) fn shell_words(command: &str) -> Vec<String> {
    ended_words(command).into_iter().map(|(word, _)| word).collect()
}

/// The words of a command without quotes and escapes, each with the character that ends it.
fn ended_words(command: &str) -> Vec<(String, Option<char>)> {
    let (mut words, mut word, mut open) = (Vec::new(), String::new(), None);
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match (open, c) {
            (None | Some('"'), '\\') => {
                let Some(next) = chars.next() else { break };
                if open.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.push(c);
                }
                word.push(next);
            }
            (None, '"' | '\'') => open = Some(c),
            (Some(quote), c) if quote == c => open = None,
            (None, c) if separates(c) => words.push((std::mem::take(&mut word), Some(c))),
            (_, c) => word.push(c),
        }
    }
    words.push((word, None));
    words
}

/// The files in the home directory that a command names: programs do not see that directory, but scripts are often
/// there.
pub(super) fn files(command: &str, home: &Path) -> Vec<PathBuf> {
    let whole = |word: &str| {
        let beneath = HOMES.iter().find_map(|start| word.strip_prefix(start));
        beneath.map_or_else(|| PathBuf::from(word), |rest| home.join(rest))
    };
    let mut files: Vec<PathBuf> = words(command)
        .iter()
        .map(|word| whole(word))
        .filter(|path| path.starts_with(home) && path.is_file())
        .collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_in_the_home_directory_are_found_however_they_are_written() {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("hooks");
        let spaced = home.path().join("my hooks").join("c.sh");
        for dir in [&dir, spaced.parent().expect("a folder")] {
            std::fs::create_dir(dir).expect("made");
        }
        std::fs::write(&spaced, "").expect("written");
        for name in ["a.sh", "b.py"] {
            std::fs::write(dir.join(name), "").expect("written");
        }
        let (a, b) = (dir.join("a.sh"), dir.join("b.py"));
        let whole = format!("{} --strict", a.display());
        let whole_spaced = format!("python3 '{}'", spaced.display());
        for (command, expected) in [
            ("~/hooks/a.sh", vec![a.clone()]),
            ("\"$HOME/hooks/a.sh\" | python3 ${HOME}/hooks/b.py", vec![a.clone(), b.clone()]),
            ("CONFIG=~/hooks/b.py ~/hooks/a.sh; ~/hooks/a.sh", vec![a.clone(), b]),
            (whole.as_str(), vec![a.clone()]),
            (whole_spaced.as_str(), vec![spaced.clone()]),
            ("\"$HOME/my hooks/c.sh\"", vec![spaced.clone()]),
            ("\"${HOME}/my hooks\"/c.sh x", vec![spaced.clone()]),
            ("~/my\\ hooks/c.sh", vec![spaced.clone()]),
            ("CHECK=\"$HOME/my hooks/c.sh\"; \"$CHECK\"", vec![spaced.clone()]),
            ("sh -c 'cat | ~/hooks/a.sh'", vec![a]),
            ("\"$HOME/my hooks/c.sh", vec![spaced.clone()]),
            ("~/hooks ~/hooks/none.sh /etc/passwd ./check.sh", Vec::new()),
        ] {
            assert_eq!(files(command, home.path()), expected, "{command}");
        }
    }
}
