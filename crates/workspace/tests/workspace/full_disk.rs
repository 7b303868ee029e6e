//! A disk that becomes full while files are laid out or committed. The tests run once more in a mount namespace of their
//! own, on a small filesystem.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use posse_workspace::ObjectId;

use crate::support::{RUN, World, assert_sound, fingerprint, names_of};

/// The size of the small filesystem.
const DISK_BYTES: u64 = 16 << 20;
/// The size of each file of the project, and their number: all of them fit once more, but not beside the filler.
const FILE_BYTES: usize = 64 << 10;
const FILES: usize = 40;
/// What the filler leaves: half of the project.
const FREE_BYTES: u64 = (FILE_BYTES * FILES / 2) as u64;

/// Set for the inner process.
const INNER: &str = "POSSE_TEST_ON_A_SMALL_DISK";

/// Whether this process is the inner one, on the small filesystem.
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary something")]
fn is_inner() -> bool {
    std::env::var_os(INNER).is_some()
}

/// Runs a test of this file again, with its temporary files on a small filesystem.
fn on_a_small_disk(test: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let own = std::env::current_exe().expect("this program");
    // An ordinary user may mount in a user namespace only.
    let namespaces: &[&str] =
        if rustix::process::geteuid().is_root() { &["--mount"] } else { &["--mount", "--map-root-user"] };
    let script = format!("mount -t tmpfs -o size={DISK_BYTES} posse \"$0\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(namespaces).args(["sh", "-c", &script]).arg(dir.path()).arg(own);
    let output = command
        .args(["--exact", test, "--nocapture"])
        .env(INNER, "1")
        .env("TMPDIR", dir.path())
        .output()
        .expect("unshare of util-linux");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn free_bytes(world: &World) -> u64 {
    let disk = rustix::fs::statvfs(world.state()).expect("a filesystem");
    disk.f_bavail * disk.f_frsize
}

/// A file that takes all space but [`FREE_BYTES`].
struct Filler(PathBuf);

impl Filler {
    fn new(world: &World) -> Self {
        let path = world.elsewhere("filler");
        let fill_bytes = free_bytes(world) - FREE_BYTES;
        let block = vec![1; 64 << 10];
        let mut file = fs::File::create(&path).expect("created");
        for _ in 0..fill_bytes / block.len() as u64 {
            file.write_all(&block).expect("filled");
        }
        Self(path)
    }

    /// Takes the rest of the space too.
    fn fill_up(&self) {
        let mut file = fs::File::options().append(true).open(&self.0).expect("opened");
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        fs::remove_file(&self.0).expect("removed");
    }
}

/// Bytes that do not become smaller when they are compressed.
fn noise(seed: usize) -> Vec<u8> {
    let mut bytes = vec![0; FILE_BYTES];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn project() -> World {
    let world = World::repository();
    for number in 0..FILES {
        world.write(&format!("d{}/f{number}", number % 4), noise(number));
    }
    world.commit_all();
    world
}

fn assert_says_full(error: &impl std::fmt::Display) {
    let text = error.to_string();
    assert!(text.contains("No space left on device") && text.contains('/'), "{text}");
}

fn assert_files(dir: &Path) {
    for number in 0..FILES {
        let path = dir.join(format!("d{}/f{number}", number % 4));
        assert_eq!(fs::read(&path).expect("read"), noise(number), "{}", path.display());
    }
}

#[test]
fn a_disk_that_is_full_while_files_are_laid_out_leaves_no_part_of_them() {
    if !is_inner() {
        return on_a_small_disk(
            "full_disk::a_disk_that_is_full_while_files_are_laid_out_leaves_no_part_of_them",
        );
    }
    let world = project();
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let before = fingerprint(&world.folder());
    let filler = Filler::new(&world);
    let free = free_bytes(&world);
    for round in 0..3 {
        assert_says_full(&space.make(RUN, 1, &base).expect_err("the files do not fit"));
        let left = free - free_bytes(&world);
        assert!(left < FILE_BYTES as u64, "round {round} left {left} bytes");
    }
    assert_eq!(fingerprint(&world.folder()), before, "the user's folder is unchanged");
    drop(filler);
    let dir = space.make(RUN, 1, &base).expect("there is space again").dir;
    assert_files(&dir);
    assert_sound(&space);
}

#[test]
fn a_disk_that_is_full_while_work_is_committed_loses_none_of_it() {
    if !is_inner() {
        return on_a_small_disk("full_disk::a_disk_that_is_full_while_work_is_committed_loses_none_of_it");
    }
    let world = project();
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    fs::write(dir.join("d0/work"), noise(FILES)).expect("written");
    let first = space.snapshot(RUN, 1).expect("committed").commit;
    fs::write(dir.join("d0/more"), noise(FILES + 1)).expect("written");
    let filler = Filler::new(&world);
    filler.fill_up();
    assert_says_full(&space.snapshot(RUN, 1).expect_err("the disk is full"));
    assert_says_full(&space.salvage(RUN, 1).expect_err("the disk is full"));
    let tip = space.read_ref(&posse_workspace::work_ref(RUN, 1)).expect("read");
    assert_eq!(tip, Some(first), "the last commit is as it was");
    drop(filler);
    let second: ObjectId = space.snapshot(RUN, 1).expect("there is space again").commit;
    let names = names_of(&space, &second);
    assert!(["d0/more", "d0/work"].iter().all(|name| names.iter().any(|found| found == name)), "{names:?}");
    assert_files(&dir);
    assert_sound(&space);
}
