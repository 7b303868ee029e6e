//! Random histories of file operations in an overlay, and what must hold after each.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posse_domain::event::FilesCommit;
use posse_engine::ports::DiffOptions;
use posse_sandbox::{BoxedCommand, Mounts, OBJECTS_SHOWN_AT, Sandbox, SandboxError, SandboxOptions};
use posse_workspace::{ObjectId, RunSpace};
use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::kind::init;
use crate::overlays::{kill_holder, run_in};
use crate::salvage::on_disk;
use crate::support::{RUN, World, files_of, git_in};

/// What never happens is given up after this time.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The files that histories begin with.
pub(crate) fn plant(world: &World) {
    for name in ["a", "b", "d/e", "d/f", "d/g/h", "d/g/i"] {
        world.write(name, name);
    }
    world.commit_all();
}

/// Waits for something that no event reports, such as the end of a process that is not a child.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "still not: {what}");
        std::thread::yield_now();
    }
}

/// The processes with an open file, a mount or their working directory beneath a directory.
pub(crate) fn users_of(dir: &Path) -> Vec<u32> {
    let text = dir.to_str().expect("UTF-8");
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let own = namespace(Path::new("/proc/self"));
    let uses = |process: &Path| {
        // No workspace is mounted where this process is.
        let is_own = namespace(process) == own;
        let mounts = if is_own { None } else { fs::read_to_string(process.join("mountinfo")).ok() };
        let mounts = mounts.unwrap_or_default();
        let opened = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|fd| fd.path());
        let mut links = opened.chain([process.join("cwd")]);
        mounts.contains(text) || links.any(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(dir)))
    };
    let processes = fs::read_dir("/proc").expect("listed").flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        uses(&entry.path()).then_some(pid)
    });
    processes.collect()
}

/// One step of a history.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Step {
    Write(u8, u8),
    Append(u8, u8),
    Remove(u8),
    RemoveTree(u8),
    MakeDir(u8),
    Rename(u8, u8),
    Link(u8, u8),
    HardLink(u8, u8),
    Mode(u8, bool),
    Ignore(u8),
    /// By a program in the sandbox.
    Program(u8),
    /// By a program whose sandbox is killed in the middle of it.
    KilledProgram(u8),
    /// The end of a call, after which what changed is committed.
    Call,
    Snapshot,
    Unmount,
    KillHolder,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (any::<u8>(), any::<u8>()).prop_map(|(path, byte)| Step::Write(path, byte)),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(path, byte)| Step::Append(path, byte)),
        3 => any::<u8>().prop_map(Step::Remove),
        2 => any::<u8>().prop_map(Step::RemoveTree),
        2 => any::<u8>().prop_map(Step::MakeDir),
        5 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Step::Link(from, to)),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Step::HardLink(from, to)),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(path, bit)| Step::Mode(path, bit)),
        1 => any::<u8>().prop_map(Step::Ignore),
        1 => any::<u8>().prop_map(Step::Program),
        4 => Just(Step::Call),
        3 => Just(Step::Snapshot),
        1 => Just(Step::Unmount),
        1 => Just(Step::KillHolder),
    ]
}

/// One of the paths that histories use.
pub(crate) fn place(number: u8) -> &'static str {
    const PLACES: [&str; 12] =
        ["a", "b", "d", "d/e", "d/f", "d/g", "d/g/h", "d/g/i", "n", "n/o", "n/o/p", "d/n"];
    PLACES[usize::from(number) % PLACES.len()]
}

/// The path of a workspace's files in this process.
pub(crate) fn dir_of(space: &RunSpace, base: &ObjectId) -> PathBuf {
    space.make(RUN, 1, base).expect("found").dir
}

pub(crate) fn carry_out(
    mounts: &Mounts,
    space: &RunSpace,
    base: &ObjectId,
    step: &Step,
    calls: &mut Vec<FilesCommit>,
) {
    use std::io::Write;
    let dir = dir_of(space, base);
    let at = |number: &u8| dir.join(place(*number));
    let parents = |number: &u8| fs::create_dir_all(at(number).parent().expect("a parent"));
    // A step that cannot be done is skipped.
    let done = match step {
        Step::Write(path, byte) => parents(path).and_then(|()| fs::write(at(path), [*byte])),
        Step::Append(path, byte) => {
            fs::File::options().append(true).open(at(path)).and_then(|mut file| file.write_all(&[*byte]))
        }
        Step::Remove(path) => fs::remove_file(at(path)),
        Step::RemoveTree(path) => fs::remove_dir_all(at(path)),
        Step::MakeDir(path) => fs::create_dir_all(at(path)),
        Step::Rename(from, to) => parents(to).and_then(|()| fs::rename(at(from), at(to))),
        Step::Link(path, to) => std::os::unix::fs::symlink(place(*to), at(path)),
        Step::HardLink(from, to) => fs::hard_link(at(from), at(to)),
        Step::Mode(path, bit) => {
            let mode = if *bit { 0o755 } else { 0o644 };
            match fs::symlink_metadata(at(path)) {
                Ok(metadata) if metadata.is_file() => {
                    fs::set_permissions(at(path), fs::Permissions::from_mode(mode))
                }
                _ => Ok(()),
            }
        }
        Step::Ignore(path) => fs::write(dir.join("d/.gitignore"), format!("{}\n", place(*path))),
        Step::Program(path) => {
            let name = place(*path);
            run_in(
                space,
                RUN,
                &format!("mkdir -p x && mv {name} x/moved 2> /dev/null; echo p > x/new; true"),
            );
            Ok(())
        }
        Step::KilledProgram(path) => {
            kill_program(mounts, space, base, *path);
            Ok(())
        }
        Step::Call => {
            calls.extend(space.commit_call(RUN, 1).expect("committed"));
            Ok(())
        }
        Step::Snapshot => {
            space.snapshot(RUN, 1).expect("taken");
            // The snapshot is newer than they are.
            calls.clear();
            Ok(())
        }
        Step::Unmount => {
            space.release(RUN, 1);
            Ok(())
        }
        Step::KillHolder => {
            kill_holder(mounts);
            Ok(())
        }
    };
    drop(done);
}

