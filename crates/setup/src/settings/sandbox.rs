//! The setting `sandbox`: what commands of agents see and may use.

use std::path::{Path, PathBuf};

use posse::sandbox::{Limits, RequiredIsolation, SandboxOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MB, WithOrigin};
use crate::error::SetupError;

/// Variables with these suffixes contain secrets, even if a user adds them to the list.
const SECRET_ENDINGS: [&str; 8] =
    ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASSWD", "_PASS", "_PAT", "_CREDENTIALS"];

/// The minimum isolation of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "level")]
pub(super) enum RequiredLevel {
    Namespaces,
    Landlock,
}

/// The keys of `sandbox`. Only a file can set them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxSettings {
    /// `sandbox.level`: the minimum isolation.
    pub(super) level: Option<WithOrigin<RequiredLevel>>,
    /// `sandbox.read`: further files and directories that commands may read.
    pub(super) read: Option<WithOrigin<Vec<String>>>,
    /// `sandbox.env`: further variables that they get.
    pub(super) env: Option<WithOrigin<Vec<String>>>,
    /// `sandbox.concurrent`: how many run at once.
    pub(super) concurrent: Option<WithOrigin<u32>>,
    /// `sandbox.memory_mb`: memory of one command with all its processes.
    pub(super) memory_mb: Option<WithOrigin<u64>>,
    /// `sandbox.processes`: processes of one command.
    pub(super) processes: Option<WithOrigin<u64>>,
}

impl SandboxSettings {
    /// The variables that are passed on beyond the usual ones.
    pub fn variables(&self) -> Result<&[String], SetupError> {
        let Some(WithOrigin { value, origin }) = &self.env else { return Ok(&[]) };
        for name in value {
            if SECRET_ENDINGS.iter().any(|ending| name.to_ascii_uppercase().ends_with(ending)) {
                let text = format!(
                    "{origin}: sandbox.env: `{name}` is the name of a secret, and commands never receive secrets"
                );
                return Err(SetupError::usage(text).hint("remove it from the list"));
            }
        }
        Ok(value)
    }

    /// The paths that commands may read, as they are written, and that do not exist.
    pub(crate) fn missing_reads(&self, home: Option<&Path>) -> Vec<&str> {
        let paths = self.read.iter().flat_map(|read| &read.value).map(String::as_str);
        paths.filter(|path| absolute(path, home).is_some_and(|path| !path.exists())).collect()
    }

    /// Applies these settings to the options.
    pub fn apply(&self, home: Option<&Path>, options: SandboxOptions) -> Result<SandboxOptions, SetupError> {
        let mut read = options.read;
        if let Some(WithOrigin { value, origin }) = &self.read {
            for path in value {
                read.push(absolute(path, home).ok_or_else(|| {
                    SetupError::usage(format!("{origin}: sandbox.read: `{path}` is not an absolute path"))
                        .hint("write it from the root, or from the home directory with ~/")
                })?);
            }
        }
        let at_least_one = |field: &str, value: Option<&WithOrigin<u64>>| match value {
            Some(WithOrigin { value: 0, origin }) => {
                Err(SetupError::usage(format!("{origin}: sandbox.{field} is 0: then no command could run"))
                    .hint("remove it to use the default"))
            }
            value => Ok(value.map(|value| value.value)),
        };
        let concurrent = self.concurrent.clone();
        let concurrent =
            concurrent.map(|WithOrigin { value, origin }| WithOrigin { value: value.into(), origin });
        let concurrent = at_least_one("concurrent", concurrent.as_ref())?;
        let usual = options.limits;
        let limits = Limits {
            memory_bytes: at_least_one("memory_mb", self.memory_mb.as_ref())?
                .map_or(usual.memory_bytes, |mb| mb.saturating_mul(MB)),
            processes: at_least_one("processes", self.processes.as_ref())?.unwrap_or(usual.processes),
            ..usual
        };
        let concurrent = concurrent.and_then(|number| usize::try_from(number).ok()).or(options.concurrent);
        let required = match self.level.as_ref().map(|level| level.value) {
            Some(RequiredLevel::Landlock) => RequiredIsolation::Landlock,
            Some(RequiredLevel::Namespaces) | None => options.required,
        };
        Ok(SandboxOptions { required, read, limits, concurrent, ..options })
    }
}

fn absolute(path: &str, home: Option<&Path>) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(beneath) => home.map(|home| home.join(beneath)),
        None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;
    use super::*;

    fn settings(text: &str) -> SandboxSettings {
        parse(text, Path::new("settings.yaml")).expect("settings").sandbox
    }

    fn apply(text: &str) -> Result<SandboxOptions, SetupError> {
        settings(text).apply(Some(Path::new("/home/ann")), SandboxOptions::default())
    }

    #[test]
    fn what_is_written_holds_and_the_rest_is_usual() {
        let options =
            apply("sandbox: {read: [/data, ~/models], concurrent: 3, memory_mb: 10}").expect("options");
        assert_eq!(options.read, [PathBuf::from("/data"), PathBuf::from("/home/ann/models")]);
        assert_eq!((options.concurrent, options.limits.memory_bytes), (Some(3), 10 << 20));
        assert_eq!(options.limits.processes, Limits::default().processes);
        assert_eq!(apply("model: x").expect("options").concurrent, None);
        assert_eq!(options.required, RequiredIsolation::Namespaces);
        assert_eq!(
            apply("sandbox: {level: landlock}").expect("options").required,
            RequiredIsolation::Landlock
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        for (text, start) in [
            ("sandbox:\n  read: [data]", "settings.yaml:2: sandbox.read: `data` is not an absolute path"),
            ("sandbox:\n  processes: 0", "settings.yaml:2: sandbox.processes is 0"),
            ("sandbox:\n  concurrent: 0", "settings.yaml:2: sandbox.concurrent is 0"),
        ] {
            let error = apply(text).expect_err(start);
            assert!(error.message().starts_with(start), "{}", error.message());
        }
        let secret = settings("sandbox: {env: [JAVA_OPTS, my_api_key]}");
        assert!(secret.variables().is_err_and(|error| error.message().contains("`my_api_key`")));
        assert_eq!(settings("sandbox: {env: [JAVA_OPTS]}").variables().expect("names"), ["JAVA_OPTS"]);
    }
}
