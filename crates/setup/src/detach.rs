//! Starts runs in the background: the same program under a hidden verb, in its own session, with a log file in
//! the state directory.
//!
//! The order matters. Everything was checked before. The parent creates the log file, starts the child and sends it the
//! run on standard input. The child starts the run and answers on standard output, in one line, with the run's id or
//! the reason of a refusal. By then `run.started` is durable and the child holds the lease.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posse::{Posse, RunHandle};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::draft::{LocalOptions, PreparedRun};
use crate::error::{OpenError, Remedy, SetupError};
use crate::execution::RunExecution;
use crate::setup::Setup;

/// The folder of the logs in the state directory.
const LOGS: &str = "logs";
/// How many names are tried for a new log file.
const NAME_TRIES: u32 = 100;

/// The child's answer. `E` is the front end's error type.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<E> {
    /// The run has started, and the child holds its lease.
    Started {
        /// The id of the run.
        run: String,
    },
    /// The run was not started, for this reason.
    Refused(E),
}

/// Starts `program` under `verb`, sends it the run, and returns the run's id or the program's refusal.
pub fn start<E: DeserializeOwned>(
    run: &impl Serialize,
    program: &Path,
    verb: &str,
    state_dir: &Path,
) -> Result<Result<String, E>, SetupError> {
    let (path, log) = log_file(state_dir)?;
    match ask(run, program, verb, &path, log) {
        Ok(Answer::Started { run }) => Ok(Ok(run)),
        Ok(Answer::Refused(error)) => {
            // The log has the same text as the error.
            drop(std::fs::remove_file(&path));
            Ok(Err(error))
        }
        Err(error) => Err(error.remedy(Remedy::ReadLog(path))),
    }
}

fn ask<E: DeserializeOwned>(
    run: &impl Serialize,
    program: &Path,
    verb: &str,
    path: &Path,
    log: File,
) -> Result<Answer<E>, SetupError> {
    let failed = |what: &str, error: std::io::Error| SetupError::failed(format!("{what}: {error}"));
    let mut child = Command::new(program)
        .arg(verb)
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| failed("the background process cannot be started", error))?;
    let json = serde_json::to_vec(run).map_err(|error| SetupError::failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that ended early gives the reason in its answer, or gives no answer.
        drop(stdin.write_all(&json));
    }
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(|error| failed("the background process", error))?;
    }
    serde_json::from_str(&line)
        .map_err(|_| SetupError::failed("the background process ended before the run had started"))
}

fn logs_dir(state_dir: &Path) -> Result<PathBuf, SetupError> {
    let dir = state_dir.join(LOGS);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
    made.map_err(|error| cannot_write(&dir, &error))?;
    Ok(dir)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> SetupError {
    SetupError::failed(format!("{} cannot be written: {error}", path.display()))
        .remedy(Remedy::MakeStateDirWritable)
}

fn log_file(state_dir: &Path) -> Result<(PathBuf, File), SetupError> {
    let dir = logs_dir(state_dir)?;
    for number in 0..NAME_TRIES {
        let path = dir.join(format!("starting-{}-{number}.log", std::process::id()));
        match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot_write(&path, &error)),
        }
    }
    Err(SetupError::failed(format!("no free name for a log file in {}", dir.display())))
}

/// A run that was started by the process in the background.
pub struct StartedRun {
    /// The facade, opened for the run.
    pub posse: Posse,
    /// The run itself.
    pub handle: RunHandle,
    /// Options for this process.
    pub local: LocalOptions,
}

/// The part of the process in the background: reads the run that its parent sent, and starts it. The parent has shown
/// the notes.
pub async fn start_received(json: &str, setup: &Setup) -> Result<StartedRun, OpenError> {
    let prepared: PreparedRun = serde_json::from_str(json)
        .map_err(|error| SetupError::usage(format!("the run in the background cannot be read: {error}")))?;
    let posse = RunExecution::of_prepared(&prepared, setup).value?.open(setup)?;
    let PreparedRun { request, local } = prepared;
    let handle = posse.start_request(request, false).await?;
    Ok(StartedRun { posse, handle, local })
}

/// Opens the log file of a run that leaves its terminal.
pub fn open_log(state_dir: &Path, run: &str) -> Result<File, SetupError> {
    let dir = logs_dir(state_dir)?;
    let path = dir.join(format!("{run}.log"));
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
    opened.map_err(|error| cannot_write(&path, &error))
}

/// Renames the log file once the run's id is known.
pub fn name_log(path: &Path, run: &str) {
    // Only cosmetic: the log is written in any case.
    drop(std::fs::rename(path, path.with_file_name(format!("{run}.log"))));
}
