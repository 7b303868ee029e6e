//! Everything that works with a workspace is killed in random histories: the runtime at named points and at random moments,
//! the sandbox of a program, and the holder. A new process opens the run and continues.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use posse_domain::event::FilesCommit;
use posse_sandbox::Mounts;
use posse_workspace::{LocalFiles, ObjectId, RunSpace, WorkspaceOptions, work_ref};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::histories::{
    Step, assert_last_call, assert_whole_walk, carry_out, children_of, dir_of, place, plant, spin, step,
    until, users_of,
};
use crate::kind::init;
use crate::overlays::{another_process, world};
use crate::salvage::on_disk;
use crate::support::{RUN, World, assert_sound, files_of};

/// How many histories are tried: at least one for each point.
const HISTORIES: usize = if option_env!("POSSE_CAMPAIGNS").is_some() { 300 } else { POINTS.len() };
/// The points at which a history can kill its runtime.
const POINTS: [&str; 7] = [
    "workspace.base.before_files",
    "workspace.base.before_rename",
    "workspace.make.before_files",
    "workspace.make.after_files",
    "workspace.make.after_ref",
    "workspace.snapshot.before_pack",
    "workspace.snapshot.after_pack",
];
/// The latest of the random moments, from the end of a step.
const MOMENT_MAX_US: u64 = 4_000;

/// The mode and the content of a file.
type Content = (String, Vec<u8>);
/// Files as a test compares them.
type Files = BTreeMap<Vec<u8>, Content>;

/// What a runtime is asked to do.
#[derive(Serialize, Deserialize)]
struct Order {
    root: PathBuf,
    base: ObjectId,
    steps: Vec<Step>,
    /// The first step that is not done yet.
    from: usize,
    /// The point at whose first passing it dies.
    dies_at: Option<String>,
    calls: Vec<JournalledCall>,
}

/// The commit of a call as a journal has it.
#[derive(Clone, Serialize, Deserialize)]
struct JournalledCall {
    commit: ObjectId,
    follows: ObjectId,
    onto: Option<ObjectId>,
    pack: Option<Vec<u8>>,
}

impl JournalledCall {
    fn of(call: &FilesCommit) -> Self {
        let pack = call.pack.as_ref().and_then(|pack| pack.bytes()).map(|bytes| bytes.to_vec());
        Self { commit: call.commit, follows: call.follows, onto: call.onto, pack }
    }

    fn files_commit(&self) -> FilesCommit {
        let pack = self.pack.clone().map(Into::into);
        FilesCommit { commit: self.commit, follows: self.follows, onto: self.onto, pack }
    }
}

/// What a runtime reports after each step: nothing of it may be lost afterwards.
#[derive(Serialize, Deserialize)]
struct Report {
    /// How many steps are done.
    done: usize,
    files: Vec<(Vec<u8>, Content)>,
    /// The calls since the last snapshot.
    calls: Vec<JournalledCall>,
    tip: Option<ObjectId>,
}

/// Opens the workspace as a resumed run does: what a machine crash took of finished calls is restored first.
fn resume(space: &RunSpace, base: &ObjectId, journal: &[JournalledCall]) -> PathBuf {
    let commits: Vec<FilesCommit> = journal.iter().map(JournalledCall::files_commit).collect();
    let lost = space.lost_calls(RUN, 1, &commits).expect("compared");
    let with_pack = |call: FilesCommit| {
        let pack = call.pack.as_ref().and_then(|pack| pack.bytes()).map(|bytes| bytes.to_vec());
        (call, pack.unwrap_or_default())
    };
    let lost: Vec<(FilesCommit, Vec<u8>)> = lost.into_iter().map(with_pack).collect();
    space.restore_calls(RUN, 1, &lost).expect("restored");
    dir_of(space, base)
}

/// Not a test: the runtime of the tests here.
#[test]
#[ignore = "is started by other tests"]
fn runtime_process() {
    let mut order = String::new();
    std::io::stdin().read_line(&mut order).expect("an order");
    let order: Order = serde_json::from_str(&order).expect("an order");
    let passed = AtomicU32::new(0);
    let faults = move |point: &'static str| {
        if order.dies_at.as_deref() == Some(point) && passed.fetch_add(1, Ordering::Relaxed) == 0 {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    };
    let options = WorkspaceOptions {
        home: Some(order.root.join("home")),
        faults: Some(Arc::new(faults)),
        ..WorkspaceOptions::default()
    };
    let mounts = Mounts::new(init());
    let files = LocalFiles::new(&order.root.join("state"), options).with_mounts(mounts.clone());
    let space = files.open(RUN).expect("opened");
    let mut calls: Vec<FilesCommit> = order.calls.iter().map(JournalledCall::files_commit).collect();
    resume(&space, &order.base, &order.calls);
    for done in order.from..=order.steps.len() {
        let report = Report {
            done,
            files: on_disk(&dir_of(&space, &order.base)).into_iter().collect(),
            calls: calls.iter().map(JournalledCall::of).collect(),
            tip: space.read_ref(&work_ref(RUN, 1)).expect("read"),
        };
        println!("@{}", serde_json::to_string(&report).expect("JSON"));
        let Some(step) = order.steps.get(done) else { break };
        carry_out(&mounts, &space, &order.base, step, &mut calls);
        if let Step::KilledProgram(_) = step {
            let dir = dir_of(&space, &order.base);
            assert_whole_walk(&space, &dir, &order.root.join("home"), &order.root.join("whole"));
            calls.clear();
        }
    }
}

