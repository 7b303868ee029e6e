//! Measures the cost of sandboxed programs, of an endless output and of searches, beside plain programs.
//!
//! `hands DIR [--quick] [--rg PATH] [--fd PATH]` prints figures as JSON; `cargo xtask bench` explains them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use posse_files::{DirHandle, GlobPattern, GrepQuery, RelPath, Stop};
use posse_sandbox::process::OutputLimits;
use posse_sandbox::{BoxedCommand, Limits, Sandbox, SandboxOptions};
use serde_json::{Value, json};

/// A user without files.
const ORDINARY: u32 = 65_534;
/// The resident size of the large runtime process.
const RESIDENT_BYTES: usize = 1 << 30;
/// How much a program prints.
const PRINTED_BYTES: u64 = 1 << 30;

type Fallible<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Fallible<()> {
    posse_sandbox::init();
    let asked = Options::parse(std::env::args().skip(1))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut figures = json!({ "boxes": runtime.block_on(boxes(&asked))? });
    if !asked.boxes_only {
        figures["ordinary"] = as_ordinary(&asked)?;
        figures["output"] = runtime.block_on(output(&asked))?;
        figures["search"] = search(&asked)?;
    }
    println!("{figures}");
    Ok(())
}

struct Options {
    dir: PathBuf,
    quick: bool,
    boxes_only: bool,
    rg: Option<PathBuf>,
    fd: Option<PathBuf>,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Fallible<Self> {
        let dir = PathBuf::from(args.next().ok_or("where? hands DIR")?);
        let mut asked = Self { dir, quick: false, boxes_only: false, rg: None, fd: None };
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => asked.quick = true,
                "--boxes" => asked.boxes_only = true,
                "--rg" => asked.rg = args.next().map(PathBuf::from),
                "--fd" => asked.fd = args.next().map(PathBuf::from),
                other => return Err(format!("unknown argument {other}").into()),
            }
        }
        Ok(asked)
    }

    fn workspace(&self) -> Fallible<tempfile::TempDir> {
        Ok(tempfile::tempdir_in(&self.dir)?)
    }
}

/// The median time of a sandboxed `true` beside a plain `true`, from a small and from a large process.
async fn boxes(asked: &Options) -> Fallible<Value> {
    let workspace = asked.workspace()?;
    let sandbox = Sandbox::new(SandboxOptions::default());
    let level = sandbox.level().await?.to_string();
    let rounds = if asked.quick { 20 } else { 200 };
    let small = compare(&sandbox, workspace.path(), rounds).await?;
    let ballast = if asked.quick { Vec::new() } else { vec![1_u8; RESIDENT_BYTES] };
    let large = compare(&sandbox, workspace.path(), rounds).await?;
    let resident_mb = resident_kb() / 1024;
    drop(ballast);
    Ok(json!({ "level": level, "small": small, "large": large, "large_resident_mb": resident_mb }))
}

async fn compare(sandbox: &Sandbox, workspace: &Path, rounds: usize) -> Fallible<Value> {
    let (mut plain, mut boxed) = (Vec::new(), Vec::new());
    // Alternating, so that other load on the machine affects both.
    for _ in 0..rounds {
        let began = Instant::now();
        Command::new("/bin/true").stdin(Stdio::null()).status()?;
        plain.push(began.elapsed());
        let began = Instant::now();
        let turn = sandbox.turn().await;
        sandbox.start(turn, command(workspace, &["/bin/true"], None))?.ended().await?;
        boxed.push(began.elapsed());
    }
    let (plain, boxed) = (median_ms(plain), median_ms(boxed));
    Ok(json!({ "plain_ms": plain, "boxed_ms": boxed, "more_ms": boxed - plain }))
}

fn command(workspace: &Path, argv: &[&str], spill: Option<PathBuf>) -> BoxedCommand {
    BoxedCommand {
        // As many as in a real project.
        protected: (0..100).map(|number| format!(".protected-{number}")).chain([".git".to_owned()]).collect(),
        output: OutputLimits { head_bytes: 12 << 10, tail_bytes: 20 << 10, spill, spill_bytes: 64 << 20 },
        read_only: false,
        ..BoxedCommand::in_folder(argv.iter().map(ToString::to_string).collect(), workspace)
    }
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}

/// The same as a user without privileges; null if this process may not change its user.
fn as_ordinary(asked: &Options) -> Fallible<Value> {
    let dir = tempfile::tempdir()?;
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
    let own = dir.path().join("own");
    fs::create_dir(&own)?;
    let binary = dir.path().join("hands");
    fs::copy("/proc/self/exe", &binary)?;
    if std::os::unix::fs::chown(&own, Some(ORDINARY), Some(ORDINARY)).is_err() {
        return Ok(Value::Null);
    }
    let mut command = Command::new(&binary);
    command.arg(&own).arg("--boxes").uid(ORDINARY).gid(ORDINARY);
    if asked.quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output()?;
    let figures: Value = serde_json::from_slice(&output.stdout)?;
    Ok(figures["boxes"].clone())
}

