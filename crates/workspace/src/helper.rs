//! Runs a helper program, such as git, to its end or to a deadline.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::time::Timespec;

/// Size of a read from a pipe.
const CHUNK: usize = 64 * 1024;

/// Runs a program and returns its output; `None` if it exceeded `patience` and was killed. `input` goes to its standard
/// input through a pipe unless it is empty.
pub(super) fn output(mut command: Command, input: &[u8], patience: Duration) -> io::Result<Option<Output>> {
    let until = Instant::now() + patience;
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let _running = RunningHelper::note(&child);
    let stdin = child.stdin.take();
    // Reads and writes in parallel, or both processes could wait for each other.
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(input)));
        let ended = stderr_text(&mut child, until);
        if !matches!(ended, Ok(Some(_))) {
            // This also ends the writer. Killing a process that has ended fails harmlessly.
            drop(child.kill());
            drop(child.wait());
        }
        // A program that ended early closed its pipe. Its exit code says why.
        drop(writer.join());
        ended
    })
}

/// The running helpers.
static RUNNING: Mutex<BTreeMap<u64, OwnedFd>> = Mutex::new(BTreeMap::new());

/// Kills every running helper. For a process that exits while some of its threads wait for one: a helper that hangs
/// would outlive it.
pub fn end_helpers() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    for helper in running.values() {
        // A helper that has ended meanwhile is fine.
        let _ = pidfd_send_signal(helper, Signal::KILL);
    }
}

/// Registers a running helper until it is dropped.
struct RunningHelper(Option<u64>);

impl RunningHelper {
    /// Uses a pidfd, because a process id may be reused.
    fn note(child: &Child) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let Ok(process) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return Self(None) };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(number, process);
        Self(Some(number))
    }
}

impl Drop for RunningHelper {
    fn drop(&mut self) {
        if let Some(number) = self.0 {
            RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        }
    }
}

/// Reads all output of a program and waits for its end; `None` after the deadline.
fn stderr_text(child: &mut Child, until: Instant) -> io::Result<Option<Output>> {
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let (mut printed, mut complained) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; CHUNK];
    while stdout.is_some() || stderr.is_some() {
        let open: Vec<_> = [stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)]
            .into_iter()
            .flatten()
            .collect();
        let Some(ready) = wait_for(&open, until)? else { return Ok(None) };
        let mut ready = ready.into_iter();
        if stdout.is_some() && ready.next() == Some(true) && !take(&mut stdout, &mut buffer, &mut printed)? {
            stdout = None;
        }
        if stderr.is_some() && ready.next() == Some(true) && !take(&mut stderr, &mut buffer, &mut complained)?
        {
            stderr = None;
        }
    }
    // On a kernel without pidfds, only a blocking wait remains.
    if let Ok(process) = pidfd_open(Pid::from_child(child), PidfdFlags::empty())
        && wait_for(&[process.as_fd()], until)?.is_none()
    {
        return Ok(None);
    }
    Ok(Some(Output { status: child.wait()?, stdout: printed, stderr: complained }))
}

/// Reads what a pipe holds; `false` at its end.
fn take(pipe: &mut Option<impl Read>, buffer: &mut [u8], into: &mut Vec<u8>) -> io::Result<bool> {
    let Some(pipe) = pipe else { return Ok(false) };
    match pipe.read(buffer) {
        Ok(got) => {
            into.extend_from_slice(&buffer[..got]);
            Ok(got > 0)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// Waits until at least one descriptor is readable and returns which; `None` after the deadline.
fn wait_for(fds: &[std::os::fd::BorrowedFd<'_>], until: Instant) -> io::Result<Option<Vec<bool>>> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let mut polled: Vec<PollFd<'_>> =
            fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(Some(polled.iter().map(|fd| !fd.revents().is_empty()).collect())),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_is_printed_on_both_sides_and_read_from_a_pipe_is_whole() {
        let input = vec![b'x'; 1 << 20];
        let done = output(
            shell("cat; cat /dev/null; head -c 1000000 /dev/zero >&2; exit 3"),
            &input,
            Duration::from_mins(5),
        );
        let done = done.expect("started").expect("ended");
        assert_eq!((done.stdout.len(), done.stderr.len(), done.status.code()), (1 << 20, 1_000_000, Some(3)));
        let early = output(shell("exit 0"), &input, Duration::from_mins(5)).expect("started").expect("ended");
        assert!(early.status.success());
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_whatever_it_waits_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let hangs = [
            "exec sleep 1000",
            "exec >&- 2>&-; exec sleep 1000",
            "mkfifo pipe; exec cat pipe",
            "while :; do echo x; done >/dev/null",
        ];
        for script in hangs {
            let mut command = shell(&format!("echo $$ > pid; {script}"));
            command.current_dir(dir.path());
            // Just enough time to start.
            let ended = output(command, b"never read", Duration::from_secs(2)).expect("started");
            assert!(ended.is_none(), "{script}");
            let pid = std::fs::read_to_string(dir.path().join("pid")).expect("it ran");
            assert!(!std::path::Path::new("/proc").join(pid.trim()).exists(), "{script}");
        }
    }
}
