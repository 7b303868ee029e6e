//! Determines which files of a project its commands run, without running anything. Trust covers these files too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use globset::Glob;

use super::WORKSPACES;
use super::words::{in_order, shell_words, words};

/// Limit of directories in which the words of one command are searched.
const DIRS_MAX: usize = 64;
/// Limit of names that one pattern matches: more could not be trusted anyway.
const MATCHES_MAX: usize = 4_000;
/// Limit of variables in one command.
const VARIABLES_MAX: usize = 32;

/// Programs that run commands from files of the project, and those files.
const RUNNERS: [(&str, &[&str]); 19] = [
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("gmake", &["Makefile", "makefile", "GNUmakefile"]),
    ("npm", &["package.json"]),
    ("npx", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
    ("bun", &["package.json"]),
    ("deno", &["deno.json", "deno.jsonc"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("task", &["Taskfile.yml", "Taskfile.yaml"]),
    ("rake", &["Rakefile"]),
    ("cargo", &["Cargo.toml", "build.rs", ".cargo/config.toml"]),
    ("go", &["go.mod"]),
    ("mvn", &["pom.xml"]),
    ("gradle", &["build.gradle", "build.gradle.kts"]),
    ("tox", &["tox.ini", "pyproject.toml"]),
    ("nox", &["noxfile.py"]),
    ("pytest", &["conftest.py", "pyproject.toml", "pytest.ini"]),
    ("pre-commit", &[".pre-commit-config.yaml"]),
];
/// Variables with known values. Words that begin with them are handled elsewhere.
const KNOWN_VARIABLES: [&str; 2] = ["HOME", "CLAUDE_PROJECT_DIR"];
/// Programs that run a text, or files that they find themselves.
const INDIRECT: [&str; 4] = ["eval", "xargs", "find", "run-parts"];

/// The files that commands run.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReachedFiles {
    /// The files of the project, with links resolved.
    pub files: BTreeSet<PathBuf>,
    /// Commands that may run further files of the project, each with the reason.
    pub undetermined: Vec<String>,
}

/// One command, with the directories that its words may refer to.
struct CommandWords<'a> {
    root: &'a Path,
    dirs: Vec<PathBuf>,
    /// Each word once.
    words: Vec<String>,
    in_order: Vec<String>,
    /// The words as a shell reads them.
    whole: Vec<String>,
}

/// The files that commands run if they start in one of these directories of the project.
pub fn reached(commands: &[&str], dirs: &[&Path], root: &Path) -> ReachedFiles {
    let mut all = ReachedFiles::default();
    for command in commands {
        let command_words = CommandWords::at(command, dirs, root);
        all.files.extend(command_words.files());
        if let Some(why) = command_words.why_undetermined() {
            let line = format!("`{command}` may run files that trust does not cover: {why}");
            if !all.undetermined.contains(&line) {
                all.undetermined.push(line);
            }
        }
    }
    all
}

impl<'a> CommandWords<'a> {
    fn at(command: &str, dirs: &[&Path], root: &'a Path) -> Self {
        let command = with_variables(command);
        let mut all: Vec<PathBuf> = dirs.iter().map(|dir| (*dir).to_owned()).collect();
        let (words, in_order, whole) = (words(&command), in_order(&command), shell_words(&command));
        let mut command_words = Self { root, dirs: Vec::new(), words, in_order, whole };
        // The targets of `cd`, from each directory that the command may be in by then.
        for dir in command_words.after(&["cd", "pushd", "-C", "--directory", "--prefix", "--cwd"]) {
            let further: Vec<PathBuf> = all.iter().map(|from| from.join(beneath(dir))).collect();
            all.extend(further.into_iter().filter(|dir| dir.is_dir()));
            all.truncate(DIRS_MAX);
        }
        command_words.dirs = all;
        command_words
    }

    /// The words that follow one of these.
    fn after<'w>(&'w self, before: &'w [&str]) -> impl Iterator<Item = &'w str> {
        let pairs = self.in_order.windows(2).filter(|pair| before.contains(&pair[0].as_str()));
        pairs.map(|pair| pair[1].as_str())
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let modules = self.after(&["-m"]).flat_map(module_files);
        let runners = self.runners().flat_map(|(_, files)| files.iter().map(|file| (*file).to_owned()));
        let plain = self.words.iter().map(|word| beneath(word).to_owned());
        let names: BTreeSet<String> = plain.chain(modules).chain(runners).collect();
        let places = self.dirs.iter().flat_map(|dir| names.iter().flat_map(|name| expand(dir, name)));
        let real = places.filter_map(|place| place.canonicalize().ok());
        real.filter(|file| file.starts_with(self.root) && file.is_file()).collect()
    }

    /// The programs among the words that run commands from files of the project.
    fn runners(&self) -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
        RUNNERS.iter().filter(|(program, _)| self.words.iter().any(|word| word == program))
    }

    /// Why not all files that the command runs can be determined; `None` if they can.
    fn why_undetermined(&self) -> Option<String> {
        if let Some(word) = self.words.iter().find(|word| is_open(beneath(word))) {
            return Some(format!("`{word}` is known only when it runs"));
        }
        if let Some((program, files)) = self.runners().next() {
            return Some(format!(
                "`{program}` decides what it runs; of its files only {} are covered",
                files.join(", ")
            ));
        }
        if let Some(program) = INDIRECT.iter().find(|program| self.words.iter().any(|word| word == *program))
        {
            return Some(format!("`{program}` decides what it runs"));
        }
        let entered: Vec<&str> = self.after(&["cd", "pushd"]).collect();
        let is_dir = |word: &&String| {
            let real = self.dirs.iter().filter_map(|dir| dir.join(beneath(word)).canonicalize().ok());
            let inside = |dir: &PathBuf| dir.starts_with(self.root) && dir != self.root && dir.is_dir();
            !entered.contains(&word.as_str())
                && word.contains(|c| c != '.' && c != '/')
                && real.into_iter().any(|dir| inside(&dir))
        };
        let dir = self.whole.iter().find(is_dir)?;
        Some(format!("`{dir}` is a directory, and its files are not covered"))
    }
}

