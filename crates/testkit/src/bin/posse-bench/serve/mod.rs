//! Measures the server: reading a large run, events at clients, many clients of one run, an idle server, the start of a run.
//! The server is the command in a process of its own.

mod client;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use posse::scripted::ScriptedModel;
use posse::{NewRun, Posse, RunHandle};
use posse_setup::{Environment, RunDirectory, RunDraft, Setup};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::Plan;
use crate::command::{beside_this, ms};
use crate::report::Report;
use crate::runs::fill;
use crate::view::{cpu, script};
use client::{Client, SeenEvents};

/// Agents of the large run.
const WIDE: usize = 1_000;
/// Children of the run that many clients follow.
const CHILDREN: usize = 100;
/// Clients that follow it.
const CLIENTS: usize = 500;
/// How many of them look at the time of each event. The others only read, because looking takes time of the same processors.
const LOOKING: usize = 10;
/// Runs that are watched and do nothing.
const WATCHED: usize = 100;
/// Number of requests and of starts. Their median counts.
const ROUNDS: usize = 30;

const READ_LIMIT_MS: f64 = 20.0;
const EVENT_LIMIT_MS: f64 = 100.0;
const START_LIMIT_MS: f64 = 5.0;
const IDLE_LIMIT_PERCENT: f64 = 1.0;
const IDLE_LIMIT_MB: f64 = 60.0;
/// How many events a run may lose to 500 clients. Server, clients and run share the processors.
const SLOWER_LIMIT_PERCENT: f64 = 5.0;

/// How long clients and runs have to begin.
const WARM_UP: Duration = Duration::from_secs(4);
const WARM_UP_QUICKLY: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(10);
const MEASURED_QUICKLY: Duration = Duration::from_secs(2);

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    let Some(posse) = beside_this() else {
        eprintln!("the command is not built beside this program: the server is not measured");
        return;
    };
    large_run(plan, &posse, report).await;
    starts(plan, &posse, report).await;
    active_run(plan, &posse, report).await;
    idle(plan, &posse, report).await;
}

/// A user with a project and settings.
struct User {
    home: tempfile::TempDir,
}

