//! Reads the environment of the process, and is the only module that does.

use std::ffi::OsString;

use posse_setup::Environment;
use posse_setup::environment::POSSE_LOG;

use crate::error::CliError;

/// Any value disables colour and animation.
const NO_COLOR: &str = "NO_COLOR";
/// The type of the terminal; `dumb` supports neither colour nor cursor movement.
const TERM: &str = "TERM";

/// The environment of the process, read once.
#[derive(Debug, Clone)]
pub(crate) struct ProcessEnvironment {
    /// The part that every front end needs.
    pub(crate) environment: Environment,
    /// The log filter.
    pub(crate) log: Option<String>,
    /// Whether colour and animation are disabled.
    pub(crate) plain: bool,
}

impl ProcessEnvironment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the environment and the directory"
    )]
    pub(crate) fn read() -> Result<Self, CliError> {
        let cwd = std::env::current_dir().map_err(|error| {
            CliError::failed(format!("the working directory cannot be found: {error}"))
                .hint("change to a directory that exists, and try again")
        })?;
        let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let log = set(&variables, POSSE_LOG).map(|filter| filter.to_string_lossy().into_owned());
        let plain = is_plain(&variables);
        Ok(Self { environment: Environment::new(cwd, variables), log, plain })
    }
}

/// The value of a variable that is not empty.
fn set<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    let found = variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    found.filter(|value| !value.is_empty())
}

fn is_plain(variables: &[(OsString, OsString)]) -> bool {
    set(variables, NO_COLOR).is_some() || set(variables, TERM).is_none_or(|term| term == "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dumb_terminal_and_no_color_are_plain() {
        let plain = |variables: &[(&str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
            is_plain(&variables.collect::<Vec<_>>())
        };
        assert!(!plain(&[("TERM", "xterm")]));
        assert!(plain(&[("TERM", "dumb")]));
        assert!(plain(&[]));
        assert!(plain(&[("TERM", "xterm"), ("NO_COLOR", "1")]));
        assert!(!plain(&[("TERM", "xterm"), ("NO_COLOR", "")]));
    }
}
