//! Trees that a program made to be hard to go through. Whatever walks over a workspace gets to the end of them, with few
//! descriptors, and what lies beside them is kept and found.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use posse_files::{DirHandle, GlobPattern, RelPath, Stop};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use crate::support::{RUN, World, names_of, write};

/// How deep the deepest tree is: a walk that calls itself for each directory runs out of stack before that.
const DEEP: usize = 14_000;
/// How many descriptors a process has for all it does.
const DESCRIPTORS: &str = "32";
/// A user that owns nothing.
const ORDINARY: u32 = 65_534;
/// Says that this process is the one that walks.
const WALKS: &str = "POSSE_TEST_WALKS";

type Make = fn(&Path);

/// What is in a workspace beside the work, and what of it a snapshot has: names that end in this.
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
                // In any order: the deep one before the others, and after them.
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
    (
        "another filesystem",
        |top| {
            let dir = made(top, "in");
            let mounted = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&dir).status();
            if !mounted.is_ok_and(|status| status.success()) {
                println!("no filesystem could be mounted");
            }
            touch(&open(&dir), "f");
        },
        1,
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

/// Makes directories, one in the other, and something in each.
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

/// Whether the tests below are run here, and not in a process of their own.
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary something")]
fn walks_here() -> bool {
    std::env::var_os(WALKS).is_some()
}

#[test]
fn every_tree_is_walked_to_its_end_with_few_descriptors() {
    if walks_here() {
        return every_tree();
    }
    let is_root = rustix::process::geteuid().is_root();
    for user in [None, Some(ORDINARY)].into_iter().filter(|user| is_root || user.is_none()) {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
        // Where the build puts its binaries an ordinary user may not look.
        let tests = dir.path().join("tests");
        fs::copy("/proc/self/exe", &tests).expect("copied");
        let own = made(dir.path(), "own");
        chown(&own, user, user).expect("given away");
        let mut command = Command::new(if is_root && user.is_none() { "unshare" } else { "env" });
        if is_root && user.is_none() {
            command.args(["--mount", "--propagation", "private"]);
        }
        command.args(["prlimit", &format!("--nofile={DESCRIPTORS}")]).arg(&tests);
        command.args([
            "--exact",
            "--nocapture",
            "walks::every_tree_is_walked_to_its_end_with_few_descriptors",
        ]);
        command.env(WALKS, "1").env("TMPDIR", &own).current_dir(&own);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.output().expect("started");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{user:?}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains("1 passed"), "{said}");
    }
}

fn every_tree() {
    let problems: Vec<String> =
        TREES.iter().filter_map(|(name, make, kept)| walk(name, *make, *kept)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// What does not hold of a tree, if anything.
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
    drop(Command::new("umount").arg(dir.join("in")).output());
    if let Err(error) = posse_files::trees::remove(&dir) {
        return wrong("remove", &error);
    }
    dir.exists().then(|| format!("{name}: something is left"))
}
