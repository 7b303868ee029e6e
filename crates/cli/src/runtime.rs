//! Starts the async runtime for a verb, after the arguments are parsed: help and version need none.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Builder;

use crate::error::CliError;

/// How long threads that are still in a system call may delay the end of the command.
const SHUTDOWN_PATIENCE: Duration = Duration::from_millis(200);

/// Runs a verb that reads or posts: one thread is enough.
pub(crate) fn looking<T>(verb: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    wait(Builder::new_current_thread(), verb)
}

/// Runs a verb that executes a run.
pub(crate) fn driving<T>(verb: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    wait(Builder::new_multi_thread(), verb)
}

fn wait<T>(mut builder: Builder, verb: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(verb);
    // A tool that hangs in the kernel must not keep the command from ending.
    runtime.shutdown_timeout(SHUTDOWN_PATIENCE);
    // Helpers that such a thread waits for must not stay behind.
    posse::workspace::end_helpers();
    outcome
}
