//! The `posse` command as a library, so that a test binary can be the same command with armed fault points.
//!
//! This crate is the composition root: only it reads the environment and the home directory, and only it prints.
//! Arguments (`args`) become a draft of a run, which `posse_setup::draft` converts. All input is checked before
//! anything is written.

mod args;
mod blocked;
mod browser;
mod commands;
mod complete;
mod confirm;
mod conflicts;
mod context;
mod detach;
mod display;
mod drive;
mod env;
mod error;
mod exit;
mod foreground;
mod help;
mod ids;
mod json;
mod message;
mod output;
mod permissions;
mod prompt;
mod questions;
#[cfg(test)]
mod reference;
mod runtime;
mod server;
mod setting_flags;
mod signals;
mod since;
mod stdin;
mod table;
mod term;
mod text;
mod top;
mod typed_flags;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use posse::ports::{Faults, Tool};

use crate::context::Context;
use crate::foreground::WaitingProcess;

/// What a test binary adds to the command.
#[derive(Default)]
pub struct Extras {
    /// Tools beside the built-in ones. A tool with the same name replaces a built-in one.
    pub tools: Vec<Tool>,
    /// Fault points.
    pub faults: Faults,
    /// How long a silent lease holder keeps its runs; `None` for the usual time.
    pub lease: Option<Duration>,
}

/// Runs the command with these arguments, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>, extras: Extras) -> ExitCode {
    posse::init();
    let mut args: Vec<OsString> = args.into_iter().collect();
    if complete::answered(&args) {
        return ExitCode::SUCCESS;
    }
    let waiting = WaitingProcess::from_args(&mut args);
    let program = program(args.first());
    let cli = match args::parse(args.clone()) {
        Ok(cli) => cli,
        Err(error) => return args::refuse(&error, &args),
    };
    let outcome = Context::new(program, extras, cli.display, waiting).and_then(|context| {
        let context = context.on_server(&cli.server)?;
        let Some(command) = cli.command else {
            return if prompt::is_possible(&context) {
                prompt::prompt(args, &context)
            } else {
                Ok(args::refuse_nothing())
            };
        };
        if context.server().is_some() {
            server::refuse_unless_offered(&command)?;
        } else if foreground::is_needed(&command, &context) {
            return foreground::wait_for_second(&args);
        }
        commands::dispatch(command, &context).map_err(|error| match context.state_dir() {
            Ok(dir) => error.in_state_dir(dir),
            Err(_) => error,
        })
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => error.report(),
    }
}

/// What to type to call this program again: its path if it was called by one, else its name.
fn program(called: Option<&OsString>) -> String {
    let called = called.map(|name| name.to_string_lossy().into_owned());
    called
        .filter(|name| name.contains('/') && !name.contains(char::is_whitespace))
        .unwrap_or_else(|| "posse".to_owned())
}
