//! Measures snapshots and workspaces beside plain git, on a generated repository.
//!
//! `cargo run --release -p posse-workspace --example workspaces [FILES [ROUNDS [PART]]]` prints `name value unit` lines:
//! medians of the rounds, with everything in the page cache except in cold-cache measurements. PART `bases` measures only
//! the shared layers, PART `overlays` only workspaces over them.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use posse_files::trees;
use posse_sandbox::{
    BoxedCommand, Exit, InitBinary, Mounts, OBJECTS_SHOWN_AT, Sandbox, SandboxError, SandboxOptions,
};
use posse_workspace::{LocalFiles, RunSpace, WorkspaceOptions};

const DEFAULT_FILES: usize = 10_000;
const DEFAULT_ROUNDS: usize = 7;
const FILES_PER_DIR: usize = 20;
const DIRS_PER_DIR: usize = 50;
/// Files have between this and four times as many lines, as source files often do.
const LINES: usize = 40;
/// The size of an ignored directory.
const IGNORED_BYTES: u64 = 1 << 30;
/// Old enough that no file counts as just changed.
const OLD: Duration = Duration::from_hours(1);

/// Commands that are measured in a sandbox, and how often in each round.
const COMMANDS: [(&str, usize, &[&str]); 4] = [
    ("true", 20, &["true"]),
    ("build", 2, &["sh", "-c", "cc -fsyntax-only -Isource source/*.c"]),
    ("git_status", 2, &["git", "status", "--porcelain"]),
    ("grep", 2, &["grep", "-rc", "--exclude-dir=.git", "a line of file 7", "."]),
];

/// The part of a process that measures one more run of a project.
const SECOND_RUN: &str = "second-run";
/// The same of a run that waits for its model first, as every run does.
const AFTER_MODEL: &str = "second-run-after-model";
/// How long it waits. No model replies sooner.
const MODEL_REPLIES: Duration = Duration::from_millis(200);
/// Number of sources for the command `build`, and of headers that each includes.
const SOURCES: usize = 40;
const HEADERS: usize = 60;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    // The overlays of workspaces are held by this program, started once more.
    posse_sandbox::init();
    let mut args = std::env::args().skip(1);
    let files = args.next().map_or(Ok(DEFAULT_FILES), |files| files.parse())?;
    let rounds = args.next().map_or(Ok(DEFAULT_ROUNDS), |rounds| rounds.parse())?;
    let part = args.next();
    let waits = match part.as_deref() {
        Some(SECOND_RUN) => Some(Duration::ZERO),
        Some(AFTER_MODEL) => Some(MODEL_REPLIES),
        _ => None,
    };
    if let (Some(waits), Some(dir)) = (waits, args.next()) {
        // One of the processes that `second_run` starts.
        return Bench { dir: Path::new(&dir), folder: &Path::new(&dir).join("folder"), rounds }
            .run_again(waits);
    }
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("folder");
    make_repository(&folder, files)?;
    println!("files {files} count");
    let bench = Bench { dir: dir.path(), folder: &folder, rounds };
    match part.as_deref() {
        Some("bases") => {
            bench.new_states()?;
            return bench.second_run();
        }
        Some("overlays") => return bench.workspaces("overlay", &bench.spaces("state")),
        _ => {}
    }
    bench.first_times()?;
    bench.snapshots()?;
    bench.workspaces("overlay", &bench.spaces("state"))?;
    bench.new_states()?;
    bench.second_run()?;
    bench.walks()?;
    bench.ignored()?;
    // Nothing large is removed before the last figure: a disk from which much was just removed is slower.
    bench.worktrees()?;
    let copies = bench.copies("copies");
    bench.workspaces("copy", &copies)?;
    bench.commands(&bench.spaces("state"), &copies)
}

struct Bench<'a> {
    dir: &'a Path,
    folder: &'a Path,
    rounds: usize,
}

