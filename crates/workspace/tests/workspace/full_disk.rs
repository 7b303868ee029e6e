//! A disk that becomes full while files are laid out, folded, written or committed. The tests run once more in a mount namespace of their
//! own, on a small filesystem.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use posse_files::{DirHandle, ExpectedFile, FileError, RelPath, Stop};
use posse_sandbox::Exit;
use posse_workspace::ObjectId;

use crate::bases::{EVENTS_MAX, descendant, stack, wholes};
use crate::kind::{are_overlays, sandboxed};
use crate::overlays::bases;
use crate::salvage::on_disk;
use crate::support::{RUN, World, assert_sound, files_of, fingerprint, names_of, state_of};

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
    assert!(text.starts_with("the disk that is mounted at /") && text.contains("is full"), "{text}");
    assert!(text.contains("make space on it") && !text.contains("/bases/"), "{text}");
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

#[test]
fn a_disk_that_is_full_while_a_thin_layer_is_made_leaves_no_part_of_it() {
    if !are_overlays() {
        // Copies have no layers.
        return;
    }
    if !is_inner() {
        return on_a_small_disk(
            "full_disk::a_disk_that_is_full_while_a_thin_layer_is_made_leaves_no_part_of_it",
        );
    }
    let world = project();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for number in 0..FILES {
        fs::write(dir.join(format!("d0/new{number}")), noise(FILES + number)).expect("written");
    }
    let work = space.snapshot(RUN, 1).expect("committed").commit;
    let filler = Filler::new(&world);
    let (free, before) = (free_bytes(&world), state_of(&world));
    let child = descendant(1);
    for round in 0..3 {
        assert_says_full(&space.make(&child, 1, &work).expect_err("the layer does not fit"));
        let left = free - free_bytes(&world);
        assert!(left < FILE_BYTES as u64, "round {round} left {left} bytes");
    }
    let more: Vec<PathBuf> = state_of(&world).difference(&before).cloned().collect();
    assert!(more.iter().all(|path| path.to_string_lossy().contains("/workspaces/")), "{more:?}");
    assert!(more.iter().all(|path| path.is_dir()), "no file is left: {more:?}");
    assert_eq!(bases(&world).len(), 1, "no part of a layer");
    // The agent whose files exist is not disturbed.
    assert_files(&dir);
    drop(filler);
    let made = space.make(&child, 1, &work).expect("there is space again").dir;
    assert!(on_disk(&made) == files_of(&space, &work));
    assert_eq!((bases(&world).len(), wholes(&world).len()), (2, 1), "it is a thin layer");
    assert_sound(&space);
}

#[test]
fn a_disk_that_is_full_while_layers_are_folded_leaves_them_in_use() {
    if !are_overlays() {
        // Copies have no layers.
        return;
    }
    if !is_inner() {
        return on_a_small_disk("full_disk::a_disk_that_is_full_while_layers_are_folded_leaves_them_in_use");
    }
    let mut world = project();
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    stack(&space, &base, 0..7);
    let (folded, folds) = sync_channel(EVENTS_MAX);
    world.options.faults = Some(Arc::new(move |point: &'static str| {
        if point == "workspace.fold.ended" {
            folded.send(()).expect("somebody waits");
        }
    }));
    let space = world.spaces().open(RUN).expect("opened");
    let filler = Filler::new(&world);
    // Each of these states is deep enough to be folded, and is made and read all the same.
    for depth in 7..9 {
        let free = free_bytes(&world);
        let last = stack(&space, &base, depth..depth + 1);
        folds.recv().expect("the fold ends");
        let left = free.saturating_sub(free_bytes(&world));
        assert!(left < FREE_BYTES / 2, "depth {depth} left {left} bytes");
        let unfinished = bases(&world).into_iter().filter(|dir| dir.to_string_lossy().contains(".tmp-"));
        assert_eq!((unfinished.count(), wholes(&world).len()), (0, 1), "depth {depth}: no part of a base");
        let dir = space.make(&descendant(depth + 1), 1, &last).expect("found").dir;
        assert_files(&dir);
    }
    drop(filler);
    let deep = stack(&space, &base, 9..10);
    folds.recv().expect("the fold ends");
    let is_deep = |dir: &PathBuf| dir.to_string_lossy().contains(&deep.to_string());
    let whole = wholes(&world).into_iter().find(is_deep).expect("there is space again for the newest state");
    assert!(on_disk(&whole.join("files")) == files_of(&space, &deep));
    assert_sound(&space);
}

/// The tool that writes files, and a program: what does not fit is refused, and every other file is as it was.
#[test]
fn a_disk_that_is_full_while_an_agent_writes_costs_it_that_file_only() {
    if !is_inner() {
        return on_a_small_disk(
            "full_disk::a_disk_that_is_full_while_an_agent_writes_costs_it_that_file_only",
        );
    }
    let world = project();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let tool = DirHandle::open(&dir).expect("opened");
    let write = |name: &str, bytes: &[u8], expected| {
        tool.replace(&RelPath::parse(name).expect("a path"), bytes, expected, &Stop::new())
    };
    let work = noise(FILES);
    write("d0/work", &work, ExpectedFile::Absent).expect("written");
    let first = space.snapshot(RUN, 1).expect("committed").commit;
    // The first program of an agent needs the objects that its repository borrows.
    let filler = Filler::new(&world);
    let (free, before) = (free_bytes(&world), on_disk(&dir));
    let full = space.objects_of(RUN, 1).expect_err("they do not fit").to_string();
    assert!(full.contains("make space on it"), "{full}");
    assert!(free - free_bytes(&world) < FILE_BYTES as u64, "no part of them is left");
    drop(filler);
    space.objects_of(RUN, 1).expect("there is space again");
    let filler = Filler::new(&world);
    let free = free_bytes(&world);
    let large = vec![7; 2 * usize::try_from(FREE_BYTES).expect("small")];
    let is_work = ExpectedFile::Hash(*blake3::hash(&work).as_bytes());
    for (name, expected) in [("d0/large", ExpectedFile::Absent), ("d0/work", is_work)] {
        let full = write(name, &large, expected).expect_err("it does not fit");
        assert!(matches!(full, FileError::NoSpace { .. }), "{full:?}");
        assert!(full.to_string().contains(name) && full.to_string().contains("remove files"), "{full}");
        assert!(on_disk(&dir) == before, "no part of {name} is left");
    }
    let program = "cat d?/f* > large; echo code $?; rm large";
    let (exit, printed) = sandboxed(&space, (RUN, 1), &["bash", "-c", program]);
    assert_eq!(exit, Exit::Code(0), "{printed}");
    assert!(printed.contains("No space left on device") && printed.contains("code 1"), "{printed}");
    assert!(on_disk(&dir) == before, "the program removed what it could not finish");
    assert!(free - free_bytes(&world) < FILE_BYTES as u64, "and that is free again");
    drop(filler);
    write("d0/large", &large, ExpectedFile::Absent).expect("there is space again");
    let second = space.snapshot(RUN, 1).expect("committed").commit;
    let mut wanted = files_of(&space, &first);
    wanted.insert(b"d0/large".to_vec(), ("100644".to_owned(), large));
    assert!(files_of(&space, &second) == wanted, "{:?}", names_of(&space, &second));
    assert_sound(&space);
}
