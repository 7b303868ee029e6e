//! Runs cargo and git from the workspace root.
//!
//! Why there are two optimised profiles: `docs/decisions/build-profiles.md`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Failure, Outcome};

/// The workspace root, so that commands work the same from any folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The cargo that started this program, so that `cargo +toolchain xtask` stays on that toolchain.
///
/// The variables that `cargo run` sets about the package are removed: build scripts of some crates watch them, and
/// would rebuild on every change between `cargo xtask` and a plain `cargo build`.
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
    #[expect(clippy::disallowed_methods, reason = "a user who has chosen keeps that choice")]
    let is_chosen = std::env::var_os("CARGO_INCREMENTAL").is_some();
    if !is_chosen && !has_incremental_builds() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command.args(args).current_dir(root());
    command
}

/// Whether a developer has built this workspace for changing it. Without such a build nothing can be reused, and
/// incremental compilation only takes time for what it stores.
fn has_incremental_builds() -> bool {
    #[expect(clippy::disallowed_methods, reason = "where cargo builds is cargo's setting")]
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    has_incremental_builds_in(&target)
}

/// xtask itself has just been built by a plain `cargo run`, so its own directory says nothing.
fn has_incremental_builds_in(target: &Path) -> bool {
    let stored = std::fs::read_dir(target.join("debug/incremental")).into_iter().flatten().flatten();
    stored.into_iter().any(|dir| dir.file_name().to_string_lossy().starts_with("posse"))
}

/// An example among the targets. Cargo then selects the features that development dependencies need, as it does for
/// `cargo test` and `cargo clippy --all-targets`; without one it compiles most crates again for fewer features.
pub(crate) const WITH_DEV_FEATURES: [&str; 2] = ["--example", "hands"];

/// Whether `cargo <args>` works at all, for tools that a machine may not have.
pub(crate) fn cargo_has(args: &[&str]) -> bool {
    let status = cargo(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Runs a command with inherited standard streams, so that its output appears immediately.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = line_of(command);
    println!("$ {line}");
    let status = command.status().map_err(|error| Failure::new(format!("cannot start `{line}`: {error}")))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` ended with {status}"))) }
}

/// Runs a command and returns its standard output; standard error appears immediately.
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

/// A program of the workspace, by cargo's name of its target.
pub(crate) enum Program<'a> {
    /// A `[[bin]]` target.
    Binary(&'a str),
    Example(&'a str),
}

/// How a program is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Like the tests.
    Dev,
    /// Like the release: with link-time optimisation.
    Dist,
}

/// Builds a program and returns its path.
///
/// The build covers the whole workspace: with `-p`, cargo selects the features of that one package alone and compiles
/// most dependencies again for them, which took minutes of a cold `cargo xtask ci`.
pub(crate) fn build(program: &Program<'_>, profile: Profile) -> Result<PathBuf, Failure> {
    let (flag, name) = match program {
        Program::Binary(name) => ("--bin", *name),
        Program::Example(name) => ("--example", *name),
    };
    let mut command = cargo(&["build", "--quiet", "--workspace", flag, name, "--message-format", "json"]);
    let further: &[&str] = match (profile, program) {
        (Profile::Dev, Program::Binary(_)) => &WITH_DEV_FEATURES,
        (Profile::Dev, Program::Example(_)) => &[],
        (Profile::Dist, _) => &["--profile", "dist"],
    };
    command.args(further);
    println!("$ {}", [&["cargo", "build", "--workspace", flag, name], further].concat().join(" "));
    let messages = capture(&mut command)?;
    executable(&messages, name)
        .ok_or_else(|| Failure::new(format!("cargo built no program with the name `{name}`")))
}

/// The path of a program in the messages of `cargo build`, which are one JSON object per line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|message| {
        let named = message.pointer("/target/name").and_then(Value::as_str) == Some(name);
        let path = message.get("executable").and_then(Value::as_str).filter(|_| named)?;
        Some(PathBuf::from(path))
    })
}

/// The output of `cargo metadata`; `extra` are further flags.
pub(crate) fn metadata(extra: &[&str]) -> Result<Value, Failure> {
    let text = capture(cargo(&["metadata", "--format-version", "1"]).args(extra))?;
    serde_json::from_str(&text).map_err(|error| Failure::new(format!("cannot read cargo metadata: {error}")))
}

/// The command as a user would type it: the program without its folder.
fn line_of(command: &Command) -> String {
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let mut words = vec![name];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// The variable of the directory for temporary files.
pub(crate) const TMPDIR: &str = "TMPDIR";

/// A new directory that every user can work in, and that is removed at the end.
///
/// For minutes after files were removed, ext4 searches for free inodes in their part of the disk so long that creating a
/// file takes milliseconds. A directory beneath one with the attribute `T` is put in another part. With it, the tests of
/// workspaces take two thirds of their time.
pub(crate) struct FreshDir(PathBuf);

impl FreshDir {
    pub(crate) fn new(dir: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", dir.display()));
        std::fs::create_dir(dir).map_err(failed)?;
        let made = Self(dir.to_owned());
        // Some tests run as another user.
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o1777)).map_err(failed)?;
        // Other filesystems do not have the attribute, and do not need it.
        let mut chattr = Command::new("chattr");
        drop(chattr.arg("+T").arg(dir).stderr(Stdio::null()).status());
        Ok(made)
    }

    /// One for tests, which create their files in the directory that `TMPDIR` names.
    pub(crate) fn for_tests() -> Result<Self, Failure> {
        // Short, because the path of a socket has at most 108 bytes.
        Self::new(Path::new(&format!("/tmp/posse-tests-{}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for FreshDir {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
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
    fn only_a_build_of_a_crate_of_ours_counts_as_a_developers() {
        let target = tempfile::tempdir().unwrap();
        let incremental = target.path().join("debug/incremental");
        assert!(!has_incremental_builds_in(target.path()));
        std::fs::create_dir_all(incremental.join("xtask-1abc")).unwrap();
        assert!(!has_incremental_builds_in(target.path()));
        std::fs::create_dir_all(incremental.join("posse_domain-2abc")).unwrap();
        assert!(has_incremental_builds_in(target.path()));
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(std::fs::read_to_string(root().join("Cargo.toml")).unwrap().contains("[workspace]"));
    }
}
