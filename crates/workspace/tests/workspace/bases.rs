//! The layers that the workspaces and the readers of a project share.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posse_domain::contract::ExecutionContext;
use posse_domain::hash::Hash;
use posse_domain::permission::{Approvals, PathRules};
use posse_engine::ports::{CallContext, CallFiles, SeenFiles, StopSignal, WorkspaceId, Workspaces};
use posse_files::{ExpectedFile, RelPath, Stop, WorkspaceDirs};
use posse_sandbox::{Mounts, Sandbox, SandboxOptions, WorkspaceViews};
use posse_workspace::{Faults, LocalFiles, LocalWorkspaces, ObjectId, RunSpace, WorkspaceSettings};
use rustix::fs::{FlockOperation, flock};

use crate::kind::init;
use crate::overlays::{another_process, bases, kill_holder, run_in, world};
use crate::salvage::on_disk;
use crate::support::{RUN, World, files_of, write};

/// More events than a test waits for.
pub(crate) const EVENTS_MAX: usize = 64;

/// A commit whose state is a thin layer: it differs from the base in a changed, a new and a deleted file.
fn thin(world: &World, space: &RunSpace, base: &ObjectId) -> ObjectId {
    let dir = space.make(RUN, 1, base).expect("made").dir;
    write(&dir, "dir/a", "changed");
    write(&dir, "new", "new");
    fs::remove_file(dir.join("gone")).expect("removed");
    let commit = space.snapshot(RUN, 1).expect("taken").commit;
    assert!(!world.state().join("runs").join(RUN).join("shared").exists());
    commit
}

fn begun(world: &World) -> (ObjectId, RunSpace) {
    for name in ["dir/a", "dir/b", "gone"] {
        world.write(name, name);
    }
    world.commit_all();
    let (begun, space) = world.begin();
    (begun.snapshot.commit, space)
}

/// The number of overlays that the holder has mounted.
fn overlays_of(mounts: &Mounts) -> usize {
    let holder = mounts.holder_id().expect("a holder");
    let table = fs::read_to_string(format!("/proc/{holder}/mountinfo")).expect("read");
    table.lines().filter(|line| line.contains(" - overlay ")).count()
}

#[test]
fn readers_of_a_thin_state_share_its_layers() {
    let (world, mounts) = world();
    let (base, space) = begun(&world);
    let commit = thin(&world, &space, &base);
    space.release(RUN, 1);
    let mut shared = space.shared(&commit).expect("shared");
    assert_eq!(on_disk(&shared), files_of(&space, &commit));
    assert!(!shared.join(".git").exists() && shared.join("dir").is_dir());
    let refused = fs::write(shared.join("dir/a"), "no").expect_err("no reader writes");
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(space.shared(&commit).expect("shared"), shared, "one mount for all readers of a run");
    assert!(!world.state().join("runs").join(RUN).join("shared").exists(), "no files of their own");
    for round in 0..3 {
        kill_holder(&mounts);
        assert_eq!(fs::read_to_string(shared.join("dir/a")).expect("read"), "changed");
        // Another mount needs a holder, which takes over those of the one that was killed.
        space.make(&format!("{RUN}.{}", round + 1), 1, &base).expect("made");
        shared = space.shared(&commit).expect("shared");
        assert_eq!(on_disk(&shared), files_of(&space, &commit));
    }
    // The base itself is one directory, which needs no mount.
    let whole = space.shared(&base).expect("shared");
    assert_eq!(on_disk(&whole), files_of(&space, &base));
    assert_eq!(overlays_of(&mounts), 4, "those of the children and of the readers");
}

#[test]
fn a_workspace_over_a_new_state_starts_no_git() {
    let (mut world, mounts) = world();
    let (base, space) = begun(&world);
    let commit = thin(&world, &space, &base);
    space.release(RUN, 1);
    // A call of git would fail.
    world.options.git = "/proc/self/no-git".into();
    let files = LocalFiles::new(&world.state(), world.options.clone()).with_mounts(mounts);
    let without_git = files.open(RUN).expect("opened");
    let made = without_git.make(&format!("{RUN}.1"), 1, &commit).expect("made").dir;
    assert_eq!(on_disk(&made), files_of(&space, &commit));
    assert!(mark_of(&world, &commit).contains("\"depth\":1"), "a thin layer");
}

