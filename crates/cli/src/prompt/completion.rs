//! Suggestions while a user types: commands and skills after `/`, files of the project after `@`.

use std::path::PathBuf;

use super::commands::COMMANDS;
use crate::term;

/// Limit of suggestions.
const CANDIDATES_MAX: usize = 200;

/// A suggestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// What replaces the word.
    pub(super) text: String,
    pub(super) about: String,
}

/// Suggestions for a word.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Completions {
    /// Where the word begins.
    pub(super) start: usize,
    pub(super) candidates: Vec<Candidate>,
}

/// Something that knows suggestions.
pub(super) trait Completer {
    /// Suggestions for the end of a text; `None` if it ends with no word that can be completed.
    fn complete(&self, before: &str) -> Option<Completions>;
}

/// The names that a project has, read when the prompt starts.
#[derive(Debug, Default)]
pub(super) struct ProjectNames {
    /// The directory that runs work in.
    pub(super) dir: PathBuf,
    /// Skills, definitions and models, each with a line about it.
    pub(super) skills: Vec<(String, String)>,
    pub(super) agents: Vec<(String, String)>,
    pub(super) models: Vec<(String, String)>,
}

impl ProjectNames {
    /// Whether there is a skill of this name.
    pub(super) fn has_skill(&self, name: &str) -> bool {
        self.skills.iter().any(|(known, _)| known == name)
    }

    fn commands(&self, typed: &str) -> Vec<Candidate> {
        let commands = COMMANDS.iter().map(|command| (command.name, command.about));
        let skills = self.skills.iter().map(|(name, about)| (name.as_str(), about.as_str()));
        let fits = |(name, _): &(&str, &str)| name.starts_with(typed);
        let all = commands.chain(skills).filter(fits);
        all.map(|(name, about)| candidate(format!("/{name} "), about)).collect()
    }

    /// The files and folders that a typed path can be.
    fn files(&self, typed: &str) -> Vec<Candidate> {
        let (folder, name) = typed.rsplit_once('/').map_or(("", typed), |(folder, name)| (folder, name));
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let entries = posse::folder_entries(&self.dir, folder).into_iter();
        let fits = |entry: &posse::FolderEntry| entry.name.starts_with(name) && is_typable(&entry.name);
        let entries = entries.filter(fits).map(|entry| {
            let end = if entry.is_folder { "/" } else { " " };
            candidate(format!("@{prefix}{}{end}", entry.name), "")
        });
        entries.take(CANDIDATES_MAX).collect()
    }
}

/// Whether a name can stand in a request as it is.
fn is_typable(name: &str) -> bool {
    !name.contains(char::is_whitespace) && name.chars().all(term::is_plain)
}

fn candidate(text: String, about: &str) -> Candidate {
    Candidate { text, about: term::line(about) }
}

impl Completer for ProjectNames {
    fn complete(&self, before: &str) -> Option<Completions> {
        let start = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let word = &before[start..];
        let names = |names: &[(String, String)]| {
            let fits = names.iter().filter(|(name, _)| name.starts_with(word));
            fits.map(|(name, about)| candidate(format!("{name} "), about)).take(CANDIDATES_MAX).collect()
        };
        let candidates = match (before[..start].trim(), word.strip_prefix('/'), word.strip_prefix('@')) {
            ("", Some(typed), _) if start == 0 => self.commands(typed),
            ("/model", ..) => names(&self.models),
            ("/agent", ..) => names(&self.agents),
            (_, _, Some(path)) => self.files(path),
            _ => return None,
        };
        Some(Completions { start, candidates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &ProjectNames, before: &str) -> Vec<String> {
        let found = names.complete(before).map(|found| found.candidates).unwrap_or_default();
        found.into_iter().map(|candidate| candidate.text).collect()
    }

    #[test]
    fn commands_skills_values_and_files_that_git_knows_are_suggested() {
        let dir = tempfile::tempdir().expect("a directory");
        for (path, text) in [
            (".gitignore", "target\n*.log\n"),
            ("src/main.rs", ""),
            ("src/model.rs", ""),
            ("src/own.log", ""),
            ("target/out", ""),
            ("a name.txt", ""),
            ("read\u{202e}me", ""),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let pair = |name: &str| (name.to_owned(), "about it".to_owned());
        let names = ProjectNames {
            dir: dir.path().to_owned(),
            skills: vec![pair("dice")],
            agents: vec![pair("explore")],
            models: vec![pair("sonnet")],
        };
        assert_eq!(texts(&names, "/di"), ["/diff ", "/dice "]);
        assert_eq!(texts(&names, "/model so"), ["sonnet "]);
        assert_eq!(texts(&names, "/agent "), ["explore "]);
        assert_eq!(texts(&names, "look at @"), ["@.gitignore ", "@src/"]);
        assert_eq!(texts(&names, "@src/m"), ["@src/main.rs ", "@src/model.rs "]);
        assert_eq!(texts(&names, "@../"), Vec::<String>::new(), "nothing outside of the project");
        assert_eq!(names.complete("plain words"), None);
        assert_eq!(texts(&names, "say /di"), Vec::<String>::new(), "a command stands at the beginning");
    }
}
