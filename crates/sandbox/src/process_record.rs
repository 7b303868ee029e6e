//! Ends processes that an earlier lease holder of a run left running.
//!
//! A lease holder that died took its sandboxes with it. One that is only stopped did not: its lifelines are open. Its
//! successor must not continue before they are gone, so each call's init records its processes and holds a lock while
//! it lives.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// The timeout for a killed sandbox to end.
const GONE_MAX: Duration = Duration::from_secs(10);
/// How long its init has to clean up before it is killed too.
const TIDY_MAX: Duration = Duration::from_secs(2);
/// How often its lock is polled.
const TRY_EVERY: Duration = Duration::from_millis(5);

/// The processes of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallProcesses {
    /// The boot in which they were started.
    pub(super) boot: String,
    pub(super) init: Option<ProcessIdentity>,
    /// The first process in the namespaces.
    pub(super) first: Option<ProcessIdentity>,
}

/// A process id that is safe against reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessIdentity {
    pid: i32,
    /// The start time, in the kernel's ticks.
    began: u64,
}

impl ProcessIdentity {
    pub(super) fn of(pid: Pid) -> Option<Self> {
        let pid = pid.as_raw_nonzero().get();
        Some(Self { pid, began: began(pid)? })
    }

    fn kill(self) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        // The descriptor is opened before the check. If the check succeeds, it refers to the right process.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        if began(self.pid) == Some(self.began) {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }
}

fn began(pid: i32) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?, 19)
}

/// A field of a line of `/proc/<pid>/stat`, counted from the state. The name before it may contain anything, so parsing
/// starts after its last bracket.
pub(super) fn field<T: FromStr>(stat: &str, index: usize) -> Option<T> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(index)?.parse().ok()
}

pub(super) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Ends every call recorded in a directory and waits until its processes are gone. A missing directory has no calls.
///
/// # Errors
///
/// If a record cannot be read, or its processes do not end: then the run must not continue.
pub fn end_recorded(dir: &Path) -> io::Result<usize> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        entries => entries?,
    };
    let mut ended = 0;
    for entry in entries {
        ended += usize::from(end_one(&entry?.path())?);
    }
    Ok(ended)
}

fn end_one(path: &Path) -> io::Result<bool> {
    let lock = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    let free = || rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    let alive = !free();
    if alive {
        let began = Instant::now();
        loop {
            // The record may not be written yet: its init is just starting.
            let recorded =
                fs::read(path).ok().and_then(|text| serde_json::from_slice::<CallProcesses>(&text).ok());
            if let Some(recorded) = recorded.filter(|recorded| recorded.boot == boot_id()) {
                // The init last: it waits for the first process and cleans up, unless it is stuck.
                recorded.first.into_iter().for_each(ProcessIdentity::kill);
                if began.elapsed() > TIDY_MAX {
                    recorded.init.into_iter().for_each(ProcessIdentity::kill);
                }
            }
            if free() {
                break;
            }
            if began.elapsed() >= GONE_MAX {
                let problem = format!("{}: what it names does not end", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            std::thread::park_timeout(TRY_EVERY);
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(alive),
    }
}
