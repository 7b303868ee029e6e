//! Reports whether runs can be stored.

use std::path::Path;

use posse::api::CheckStatus as Status;

use super::{MachineFinding, MachineRemedy, hint, passed, short};
use crate::Setup;

/// With less space than this, a run fails soon.
const FREE_MIN_BYTES: u64 = 100 * 1024 * 1024;

pub(super) fn state(setup: &Setup) -> MachineFinding {
    let name = "state directory";
    match setup.state_dir() {
        Err(error) => short(name, Status::Missing, error.message(), MachineRemedy::SetStateDir),
        Ok(dir) if !dir.exists() && can_be_made(dir) => {
            passed(name, format!("{} (the first run creates it)", dir.display()))
        }
        Ok(dir) if !dir.exists() => {
            let value = format!("{} cannot be created", dir.display());
            short(name, Status::Missing, value, MachineRemedy::SetOwnStateDir)
        }
        Ok(dir) => match setup.open_read_only().map(drop) {
            Ok(()) if writable(dir) => match free_bytes(dir) {
                Some(free) if free < FREE_MIN_BYTES => {
                    let value = format!("{} has only {} MiB left on its disk", dir.display(), free >> 20);
                    short(
                        name,
                        Status::Missing,
                        value,
                        hint("free some space, for example by removing old runs"),
                    )
                }
                _ => passed(name, dir.display().to_string()),
            },
            Ok(()) => {
                let value = format!("{} cannot be written", dir.display());
                short(name, Status::Missing, value, MachineRemedy::MakeStateDirWritable)
            }
            Err(error) => short(name, Status::Missing, error.to_string(), MachineRemedy::FixStateDir),
        },
    }
}

/// Whether the nearest existing parent is a directory in which entries can be created.
fn can_be_made(dir: &Path) -> bool {
    dir.ancestors().find(|above| above.exists()).is_some_and(|above| {
        // The kernel's own directories look writable to root, but nothing can be created there.
        above.is_dir() && writable(above) && !above.starts_with("/proc") && !above.starts_with("/sys")
    })
}

/// The space that the user can still fill; `None` if it is not known.
fn free_bytes(dir: &Path) -> Option<u64> {
    let stat = rustix::fs::statvfs(dir).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

pub(super) fn writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_directory_that_cannot_be_made_differs_from_one_that_can() {
        let top = tempfile::tempdir().expect("a directory");
        assert!(can_be_made(&top.path().join("a/b")));
        assert!(!can_be_made(Path::new("/dev/null/x")) && !can_be_made(Path::new("/proc/x")));
    }
}
