//! Finds scripts of hooks that do not exist: the programs that a command starts by a path, and the files that it has an
//! interpreter run. What a shell expands is known only when it runs, so such words are skipped, and a script that is
//! named in another way is not found: this is a warning, and the hook fails closed in any case.

use std::path::{Path, PathBuf};

use super::reached_files::beneath;
use super::words::{HOMES, Piece, pieces};
use crate::settings::hooks::Hook as Written;

/// Programs that run the file which is their first argument.
const INTERPRETERS: [&str; 14] = [
    "sh", "bash", "dash", "zsh", "ksh", "fish", "source", ".", "python", "python3", "node", "ruby", "perl",
    "php",
];
/// Programs that start the command which follows them.
const PREFIXES: [&str; 8] = ["exec", "env", "command", "time", "nohup", "nice", "sudo", "!"];
/// Flags of an interpreter after which no file follows: a command, a module, standard input.
const NO_FILE: [&str; 5] = ["-c", "-m", "-e", "-s", "-"];
/// The flag of a shell whose argument is a command.
const COMMAND: &str = "-c";
/// How many commands are searched within a command, as in `sh -c 'sh -c …'`.
const NESTED_MAX: u32 = 4;

/// The scripts of hooks that do not exist, each with the hook that names it.
pub(crate) fn missing_scripts(hooks: &[Written], dir: &Path, home: Option<&Path>) -> Vec<String> {
    let mut missing = Vec::new();
    for hook in hooks {
        let mut found = Scripts { dir: Some(dir.to_owned()), home, missing: Vec::new() };
        found.look(&hook.command, 0);
        let of_hook = found.missing.into_iter();
        missing.extend(
            of_hook.map(|word| {
                format!("{}: hooks.{}: `{word}` does not exist", hook.origin, hook.moment.name())
            }),
        );
    }
    missing
}

/// The scripts of one command.
struct Scripts<'a> {
    /// The directory that the command is in by now; `None` if it is not known.
    dir: Option<PathBuf>,
    home: Option<&'a Path>,
    missing: Vec<String>,
}

impl Scripts<'_> {
    fn look(&mut self, command: &str, depth: u32) {
        let all = pieces(command);
        for simple in all.split(|piece| *piece == Piece::End) {
            let words: Vec<&str> = simple.iter().filter_map(Piece::word).collect();
            self.look_at(&words, depth);
        }
    }

    /// Looks at one simple command.
    fn look_at(&mut self, words: &[&str], depth: u32) {
        let is_before = |word: &&&str| is_assignment(word) || PREFIXES.contains(*word);
        let begin = words.iter().take_while(is_before).count();
        let Some((program, arguments)) = words[begin..].split_first() else { return };
        if *program == "cd" || *program == "pushd" {
            self.dir = arguments.first().and_then(|dir| self.path(dir)).filter(|dir| dir.is_dir());
            return;
        }
        if program.contains('/') {
            self.check(program);
        }
        let name = program.rsplit('/').next().unwrap_or_default();
        if !INTERPRETERS.contains(&name) {
            return;
        }
        let flags = arguments.iter().take_while(|word| word.starts_with('-')).count();
        if let Some(at) = arguments[..flags].iter().position(|flag| NO_FILE.contains(flag)) {
            let nested = arguments.get(at + 1).filter(|_| arguments[at] == COMMAND && depth < NESTED_MAX);
            if let Some(nested) = nested.filter(|_| !name.starts_with("python")) {
                self.look(nested, depth + 1);
            }
        } else if let Some(file) = arguments.get(flags) {
            self.check(file);
        }
    }

    fn check(&mut self, word: &str) {
        let is_missing = self.path(word).is_some_and(|path| !path.exists());
        if is_missing && !self.missing.iter().any(|known| known == word) {
            self.missing.push(word.to_owned());
        }
    }

    /// The path that a word names; `None` if a shell expands a part of it or if the directory is not known.
    fn path(&self, word: &str) -> Option<PathBuf> {
        let in_home = HOMES.iter().find_map(|start| word.strip_prefix(start)).zip(self.home);
        let path = match in_home {
            Some((rest, home)) => home.join(rest),
            None if word.starts_with('/') && beneath(word) == word => PathBuf::from(word),
            None => self.dir.as_ref()?.join(beneath(word)),
        };
        let is_expanded = path.to_string_lossy().contains(['$', '`', '*', '?', '[', '{', '~']);
        (!is_expanded).then_some(path)
    }
}

/// Whether a word sets a variable.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(command: &str, dir: &Path) -> Vec<String> {
        let mut found = Scripts { dir: Some(dir.to_owned()), home: Some(dir), missing: Vec::new() };
        found.look(command, 0);
        found.missing
    }

    #[test]
    fn a_script_that_does_not_exist_is_found_wherever_the_command_names_it() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("scripts")).expect("made");
        std::fs::write(dir.path().join("scripts/there.sh"), "").expect("written");
        for (command, expected) in [
            ("./none.sh", vec!["./none.sh"]),
            ("bash scripts/none.sh --strict", vec!["scripts/none.sh"]),
            ("bash -eu none.sh", vec!["none.sh"]),
            ("cat | python3 ~/none.py", vec!["~/none.py"]),
            ("test -f x && ./none.sh; ./none.sh", vec!["./none.sh"]),
            ("A=1 exec \"$CLAUDE_PROJECT_DIR\"/scripts/none.sh", vec!["$CLAUDE_PROJECT_DIR/scripts/none.sh"]),
            ("sh -c './scripts/there.sh; ./none.sh'", vec!["./none.sh"]),
            ("cd scripts && ./there.sh && ./none.sh", vec!["./none.sh"]),
            (". ./none.env", vec!["./none.env"]),
        ] {
            assert_eq!(missing(command, dir.path()), expected, "{command}");
        }
        for command in [
            "./scripts/there.sh",
            "cd scripts; sh there.sh",
            "cd elsewhere && ./none.sh",
            "jq -r .tool_name > out/none.txt",
            "prettier --write src/none.js",
            "sed s/a/b/ 2>/dev/null",
            "sh $SCRIPT; $D/none.sh; sh `cat none`; sh scripts/*.sh",
            "python3 -c 'import none'; python3 -m none; node -e 'x/y'",
            "true",
        ] {
            assert_eq!(missing(command, dir.path()), Vec::<String>::new(), "{command}");
        }
    }
}