impl Bench<'_> {
    /// Workspaces as overlays, with a holder of their own.
    fn spaces(&self, state: &str) -> LocalFiles {
        self.copies(state).with_mounts(Mounts::new(InitBinary::ThisProgram))
    }

    fn copies(&self, state: &str) -> LocalFiles {
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
        let changed = self.folder.join(file(0));
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

    /// Each workspace is measured from its request to the end of the first write in it.
    fn workspaces(&self, kind: &str, spaces: &LocalFiles) -> Outcome<()> {
        let base = spaces.begin("run", self.folder)?.snapshot.commit;
        let space = spaces.open("run")?;
        // The first one lays the base out, where there is one.
        let mut first = vec![timed(|| Ok(space.make("run.first", 1, &base).map(drop)?))?];
        // A disk that still writes the files of the layout would be measured with the rest.
        let synced = Command::new("sync").status()?;
        assert!(synced.success(), "sync failed");
        let (mut made, mut same, mut work) = (Vec::new(), Vec::new(), Vec::new());
        let (mut changed, mut salvage, mut remove) = (Vec::new(), Vec::new(), Vec::new());
        let mut call = Vec::new();
        let mut bytes = 0;
        for round in 0..self.rounds {
            let agent = format!("run.{round}");
            let mut dir = PathBuf::new();
            made.push(timed(|| {
                dir = space.make(&agent, 1, &base)?.dir;
                Ok(fs::write(dir.join(file(1)), agent.as_bytes())?)
            })?);
            bytes = bytes.max(bytes_of(&space, &agent)?);
            space.snapshot(&agent, 1)?;
            same.push(timed(|| Ok(space.snapshot(&agent, 1).map(drop)?))?);
            fs::write(dir.join(file(41)), agent.as_bytes())?;
            call.push(timed(|| Ok(space.commit_call(&agent, 1).map(drop)?))?);
            fs::write(dir.join("new"), agent.as_bytes())?;
            work.push(timed(|| Ok(space.snapshot(&agent, 1).map(drop)?))?);
            fs::write(dir.join(file(21)), agent.as_bytes())?;
            changed.push(timed(|| Ok(space.snapshot(&agent, 1).map(drop)?))?);
            salvage.push(timed(|| Ok(space.salvage(&agent, 1).map(drop)?))?);
        }
        for round in 0..self.rounds {
            remove.push(timed(|| Ok(space.remove(&format!("run.{round}"), 1)?))?);
        }
        say(&format!("{kind}_first"), &mut first);
        say(kind, &mut made);
        println!("{kind}_disk {} KiB", bytes / 1024);
        say(&format!("{kind}_snapshot_same"), &mut same);
        say(&format!("{kind}_snapshot_one_new"), &mut work);
        say(&format!("{kind}_snapshot_one_changed"), &mut changed);
        say(&format!("{kind}_commit_call"), &mut call);
        say(&format!("{kind}_salvage"), &mut salvage);
        say(&format!("{kind}_remove"), &mut remove);
        Ok(())
    }

    /// A workspace of a commit that differs in one file from that of its agent's parent, and is not laid out yet.
    fn new_states(&self) -> Outcome<()> {
        let spaces = self.spaces("state");
        let base = spaces.begin("states", self.folder)?.snapshot.commit;
        let space = spaces.open("states")?;
        let (mut made, mut bytes) = (Vec::new(), Vec::new());
        let parent = space.make("states", 1, &base)?.dir;
        for round in 0..=self.rounds {
            fs::write(parent.join(file(1)), format!("state {round}\n"))?;
            let commit = space.snapshot("states", 1)?.commit;
            let before = trees::bytes_beneath(&self.dir.join("state/projects"))?;
            let time = timed(|| {
                let dir = space.make(&format!("states.{round}"), 1, &commit)?.dir;
                Ok(fs::write(dir.join(file(2)), "first")?)
            })?;
            // The first one loads what the process needs to know of the base.
            if round > 0 {
                made.push(time);
                bytes.push(trees::bytes_beneath(&self.dir.join("state/projects"))? - before);
            }
        }
        say("overlay_of_new_state", &mut made);
        println!("overlay_of_new_state_disk {} KiB", bytes.iter().max().unwrap_or(&0) / 1024);
        Ok(())
    }

    fn worktrees(&self) -> Outcome<()> {
        let mut theirs = Vec::new();
        for round in 0..self.rounds {
            let path = self.dir.join(format!("worktree{round}")).to_string_lossy().into_owned();
            theirs.push(timed(|| git(self.folder, &["worktree", "add", "-q", "--detach", &path]))?);
        }
        say("git_worktree_add", &mut theirs);
        Ok(())
    }

    /// The first write of a run in another process, after the snapshot of the unchanged folder: at once, and after the
    /// first reply of a model.
    fn second_run(&self) -> Outcome<()> {
        let (program, dir) = (std::env::current_exe()?, self.dir.to_string_lossy().into_owned());
        for (part, name) in
            [(SECOND_RUN, "second_run_first_write"), (AFTER_MODEL, "second_run_first_write_after_model")]
        {
            let mut times = Vec::new();
            for _ in 0..self.rounds {
                let again = Command::new(&program).args(["0", "0", part, &dir]).output()?;
                let text = String::from_utf8(again.stdout)?;
                let nanos =
                    text.trim().parse().map_err(|_| String::from_utf8_lossy(&again.stderr).into_owned())?;
                times.push(Duration::from_nanos(nanos));
            }
            say(name, &mut times);
        }
        Ok(())
    }

    /// Prints the time of the first write of one more run of the project.
    fn run_again(&self, waits: Duration) -> Outcome<()> {
        let spaces = self.spaces("state");
        let run = format!("second{}", std::process::id());
        let base = spaces.begin(&run, self.folder)?.snapshot.commit;
        // As the port of the engine does.
        spaces.check_ahead(&run, base);
        let began = Instant::now();
        while let Some(left) = waits.checked_sub(began.elapsed()) {
            std::thread::park_timeout(left);
        }
        let time = timed(|| {
            let dir = spaces.open(&run)?.make(&run, 1, &base)?.dir;
            Ok(fs::write(dir.join(file(1)), "first")?)
        })?;
        println!("{}", time.as_nanos());
        Ok(())
    }

    /// Sandboxed commands in a workspace over the shared layers and in a copy, one after the other, so that other load on
    /// the machine affects both.
    fn commands(&self, overlays: &LocalFiles, copies: &LocalFiles) -> Outcome<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (run, agent) = ("commands", "commands.1");
        let mut spaces = Vec::new();
        for (kind, files) in [("overlay", overlays), ("copy", copies)] {
            let base = files.begin(run, self.folder)?.snapshot.commit;
            let space = files.open(run)?;
            space.make(agent, 1, &base)?;
            spaces.push((kind, space));
        }
        let sandbox = runtime.block_on(async { Sandbox::new(SandboxOptions::default()) });
        for (name, rounds, argv) in COMMANDS {
            let mut times = [Vec::new(), Vec::new()];
            for round in 0..=self.rounds * rounds {
                for ((_, space), times) in spaces.iter().zip(&mut times) {
                    let time = timed(|| sandboxed(&runtime, &sandbox, space, agent, argv))?;
                    // The first one fills caches.
                    times.extend((round > 0).then_some(time));
                }
            }
            for ((kind, _), times) in spaces.iter().zip(&mut times) {
                say(&format!("{kind}_command_{name}"), times);
            }
        }
        Ok(())
    }

    /// A walk of all files with their stats, in a plain directory and in a workspace.
    fn walks(&self) -> Outcome<()> {
        let spaces = self.spaces("state");
        let base = spaces.begin("walks", self.folder)?.snapshot.commit;
        let space = spaces.open("walks")?;
        let dir = space.make("walks", 1, &base)?.dir;
        let (mut plain, mut overlay) = (Vec::new(), Vec::new());
        let mut first = vec![timed(|| walk(&dir))?];
        for _ in 0..self.rounds {
            plain.push(timed(|| walk(self.folder))?);
            overlay.push(timed(|| walk(&dir))?);
        }
        say("walk_plain", &mut plain);
        say("walk_overlay_first", &mut first);
        say("walk_overlay", &mut overlay);
        Ok(())
    }
}

