//! The init: a small process that the runtime starts, and that creates the sandboxes.
//!
//! One init serves one call after the other. For each it creates a process in new namespaces, which is the first one
//! there. When that ends, the kernel kills all others in them. Both hold a lifeline: the init its own socket to the
//! runtime, the first process the call's. However the runtime ends, the lifelines close and everything inside ends,
//! whatever it forked, detached or trapped. The init stays outside, so it can wait until all processes are gone and
//! clean up.
//!
//! It is always single-threaded, which makes forking sound.
//!
//! Why it is like this: `docs/decisions/sandbox-init.md`.

mod caches;
mod first;
mod foreign_mounts;
mod guard;
pub(super) mod holder;
mod landlock;
mod limits;
mod mounting;
mod mounts;
mod reached;
mod record;
mod scratch;
mod seccomp;
mod tree;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, WaitOptions};

use super::spec::{CallEnded, CallSpec, ExtraDescriptors, Mode, SetupFailure};
use super::wire;
use guard::Guard;
use record::Record;
use scratch::Scratch;

pub(super) use landlock::abi as landlock_abi;
pub(super) use tree::below as processes_below;

/// The hidden verb that turns a binary into an init.
pub(super) const VERB: &str = "__init";

/// Whether this program can become an init.
static CAN_BE_INIT: AtomicBool = AtomicBool::new(false);

/// Becomes a sandbox's init, or the holder of overlay mounts, if this process was started as one, and then never
/// returns. Otherwise it only records that this program can be one. Call it first in `main`.
pub fn init() {
    CAN_BE_INIT.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    let serve = match arguments.next() {
        Some(verb) if verb == VERB => serve,
        Some(verb) if verb == holder::VERB => holder::serve,
        _ => return,
    };
    if arguments.next().is_some() {
        return;
    }
    let code = match own_socket().and_then(|socket| serve(&socket)) {
        Ok(()) => 0,
        Err(_) => 2,
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "an init holds no lease and must not fall into the program's main"
    )]
    std::process::exit(code);
}

/// Whether [`init`] was called in this process.
pub(super) fn is_wired() -> bool {
    CAN_BE_INIT.load(Ordering::Relaxed)
}

/// The socket to the runtime, which is standard input. It is moved, so that no program inherits it.
fn own_socket() -> io::Result<UnixStream> {
    close_inherited()?;
    let socket = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    // Anything but a socket was not given by a runtime.
    rustix::net::sockopt::socket_type(&socket)?;
    rustix::stdio::dup2_stdin(&File::open("/dev/null")?)?;
    Ok(UnixStream::from(socket))
}

/// Closes descriptors that the runtime inherited: a program could use them to leave its mounts.
#[expect(unsafe_code, reason = "closing a range of descriptors has no safe form")]
fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: nothing in this process owns a descriptor from here on: it has just begun.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    if closed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn serve(socket: &UnixStream) -> io::Result<()> {
    // Detached from the terminal: its input is for the runtime.
    rustix::process::setsid()?;
    rustix::thread::set_name(c"posse-init")?;
    tree::keep();
    while let Some((spec, fds)) = wire::receive::<CallSpec>(socket)? {
        let over = match Streams::of(&spec, fds) {
            Some((call, mounted, streams)) => run_call(socket, &spec, call, mounted, streams),
            None => Err(broken("receiving the call", &io::Error::from(io::ErrorKind::InvalidInput))),
        };
        let over = over.unwrap_or_else(|broken| CallEnded { broken: Some(broken) });
        wire::send(socket, &over, &[])?;
    }
    Ok(())
}

/// The standard streams of a program.
struct Streams {
    input: Option<OwnedFd>,
    output: OwnedFd,
    errors: Option<OwnedFd>,
}

impl Streams {
    /// Splits the received descriptors into the call's socket, its workspace and its streams.
    fn of(spec: &CallSpec, fds: Vec<OwnedFd>) -> Option<(UnixStream, Option<OwnedFd>, Self)> {
        let ExtraDescriptors { input, errors, workspace } = spec.further;
        let expected = 2 + usize::from(input) + usize::from(errors) + usize::from(workspace);
        let mut fds = Some(fds).filter(|fds| fds.len() == expected)?.into_iter();
        let (call, output) = (fds.next()?, fds.next()?);
        let input = if input { fds.next() } else { None };
        let errors = if errors { fds.next() } else { None };
        Some((UnixStream::from(call), fds.next(), Self { input, output, errors }))
    }
}

