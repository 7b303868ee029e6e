//! Measures Posse against the limits it holds itself to. `cargo xtask bench` builds and runs it.
//!
//! Every figure stands beside one taken in the same run on the same disk, or beside a fixed limit; nothing here
//! is a test, because time on a shared machine is not a fact about the code.

mod children;
mod command;
mod http;
mod memory;
mod reopen;
mod report;
mod server;

use std::path::PathBuf;

use report::Report;

/// Where and how much to measure.
pub(crate) struct Plan {
    dir: PathBuf,
    quick: bool,
}

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(server::SERVE) => return server::serve(args),
        Some(http::STREAMS) => return runtime().block_on(http::streams(args)),
        _ => {}
    }
    let mut plan = Plan { dir: PathBuf::from("."), quick: false };
    let mut json = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => plan.quick = true,
            "--dir" => plan.dir = args.next().expect("--dir needs a directory").into(),
            "--json" => json = Some(PathBuf::from(args.next().expect("--json needs a file"))),
            other => panic!("unknown argument {other}"),
        }
    }
    let mut report = Report::default();
    http::memory(&plan, &mut report);
    runtime().block_on(async {
        // First, while the process is small: what others leave behind would hide what this takes.
        memory::measure(&plan, &mut report).await;
        children::measure(&plan, &mut report).await;
        http::children(&plan, &mut report).await;
        reopen::measure(&plan, &mut report).await;
    });
    command::measure(&plan, &mut report);
    print!("{}", report.table());
    if let Some(path) = json {
        std::fs::write(path, report.json()).expect("the report is written");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}
