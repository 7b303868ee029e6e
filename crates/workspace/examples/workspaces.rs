//! Measures snapshots and workspaces beside plain git, on a generated repository.
//!
//! `cargo run --release -p posse-workspace --example workspaces [FILES [ROUNDS]]` prints `name value unit` lines:
//! medians of the rounds, with everything in the page cache except in cold-cache measurements.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use posse_workspace::{LocalFiles, WorkspaceOptions};

const DEFAULT_FILES: usize = 10_000;
const DEFAULT_ROUNDS: usize = 7;
const FILES_PER_DIR: usize = 20;
/// Files have between this and four times as many lines, as source files often do.
const LINES: usize = 40;
/// The size of an ignored directory.
const IGNORED_BYTES: u64 = 1 << 30;
/// Old enough that no file counts as just changed.
const OLD: Duration = Duration::from_hours(1);

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let files = args.next().map_or(Ok(DEFAULT_FILES), |files| files.parse())?;
    let rounds = args.next().map_or(Ok(DEFAULT_ROUNDS), |rounds| rounds.parse())?;
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("folder");
    make_repository(&folder, files)?;
    println!("files {files} count");
    let bench = Bench { dir: dir.path(), folder: &folder, rounds };
    bench.first_times()?;
    bench.snapshots()?;
    bench.workspaces()?;
    bench.ignored()
}

struct Bench<'a> {
    dir: &'a Path,
    folder: &'a Path,
    rounds: usize,
}

impl Bench<'_> {
    fn spaces(&self, state: &str) -> LocalFiles {
        LocalFiles::new(&self.dir.join(state), WorkspaceOptions::default())
    }

    /// Each round has its own state directory.
    fn first_times(&self) -> Outcome<()> {
        let mut times = Vec::new();
        for round in 0..self.rounds {
            let state = format!("first{round}");
            times.push(timed(|| Ok(self.spaces(&state).begin("run", self.folder).map(drop)?))?);
            fs::remove_dir_all(self.dir.join(&state))?;
        }
        say("snapshot_first", &mut times);
        Ok(())
    }

    fn snapshots(&self) -> Outcome<()> {
        let spaces = self.spaces("state");
        spaces.begin("warmup", self.folder)?;
        let (mut clean, mut status, mut one) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let run = format!("clean{round}");
            clean.push(timed(|| Ok(spaces.begin(&run, self.folder).map(drop)?))?);
            status.push(timed(|| git(self.folder, &["status", "--porcelain"]))?);
        }
        let changed = self.folder.join("d0/f0.txt");
        let before = fs::read(&changed)?;
        for round in 0..self.rounds {
            fs::write(&changed, format!("changed in round {round}\n"))?;
            let run = format!("one{round}");
            one.push(timed(|| Ok(spaces.begin(&run, self.folder).map(drop)?))?);
        }
        fs::write(&changed, before)?;
        say("snapshot_warm", &mut clean);
        say("snapshot_warm_one_changed", &mut one);
        say("git_status", &mut status);
        Ok(())
    }

    fn workspaces(&self) -> Outcome<()> {
        let spaces = self.spaces("state");
        let begun = spaces.begin("run", self.folder)?;
        let space = spaces.open("run")?;
        let base = begun.snapshot.commit;
        let (mut made, mut same, mut work) = (Vec::new(), Vec::new(), Vec::new());
        let (mut salvage, mut remove, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let agent = format!("run.{round}");
            made.push(timed(|| Ok(space.make(&agent, 1, &base).map(drop)?))?);
            let tree: PathBuf = self.dir.join(format!("worktree{round}"));
            let path = tree.to_string_lossy().into_owned();
            theirs.push(timed(|| git(self.folder, &["worktree", "add", "-q", "--detach", &path]))?);
            space.snapshot(&agent, 1)?;
            same.push(timed(|| Ok(space.snapshot(&agent, 1).map(drop)?))?);
            fs::write(space.dir_of(&agent, 1).join("new"), agent.as_bytes())?;
            work.push(timed(|| Ok(space.snapshot(&agent, 1).map(drop)?))?);
            salvage.push(timed(|| Ok(space.salvage(&agent, 1).map(drop)?))?);
            remove.push(timed(|| Ok(space.remove(&agent, 1)?))?);
            git(self.folder, &["worktree", "remove", "--force", &path])?;
        }
        say("workspace", &mut made);
        say("git_worktree_add", &mut theirs);
        say("workspace_snapshot_same", &mut same);
        say("workspace_snapshot_one_new", &mut work);
        say("salvage", &mut salvage);
        say("remove", &mut remove);
        Ok(())
    }
}

impl Bench<'_> {
    /// A workspace beside a large ignored directory, which is a sparse file.
    fn ignored(&self) -> Outcome<()> {
        fs::create_dir_all(self.folder.join("target"))?;
        fs::File::create(self.folder.join("target/large"))?.set_len(IGNORED_BYTES)?;
        let spaces = self.spaces("state");
        let base = spaces.begin("beside", self.folder)?.snapshot.commit;
        let space = spaces.open("beside")?;
        let mut made = Vec::new();
        for round in 0..self.rounds {
            let agent = format!("beside.{round}");
            made.push(timed(|| Ok(space.make(&agent, 1, &base).map(drop)?))?);
            if space.dir_of(&agent, 1).join("target").exists() {
                return Err("an ignored directory was copied".into());
            }
        }
        say("workspace_beside_ignored", &mut made);
        Ok(())
    }
}

fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn say(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    if let Some(median) = times.get(times.len() / 2) {
        println!("{name} {:.1} ms", median.as_secs_f64() * 1000.0);
    }
}

/// A repository like a fresh clone: its objects in one pack, its files some time old.
fn make_repository(folder: &Path, files: usize) -> Outcome<()> {
    let time = std::time::SystemTime::now() - OLD;
    for number in 0..files {
        let dir = folder.join(format!("d{}", number / FILES_PER_DIR));
        if number % FILES_PER_DIR == 0 {
            fs::create_dir_all(&dir)?;
        }
        let lines = LINES * (1 + number % 4);
        let text = format!("a line of file {number}\n").repeat(lines);
        let path = dir.join(format!("f{number}.txt"));
        fs::write(&path, text)?;
        fs::File::options().write(true).open(&path)?.set_modified(time)?;
    }
    fs::write(folder.join(".gitignore"), "target/\n*.log\n")?;
    git(folder, &["init", "-q"])?;
    git(folder, &["add", "-A"])?;
    git(folder, &["commit", "-q", "-m", "all"])?;
    git(folder, &["gc", "-q"])?;
    // Refreshed later, so that the index is younger than the files.
    git(folder, &["update-index", "-q", "--refresh"])
}

fn git(dir: &Path, args: &[&str]) -> Outcome<()> {
    let mut command = Command::new("git");
    command
        .current_dir(dir)
        .args(["-c", "user.name=Bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"])
        .args(args);
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}
