//! Ends a process that works with workspaces, or the filesystem beneath it, at every named point and at random moments;
//! then looks at what is left, lets the same be done again, and looks once more.
//!
//! `cargo xtask faults` runs it with `kill`, `cargo xtask faults --power` with `power`. Workspaces are overlays, or copies
//! with `POSSE_WORKSPACE__KIND=copies`.

mod check;
mod power;
mod work;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use posse_workspace::{FAULT_POINTS, Faults, OVERLAY_POINTS};
use power::Disk;
use rustix::process::{Pid, Signal, getpid, kill_process};
use work::{Done, Work, folder};

const USAGE: &str = "usage: lasting kill|power [--rounds N] [--seed S]";
/// Random moments unless said.
const ROUNDS: u64 = 5;
const SEED: u64 = 1;
/// Rounds at once: they mostly wait for the disk.
const SIDE_BY_SIDE: usize = 4;
/// About what the work takes; random moments are within it.
const WORK_MS: u64 = 1_000;
/// Work that has not ended by then never will.
const ENDS_WITHIN: Duration = Duration::from_mins(2);
/// The point that only a workspace passes which the machine lost part of, and one before which it has been made.
const TORN: (&str, &str) = ("workspace.torn.before_rename", "workspace.update.after_ref");
/// The beginnings of the names of those points that a thread in the background passes, in runs that are longer than these.
const IN_BACKGROUND: [&str; 2] = ["workspace.fold.", "workspace.base_check."];
/// The point that only a run passes whose machine stopped between a call and the next snapshot, and that moment.
const RESTORED: (&str, &str) = ("workspace.restore.before_pack", "workspace.snapshot.before_pack");

