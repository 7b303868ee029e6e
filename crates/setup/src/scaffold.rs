//! Writes the first files of a project: settings in which nothing is set yet, and an example of a definition.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use posse::atomic_file::{self, ExistingFile};

use crate::Setup;
use crate::error::SetupError;
use crate::notes::{Note, WithNotes};
use crate::project_dirs::{OWN_FOLDER, PROJECT_AGENTS, PROJECT_SETTINGS, project_dirs};

/// The settings file that is written.
const SETTINGS: &str = include_str!("scaffold/settings.yaml");
/// The definition that is written.
const EXAMPLE: &str = include_str!("scaffold/example.md");
const EXAMPLE_FILE: &str = "example.md";

/// One of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaffoldedFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether it was written. If not, it existed and was left unchanged.
    pub is_written: bool,
}

/// Writes the files into the directory of a project, absolute or relative to that of the environment. Existing files
/// are replaced only with `overwrite`.
pub fn scaffold(
    dir: Option<&Path>,
    overwrite: bool,
    setup: &Setup,
) -> Result<WithNotes<Vec<ScaffoldedFile>>, SetupError> {
    let cwd = &setup.environment.cwd;
    let dir = dir.map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
    if !dir.is_dir() {
        return Err(SetupError::usage(format!("{}: is not a directory", dir.display())).hint("make it first"));
    }
    let above = check_target(&dir, setup)?;
    let files =
        [(dir.join(PROJECT_SETTINGS), SETTINGS), (dir.join(PROJECT_AGENTS[0]).join(EXAMPLE_FILE), EXAMPLE)];
    let mut written = Vec::new();
    for (path, text) in files {
        let is_written = write(&path, text, overwrite).map_err(|error| {
            SetupError::failed(format!("{} cannot be written: {error}", path.display()))
                .hint("make room for it, or name another directory")
        })?;
        written.push(ScaffoldedFile { path, is_written });
    }
    Ok(WithNotes::new(written, above.into_iter().collect()))
}

/// Checks that a project can have files here. Returns a note if the project already has some above.
fn check_target(dir: &Path, setup: &Setup) -> Result<Option<Note>, SetupError> {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let home = setup.environment.home.as_deref();
    if home.is_some_and(|home| home.canonicalize().is_ok_and(|home| home == whole)) {
        let problem = format!("{}: this is your home directory, which is no project", dir.display());
        return Err(SetupError::usage(problem).hint(
            "your own settings are in ~/.config/posse/settings.yaml, your agents in ~/.config/posse/agents",
        ));
    }
    for folder in [OWN_FOLDER, PROJECT_AGENTS[0]] {
        let folder = dir.join(folder);
        if folder.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            let problem = format!(
                "{}: this is a link, and what it leads to may not be the project's",
                folder.display()
            );
            return Err(
                SetupError::usage(problem).hint("put a folder in its place, or name another directory")
            );
        }
    }
    let above = project_dirs(&whole, home).into_iter().skip(1).find(|above| above.join(OWN_FOLDER).is_dir());
    Ok(above.map(|above| {
        Note::info(format!(
            "the project has {} already; files here apply to runs in this directory and below",
            above.join(OWN_FOLDER).display()
        ))
    }))
}

/// Writes a file; an existing one only with `overwrite`. Returns whether it was written.
fn write(path: &Path, text: &str, overwrite: bool) -> std::io::Result<bool> {
    DirBuilder::new().recursive(true).create(path.parent().unwrap_or(path))?;
    let existing = if overwrite { ExistingFile::Replace } else { ExistingFile::Keep };
    match atomic_file::write(path, atomic_file::SHARED, existing, |file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use posse_definitions::{ParseOptions, read_agent};

    use super::*;
    use crate::Environment;
    use crate::settings::project::ProjectFile;
    use crate::trust::Trust;

    #[test]
    fn what_is_written_sets_nothing_yet_and_every_example_in_it_is_valid() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        let read = |text: &str| {
            write(&root.join(PROJECT_SETTINGS), text, true).expect("written");
            ProjectFile::read(&root, &root, &Trust::default()).settings.map_err(|error| error.to_string())
        };
        assert!(read(SETTINGS).expect("settings").entries().is_empty());
        // A commented-out key has no space after its mark.
        let is_key = |line: &str| {
            line.strip_prefix('#').is_some_and(|rest| !rest.starts_with(' ') || rest.starts_with("  "))
        };
        let open: Vec<&str> =
            SETTINGS.lines().map(|line| if is_key(line) { &line[1..] } else { line }).collect();
        let set = read(&open.join("\n")).expect("every example can be used").entries();
        assert!(set.len() >= 9, "{set:?}");
        let tools = ["read", "grep", "glob", "list"];
        let reading = ParseOptions {
            file: EXAMPLE_FILE,
            known_tools: &tools,
            trust: posse::Trust::Trusted,
            model: None,
        };
        let agent = read_agent(EXAMPLE.as_bytes(), "example", &reading);
        assert_eq!(agent.warnings, []);
        assert_eq!(agent.value.expect("a definition").tools, tools);
    }

    #[test]
    fn existing_files_are_left_as_they_are_unless_that_was_asked_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        let setup = Setup::new(Environment::new(root.clone(), []));
        let written = |overwrite| {
            let files = scaffold(None, overwrite, &setup).expect("a project").value;
            files.into_iter().map(|file| file.is_written).collect::<Vec<_>>()
        };
        assert_eq!(written(false), [true, true]);
        let settings = root.join(PROJECT_SETTINGS);
        std::fs::write(&settings, "model: x\n").expect("written");
        assert_eq!(written(false), [false, false]);
        assert_eq!(std::fs::read_to_string(&settings).expect("text"), "model: x\n");
        assert_eq!(written(true), [true, true]);
        assert_eq!(std::fs::read_to_string(&settings).expect("text"), SETTINGS);
    }

    #[test]
    fn a_home_directory_is_no_project_and_a_project_above_is_noted() {
        let dir = tempfile::tempdir().expect("a directory");
        let home = dir.path().canonicalize().expect("a path");
        let project = home.join("project");
        std::fs::create_dir_all(project.join("part")).expect("made");
        std::fs::create_dir(project.join(".git")).expect("made");
        let variables = [("HOME".into(), home.clone().into())];
        let setup = Setup::new(Environment::new(home, variables));
        let error = scaffold(None, false, &setup).expect_err("the home directory");
        assert!(error.message().contains("this is your home directory"), "{error}");
        assert!(scaffold(Some(&project), false, &setup).expect("files").notes.is_empty());
        let notes = scaffold(Some(&project.join("part")), false, &setup).expect("files").notes;
        let there = project.join(OWN_FOLDER);
        let text = format!(
            "the project has {} already; files here apply to runs in this directory and below",
            there.display()
        );
        assert_eq!(notes.as_slice(), [Note::info(text)]);
    }
}
