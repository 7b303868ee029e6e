//! Every environment variable the command knows, each as one constant, and the one place where they are read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Where runs are kept. Else `$XDG_STATE_HOME/posse`, else `~/.local/state/posse`.
pub(crate) const POSSE_HOME: &str = "POSSE_HOME";
/// What to log to standard error, as a filter such as `info` or `posse_engine=debug`. Unset: nothing.
pub(crate) const POSSE_LOG: &str = "POSSE_LOG";
/// Prefix of the variables that are settings: `POSSE_MODEL` is `model`, `POSSE_AGENT__MAX_DEPTH` is
/// `agent.max_depth`.
pub(crate) const SETTINGS_PREFIX: &str = "POSSE_";
/// The person's state directory, by the XDG convention.
const XDG_STATE_HOME: &str = "XDG_STATE_HOME";
/// The person's configuration directory, by the XDG convention.
const XDG_CONFIG_HOME: &str = "XDG_CONFIG_HOME";
/// The person's home directory.
const HOME: &str = "HOME";
/// Set to anything: no colour and no animation.
const NO_COLOR: &str = "NO_COLOR";
/// The terminal's kind; `dumb` can neither colour nor move its cursor.
const TERM: &str = "TERM";

/// The proxy that model traffic goes through; the usual variable, in either spelling.
pub(crate) const HTTPS_PROXY: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
/// Hosts that are asked without a proxy.
pub(crate) const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// The folder of Posse in a directory of the XDG convention.
const FOLDER: &str = "posse";
/// The settings file in the folder of Posse.
const SETTINGS_FILE: &str = "settings.yaml";

/// What the environment says. Read once.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// Where the command was typed.
    pub(crate) cwd: PathBuf,
    /// Where runs are kept; none if no variable tells.
    state_dir: Option<PathBuf>,
    /// The person's settings file; none if no variable tells.
    pub(crate) settings_file: Option<PathBuf>,
    /// Variables that begin with [`SETTINGS_PREFIX`].
    pub(crate) settings: Vec<(String, String)>,
    /// What to log.
    pub(crate) log: Option<String>,
    /// Whether colour and animation are unwelcome.
    pub(crate) plain: bool,
    /// The person's home directory.
    pub(crate) home: Option<PathBuf>,
    /// Every variable that is text, for what may be handed on to programs.
    pub(crate) variables: Vec<(String, String)>,
}

impl Environment {
    /// Reads it.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment and the directory"
    )]
    pub(crate) fn read() -> Result<Self, CliError> {
        let cwd = std::env::current_dir().map_err(|error| {
            CliError::failed(format!("the working directory cannot be found: {error}"))
                .hint("change to a directory that exists, and try again")
        })?;
        let settings = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| name.starts_with(SETTINGS_PREFIX))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        let read = Self::from_lookup(|name| std::env::var_os(name), cwd, settings.collect());
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Ok(Self { variables: std::env::vars_os().filter_map(text).collect(), ..read })
    }

    fn from_lookup(
        lookup: impl Fn(&str) -> Option<OsString>,
        cwd: PathBuf,
        settings: Vec<(String, String)>,
    ) -> Self {
        let set = |name| lookup(name).filter(|value| !value.is_empty());
        let home = set(HOME).map(PathBuf::from);
        // The convention: a relative path in its variables is invalid and ignored.
        let xdg = |name, beneath_home: &str| {
            let given = set(name).map(PathBuf::from).filter(|path| path.is_absolute());
            given.or_else(|| home.as_ref().map(|home| home.join(beneath_home))).map(|dir| dir.join(FOLDER))
        };
        let state_dir = set(POSSE_HOME).map(|dir| cwd.join(dir));
        Self {
            state_dir: state_dir.or_else(|| xdg(XDG_STATE_HOME, ".local/state")),
            settings_file: xdg(XDG_CONFIG_HOME, ".config").map(|dir| dir.join(SETTINGS_FILE)),
            settings,
            log: set(POSSE_LOG).map(|filter| filter.to_string_lossy().into_owned()),
            plain: set(NO_COLOR).is_some() || set(TERM).is_none_or(|term| term == "dumb"),
            cwd,
            home,
            variables: Vec::new(),
        }
    }

    /// Where runs are kept.
    pub(crate) fn state_dir(&self) -> Result<&Path, CliError> {
        self.state_dir.as_deref().ok_or_else(|| {
            CliError::usage("there is no place to keep runs: neither POSSE_HOME nor HOME is set")
                .hint("set POSSE_HOME to a directory of your own")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Environment {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        };
        Environment::from_lookup(lookup, PathBuf::from("/here"), Vec::new())
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

    #[test]
    fn a_dumb_terminal_and_no_color_are_plain() {
        assert!(!read(&[("TERM", "xterm")]).plain);
        assert!(read(&[("TERM", "dumb")]).plain);
        assert!(read(&[]).plain);
        assert!(read(&[("TERM", "xterm"), ("NO_COLOR", "1")]).plain);
        assert!(!read(&[("TERM", "xterm"), ("NO_COLOR", "")]).plain);
    }
}
