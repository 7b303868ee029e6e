//! The errors of this crate: why a sandbox could not be created, or a call has no result.

use std::io;

use thiserror::Error;

use super::spec::SetupFailure;

/// The remedy for a step that failed for an unknown reason.
const REFUSED_STEP: &str = "The kernel, a security module or a limit of this machine refuses that step";

/// This machine cannot create a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the sandbox cannot be made: {missing}. {remedy}")]
pub struct Unavailable {
    /// What the machine lacks, or the step that failed.
    pub missing: String,
    /// What a user can do about it.
    pub remedy: String,
}

impl Unavailable {
    pub(super) fn not_wired() -> Self {
        Self {
            missing: "this program cannot start sandboxes".to_owned(),
            remedy:
                "Call `posse::init()` first in `main`, or set `SandboxOptions::init` to a binary that does"
                    .to_owned(),
        }
    }

    pub(super) fn no_init(program: &str, error: &io::Error) -> Self {
        Self {
            missing: format!("{program} cannot be started: {error}"),
            remedy: match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                    "Name the `posse` binary as the sandbox's init".to_owned()
                }
                _ => "The machine has no room for another process or file now; try again".to_owned(),
            },
        }
    }

    pub(super) fn broken(step: &str, error: &str) -> Self {
        Self { missing: format!("{step} failed: {error}"), remedy: REFUSED_STEP.to_owned() }
    }

    /// Explains a failed step on the machines where it is known to fail.
    pub(super) fn from_broken(broken: &SetupFailure) -> Self {
        let SetupFailure { step, errno, error } = broken;
        let remedy = match (step.as_str(), *errno) {
            ("making the namespaces", Some(libc::ENOSPC)) => {
                "The kernel's limit is reached or zero: `sysctl user.max_user_namespaces=15000`"
            }
            ("making the namespaces" | "mapping the user" | "separating mounts" | "making a new root", _) => {
                "User namespaces are not allowed here. On Ubuntu: `sysctl \
                 kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile for posse; on older Debian: \
                 `sysctl kernel.unprivileged_userns_clone=1`; in a container: `--security-opt seccomp=unconfined` \
                 or a profile that allows `clone` with namespaces"
            }
            ("mounting /proc", _) => {
                "The container hides parts of /proc, and the kernel then allows no fresh one: start it with \
                 `--security-opt systempaths=unconfined`"
            }
            _ => REFUSED_STEP,
        };
        Self { missing: format!("{step} failed: {error}"), remedy: remedy.to_owned() }
    }
}

/// Why a call has no result.
#[derive(Debug, Error)]
pub enum SandboxError {
    /// The sandbox cannot be created on this machine.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The program could not be started in the sandbox.
    #[error("cannot start {0}")]
    NoProgram(String),
    /// The workspace contains files that programs must not see.
    #[error("{0}")]
    Workspace(String),
    /// An I/O operation of the call failed.
    #[error("the call failed: {0}")]
    Call(#[from] io::Error),
    /// The init ended before the program.
    #[error("the sandbox ended before the program did")]
    Lost,
    /// The sandbox ended before the program, but its init is alive. The program may have caused that, and so may every
    /// process that can kill processes of this user.
    #[error("the sandbox ended before the program did, which may be the program's own doing")]
    BroughtDown,
}
