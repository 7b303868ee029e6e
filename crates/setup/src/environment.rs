//! The environment as a value for front ends, with one constant for each variable that Posse knows.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::{Remedy, SetupError};

/// The state directory. Default: `$XDG_STATE_HOME/posse`, else `~/.local/state/posse`.
pub const POSSE_HOME: &str = "POSSE_HOME";
/// The log filter for standard error, such as `info` or `posse_engine=debug`. Unset: nothing is logged.
pub const POSSE_LOG: &str = "POSSE_LOG";
/// The URL of the server whose runs a front end uses instead of those of this machine.
pub const POSSE_SERVER: &str = "POSSE_SERVER";
/// The token for this server.
pub const POSSE_SERVER_TOKEN: &str = "POSSE_SERVER_TOKEN";
/// The file with this token.
pub const POSSE_SERVER_TOKEN_FILE: &str = "POSSE_SERVER_TOKEN_FILE";
/// Prefix of the variables that are settings: `POSSE_MODEL` is `model`, `POSSE_AGENT__MAX_DEPTH` is `agent.max_depth`.
pub const SETTINGS_PREFIX: &str = "POSSE_";
/// The user's state directory, by the XDG convention.
const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The user's configuration directory, by the XDG convention.
const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// The user's home directory.
const HOME: &str = "HOME";

/// The proxy for model traffic; the usual variable, in either spelling.
pub const HTTPS_PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// Hosts that are reached without a proxy.
pub const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Posse's folder in a directory of the XDG convention.
const FOLDER: &str = "posse";
/// The settings file in Posse's folder.
const SETTINGS_FILE: &str = "settings.yaml";

/// The environment of a user: a value that a front end creates, from its own process or for another user.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The directory that relative paths of a request refer to.
    pub cwd: PathBuf,
    /// The state directory; `None` if no variable determines it.
    state_dir: Option<PathBuf>,
    /// The user's settings file; `None` if no variable determines it.
    pub settings_file: Option<PathBuf>,
    /// Variables that begin with [`SETTINGS_PREFIX`].
    pub settings: Vec<(String, String)>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Every variable that is valid text. Some may be passed on to programs.
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
        // By the convention, a relative path in these variables is invalid and ignored.
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

    /// The state directory, or an error with the remedy [`Remedy::SetStateDir`].
    pub fn state_dir(&self) -> Result<&Path, SetupError> {
        self.state_dir.as_deref().ok_or_else(|| {
            SetupError::usage(
                "there is no state directory for runs: none is set, and there is no home directory",
            )
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
