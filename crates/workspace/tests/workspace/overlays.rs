//! Workspaces as overlays: what the kernel's layers and the process that holds the mounts add to the tests of workspaces.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use posse_sandbox::{Exit, Mounts};
use posse_workspace::{LocalFiles, RunSpace};
use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};

use crate::histories::{Step, assert_last_call, assert_whole_walk, carry_out, dir_of, plant, step, until};
use crate::kind::{init, sandboxed};
use crate::salvage::on_disk;
use crate::support::{RUN, World, assert_sound, copy_tests, files_of, names_of, state_of, write};

/// A user without files.
const ORDINARY: u32 = 65_534;
/// The test that counts descriptors.
const COUNTS: &str = "leave_no_mount_and_no_descriptor";
/// How many histories are tried.
const HISTORIES: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 300 } else { 40 };
/// How many workspaces are created and removed.
const CYCLES: usize = if option_env!("POSSE_CAMPAIGNS").is_some() { 20_000 } else { 300 };
/// How many of these fill caches and the pools of the allocator, before memory is compared.
const WARM_UP: usize = 100;
/// What memory may grow by after that: pages that the allocator has not given back. Less than 30 bytes per workspace of a
/// campaign, so that anything that is kept of each of them shows.
const GROWTH_MAX_KB: u64 = 512;
/// More live workspaces than stay mounted.
const LIVE: usize = if option_env!("POSSE_CAMPAIGNS").is_some() { 1_000 } else { 520 };

/// A repository, and the mounts of this process.
pub(crate) fn world() -> (World, Mounts) {
    let mounts = Mounts::new(init());
    let world = World::with(|files| files.with_mounts(mounts.clone()));
    world.git(&["init", "-q", "-b", "main"]);
    (world, mounts)
}

/// A folder that is not a repository.
fn folder() -> World {
    World::with(|files| files.with_mounts(Mounts::new(init())))
}

/// The files as another process has them: it shares nothing with this one.
pub(crate) fn another_process(world: &World) -> RunSpace {
    let files = LocalFiles::new(&world.state(), world.options.clone()).with_mounts(Mounts::new(init()));
    files.open(RUN).expect("opened")
}

#[test]
fn an_ordinary_user_has_the_same_workspaces() {
    if !rustix::process::geteuid().is_root() {
        // Then the other tests of this file cover it.
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    let tests = copy_tests(dir.path());
    let own = dir.path().join("own");
    fs::create_dir(&own).expect("made");
    chown(&own, Some(ORDINARY), Some(ORDINARY)).expect("given away");
    // One test counts the descriptors of its process, which others would share.
    let runs = [&["overlays::", "bases::", "--skip", "ordinary_user", "--skip", COUNTS][..], &[COUNTS]];
    for (args, passed) in runs.into_iter().zip(["25 passed", "1 passed"]) {
        let mut command = Command::new(&tests);
        command.args(args).env_clear().current_dir(&own);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("TMPDIR", &own).uid(ORDINARY).gid(ORDINARY);
        let output = command.output().expect("started");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(passed), "{said}");
    }
}

pub(crate) fn kill_holder(mounts: &Mounts) {
    let holder = mounts.holder_id().expect("a holder");
    kill_process(Pid::from_raw(holder.cast_signed()).expect("an id"), Signal::KILL).expect("killed");
}

pub(crate) fn run_in(space: &RunSpace, agent: &str, command: &str) -> String {
    assert!(space.mount(agent, 1).expect("a workspace").is_some(), "an overlay");
    let (exit, output) = sandboxed(space, (agent, 1), &["bash", "-c", command]);
    assert_eq!(exit, Exit::Code(0), "{output}");
    output
}

