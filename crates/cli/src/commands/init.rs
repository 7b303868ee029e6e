//! `posse init`.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use posse_setup::project_dirs::{OWN_FOLDER, PROJECT_AGENTS, PROJECT_SETTINGS, project_dirs};

use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{Output, note};

/// The settings file that is written.
const SETTINGS: &str = include_str!("init/settings.yaml");
/// The definition that is written.
const EXAMPLE: &str = include_str!("init/example.md");
const EXAMPLE_FILE: &str = "example.md";

/// Write a small settings file and an example agent into this project
///
/// Creates .posse/settings.yaml and .posse/agents/example.md. Existing files are not changed.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The directory of the project [default: the current one]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace the two files if they exist
    #[arg(long)]
    force: bool,
}

/// Writes the files.
pub(crate) fn init(args: &InitArgs, context: &Context) -> Result<Exit, CliError> {
    let cwd = &context.environment.cwd;
    let dir = args.dir.as_ref().map_or_else(|| cwd.clone(), |dir| cwd.join(dir));
    if !dir.is_dir() {
        return Err(CliError::usage(format!("{}: is not a directory", dir.display())).hint("make it first"));
    }
    let note_above = check_target(&dir, context)?;
    let files =
        [(dir.join(PROJECT_SETTINGS), SETTINGS), (dir.join(PROJECT_AGENTS[0]).join(EXAMPLE_FILE), EXAMPLE)];
    let mut output = Output::new();
    let mut wrote = false;
    for (path, text) in files {
        let done = write(&path, text, args.force).map_err(|error| {
            CliError::failed(format!("{} cannot be written: {error}", path.display()))
                .hint("make room for it, or name another directory")
        })?;
        wrote |= done;
        let outcome = if done { "wrote" } else { "left as it is" };
        output.paragraph(&format!("{outcome}: {}", path.display()))?;
    }
    if let Some(above) = note_above {
        note(&above);
    }
    let program = &context.program;
    output.paragraph(&if wrote {
        format!(
            "Edit them, then `{program} trust` to let them do more than narrow; `{program} settings` and \
             `{program} agents` show what is used."
        )
    } else {
        format!("Nothing was written; `{program} init --force` replaces what is in {OWN_FOLDER}.")
    })?;
    output.flush()?;
    Ok(Exit::DONE)
}

/// Checks that a project can have files here. Returns a note if the project already has some above.
fn check_target(dir: &Path, context: &Context) -> Result<Option<String>, CliError> {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let home = context.environment.home.as_deref();
    if home.is_some_and(|home| home.canonicalize().is_ok_and(|home| home == whole)) {
        let problem = format!("{}: this is your home directory, which is no project", dir.display());
        return Err(CliError::usage(problem).hint(
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
            return Err(CliError::usage(problem).hint("put a folder in its place, or name another directory"));
        }
    }
    let above = project_dirs(&whole, home).into_iter().skip(1).find(|above| above.join(OWN_FOLDER).is_dir());
    Ok(above.map(|above| {
        let there = above.join(OWN_FOLDER);
        format!(
            "note: the project has {} already; files here apply to runs in this directory and below",
            there.display()
        )
    }))
}

/// Writes a file; an existing one only with `force`. Returns whether it was written.
fn write(path: &Path, text: &str, force: bool) -> std::io::Result<bool> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new().recursive(true).create(folder)?;
    if force {
        let mut file = tempfile::Builder::new().prefix(".posse-").tempfile_in(folder)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        // Readable by others, like other files of a project.
        file.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.persist(path).map_err(|error| error.error)?;
        return Ok(true);
    }
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(text.as_bytes()).map(|()| true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use posse_definitions::{ParseOptions, read_agent};

    use super::*;
    use posse_setup::settings::project::ProjectFile;
    use posse_setup::trust::Trust;

    #[test]
    fn what_is_written_says_nothing_yet_and_everything_in_it_is_true() {
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
    fn what_is_there_is_left_as_it_is_unless_that_was_asked_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a/b");
        assert!(write(&path, "one", false).expect("written"));
        assert!(!write(&path, "two", false).expect("left"));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "one");
        assert!(write(&path, "two", true).expect("replaced"));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "two");
        assert_eq!(std::fs::read_dir(dir.path().join("a")).expect("a folder").count(), 1);
    }
}
