//! Running cargo and git from the workspace root.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Failure, Outcome};

/// The workspace root: verbs work the same from any folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The cargo that started us, so that `cargo +toolchain xtask` stays on that toolchain.
///
/// What `cargo run` tells the program about its own package is removed: build scripts of some crates watch
/// those variables, and would build again on every change between `cargo xtask` and a plain `cargo build`.
pub(crate) fn cargo(args: &[&str]) -> Command {
    #[expect(clippy::disallowed_methods, reason = "CARGO is how cargo names itself to its children")]
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    #[expect(clippy::disallowed_methods, reason = "only to leave variables out of a child's environment")]
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_BIN_NAME" {
            command.env_remove(&key);
        }
    }
    command.args(args).current_dir(root());
    command
}

/// Whether `cargo <args>` works at all; used for tools a machine may not have.
pub(crate) fn cargo_has(args: &[&str]) -> bool {
    let status = cargo(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs with our standard streams, so that the tool's own words are seen as they come.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = line_of(command);
    println!("$ {line}");
    let status = command.status().map_err(|error| Failure::new(format!("cannot start `{line}`: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` ended with {status}"))) }
}

/// Runs and returns standard output; standard error is shown as it comes.
pub(crate) fn capture(command: &mut Command) -> Result<String, Failure> {
    let line = line_of(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(format!("cannot start `{line}`: {error}")))?;
    if !output.status.success() {
        return Err(Failure::new(format!("`{line}` ended with {}", output.status)));
    }
    String::from_utf8(output.stdout).map_err(|_| Failure::new(format!("`{line}` did not print UTF-8")))
}

/// A program of the workspace that a verb starts, as cargo names its target.
pub(crate) enum Program<'a> {
    /// A `[[bin]]` target.
    Binary(&'a str),
    /// An example.
    Example(&'a str),
}

/// How a program is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As the tests are.
    Dev,
    /// As what is shipped: with link-time optimisation.
    Dist,
}

/// Builds a program and returns its path.
///
/// The build covers the whole workspace: with `-p`, cargo selects the features of that one package alone and
/// compiles most dependencies once more for them, which took minutes of a cold `cargo xtask ci`.
pub(crate) fn build(program: &Program<'_>, profile: Profile) -> Result<PathBuf, Failure> {
    let (flag, name) = match program {
        Program::Binary(name) => ("--bin", *name),
        Program::Example(name) => ("--example", *name),
    };
    let mut command = cargo(&["build", "--quiet", "--workspace", flag, name, "--message-format", "json"]);
    let shown = match profile {
        Profile::Dev => "",
        Profile::Dist => {
            command.args(["--profile", "dist"]);
            " --profile dist"
        }
    };
    println!("$ cargo build --workspace {flag} {name}{shown}");
    let messages = capture(&mut command)?;
    executable(&messages, name)
        .ok_or_else(|| Failure::new(format!("cargo built no program with the name `{name}`")))
}

/// The path of a program among the messages of `cargo build`, which are one JSON object per line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let named = message.pointer("/target/name").and_then(Value::as_str) == Some(name);
        let path = message.get("executable").and_then(Value::as_str).filter(|_| named)?;
        Some(PathBuf::from(path))
    })
}

/// What cargo knows about the workspace; `extra` are further flags of `cargo metadata`.
pub(crate) fn metadata(extra: &[&str]) -> Result<Value, Failure> {
    let text = capture(cargo(&["metadata", "--format-version", "1"]).args(extra))?;
    serde_json::from_str(&text).map_err(|error| Failure::new(format!("cannot read cargo metadata: {error}")))
}

/// The command as a person would type it: the program without its folder.
fn line_of(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut words = vec![name];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        assert_eq!(line_of(Command::new("/some/where/cargo").args(["fmt", "--check"])), "cargo fmt --check");
    }

    #[test]
    fn a_built_program_is_found_by_its_name_among_cargos_messages() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"serde\"},\"executable\":null}\n",
            "not JSON\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"other\"},\"executable\":\"/t/other\"}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"hands\"},\"executable\":\"/t/hands\"}\n",
        );
        assert_eq!(executable(messages, "hands"), Some(PathBuf::from("/t/hands")));
        assert_eq!(executable(messages, "serde"), None);
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(std::fs::read_to_string(root().join("Cargo.toml")).unwrap().contains("[workspace]"));
    }
}