/// The directories of all states of the project.
pub(crate) fn bases(world: &World) -> Vec<PathBuf> {
    let entries = |dir: PathBuf| -> Vec<PathBuf> {
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let projects = entries(world.state().join("projects"));
    projects.into_iter().flat_map(|project| entries(project.join("bases"))).flat_map(entries).collect()
}

#[test]
fn a_workspace_takes_only_what_its_agent_changes() {
    let (world, _) = world();
    world.write("large", vec![b'x'; 5_000_000]);
    world.write("dir/a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "dir/a", "two");
    assert!(space.disk_bytes().expect("counted") < 500_000);
    let upper = space.dir_of(RUN, 1).with_file_name("upper");
    let changed: Vec<Vec<u8>> = on_disk(&upper).into_keys().collect();
    assert_eq!(changed, [b"dir/a".to_vec()]);
    assert_eq!(bases(&world).len(), 1, "one base for all workspaces");
    space.make("k3f9ab2c.1", 1, &begun.snapshot.commit).expect("made");
    assert_eq!(bases(&world).len(), 1);
}

#[test]
fn a_child_starts_from_a_thin_layer_over_its_parents_base() {
    let (world, _) = world();
    for number in 0..50 {
        world.write(&format!("d{}/f{number}", number % 5), format!("{number}"));
    }
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let mut last = begun.snapshot.commit;
    // More states than layers may lie over each other.
    for round in 0..20 {
        write(&dir, &format!("new/{round}"), "new");
        write(&dir, "d0/f0", format!("round {round}"));
        drop(fs::remove_file(dir.join(format!("d1/f{}", 1 + 5 * round))));
        if round == 3 {
            fs::remove_dir_all(dir.join("d4")).expect("removed");
            write(&dir, "d4", "a file now");
        }
        last = space.snapshot(RUN, 1).expect("taken").commit;
        let child = format!("{RUN}.{}", round + 1);
        let files = space.make(&child, 1, &last).expect("made").dir;
        assert_eq!(on_disk(&files), files_of(&space, &last), "round {round}");
        assert_eq!(run_in(&space, &child, "git status --porcelain"), "", "round {round}");
    }
    let wholes = bases(&world).iter().filter(|base| base.join("files/d2").is_dir()).count();
    assert_eq!(wholes, 1, "all others are thin");
    let files = space.make("k3f9ab2c.1", 2, &last).expect("made").dir;
    assert_eq!(on_disk(&files), files_of(&space, &last));
}

#[test]
fn a_killed_holder_loses_nothing_and_another_one_takes_over() {
    let (world, mounts) = world();
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "before", "1");
    for round in 0..3 {
        kill_holder(&mounts);
        // Neither needs a holder.
        let root = space.mount(RUN, 1).expect("a workspace").expect("an overlay").root();
        let path = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&*root)));
        write(&path, &format!("host-{round}"), "2");
        let seen = run_in(&space, RUN, &format!("cat before host-{round}; echo 3 > program-{round}"));
        assert_eq!(seen, "12");
        assert_eq!(fs::read_to_string(path.join(format!("program-{round}"))).expect("read"), "3\n");
        let other = format!("{RUN}.{}", round + 1);
        space.make(&other, 1, &begun.snapshot.commit).expect("made with the new holder");
    }
    let taken = space.snapshot(RUN, 1).expect("taken").commit;
    assert_eq!(names_of(&space, &taken).len(), 8);
    assert_sound(&space);
}

#[test]
fn directories_of_the_base_are_renamed_where_the_kernel_allows_it() {
    let (world, _) = world();
    for name in ["a/b/c", "a/b/d", "a/e", "f/g"] {
        world.write(name, name);
    }
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let git = "git mv a/b h && git mv f a/f && git mv a i";
    let moved = run_in(&space, RUN, &format!("({git}) > /dev/null 2>&1 && echo moved || mv f j"));
    if rustix::process::geteuid().is_root() {
        assert_eq!(moved, "moved\n");
        let taken = space.snapshot(RUN, 1).expect("taken").commit;
        assert_eq!(names_of(&space, &taken), ["h/c", "h/d", "i/e", "i/f/g"]);
    }
    let taken = space.snapshot(RUN, 1).expect("taken").commit;
    assert_eq!(files_of(&space, &taken), on_disk(&dir));
    assert_sound(&space);
}

#[test]
fn attributes_that_a_program_sets_hide_nothing() {
    let (world, _) = world();
    for name in ["a/b", "a/c", "d/e"] {
        world.write(name, name);
    }
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "a/new", "work");
    let set = |name: &str, value: &[u8]| {
        // Not every name may be set. What can be set must have no effect.
        let _ = rustix::fs::setxattr(dir.join("a"), name, value, rustix::fs::XattrFlags::empty());
    };
    set("user.overlay.opaque", b"y");
    set("user.overlay.redirect", b"/d");
    let forged = "import os\nfor p in ('user', 'trusted'):\n  for n, v in (('opaque', b'y'), ('redirect', b'/d')):\n    try: \
                  os.setxattr('a', f'{p}.overlay.{n}', v)\n    except OSError: pass";
    run_in(&space, RUN, &format!("python3 -c \"{forged}\" || true; mknod a/b c 0 0 2> /dev/null; true"));
    let taken = space.snapshot(RUN, 1).expect("taken").commit;
    assert_eq!(files_of(&space, &taken), on_disk(&dir));
    assert_eq!(names_of(&space, &taken), ["a/b", "a/c", "a/new", "d/e"]);
}