#[test]
fn nothing_of_a_run_that_is_released_stays_mounted() {
    let (world, mounts) = world();
    let (base, space) = begun(&world);
    let commit = thin(&world, &space, &base);
    let shared = space.shared(&commit).expect("shared");
    let used = fs::File::open(shared.join("new")).expect("opened");
    space.release(RUN, 1);
    world.spaces().release_readers("k3f9ab2d");
    assert_eq!(fs::read_to_string(shared.join("new")).expect("read"), "new", "another run was released");
    world.spaces().release_readers(RUN);
    // A request with a reply comes after the unmounts.
    let mount = space.make("k3f9ab2c.1", 1, &base).expect("made");
    space.release("k3f9ab2c.1", 1);
    space.make("k3f9ab2c.2", 1, &base).expect("made");
    assert_eq!(overlays_of(&mounts), 1, "{}", mount.dir.display());
    let path = PathBuf::from(format!("/proc/self/fd/{}", used.as_raw_fd()));
    assert_eq!(fs::read_to_string(path).expect("an open file is kept"), "new");
    assert_eq!(on_disk(&space.shared(&commit).expect("mounted again")), files_of(&space, &commit));
}

#[derive(Debug)]
struct NothingSeen;

impl SeenFiles for NothingSeen {
    fn seen(&self, _: &str) -> Option<Hash> {
        None
    }

    fn note(&self, _: &str, _: Hash) {}
}

fn reader_call(workspace: &Path) -> CallContext {
    CallContext {
        agent: format!("{RUN}.2").parse().expect("an id"),
        context: Arc::new(ExecutionContext::default()),
        call_id: "c1".into(),
        workspace: Arc::new(workspace.to_owned()),
        files: CallFiles::Shared,
        seen: Arc::new(NothingSeen),
        rules: PathRules::default(),
        approvals: Approvals::none(),
        network: false,
        limit: Duration::from_mins(1),
        idle: Duration::MAX,
        stop: StopSignal::never(),
        skills: Arc::default(),
    }
}

/// What a program of a reader prints.
async fn printed(workspaces: &LocalWorkspaces, sandbox: &Sandbox, dir: &Path, command: &str) -> String {
    let call = reader_call(dir);
    let view = workspaces.view(&call).await.expect("a view");
    let argv = ["bash", "-c", command].map(str::to_owned).to_vec();
    let turn = sandbox.turn().await;
    let mut running = sandbox.start(turn, view.command(argv, &call)).expect("started");
    let ended = running.ended().await.expect("ended");
    String::from_utf8_lossy(&ended.output.head).into_owned()
}

#[tokio::test]
async fn tools_and_programs_of_readers_see_the_layers_of_a_thin_state() {
    let world = World::repository();
    let (base, _) = begun(&world);
    let sandbox = Sandbox::new(SandboxOptions { init: init(), ..SandboxOptions::default() });
    let settings = WorkspaceSettings { options: world.options.clone(), ..WorkspaceSettings::default() };
    let workspaces = LocalWorkspaces::new(&world.state(), sandbox.clone(), settings);
    let of = WorkspaceId { agent: format!("{RUN}.1").parse().expect("an id"), attempt: 1 };
    let made = workspaces.make(of.clone(), base).await.expect("made");
    let text = |path: &str| RelPath::parse(path).expect("a path");
    let writer = workspaces.open(&made.dir).expect("opened");
    let expected = ExpectedFile::Hash(*blake3::hash(b"dir/a").as_bytes());
    writer.replace(&text("dir/a"), b"changed", expected, &Stop::new()).expect("written");
    drop(writer);
    let commit = workspaces.snapshot(of.clone()).await.expect("taken");
    let run = RUN.parse().expect("an id");
    let dir = workspaces.shared(&run, commit).await.expect("shared");
    for round in 0..2 {
        assert_eq!(workspaces.open(&dir).expect("opened").read(&text("dir/a")).expect("read"), b"changed");
        let cached = workspaces.open_cached(&dir).expect("opened").expect("in memory");
        assert_eq!(cached.read(&text("gone")).expect("read"), b"gone");
        let command = "cat dir/a gone; test -e .git || echo ' without .git'; echo no > dir/a";
        let seen = printed(&workspaces, &sandbox, &dir, command).await;
        assert!(seen.starts_with("changedgone without .git\n"), "round {round}: {seen}");
        assert!(seen.contains("Read-only file system"), "round {round}: {seen}");
        kill_holder(&sandbox.mounts());
    }
    workspaces.release(&of);
    workspaces.release_run(&run);
    // A run that is continued finds them again.
    let dir = workspaces.shared(&run, commit).await.expect("shared");
    assert_eq!(workspaces.open(&dir).expect("opened").read(&text("dir/a")).expect("read"), b"changed");
}

