//! The runtime's side of an init and of a running call.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::cgroup::Cgroups;
use super::disk_limit::{POLL, Watch};
use super::spec::{
    CONTINUE, CallEnded, CallSpec, ExtraDescriptors, InitMessage, Layers, Mode, PAUSE, TERMINATE,
};
use super::{BoxedCommand, CacheShown, ExecPermit, Inner, SandboxError, Unavailable, init, wire};
use crate::process::{Capture, CapturedOutput, OutputLimits};

/// Size of a read from a pipe.
const CHUNK: usize = 64 * 1024;

/// How long an init may take to report the end of a call, once its sandbox is gone.
const OVER_MAX: Duration = Duration::from_secs(10);

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// A call that has ended: none of its processes is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    /// How the program ended.
    pub exit: Exit,
    /// The output, including standard error unless that is separate.
    pub output: CapturedOutput,
    /// The standard error, if that was captured separately.
    pub errors: Option<CapturedOutput>,
    /// Whether the kernel killed one of its processes because memory ran out.
    pub out_of_memory: bool,
    /// The disk limit of its run, if this call exceeded it.
    pub over_disk_limit: Option<u64>,
    /// How its caches were mounted, in order.
    pub caches: Vec<CacheShown>,
    /// The wall time of the call.
    pub elapsed: Duration,
}

/// An init, and its lifeline.
#[derive(Debug)]
pub(super) struct Slot {
    child: Child,
    socket: UnixStream,
    /// Removed after the init is gone.
    cgroups: Option<Cgroups>,
}

