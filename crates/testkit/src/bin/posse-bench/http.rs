//! Measures children over HTTP on loopback: their cost without the server's own time, with and without latency, and the
//! memory of open streams.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use posse::Posse;
use posse::ports::{Model, ModelError, ModelFacts, Models};
use posse_models::{Endpoint, Format, Http, Limits, ToolCalls, remote};
use posse_testkit::fanout;
use rustix::time::{ClockId, clock_gettime};

use crate::Plan;
use crate::children::Root;
use crate::report::{Report, resident_kib};
use crate::server::{Scene, Server};

/// The argument that makes this program measure the memory of open streams.
pub(crate) const STREAMS: &str = "streams";
/// Number of rounds. The best counts, because other work of the machine only adds time.
const ROUNDS: usize = 3;
/// Latency of the model's replies, where they have one.
const LATENCY: Duration = Duration::from_millis(200);
/// Limit of a run whose replies have that latency, in seconds. Four consecutive replies (the root's, two of a child, the
/// root's) take 0.8.
const WAITING_LIMIT_S: f64 = 1.3;
/// Limit of a run of a thousand children beneath `coder` whose replies have no latency, in seconds.
const CODER_LIMIT_S: f64 = 0.7;
/// Interval at which the program checks whether all streams are open.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Timeout until all streams must be open.
const PATIENCE: Duration = Duration::from_mins(1);

/// Resolves every name to one model.
struct OneModel(Arc<dyn Model>);

impl Models for OneModel {
    fn resolve(&self, _: &str) -> Result<Arc<dyn Model>, ModelError> {
        Ok(self.0.clone())
    }
}

fn models(server: &Server, format: Format) -> Arc<dyn Models> {
    let endpoint = Endpoint {
        provider: "mock".to_owned(),
        format,
        base_url: server.url().to_owned(),
        key: None,
        limits: Limits::default(),
        tools: ToolCalls::Native,
    };
    let facts = ModelFacts { context_tokens: 1_000_000, max_output_tokens: 8_192, price: None };
    Arc::new(OneModel(remote(&endpoint, "fanout", facts, &Http::new())))
}

/// Measured in its own process, because the memory of other measurements would distort this one, and vice versa.
pub(crate) fn memory(plan: &Plan, report: &mut Report) {
    let width = if plan.quick { 100 } else { 1_000 };
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new(program);
    let measured = command.arg(STREAMS).arg(width.to_string()).arg(&plan.dir).output().expect("a process");
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    let each = String::from_utf8_lossy(&measured.stdout).trim().parse().expect("a number");
    report.at_most(format!("{width} streams open, each"), each, "KiB", 150.0);
}