/// Stops the first thread that comes to a point, until it may continue.
struct Gate {
    reached: Receiver<()>,
    proceed: SyncSender<()>,
}

impl Gate {
    fn at(point: &'static str) -> (Self, Faults) {
        let (reached, at) = sync_channel(EVENTS_MAX);
        let (proceed, permitted) = sync_channel(EVENTS_MAX);
        let first = Mutex::new(Some((reached, permitted)));
        let faults = move |passed: &'static str| {
            // The others must not wait.
            let first = (passed == point).then(|| first.lock().expect("unbroken").take()).flatten();
            if let Some((reached, permitted)) = first {
                reached.send(()).expect("somebody waits");
                permitted.recv().expect("the test permits it");
            }
        };
        (Self { reached: at, proceed }, Arc::new(faults))
    }
}

/// Whether the lock on all states of the project is free.
fn lock_is_free(world: &World) -> bool {
    let projects = fs::read_dir(world.state().join("projects")).expect("listed").flatten();
    projects.into_iter().all(|project| {
        let lock = fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(project.path().join("bases.lock"));
        flock(lock.expect("opened"), FlockOperation::NonBlockingLockExclusive).is_ok()
    })
}

#[test]
fn who_needs_the_commit_that_is_being_laid_out_waits_for_it() {
    let mut world = World::repository();
    let (base, _) = begun(&world);
    let (gate, faults) = Gate::at("workspace.base.before_files");
    world.options.faults = Some(faults);
    let (first, second) = (world.spaces().open(RUN).expect("opened"), another_process(&world));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| first.make(RUN, 1, &base).map(|made| on_disk(&made.dir)));
        gate.reached.recv().expect("it lays the base out");
        assert!(lock_is_free(&world));
        let second = scope.spawn(|| second.make("k3f9ab2c.1", 1, &base).map(|made| on_disk(&made.dir)));
        gate.proceed.send(()).expect("it waits");
        let first = first.join().expect("no panic").expect("made");
        assert_eq!(second.join().expect("no panic").expect("made"), first);
    });
    assert_eq!(bases(&world).len(), 1);
}

#[test]
fn other_commits_are_laid_out_meanwhile() {
    let mut world = World::repository();
    let (base, space) = begun(&world);
    let one = thin(&world, &space, &base);
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    write(&dir, "new", "another");
    let other = space.snapshot(RUN, 1).expect("taken").commit;
    let (gate, faults) = Gate::at("workspace.base.before_files");
    world.options.faults = Some(faults);
    let (first, second) = (world.spaces().open(RUN).expect("opened"), another_process(&world));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| first.make("k3f9ab2c.1", 1, &one).map(|made| on_disk(&made.dir)));
        gate.reached.recv().expect("it lays the first commit out");
        let dir = second.make("k3f9ab2c.2", 1, &other).expect("made meanwhile").dir;
        assert_eq!(on_disk(&dir), files_of(&space, &other));
        gate.proceed.send(()).expect("it waits");
        assert_eq!(first.join().expect("no panic").expect("made"), files_of(&space, &one));
    });
    assert_eq!(bases(&world).len(), 3);
}

#[test]
fn a_second_first_layout_waits_for_the_base_of_the_first() {
    let mut world = World::repository();
    let (base, space) = begun(&world);
    world.write("later", "written after the first run began");
    let later = world.spaces().begin("k3f9ab2d", &world.folder()).expect("begun").snapshot.commit;
    let (gate, faults) = Gate::at("workspace.base.before_files");
    world.options.faults = Some(faults);
    let first = world.spaces().open(RUN).expect("opened");
    let second = world.spaces().open("k3f9ab2d").expect("opened");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| first.make(RUN, 1, &base).map(|made| on_disk(&made.dir)));
        gate.reached.recv().expect("it lays the base out");
        let second = scope.spawn(|| second.make("k3f9ab2d", 1, &later).map(|made| on_disk(&made.dir)));
        gate.proceed.send(()).expect("it waits");
        assert_eq!(first.join().expect("no panic").expect("made"), files_of(&space, &base));
        assert_eq!(second.join().expect("no panic").expect("made"), files_of(&space, &later));
    });
    let wholes = bases(&world).iter().filter(|base| base.join("files/dir/b").exists()).count();
    assert_eq!((bases(&world).len(), wholes), (2, 1), "the second one is a thin layer");
}

