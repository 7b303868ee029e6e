//! The first process in the namespaces: builds the sandbox, starts the program, and waits for it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions, WaitStatus};

use super::super::command::CacheShown;
use super::super::spec::{CONTINUE, CallSpec, InitMessage, Layers, Mode, PAUSE, SetupFailure, TERMINATE};
use super::super::wire;
use super::caches::Caches;
use super::foreign_mounts::ForeignMounts;
use super::guard::Guard;
use super::landlock::ReachablePaths;
use super::mounts::{ProcClosed, SandboxRoot};
use super::scratch::Scratch;
use super::seccomp::SharedResources;
use super::{Streams, broken, is_open, landlock, limits, mounts, reached, seccomp, tree};

/// How long programs have to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// The exit code of the first process. It is never read: the report is on the call's socket.
const LEFT: i32 = 0;

/// Builds the sandbox and runs the program; never returns.
pub(super) fn become_first(
    spec: &CallSpec,
    guard: &Guard,
    others: ForeignMounts,
    ids: (Uid, Gid),
    call: &UnixStream,
    streams: Streams,
) -> ! {
    // The init may have died before the death signal was set. Then the runtime closes its end of the call soon, and
    // nothing has been started yet.
    match build(spec, guard, others, ids) {
        Ok((layers, built)) if is_open(call) => {
            let shown = built.caches.shown.clone();
            run_program(spec, layers, shown, &ProgramRoot::OwnRoot(built), call, streams);
        }
        Ok(_) => {}
        Err(broken) => drop(wire::send(call, &InitMessage::Broken(broken), &[])),
    }
    leave();
}

/// The same without namespaces: this process keeps track of the programs instead; never returns.
pub(super) fn become_keeper(
    spec: &CallSpec,
    guard: &Guard,
    scratch: &Scratch,
    call: &UnixStream,
    streams: Streams,
) -> ! {
    tree::keep();
    let hidden =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable).is_ok();
    match landlock::abi() {
        Some(_) if spec.changes.is_some() => {
            let none = io::Error::from(io::ErrorKind::Unsupported);
            drop(wire::send(call, &InitMessage::Broken(broken("showing the workspace", &none)), &[]));
        }
        Some(version) if hidden && is_open(call) => {
            let layers = Layers { namespaces: false, landlock: Some(version), seccomp: true };
            let shown = Caches::none(&spec.caches).shown;
            run_program(spec, layers, shown, &ProgramRoot::TheMachines(scratch, guard), call, streams);
        }
        Some(_) => {}
        None => {
            let none = io::Error::from(io::ErrorKind::Unsupported);
            drop(wire::send(call, &InitMessage::Broken(broken("applying Landlock", &none)), &[]));
        }
    }
    tree::end_all();
    leave();
}

/// The root directory that the program sees.
enum ProgramRoot<'a> {
    OwnRoot(SandboxRoot),
    /// The machine's root, with a private scratch directory and the guarded workspace.
    TheMachines(&'a Scratch, &'a Guard),
}

impl ProgramRoot<'_> {
    fn mode(&self) -> Mode {
        match self {
            ProgramRoot::OwnRoot(_) => Mode::Namespaces,
            ProgramRoot::TheMachines(..) => Mode::Landlock,
        }
    }

    /// The workspace as programs see it.
    fn workspace(&self) -> BorrowedFd<'_> {
        match self {
            ProgramRoot::OwnRoot(built) => built.workspace.as_fd(),
            ProgramRoot::TheMachines(_, guard) => guard.dir().as_fd(),
        }
    }

    /// Enters the working directory by descriptor, because another call may change the path.
    fn enter(&self, spec: &CallSpec) -> io::Result<()> {
        let dir = match Path::new(&spec.workdir).strip_prefix(&spec.shown_as) {
            Ok(inside) => reached::open_dir_inside(self.workspace(), inside)?,
            Err(_) => reached::open_dir(&spec.workdir)?,
        };
        Ok(rustix::process::fchdir(dir)?)
    }

    fn signal_all(&self, signal: Signal) {
        match self {
            ProgramRoot::OwnRoot(_) => signal_all(signal),
            ProgramRoot::TheMachines(..) => tree::signal_all(signal),
        }
    }
}