/// Waits for the threads that remove discarded workspaces.
fn await_removals(world: &World) {
    let is_empty =
        || fs::read_dir(world.state().join("trash")).map_or(true, |mut trash| trash.next().is_none());
    until("discarded workspaces are removed", is_empty);
}

/// What a runtime and its holder have at one moment.
#[derive(Debug)]
struct ResourceCount {
    mounts: usize,
    /// Open descriptors of the runtime and of the holder.
    open: [usize; 2],
    /// Their resident memory.
    resident_kb: [u64; 2],
    /// Files and directories beneath the state directory.
    files: usize,
}

impl ResourceCount {
    fn count(world: &World, mounts: &Mounts) -> Self {
        let processes = ["self".to_owned(), mounts.holder_id().expect("a holder").to_string()];
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", processes[1])).expect("read");
        let resident = |process: &String| {
            let status = fs::read_to_string(format!("/proc/{process}/status")).expect("read");
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        };
        Self {
            mounts: table.lines().count(),
            open: processes
                .each_ref()
                .map(|process| fs::read_dir(format!("/proc/{process}/fd")).expect("listed").count()),
            resident_kb: processes.each_ref().map(resident),
            // The locks of refs are a fixed number of files, each made when it is first needed.
            files: state_of(world)
                .iter()
                .filter(|path| !path.parent().is_some_and(|dir| dir.ends_with("ref-locks")))
                .count(),
        }
    }
}

#[test]
fn workspaces_that_come_and_go_leave_no_mount_and_no_descriptor() {
    let (world, mounts) = world();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let cycle = |number: usize| {
        let agent = format!("{RUN}.{}", number + 1);
        let dir = space.make(&agent, 1, &begun.snapshot.commit).expect("made").dir;
        write(&dir, "a", number.to_string());
        space.discard_workspace(&agent, 1).expect("discarded");
    };
    (0..WARM_UP).for_each(cycle);
    // A request with a reply comes after all unmounts.
    space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    let settle = || {
        let mount = space.mount(RUN, 1).expect("a workspace").expect("an overlay");
        drop(mount.clone_for_call().expect("a clone"));
        await_removals(&world);
        ResourceCount::count(&world, &mounts)
    };
    let before = settle();
    (WARM_UP..CYCLES).for_each(cycle);
    let after = settle();
    assert!(after.mounts <= before.mounts, "{before:?} {after:?}");
    assert!(after.open[0] <= before.open[0] + 8 && after.open[1] <= before.open[1], "{before:?} {after:?}");
    // The empty directory of an agent stays until its run is removed.
    assert_eq!(after.files, before.files + CYCLES - WARM_UP, "files and directories");
    for (before, after) in before.resident_kb.iter().zip(after.resident_kb) {
        assert!(after <= before + GROWTH_MAX_KB, "memory grew from {before} to {after} kB");
    }
    space.discard_workspace(RUN, 1).expect("discarded");
    world.spaces().remove_run(RUN).expect("removed");
    await_removals(&world);
    let left = state_of(&world).into_iter().filter(|path| path.starts_with(world.state().join("runs")));
    assert_eq!(left.collect::<Vec<_>>(), [world.state().join("runs")], "nothing of the run");
}

#[test]
fn more_writers_live_than_stay_mounted() {
    let world = folder();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let agent = |number: usize| format!("{RUN}.{}", number + 1);
    for number in 0..LIVE {
        let dir = space.make(&agent(number), 1, &begun.snapshot.commit).expect("made").dir;
        write(&dir, "a", format!("by {number}"));
    }
    for number in [0, 1, LIVE / 2, LIVE - 1] {
        let dir = space.make(&agent(number), 1, &begun.snapshot.commit).expect("found").dir;
        assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), format!("by {number}"));
        let taken = space.snapshot(&agent(number), 1).expect("taken").commit;
        assert_eq!(files_of(&space, &taken), on_disk(&dir));
    }
}

#[test]
fn a_base_that_was_changed_is_made_anew() {
    let (world, _) = world();
    world.write("a", "one");
    world.write("b", "two");
    world.commit_all();
    let (begun, space) = world.begin();
    let first = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let [base] = bases(&world).try_into().expect("one base");
    fs::write(base.join("files/a"), "changed").expect("written");
    let other = another_process(&world);
    let made = other.make("k3f9ab2c.1", 1, &begun.snapshot.commit).expect("made");
    let dir = made.dir;
    assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "one");
    assert_eq!(fs::read_to_string(dir.join("b")).expect("read"), "two");
    assert!(made.notes.iter().any(|note| note.contains("were changed after")), "{:?}", made.notes);
    // The workspace over the changed base keeps its files.
    assert_eq!(fs::read_to_string(first.join("b")).expect("read"), "two");
    assert_eq!(on_disk(&first).len(), 2);
}

