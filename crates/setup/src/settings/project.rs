//! Merges a project's settings: every `.posse/settings.yaml` from the directory of the run up to the root of the
//! repository.
//!
//! The author of the project wrote these files, so they may only narrow. Each of them does: none hides another. What
//! could run code, widen a grant or spend more applies once the user trusts exactly this content. A key that determines
//! where API keys and data go never applies. A file with mistakes does not block the user: until it is trusted, a note
//! names it and it is ignored.
//!
//! Why it is like this: `docs/decisions/trust-project-settings.md`.

use std::path::{Path, PathBuf};

use posse_domain::hash::Hash;

use super::entries::Entry;
use super::keys::{self, InProject, in_project};
use super::{Origin, Settings, file};
use crate::Setup;
use crate::error::{Remedy, SetupError};
use crate::hooks::ReachedFiles;
use crate::notes::{Note, Notes};
use crate::project_dirs;
use crate::trust::{Trust, TrustState};
use crate::trust_scope;

/// Limit of warnings about keys that never apply. A project may contain any number of them.
const WARNINGS_MAX: usize = 10;

/// A project's settings file.
#[derive(Debug)]
pub struct ProjectFile {
    /// Its canonical path.
    pub path: PathBuf,
    /// Whether the user trusts it.
    pub standing: TrustState,
    /// The hash of everything that trust in it covers; `None` if that cannot be read.
    pub hash: Option<Hash>,
    /// One line that names the project's scripts that trust also covers.
    pub further: Option<String>,
    /// Its commands that may run files that trust does not cover, each with the reason.
    pub undetermined: Vec<String>,
    /// Its settings, or the error in it.
    pub settings: Result<Settings, SetupError>,
}