pub(super) fn leave() -> ! {
    #[expect(
        clippy::disallowed_methods,
        reason = "this process is a fork: nothing of the init's is its to release"
    )]
    std::process::exit(LEFT);
}

fn build(
    spec: &CallSpec,
    guard: &Guard,
    others: ForeignMounts,
    (uid, gid): (Uid, Gid),
) -> Result<(Layers, SandboxRoot), SetupFailure> {
    let step = |step: &'static str| move |error: io::Error| broken(step, &error);
    limits::map_ids(uid, gid).map_err(step("mapping the user"))?;
    // Other processes in the namespaces have the same user. None of them may inspect this one.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
        .map_err(|error| broken("hiding the first process", &error.into()))?;
    let built = mounts::build(spec, guard, others).map_err(|(step, error)| broken(&step, &error))?;
    if !spec.network {
        limits::loopback_up().map_err(step("starting the loopback interface"))?;
    }
    let _ = rustix::system::sethostname(b"posse");
    let failed = |(step, error): (String, io::Error)| broken(&step, &error);
    let closed = uid.is_root().then(ProcClosed::prepare).transpose().map_err(failed)?;
    limits::forbid_namespaces();
    closed.map_or(Ok(()), ProcClosed::put).map_err(failed)?;
    Ok((Layers { namespaces: true, landlock: landlock::abi(), seccomp: true }, built))
}

/// Starts the program and waits for it and for commands of the runtime. The caches stay locked meanwhile.
fn run_program(
    spec: &CallSpec,
    layers: Layers,
    caches: Vec<CacheShown>,
    place: &ProgramRoot<'_>,
    call: &UnixStream,
    streams: Streams,
) {
    let Ok(children) = signals_of_children() else { return };
    if wire::send(call, &InitMessage::Caches(caches), &[]).is_err() {
        return;
    }
    if wire::send(call, &InitMessage::Ready(layers), &[]).is_err() || spec.argv.is_empty() {
        return;
    }
    let main = match fork() {
        Ok(Some(main)) => main,
        Ok(None) => {
            let problem = start(spec, place, streams);
            drop(wire::send(call, &problem, &[]));
            leave();
        }
        Err(error) => {
            return drop(wire::send(call, &InitMessage::Broken(broken("starting a process", &error)), &[]));
        }
    };
    drop(streams);
    let _ = limits::drop_privileges(place.mode());
    if let Some(told) = wait(main, place, call, &children) {
        drop(wire::send(call, &told, &[]));
    }
    // In namespaces, the kernel kills all remaining processes together with this one.
}

