//! `cargo xtask sdks`: checks that the mock model server behaves like real providers. The official Python SDKs of
//! Anthropic and OpenAI are installed in a virtual environment and must understand its responses.
//!
//! It needs Python and its package index. If one of them is missing, the check is skipped with a message, because a
//! machine without a network must still be able to work. Installed packages are kept beneath the target directory.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::command::{Profile, Program, build, metadata, root, run as run_command};
use crate::{Failure, Outcome};

/// The SDKs. A new version gets a new environment.
const PACKAGES: [&str; 2] = ["anthropic==2.8.0", "openai==3.49.0"];
/// pip's timeout for an index that does not answer, and its retries.
const PIP_PATIENCE: [&str; 4] = ["--timeout", "15", "--retries", "1"];

/// Installs the SDKs if needed, and runs them against the server.
pub(crate) fn run(args: &[String]) -> Outcome {
    if !args.is_empty() {
        return Err(Failure::new("usage: cargo xtask sdks"));
    }
    let environment = environment()?;
    let python = match prepared(&environment) {
        Ok(python) => python,
        Err(missing) => {
            println!("sdks: skipped: {missing}");
            return Ok(());
        }
    };
    let mock = Mock::start(&build(&Program::Binary("posse-mock"), Profile::Dev)?)?;
    let script = root().join("xtask/src/sdks/honesty.py");
    run_command(Command::new(python).arg("-I").arg(script).arg(&mock.url))
}

fn target() -> Result<PathBuf, Failure> {
    let metadata = metadata(&["--no-deps"])?;
    let target = metadata["target_directory"].as_str().unwrap_or("target");
    Ok(PathBuf::from(target))
}

/// The directory of the SDKs; other versions have another one.
fn environment() -> Result<PathBuf, Failure> {
    Ok(target()?.join("sdks").join(PACKAGES.join("_").replace("==", "-")))
}

/// The Python that has the SDKs, or what is missing.
fn prepared(environment: &Path) -> Result<PathBuf, String> {
    let python = environment.join("bin/python");
    // Written last, so that an interrupted installation starts again.
    let complete = environment.join("complete");
    if complete.exists() {
        return Ok(python);
    }
    quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .map_err(|why| format!("Python 3 with venv is missing ({why})"))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    quietly(Command::new(&python).args(pip).args(PIP_PATIENCE).args(PACKAGES))
        .map_err(|why| format!("{} cannot be installed ({why})", PACKAGES.join(" and ")))?;
    fs::write(&complete, "").map_err(|error| format!("{}: {error}", complete.display()))?;
    Ok(python)
}

/// Runs a command to its end; on failure returns the last line of its errors.
fn quietly(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(errors.lines().last().unwrap_or("it says nothing").to_owned())
}

/// The server as a separate process, which ends with this value.
struct Mock {
    process: Child,
    url: String,
}

impl Mock {
    fn start(program: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("{}: {error}", program.display()));
        let mut process =
            Command::new(program).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let mut url = String::new();
        if let Some(output) = process.stdout.take() {
            BufReader::new(output).read_line(&mut url).map_err(failed)?;
        }
        url.truncate(url.trim_end().len());
        Ok(Self { process, url })
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // A process that has ended needs neither.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_that_cannot_be_made_is_told_as_missing() {
        let complaint = quietly(Command::new("sh").args(["-c", "echo one >&2; echo two >&2; exit 3"]));
        assert_eq!(complaint, Err("two".to_owned()));
        assert!(quietly(&mut Command::new("/nowhere/python3")).is_err());
    }

    #[test]
    fn versions_are_pinned_and_name_the_environment() {
        assert!(PACKAGES.iter().all(|package| package.contains("==")));
        let name = environment().unwrap();
        assert!(name.ends_with(PACKAGES.join("_").replace("==", "-")), "{}", name.display());
    }
}
