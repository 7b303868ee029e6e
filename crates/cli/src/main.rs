//! The `posse` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    posse_cli::run(std::env::args_os(), posse_cli::Extras::default())
}
