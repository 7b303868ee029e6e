//! Measures how fast and how evenly the SQLite store appends. Prints one JSON object.
//!
//! `append <dir> [seconds]` measures in a new folder beneath `dir`: events per second of 64 agents in one process, the
//! longest wait of any append with four processes on one database, and the delay until a subscriber is notified of an
//! event, beside the time of a bare sync on the same disk.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use posse_domain::event::{EncodedEvent, FinalStatus};
use posse_domain::id::RunId;
use posse_domain::lifecycle::{AgentState, CloseReason, RunStatus};
use posse_engine::ports::{
    AgentRow, AgentTerms, Basis, Commit, READ_MAX_EVENTS, RunKey, RunRow, Store, TenantId,
};
use posse_store::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

/// Agents that commit at the same time.
const AGENTS: usize = 64;
const PAYLOAD_BYTES: usize = 400;
const PROCESSES: usize = 4;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or("usage: append <dir> [seconds]")?);
    let seconds = args.next().map_or(Ok(3.0), |text| text.parse())?;
    let time = Duration::from_secs_f64(seconds);
    if let Some(number) = args.next() {
        return one_of_several(&dir, number.parse()?, time).await;
    }
    let root = dir.join(format!("append-{}", std::process::id()));
    fs::create_dir_all(&root)?;
    let sync = bare_sync(&root)?;
    let mut one_process = Vec::new();
    for (runs, events) in [(1, 1), (1, 3), (AGENTS, 1), (AGENTS, 3)] {
        one_process.push(throughput(&root.join(format!("one-{runs}-{events}")), runs, events, time).await?);
    }
    let children = children(&root.join("children"), time).await?;
    let several = several_processes(&root.join("several"), seconds)?;
    let hearing = hearing(&root.join("hearing"), 200).await?;
    let reopening = reopening(&root.join("reopening"), 100_000).await?;
    let report = json!({
        "bare_sync_ms": sync,
        "one_process": one_process,
        "children": children,
        "four_processes": several,
        "subscriber": hearing,
        "reopening": reopening,
    });
    println!("{report:#}");
    fs::remove_dir_all(root)?;
    Ok(())
}

/// The median time of writing and syncing forty pages repeatedly, in milliseconds.
fn bare_sync(root: &Path) -> Result<Value, Failure> {
    let file = File::create(root.join("sync"))?;
    let pages = vec![7_u8; 160 * 1024];
    let mut times = Vec::new();
    for _ in 0..100 {
        file.write_all_at(&pages, 0)?;
        let started = Instant::now();
        file.sync_data()?;
        times.push(started.elapsed());
    }
    Ok(spread(&mut times))
}

/// Appends three pages, about the size of a small commit, and returns the time of the write and the sync.
fn append_and_sync(file: &File, round: u64) -> Result<Duration, Failure> {
    const BYTES: usize = 3 * 4_096;
    let started = Instant::now();
    file.write_all_at(&[7; BYTES], round * BYTES as u64)?;
    file.sync_all()?;
    Ok(started.elapsed())
}

