//! The runtime's side of an init, and of a call that it carries out.

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
    CONTINUE, CallEnded, CallSpec, ExtraStreams, InitMessage, Layers, Mode, PAUSE, ProtectedChange, TERMINATE,
};
use super::{BoxedCommand, CacheShown, ExecPermit, Inner, Isolation, SandboxError, Unavailable, init, wire};
use crate::process::{Capture, CapturedOutput, OutputLimits};

/// How much is taken from a pipe at once.
const CHUNK: usize = 64 * 1024;

/// How long an init may take to say that a call is over, once its box is gone.
const OVER_MAX: Duration = Duration::from_secs(10);

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// A call that is over: nothing of it is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallEnd {
    /// How its program ended.
    pub exit: Exit,
    /// What was printed.
    pub output: CapturedOutput,
    /// What was printed on its standard error, if that was kept apart.
    pub errors: Option<CapturedOutput>,
    /// Whether the kernel ended a process of it because memory ran out.
    pub out_of_memory: bool,
    /// How many bytes the files of its run may take on disk, if they take more since this call.
    pub over_disk_limit: Option<u64>,
    /// What it made in the workspace under protected names.
    pub refused: Vec<ProtectedChange>,
    /// How its caches appeared, in their order.
    pub caches: Vec<CacheShown>,
    /// How long it took.
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
        // Everything it needs comes by its standard input. No closure before the exec, no new directory: only then
        // does the standard library spawn instead of forking.
        let child = Command::new(&program)
            .arg(init::VERB)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| Unavailable::no_init(&program.display().to_string(), &error))?;
        let mut slot = Self { child, socket, cgroups: None };
        // Where there are none, each process has its limits, and all together have none. Where there are, a box without
        // them would be less than it says.
        let cgroups = inner.places().make(&inner.options.limits, slot.child.id());
        slot.cgroups = Some(
            cgroups.map_err(|error| Unavailable::broken("limiting it by a cgroup", &error.to_string()))?,
        );
        Ok(slot)
    }

    fn memory_kills(&self) -> u64 {
        self.cgroups.as_ref().map_or(0, Cgroups::memory_kills)
    }

    /// An init that has taken a call over: one that waits, or a new one if that has died meanwhile.
    fn taking(inner: &Inner, spec: &CallSpec, fds: &[BorrowedFd<'_>]) -> Result<Self, SandboxError> {
        let waiting = inner.waiting();
        if let Some(slot) = waiting
            && wire::send(&slot.socket, spec, fds).is_ok()
        {
            return Ok(slot);
        }
        let slot = Self::spawn(inner)?;
        wire::send(&slot.socket, spec, fds)?;
        Ok(slot)
    }

    /// Listens to a call until nothing of it is left.
    fn run_call(
        &mut self,
        spec: &CallSpec,
        call: &UnixStream,
        mut prints: Vec<OutputPipe>,
        watch: Option<&Watch>,
    ) -> Result<(CallReports, CallEnded, Vec<CapturedOutput>), SandboxError> {
        let heard = listen(call, &mut prints, watch)?;
        // From here on there is little left to do; an init that does not get it done is stuck.
        self.socket.set_read_timeout(Some(OVER_MAX))?;
        let Ok(Some((over, _))) = wire::receive::<CallEnded>(&self.socket) else {
            // What it carried goes with it.
            let _ = self.child.kill();
            let _ = self.child.wait();
            init::close_for(&spec.workspace, &heard.missing);
            return Err(SandboxError::Lost);
        };
        self.socket.set_read_timeout(None)?;
        // Nobody is left who could write: what is in the pipes is all there is.
        prints.iter_mut().try_for_each(OutputPipe::drain)?;
        if let Some(broken) = &over.broken {
            return Err(Unavailable::from_broken(broken).into());
        }
        Ok((heard, over, prints.into_iter().map(|print| print.capture.finish()).collect()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // It ends what it carries, tidies up, and goes.
        let _ = self.socket.shutdown(Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// What was heard on a call's socket.
#[derive(Debug, Default)]
struct CallReports {
    missing: Vec<String>,
    caches: Vec<CacheShown>,
    ready: Option<Layers>,
    exit: Option<Exit>,
    /// Whether it was ended because its run takes too much on disk.
    over_disk_limit: bool,
}

/// One stream that the programs print to.
struct OutputPipe {
    reader: OwnedFd,
    capture: Capture,
    open: bool,
    /// Told of everything that is printed.
    heard: Arc<Notify>,
}

impl OutputPipe {
    /// What is printed to the descriptor that is returned as well.
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

    /// Takes what is left without waiting for more.
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

/// Reads what the programs print and what the init says, until the call's socket closes.
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
            if is_over(call, watch) {
                heard.over_disk_limit = true;
                // What the box still says is heard all the same.
                let _ = call.shutdown(Shutdown::Both);
                return Ok(heard);
            }
            looked = Instant::now();
        }
        if spoken {
            match wire::receive::<InitMessage>(call) {
                Ok(Some((told, _))) => receive(&mut heard, told)?,
                // The box is gone, or was ended from here.
                Ok(None) | Err(_) => return Ok(heard),
            }
        }
    }
}

/// Whether a call's run takes too much on disk. While all files are looked at, nothing is written.
fn is_over(mut call: &UnixStream, watch: &Watch) -> bool {
    let mut is_paused = false;
    let is_over = watch.is_over(|| is_paused = call.write_all(&[PAUSE]).is_ok());
    if is_paused && !is_over {
        let _ = call.write_all(&[CONTINUE]);
    }
    is_over
}

fn receive(heard: &mut CallReports, told: InitMessage) -> Result<(), SandboxError> {
    match told {
        InitMessage::Missing(names) => heard.missing = names,
        InitMessage::Caches(caches) => heard.caches = caches,
        InitMessage::Ready(layers) => heard.ready = Some(layers),
        InitMessage::Exited(code) => heard.exit = Some(Exit::Code(code)),
        InitMessage::Signalled(signal) => heard.exit = Some(Exit::Signal(signal)),
        InitMessage::NoProgram(problem) => return Err(SandboxError::NoProgram(problem)),
        InitMessage::Broken(broken) => return Err(Unavailable::from_broken(&broken).into()),
    }
    Ok(())
}

/// A call that is running. Dropping it ends it at once.
#[derive(Debug)]
pub struct RunningCall {
    control: UnixStream,
    /// Whether it was ended from here.
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
            // Whoever waits has the next turn only now that nothing of this call is left.
            drop(turn);
            ended
        });
        Ok(Self { control, ended_here, work, heard })
    }

    /// Asks its programs to end; those that do not are ended after a while.
    pub fn terminate(&self) {
        let _ = (&self.control).write_all(&[TERMINATE]);
    }

    /// Ends its programs at once.
    pub fn kill(&self) {
        self.ended_here.store(true, Ordering::SeqCst);
        let _ = self.control.shutdown(Shutdown::Both);
    }

    /// What is told of everything that it prints.
    pub fn prints(&self) -> Arc<Notify> {
        self.heard.clone()
    }

    /// Waits until nothing of it is left. Can be dropped and called again.
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
    let fds: Vec<BorrowedFd<'_>> = [theirs.as_fd(), printed.as_fd()]
        .into_iter()
        .chain([&input, &complained].into_iter().flatten().map(AsFd::as_fd))
        .collect();
    let mut slot = Slot::taking(inner, &spec, &fds)?;
    drop((theirs, printed, input, complained));
    if let Some(watch) = &mut watch {
        watch.held_by(Pid::from_child(&slot.child));
    }
    let kills = slot.memory_kills();
    let prints = std::iter::once(output).chain(errors).collect();
    let carried = slot.run_call(&spec, call, prints, watch.as_ref());
    let out_of_memory = slot.memory_kills() > kills;
    match &carried {
        // The init is as it was: it tells when a call cannot be carried out.
        Ok(_) => inner.keep(slot),
        Err(_) => drop(slot),
    }
    let (heard, over, printed) = carried?;
    let mut printed = printed.into_iter();
    let output = printed.next().ok_or(SandboxError::Lost)?;
    let errors = printed.next();
    let is_over = heard.over_disk_limit || watch.as_ref().is_some_and(Watch::is_over_at_the_end);
    let is_over = is_over
        || heard.exit.is_some_and(|exit| {
            watch.as_ref().is_some_and(|watch| watch.explains(exit, &inner.options.limits))
        });
    let over_disk_limit = watch.as_ref().filter(|_| is_over).map(Watch::max_bytes);
    // Without a word from it, the first process was ended: by us, or with all the others when memory ran out. Otherwise
    // it was killed or kept from its work, and nobody knows whether the program ever ran.
    let is_explained = over_disk_limit.is_some() || out_of_memory || ended_here.load(Ordering::SeqCst);
    let lost = if heard.ready.is_some() { SandboxError::BroughtDown } else { SandboxError::Lost };
    let exit = heard.exit.or(is_explained.then_some(Exit::Signal(libc::SIGKILL))).ok_or(lost)?;
    let elapsed = began.elapsed();
    let (refused, caches) = (over.refused, heard.caches);
    Ok(CallEnd { exit, output, errors, out_of_memory, over_disk_limit, refused, caches, elapsed })
}