#[test]
fn a_check_by_content_names_what_another_program_changed() {
    let (world, _mounts) = world();
    world.write("dir/a", "dir/a");
    world.commit_all();
    let (begun, space) = world.begin();
    space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    let files = world.spaces();
    assert_eq!(files.check_bases(Some(RUN)).expect("checked"), [""; 0]);
    fs::write(bases(&world)[0].join("files/dir/a"), "changed").expect("written");
    let problems = files.check_bases(None).expect("checked");
    assert!(
        problems.len() == 1 && problems[0].contains("dir/a was changed after Posse laid it out"),
        "{problems:?}"
    );
    assert_eq!(files.check_bases(Some(RUN)).expect("checked"), [""; 0], "it is set aside");
    let other = another_process(&world);
    let next = other.make("k3f9ab2c.1", 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(fs::read(next.join("dir/a")).expect("read"), b"dir/a");
}

#[test]
fn an_empty_record_of_a_staging_directory_removes_nothing() {
    let (world, _) = world();
    world.write("a", "one");
    world.commit_all();
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let child = format!("{RUN}.1");
    let theirs = space.make(&child, 1, &base).expect("made").dir;
    write(&theirs, "b", "by the child");
    let work = space.snapshot(&child, 1).expect("taken").commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    write(&dir, "mine", "not in a commit yet");
    let record = space.dir_of(RUN, 1).with_file_name("update.staging");
    for left in ["", "..", "/", "mine"] {
        // A machine crash may leave any of the first; no text makes a name of the agent's a leftover.
        fs::write(&record, left).expect("written");
        space.update(RUN, 1, &base, &work).expect("updated");
        assert_eq!(fs::read_to_string(dir.join("mine")).expect("read"), "not in a commit yet", "{left:?}");
        assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "one", "{left:?}");
    }
}

#[test]
fn a_crash_while_a_base_is_made_leaves_no_part_of_it() {
    for point in ["workspace.base.before_files", "workspace.base.before_rename"] {
        let (mut world, _) = world();
        world.write("a", "one");
        world.commit_all();
        let (begun, _) = world.begin();
        world.options.faults = Some(std::sync::Arc::new(move |passed: &'static str| {
            assert!(passed != point, "crash at {point}");
        }));
        let space = world.spaces().open(RUN).expect("opened");
        let base = begun.snapshot.commit;
        let crash = std::panic::AssertUnwindSafe(|| space.make(RUN, 1, &base).map(drop));
        assert!(std::panic::catch_unwind(crash).is_err(), "{point}");
        assert!(bases(&world).iter().all(|base| base.to_string_lossy().contains(".tmp-")), "{point}");
        world.options.faults = None;
        let space = world.spaces().open(RUN).expect("opened");
        let dir = space.make(RUN, 1, &base).expect("made").dir;
        assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "one");
    }
}

#[test]
fn a_process_that_was_stopped_loses_its_workspace_to_the_next_one() {
    let world = folder();
    world.write("dir/a", "one");
    world.write("gone", "x");
    let (begun, space) = world.begin();
    let stopped = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&stopped, "dir/work", "done");
    fs::remove_file(stopped.join("gone")).expect("removed");
    fs::remove_dir_all(stopped.join("dir")).expect("removed");
    write(&stopped, "dir/work", "done");
    // The other process finds the lock taken, and takes a copy of the changes.
    let other = another_process(&world);
    let dir = other.make(RUN, 1, &begun.snapshot.commit).expect("found").dir;
    let names = |dir: &Path| on_disk(dir).into_keys().collect::<Vec<_>>();
    assert_eq!(names(&dir), [b"dir/work".to_vec()]);
    write(&stopped, "late", "by the stopped one");
    write(&dir, "next", "by the other");
    assert_eq!(names(&dir), [b"dir/work".to_vec(), b"next".to_vec()]);
    let taken = other.snapshot(RUN, 1).expect("taken").commit;
    assert_eq!(files_of(&other, &taken), on_disk(&dir));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: HISTORIES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_of_the_upper_layer_is_that_of_a_whole_walk(steps in prop::collection::vec(step(), 1..40)) {
        let (world, mounts) = world();
        plant(&world);
        let (begun, space) = world.begin();
        let base = begun.snapshot.commit;
        dir_of(&space, &base);
        let mut calls = Vec::new();
        for step in steps.iter().chain([&Step::Call]) {
            carry_out(&mounts, &space, &base, step, &mut calls);
        }
        let taken = assert_whole_walk(&space, &dir_of(&space, &base), &world.home(), &world.elsewhere("whole"));
        assert_last_call(&space, &calls, &taken);
    }
}
