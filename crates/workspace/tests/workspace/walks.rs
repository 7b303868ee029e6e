//! Trees that a program built to be hard to walk. Every walk over a workspace completes with few descriptors, and files
//! beside such trees are kept and found.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use posse_engine::ports::{GcOptions, RunPhase};
use posse_files::{DirHandle, GlobPattern, GrepQuery, RelPath, Stop};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::support::{RUN, World, names_of, write};

/// The depth of the deepest tree. A recursive walk would overflow the stack before that.
const DEEP: usize = 14_000;
/// The descriptor limit of the walking process.
const DESCRIPTORS: &str = "32";
/// A user without files.
const ORDINARY: u32 = 65_534;
/// Marks the process that walks.
const WALKS: &str = "POSSE_TEST_WALKS";

type Make = fn(&Path);

/// Trees beside the work in a workspace, and how many of their files a snapshot has.
const TREES: &[(&str, Make, usize)] = &[
    ("deep and ignored", |top| nest(&made(top, "ignored"), DEEP, "d", |_| ()), 0),
    ("deep, with too many levels", |top| nest(&made(top, "in"), DEEP, "d", |_| ()), 0),
    (
        "a file on every level, and too many levels",
        |top| nest(&made(top, "in"), 300, "d", |dir| touch(dir, "f")),
        199,
    ),
    (
        "branches on every level",
        |top| {
            nest(&made(top, "in"), 150, "d", |dir| {
                // In any order: the deep directory before and after the others.
                for name in ["w", "d", "x", "y"] {
                    mkdirat(dir, name, Mode::from_raw_mode(0o755)).expect("made");
                }
                touch(dir, "f");
            });
        },
        150,
    ),
    (
        "many deep ones beside each other",
        |top| {
            for number in 0..10 {
                nest(&made(top, &format!("in{number}")), 30, "d", |dir| touch(dir, "f"));
            }
        },
        300,
    ),
    (
        "many directories in one",
        |top| {
            for number in 0..300 {
                write(top, &format!("in/{number}/f"), "");
            }
        },
        300,
    ),
    ("the longest names", |top| nest(&made(top, "ignored"), 60, "n".repeat(255), |dir| touch(dir, "f")), 0),
    (
        "links in a circle, up and out",
        |top| {
            let dir = made(top, "in");
            for (name, to) in
                [("self", "self"), ("up", ".."), ("a", "b"), ("b", "a"), ("out", "/"), ("f", "../work.txt")]
            {
                symlink(to, dir.join(name)).expect("made");
            }
        },
        2,
    ),
    (
        "directories that may not be listed, entered or changed",
        |top| {
            for (name, mode) in [("0", 0o000), ("1", 0o100), ("2", 0o200), ("4", 0o400), ("5", 0o500)] {
                write(top, &format!("in/{name}/f"), "");
                fs::set_permissions(top.join("in").join(name), fs::Permissions::from_mode(mode))
                    .expect("set");
            }
        },
        5,
    ),
    (
        "files that may not be read",
        |top| {
            for (name, mode) in [("a.f", 0o000), ("b.f", 0o200), ("c.f", 0o111)] {
                write(top, &format!("in/{name}"), "");
                fs::set_permissions(top.join("in").join(name), fs::Permissions::from_mode(mode))
                    .expect("set");
            }
        },
        3,
    ),
    (
        "pipes and sockets",
        |top| {
            let dir = made(top, "in");
            rustix::fs::mknodat(CWD, dir.join("p"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
                .expect("made");
            drop(std::os::unix::net::UnixListener::bind(dir.join("s")).expect("made"));
        },
        0,
    ),
    (
        "names that are no text",
        |top| {
            nest(&made(top, "in"), 40, OsStr::from_bytes(b"\xff\n\x1b[2J"), |dir| touch(dir, "f"));
        },
        40,
    ),
    (
        "a repository in a repository in a repository",
        |top| {
            nest(&made(top, "in"), 60, ".git", |dir| touch(dir, "f"));
        },
        0,
    ),
];

fn made(top: &Path, name: &str) -> std::path::PathBuf {
    let dir = top.join(name);
    fs::create_dir_all(&dir).expect("made");
    dir
}

fn open(dir: &Path) -> OwnedFd {
    openat(CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).expect("opened")
}

/// Creates nested directories and calls a function in each.
fn nest(top: &Path, depth: usize, name: impl AsRef<OsStr>, each: impl Fn(&OwnedFd)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = open(top);
    for _ in 0..depth {
        match mkdirat(&dir, name.as_ref(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => panic!("{error}"),
        }
        dir = openat(&dir, name.as_ref(), flags, Mode::empty()).expect("opened");
        each(&dir);
    }
}

fn touch(dir: &OwnedFd, name: &str) {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(dir, name, flags, Mode::from_raw_mode(0o644)).expect("made"));
}

/// Whether the tests below run in this process, or start another one.
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary something")]
fn walks_here() -> bool {
    std::env::var_os(WALKS).is_some()
}

#[test]
fn every_tree_is_walked_to_its_end_with_few_descriptors() {
    if walks_here() {
        return every_tree();
    }
    for user in users() {
        walk_in_a_process("every_tree_is_walked_to_its_end_with_few_descriptors", user, &["env"]);
    }
}

/// This user, and an ordinary one if this process may switch to it.
fn users() -> impl Iterator<Item = Option<u32>> {
    let is_root = rustix::process::geteuid().is_root();
    [None, Some(ORDINARY)].into_iter().filter(move |user| is_root || user.is_none())
}

/// Runs one of these tests in a process with few descriptors, started through `by`, and returns its output.
fn walk_in_a_process(test: &str, user: Option<u32>, by: &[&str]) -> String {
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    // An ordinary user may not read the build directory.
    let tests = crate::support::copy_tests(dir.path());
    let own = made(dir.path(), "own");
    chown(&own, user, user).expect("given away");
    let (program, arguments) = by.split_first().expect("a program");
    let mut command = Command::new(program);
    command.args(arguments).args(["prlimit", &format!("--nofile={DESCRIPTORS}")]).arg(&tests);
    command.args(["--exact", "--nocapture", &format!("walks::{test}")]);
    command.env(WALKS, "1").env("TMPDIR", &own).current_dir(&own);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().expect("started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{user:?}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    said
}

fn every_tree() {
    let problems: Vec<String> =
        TREES.iter().filter_map(|(name, make, kept)| walk(name, *make, *kept)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The problem with a tree, if any.
fn walk(name: &str, make: Make, kept: usize) -> Option<String> {
    let world = World::repository();
    world.write(".gitignore", "/ignored\n");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    make(&dir);
    write(&dir, "work.txt", "done\n");
    let wrong = |what: &str, found: &dyn std::fmt::Debug| Some(format!("{name}: {what}: {found:?}"));
    let files = DirHandle::open(&dir).expect("opened");
    let pattern = GlobPattern::parse(&RelPath::root(), "*.txt").expect("a pattern");
    match files.glob(&pattern, 10, &Stop::new()) {
        Ok(found) if found.files.iter().any(|file| file.text() == "work.txt") => {}
        found => return wrong("glob", &found.map(|found| found.files.len())),
    }
    if let Err(error) = files.list(&RelPath::root()) {
        return wrong("list", &error);
    }
    let salvaged = match space.salvage(RUN, 1) {
        Ok(salvaged) => salvaged,
        Err(error) => return wrong("salvage", &error.to_string()),
    };
    let names = names_of(&space, &salvaged.snapshot.commit);
    if !names.iter().any(|name| name == "work.txt") {
        return wrong("the work is not kept", &names.len());
    }
    let found = names.iter().filter(|name| name.ends_with('f')).count();
    if found != kept {
        return wrong("another number of files is kept", &found);
    }
    let is_said = salvaged.left_out.iter().any(|left_out| left_out.contains("more than 200 directories"));
    if is_said != name.contains("too many levels") {
        return wrong("what was left out", &salvaged.left_out);
    }
    space.release(RUN, 1);
    let home = space.dir_of(RUN, 1).with_file_name("");
    if let Err(error) = posse_files::trees::remove(&home) {
        return wrong("remove", &error);
    }
    home.exists().then(|| format!("{name}: something is left"))
}

/// Mounts a directory that does not belong to Posse in a workspace. Returns the mount point relative to the workspace.
type Mount = fn(&Path, &Path) -> &'static str;

/// Mounts in a workspace, and how many of their files a snapshot has.
const MOUNTS: &[(&str, Mount, usize)] = &[
    (
        "another filesystem",
        |top, _| {
            mount(&["-t", "tmpfs", "none"], &made(top, "in/mnt"));
            touch(&open(&top.join("in/mnt")), "f");
            "in/mnt"
        },
        1,
    ),
    ("a directory of the same filesystem", |top, foreign| bind(foreign, &made(top, "in/mnt"), "in/mnt"), 2),
    ("one that is ignored", |top, foreign| bind(foreign, &made(top, "ignored/mnt"), "ignored/mnt"), 0),
    (
        "one that cannot be written",
        |top, foreign| {
            let at = bind(foreign, &made(top, "in/mnt"), "in/mnt");
            mount(&["-o", "remount,bind,ro", "none"], &top.join(at));
            at
        },
        2,
    ),
    (
        "two on one place",
        |top, foreign| {
            mount(&["-t", "tmpfs", "none"], &made(top, "in/mnt"));
            bind(foreign, &top.join("in/mnt"), "in/mnt")
        },
        2,
    ),
    (
        "one deep down",
        |top, foreign| {
            nest(&made(top, "in"), 40, "d", |_| ());
            let deep = format!("in{}/mnt", "/d".repeat(40));
            bind(foreign, &made(top, &deep), "mnt")
        },
        2,
    ),
    (
        "one beside much else",
        |top, foreign| {
            for number in 0..100 {
                write(top, &format!("in/{number}/x"), "");
            }
            bind(foreign, &made(top, "in/50/mnt"), "in/50/mnt")
        },
        2,
    ),
    (
        "a single file",
        |top, foreign| {
            write(top, "in/mnt", "");
            bind(&foreign.join("precious.f"), &top.join("in/mnt"), "in/mnt")
        },
        0,
    ),
];

fn mount(how: &[&str], at: &Path) {
    let output = Command::new("mount").args(how).arg(at).output().expect("started");
    assert!(output.status.success(), "{how:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn bind(from: &Path, at: &Path, named: &'static str) -> &'static str {
    mount(&["--bind", from.to_str().expect("text")], at);
    named
}

#[test]
fn what_is_mounted_in_a_tree_is_neither_removed_nor_counted_and_is_named() {
    if crate::kind::are_overlays() {
        // No program can mount in an overlay, because it has no path. The copies cover directories of layers.
        return;
    }
    if walks_here() {
        let problems: Vec<String> =
            MOUNTS.iter().filter_map(|(name, make, kept)| walk_mounted(name, *make, *kept)).collect();
        assert!(problems.is_empty(), "{problems:#?}");
        return;
    }
    for user in users() {
        let mut by = vec!["unshare", "--mount", "--propagation", "private"];
        if user.is_some() || !rustix::process::geteuid().is_root() {
            by.extend(["--user", "--map-root-user"]);
        }
        let mut probe = Command::new("unshare");
        probe.args(&by[1..]).args(["mount", "-t", "tmpfs", "none", "/mnt"]);
        if let Some(user) = user {
            probe.uid(user).gid(user);
        }
        if !probe.output().is_ok_and(|output| output.status.success()) {
            println!("skipped: nothing can be mounted here by user {user:?}");
            continue;
        }
        walk_in_a_process("what_is_mounted_in_a_tree_is_neither_removed_nor_counted_and_is_named", user, &by);
    }
}

/// The problem with a tree that has a mount, if any.
fn walk_mounted(name: &str, make: Mount, kept: usize) -> Option<String> {
    const LARGE_BYTES: usize = 8 << 20;
    let world = World::repository();
    world.write(".gitignore", "/ignored\n");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let foreign = world.elsewhere("foreign");
    write(&foreign, "precious.f", "mine");
    write(&foreign, "deep/er/f", vec![b'x'; LARGE_BYTES]);
    let mounted = make(&dir, &foreign);
    write(&dir, "work.txt", "done\n");
    let wrong = |what: &str, found: &dyn std::fmt::Debug| Some(format!("{name}: {what}: {found:?}"));
    let files = DirHandle::open(&dir).expect("opened");
    let query = GrepQuery { pattern: "^done$".to_owned(), max_results: 10, ..GrepQuery::default() };
    match files.grep(&query, &Stop::new()) {
        Ok(found) if found.files.iter().any(|file| file.path.text() == "work.txt") => {}
        found => return wrong("grep", &found),
    }
    match space.disk_bytes() {
        Ok(bytes) if bytes < LARGE_BYTES as u64 => {}
        bytes => return wrong("what is mounted is counted", &bytes),
    }
    let salvaged = match space.salvage(RUN, 1) {
        Ok(salvaged) => salvaged,
        Err(error) => return wrong("salvage", &error.to_string()),
    };
    let names = names_of(&space, &salvaged.snapshot.commit);
    let found = names.iter().filter(|name| name.ends_with('f')).count();
    if found != kept || !names.iter().any(|name| name == "work.txt") {
        return wrong("what is kept", &names);
    }
    let is_named = |said: &str| said.contains(&format!("{mounted} is a mount point"));
    match space.remove(RUN, 1) {
        Err(error) if is_named(&error.to_string()) => {}
        removed => return wrong("removing", &removed.map_err(|error| error.to_string())),
    }
    let report = world.spaces().gc(&old()).expect("cleaned");
    if !report.kept.iter().any(|kept| is_named(&kept.why)) {
        return wrong("gc", &report);
    }
    if fs::read(foreign.join("precious.f")).ok().as_deref() != Some(b"mine")
        || fs::metadata(foreign.join("deep/er/f")).map_or(0, |file| file.len()) != LARGE_BYTES as u64
    {
        return wrong("what is not Posse's is gone", &mounted);
    }
    let table = fs::read_to_string("/proc/self/mountinfo").expect("a table");
    let places: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(4)).collect();
    let ours = places.into_iter().filter(|place| Path::new(place).starts_with(world.state()));
    for place in ours {
        drop(Command::new("umount").arg(place).output());
    }
    let report = world.spaces().gc(&old()).expect("cleaned");
    let left = fs::read_dir(world.state().join("trash")).map_or(0, Iterator::count);
    (left > 0).then(|| format!("{name}: something is left: {report:?}"))
}

fn old() -> GcOptions {
    GcOptions {
        dry_run: false,
        workspaces_older_than: Duration::ZERO,
        salvage_older_than: Duration::MAX,
        runs: [(RUN.to_owned(), RunPhase::Ended)].into(),
        now: SystemTime::now(),
    }
}
