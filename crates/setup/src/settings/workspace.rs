//! The settings `workspace` and `gc`: how workspaces are created, and when they are removed.

use std::path::Path;

use posse::{GcRequest, WorkspaceKind, WorkspaceOptions, WorkspaceSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MB, WithOrigin};
use crate::age::Age;
use crate::error::SetupError;

/// What workspaces consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "workspace_kind")]
pub(super) enum KindSetting {
    Auto,
    Copies,
}

impl KindSetting {
    /// From the text of a variable.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "copies" => Ok(Self::Copies),
            _ => Err("expected `auto` or `copies`".to_owned()),
        }
    }
}

/// The keys of `workspace`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkspaceKeys {
    /// `workspace.kind`: overlays or copies.
    pub(super) kind: Option<WithOrigin<KindSetting>>,
    /// `workspace.copy`: globs of ignored files to copy.
    pub(super) copy: Option<WithOrigin<Vec<String>>>,
    /// `workspace.setup`: a command that is run once in each new workspace.
    pub(super) setup: Option<WithOrigin<String>>,
    /// `workspace.caches`: names of ignored directories that are mounted instead of copied.
    pub(super) caches: Option<WithOrigin<Vec<String>>>,
    /// `workspace.max_run_mb`: limit of all workspaces of a run.
    pub(super) max_run_mb: Option<WithOrigin<u64>>,
    /// `workspace.max_files`: limit of files in a project.
    pub(super) max_files: Option<WithOrigin<u64>>,
    /// `workspace.max_file_mb`: the largest file of a project.
    pub(super) max_file_mb: Option<WithOrigin<u64>>,
}

/// The keys of `gc`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcKeys {
    /// `gc.workspaces`: the minimum age of an ended run's workspaces for removal.
    pub(super) workspaces: Option<WithOrigin<Age>>,
    /// `gc.salvage`: the minimum age of salvage for removal.
    pub(super) salvage: Option<WithOrigin<Age>>,
}

impl WorkspaceKeys {
    /// What workspaces consist of.
    pub fn kind(&self) -> WorkspaceKind {
        match self.kind.as_ref().map(|kind| kind.value) {
            None | Some(KindSetting::Auto) => WorkspaceKind::Auto,
            Some(KindSetting::Copies) => WorkspaceKind::Copies,
        }
    }

    /// The command that is run in each new workspace.
    pub(super) fn setup(&self) -> Option<&str> {
        self.setup.as_ref().map(|setup| setup.value.as_str())
    }

    /// Converts these settings for workspaces.
    pub fn settings(self, home: Option<&Path>) -> Result<WorkspaceSettings, SetupError> {
        let usual = WorkspaceOptions::default();
        Ok(WorkspaceSettings {
            options: WorkspaceOptions {
                kind: self.kind(),
                home: home.map(Path::to_owned),
                copy: names("copy", self.copy, false)?.unwrap_or_default(),
                max_run_bytes: megabytes("max_run_mb", self.max_run_mb, usual.max_run_bytes)?,
                max_file_bytes: megabytes("max_file_mb", self.max_file_mb, usual.max_file_bytes)?,
                max_files: at_least_one("max_files", self.max_files)?.unwrap_or(usual.max_files),
                ..usual
            },
            setup: self.setup.map(|setup| setup.value).filter(|setup| !setup.trim().is_empty()),
            caches: names("caches", self.caches, true)?,
        })
    }
}

impl GcKeys {
    /// Applies these ages to a cleaning.
    pub fn apply(&self, usual: GcRequest) -> GcRequest {
        GcRequest {
            workspaces_older_than: self
                .workspaces
                .as_ref()
                .map_or(usual.workspaces_older_than, |age| age.value.0),
            salvage_older_than: self.salvage.as_ref().map_or(usual.salvage_older_than, |age| age.value.0),
            ..usual
        }
    }
}

fn at_least_one(key: &str, value: Option<WithOrigin<u64>>) -> Result<Option<u64>, SetupError> {
    match value {
        Some(WithOrigin { value: 0, origin }) => {
            Err(SetupError::usage(format!("{origin}: workspace.{key} must be at least 1"))
                .hint("remove it to use the default"))
        }
        value => Ok(value.map(|value| value.value)),
    }
}

fn megabytes(key: &str, value: Option<WithOrigin<u64>>, usual: u64) -> Result<u64, SetupError> {
    Ok(at_least_one(key, value)?.map_or(usual, |number| number.saturating_mul(MB)))
}