/// A descriptor from which this can be read, and nothing else. It is in memory: nobody has to write while it is read.
fn readable(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("posse-input", flags)?);
    file.write_all(bytes)?;
    file.seek(SeekFrom::Start(0))?;
    // It is open for writing, and can be opened once more by its name: only a seal keeps what it says as it is.
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// Makes a box with nothing in it.
pub(super) fn prove(inner: &Inner, mode: Mode) -> Result<Layers, Unavailable> {
    let empty_box = || -> Result<Option<Layers>, SandboxError> {
        let view = inner.view();
        let spec = CallSpec {
            mode,
            argv: Vec::new(),
            env: Vec::new(),
            // Any directory that is there; nothing happens in it.
            workspace: "/tmp".to_owned(),
            shown_as: "/tmp".to_owned(),
            isolation: Isolation::Own,
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
            further: ExtraStreams::default(),
        };
        let (call, theirs) = UnixStream::pair()?;
        let output = OutputLimits { head_bytes: 0, tail_bytes: 0, spill: None, spill_bytes: 0 };
        let (print, printed) = OutputPipe::new(output, &Arc::default())?;
        let mut slot = Slot::taking(inner, &spec, &[theirs.as_fd(), printed.as_fd()])?;
        drop((theirs, printed));
        let (heard, ..) = slot.run_call(&spec, &call, vec![print], None)?;
        inner.keep(slot);
        Ok(heard.ready)
    };
    match empty_box() {
        Ok(Some(layers)) => Ok(layers),
        Ok(None) => Err(Unavailable::broken("making a sandbox", "its first process ended without a word")),
        Err(SandboxError::Unavailable(unavailable)) => Err(unavailable),
        Err(error) => Err(Unavailable::broken("making a sandbox", &error.to_string())),
    }
}