impl User {
    /// A user whose model follows this script.
    fn new(plan: &Plan, script: &str) -> Self {
        let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
        let user = Self { home };
        let settings = user.path("home/.config/posse");
        for dir in [&settings, &user.path("project")] {
            fs::create_dir_all(dir).expect("a directory");
        }
        let path = user.path("project/script.yaml");
        fs::write(&path, script).expect("a script");
        fs::write(settings.join("settings.yaml"), format!("model: 'scripted/{}'\n", path.display()))
            .expect("settings");
        user
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn command(&self, posse: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(posse);
        command
            .env_clear()
            .env("HOME", self.path("home"))
            .env("POSSE_HOME", self.path("state"))
            .current_dir(self.path("project"))
            .args(args)
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn setup(&self) -> Setup {
        let variables = [("HOME", self.path("home")), ("POSSE_HOME", self.path("state"))];
        let variables = variables.map(|(name, path)| (name.into(), path.into_os_string()));
        Setup::new(Environment::new(self.path("project"), variables))
    }
}

/// A server in a process of its own, which ends with this value.
struct ServerProcess {
    process: Child,
    client: Client,
}

impl ServerProcess {
    fn start(posse: &Path, user: &User) -> Self {
        let mut command = user.command(posse, &["serve", "--listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("a server");
        let mut url = String::new();
        BufReader::new(process.stdout.take().expect("its output")).read_line(&mut url).expect("its URL");
        Self { process, client: Client::of(url.trim()) }
    }

    /// Resident memory, in MB.
    fn resident_mb(&self) -> f64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.process.id())).expect("it is running");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or("VmRSS: 0 kB");
        let kib: f64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0.0);
        kib * 1024.0 / 1e6
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn rounds(plan: &Plan) -> usize {
    if plan.quick { 3 } else { ROUNDS }
}

async fn warm_up(plan: &Plan) {
    tokio::time::sleep(if plan.quick { WARM_UP_QUICKLY } else { WARM_UP }).await;
}

fn measured(plan: &Plan) -> Duration {
    if plan.quick { MEASURED_QUICKLY } else { MEASURED }
}

async fn large_run(plan: &Plan, posse: &Path, report: &mut Report) {
    let agents = if plan.quick { 10 } else { WIDE };
    let user = User::new(plan, "- reply: {text: Done.}\n");
    let run = fill(user.home.path(), 1, agents - 1).await.remove(0);
    let server = ServerProcess::start(posse, &user);
    for (path, limit) in [
        (format!("/api/v1/runs/{run}"), Some(READ_LIMIT_MS)),
        (format!("/api/v1/runs/{run}/timeline"), None),
        (format!("/api/v1/runs/{run}/events?limit=1000"), None),
        ("/api/v1/runs".to_owned(), None),
    ] {
        let mut connection = server.client.connect().await;
        let mut times = Vec::new();
        for _ in 0..rounds(plan) {
            let began = Instant::now();
            connection.get(&path).await;
            times.push(began.elapsed());
        }
        let name = format!("GET {} of a run of {agents} agents", path.replace(&run, "RUN"));
        let took = ms(median(times));
        match limit {
            Some(limit) => report.at_most(name, took, "ms", limit),
            None => report.plain(name, took, "ms"),
        }
    }
}

/// Starts runs over HTTP, and the same ones in this process, in turns.
async fn starts(plan: &Plan, posse: &Path, report: &mut Report) {
    let user = User::new(plan, "- reply: {text: Done.}\n");
    let server = ServerProcess::start(posse, &user);
    let setup = user.setup();
    let mut connection = server.client.connect().await;
    let (mut over_http, mut in_process) = (Vec::new(), Vec::new());
    for _ in 0..rounds(plan) {
        let began = Instant::now();
        let started = connection.post("/api/v1/runs", &json!({ "request": "Look." })).await;
        over_http.push(began.elapsed());
        let run = started["run"].as_str().expect("a run").to_owned();
        server.client.follow(&run, Arc::new(SeenEvents::default())).await;
        let began = Instant::now();
        let handle = start(&setup).await;
        in_process.push(began.elapsed());
        handle.ended().await.expect("its end");
    }
    let (over_http, in_process) = (median(over_http), median(in_process));
    report.plain("start of a run over HTTP", ms(over_http), "ms");
    report.at_most(
        "start of a run over HTTP, more than in the process",
        ms(over_http) - ms(in_process),
        "ms",
        START_LIMIT_MS,
    );
}

/// Starts a run in this process, as a front end does.
async fn start(setup: &Setup) -> RunHandle {
    let draft = RunDraft { text: Some("Look.".to_owned()), ..RunDraft::default() };
    let directory = RunDirectory::load(&draft, setup).value.expect("a directory");
    let run = draft.prepare(&directory, setup).await.value.expect("a run");
    let posse = directory.open(&run.local, setup).expect("a state directory");
    posse.start_request(run.request, true).await.expect("a run")
}

async fn active_run(plan: &Plan, posse: &Path, report: &mut Report) {
    let user = User::new(plan, &script());
    let server = ServerProcess::start(posse, &user);
    let settings = json!({
        "agent.parallel": CHILDREN, "agent.max_agents": 2 * CHILDREN, "agent.max_turns": 1_000,
    });
    let request = json!({ "request": "Look.", "settings": settings });
    let started = server.client.connect().await.post("/api/v1/runs", &request).await;
    let run = started["run"].as_str().expect("a run").to_owned();
    let (alone, latest) = watch(plan, &server, &run, 1).await;
    report.at_most("event of 100 active children at a client, the latest", latest, "ms", EVENT_LIMIT_MS);
    let clients = if plan.quick { CLIENTS / 10 } else { CLIENTS };
    // A client that reads nothing.
    let stopped = server.client.stopped(&run).await;
    let before = (cpu(&server.process), Instant::now());
    let (together, latest) = watch(plan, &server, &run, clients).await;
    let percent = (cpu(&server.process) - before.0) / before.1.elapsed().as_secs_f64() * 100.0;
    drop(stopped);
    let name = format!("the same with {clients} clients and a stopped one");
    report.at_most(name, latest, "ms", EVENT_LIMIT_MS);
    report.plain("CPU time of the server meanwhile, of a core", percent, "%");
    report.plain("memory of the server meanwhile", server.resident_mb(), "MB");
    report.at_most(
        format!("events that the run has less with {clients} clients"),
        (1.0 - together / alone) * 100.0,
        "%",
        SLOWER_LIMIT_PERCENT,
    );
    let killed = server.client.connect().await.post(&format!("/api/v1/runs/{run}/kill"), &json!({})).await;
    assert!(killed["agent"].is_string(), "{killed}");

    // The same run in a process of its own.
    let (parallel, agents) = (CHILDREN.to_string(), (2 * CHILDREN).to_string());
    let args =
        ["run", "-d", "--parallel", &parallel, "--max-agents", &agents, "--max-turns", "none", "Look."];
    let started = user.command(posse, &args).output().expect("the command starts");
    let run = String::from_utf8_lossy(&started.stdout).trim().to_owned();
    let (_, latest) = watch(plan, &server, &run, 1).await;
    report.at_most("event of another process at a client, the latest", latest, "ms", EVENT_LIMIT_MS);
    let killed = user.command(posse, &["kill", &run]).output().expect("the command starts");
    assert!(killed.status.success(), "{}", String::from_utf8_lossy(&killed.stderr));
}

/// Has clients follow a run for some time. Returns the events per second that one of them got, and the longest time between
/// an event and its arrival at one of those that look, in milliseconds.
async fn watch(plan: &Plan, server: &ServerProcess, run: &str, clients: usize) -> (f64, f64) {
    let mut following = JoinSet::new();
    let seen: Vec<Arc<SeenEvents>> =
        (0..clients).map(|number| Arc::new(SeenEvents::new(number < LOOKING))).collect();
    for seen in &seen {
        let (client, run, seen) = (server.client.clone(), run.to_owned(), Arc::clone(seen));
        following.spawn(async move { client.follow(&run, seen).await });
    }
    warm_up(plan).await;
    for seen in &seen {
        seen.begin();
    }
    let began = Instant::now();
    tokio::time::sleep(measured(plan)).await;
    let seconds = began.elapsed().as_secs_f64();
    let events: Vec<f64> = seen.iter().map(|seen| seen.events()).collect();
    let latest = seen.iter().map(|seen| seen.latest_ms()).fold(0.0, f64::max);
    following.shutdown().await;
    let slowest = events.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(slowest > 0.0, "a client got no event");
    (slowest / seconds, latest)
}

/// A server that shows runs of another process in which nothing happens.
async fn idle(plan: &Plan, posse: &Path, report: &mut Report) {
    let user = User::new(plan, "- reply: {text: Done.}\n");
    let slow = "- {reply: {text: late}, latency_ms: 3600000}\n";
    let script = ScriptedModel::from_yaml(slow, "slow.yaml").expect("a script");
    let owner = Posse::builder()
        .state_dir(user.path("state"))
        .model("scripted/slow", script)
        .open()
        .expect("a store");
    let mut runs = Vec::new();
    for _ in 0..if plan.quick { WATCHED / 10 } else { WATCHED } {
        let new = NewRun::new("wait").model("scripted/slow").dir(user.path("project"));
        runs.push(owner.start(new).await.expect("a run"));
    }
    let server = ServerProcess::start(posse, &user);
    let mut following = JoinSet::new();
    for run in &runs {
        let (client, run) = (server.client.clone(), run.id().to_string());
        following.spawn(async move { client.follow(&run, Arc::new(SeenEvents::default())).await });
    }
    warm_up(plan).await;
    let (before, began) = (cpu(&server.process), Instant::now());
    tokio::time::sleep(measured(plan)).await;
    let percent = (cpu(&server.process) - before) / began.elapsed().as_secs_f64() * 100.0;
    let count = runs.len();
    let name = format!("idle server with {count} watched runs");
    report.at_most(format!("{name}, CPU time of a core"), percent, "%", IDLE_LIMIT_PERCENT);
    report.at_most(format!("{name}, memory"), server.resident_mb(), "MB", IDLE_LIMIT_MB);
    following.shutdown().await;
    owner.stop();
}

/// The object in the body of a response.
fn object(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(body)))
}
