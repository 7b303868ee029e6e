//! Wakes the watchers of runs, in this process and in others.
//!
//! Within the process the writer notifies [`Watchers`] as soon as a group is durable. For other processes it triggers
//! the [`WakeSignal`]: it writes to a small file that they watch by inotify. (The WAL itself would be too early: it is
//! written before the sync, and no file changes when the commit becomes visible after it.) The signal wakes a
//! [`Lookout`] thread, which waits a moment so that many wake-ups cause one read, and reads the heads of the watched
//! runs.
//!
//! Why it is like this: `docs/decisions/store-wake-up.md`.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use posse_engine::ports::{Pulse, RunKey};
use rusqlite::Connection;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify;
use tokio::sync::watch;

use super::context::Context;
use super::{connect, files, query};

/// Minimum time between two reads: a busy writer signals hundreds of times a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// The lookout rests this many times as long as a read takes, so that many watched runs cost little.
const REST_PER_LOOK: u32 = 20;
/// Limit of that rest, because other processes must be woken within 100 ms.
const REST_MAX: Duration = Duration::from_millis(50);
/// How often the lookout reads without a signal.
const SLOW_POLL: Duration = Duration::from_secs(1);
/// How often the lookout reads where inotify is not available.
const DEAF_POLL: Duration = Duration::from_millis(50);

/// Signals to other processes that a commit is durable.
#[derive(Debug)]
pub(super) struct WakeSignal(File);

impl WakeSignal {
    pub(super) fn open(context: &Context) -> io::Result<Self> {
        files::open(&context.paths.wake).map(Self)
    }

    /// Touches the file. If that fails, other processes only notice later.
    pub(super) fn ring(&self) {
        if let Err(error) = self.0.write_at(b"!", 0) {
            tracing::debug!(%error, "other processes could not be woken");
        }
    }
}

/// The receivers of this process, by run.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    entries: Mutex<HashMap<RunKey, watch::Sender<Pulse>>>,
    /// Number of entries, so that a writer without watchers pays for one load only.
    count: AtomicUsize,
}

impl Watchers {
    fn entries(&self) -> MutexGuard<'_, HashMap<RunKey, watch::Sender<Pulse>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A receiver for one run. Its first value may be empty, because the journal is authoritative.
    pub(super) fn subscribe(&self, key: &RunKey) -> watch::Receiver<Pulse> {
        let mut entries = self.entries();
        let receiver =
            entries.entry(key.clone()).or_insert_with(|| watch::Sender::new(Pulse::default())).subscribe();
        self.count.store(entries.len(), Ordering::Release);
        receiver
    }

