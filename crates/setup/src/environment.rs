//! The environment as a value, and every variable of it that is known, each as one constant.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Remedy, SetupError};

/// Where runs are kept. Else `$XDG_STATE_HOME/posse`, else `~/.local/state/posse`.
pub const POSSE_HOME: &str = "POSSE_HOME";
/// What to log to standard error, as a filter such as `info` or `posse_engine=debug`. Unset: nothing.
pub const POSSE_LOG: &str = "POSSE_LOG";
/// Prefix of the variables that are settings: `POSSE_MODEL` is `model`, `POSSE_AGENT__MAX_DEPTH` is
/// `agent.max_depth`.
pub const SETTINGS_PREFIX: &str = "POSSE_";
/// The person's state directory, by the XDG convention.
const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The person's configuration directory, by the XDG convention.
const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// The person's home directory.
const HOME: &str = "HOME";

/// The proxy that model traffic goes through; the usual variable, in either spelling.
pub const HTTPS_PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// Hosts that are asked without a proxy.
pub const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The folder of Posse in a directory of the XDG convention.
const FOLDER: &str = "posse";
/// The settings file in the folder of Posse.
const SETTINGS_FILE: &str = "settings.yaml";

/// What the environment of a user says: a value that a front end makes, from its own process or for someone else.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The directory that relative paths of a request are beneath.
    pub cwd: PathBuf,
    /// Where runs are kept; none if no variable states it.
    state_dir: Option<PathBuf>,
    /// The user's settings file; none if no variable states it.
    pub settings_file: Option<PathBuf>,
    /// Variables that begin with [`SETTINGS_PREFIX`].
    pub settings: Vec<(String, String)>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Every variable that is text, for what may be handed on to programs.
    pub variables: Vec<(String, String)>,
}

impl Environment {
    /// The environment with this working directory and these variables.
    pub fn new(cwd: PathBuf, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let all: Vec<(OsString, OsString)> = variables.into_iter().collect();
        let set = |name: &str| {
            let found = all.iter().find(|(known, _)| known == name).map(|(_, value)| value);
            found.filter(|value| !value.is_empty())
        };
        let home = set(HOME).map(PathBuf::from);
        // The convention: a relative path in its variables is invalid and ignored.
        let xdg = |name, beneath_home: &str| {
            let given = set(name).map(PathBuf::from).filter(|path| path.is_absolute());
            given.or_else(|| home.as_ref().map(|home| home.join(beneath_home))).map(|dir| dir.join(FOLDER))
        };
        let state_dir = set(POSSE_HOME).map(|dir| cwd.join(dir));
        let settings = all.iter().filter_map(|(name, value)| {
            let name = name.to_str().filter(|name| name.starts_with(SETTINGS_PREFIX))?;
            Some((name.to_owned(), value.to_string_lossy().into_owned()))
        });
        let text = |(name, value): &(OsString, OsString)| {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        Self {
            state_dir: state_dir.or_else(|| xdg(XDG_STATE_HOME, ".local/state")),
            settings_file: xdg(XDG_CONFIG_HOME, ".config").map(|dir| dir.join(SETTINGS_FILE)),
            settings: settings.collect(),
            variables: all.iter().filter_map(text).collect(),
            cwd,
            home,
        }
    }

    /// Where runs are kept.
    pub fn state_dir(&self) -> Result<&Path, SetupError> {
        self.state_dir.as_deref().ok_or_else(|| {
            SetupError::usage("there is no place to keep runs: neither POSSE_HOME nor HOME is set")
                .remedy(Remedy::SetStateDir)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Environment::new(PathBuf::from("/here"), variables)
    }

    fn state_dir(variables: &[(&str, &str)]) -> Option<PathBuf> {
        read(variables).state_dir
    }

    #[test]
    fn the_state_directory_follows_the_convention() {
        let home = ("HOME", "/home/ann");
        assert_eq!(state_dir(&[home]), Some("/home/ann/.local/state/posse".into()));
        assert_eq!(state_dir(&[home, ("XDG_STATE_HOME", "/s")]), Some("/s/posse".into()));
        assert_eq!(
            state_dir(&[home, ("XDG_STATE_HOME", "s")]),
            Some("/home/ann/.local/state/posse".into()),
            "relative"
        );
        assert_eq!(state_dir(&[home, ("XDG_STATE_HOME", "/s"), ("POSSE_HOME", "/p")]), Some("/p".into()));
        assert_eq!(state_dir(&[("POSSE_HOME", "p")]), Some("/here/p".into()));
        assert_eq!(state_dir(&[home, ("POSSE_HOME", "")]), Some("/home/ann/.local/state/posse".into()));
        assert_eq!(state_dir(&[]), None);
    }

    #[test]
    fn the_settings_file_follows_the_convention() {
        let file = |variables: &[(&str, &str)]| read(variables).settings_file;
        assert_eq!(file(&[("HOME", "/h")]), Some("/h/.config/posse/settings.yaml".into()));
        assert_eq!(file(&[("XDG_CONFIG_HOME", "/c")]), Some("/c/posse/settings.yaml".into()));
        assert_eq!(file(&[]), None);
    }
}