fn broken(step: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step: step.to_owned(), errno: error.raw_os_error(), error: error.to_string() }
}

/// Runs one call; returns when none of its processes is left.
fn run_call(
    socket: &UnixStream,
    spec: &CallSpec,
    call: UnixStream,
    mounted: Option<OwnedFd>,
    streams: Streams,
) -> Result<CallEnded, SetupFailure> {
    let record = match &spec.record {
        Some(path) => Some(Record::open(path).map_err(|error| broken("writing the record", &error))?),
        None => None,
    };
    let guard = match mounted {
        Some(mounted) => Guard::of_mount(mounted, &spec.protected),
        None => Guard::new(&spec.workspace, &spec.protected),
    };
    let guard = guard.map_err(|error| broken("looking at protected names", &error))?;
    // The record is closed in every case.
    let ran = run_guarded(socket, spec, &guard, record.as_ref(), call, streams);
    if let Some(record) = record {
        record.close();
    }
    ran.map(|()| CallEnded { broken: None })
}

fn run_guarded(
    socket: &UnixStream,
    spec: &CallSpec,
    guard: &Guard,
    record: Option<&Record>,
    call: UnixStream,
    streams: Streams,
) -> Result<(), SetupFailure> {
    let scratch = match spec.mode {
        Mode::Namespaces => None,
        Mode::Landlock => {
            Some(Scratch::make().map_err(|error| broken("making a scratch directory", &error))?)
        }
    };
    let others = match spec.mode {
        Mode::Namespaces => foreign_mounts::take(spec),
        Mode::Landlock => foreign_mounts::ForeignMounts::new(),
    };
    let ids = (rustix::process::geteuid(), rustix::process::getegid());
    // Forked with this score, no process of the call can become less likely than the init to be killed: the score of a
    // privileged init is the minimum that they can set.
    let usual = limits::be_the_first_to_go();
    let forked = match spec.mode {
        Mode::Namespaces => clone_first(spec.network),
        Mode::Landlock => first::fork(),
    };
    if !matches!(forked, Ok(None)) {
        limits::be_the_last_to_go(&usual);
    }
    let Some(first) = forked.map_err(|error| broken("making the namespaces", &error))? else {
        if let Some(scratch) = &scratch {
            first::become_keeper(spec, guard, scratch, &call, streams);
        }
        // In the new namespaces. Only the call's lifeline is held here.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        first::become_first(spec, guard, others, ids, &call, streams);
    };
    drop((call, streams, others));
    if let Some(record) = record {
        record.note(Some(first));
    }
    wait_until_gone(socket, first, spec.mode).map_err(|error| broken("waiting for the end", &error))?;
    if spec.mode == Mode::Landlock {
        tree::end_all();
    }
    Ok(())
}

/// Creates the first process of the new namespaces: returns `None` there, and its id here.
#[expect(unsafe_code, reason = "fork with flags has no safe form; sound because this process has one thread")]
fn clone_first(network: bool) -> io::Result<Option<Pid>> {
    let mut flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP;
    if !network {
        flags |= libc::CLONE_NEWNET;
    }
    // SAFETY: without a stack and without CLONE_VM this is a fork; there is no other thread whose locks or memory
    // the child could find half changed.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(i32::try_from(pid).ok().and_then(Pid::from_raw))
}

/// Waits until the first process, and with it every other in its namespaces, has ended. Kills it if the runtime ends
/// first.
fn wait_until_gone(socket: &UnixStream, first: Pid, mode: Mode) -> io::Result<()> {
    let exited = rustix::process::pidfd_open(first, rustix::process::PidfdFlags::empty())?;
    let mut alone = false;
    loop {
        let mut fds = [PollFd::new(&exited, PollFlags::IN), PollFd::new(socket, PollFlags::RDHUP)];
        let watched = if alone { 1 } else { 2 };
        match poll(&mut fds[..watched], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !alone && !fds[1].revents().is_empty() {
            alone = true;
            match mode {
                Mode::Namespaces => drop(rustix::process::kill_process(first, Signal::KILL)),
                // Without it, the other processes would have no parent.
                Mode::Landlock => tree::end_all(),
            }
        }
        if !fds[0].revents().is_empty() {
            match wire::retry(|| rustix::process::waitpid(Some(first), WaitOptions::empty())) {
                // It was reaped with the others.
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {}
                waited => drop(waited?),
            }
            return Ok(());
        }
    }
}

/// Whether the peer of a socket is still open.
fn is_open(socket: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&socket, PollFlags::RDHUP)];
    matches!(poll(&mut fds, Some(&rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}