/// A word without the prefix for the workspace.
pub(super) fn beneath(word: &str) -> &str {
    WORKSPACES.iter().find_map(|start| word.strip_prefix(start)).unwrap_or(word)
}

/// Whether a shell expands a part of this word.
fn is_open(word: &str) -> bool {
    let is_unknown = |next: &str| {
        let next = next.strip_prefix('{').unwrap_or(next);
        let name = next.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        // `$(…)` ends the word, so nothing follows the dollar sign.
        next.is_empty() || is_name && !KNOWN_VARIABLES.contains(&name)
    };
    word.contains('`') || word.split('$').skip(1).any(is_unknown)
}

/// Substitutes variables that the command sets itself, if their values are plain.
fn with_variables(command: &str) -> String {
    let mut whole = command.to_owned();
    for word in shell_words(command).iter().take(VARIABLES_MAX) {
        let Some((name, value)) = word.split_once('=') else { continue };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name && !is_open(value) {
            whole = whole.replace(&format!("${{{name}}}"), value);
            whole = with_variable(&whole, &format!("${name}"), value);
        }
    }
    whole
}

/// Substitutes `$NAME`, but not a longer name that begins with it.
fn with_variable(text: &str, variable: &str, value: &str) -> String {
    let mut parts = text.split(variable);
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_longer = part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        whole.push_str(if is_longer { variable } else { value });
        whole.push_str(part);
    }
    whole
}

/// The files of a Python module: `a.b` is `a/b.py` or the package `a/b`, after `a/__init__.py`.
fn module_files(module: &str) -> Vec<String> {
    let path = module.replace('.', "/");
    let packages = path.match_indices('/').map(|(at, _)| format!("{}/__init__.py", &path[..at]));
    let mut files: Vec<String> = packages.collect();
    files.extend(["", "/__init__", "/__main__"].map(|end| format!("{path}{end}.py")));
    files
}