/// When a runtime is killed.
#[derive(Debug, Clone, Copy)]
enum Death {
    At(&'static str),
    /// After this many reports, and this time after the last of them.
    After(usize, Duration),
    Never,
}

/// How a runtime ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Killed,
    Done,
}

/// A history, and what was reported of it.
struct History {
    world: World,
    base: ObjectId,
    steps: Vec<Step>,
    done: usize,
    files: Files,
    calls: Vec<JournalledCall>,
    tip: Option<ObjectId>,
    /// The most processes that were seen to use its files.
    users_max: usize,
}

impl History {
    fn new(steps: Vec<Step>) -> Self {
        let (world, _) = world();
        plant(&world);
        let (begun, space) = world.begin();
        let base = begun.snapshot.commit;
        let files = files_of(&space, &base);
        Self { world, base, steps, done: 0, files, calls: Vec::new(), tip: None, users_max: 0 }
    }

    fn root(&self) -> PathBuf {
        self.world.folder().parent().expect("the directory of the test").to_owned()
    }

    /// Lets a new runtime continue until it is done or killed.
    fn go_on(&mut self, death: Death) -> End {
        let order = Order {
            root: self.root(),
            base: self.base,
            steps: self.steps.clone(),
            from: self.done,
            dies_at: if let Death::At(point) = death { Some(point.to_owned()) } else { None },
            calls: self.calls.clone(),
        };
        let said = self.root().join("stderr");
        let mut child = Command::new("/proc/self/exe")
            .args(["killed::runtime_process", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&said).expect("created"))
            .spawn()
            .expect("a process");
        let order = serde_json::to_string(&order).expect("JSON");
        writeln!(child.stdin.take().expect("its input"), "{order}").expect("told");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut reports = 0;
        for line in output.lines() {
            // A line that a kill cut off is no report.
            let line = line.expect("read");
            let Some(report) = line.split_once('@').and_then(|(_, text)| serde_json::from_str(text).ok())
            else {
                continue;
            };
            self.take(report, reports == 0);
            reports += 1;
            self.users_max = self.users_max.max(if reports == 1 { users_of(&self.root()).len() } else { 0 });
            if let Death::After(count, moment) = death
                && count == reports
            {
                spin(moment);
                child.kill().expect("killed");
            }
        }
        let status = child.wait().expect("it ended");
        let was_killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        assert!(status.success() || was_killed, "{}", fs::read_to_string(said).expect("read"));
        self.assert_free();
        if was_killed { End::Killed } else { End::Done }
    }

    fn take(&mut self, report: Report, is_first: bool) {
        let files: Files = report.files.into_iter().collect();
        if is_first {
            assert_eq!(files, self.files, "what the last runtime left, before step {}", report.done);
        }
        (self.done, self.files, self.calls, self.tip) = (report.done, files, report.calls, report.tip);
    }

    /// Nothing of a runtime that has ended is mounted, open or locked, and no process of it is left.
    fn assert_free(&self) {
        // A thread of this process, and its holder, may still be about to sync what the last look has committed.
        let own = std::process::id();
        let others = |pid: u32| pid != own && !children_of(own).contains(&pid);
        until("nothing is held", || !users_of(&self.root()).into_iter().any(others));
        let lock = another_process(&self.world).dir_of(RUN, 1).with_file_name("lock");
        if let Ok(lock) = fs::File::open(lock) {
            flock(lock, FlockOperation::NonBlockingLockExclusive).expect("the lock is free");
        }
    }

    /// Looks at what a runtime left that was killed, or done, after its last report. Returns whether all files could be
    /// compared with those that it had reported.
    fn check(&mut self, end: &End) -> bool {
        let in_flight = self.steps.get(self.done).filter(|_| *end == End::Killed);
        let space = another_process(&self.world);
        let dir = resume(&space, &self.base, &self.calls);
        let touched = in_flight.map_or_else(|| Some(BTreeSet::new()), |step| self.touched_by(step));
        let found = on_disk(&dir);
        if let Some(touched) = &touched {
            let untouched = |files: &Files| -> Files {
                let is_touched = |path: &[u8]| touched.iter().any(|place| is_beneath(path, place.as_bytes()));
                files.clone().into_iter().filter(|(path, _)| !is_touched(path)).collect()
            };
            assert_eq!(untouched(&found), untouched(&self.files), "{in_flight:?} was under way");
        }
        let taken = assert_whole_walk(&space, &dir, &self.world.home(), &self.world.elsewhere("whole"));
        if let Some(tip) = self.tip {
            let is_kept = ["merge-base", "--is-ancestor", &tip.to_string(), &taken.to_string()];
            assert_eq!(space.git().ask(&is_kept, &[]).expect("git runs").code, Some(0), "{tip} is lost");
        }
        let since_call = self.steps[..self.done].iter().rev().take_while(|step| !matches!(step, Step::Call));
        if since_call.chain(in_flight).all(|step| !changes(step)) {
            let calls: Vec<FilesCommit> = self.calls.iter().map(JournalledCall::files_commit).collect();
            assert_last_call(&space, &calls, &taken);
        }
        assert_sound(&space);
        (self.files, self.tip) = (found, Some(taken));
        // The snapshot is newer than they are.
        self.calls.clear();
        space.release(RUN, 1);
        touched.is_some()
    }

