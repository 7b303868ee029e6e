//! Measures Posse against the limits it holds itself to. `cargo xtask bench` runs it and prints its table.

use std::time::{Duration, Instant};

use posse::Posse;
use posse_testkit::fanout;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let width: usize = args.first().and_then(|a| a.parse().ok()).unwrap_or(100);
    let latency = Duration::from_millis(args.get(1).and_then(|a| a.parse().ok()).unwrap_or(0));
    runtime.block_on(async {
        let home = tempfile::tempdir_in(args.get(2).map_or("/var/tmp", |s| s)).expect("dir");
        std::fs::write(home.path().join("hello.txt"), "hello\n").expect("file");
        let posse = Posse::builder()
            .state_dir(home.path().join("state"))
            .model("mock/fanout", fanout::model(width, latency))
            .open()
            .expect("open");
        for _ in 0..3 {
            let before = Instant::now();
            let run = posse.start(fanout::run(home.path())).await.expect("start");
            run.ended().await.expect("ended");
            let took = before.elapsed();
            let info = posse.runs(run.id().as_str(), 1).await.expect("runs").remove(0);
            println!("{width} children {} ms, {:.3} ms each, {} events, {}", took.as_millis(), took.as_secs_f64() * 1e3 / width as f64, info.events, info.status);
        }
    });
}