/// Measures a program that prints very much while other programs use the machine.
async fn output(asked: &Options) -> Fallible<Value> {
    let bytes = if asked.quick { PRINTED_BYTES / 64 } else { PRINTED_BYTES };
    let workspace = asked.workspace()?;
    let sandbox = Sandbox::new(SandboxOptions { limits: Limits::default(), ..SandboxOptions::default() });
    sandbox.level().await?;
    let turn = sandbox.turn().await;
    let script = format!("yes 0123456789012345678901234567890123456789 | head -c {bytes}");
    let spill = workspace.path().join("spill");
    let before = resident_kb();
    let began = Instant::now();
    let mut running =
        sandbox.start(turn, command(workspace.path(), &["/bin/sh", "-c", &script], Some(spill)))?;
    let (mut grown, mut latest) = (0, Duration::ZERO);
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let ended = loop {
        let due = Instant::now();
        tokio::select! {
            biased;
            ended = running.ended() => break ended?,
            _ = tick.tick() => {
                latest = latest.max(due.elapsed().saturating_sub(Duration::from_millis(5)));
                grown = grown.max(resident_kb().saturating_sub(before));
            }
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    Ok(json!({
        "bytes": ended.output.total,
        "grown_mb": Value::from(grown / 1024),
        "seconds": seconds,
        "others_latest_ms": latest.as_secs_f64() * 1e3,
    }))
}

fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse().ok()).unwrap_or(0)
}

/// Measures searches of a tree with many files, alternating with the programs that users run for it.
fn search(asked: &Options) -> Fallible<Value> {
    let workspace = asked.workspace()?;
    let files = if asked.quick { 2_000 } else { 50_000 };
    plant(workspace.path(), files)?;
    let beneath = DirHandle::open(workspace.path())?;
    let stop = Stop::new();
    let query = GrepQuery { pattern: "needle_[0-9]+".to_owned(), max_results: 1_000, ..GrepQuery::default() };
    let rounds = if asked.quick { 3 } else { 15 };
    let beside =
        |program: Option<&PathBuf>, args: &[&str], own: &dyn Fn() -> Fallible<()>| -> Fallible<Value> {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let began = Instant::now();
                own()?;
                ours.push(began.elapsed());
                if let Some(program) = program {
                    let began = Instant::now();
                    let mut command = Command::new(program);
                    command.args(args).current_dir(workspace.path()).stdout(Stdio::null()).status()?;
                    theirs.push(began.elapsed());
                }
            }
            let (ours, theirs) = (median_ms(ours), median_ms(theirs));
            Ok(json!({ "own_ms": ours, "their_ms": theirs, "ratio": ours / theirs }))
        };
    let grep = || Ok(beneath.grep(&query, &stop).map(drop)?);
    let pattern = GlobPattern::parse(&RelPath::root(), "**/*.rs")?;
    let glob = || Ok(beneath.glob(&pattern, 1_000, &stop).map(drop)?);
    let wide = RelPath::parse("wide")?;
    let list = || Ok(beneath.list(&wide).map(drop)?);
    Ok(json!({
        "files": files,
        "grep": beside(asked.rg.as_ref(), &["-n", "needle_[0-9]+"], &grep)?,
        "glob": beside(asked.fd.as_ref(), &["-g", "*.rs"], &glob)?,
        "list": beside(asked.fd.as_ref(), &["--max-depth", "1", ".", "wide"], &list)?,
    }))
}

/// One directory has a thousand files, the others fifty each. One file in a hundred has the line that is searched.
fn plant(dir: &Path, files: usize) -> Fallible<()> {
    fs::create_dir(dir.join("wide"))?;
    for number in 0..1_000 {
        fs::write(dir.join(format!("wide/file{number}")), "")?;
    }
    let body = "fn main() { println!(\"nothing here\"); }\n".repeat(40);
    for number in 0..files {
        let dir = dir.join(format!("d{}", number / 2_500)).join(format!("e{}", number / 50));
        if number % 50 == 0 {
            fs::create_dir_all(&dir)?;
        }
        let ending = if number % 2 == 0 { "rs" } else { "txt" };
        let found = if number % 100 == 0 { format!("let needle_{number} = 1;\n") } else { String::new() };
        fs::write(dir.join(format!("file{number}.{ending}")), format!("{body}{found}"))?;
    }
    Ok(())
}