/// Opens this many streams and prints the memory per stream.
pub(crate) async fn streams(mut words: impl Iterator<Item = String>) {
    let width: usize = words.next().and_then(|width| width.parse().ok()).expect("a width");
    let dir = words.next().expect("a directory");
    let server = Server::start(Scene::Held { width });
    let home = Home::new(Path::new(&dir));
    let posse = home.posse(models(&server, Format::Chat));
    let before = resident_kib();
    let run = posse.start(home.run(&posse, Root::Looks)).await.expect("a run");
    // The root's request, and two of each child.
    let all = 1 + 2 * width as u64;
    let asked = async {
        let mut look = tokio::time::interval(LOOK_EVERY);
        while server.stats().requests < all {
            look.tick().await;
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("all streams are open in time");
    println!("{}", (resident_kib() - before) / count(width));
    run.ended().await.expect("the run ends");
}

pub(crate) async fn children(plan: &Plan, report: &mut Report) {
    let widths: &[usize] = if plan.quick { &[20] } else { &[100, 1_000] };
    for (format, name) in [(Format::Chat, "chat"), (Format::Anthropic, "messages")] {
        for &width in widths {
            let once = best(plan, width, Duration::ZERO, format, Root::Looks).await;
            let beyond = once.took.saturating_sub(once.server_cpu);
            report.at_most(
                format!("{width} children over HTTP ({name}), each"),
                each_ms(beyond, width),
                "ms",
                1.0,
            );
            let server = each_ms(once.server_cpu, width);
            report.plain(format!("{width} children ({name}), the server's own time, each"), server, "ms");
        }
    }
    let width = if plan.quick { 20 } else { 1_000 };
    let once = best(plan, width, LATENCY, Format::Chat, Root::Looks).await;
    let name = format!("{width} children over HTTP, 200 ms a reply");
    report.at_most(name, once.took.as_secs_f64(), "s", WAITING_LIMIT_S);
    report.plain("connections made for them", once.connections, "");
}

/// Measures children beneath the definition that users start most: a root that can change files and does not.
pub(crate) async fn beneath_coder(plan: &Plan, report: &mut Report) {
    let width = if plan.quick { 20 } else { 1_000 };
    for (latency, what, limit) in
        [(Duration::ZERO, "at once", CODER_LIMIT_S), (LATENCY, "200 ms a reply", WAITING_LIMIT_S)]
    {
        let once = best(plan, width, latency, Format::Chat, Root::Writes).await;
        let name = format!("{width} children over HTTP beneath `coder`, {what}");
        report.at_most(name, once.took.as_secs_f64(), "s", limit);
        report.plain("  processor time of Posse, each", each_ms(once.own_cpu, width), "ms");
        report.plain("  processor time of the server, each", each_ms(once.server_cpu, width), "ms");
        report.plain("  connections", once.connections, "");
    }
}

#[derive(Debug, Clone, Copy)]
struct RunCost {
    took: Duration,
    /// Processor time of this process, in all threads.
    own_cpu: Duration,
    server_cpu: Duration,
    connections: f64,
}

async fn best(plan: &Plan, width: usize, latency: Duration, format: Format, root: Root) -> RunCost {
    let mut best: Option<RunCost> = None;
    for _ in 0..ROUNDS {
        let once = once(&plan.dir, width, latency, format, root).await;
        best = Some(best.filter(|best| best.took <= once.took).unwrap_or(once));
    }
    best.expect("there are rounds")
}

async fn once(dir: &Path, width: usize, latency: Duration, format: Format, root: Root) -> RunCost {
    let server = Server::start(Scene::Fanout { width, latency });
    let home = Home::new(dir);
    let posse = home.posse(models(&server, format));
    let new = home.run(&posse, root);
    let before = server.stats();
    let (began, cpu_before) = (Instant::now(), process_cpu());
    let run = posse.start(new).await.expect("a run");
    run.ended().await.expect("the run ends");
    let (took, own_cpu) = (began.elapsed(), process_cpu().saturating_sub(cpu_before));
    let after = server.stats();
    let finished = posse.wait(run.id()).await.expect("an outcome");
    assert_eq!((finished.status, finished.agents), (posse::RunStatus::Completed, width as u64 + 1));
    let made = after.connections - before.connections;
    let connections = f64::from(u32::try_from(made).expect("a small number"));
    RunCost { took, own_cpu, server_cpu: after.cpu.saturating_sub(before.cpu), connections }
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// The directory of a measured run.
struct Home(tempfile::TempDir);

impl Home {
    fn new(dir: &Path) -> Self {
        let home = tempfile::tempdir_in(dir).expect("a directory");
        std::fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
        Self(home)
    }

    fn posse(&self, models: Arc<dyn Models>) -> Posse {
        Posse::builder().state_dir(self.0.path().join("state")).models(models).open().expect("a store")
    }

    fn run(&self, posse: &Posse, root: Root) -> posse::NewRun {
        root.of(fanout::run(self.0.path()), posse)
    }
}

fn each_ms(time: Duration, width: usize) -> f64 {
    time.as_secs_f64() * 1e3 / count(width)
}

fn count(width: usize) -> f64 {
    f64::from(u32::try_from(width).expect("a small number"))
}