impl ProjectFile {
    /// The settings files of the project that contains a directory, the nearest first.
    pub fn find(setup: &Setup, dir: &Path) -> Result<Vec<Self>, SetupError> {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let dirs = project_dirs::project_dirs(&dir, setup.environment.home.as_deref());
        let having: Vec<&PathBuf> = dirs.iter().filter(|dir| Self::is_in(dir)).collect();
        let (Some(root), false) = (dirs.last(), having.is_empty()) else { return Ok(Vec::new()) };
        let trust = Trust::load(&setup.environment)?;
        let mut files: Vec<Self> = Vec::new();
        for dir in having {
            let file = Self::read(dir, root, &trust);
            // One may be a link to another, and its hooks must run only once.
            if files.iter().all(|known| known.path != file.path) {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// Whether a directory has a settings file.
    pub fn is_in(dir: &Path) -> bool {
        dir.join(project_dirs::PROJECT_SETTINGS).symlink_metadata().is_ok()
    }

    /// Reads the file in a directory of the project with this root.
    pub fn read(dir: &Path, root: &Path, trust: &Trust) -> Self {
        let path = dir.join(project_dirs::PROJECT_SETTINGS);
        let path = path.canonicalize().unwrap_or(path);
        // A link to a file of the user would reveal its lines in error messages.
        let read = if path.starts_with(root) {
            project_dirs::read(&path)
        } else {
            Err("it leads out of the project".to_owned())
        };
        match read {
            Ok(bytes) => {
                let bytes = bytes.unwrap_or_default();
                let settings = file::parse_bytes(bytes.clone(), &path);
                let commands = settings.as_ref().map(Settings::commands).unwrap_or_default();
                let ReachedFiles { files, undetermined } =
                    crate::hooks::reached(&commands, &[dir, root], root);
                match trust_scope::of_settings(&bytes, &files, root) {
                    Ok(covered) => {
                        let standing = trust.standing(&path, Some(covered.hash));
                        let (hash, further) = (Some(covered.hash), covered.line());
                        Self { path, standing, hash, further, undetermined, settings }
                    }
                    Err(problem) => Self::unusable(path, &format!("a script that it names: {problem}")),
                }
            }
            Err(problem) => Self::unusable(path, &problem),
        }
    }

    fn unusable(path: PathBuf, problem: &str) -> Self {
        let settings = Err(file::unreadable(&path, problem));
        Self {
            path,
            standing: TrustState::New,
            hash: None,
            further: None,
            undetermined: Vec::new(),
            settings,
        }
    }

    /// Whether the user trusts its current content.
    pub fn is_trusted(&self) -> bool {
        self.standing == TrustState::Trusted
    }

    /// Whether a value was written in this file.
    pub fn has(&self, origin: &Origin) -> bool {
        matches!(origin, Origin::File { path, .. } if *path == self.path)
    }

    /// The origin of a key's effective value, if it is one of these files.
    fn counting_of<'a>(files: &[Self], key: &str, counting: &'a [Entry]) -> Option<&'a Origin> {
        let winner = counting.iter().find(|other| other.key == key)?;
        files.iter().any(|file| file.has(&winner.origin)).then_some(&winner.origin)
    }

    /// Why a value of the file does not apply.
    pub fn why_not(&self, key: &str, counting: &[Entry], files: &[Self]) -> String {
        let class = in_project(key);
        let other = Self::counting_of(files, key, counting);
        let why = match (class, other) {
            (InProject::Never, _) => NEVER,
            (InProject::Lowers | InProject::Narrows, Some(other)) => {
                return format!("{other} is used instead");
            }
            (_, Some(other)) if self.is_trusted() => return format!("{other} is used instead"),
            (InProject::Lowers, _) => "a project may only lower it",
            _ if self.standing == TrustState::Changed => "the file has changed since you trusted it",
            _ if !self.is_trusted() => "takes effect once you trust the file",
            _ => "yours is used instead",
        };
        why.to_owned()
    }

    /// The keys that would apply if the user trusted the file.
    fn waiting(&self, counting: &[Entry], files: &[Self]) -> Vec<String> {
        let entries = self.settings.as_ref().map(Settings::entries).unwrap_or_default();
        let mut waiting = Vec::new();
        for entry in entries.into_iter().filter(|entry| !self.is_trusted() && !counts(entry, counting)) {
            let waits = match in_project(&entry.key) {
                InProject::Trusted => true,
                // A smaller limit of another file would still win.
                InProject::Narrows => Self::counting_of(files, &entry.key, counting).is_none(),
                InProject::Lowers | InProject::Never => false,
            };
            if waits && !waiting.contains(&entry.key) {
                waiting.push(entry.key);
            }
        }
        waiting
    }
}

/// Merges the user's settings with what a project's files may set, and notes the rest. The nearest file is the first.
pub(super) fn put_between(
    files: &[ProjectFile],
    variables: Settings,
    own: Settings,
) -> Result<(Settings, Notes), SetupError> {
    let mut notes = Notes::none();
    let mut readable = Vec::new();
    for file in files {
        match &file.settings {
            Ok(settings) => readable.push((settings, file.is_trusted())),
            Err(error) if file.is_trusted() => return Err(error.clone()),
            Err(error) => notes.push(Note::warning(format!("{}; the file is ignored", error.message()))),
        }
    }
    let settings = Settings::layered(variables, own, &readable);
    notes.extend(readable.iter().flat_map(|(file, _)| file.entries()).filter_map(|entry| {
        let never = in_project(&entry.key) == InProject::Never;
        never.then(|| Note::warning(format!("{}: {} is ignored: {NEVER}", entry.origin, entry.key)))
    }));
    if let Some(more) = notes.len().checked_sub(WARNINGS_MAX).filter(|more| *more > 0) {
        notes.truncate(WARNINGS_MAX);
        notes.push(Note::warning(format!("{more} more are ignored")).remedy(Remedy::ShowSettings));
    }
    let counting = settings.entries();
    for file in files {
        let waiting = file.waiting(&counting, files);
        if !waiting.is_empty() {
            let standing = match file.standing {
                TrustState::Changed => "has changed since you trusted it",
                _ => "is not trusted",
            };
            let text =
                format!("{} {standing}, so these are ignored: {}", file.path.display(), waiting.join(", "));
            notes.push(Note::info(text).remedy(Remedy::TrustProject));
        }
    }
    Ok((settings, notes))
}

/// Why some keys of a project never apply.
const NEVER: &str = "only your own settings can set it";

/// Whether an entry is effective.
pub fn counts(entry: &Entry, counting: &[Entry]) -> bool {
    counting.iter().any(|other| other.key == entry.key && other.origin == entry.origin)
}

impl Settings {
    /// Merges the user's variables and file with what a project's files may set. Each file comes with whether it is
    /// trusted, the nearest first.
    fn layered(variables: Settings, file: Settings, files: &[(&Settings, bool)]) -> Settings {
        let trusted = files.iter().filter(|(_, trusted)| *trusted).map(|(file, _)| (*file).clone());
        let chosen = trusted.clone().fold(Settings::default(), Settings::or);
        let hooks = trusted.rev().flat_map(|file| file.hooks);
        let mut own = variables.or(file);
        // The ceiling alone is also the default of the depth.
        let ceiling = own.max_orchestration_depth.as_ref().map(|ceiling| ceiling.value);
        for (key, field) in keys::fields() {
            if matches!(key.in_project, InProject::Trusted | InProject::Narrows) {
                field.choose(&mut own, &chosen);
            }
            if matches!(key.in_project, InProject::Lowers | InProject::Narrows) {
                let default = match ceiling {
                    Some(ceiling) if key.name == keys::MAX_DEPTH => ceiling.into(),
                    _ => key.default().value,
                };
                // The nearest is the last, so that it is the origin if several set the same value.
                for (file, _) in files.iter().rev() {
                    field.narrow(&mut own, file, &default);
                }
            }
        }
        Settings {
            hooks: own.hooks.into_iter().chain(hooks).collect(),
            project_rules: files.iter().filter_map(|(file, _)| file.rules.clone()).collect(),
            ..own
        }
    }
}

#[cfg(test)]
mod tests;
