//! Asks the user at the terminal before something is done. Only a clear yes counts.

use std::io::{BufRead, IsTerminal};

use rustix::termios::{QueueSelector, tcflush};

use crate::error::CliError;
use crate::output::fitting;
use crate::questions::write_out;

/// Whether a user at a terminal can be asked.
pub(crate) fn has_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks a question that is answered with yes or no. `undone` states what did not happen if there is no terminal.
pub(crate) fn confirm(question: &str, undone: &str) -> Result<bool, CliError> {
    if !has_terminal() {
        return Err(CliError::usage(format!("not a terminal, so {undone}"))
            .hint("review what is shown above, then use --yes"));
    }
    let stdin = std::io::stdin();
    // Input that was typed before the question is not an answer to it.
    let _ = tcflush(&stdin, QueueSelector::IFlush);
    write_out(&format!("{} ", fitting(&format!("{question} [y/N]"))));
    let mut line = String::new();
    let read = stdin.lock().read_line(&mut line);
    read.map_err(|error| CliError::failed(format!("the terminal cannot be read: {error}")))?;
    if !line.ends_with('\n') {
        // The input has ended, and the next text begins on a line of its own.
        write_out("\n");
    }
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