    /// The places that a step may have changed in part; `None` if it may have reached others through a link.
    fn touched_by(&self, step: &Step) -> Option<BTreeSet<&'static str>> {
        let places: BTreeSet<&'static str> = match step {
            Step::Write(path, _) | Step::Append(path, _) | Step::Mode(path, _) | Step::Link(path, _) => {
                [place(*path)].into()
            }
            Step::Remove(path) | Step::RemoveTree(path) | Step::MakeDir(path) => [place(*path)].into(),
            Step::Rename(from, to) | Step::HardLink(from, to) => [place(*from), place(*to)].into(),
            Step::Ignore(_) => ["d/.gitignore"].into(),
            Step::Program(path) => ["x", place(*path)].into(),
            Step::KilledProgram(path) => ["x", "n", place(*path)].into(),
            Step::Call | Step::Snapshot | Step::Unmount | Step::KillHolder => return Some(BTreeSet::new()),
        };
        let is_link = |path: &Vec<u8>| self.files.get(path).is_some_and(|(mode, _)| mode == "120000");
        let leads_on = |link: &Vec<u8>| places.iter().any(|place| is_beneath(place.as_bytes(), link));
        let through_link = self.files.keys().any(|path| is_link(path) && leads_on(path));
        let are_hard_links = self.steps[..self.done].iter().any(|step| matches!(step, Step::HardLink(..)));
        (!through_link && !are_hard_links).then_some(places)
    }
}

fn is_beneath(path: &[u8], place: &[u8]) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Whether a step can change files.
fn changes(step: &Step) -> bool {
    !matches!(step, Step::Call | Step::Snapshot | Step::Unmount | Step::KillHolder)
}

/// A step of these histories, in which the sandbox is killed too.
fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![12 => step(), 1 => any::<u8>().prop_map(Step::KilledProgram)]
}

#[test]
fn whatever_is_killed_in_a_history_no_finished_call_is_lost() {
    // The same histories every time, so that a change fails by its own doing.
    let mut runner = TestRunner::deterministic();
    let mut draw = |max: u64| (0..max).new_tree(&mut runner).expect("drawn").current();
    let mut runner = TestRunner::deterministic();
    let mut ended = Vec::new();
    let (mut died_at, mut at_moments, mut sandboxes, mut compared) = (BTreeSet::new(), 0, 0, 0);
    for number in 0..HISTORIES {
        let steps = prop::collection::vec(any_step(), 6..24).new_tree(&mut runner).expect("drawn").current();
        // One that passes every point, and one whose program is killed.
        let last =
            [Step::KilledProgram(u8::try_from(draw(256)).expect("a byte")), Step::Ignore(0), Step::Snapshot];
        let steps: Vec<Step> = steps.into_iter().chain(last).collect();
        sandboxes += steps.iter().filter(|step| matches!(step, Step::KilledProgram(_))).count();
        let mut history = History::new(steps);
        let point = POINTS[number % POINTS.len()];
        let moment = Death::After(
            usize::try_from(1 + draw(8)).expect("small"),
            Duration::from_micros(draw(MOMENT_MAX_US)),
        );
        for death in [Death::At(point), moment, Death::Never] {
            let end = history.go_on(death);
            compared += usize::from(history.check(&end));
            match (death, &end) {
                (Death::At(point), End::Killed) => drop(died_at.insert(point)),
                (Death::After(..), End::Killed) => at_moments += 1,
                _ => {}
            }
        }
        assert_eq!(history.done, history.steps.len(), "all of it is done in the end");
        assert!(history.users_max > 1, "neither a runtime nor a holder was seen to hold anything");
        ended.push(history);
    }
    println!(
        "{HISTORIES} histories: died at {died_at:?}, at {at_moments} moments, {sandboxes} sandboxes, {compared} compared"
    );
    assert_eq!(died_at.len(), POINTS.len(), "{died_at:?}");
    assert!(at_moments * 2 > HISTORIES, "{at_moments} kills at random moments");
    assert!(sandboxes >= HISTORIES && compared > HISTORIES, "{sandboxes} {compared}");
}
