//! Measures Posse against its performance limits. `cargo xtask bench` builds and runs it.
//!
//! Every figure is compared with another figure of the same run on the same disk, or with a fixed limit. These are not
//! tests, because time on a shared machine says nothing certain about the code.

mod children;
mod command;
mod found;
mod http;
mod memory;
mod reopen;
mod report;
mod runs;
mod serve;
mod server;
mod view;
mod writers;

use std::path::PathBuf;

use report::Report;

pub(crate) struct Plan {
    dir: PathBuf,
    quick: bool,
    /// The only group to measure, if one is named.
    only: Option<String>,
}

impl Plan {
    fn has(&self, group: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == group)
    }
}

/// The names of the groups, in the order of measurement. The last one is measured only if it is named.
const GROUPS: [&str; 11] =
    ["streams", "memory", "children", "writers", "http", "coder", "reopen", "runs", "command", "view", SERVE];
/// The group of the server.
const SERVE: &str = "serve";

fn main() {
    // Workspaces are held by this program, started once more.
    posse::init();
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some(server::SERVE) => return server::serve(args),
        Some(http::STREAMS) => return runtime().block_on(http::streams(args)),
        _ => {}
    }
    let mut plan = Plan { dir: PathBuf::from("."), quick: false, only: None };
    let mut json = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => plan.quick = true,
            "--only" => {
                let group = args.next().filter(|group| GROUPS.contains(&group.as_str()));
                plan.only =
                    Some(group.unwrap_or_else(|| panic!("--only needs one of {}", GROUPS.join(", "))));
            }
            "--dir" => plan.dir = args.next().expect("--dir needs a directory").into(),
            "--json" => json = Some(PathBuf::from(args.next().expect("--json needs a file"))),
            other => panic!("unknown argument {other}"),
        }
    }
    let mut report = Report::default();
    if plan.has("streams") {
        http::memory(&plan, &mut report);
    }
    runtime().block_on(async {
        // First, while the process is small: the memory of other measurements would distort this one.
        if plan.has("memory") {
            memory::measure(&plan, &mut report).await;
        }
        if plan.has("children") {
            children::measure(&plan, &mut report).await;
        }
        if plan.has("writers") {
            writers::measure(&plan, &mut report).await;
        }
        if plan.has("http") {
            http::children(&plan, &mut report).await;
        }
        if plan.has("coder") {
            http::beneath_coder(&plan, &mut report).await;
        }
        if plan.has("reopen") {
            reopen::measure(&plan, &mut report).await;
        }
        if plan.has("runs") {
            runs::measure(&plan, &mut report).await;
        }
        if plan.only.as_deref() == Some(SERVE) {
            serve::measure(&plan, &mut report).await;
        }
    });
    if plan.has("command") {
        command::measure(&plan, &mut report);
        found::measure(&plan, &mut report);
    }
    if plan.has("view") {
        view::measure(&plan, &mut report);
    }
    print!("{}", report.table());
    if let Some(path) = json {
        std::fs::write(path, report.json()).expect("the report is written");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}
