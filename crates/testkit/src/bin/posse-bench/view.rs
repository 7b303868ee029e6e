//! Measures what a live view costs: the CPU time of a process that watches a run with many active children on a terminal.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::Plan;
use crate::command::beside_this;
use crate::report::Report;

const CHILDREN: usize = 100;
/// Turns of each child, more than there is time for.
const TURNS: usize = 300;
/// How long a model takes for a reply: every child calls a tool about once a second.
const LATENCY_MS: u64 = 1_000;
/// The CPU time that a view may take, in percent of one core.
const LIMIT_PERCENT: f64 = 3.0;
/// How long the run and the view have to begin.
const WARM_UP: Duration = Duration::from_secs(4);
const MEASURED: Duration = Duration::from_secs(10);
const MEASURED_QUICKLY: Duration = Duration::from_secs(2);

pub(crate) fn measure(plan: &Plan, report: &mut Report) {
    // The command group has already reported that the command is not built.
    let Some(posse) = beside_this() else { return };
    let home = tempfile::tempdir_in(&plan.dir).expect("a directory");
    let project = home.path().join("project");
    std::fs::create_dir(&project).expect("a directory");
    std::fs::write(project.join("script.yaml"), script()).expect("a script");
    let children = CHILDREN.to_string();
    let more = (CHILDREN * 2).to_string();
    let run = ["run", "-d", "--parallel", &children, "--max-agents", &more];
    let run = [&run[..], &["--max-turns", "none", "--model", "scripted/script.yaml", "Look."]].concat();
    let started = command(&posse, home.path(), &run).output().expect("the command starts");
    let run = String::from_utf8_lossy(&started.stdout).trim().to_owned();
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let measured = if plan.quick { MEASURED_QUICKLY } else { MEASURED };
    let views: [(&str, &[&str]); 2] = [
        ("live view of 100 active children, CPU time of a core", &["attach", &run]),
        ("`posse top` with their tree, CPU time of a core", &["top", &run]),
    ];
    for (name, args) in views {
        let percent = watched(&posse, home.path(), args, measured);
        report.at_most(name, percent, "%", LIMIT_PERCENT);
    }
    let killed = command(&posse, home.path(), &["kill", &run]).output().expect("the command starts");
    assert!(killed.status.success(), "{}", String::from_utf8_lossy(&killed.stderr));
}

/// A run whose children call a tool in every turn.
pub(crate) fn script() -> String {
    let mut script = "- when: {definition: coder, turn: 1}\n  reply:\n    tool_calls:\n".to_owned();
    for child in 0..CHILDREN {
        // Writing to a String cannot fail.
        let _ = writeln!(
            script,
            "      - {{name: task, input: {{subagent_type: explore, description: look {child}, prompt: look {child}}}}}"
        );
    }
    let _ = write!(
        script,
        "- when: {{definition: explore, turn: {TURNS}}}\n  reply: {{text: Done.}}\n\
         - when: {{definition: explore}}\n  reply: {{text: I look around., tool_calls: [{{name: list, input: {{path: .}}}}]}}\n  \
         latency_ms: {LATENCY_MS}\n- reply: {{text: Done.}}\n"
    );
    script
}

fn command(posse: &Path, home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(posse);
    command.env_clear().env("HOME", home).env("POSSE_HOME", home.join("state")).env("TERM", "xterm-256color");
    command.args(args).current_dir(home.join("project")).stdin(Stdio::null());
    command
}

/// The CPU time that a command takes on a terminal, in percent of one core.
fn watched(posse: &Path, home: &Path, args: &[&str], measured: Duration) -> f64 {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    tcsetwinsize(&terminal, Winsize { ws_col: 120, ws_row: 50, ws_xpixel: 0, ws_ypixel: 0 }).expect("a size");
    let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let other = || OpenOptions::new().read(true).write(true).open(&name).expect("the other side");
    let mut command = command(posse, home, args);
    command.stdin(other()).stdout(other()).stderr(other());
    let mut view = command.spawn().expect("the command starts");
    drop(command);
    let mut terminal = File::from(terminal);
    read_for(&mut terminal, WARM_UP);
    let (before, began) = (cpu(&view), Instant::now());
    read_for(&mut terminal, measured);
    let percent = (cpu(&view) - before) / began.elapsed().as_secs_f64() * 100.0;
    view.kill().and_then(|()| view.wait()).expect("ended");
    percent
}

/// Reads what a terminal shows, for some time. A running view writes several times a second.
fn read_for(terminal: &mut File, time: Duration) {
    let began = Instant::now();
    let mut part = [0; 16 * 1024];
    while began.elapsed() < time {
        let read = terminal.read(&mut part).expect("the view is running");
        assert!(read > 0, "the view has ended");
    }
}

/// The CPU time of a process so far, in seconds.
pub(crate) fn cpu(process: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).expect("it is running");
    // The name, in parentheses, may contain anything. User and system time are the 14th and 15th fields.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: u32 =
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u32>().expect("a number")).sum();
    let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).expect("a number");
    f64::from(ticks) / f64::from(per_second)
}
