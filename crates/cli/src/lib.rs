//! The `posse` command as a library, so that a test binary can be the same command with armed faults.
//!
//! This crate is the composition root: the only one that reads the environment or the home directory, and the
//! only one that prints. What was typed becomes what it means in three steps, each with its own types:
//! arguments (`args`), settings with their origins (`posse_setup::settings`), and what a run needs (`launch`).
//! Everything that can be wrong with them is found before anything is written.

mod args;
mod blocked;
mod commands;
mod context;
mod detach;
mod drive;
mod env;
mod error;
mod exit;
mod ids;
mod json;
mod launch;
mod output;
mod permissions;
mod questions;
mod replay;
mod runtime;
mod signals;
mod term;
mod text;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use posse::ports::{Faults, Tool};
use posse_setup::{
    age, agents_flag, approvals, discovery, hide_state_dir, hooks, limit, models, money, plan_file,
    project_dirs, project_files, settings, trust,
};

use crate::args::Cli;
use crate::context::Context;

/// What a test binary adds to the command.
#[derive(Default)]
pub struct Extras {
    /// Tools beside the built-in ones; one of the same name replaces it.
    pub tools: Vec<Tool>,
    /// Fault points.
    pub faults: Faults,
    /// How long a silent owner keeps its runs; none for the usual time.
    pub lease: Option<Duration>,
}

/// Runs the command with these arguments, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>, extras: Extras) -> ExitCode {
    posse::init();
    let args: Vec<OsString> = args.into_iter().collect();
    let program = program(args.first());
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return args::refuse(&error),
    };
    let outcome = Context::new(program, extras).and_then(|context| commands::dispatch(cli.command, &context));
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
