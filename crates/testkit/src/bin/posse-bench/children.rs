//! Measures the wall time per sub-agent of two turns, with a durable store.

use std::path::Path;
use std::time::{Duration, Instant};

use posse::{NewRun, Posse};
use posse_testkit::fanout;

use crate::Plan;
use crate::report::Report;

/// Number of rounds. The best counts, because other work of the machine only adds time.
const ROUNDS: usize = 3;
/// Number of durable writes that are timed to know the cost of one sync.
const SYNCS: usize = 40;

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    let sync_ms = sync_ms(&plan.dir);
    report.plain("one write and fdatasync on this disk, median", sync_ms, "ms");
    let widths: &[usize] = if plan.quick { &[10, 100] } else { &[10, 100, 1_000, 10_000] };
    for &width in widths {
        let count = f64::from(u32::try_from(width).expect("a small number"));
        let took = best(plan, width, Duration::ZERO).await;
        let each = took.as_secs_f64() * 1e3 / count;
        let name = format!("{width} children of two turns, each");
        // Ten children cannot share their syncs, so they may take the time of eight syncs beside their own time.
        let limit = if width == 10 { 0.5 + 8.0 * sync_ms / 10.0 } else { 0.5 };
        report.at_most(name, each, "ms", limit);
    }
    let (width, name) = if plan.quick { (100, "100 children") } else { (1_000, "1000 children") };
    let took = best_of(plan, width, Duration::ZERO, Root::Writes).await;
    let each = took.as_secs_f64() * 1e3 / f64::from(u32::try_from(width).unwrap_or(u32::MAX));
    report.at_most(format!("{name} beneath a root that can write"), each, "ms each", 0.5);
    let took = best(plan, width, Duration::from_millis(200)).await;
    report.at_most(format!("{name}, model takes 200 ms a reply"), took.as_secs_f64(), "s", 1.2);
}

async fn best(plan: &Plan, width: usize, latency: Duration) -> Duration {
    best_of(plan, width, latency, Root::Looks).await
}

async fn best_of(plan: &Plan, width: usize, latency: Duration, root: Root) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        best = best.min(once(&plan.dir, width, latency, root).await);
    }
    best
}

/// The rights of the root of a measured run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// Read only: the run has no snapshot, and all agents read the folder.
    Looks,
    /// Write, as `coder` does: its children read the files of the snapshot.
    Writes,
}

impl Root {
    /// The run with this root.
    pub(crate) fn of(self, new: NewRun, posse: &Posse) -> NewRun {
        match self {
            Root::Looks => new.definitions(fanout::lead(&posse.tool_names())).definition("lead"),
            Root::Writes => new,
        }
    }
}

async fn once(dir: &Path, width: usize, latency: Duration, root: Root) -> Duration {
    let home = tempfile::tempdir_in(dir).expect("a directory");
    std::fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
    let model = fanout::model(width, latency);
    let posse = Posse::builder()
        .state_dir(home.path().join("state"))
        .model("mock/fanout", model)
        .open()
        .expect("a store");
    let new = root.of(fanout::run(home.path()), &posse);
    let mut began = Instant::now();
    let run = posse.start(new).await.expect("a run");
    if root == Root::Writes {
        // The snapshot itself is measured elsewhere.
        began = Instant::now();
    }
    run.ended().await.expect("the run ends");
    let took = began.elapsed();
    let finished = posse.wait(run.id()).await.expect("an outcome");
    assert_eq!((finished.status, finished.agents), (posse::RunStatus::Completed, width as u64 + 1));
    took
}

/// The time to make one page durable on the journal's disk.
fn sync_ms(dir: &Path) -> f64 {
    use std::io::Write as _;
    let mut file = tempfile::tempfile_in(dir).expect("a file");
    let mut times: Vec<f64> = (0..SYNCS)
        .map(|_| {
            let began = Instant::now();
            file.write_all(&[7; 4096]).expect("a write");
            file.sync_data().expect("a sync");
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