fn spread(times: &mut [Duration]) -> Value {
    times.sort_unstable();
    let at = |part: f64| {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let place = ((times.len() as f64 - 1.0) * part) as usize;
        millis(times[place])
    };
    json!({"p50": at(0.5), "p99": at(0.99), "max": at(1.0), "count": times.len()})
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

/// A run that several agents write to. Like in the engine, the next commit is submitted before the previous one is
/// durable.
struct Journal {
    store: Arc<SqliteStore>,
    key: RunKey,
    head: Mutex<u64>,
}

impl Journal {
    async fn start(store: Arc<SqliteStore>, number: u64) -> Result<Self, Failure> {
        let key = RunKey { tenant: TenantId::local(), run: RunId::from_random(number) };
        let row = RunRow {
            status: RunStatus::Running,
            title: "append".to_owned(),
            definition: "coder".to_owned(),
            model: "scripted/none".to_owned(),
            dir: "/".to_owned(),
            session_id: None,
            created_at_ms: 0,
            ended_at_ms: None,
        };
        store.commit(Commit { run: Some(row), ..commit(&key, Basis::New, 1) }).await?;
        Ok(Self { store, key, head: Mutex::new(1) })
    }

    async fn append(&self, events: u64) -> Result<(), Failure> {
        self.append_with(events, Vec::new()).await
    }

    async fn append_with(&self, events: u64, agents: Vec<AgentRow>) -> Result<(), Failure> {
        let committed = {
            let mut head = self.head.lock().map_err(|_| "an appender panicked")?;
            let basis = Basis::Held { head: *head, epoch: 1 };
            *head += events;
            self.store.commit(Commit { agents, ..commit(&self.key, basis, events) })
        };
        committed.await?;
        Ok(())
    }

    /// The commits of one child of two turns.
    async fn child(&self, number: u32) -> Result<(), Failure> {
        let root = self.key.run.root();
        let terms = AgentTerms {
            parent: Some(root.clone()),
            parent_message_id: Some("m1".to_owned()),
            depth: 1,
            definition: "explore".to_owned(),
            contract_json: "c".repeat(1_500),
            permissions_json: "p".repeat(500),
            created_at_ms: 1,
        };
        let row = |state: AgentState, terms: Option<AgentTerms>| AgentRow {
            id: root.child(number),
            terms,
            state,
            final_status: (state == AgentState::Closed).then_some(FinalStatus::Completed),
            close_reason: (state == AgentState::Closed).then_some(CloseReason::Integrated),
            result: (state == AgentState::Closed).then(|| "r".repeat(PAYLOAD_BYTES)),
            error: None,
            usage_json: "u".repeat(100),
            subtree_usage_json: "u".repeat(100),
            completed_at_ms: None,
            events_in_force: Some(Vec::new()),
        };
        self.append_with(3, vec![row(AgentState::Running, Some(terms))]).await?;
        self.append_with(3, vec![row(AgentState::Running, None)]).await?;
        self.append_with(2, vec![row(AgentState::Running, None)]).await?;
        self.append_with(4, vec![row(AgentState::Closed, None)]).await
    }
}

fn commit(key: &RunKey, basis: Basis, events: u64) -> Commit {
    let event = || EncodedEvent {
        agent: key.run.root(),
        kind: "agent.model_called",
        at_ms: 1,
        version: 1,
        payload: "p".repeat(PAYLOAD_BYTES),
    };
    let events = (0..events).map(|_| event()).collect();
    let (blobs, agents) = (Vec::new(), Vec::new());
    Commit { key: key.clone(), basis, events, blobs, agents, run: None, mail_taken: None }
}

/// Appends from [`AGENTS`] tasks, spread over `runs` runs, until `time` is over. Returns the wait of every append.
async fn append_all(
    store: &Arc<SqliteStore>,
    first_run: u64,
    runs: usize,
    events: u64,
    time: Duration,
) -> Result<Vec<Duration>, Failure> {
    let mut journals = Vec::new();
    for number in 0..runs as u64 {
        journals.push(Arc::new(Journal::start(store.clone(), first_run + number).await?));
    }
    let end = Instant::now() + time;
    let mut tasks = Vec::new();
    for agent in 0..AGENTS {
        let journal = journals[agent % runs].clone();
        tasks.push(tokio::spawn(async move {
            let mut waits = Vec::new();
            while Instant::now() < end {
                let started = Instant::now();
                journal.append(events).await?;
                waits.push(started.elapsed());
            }
            Ok::<_, Failure>(waits)
        }));
    }
    let mut waits = Vec::new();
    for task in tasks {
        waits.extend(task.await??);
    }
    Ok(waits)
}

#[allow(clippy::cast_precision_loss)]
async fn throughput(dir: &Path, runs: usize, events: u64, time: Duration) -> Result<Value, Failure> {
    let store = Arc::new(SqliteStore::open(dir, SqliteOptions::default())?);
    let (started, cpu) = (Instant::now(), writer_cpu());
    let mut waits = append_all(&store, 1, runs, events, time).await?;
    let (elapsed, cpu) = (started.elapsed(), writer_cpu().saturating_sub(cpu));
    let total = waits.len() as u64 * events;
    Ok(json!({
        "agents": AGENTS,
        "runs": runs,
        "events_per_commit": events,
        "events_per_second": (total as f64 / elapsed.as_secs_f64()).round(),
        "writer_cpu_us_per_event": (cpu.as_secs_f64() * 1e8 / total as f64).round() / 1e2,
        "wait_ms": spread(&mut waits),
    }))
}

/// Children of two turns each: twelve events in four commits, with their rows in the tables of current state.
#[allow(clippy::cast_precision_loss)]
async fn children(dir: &Path, time: Duration) -> Result<Value, Failure> {
    let store = Arc::new(SqliteStore::open(dir, SqliteOptions::default())?);
    let journal = Arc::new(Journal::start(store, 1).await?);
    let (started, cpu) = (Instant::now(), writer_cpu());
    let numbers = Arc::new(AtomicU32::new(1));
    let tasks: Vec<_> = (0..AGENTS)
        .map(|_| {
            let (journal, numbers) = (journal.clone(), numbers.clone());
            tokio::spawn(async move {
                while started.elapsed() < time {
                    journal.child(numbers.fetch_add(1, Ordering::Relaxed)).await?;
                }
                Ok::<_, Failure>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let (elapsed, cpu) = (started.elapsed(), writer_cpu().saturating_sub(cpu));
    let total = f64::from(numbers.load(Ordering::Relaxed) - 1);
    Ok(json!({
        "at_once": AGENTS,
        "children": total,
        "wall_ms_per_child": (elapsed.as_secs_f64() * 1e6 / total).round() / 1e3,
        "writer_cpu_us_per_child": (cpu.as_secs_f64() * 1e7 / total).round() / 1e1,
        "writer_cpu_us_per_event": (cpu.as_secs_f64() * 1e8 / total / 12.0).round() / 1e2,
    }))
}

/// Processor time of the writer thread so far.
fn writer_cpu() -> Duration {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let is_writer = |path: &PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "posse-writer")
    };
    let nanos = |path: PathBuf| -> Option<u64> {
        fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let writers = tasks.flatten().map(|task| task.path()).filter(is_writer);
    Duration::from_nanos(writers.filter_map(nanos).sum())
}

/// Four processes that append as fast as they can.
fn several_processes(dir: &Path, seconds: f64) -> Result<Value, Failure> {
    drop(SqliteStore::open(dir, SqliteOptions::default())?);
    let start = |number: usize| -> Result<Child, Failure> {
        let exe = std::env::current_exe()?;
        let args = [dir.display().to_string(), seconds.to_string(), number.to_string()];
        Ok(Command::new(exe).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
    };
    let mut children = (0..PROCESSES).map(start).collect::<Result<Vec<_>, _>>()?;
    // All start at once, when the last of them is ready.
    let mut lines = Vec::new();
    for child in &mut children {
        let mut reader = BufReader::new(child.stdout.take().ok_or("no output")?);
        reader.read_line(&mut String::new())?;
        lines.push(reader);
    }
    for child in &mut children {
        writeln!(child.stdin.as_mut().ok_or("no input")?, "go")?;
    }
    let mut processes = Vec::new();
    for (child, reader) in children.iter_mut().zip(&mut lines) {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        processes.push(serde_json::from_str::<Value>(&line)?);
        child.wait()?;
    }
    let longest =
        processes.iter().filter_map(|process| process["wait_ms"]["max"].as_f64()).fold(0.0, f64::max);
    Ok(json!({"agents": AGENTS, "longest_wait_ms": longest, "processes": processes}))
}

#[allow(clippy::cast_precision_loss)]
async fn one_of_several(dir: &Path, number: u64, time: Duration) -> Result<(), Failure> {
    let store = Arc::new(SqliteStore::open(dir, SqliteOptions::default())?);
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let mut waits = append_all(&store, 1_000 * (number + 1), 1, 1, time).await?;
    let per_second = (waits.len() as f64 / time.as_secs_f64()).round();
    println!("{}", json!({"events_per_second": per_second, "wait_ms": spread(&mut waits)}));
    Ok(())
}

/// The delay between the call of a commit and the notification of a subscriber in the same process and in another.
async fn hearing(dir: &Path, rounds: usize) -> Result<Value, Failure> {
    let store = Arc::new(SqliteStore::open(dir, SqliteOptions::default())?);
    let journal = Arc::new(Journal::start(store.clone(), 1).await?);
    // A second store in this process is notified in the same way as a store in another process.
    let other = SqliteStore::open(dir, SqliteOptions::default())?;
    let (mut here, mut there) = (store.watch(&journal.key), other.watch(&journal.key));
    let (mut committed, mut heard, mut heard_elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    let (mut syncs, beside) = (Vec::new(), File::create(dir.join("beside"))?);
    for round in 0..rounds as u64 {
        let expected = round + 2;
        let started = Instant::now();
        let append = {
            let journal = journal.clone();
            tokio::spawn(async move { journal.append(1).await.map(|()| started.elapsed()) })
        };
        here.wait_for(|pulse| pulse.head >= expected).await?;
        heard.push(started.elapsed());
        there.wait_for(|pulse| pulse.head >= expected).await?;
        heard_elsewhere.push(started.elapsed());
        committed.push(append.await??);
        // Measured in the same state of the machine: threads and disk have been idle for a while.
        syncs.push(append_and_sync(&beside, round)?);
    }
    Ok(json!({
        "bare_sync_ms": spread(&mut syncs),
        "commit_ms": spread(&mut committed),
        "same_process_ms": spread(&mut heard),
        "other_process_ms": spread(&mut heard_elsewhere),
    }))
}

/// The time to open a store with `events` events of one run and 1,000 open children, and to read them all.
async fn reopening(dir: &Path, events: u64) -> Result<Value, Failure> {
    const CHUNK: u64 = 1_000;
    let key = {
        let journal = Journal::start(Arc::new(SqliteStore::open(dir, SqliteOptions::default())?), 1).await?;
        for number in 1..=1_000 {
            journal.child(number).await?;
        }
        for _ in 0..events / CHUNK {
            journal.append(CHUNK).await?;
        }
        journal.key
    };
    let started = Instant::now();
    let store = SqliteStore::open(dir, SqliteOptions::default())?;
    let opened = started.elapsed();
    let agents = store.agents(&key).await?.len();
    let mut read = 0;
    loop {
        let events = store.read(&key, read, READ_MAX_EVENTS).await?;
        let Some(last) = events.last() else { break };
        read = last.seq;
    }
    let elapsed = started.elapsed();
    Ok(
        json!({"events": read, "agents": agents, "open_ms": millis(opened), "open_and_read_ms": millis(elapsed)}),
    )
}
