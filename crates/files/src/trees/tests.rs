//! Trees that are hard to remove and to read.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};

use super::*;

/// The deepest tree: a recursive walk overflows the stack before that.
const DEEP: usize = 14_000;
/// The stack size of a walk, too small for one frame per directory.
const STACK_BYTES: usize = 128 * 1024;

/// A user id that owns nothing else.
const ORDINARY: u32 = 65_534;

/// Creates nested directories, and runs `each` in every one.
fn nest(top: &Path, depth: usize, name: &OsStr, each: impl Fn(&OwnedFd)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, top, flags, Mode::empty()).expect("opened");
    for _ in 0..depth {
        mkdirat(&dir, name, Mode::from_raw_mode(0o755)).expect("made");
        dir = openat(&dir, name, flags, Mode::empty()).expect("opened");
        each(&dir);
    }
}

fn touch(dir: &OwnedFd, name: &str) {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(openat(dir, name, flags, Mode::from_raw_mode(0o644)).expect("made"));
}

fn mode(dir: &OwnedFd, mode: u32) {
    rustix::fs::fchmod(dir, Mode::from_raw_mode(mode)).expect("set");
}

/// A directory in memory, if there is one: removing ten thousand directories from a disk takes long.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory")
}

type Make = fn(&Path);

/// Trees that are removed completely, with the function that creates each.
const TREES: &[(&str, Make)] = &[
    ("directories, one in the other", |top| nest(top, DEEP, OsStr::new("d"), |_| ())),
    ("the same with a file in each", |top| nest(top, 3_000, OsStr::new("d"), |dir| touch(dir, "f"))),
    ("the same with the longest names", |top| {
        nest(top, 1_000, OsStr::new(&"n".repeat(255)), |dir| touch(dir, &"f".repeat(255)));
    }),
    ("the same without permission to look", |top| nest(top, 200, OsStr::new("d"), |dir| mode(dir, 0o000))),
    ("the same with permission to look alone", |top| {
        nest(top, 200, OsStr::new("d"), |dir| {
            touch(dir, "f");
            mode(dir, 0o555);
        });
    }),
    ("many deep ones beside each other", |top| {
        for number in 0..20 {
            nest(top, 300, OsStr::new(&format!("d{number}")), |dir| touch(dir, "f"));
        }
    }),
    ("branches at every level", |top| {
        nest(top, 500, OsStr::new("d"), |dir| {
            for name in ["x", "y", "z"] {
                mkdirat(dir, name, Mode::from_raw_mode(0o700)).expect("made");
            }
        });
    }),
    ("many files in one directory", |top| {
        (0..20_000).for_each(|number| fs::write(top.join(format!("f{number}")), "").expect("written"));
    }),
    ("many directories in one directory", |top| {
        (0..5_000).for_each(|number| fs::create_dir(top.join(format!("d{number}"))).expect("made"));
    }),
    ("links that lead out, up and in a circle", |top| {
        for (name, to) in [("out", "../kept"), ("up", ".."), ("self", "self"), ("root", "/")] {
            symlink(to, top.join(name)).expect("made");
        }
        fs::create_dir(top.join("d")).expect("made");
        symlink("../../kept", top.join("d/out")).expect("made");
    }),
    ("pipes and sockets", |top| {
        rustix::fs::mknodat(CWD, top.join("p"), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("made");
        drop(std::os::unix::net::UnixListener::bind(top.join("s")).expect("made"));
    }),
    ("names that are no text", |top| {
        let name = OsStr::from_bytes(b"\xff\n\x1b[2J");
        nest(top, 40, name, |dir| touch(dir, "..."));
    }),
    ("names that look like those of directories that were brought up", |top| {
        nest(top, 100, OsStr::new(".posse-removed-1"), |dir| touch(dir, "f"));
        fs::create_dir(top.join(format!(".posse-removed-{}-1", std::process::id()))).expect("made");
    }),
    ("nothing", |_| ()),
];

/// Runs a function on a thread with a small stack.
fn with_little_stack<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(act).expect("a thread");
    thread.join().expect("enough stack")
}

#[test]
fn every_tree_is_summed_up_and_removed_whole_and_what_its_links_lead_to_stays() {
    for (name, make) in TREES {
        let all = place();
        fs::create_dir(all.path().join("kept")).expect("made");
        fs::write(all.path().join("kept/file"), "mine").expect("written");
        let top = all.path().join("tree");
        fs::create_dir(&top).expect("made");
        make(&top);
        let (summed, removed) = (top.clone(), top.clone());
        let bytes = with_little_stack(move || bytes_beneath(&summed));
        assert!(bytes.is_ok(), "{name}: {bytes:?}");
        let gone = with_little_stack(move || remove(&removed));
        assert!(gone.is_ok(), "{name}: {gone:?}");
        assert!(fs::symlink_metadata(&top).is_err(), "{name}");
        assert_eq!(fs::read_to_string(all.path().join("kept/file")).expect("kept"), "mine", "{name}");
    }
}

/// Runs a function on a thread of an ordinary user. None if this thread cannot become one.
fn as_an_ordinary_user<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let thread = std::thread::spawn(|| {
        let is_ordinary = !rustix::process::geteuid().is_root() || become_ordinary();
        is_ordinary.then(act)
    });
    thread.join().expect("no panic")
}

/// Drops this thread's privileges for good. The system call changes one thread. The library's functions change all.
#[expect(unsafe_code, reason = "there is no safe form")]
fn become_ordinary() -> bool {
    // SAFETY: no memory is involved, and the thread ends without using the privileges that it drops.
    unsafe { libc::syscall(libc::SYS_setresuid, ORDINARY, ORDINARY, ORDINARY) == 0 }
}