fn main() -> ExitCode {
    // The overlays of workspaces are held by this program, started once more.
    posse_sandbox::init();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = match words.as_slice() {
        ["work", how, root, acks, boot, point] => worker(how, Path::new(root), Path::new(acks), boot, point),
        [how @ ("kill" | "power"), rest @ ..] => {
            parse(rest).and_then(|(rounds, seed)| Campaign { how, rounds, seed }.carry_out())
        }
        _ => Err(USAGE.to_owned()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("lasting: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[&str]) -> Done<(u64, u64)> {
    let (mut rounds, mut seed) = (ROUNDS, SEED);
    for pair in words.chunks(2) {
        let [name, value] = pair else { return Err(USAGE.to_owned()) };
        let value = value.parse().map_err(|error| format!("{value}: {error}"))?;
        match *name {
            "--rounds" => rounds = value,
            "--seed" => seed = value,
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok((rounds, seed))
}

/// The process that is ended: at the first passing of `point`, or from outside.
fn worker(how: &str, root: &Path, acks: &Path, boot: &str, point: &str) -> Done<()> {
    let (cut, at, point) = (how == "power", root.to_owned(), point.to_owned());
    let passed = AtomicU32::new(0);
    let faults: Faults = Arc::new(move |here| {
        if here == point && passed.fetch_add(1, Ordering::Relaxed) == 0 {
            if cut {
                drop(power::cut(&at));
            }
            let _ = kill_process(getpid(), Signal::KILL);
        }
    });
    Work::new(root, acks, boot, Some(faults))?.carry_out()
}

struct Campaign<'a> {
    how: &'a str,
    rounds: u64,
    seed: u64,
}

/// When it is stopped.
enum StopMoment {
    Point(&'static str),
    After(Duration),
}

/// The points that this kind of workspaces passes.
fn points() -> Vec<&'static str> {
    let passed = |point: &&str| work::are_overlays() || !point.starts_with(OVERLAY_POINTS);
    FAULT_POINTS
        .iter()
        .filter(|point| !IN_BACKGROUND.iter().any(|begin| point.starts_with(begin)))
        .copied()
        .filter(passed)
        .collect()
}

/// What came of all rounds.
#[derive(Default)]
struct RoundResults {
    stopped: u32,
    breaches: Vec<String>,
}

impl Campaign<'_> {
    fn carry_out(&self) -> Done<()> {
        if let Some(why) = self.impossible()? {
            println!("workspaces, {}: skipped: {why}", self.how);
            return Ok(());
        }
        let moments = self.moments();
        let (next, found) = (AtomicUsize::new(0), Mutex::new(RoundResults::default()));
        std::thread::scope(|scope| {
            for _ in 0..SIDE_BY_SIDE {
                scope.spawn(|| {
                    while let Some(when) = moments.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let (stopped, breaches) = self.round(when);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.stopped += u32::from(stopped);
                        found.breaches.extend(breaches);
                    }
                });
            }
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        for breach in &found.breaches {
            println!("{breach}");
        }
        println!(
            "workspaces ({}), {}: {} points, {} random moments (seed {}), stopped {} times, {} breaches",
            if work::are_overlays() { "overlays" } else { "copies" },
            self.how,
            points().len(),
            self.rounds,
            self.seed,
            found.stopped,
            found.breaches.len()
        );
        if found.breaches.is_empty() { Ok(()) } else { Err("what was promised does not hold".to_owned()) }
    }

    /// Every point, then moments that the seed gives.
    fn moments(&self) -> Vec<StopMoment> {
        let mut chance = self.seed;
        let random = (0..self.rounds).map(|_| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            StopMoment::After(Duration::from_millis((chance >> 33) % WORK_MS))
        });
        points().into_iter().map(StopMoment::Point).chain(random).collect()
    }

    /// Why this machine cannot do it.
    fn impossible(&self) -> Done<Option<String>> {
        if self.how != "power" {
            return Ok(None);
        }
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let tried =
            Disk::new(dir.path()).and_then(|disk| power::cut(disk.path()).map_err(|error| error.to_string()));
        Ok(tried.err())
    }

    /// Whether it was stopped, and what does not hold.
    fn round(&self, when: &StopMoment) -> (bool, Vec<String>) {
        let name = match when {
            StopMoment::Point(point) => (*point).to_owned(),
            StopMoment::After(after) => format!("after {} ms", after.as_millis()),
        };
        let (stopped, mut breaches) = self.try_round(when).unwrap_or_else(|problem| (true, vec![problem]));
        if !stopped && matches!(when, StopMoment::Point(_)) {
            breaches.push("is never passed".to_owned());
        }
        (stopped, breaches.into_iter().map(|breach| format!("{name}: {breach}")).collect())
    }

    fn try_round(&self, when: &StopMoment) -> Done<(bool, Vec<String>)> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = if self.how == "power" { Some(Disk::new(dir.path())?) } else { None };
        let root = disk.as_ref().map_or_else(|| dir.path().join("root"), |disk| disk.path().to_owned());
        let mut round = Round { how: self.how, root, acks: dir.path().join("acks"), disk, boot: 0 };
        round.user()?;
        round.carry_out(when)
    }
}

struct Round<'a> {
    how: &'a str,
    root: PathBuf,
    acks: PathBuf,
    disk: Option<Disk>,
    boot: u32,
}

impl Round<'_> {
    /// A user's repository with some files, on the disk before anything begins.
    fn user(&self) -> Done<()> {
        let folder = folder(&self.root);
        let failed = |error: std::io::Error| error.to_string();
        std::fs::create_dir_all(folder.join("src")).map_err(failed)?;
        for number in 0..20 {
            let text = format!("file {number}\n").repeat(50);
            std::fs::write(folder.join(format!("src/{number}.txt")), text).map_err(failed)?;
        }
        for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
                .args(args)
                .current_dir(&folder);
            let status = git.status().map_err(failed)?;
            if !status.success() {
                return Err(format!("git {args:?} failed"));
            }
        }
        let opened = std::fs::File::open(&folder).map_err(failed)?;
        rustix::fs::syncfs(&opened).map_err(|errno| errno.to_string())?;
        Ok(())
    }

    /// Whether it was stopped, and all that did not hold.
    fn carry_out(&mut self, when: &StopMoment) -> Done<(bool, Vec<String>)> {
        let done = match when {
            StopMoment::Point(point) if *point == TORN.0 => {
                self.work(TORN.1, None)?;
                self.restart()?;
                self.unsync()?;
                self.work(point, None)?
            }
            StopMoment::Point(point) if *point == RESTORED.0 => {
                self.work(RESTORED.1, None)?;
                self.restart()?;
                self.work(point, None)?
            }
            StopMoment::Point(point) => self.work(point, None)?,
            StopMoment::After(after) => self.work("", Some(*after))?,
        };
        self.restart()?;
        let mut breaches = check::breaches(&self.root, &self.acks, false)?;
        if self.work("", None)? {
            breaches.extend(check::breaches(&self.root, &self.acks, true)?);
        } else {
            breaches.push("done again, it failed".to_owned());
        }
        Ok((!done, breaches))
    }

    /// Everything is as if no workspace had been synced before the machine stopped.
    fn unsync(&self) -> Done<()> {
        let mut dirs = vec![self.root.join("state/runs")];
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(&dir).map_err(|error| error.to_string())?.flatten() {
                match entry.file_name().to_str() {
                    Some("files" | "upper" | "shared") => {}
                    // The kernel's own, which it closes.
                    Some(name) if name.starts_with("work.") => {}
                    Some("synced") => drop(std::fs::remove_file(entry.path())),
                    _ if entry.path().is_dir() => dirs.push(entry.path()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn restart(&mut self) -> Done<()> {
        self.boot += 1;
        self.disk.as_mut().map_or(Ok(()), Disk::restart)
    }

    /// Lets a process work until it is done or stopped; whether it is done.
    fn work(&self, point: &str, after: Option<Duration>) -> Done<bool> {
        let failed = |error: std::io::Error| error.to_string();
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["work", self.how]).arg(&self.root).arg(&self.acks);
        command.arg(format!("boot-{}", self.boot)).arg(point).stdin(Stdio::null());
        if after.is_some() || !point.is_empty() {
            // What a process says of a disk that is gone is nobody's concern.
            command.stderr(Stdio::null());
        }
        let child = command.spawn().map_err(failed)?;
        let pid = Pid::from_child(&child);
        let ended = ending(child);
        let mut status = ended.recv_timeout(after.unwrap_or(ENDS_WITHIN));
        if status.is_err() {
            if self.disk.is_some() {
                power::cut(&self.root).map_err(failed)?;
            }
            let _ = kill_process(pid, Signal::KILL);
            status = ended.recv_timeout(ENDS_WITHIN);
        }
        status.map_err(|_| "it never ended".to_owned()).and_then(|done| done.map_err(failed))
    }
}

/// Tells when a process has ended, and whether well.
fn ending(mut child: Child) -> mpsc::Receiver<std::io::Result<bool>> {
    let (tell, ended) = mpsc::sync_channel(1);
    std::thread::spawn(move || tell.send(child.wait().map(|status| status.success())));
    ended
}