/// Kills the sandbox of a program that changes files without an end. Only in a process without other sandboxes.
fn kill_program(mounts: &Mounts, space: &RunSpace, base: &ObjectId, path: u8) {
    let script = format!(
        "mkdir -p x; echo > x/begun; while :; do echo more >> x/log; cp x/log x/copy; mv x/copy x/moved; rm -rf {}; \
         mkdir -p n/o; echo p > n/o/p; done 2> /dev/null",
        place(path)
    );
    // The path of the files is another one after a new holder took the mount over.
    let begun = || dir_of(space, base).join("x/begun");
    drop(fs::remove_file(begun()));
    let command = BoxedCommand {
        mount: space.mount(RUN, 1).expect("a workspace"),
        shown: vec![(space.objects_of(RUN, 1).expect("objects"), PathBuf::from(OBJECTS_SHOWN_AT))],
        ..BoxedCommand::isolated(["bash", "-c", &script].map(str::to_owned).to_vec(), space.dir_of(RUN, 1))
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let sandbox = Sandbox::new(SandboxOptions { init: init(), ..SandboxOptions::default() });
        let turn = sandbox.turn().await;
        let mut running = sandbox.start(turn, command).expect("started");
        until("the program works", || begun().exists());
        spin(Duration::from_micros(u64::from(path) * 20));
        let inits = children_of(std::process::id()).into_iter().filter(|pid| name_of(*pid) == "posse-init");
        let firsts = inits.filter_map(|init| Some((init, *children_of(init).first()?)));
        let (init, first) = firsts.into_iter().next().expect("an init with a sandbox");
        let victim = if path.is_multiple_of(2) { init } else { first };
        kill_process(Pid::from_raw(victim.cast_signed()).expect("an id"), Signal::KILL).expect("killed");
        let ended = running.ended().await;
        assert!(matches!(ended, Err(SandboxError::Lost | SandboxError::BroughtDown)), "{ended:?}");
    });
    let state = space.dir_of(RUN, 1);
    let state = state.ancestors().nth(6).expect("the state directory");
    let own = [Some(std::process::id()), mounts.holder_id()];
    until("its processes are gone", || users_of(state).into_iter().all(|pid| own.contains(&Some(pid))));
}

/// Passes a moment that is shorter than any pause of the scheduler.
pub(crate) fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The children of all threads of a process.
pub(crate) fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let pids = listed
        .flat_map(|pids| pids.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>());
    pids.collect()
}

fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Takes a snapshot, which must have what a whole walk finds, and returns it. The whole walk is that of the copies: the
/// same files, in a directory at `whole`.
pub(crate) fn assert_whole_walk(space: &RunSpace, dir: &Path, home: &Path, whole: &Path) -> ObjectId {
    let taken = space.snapshot(RUN, 1).expect("taken").commit;
    drop(fs::remove_dir_all(whole));
    copy_files(dir, whole);
    let ignored = ignored_in(home, whole, space, &taken);
    let mut found = on_disk(dir);
    found.retain(|path, _| !ignored.contains(path));
    assert_eq!(files_of(space, &taken), found);
    taken
}

/// Asserts that the commit of the last call has the files of a snapshot that was taken after it.
pub(crate) fn assert_last_call(space: &RunSpace, calls: &[FilesCommit], taken: &ObjectId) {
    let Some(last) = calls.last() else { return };
    let bytes =
        |call: &FilesCommit| call.pack.as_ref().and_then(|pack| pack.bytes()).map(|pack| pack.to_vec());
    let packs: Vec<Vec<u8>> = calls.iter().filter_map(bytes).collect();
    let diff = space.diff_of_call(taken, &last.commit, &packs, DiffOptions::default()).expect("a diff");
    assert_eq!(String::from_utf8_lossy(&diff), "");
}

/// The untracked files that git ignores in a directory whose last commit is `commit`.
fn ignored_in(home: &Path, folder: &Path, space: &RunSpace, commit: &ObjectId) -> Vec<Vec<u8>> {
    git_in(folder, home, &["init", "-q"]);
    let objects = space.git().git_dir().join("objects");
    fs::write(folder.join(".git/objects/info/alternates"), format!("{}\n", objects.display()))
        .expect("written");
    git_in(folder, home, &["read-tree", &commit.to_string()]);
    let listed = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];
    let listed = git_in(folder, home, &listed);
    listed.split_terminator('\0').map(|path| path.as_bytes().to_vec()).collect()
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().expect("a type");
        if entry.file_name() == ".git" {
        } else if kind.is_dir() {
            copy_files(&source, &target);
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source).expect("read"), &target).expect("linked");
        } else {
            fs::copy(&source, &target).expect("copied");
        }
    }
}