#[test]
fn summing_up_sees_what_its_owner_hid_and_leaves_every_permission_as_it_was() {
    let all = place();
    let top = all.path().join("tree");
    fs::create_dir(&top).expect("made");
    rustix::fs::chmod(all.path(), Mode::from_raw_mode(0o755)).expect("set");
    let names = ["closed", "blind", "searched", "listed", "deep", "open"];
    let modes = [0o000, 0o300, 0o100, 0o400, 0o000, 0o755];
    for name in names {
        fs::create_dir_all(top.join(name).join("in/side")).expect("made");
        fs::write(top.join(name).join("in/side/f"), vec![1; 1 << 20]).expect("written");
    }
    mode(&openat(CWD, top.join("deep/in"), OFlags::RDONLY, Mode::empty()).expect("opened"), 0o000);
    // If `chown` fails, an ordinary user already owns it.
    let given = std::process::Command::new("chown").args(["-R", &ORDINARY.to_string()]).arg(&top).output();
    drop(given.expect("chown runs"));
    for (name, permissions) in names.iter().zip(modes) {
        fs::set_permissions(top.join(name), fs::Permissions::from_mode(permissions)).expect("set");
    }
    let modes_of = |top: &Path| -> Vec<u32> {
        names.iter().map(|name| fs::metadata(top.join(name)).expect("there").mode() & 0o7777).collect()
    };
    let before = modes_of(&top);
    let summed = top.clone();
    let Some(bytes) = as_an_ordinary_user(move || bytes_beneath(&summed).expect("summed")) else {
        println!("skipped: this thread cannot become an ordinary user");
        return;
    };
    assert!(bytes >= names.len() as u64 * (1 << 20), "{bytes}");
    assert_eq!(modes_of(&top), before);
    if rustix::process::geteuid().is_root() {
        assert_eq!(fs::metadata(top.join("deep/in")).expect("there").mode() & 0o7777, 0);
    }
    remove(&top).expect("removed");
}

#[test]
fn a_file_is_removed_and_what_is_not_there_is_no_error() {
    let all = place();
    fs::write(all.path().join("f"), "x").expect("written");
    symlink("f", all.path().join("l")).expect("made");
    remove(&all.path().join("l")).expect("removed");
    assert!(all.path().join("f").exists());
    remove(&all.path().join("f")).expect("removed");
    remove(&all.path().join("f")).expect("nothing to do");
    remove(&all.path().join("f/g")).expect("nothing to do");
}

#[test]
fn what_cannot_be_removed_stops_nothing_else_and_is_the_error() {
    let all = place();
    let top = all.path().join("tree");
    for dir in ["a/deep", "b/stuck", "c/deep"] {
        fs::create_dir_all(top.join(dir)).expect("made");
        fs::write(top.join(dir).join("f"), "x").expect("written");
    }
    let stuck = top.join("b/stuck/f");
    let immutable = |flag: &str| {
        std::process::Command::new("chattr")
            .arg(flag)
            .arg(&stuck)
            .output()
            .is_ok_and(|done| done.status.success())
    };
    if !immutable("+i") {
        println!("skipped: no file can be made immutable here");
        return;
    }
    let left = remove(&top);
    let is_left = [top.join("a"), stuck.clone(), top.join("c")].map(|path| path.exists());
    assert!(immutable("-i"));
    assert_eq!(left.expect_err("something is left").raw_os_error(), Some(libc::EPERM));
    assert_eq!(is_left, [false, true, false]);
    remove(&top).expect("removed");
    assert!(!top.exists());
}

#[test]
fn files_count_once_however_many_names_they_have_and_deep_ones_count_too() {
    let all = place();
    let big = vec![1; 1 << 20];
    fs::write(all.path().join("f"), &big).expect("written");
    fs::hard_link(all.path().join("f"), all.path().join("g")).expect("linked");
    let once = bytes_beneath(all.path()).expect("summed");
    assert!((1 << 20..3 << 19).contains(&once), "{once}");
    let elsewhere = place();
    fs::hard_link(all.path().join("f"), elsewhere.path().join("h")).expect("linked");
    let without = bytes_beneath(all.path()).expect("summed");
    assert!(without < 1 << 20, "a removal would not free it: {without}");
    fs::remove_file(elsewhere.path().join("h")).expect("removed");
    nest(all.path(), 5_000, OsStr::new("d"), |_| ());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = openat(CWD, all.path(), flags, Mode::empty()).expect("opened");
    for _ in 0..5_000 {
        dir = openat(&dir, "d", flags, Mode::empty()).expect("opened");
    }
    let file = openat(&dir, "f", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o644)).expect("made");
    rustix::io::write(&file, &big).expect("written");
    // Entries beside the uppermost directory are still found after all of them.
    fs::create_dir(all.path().join("a")).expect("made");
    fs::write(all.path().join("a/f"), &big).expect("written");
    let all_of_it = bytes_beneath(all.path()).expect("summed");
    assert!(all_of_it >= once + (2 << 20), "{all_of_it}");
    remove(all.path()).expect("removed");
}

#[test]
fn a_directory_that_something_is_mounted_on_is_summed_up() {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("a table");
    let memory = Path::new("/dev/shm");
    if !table.lines().any(|line| line.split(' ').nth(4).map(Path::new) == Some(memory)) {
        println!("skipped: nothing is mounted on /dev/shm");
        return;
    }
    let own = tempfile::tempdir_in(memory).expect("a directory");
    fs::write(own.path().join("file"), vec![b'x'; 64 * 1024]).expect("written");
    let bytes = bytes_beneath(memory).expect("summed up");
    assert!(bytes >= 64 * 1024, "{bytes}");
}
