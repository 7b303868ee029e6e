//! Lets a run outlive its terminal. On a terminal, the command starts itself a second time: the second process executes
//! the run and has the terminal, the first only waits for it. To detach, the second one leaves the session and tells the
//! first to end, so that the shell continues. No call is interrupted, because nothing is handed over.
//!
//! If the first process is killed, the second stops as on SIGTERM. If the second is killed, the first restores the
//! terminal.
//!
//! Why it is like this: `docs/decisions/cli-detach.md`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use tokio::signal::unix::SignalKind;
use tokio::sync::oneshot;

use crate::args;
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Exit;
use crate::questions::write_out;
use crate::runtime;
use crate::signals::listen_to;
use crate::view::is_in_foreground;

/// The first argument of the second process; the id of the first follows.
const SECOND: &str = "__foreground";

/// The end of the first process: the second has detached.
const DETACHED: Signal = Signal::USR1;

/// The process that waits for this one at the terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingProcess(Pid);

impl WaitingProcess {
    /// Removes the arguments of the second process from those of the command.
    pub(crate) fn from_args(args: &mut Vec<OsString>) -> Option<Self> {
        if args.get(1).map(OsString::as_os_str) != Some(OsStr::new(SECOND)) {
            return None;
        }
        let number = args.drain(1..args.len().min(3)).nth(1)?;
        let pid = Pid::from_raw(number.to_str()?.parse().ok()?)?;
        // From here on the kernel watches it. It may have ended before.
        set_parent_process_death_signal(Some(Signal::TERM)).ok()?;
        (getppid() == Some(pid)).then_some(Self(pid))
    }

    /// Leaves the terminal: from now on, the output of this process goes to `log`.
    pub(crate) fn detach(self, log: &File) -> std::io::Result<()> {
        let nothing = File::open("/dev/null")?;
        set_parent_process_death_signal(None)?;
        dup2_stdin(&nothing)?;
        dup2_stdout(log)?;
        dup2_stderr(log)?;
        // Fails only for the leader of a process group, which a second process is not.
        let _ = setsid();
        // If it has ended, there is no shell to continue.
        let _ = kill_process(self.0, DETACHED);
        Ok(())
    }
}

/// Whether a command is executed by a second process: if it shows a run on a terminal that the run may outlive.
pub(crate) fn is_needed(command: &args::Command, context: &Context) -> bool {
    let shows_run = match command {
        args::Command::Run(args) => !args.is_for_programs(),
        args::Command::Continue(args) => !args.further.is_for_programs(),
        args::Command::Retry(args) => !args.further.is_for_programs(),
        args::Command::Resume(args) => !args.is_for_programs(),
        args::Command::Demo(_) => true,
        _ => false,
    };
    shows_run && context.waiting.is_none() && context.display.is_live && std::io::stdin().is_terminal()
}

/// Executes the command in a second process, and waits until that ends or detaches.
pub(crate) fn wait_for_second(args: &[OsString]) -> Result<Exit, CliError> {
    let failed =
        |error: std::io::Error| CliError::failed(format!("this program cannot be started again: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let own_pid = rustix::process::getpid().as_raw_nonzero().to_string();
    let stdin = std::io::stdin();
    let modes = tcgetattr(&stdin).ok();
    runtime::looking(async {
        let mut signals = ForwardedSignals::listen()?;
        let mut command = Command::new(program);
        if let Some(name) = args.first() {
            command.arg0(name);
        }
        command.arg(SECOND).arg(own_pid).args(args.iter().skip(1));
        // Started by this thread, which lives as long as the process: the kernel tells the second one when it ends.
        let child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        let mut ended = end_of(child)?;
        let status = loop {
            tokio::select! {
                status = &mut ended => break status.ok().flatten(),
                signal = signals.next() => match signal {
                    Some(DETACHED) => return Ok(Exit::DONE),
                    // Ctrl-Z reaches both. One that is listened to no longer stops a process by itself.
                    Some(Signal::TSTP) => {
                        let _ = kill_process(rustix::process::getpid(), Signal::STOP);
                    }
                    // If it has just ended, its end is on the way.
                    Some(signal) => {
                        let _ = kill_process(pid, signal);
                    }
                    None => {}
                },
            }
        };
        let exit = status.map_or(Exit::FAILED, exit_of);
        if let (Some(modes), Some(_)) = (modes, status.and_then(|status| status.signal())) {
            restore(&modes);
        }
        Ok(exit)
    })
}

/// Restores a terminal that a killed process left.
fn restore(modes: &rustix::termios::Termios) {
    if is_in_foreground() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
        write_out("\u{1b}[?7h\u{1b}[?25h\n");
    }
}

fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Exit(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::FAILED.0))
}

/// The end of a process. A thread waits for it, and ends with this process.
fn end_of(mut child: Child) -> Result<oneshot::Receiver<Option<ExitStatus>>, CliError> {
    let (sender, ended) = oneshot::channel();
    let wait = move || {
        let _ = sender.send(child.wait().ok());
    };
    let thread = std::thread::Builder::new().name("posse-waiting".to_owned()).spawn(wait);
    thread.map_err(|error| CliError::failed(format!("cannot start threads: {error}")))?;
    Ok(ended)
}

/// The signals that the first process does not end by.
struct ForwardedSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    detached: tokio::signal::unix::Signal,
    suspended: tokio::signal::unix::Signal,
}

impl ForwardedSignals {
    fn listen() -> Result<Self, CliError> {
        Ok(Self {
            interrupt: listen_to(SignalKind::interrupt())?,
            terminate: listen_to(SignalKind::terminate())?,
            hang_up: listen_to(SignalKind::hangup())?,
            detached: listen_to(SignalKind::user_defined1())?,
            suspended: listen_to(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
        })
    }

    /// The next signal to pass on; `None` for Ctrl-C, which the terminal sends to both processes.
    async fn next(&mut self) -> Option<Signal> {
        tokio::select! {
            _ = self.interrupt.recv() => None,
            _ = self.terminate.recv() => Some(Signal::TERM),
            _ = self.hang_up.recv() => Some(Signal::HUP),
            _ = self.detached.recv() => Some(DETACHED),
            _ = self.suspended.recv() => Some(Signal::TSTP),
        }
    }
}