/// A list of globs beneath the project, or of plain names.
fn names(
    key: &str,
    list: Option<WithOrigin<Vec<String>>>,
    plain: bool,
) -> Result<Option<Vec<String>>, SetupError> {
    let Some(WithOrigin { value, origin }) = list else { return Ok(None) };
    for name in &value {
        let leaves = name.split('/').any(|part| part == "..") || name.starts_with('~');
        let problem = match name.trim() {
            "" => "is empty",
            _ if plain && name.contains('/') => "is not a plain name",
            _ if leaves => "leads out of the project",
            _ => continue,
        };
        return Err(SetupError::usage(format!("{origin}: workspace.{key}: `{name}` {problem}"))
            .hint("remove it from the list"));
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Settings, file, variables};
    use super::*;

    fn file(text: &str) -> Settings {
        file::parse(text, Path::new("settings.yaml")).expect("settings")
    }

    fn variables(set: &[(&str, &str)]) -> Settings {
        let owned: Vec<_> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        variables::read(&owned).map_err(|error| error.text()).expect("settings")
    }

    #[test]
    fn what_is_written_holds_and_the_rest_is_usual() {
        let set =
            file("workspace: {copy: [.env, 'secrets/**'], setup: make deps, caches: [], max_run_mb: 3}");
        let made = set.workspace.settings(Some(Path::new("/home/ann"))).expect("settings");
        let usual = WorkspaceOptions::default();
        assert_eq!(made.options.copy, [".env", "secrets/**"]);
        assert_eq!(
            (made.setup.as_deref(), made.caches.as_deref()),
            (Some("make deps"), Some(&[] as &[String]))
        );
        assert_eq!((made.options.max_run_bytes, made.options.max_files), (3 << 20, usual.max_files));
        assert_eq!(made.options.home.as_deref(), Some(Path::new("/home/ann")));
        let silent = WorkspaceKeys::default().settings(None).expect("settings");
        assert_eq!((silent.caches, silent.setup, silent.options.copy.len()), (None, None, 0));
    }

    #[test]
    fn variables_come_before_the_file() {
        let set = variables(&[
            ("POSSE_WORKSPACE__COPY", ".env, *.pem"),
            ("POSSE_WORKSPACE__MAX_FILES", "7"),
            ("POSSE_GC__SALVAGE", "0"),
        ]);
        let both = set.or(file(
            "workspace: {copy: [x], max_files: 9, max_file_mb: 2}\ngc: {workspaces: 12h, salvage: 1d}",
        ));
        let cleaning = both.gc.apply(GcRequest::default());
        assert_eq!(cleaning.workspaces_older_than, Duration::from_hours(12));
        assert_eq!(cleaning.salvage_older_than, Duration::ZERO);
        let made = both.workspace.settings(None).expect("settings").options;
        assert_eq!(made.copy, [".env", "*.pem"]);
        assert_eq!((made.max_files, made.max_file_bytes), (7, 2 << 20));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, named) in [
            ("workspace:\n  max_files: 0\n", "settings.yaml:2: workspace.max_files is 0"),
            (
                "workspace: {copy: [../x]}\n",
                "settings.yaml:1: workspace.copy: `../x` leads out of the project",
            ),
            ("workspace: {caches: [a/b]}\n", "settings.yaml:1: workspace.caches: `a/b` is not a plain name"),
        ] {
            let error = file(text).workspace.settings(None).expect_err(text).text();
            assert!(error.starts_with(&format!("error: {named}")), "{error}");
        }
        for (text, named) in [
            ("workspace:\n  coppy: [x]\n", "unknown key `workspace.coppy` (did you mean `copy`?)"),
            ("gc:\n  workspaces: 7\n", "an age such as `7d`"),
            ("gc: {salvages: 7d}\n", "(did you mean `salvage`?)"),
        ] {
            let error = file::parse(text, Path::new("settings.yaml")).expect_err(text).text();
            assert!(error.contains(named), "{error}");
        }
        let wrong = [("POSSE_WORKSPACE__MAX_FILE".to_owned(), "1".to_owned())];
        let error = variables::read(&wrong).expect_err("unknown").text();
        assert!(error.contains("did you mean `POSSE_WORKSPACE__MAX_FILES`?"), "{error}");
    }
}