impl Slot {
    pub(super) fn spawn(inner: &Inner) -> Result<Self, SandboxError> {
        let program = inner.program()?;
        let (socket, theirs) = UnixStream::pair()?;
        // Everything it needs comes through its standard input. Without a closure before the exec and without a new
        // directory, the standard library spawns instead of forking.
        let child = Command::new(&program)
            .arg(init::VERB)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Unavailable::no_init(&program.display().to_string(), &error))?;
        let mut slot = Self { child, socket, cgroups: None };
        // Without cgroups, each process has its limits, but all together have none. With cgroups, a sandbox without
        // them would break its promise.
        let cgroups = inner.places().make(&inner.options.limits, slot.child.id());
        slot.cgroups = Some(
            cgroups.map_err(|error| Unavailable::broken("limiting it by a cgroup", &error.to_string()))?,
        );
        Ok(slot)
    }

    fn memory_kills(&self) -> u64 {
        self.cgroups.as_ref().map_or(0, Cgroups::memory_kills)
    }

    /// An init that has accepted a call: an idle one, or a new one if that has died meanwhile.
    fn taking(inner: &Inner, spec: &CallSpec, fds: &[BorrowedFd<'_>]) -> Result<Self, SandboxError> {
        let waiting = inner.waiting();
        if let Some(slot) = waiting
            && wire::send(&slot.socket, spec, fds).is_ok()
        {
            return Ok(slot);
        }
        let slot = Self::spawn(inner)?;
        match wire::send(&slot.socket, spec, fds) {
            Ok(()) => Ok(slot),
            // The new init was killed before it read the call.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Err(SandboxError::Lost)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Serves a call until none of its processes is left.
    fn run_call(
        &mut self,
        call: &UnixStream,
        mut prints: Vec<OutputPipe>,
        watch: Option<&Watch>,
    ) -> Result<(CallReports, Vec<CapturedOutput>), SandboxError> {
        let heard = listen(call, &mut prints, watch)?;
        // Little work remains for the init. If it does not finish, it is stuck.
        self.socket.set_read_timeout(Some(OVER_MAX))?;
        let Ok(Some((over, _))) = wire::receive::<CallEnded>(&self.socket) else {
            // Its call ends with it.
            let _ = self.child.kill();
            let _ = self.child.wait();
            return Err(SandboxError::Lost);
        };
        self.socket.set_read_timeout(None)?;
        // No process can write any more, so the pipes are complete.
        prints.iter_mut().try_for_each(OutputPipe::drain)?;
        if let Some(broken) = &over.broken {
            return Err(Unavailable::from_broken(broken).into());
        }
        Ok((heard, prints.into_iter().map(|print| print.capture.finish()).collect()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // It ends its call, cleans up, and exits.
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// What was received on a call's socket.
#[derive(Debug, Default)]
struct CallReports {
    caches: Vec<CacheShown>,
    ready: Option<Layers>,
    exit: Option<Exit>,
    /// Whether the call was ended because its run exceeds the disk limit.
    over_disk_limit: bool,
}

/// One stream that the programs print to.
struct OutputPipe {
    reader: OwnedFd,
    capture: Capture,
    open: bool,
    /// Notified of all output.
    heard: Arc<Notify>,
}

impl OutputPipe {
    /// A pipe for output, and the descriptor that programs write to.
    fn new(limits: OutputLimits, heard: &Arc<Notify>) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let (capture, heard) = (Capture::new(limits), heard.clone());
        Ok((Self { reader, capture, open: true, heard }, writer))
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let got = wire::retry(|| rustix::io::read(&self.reader, &mut *buffer))?;
        self.capture.take(&buffer[..got]);
        self.open = got > 0;
        if self.open {
            self.heard.notify_one();
        }
        Ok(())
    }

    /// Reads the rest without waiting for more.
    fn drain(&mut self) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.reader, true)?;
        let mut buffer = vec![0; CHUNK];
        self.open = true;
        while self.open {
            match self.take(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                taken => taken?,
            }
        }
        Ok(())
    }
}

/// Reads the programs' output and the init's messages until the call's socket closes.
fn listen(
    call: &UnixStream,
    prints: &mut [OutputPipe],
    watch: Option<&Watch>,
) -> Result<CallReports, SandboxError> {
    let mut heard = CallReports::default();
    let mut looked = Instant::now();
    let mut buffer = vec![0; CHUNK];
    loop {
        let open = prints.iter().filter(|print| print.open).map(|print| print.reader.as_fd());
        let mut fds: Vec<PollFd<'_>> = std::iter::once(call.as_fd())
            .chain(open)
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let until = watch.map(|_| rustix::time::Timespec { tv_sec: 0, tv_nsec: POLL.subsec_nanos().into() });
        wire::retry(|| poll(&mut fds, until.as_ref()))?;
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>().into_iter();
        let spoken = ready.next().unwrap_or(false);
        for (print, printed) in prints.iter_mut().filter(|print| print.open).zip(ready) {
            if printed {
                print.take(&mut buffer)?;
            }
        }
        if let Some(watch) = watch.filter(|_| looked.elapsed() >= POLL) {
            if pause_and_measure(call, watch) {
                heard.over_disk_limit = true;
                // Messages that the sandbox still sends are read all the same.
                let _ = call.shutdown(Shutdown::Both);
                return Ok(heard);
            }
            looked = Instant::now();
        }
        if spoken {
            match wire::receive::<InitMessage>(call) {
                Ok(Some((told, _))) => receive(&mut heard, told)?,
                // The sandbox is gone, or was ended from here.
                Ok(None) | Err(_) => return Ok(heard),
            }
        }
    }
}

/// Measures the files of a call's run, while the call is paused if they seem to be too many. Returns whether they exceed
/// the disk limit; if not, the call continues.
fn pause_and_measure(mut call: &UnixStream, watch: &Watch) -> bool {
    let mut is_paused = false;
    let is_over = watch.is_over(|| is_paused = call.write_all(&[PAUSE]).is_ok());
    if is_paused && !is_over {
        let _ = call.write_all(&[CONTINUE]);
    }
    is_over
}

fn receive(heard: &mut CallReports, told: InitMessage) -> Result<(), SandboxError> {
    match told {
        InitMessage::Caches(caches) => heard.caches = caches,
        InitMessage::Ready(layers) => heard.ready = Some(layers),
        InitMessage::Exited(code) => heard.exit = Some(Exit::Code(code)),
        InitMessage::Signalled(signal) => heard.exit = Some(Exit::Signal(signal)),
        InitMessage::NoProgram(problem) => return Err(SandboxError::NoProgram(problem)),
        InitMessage::Broken(broken) => return Err(Unavailable::from_broken(&broken).into()),
    }
    Ok(())
}

/// A running call. Dropping it ends it at once.
#[derive(Debug)]
pub struct RunningCall {
    control: UnixStream,
    /// Whether this process ended it.
    ended_here: Arc<AtomicBool>,
    work: JoinHandle<Result<CallEnd, SandboxError>>,
    heard: Arc<Notify>,
}

impl RunningCall {
    pub(super) fn start(
        inner: Arc<Inner>,
        turn: ExecPermit,
        command: BoxedCommand,
    ) -> Result<Self, SandboxError> {
        let (call, theirs) = UnixStream::pair()?;
        let control = call.try_clone()?;
        let ended_here = Arc::new(AtomicBool::new(false));
        let ended_by_us = ended_here.clone();
        let heard = Arc::new(Notify::new());
        let listening = heard.clone();
        let work = tokio::task::spawn_blocking(move || {
            let ended = start_call(&inner, &command, &call, theirs, &ended_by_us, &listening);
            // The next call gets its permit only now that no process of this one is left.
            drop(turn);
            ended
        });
        Ok(Self { control, ended_here, work, heard })
    }

    /// Asks its programs to end. Those that do not are killed after a while.
    pub fn terminate(&self) {
        let _ = (&self.control).write_all(&[TERMINATE]);
    }

    /// Kills its programs at once.
    pub fn kill(&self) {
        self.ended_here.store(true, Ordering::SeqCst);
        let _ = self.control.shutdown(Shutdown::Both);
    }

    /// Notified of all its output.
    pub fn prints(&self) -> Arc<Notify> {
        self.heard.clone()
    }

    /// Waits until none of its processes is left. Can be dropped and called again.
    pub async fn ended(&mut self) -> Result<CallEnd, SandboxError> {
        (&mut self.work).await.unwrap_or(Err(SandboxError::Lost))
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_call(
    inner: &Inner,
    command: &BoxedCommand,
    call: &UnixStream,
    theirs: UnixStream,
    ended_here: &AtomicBool,
    heard: &Arc<Notify>,
) -> Result<CallEnd, SandboxError> {
    let began = Instant::now();
    let mut spec = inner.spec(command)?;
    let mut watch = command.disk_limit.as_ref().map(Watch::begin);
    if let Some(watch) = &watch {
        spec.limits.file_bytes = spec.limits.file_bytes.min(watch.file_bytes);
    }
    let input = command.input.as_deref().map(readable).transpose()?;
    let (output, printed) = OutputPipe::new(command.output.clone(), heard)?;
    let errors = command.errors.clone().map(|limits| OutputPipe::new(limits, heard)).transpose()?;
    let (errors, complained) = errors.unzip();
    // The mount is consumed: it belongs to the sandbox, and ends with it.
    let mounted = command.mount.as_ref().map(|mount| mount.clone_for_call()).transpose()?;
    let fds: Vec<BorrowedFd<'_>> = [theirs.as_fd(), printed.as_fd()]
        .into_iter()
        .chain([&input, &complained, &mounted].into_iter().flatten().map(AsFd::as_fd))
        .collect();
    let mut slot = Slot::taking(inner, &spec, &fds)?;
    drop((theirs, printed, input, complained, mounted));
    if let Some(watch) = &mut watch {
        watch.held_by(Pid::from_child(&slot.child));
    }
    let kills = slot.memory_kills();
    let prints = std::iter::once(output).chain(errors).collect();
    let carried = slot.run_call(call, prints, watch.as_ref());
    let out_of_memory = slot.memory_kills() > kills;
    match &carried {
        // The init is intact: it reports a call that cannot be run.
        Ok(_) => inner.keep(slot),
        Err(_) => drop(slot),
    }
    let (heard, printed) = carried?;
    let mut printed = printed.into_iter();
    let output = printed.next().ok_or(SandboxError::Lost)?;
    let errors = printed.next();
    let is_over = heard.over_disk_limit || watch.as_ref().is_some_and(Watch::is_over_at_the_end);
    let is_over = is_over
        || heard.exit.is_some_and(|exit| {
            watch.as_ref().is_some_and(|watch| watch.explains(exit, &inner.options.limits))
        });
    let over_disk_limit = watch.as_ref().filter(|_| is_over).map(Watch::max_bytes);
    // Without a report, the first process was killed: by this process, or with all others when memory ran out.
    // Otherwise it was killed or blocked from outside, and it is unknown whether the program ever ran.
    let is_explained = over_disk_limit.is_some() || out_of_memory || ended_here.load(Ordering::SeqCst);
    let lost = if heard.ready.is_some() { SandboxError::BroughtDown } else { SandboxError::Lost };
    let exit = heard.exit.or(is_explained.then_some(Exit::Signal(libc::SIGKILL))).ok_or(lost)?;
    let elapsed = began.elapsed();
    Ok(CallEnd { exit, output, errors, out_of_memory, over_disk_limit, caches: heard.caches, elapsed })
}

/// A read-only descriptor with this content. It is in memory, so no process has to write while it is read.
fn readable(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("posse-input", flags)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    // It is open for writing and can be opened again by its name. Only a seal keeps its content unchanged.
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// How often an empty sandbox that was lost is created again.
const PROOF_TRIES_MAX: u32 = 3;

/// Creates an empty sandbox. An init that another process kills proves nothing about this machine, so a lost sandbox is
/// created again; [`SandboxError::Lost`] means that each of several was lost.
pub(super) fn prove(inner: &Inner, mode: Mode) -> Result<Layers, SandboxError> {
    let empty_box = || -> Result<Option<Layers>, SandboxError> {
        let view = inner.view();
        let spec = CallSpec {
            mode,
            argv: Vec::new(),
            env: Vec::new(),
            // Any existing directory; nothing happens in it.
            workspace: "/tmp".to_owned(),
            shown_as: "/tmp".to_owned(),
            workdir: "/".to_owned(),
            network: false,
            read: view.read.clone(),
            as_others: view.as_others.clone(),
            links: view.links.clone(),
            hidden: view.hidden.clone(),
            scratch: view.scratch.clone(),
            shown: Vec::new(),
            protected: Vec::new(),
            changes: None,
            caches: Vec::new(),
            limits: inner.options.limits,
            record: None,
            read_only: false,
            further: ExtraDescriptors::default(),
        };
        let (call, theirs) = UnixStream::pair()?;
        let output = OutputLimits { head_bytes: 0, tail_bytes: 0, spill: None, spill_bytes: 0 };
        let (print, printed) = OutputPipe::new(output, &Arc::default())?;
        let mut slot = Slot::taking(inner, &spec, &[theirs.as_fd(), printed.as_fd()])?;
        drop((theirs, printed));
        let (heard, ..) = slot.run_call(&call, vec![print], None)?;
        inner.keep(slot);
        Ok(heard.ready)
    };
    let mut proven = empty_box();
    for _ in 1..PROOF_TRIES_MAX {
        if !matches!(proven, Ok(None) | Err(SandboxError::Lost)) {
            break;
        }
        proven = empty_box();
    }
    proven?.ok_or(SandboxError::Lost)
}