    /// Notifies the receivers of each run.
    pub(super) fn announce<'k>(&self, pulses: impl Iterator<Item = (&'k RunKey, Pulse)>) {
        if self.is_empty() {
            return;
        }
        let entries = self.entries();
        for (key, pulse) in pulses {
            if let Some(sender) = entries.get(key) {
                raise(sender, pulse);
            }
        }
    }

    /// The runs that still have watchers. Entries of other runs are removed.
    fn live(&self) -> Vec<RunKey> {
        let mut entries = self.entries();
        entries.retain(|_, sender| sender.receiver_count() > 0);
        self.count.store(entries.len(), Ordering::Release);
        entries.keys().cloned().collect()
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

/// Both numbers only grow, in whatever order they arrive.
fn raise(sender: &watch::Sender<Pulse>, pulse: Pulse) {
    sender.send_if_modified(|known| {
        let raised = Pulse { head: known.head.max(pulse.head), messages: known.messages.max(pulse.messages) };
        let changed = raised != *known;
        *known = raised;
        changed
    });
}

/// The thread that notices commits of other processes.
#[derive(Debug)]
pub(super) struct Lookout {
    signal: Arc<Signal>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread from within the process.
#[derive(Debug)]
struct Signal {
    event: OwnedFd,
    stop: AtomicBool,
}

impl Lookout {
    pub(super) fn start(context: Arc<Context>, watchers: Arc<Watchers>) -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let signal = Arc::new(Signal { event, stop: AtomicBool::new(false) });
        let ears = listen(&context);
        let watch = Watch { context, watchers, signal: signal.clone(), ears, connection: None, seen: None };
        let thread =
            std::thread::Builder::new().name("posse-lookout".to_owned()).spawn(move || watch.run())?;
        Ok(Self { signal, thread: Some(thread) })
    }

    /// Makes the lookout read now, because there is a new watcher.
    pub(super) fn check_now(&self) {
        let _ = rustix::io::write(&self.signal.event, &1_u64.to_ne_bytes());
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.signal.stop.store(true, Ordering::Release);
        self.check_now();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Watches the wake file with inotify. `None` if the system has no inotify instance left.
fn listen(context: &Context) -> Option<OwnedFd> {
    let ears = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    inotify::add_watch(&ears, &context.paths.wake, inotify::WatchFlags::MODIFY).ok()?;
    Some(ears)
}

/// Sleeps until a source is readable, at most for `pause`. Waking up too early only costs a read.
fn sleep(sources: &mut [PollFd<'_>], pause: Option<Duration>) {
    let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
    let _ = poll(sources, pause.as_ref());
}

/// The lookout thread's state.
struct Watch {
    context: Arc<Context>,
    watchers: Arc<Watchers>,
    signal: Arc<Signal>,
    ears: Option<OwnedFd>,
    connection: Option<Connection>,
    /// SQLite's count of changes by other connections at the last read.
    seen: Option<i64>,
}

impl Watch {
    fn run(mut self) {
        let mut rest = Duration::ZERO;
        let mut last_look = Instant::now();
        loop {
            let called = self.wait() || self.rest(rest.saturating_sub(last_look.elapsed()));
            // Drained before the stop flag is read: a signal after this ends the next wait.
            self.drain();
            if self.signal.stop.load(Ordering::Acquire) {
                return;
            }
            last_look = Instant::now();
            self.check(called);
            rest = (last_look.elapsed() * REST_PER_LOOK).clamp(LOOK_INTERVAL, REST_MAX);
        }
    }

    /// Sleeps until a source is readable. Returns true if this process signalled.
    fn wait(&self) -> bool {
        let pause = if self.ears.is_some() { SLOW_POLL } else { DEAF_POLL };
        let mut sources = vec![PollFd::new(&self.signal.event, PollFlags::IN)];
        sources.extend(self.ears.iter().map(|ears| PollFd::new(ears, PollFlags::IN)));
        sleep(&mut sources, (!self.watchers.is_empty()).then_some(pause));
        !sources[0].revents().is_empty()
    }

    /// Lets wake-ups gather for `pause`. Returns true if this process signalled meanwhile.
    fn rest(&self, pause: Duration) -> bool {
        let mut sources = [PollFd::new(&self.signal.event, PollFlags::IN)];
        sleep(&mut sources, Some(pause));
        !sources[0].revents().is_empty()
    }

    fn drain(&self) {
        let mut count = [0_u8; 8];
        let _ = rustix::io::read(&self.signal.event, &mut count);
        let Some(ears) = &self.ears else { return };
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(ears, &mut buffer);
        while reader.next().is_ok() {}
    }

    /// Reads the heads of the watched runs. If a read fails, the next read makes up for it.
    fn check(&mut self, called: bool) {
        if let Err(error) = self.try_check(called) {
            tracing::debug!(%error, "the heads of watched runs could not be read");
            self.connection = None;
        }
    }

    fn try_check(&mut self, called: bool) -> Result<(), Box<dyn std::error::Error>> {
        let keys = self.watchers.live();
        if keys.is_empty() {
            return Ok(());
        }
        let path = &self.context.paths.database;
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect::reader(path)?,
        };
        let connection = self.connection.insert(connection);
        let version = connection.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if self.seen.replace(version) == Some(version) && !called {
            return Ok(());
        }
        for key in &keys {
            if let Some(pulse) = query::pulse(connection, key)? {
                self.watchers.announce(std::iter::once((key, pulse)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;
    use posse_engine::ports::TenantId;

    use super::*;

    fn key(bits: u64) -> RunKey {
        RunKey { tenant: TenantId::local(), run: RunId::from_random(bits) }
    }

    #[test]
    fn pulses_only_grow() {
        let watchers = Watchers::default();
        let mut receiver = watchers.subscribe(&key(1));
        let tell = |head, messages| watchers.announce([(&key(1), Pulse { head, messages })].into_iter());
        tell(5, 1);
        tell(3, 2);
        assert_eq!(*receiver.borrow_and_update(), Pulse { head: 5, messages: 2 });
        tell(5, 2);
        assert!(!receiver.has_changed().unwrap(), "no news is no wake-up");
    }

    /// A stop right after another signal must not be mistaken for that signal.
    #[test]
    fn a_lookout_stops_whatever_it_was_called_for_just_before() {
        let dir = tempfile::tempdir().unwrap();
        let opened = super::super::open::open(dir.path(), super::super::options::SqliteOptions::default());
        let context = opened.unwrap().context;
        for _ in 0..2_000 {
            let lookout = Lookout::start(context.clone(), Arc::default()).unwrap();
            lookout.check_now();
            drop(lookout);
        }
    }

    #[test]
    fn who_left_is_forgotten() {
        let watchers = Watchers::default();
        let stays = watchers.subscribe(&key(1));
        drop(watchers.subscribe(&key(2)));
        assert_eq!(watchers.live(), [key(1)]);
        drop(stays);
        assert!(watchers.live().is_empty());
        assert!(watchers.is_empty());
    }
}