/// Runs a command as the `bash` tool does, and waits for its end.
fn sandboxed(
    runtime: &tokio::runtime::Runtime,
    sandbox: &Sandbox,
    space: &RunSpace,
    agent: &str,
    argv: &[&str],
) -> Outcome<()> {
    let command = BoxedCommand {
        mount: space.mount(agent, 1)?,
        shown: vec![(space.objects_of(agent, 1)?, PathBuf::from(OBJECTS_SHOWN_AT))],
        ..BoxedCommand::isolated(argv.iter().map(ToString::to_string).collect(), space.dir_of(agent, 1))
    };
    let exit = runtime.block_on(async {
        let turn = sandbox.turn().await;
        Ok::<Exit, SandboxError>(sandbox.start(turn, command)?.ended().await?.exit)
    })?;
    if exit == Exit::Code(0) { Ok(()) } else { Err(format!("{argv:?} ended with {exit:?}").into()) }
}

/// Lists all files with their stats.
fn walk(dir: &Path) -> Outcome<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() && entry.file_name() != ".git" {
            walk(&entry.path())?;
        }
    }
    Ok(())
}

/// The disk usage of an agent's workspace.
fn bytes_of(space: &RunSpace, agent: &str) -> Outcome<u64> {
    Ok(trees::bytes_beneath(&space.dir_of(agent, 1).with_file_name(""))?)
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
            let mut dir = PathBuf::new();
            made.push(timed(|| {
                dir = space.make(&agent, 1, &base)?.dir;
                Ok(fs::write(dir.join(file(1)), agent.as_bytes())?)
            })?);
            if dir.join("target").exists() {
                return Err("an ignored directory was copied".into());
            }
        }
        say("overlay_beside_ignored", &mut made);
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
        println!("{name} {:.2} ms", median.as_secs_f64() * 1000.0);
    }
}

/// The path of a file of the repository. Directories are in directories, as in projects of this size.
fn file(number: usize) -> String {
    let dir = number / FILES_PER_DIR;
    format!("g{}/d{dir}/f{number}.txt", dir / DIRS_PER_DIR)
}

/// A repository like a fresh clone: its objects in one pack, its files some time old.
fn make_repository(folder: &Path, files: usize) -> Outcome<()> {
    let time = std::time::SystemTime::now() - OLD;
    for number in 0..files {
        let path = folder.join(file(number));
        if number % FILES_PER_DIR == 0 {
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
        }
        let lines = LINES * (1 + number % 4);
        let text = format!("a line of file {number}\n").repeat(lines);
        fs::write(&path, text)?;
        fs::File::options().write(true).open(&path)?.set_modified(time)?;
    }
    fs::create_dir(folder.join("source"))?;
    let includes: Vec<String> =
        (0..HEADERS).map(|header| format!("#include \"header{header}.h\"\n")).collect();
    let includes = includes.concat();
    for header in 0..HEADERS {
        fs::write(folder.join(format!("source/header{header}.h")), format!("int declared{header}(int);\n"))?;
    }
    for source in 0..SOURCES {
        let text =
            format!("{includes}int made{source}(void) {{ return declared{}(1); }}\n", source % HEADERS);
        fs::write(folder.join(format!("source/source{source}.c")), text)?;
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
