//! Measures the resident memory per sub-agent that waits for its model, and the memory that is freed after it.

use std::time::Duration;

use posse::Posse;
use posse_testkit::fanout;
use posse_testkit::latch::{Latch, LatchedModel};

use crate::Plan;
use crate::report::{Report, resident_kib};

pub(crate) async fn measure(plan: &Plan, report: &mut Report) {
    let width = if plan.quick { 1_000 } else { 10_000 };
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    std::fs::write(home.path().join("hello.txt"), "hello\n").expect("a file");
    let latch =
        Latch::new(fanout::model(width, Duration::ZERO), |request| request.depth == 1 && request.turn == 2);
    let posse = Posse::builder()
        .state_dir(home.path().join("state"))
        .model("mock/fanout", LatchedModel(latch.clone()))
        .open()
        .expect("a store");
    let before = resident_kib();
    let run = posse.start(fanout::run(home.path())).await.expect("a run");
    latch.until_waiting(width).await;
    let during = resident_kib();
    let count = f64::from(u32::try_from(width).expect("a small number"));
    report.at_most(format!("{width} children waiting, each"), (during - before) / count, "KiB", 64.0);
    latch.open();
    run.ended().await.expect("the run ends");
    drop((run, posse, latch));
    let after = resident_kib();
    report.at_most("kept of that after they ended, each", (after - before) / count, "KiB", 8.0);
    report.plain("resident before", before / 1024.0, "MiB");
    report.plain("resident while they wait", during / 1024.0, "MiB");
    report.plain("resident after they ended", after / 1024.0, "MiB");
}
