//! Measures the command itself over HTTP on loopback: from its start to its end, without the server's own time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Plan;
use crate::report::Report;
use crate::server::{Scene, Server};

/// Number of rounds. The best counts, because other work of the machine only adds time.
const ROUNDS: usize = 10;
const TURNS: u32 = 21;

pub(crate) fn measure(plan: &Plan, report: &mut Report) {
    let Some(posse) = beside_this() else {
        // `cargo xtask bench` builds the command. A user who starts this program alone may not have built it.
        eprintln!("the command is not built beside this program: what a run of it costs is not measured");
        return;
    };
    let rounds = if plan.quick { 1 } else { ROUNDS };
    let one = best(plan, &posse, 1, rounds);
    report.at_most("`posse run` of one turn over HTTP, all in all", ms(one), "ms", 60.0);
    let many = best(plan, &posse, TURNS, rounds);
    let further = many.saturating_sub(one) / (TURNS - 1);
    report.at_most("`posse run` over HTTP, each further turn", ms(further), "ms", 3.0);
}

/// The path of the command where cargo puts it.
pub(crate) fn beside_this() -> Option<PathBuf> {
    let posse = std::env::current_exe().ok()?.with_file_name("posse");
    posse.exists().then_some(posse)
}

fn best(plan: &Plan, posse: &Path, turns: u32, rounds: usize) -> Duration {
    let server = Server::start(Scene::Turns(turns as usize));
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    let project = home.path().join("project");
    std::fs::create_dir(&project).expect("a directory");
    std::fs::write(project.join("hello.txt"), "hello\n").expect("a file");
    (0..rounds).map(|_| once(posse, home.path(), &server)).min().unwrap_or_default()
}

/// The time of one run without the server's own time.
fn once(posse: &Path, home: &Path, server: &Server) -> Duration {
    let mut command = Command::new(posse);
    command
        .env_clear()
        .env("HOME", home)
        .env("POSSE_HOME", home.join("state"))
        .current_dir(home.join("project"));
    command.args(["run", "--model", "openai-compatible/mock", "--base-url", server.url()]);
    command.arg("Look at hello.txt.").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let before = server.stats();
    let began = Instant::now();
    let status = command.status().expect("the command starts");
    let took = began.elapsed();
    assert!(status.success(), "the run ended with {status}");
    took.saturating_sub(server.stats().cpu.saturating_sub(before.cpu))
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
