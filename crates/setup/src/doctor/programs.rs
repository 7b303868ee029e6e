//! Reports the programs that Posse calls.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use posse::GIT_PATH;
use posse::api::CheckStatus as Status;

use super::{MachineFinding, hint, passed, short};
use crate::environment::Environment;

/// The oldest git whose merge supports what workspaces need.
const GIT_NEEDED: (u32, u32) = (2, 45);

pub(super) fn bash(environment: &Environment) -> MachineFinding {
    let path = environment.variables.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.as_str());
    let found = path.unwrap_or("/usr/bin:/bin").split(':').map(|dir| Path::new(dir).join("bash"));
    let runs =
        |path: &PathBuf| path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    match found.into_iter().find(runs) {
        Some(path) => passed("bash", path.display().to_string()),
        None => short("bash", Status::Missing, "not found in PATH", hint("install bash")),
    }
}

/// The version of the git that workspaces use.
pub(super) fn version_of_git() -> Option<String> {
    let mut command = Command::new(OsStr::new("git"));
    let output = command.arg("--version").env("PATH", GIT_PATH).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().strip_prefix("git version ")?.to_owned())
}

pub(super) fn git(version: Option<&str>) -> MachineFinding {
    let (major, minor) = GIT_NEEDED;
    let remedy = hint(format!("install git {major}.{minor} or newer"));
    let Some(version) = version else {
        let value = format!("not found in {GIT_PATH}; isolated workspaces need it");
        return short("git", Status::Missing, value, remedy);
    };
    let mut parts = version.split(['.', ' ', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if found >= GIT_NEEDED {
        return passed("git", version);
    }
    let value = format!("{version} is too old for isolated workspaces");
    short("git", Status::Missing, value, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_git_is_not_enough() {
        for (version, status) in [
            ("2.47.3", Status::Ok),
            ("2.45.0-rc1", Status::Ok),
            ("3.0", Status::Ok),
            ("2.39.5 (Apple Git-154)", Status::Missing),
            ("nonsense", Status::Missing),
        ] {
            assert_eq!(git(Some(version)).status, status, "{version}");
        }
        assert_eq!(git(None).status, Status::Missing);
    }
}