/// The paths that a name with patterns matches; a plain name is its own path.
fn expand(dir: &Path, name: &str) -> Vec<PathBuf> {
    let mut places = vec![dir.to_owned()];
    if !name.contains(['*', '?', '[', '{']) {
        return vec![dir.join(name)];
    }
    for part in name.split('/').filter(|part| !part.is_empty()) {
        let Some(pattern) = Glob::new(part).ok().filter(|_| part.contains(['*', '?', '[', '{'])) else {
            for place in &mut places {
                place.push(part);
            }
            continue;
        };
        let pattern = pattern.compile_matcher();
        let entries = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten();
        let matching = entries.filter_map(Result::ok).filter(|entry| pattern.is_match(entry.file_name()));
        places = matching.map(|entry| entry.path()).take(MATCHES_MAX).collect();
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A project with scripts and the files that run them.
    fn project() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        for name in [
            "scripts/h.sh",
            "scripts/sub/i.sh",
            "scripts/h.py",
            "scripts/__init__.py",
            "Makefile",
            "package.json",
        ] {
            std::fs::create_dir_all(root.join(name).parent().expect("a folder")).expect("made");
            std::fs::write(root.join(name), "").expect("written");
        }
        (dir, root)
    }

    fn names(command: &str, root: &Path) -> Vec<String> {
        let files = reached(&[command], &[root], root).files;
        files.iter().map(|file| file.strip_prefix(root).expect("inside").display().to_string()).collect()
    }

    #[test]
    fn scripts_are_found_in_the_ways_that_commands_reach_them() {
        let (_dir, root) = project();
        for (command, expected) in [
            ("./scripts/h.sh", vec!["scripts/h.sh"]),
            ("cd scripts && ./h.sh", vec!["scripts/h.sh"]),
            ("cd scripts; cd sub; sh i.sh", vec!["scripts/sub/i.sh"]),
            ("cd \"$CLAUDE_PROJECT_DIR/scripts\" && ./h.sh", vec!["scripts/h.sh"]),
            ("sh -c 'cd scripts && ./h.sh'", vec!["scripts/h.sh"]),
            ("sh ./scripts/*.sh", vec!["scripts/h.sh"]),
            ("sh scripts/*/?.sh", vec!["scripts/sub/i.sh"]),
            ("sh scripts/[a-h].sh", vec!["scripts/h.sh"]),
            ("D=scripts; sh $D/h.sh", vec!["scripts/h.sh"]),
            ("D=scripts E=sub; sh ${D}/$E/i.sh", vec!["scripts/sub/i.sh"]),
            ("python3 -m scripts.h", vec!["scripts/__init__.py", "scripts/h.py"]),
            ("make hook", vec!["Makefile"]),
            ("npm run hook", vec!["package.json"]),
            ("cd scripts && make -C .. hook", vec!["Makefile"]),
            ("echo scripts", vec![]),
            ("sh ../*/*.sh /etc/*.conf", vec![]),
        ] {
            assert_eq!(names(command, &root), expected, "{command}");
        }
    }

    #[test]
    fn a_command_with_undetermined_files_is_named_with_the_reason() {
        let (_dir, root) = project();
        let why = |command: &str| reached(&[command, command], &[&root], &root).undetermined;
        for (command, reason) in [
            (
                "make hook",
                "`make` decides what it runs; of its files only Makefile, makefile, GNUmakefile are covered",
            ),
            ("sh $X/h.sh", "`$X/h.sh` is known only when it runs"),
            ("D=$X; sh $D/h.sh", "`D=$X` is known only when it runs"),
            ("sh $(cat name)", "`$` is known only when it runs"),
            ("sh `cat name`", "``cat` is known only when it runs"),
            ("find . -name h.sh -exec sh {} +", "`find` decides what it runs"),
            ("run-parts scripts", "`run-parts` decides what it runs"),
            ("python3 scripts", "`scripts` is a directory, and its files are not covered"),
        ] {
            let expected = format!("`{command}` may run files that trust does not cover: {reason}");
            assert_eq!(why(command), [expected], "{command}");
        }
        for command in [
            "./scripts/h.sh",
            "cd scripts && ./h.sh",
            "D=scripts; sh $D/h.sh",
            "\"$CLAUDE_PROJECT_DIR\"/scripts/h.sh",
            "$HOME/h.sh",
            "prettier --write .",
            "awk '{print $1}'",
        ] {
            assert!(why(command).is_empty(), "{command}: {:?}", why(command));
        }
    }
}