#[test]
fn a_base_that_was_changed_stays_for_those_who_use_it() {
    let world = World::repository();
    let (base, space) = begun(&world);
    let mounted = space.make(RUN, 1, &base).expect("made").dir;
    let shared = space.shared(&base).expect("shared");
    let [changed] = bases(&world).try_into().expect("one base");
    fs::write(changed.join("files/gone"), "changed").expect("written");
    let other = another_process(&world);
    assert_eq!(on_disk(&other.shared(&base).expect("shared")), files_of(&space, &base));
    assert_eq!(bases(&world).len(), 2, "it was made anew beside the changed one");
    assert_eq!(fs::read_to_string(shared.join("dir/a")).expect("read"), "dir/a");
    assert_eq!(fs::read_to_string(mounted.join("dir/a")).expect("read"), "dir/a");
    // A workspace that is made later in this process has the new one too.
    let again = space.make("k3f9ab2c.1", 1, &base).expect("made").dir;
    assert_eq!(on_disk(&again), files_of(&space, &base));
}

/// The agent at a depth of the tree.
pub(crate) fn descendant(depth: usize) -> String {
    format!("{RUN}{}", ".1".repeat(depth))
}

/// Makes states over each other: each agent changes files, and its child starts from them. Returns the last commit.
pub(crate) fn stack(space: &RunSpace, base: &ObjectId, depths: std::ops::Range<usize>) -> ObjectId {
    let mut last = *base;
    for depth in depths {
        let dir = space.make(&descendant(depth), 1, &last).expect("made").dir;
        write(&dir, &format!("new/{depth}"), "new");
        if depth > 0 {
            drop(fs::remove_file(dir.join(format!("new/{}", depth / 2))));
        }
        last = space.snapshot(&descendant(depth), 1).expect("taken").commit;
        let made = space.make(&descendant(depth + 1), 1, &last).expect("made").dir;
        assert_eq!(on_disk(&made), files_of(space, &last), "{depth}");
    }
    last
}

/// The directories of complete bases.
pub(crate) fn wholes(world: &World) -> Vec<PathBuf> {
    let is_whole = |dir: &PathBuf| {
        let made = fs::read_to_string(dir.join("made")).unwrap_or_default();
        made.contains("\"over\":null") && !dir.to_string_lossy().contains(".tmp-")
    };
    bases(world).into_iter().filter(is_whole).collect()
}

/// The mark of the state of a commit.
fn mark_of(world: &World, commit: &ObjectId) -> String {
    let is_of = |dir: &PathBuf| dir.to_string_lossy().contains(&commit.to_string());
    let dir = bases(world).into_iter().find(is_of).expect("a state");
    fs::read_to_string(dir.join("made")).expect("read")
}

#[test]
fn deep_layers_are_folded_in_the_background() {
    let mut world = World::repository();
    let (base, _) = begun(&world);
    let (folded, folds) = sync_channel(EVENTS_MAX);
    world.options.faults = Some(Arc::new(move |point: &'static str| {
        if point == "workspace.fold.ended" {
            folded.send(()).expect("somebody waits");
        }
    }));
    let space = world.spaces().open(RUN).expect("opened");
    // The number of layers at which a fold begins.
    let deep = stack(&space, &base, 0..8);
    folds.recv().expect("the fold ends");
    let both: [PathBuf; 2] = wholes(&world).try_into().expect("a second base");
    let is_deep = |dir: &PathBuf| dir.to_string_lossy().contains(&deep.to_string());
    let whole = both.into_iter().find(is_deep).expect("a base of the newest state");
    assert_eq!(on_disk(&whole.join("files")), files_of(&space, &deep));
    let next = stack(&space, &base, 8..9);
    let name = whole.file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(mark_of(&world, &next), format!("{{\"commit\":\"{next}\",\"over\":\"{name}\",\"depth\":1}}"));
    // Another process finds the base too, and readers of its commit need no mount.
    let other = another_process(&world);
    assert_eq!(other.shared(&deep).expect("shared"), whole.join("files"));
    assert_eq!(run_in(&space, &descendant(9), "git status --porcelain"), "");
}

