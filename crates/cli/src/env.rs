//! Reads the environment of the process, and is the only module that does.

use std::ffi::OsString;

use posse_setup::Environment;
use posse_setup::environment::POSSE_LOG;

use crate::error::CliError;

/// Any value disables colour.
const NO_COLOR: &str = "NO_COLOR";
/// `0` disables colour on a terminal.
const CLICOLOR: &str = "CLICOLOR";
/// Any value but `0` enables colour, also without a terminal.
const CLICOLOR_FORCE: &str = "CLICOLOR_FORCE";
/// The type of the terminal; `dumb` supports neither colour nor cursor movement.
const TERM: &str = "TERM";

/// What the environment says about the terminal.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "one for each variable")]
pub(crate) struct TerminalVariables {
    /// Whether `NO_COLOR` disables colour.
    pub(crate) no_color: bool,
    /// Whether `CLICOLOR` disables colour on a terminal.
    pub(crate) no_clicolor: bool,
    /// Whether `CLICOLOR_FORCE` enables colour.
    pub(crate) force_color: bool,
    /// Whether the terminal supports neither colour nor cursor movement.
    pub(crate) is_dumb: bool,
}

impl TerminalVariables {
    pub(crate) fn of(variables: &[(OsString, OsString)]) -> Self {
        Self {
            no_color: set(variables, NO_COLOR).is_some(),
            no_clicolor: set(variables, CLICOLOR).is_some_and(|value| value == "0"),
            force_color: set(variables, CLICOLOR_FORCE).is_some_and(|value| value != "0"),
            is_dumb: set(variables, TERM).is_none_or(|term| term == "dumb"),
        }
    }
}

/// The environment of the process, read once.
#[derive(Debug, Clone)]
pub(crate) struct ProcessEnvironment {
    /// The part that every front end needs.
    pub(crate) environment: Environment,
    /// The log filter.
    pub(crate) log: Option<String>,
    /// What it says about the terminal.
    pub(crate) terminal: TerminalVariables,
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
        let terminal = TerminalVariables::of(&variables);
        Ok(Self { environment: Environment::new(cwd, variables), log, terminal })
    }
}

/// The value of a variable that is not empty.
fn set<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsString> {
    let found = variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
    found.filter(|value| !value.is_empty())
}
