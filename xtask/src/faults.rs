//! `cargo xtask faults`: kills the real command at every fault point and at random moments, and checks what is left;
//! then the same with a process that only works with workspaces. `--power` simulates power cuts of a filesystem beneath
//! the latter, where the machine allows that.
//!
//! The testkit's `posse-faults` does the work, so that xtask itself does not have to be built with all of Posse. The
//! development profile is right for it, because it tests an order of steps, not a speed.

use std::path::Path;
use std::process::Command;

use crate::command::{FreshDir, Profile, Program, TMPDIR, build, capture, root, run as run_command};
use crate::{Failure, Outcome};

/// Random kills of the process that works with workspaces, in a full and in a short campaign.
const KILLS: &str = "40";
const KILLS_SHORT: &str = "3";

/// Builds the command with armed fault points and runs the campaign. The arguments are those of `posse-faults`, or
/// `--power` and those of `lasting` in the examples of posse-workspace.
pub(crate) fn run(args: &[String]) -> Outcome {
    if let Some((word, rest)) = args.split_first()
        && word == "--power"
    {
        return workspaces("power", rest);
    }
    command(args)?;
    // With other arguments the user requested only a part of the campaign.
    match args {
        [] => workspaces("kill", &["--rounds".to_owned(), KILLS.to_owned()]),
        [word] if word == "--short" => workspaces("kill", &["--rounds".to_owned(), KILLS_SHORT.to_owned()]),
        _ => Ok(()),
    }
}

/// The campaign on workspaces alone.
fn workspaces(how: &str, args: &[String]) -> Outcome {
    let program = build(&Program::Example("lasting"), Profile::Dev)?;
    let fresh = FreshDir::for_tests()?;
    run_command(Command::new(program).arg(how).args(args).current_dir(root()).env(TMPDIR, fresh.path()))
}

/// The campaign on the real command.
fn command(args: &[String]) -> Outcome {
    let mut args = args_from_here(args)?;
    args.extend(["--commit".to_owned(), commit()?]);
    // The campaign expects the command with armed fault points beside itself.
    build(&Program::Binary("posse-faulty"), Profile::Dev)?;
    let campaign = build(&Program::Binary("posse-faults"), Profile::Dev)?;
    let fresh = FreshDir::for_tests()?;
    run_command(Command::new(campaign).args(&args).current_dir(root()).env(TMPDIR, fresh.path()))
}

/// Every point once and a few random kills, for ci.
pub(crate) fn short() -> Outcome {
    run(&["--short".to_owned()])
}

/// The tested commit, and whether files differ from it.
fn commit() -> Result<String, Failure> {
    let named = capture(Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(root()))?;
    Ok(named.trim().to_owned())
}

/// Resolves a file against the user's directory, because the program runs at the root.
fn args_from_here(args: &[String]) -> Result<Vec<String>, Failure> {
    let mut args = args.to_vec();
    if let Some(at) = args.iter().position(|arg| arg == "--json")
        && let Some(file) = args.get_mut(at + 1)
    {
        let path = std::path::absolute(Path::new(file.as_str()))
            .map_err(|error| Failure::new(format!("{file}: {error}")))?;
        *file = path.to_string_lossy().into_owned();
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_from_where_the_person_stands() {
        let args = ["--seed", "7", "--json", "figures.json"].map(ToOwned::to_owned);
        let args = args_from_here(&args).unwrap();
        assert_eq!(args[..3], ["--seed", "7", "--json"]);
        assert!(Path::new(&args[3]).is_absolute() && args[3].ends_with("/figures.json"));
        assert_eq!(args_from_here(&["--json".to_owned()]).unwrap(), ["--json"]);
    }
}