/// Executes the program; returns only the reason of a failure.
fn start(spec: &CallSpec, place: &ProgramRoot<'_>, streams: Streams) -> InitMessage {
    let (scratch, environment) = match place {
        ProgramRoot::OwnRoot(_) => (Path::new(""), spec.env.clone()),
        ProgramRoot::TheMachines(scratch, _) => (scratch.path(), scratch.environment(&spec.env)),
    };
    let inner = || -> Result<(), SetupFailure> {
        let step = |step: &'static str| move |error: io::Error| broken(step, &error);
        rustix::process::setsid().map_err(|error| broken("leaving the terminal", &error.into()))?;
        // Nothing secret follows, and a process that is not dumpable does not own its files in `/proc`.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
            .map_err(|error| broken("starting a process", &error.into()))?;
        limits::default_signals();
        limits::apply(&spec.limits, place.mode()).map_err(step("setting limits"))?;
        limits::drop_privileges(place.mode()).map_err(step("dropping privileges"))?;
        let (reach, shared) = match place {
            ProgramRoot::OwnRoot(built) => {
                (ReachablePaths::in_namespaces(spec, built), SharedResources::Nothing)
            }
            ProgramRoot::TheMachines(_, guard) => {
                (ReachablePaths::alone(spec, guard.dir(), scratch), SharedResources::Machine)
            }
        };
        let reach = reach.map_err(step("applying Landlock"))?;
        landlock::apply(reach).map_err(|error| SetupFailure {
            step: "applying Landlock".to_owned(),
            errno: None,
            error,
        })?;
        seccomp::apply(shared).map_err(step("filtering system calls"))
    };
    let program = spec.argv.first().map_or("", String::as_str);
    // Before the filter, which blocks opening a directory beneath another one.
    if let Err(error) = place.enter(spec) {
        return InitMessage::NoProgram(format!("{program} in {}: {error}", spec.workdir));
    }
    if let Err(broken) = inner() {
        return InitMessage::Broken(broken);
    }
    let (program, arguments) = spec.argv.split_first().map_or(("", &[][..]), |(p, a)| (p.as_str(), a));
    let Streams { input, output, errors } = streams;
    let errors = match errors.map_or_else(|| output.try_clone(), Ok) {
        Ok(errors) => errors,
        Err(error) => return InitMessage::Broken(broken("sharing the output", &error)),
    };
    let error = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(Stdio::from(output))
        .stderr(Stdio::from(errors))
        .exec();
    InitMessage::NoProgram(format!("{program} in {}: {error}", spec.workdir))
}

/// Waits for the program; `None` if the runtime is gone, or has ended the call.
fn wait(
    main: Pid,
    place: &ProgramRoot<'_>,
    mut call: &UnixStream,
    children: &OwnedFd,
) -> Option<InitMessage> {
    let mut end: Option<Instant> = None;
    loop {
        let left = end.map(|end| {
            let left = end.saturating_duration_since(Instant::now());
            rustix::time::Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        if left.is_some_and(|left| left.tv_sec == 0 && left.tv_nsec == 0) {
            return Some(InitMessage::Signalled(Signal::KILL.as_raw()));
        }
        let mut fds = [PollFd::new(call, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        let (spoken, died) = (!fds[0].revents().is_empty(), !fds[1].revents().is_empty());
        if died {
            let mut drained = [0; 128];
            while rustix::io::read(children, &mut drained).is_ok_and(|got| got == drained.len()) {}
            if let Some(told) = reap(main) {
                return Some(told);
            }
        }
        if spoken {
            let mut byte = [0];
            match call.read(&mut byte) {
                Ok(1) if byte[0] == TERMINATE && end.is_none() => {
                    // A paused process does not react to SIGTERM.
                    place.signal_all(Signal::TERM);
                    place.signal_all(Signal::CONT);
                    end = Some(Instant::now() + GRACE);
                }
                Ok(1) if byte[0] == PAUSE => place.signal_all(Signal::STOP),
                Ok(1) if byte[0] == CONTINUE => place.signal_all(Signal::CONT),
                Ok(1) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }
}

/// Reaps dead processes; returns how the program ended, if it was one of them.
fn reap(main: Pid) -> Option<InitMessage> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == main {
            ended = Some(report(status));
        }
    }
    ended
}

fn report(status: WaitStatus) -> InitMessage {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => InitMessage::Exited(code),
        (None, signal) => InitMessage::Signalled(signal.unwrap_or_default()),
    }
}

/// Sends a signal to every other process in the namespaces.
#[expect(unsafe_code, reason = "a signal to all processes has no safe form")]
fn signal_all(signal: Signal) {
    // SAFETY: takes two integers. In this pid namespace -1 means every process but this one.
    unsafe { libc::kill(-1, signal.as_raw()) };
}

#[expect(unsafe_code, reason = "fork has no safe form; sound because this process has one thread")]
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: this process has one thread.
    let pid = unsafe { libc::fork() };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Pid::from_raw(pid)) }
}

/// A descriptor that becomes readable when a child has died.
#[expect(unsafe_code, reason = "there is no safe form of a signal descriptor")]
fn signals_of_children() -> io::Result<OwnedFd> {
    // SAFETY: the set is filled before it is used, and outlives the calls; the descriptor is new and ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}