#[test]
fn one_fold_at_a_time_and_nobody_waits_for_it() {
    let mut world = World::repository();
    let (base, _) = begun(&world);
    let space = world.spaces().open(RUN).expect("opened");
    stack(&space, &base, 0..7);
    let (gate, faults) = Gate::at("workspace.base.before_rename");
    let (ended, ends) = sync_channel(EVENTS_MAX);
    world.options.faults = Some(Arc::new(move |point: &'static str| {
        let is_folding = std::thread::current().name() == Some("posse-fold");
        if point == "workspace.base.before_rename" && is_folding {
            faults(point);
        }
        if point == "workspace.fold.ended" {
            ended.send(()).expect("somebody waits");
        }
    }));
    let space = world.spaces().open(RUN).expect("opened");
    stack(&space, &base, 7..8);
    gate.reached.recv().expect("a fold is under way");
    // Deeper than a stack may be, in this process and in another one.
    let last = stack(&space, &base, 8..18);
    another_process(&world).make(&descendant(19), 1, &last).expect("made");
    let unfinished = bases(&world).into_iter().filter(|dir| dir.to_string_lossy().contains(".tmp-"));
    assert_eq!((unfinished.count(), wholes(&world).len()), (1, 1));
    gate.proceed.send(()).expect("it waits");
    ends.recv().expect("the fold ends");
    assert_eq!(wholes(&world).len(), 2);
}

#[test]
fn a_crash_while_layers_are_folded_leaves_no_base() {
    for crash in ["workspace.base.before_files", "workspace.base.before_rename"] {
        let mut world = World::repository();
        let (base, _) = begun(&world);
        let space = world.spaces().open(RUN).expect("opened");
        stack(&space, &base, 0..7);
        let (reached, crashes) = sync_channel(EVENTS_MAX);
        world.options.faults = Some(Arc::new(move |point: &'static str| {
            if point == crash && std::thread::current().name() == Some("posse-fold") {
                reached.send(()).expect("somebody waits");
                panic!("crash at {crash}");
            }
        }));
        let crashing = world.spaces().open(RUN).expect("opened");
        stack(&crashing, &base, 7..8);
        crashes.recv().expect("the fold crashes");
        assert_eq!(wholes(&world).len(), 1, "{crash}");
        stack(&space, &base, 8..12);
    }
}

#[test]
fn git_works_over_several_thin_layers() {
    let world = World::repository();
    let (base, space) = begun(&world);
    let last = stack(&space, &base, 0..3);
    let agent = descendant(3);
    assert!(mark_of(&world, &last).contains("\"depth\":3"));
    let listed =
        files_of(&space, &last).into_keys().map(|path| String::from_utf8_lossy(&path).into_owned() + "\n");
    assert_eq!(run_in(&space, &agent, "git ls-files"), listed.collect::<String>());
    // What is as in the commit is known without reading it.
    assert_eq!(run_in(&space, &agent, "git diff-files --name-only; git status --porcelain"), "");
    let work = "echo changed > dir/a && git add dir/a && git rm -q new/2 && git mv gone kept && echo new > later \
                && git status --porcelain && git commit -q -a -m work && git show --format= --name-status -M";
    let seen = run_in(&space, &agent, work);
    assert_eq!(seen, "M  dir/a\nR  gone -> kept\nD  new/2\n?? later\nM\tdir/a\nR100\tgone\tkept\nD\tnew/2\n");
    assert_eq!(run_in(&space, &agent, "git status --porcelain; git fsck --no-dangling 2>&1"), "?? later\n");
    let snapshot = space.snapshot(&agent, 1).expect("taken").commit;
    assert_eq!(files_of(&space, &snapshot).len(), files_of(&space, &last).len());
}

#[test]
fn a_base_with_a_damaged_index_is_made_anew() {
    let world = World::repository();
    let (base, space) = begun(&world);
    let commit = thin(&world, &space, &base);
    let [damaged] = bases(&world).try_into().expect("one base");
    fs::write(damaged.join("git/.git/index"), "damaged").expect("written");
    let made = space.make("k3f9ab2c.1", 1, &commit).expect("made").dir;
    assert_eq!(on_disk(&made), files_of(&space, &commit));
    assert_eq!(run_in(&space, "k3f9ab2c.1", "git status --porcelain"), "");
    assert_eq!(wholes(&world).len(), 1, "the damaged one is set aside");
}
