//! Measures merging: ten children of a repository of 10,000 files, or of as many hundreds as the first argument says,
//! beside plain git in the same run.
//!
//! Prints `name value unit` lines, medians where there are several values.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use posse_engine::ports::Merge;
use posse_sandbox::{InitBinary, Mounts};
use posse_workspace::{LocalFiles, ObjectId, RunSpace, TreeMerge, WorkspaceOptions};

/// Default number of directories. Each child changes one of them, so there are at least as many as children.
const DIRS: usize = 100;
const FILES_PER_DIR: usize = 100;
const CHILDREN: usize = 10;
const RUN: &str = "bench";

type AnyError = Box<dyn Error>;

fn main() -> Result<(), AnyError> {
    // The overlays of workspaces are held by this program, started once more.
    posse_sandbox::init();
    let dirs = std::env::args().nth(1).map_or(Ok(DIRS), |dirs| dirs.parse())?;
    let top = tempfile::tempdir()?;
    let project = top.path().join("project");
    make_project(&project, dirs)?;
    let spaces = LocalFiles::new(&top.path().join("state"), WorkspaceOptions::default())
        .with_mounts(Mounts::new(InitBinary::ThisProgram));
    let base = spaces.begin(RUN, &project)?.snapshot.commit;
    let space = spaces.open(RUN)?;
    space.make(RUN, 1, &base)?;
    let mut children = Vec::new();
    for child in 0..CHILDREN {
        let agent = format!("{RUN}.{child}");
        let dir = space.make(&agent, 1, &base)?.dir;
        for file in 0..3 {
            fs::write(dir.join(format!("d{child}/f{file}")), format!("child {child}\n"))?;
        }
        fs::write(dir.join(format!("d{child}/new")), "new\n")?;
        children.push(space.snapshot(&agent, 1)?.commit);
    }
    let (mut gates, mut updates) = (Vec::new(), Vec::new());
    let mut ours = base;
    let all = Instant::now();
    for (child, theirs) in children.iter().enumerate() {
        let (gate, update, next) = integrate(&space, child, ours, base, *theirs)?;
        gates.push(gate);
        updates.push(update);
        ours = next;
    }
    report("integrate_ten", all.elapsed());
    report("integrate_one_file", one_file(&space, ours)?);
    report("merge_gate", median(&mut gates));
    report("update", median(&mut updates));
    report("git_merge_tree", median(&mut plain(&space, base, &children)?));
    Ok(())
}

/// Merges a child that changed one file and updates the root's workspace, the median of all children.
fn one_file(space: &RunSpace, base: ObjectId) -> Result<Duration, AnyError> {
    let (mut times, mut ours) = (Vec::new(), base);
    for child in 0..CHILDREN {
        let agent = format!("{RUN}.{}", CHILDREN + child);
        let dir = space.make(&agent, 1, &base)?.dir;
        fs::write(dir.join(format!("d{child}/f0")), format!("only child {child}\n"))?;
        let theirs = space.snapshot(&agent, 1)?.commit;
        let (gate, update, next) = integrate(space, child, ours, base, theirs)?;
        times.push(gate + update);
        ours = next;
    }
    Ok(median(&mut times))
}

/// Merges one child and updates the root's workspace.
fn integrate(
    space: &RunSpace,
    child: usize,
    ours: ObjectId,
    base: ObjectId,
    theirs: ObjectId,
) -> Result<(Duration, Duration, ObjectId), AnyError> {
    let request = TreeMerge {
        ours,
        base,
        theirs,
        owns: vec![format!("d{child}/**")],
        protected: vec![".git".to_owned(), ".github/workflows".to_owned()],
        opened: Vec::new(),
        message: format!("posse: merge of {RUN}.{child}"),
    };
    let began = Instant::now();
    let Some(Merge::Merged { commit, .. }) = space.merge(&request)? else { return Err("not merged".into()) };
    let gate = began.elapsed();
    let began = Instant::now();
    space.update(RUN, 1, &ours, &commit)?;
    Ok((gate, began.elapsed(), commit))
}

/// The same merges by git alone, without gate, commit or update.
fn plain(space: &RunSpace, base: ObjectId, children: &[ObjectId]) -> Result<Vec<Duration>, AnyError> {
    let mut times = Vec::new();
    for theirs in children {
        let began = Instant::now();
        let args = [format!("--merge-base={base}"), base.to_string(), theirs.to_string()];
        let mut git = Command::new("git");
        let git = git.current_dir(space.git().git_dir()).args(["merge-tree", "--write-tree"]).args(args);
        if !git.output()?.status.success() {
            return Err("git did not merge".into());
        }
        times.push(began.elapsed());
    }
    Ok(times)
}

fn make_project(dir: &Path, dirs: usize) -> Result<(), AnyError> {
    for number in 0..dirs {
        let dir = dir.join(format!("d{number}"));
        fs::create_dir_all(&dir)?;
        for file in 0..FILES_PER_DIR {
            fs::write(dir.join(format!("f{file}")), format!("{number} {file}\n").repeat(20))?;
        }
    }
    for args in [&["init", "-q"][..], &["add", "-A"], &["commit", "-q", "-m", "first"]] {
        let mut git = Command::new("git");
        git.current_dir(dir).args(["-c", "user.name=T", "-c", "user.email=t@example.com"]).args(args);
        if !git.status()?.success() {
            return Err("git could not make the project".into());
        }
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn report(name: &str, time: Duration) {
    println!("{name} {:.1} ms", time.as_secs_f64() * 1000.0);
}
