//! Workspaces after a machine crash.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use posse_workspace::{ObjectId, RunSpace, salvaged_git_ref, torn_ref, work_ref};

use crate::kind::are_overlays;
use crate::support::{RUN, World, assert_sound, names_of, text_of, write};

/// Opens the run in another boot, with a workspace that had not reached the disk. `last` is the last commit of the
/// workspace: after waiting for its mark, no later mark can make the workspace complete again.
fn after_power_cut(world: &mut World, agent: &str, last: &ObjectId) -> RunSpace {
    let mark = home_of(world, agent).join("synced");
    wait_for_commit(&mark, last);
    fs::remove_file(&mark).expect("removed");
    let boot = world.options.boot.take().unwrap_or_default();
    world.options.boot = Some(format!("{boot}later"));
    world.spaces().open(RUN).expect("opened")
}

/// The directory of the first attempt of an agent.
fn home_of(world: &World, agent: &str) -> PathBuf {
    world.state().join("runs").join(RUN).join("workspaces").join(agent).join("1")
}

/// The name of the directory with the files that an agent changed, in that of its attempt.
fn changed() -> &'static str {
    if are_overlays() { "upper" } else { "files" }
}

#[test]
fn a_torn_workspace_is_made_anew_from_where_its_line_stands() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "b", "two");
    let taken = space.snapshot(RUN, 1).expect("taken");
    let space = after_power_cut(&mut world, RUN, &taken.commit);
    assert!(space.snapshot(RUN, 1).is_err(), "nothing is taken for work before it is made anew");
    assert_eq!(space.update(RUN, 1, &taken.commit, &taken.commit).expect("no files").written, 0);
    let made = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    assert!(made.fresh);
    assert_eq!(made.base, taken.commit);
    assert_eq!(fs::read_to_string(made.dir.join("b")).expect("read"), "two");
    assert_eq!(space.read_ref(&work_ref(RUN, 1)).expect("read"), Some(taken.commit));
    assert_eq!(space.read_ref(&torn_ref(RUN, 1)).expect("read"), None, "nothing else was in it");
    assert!(made.notes.iter().any(|note| note.contains("nothing in it differed")), "{:?}", made.notes);
}

#[test]
fn what_can_be_read_of_a_torn_workspace_is_kept() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let mut dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    for work in ["first", "second"] {
        // A file that lost its content, and one that did not.
        write(&dir, "a", "");
        write(&dir, "work", work);
        let space = after_power_cut(&mut world, RUN, &begun.snapshot.commit);
        let made = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
        assert_eq!((made.fresh, made.base), (true, begun.snapshot.commit));
        dir = made.dir;
        assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "one");
        assert!(!dir.join("work").exists());
        let name = torn_ref(RUN, 1);
        assert!(made.notes.iter().any(|note| note.contains(&name)), "{:?}", made.notes);
        let kept = space.read_ref(&name).expect("read").expect("kept");
        assert_eq!(names_of(&space, &kept), ["a", "work"]);
        assert_eq!(text_of(&space, &kept, "work").as_deref(), Some(work));
    }
    let space = world.spaces().open(RUN).expect("opened");
    let log = space.git().run(&["log", "--format=%s", &torn_ref(RUN, 1)]).expect("a log");
    let log = String::from_utf8(log).expect("text");
    assert_eq!(
        log.matches("as far as the machine kept it").count(),
        2,
        "the first is kept beneath the second: {log}"
    );
    let [salvage] = space.salvages().expect("listed").try_into().expect("one");
    assert_eq!((salvage.torn, salvage.attempt), (true, 1));
    let target = world.elsewhere("restored");
    assert_eq!(space.restore_torn(RUN, 1, &target).expect("restored"), 2);
    assert!(space.restore(RUN, 1, &target).is_err(), "nothing was salvaged as a whole");
    assert_sound(&space);
}

#[test]
fn a_torn_workspace_that_cannot_be_read_is_set_aside() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "large", vec![b'x'; 3_000]);
    world.options.max_file_bytes = 2_000;
    let space = after_power_cut(&mut world, RUN, &begun.snapshot.commit);
    let made = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    assert!(made.fresh && !made.dir.join("large").exists());
    let home = home_of(&world, RUN);
    let home = home.parent().expect("a parent");
    let aside =
        fs::read_dir(home).expect("listed").flatten().find(|entry| entry.file_name() != *"1").expect("one");
    assert!(aside.path().join(changed()).join("large").exists());
    let shown = aside.path().display().to_string();
    assert!(made.notes.iter().any(|note| note.contains(&shown)), "{:?}", made.notes);
    assert!(world.spaces().remove_run(RUN).is_err(), "it may hold work that is nowhere else");
}

#[test]
fn what_cannot_be_kept_of_a_torn_workspace_and_what_was_done_with_git_outlast_it() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, ".git/refs/heads/side", begun.snapshot.commit.to_string());
    write(&dir, "x/git~1/config", "work");
    let space = after_power_cut(&mut world, RUN, &begun.snapshot.commit);
    let made = space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    assert!(made.fresh && !made.dir.join("x").exists());
    let home = home_of(&world, RUN);
    let home = home.parent().expect("a parent");
    let mut aside = fs::read_dir(home).expect("listed").flatten().map(|entry| entry.path());
    let aside = aside.find(|path| path.join(changed()).join("x/git~1/config").exists()).expect("set aside");
    assert!(made.notes[0].contains(&aside.display().to_string()), "{:?}", made.notes);
    let git = space.read_ref(&salvaged_git_ref(RUN, 1)).expect("read").expect("kept");
    assert_eq!(text_of(&space, &git, "refs/heads/side"), Some(begun.snapshot.commit.to_string()));
}

#[test]
fn a_line_that_moved_before_its_workspace_was_made_is_where_it_begins() {
    let world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let child = format!("{RUN}.1");
    let dir = space.make(&child, 1, &base).expect("made").dir;
    write(&dir, "b", "by the child");
    let work = space.snapshot(&child, 1).expect("taken").commit;
    // The parent only delegates: its work ref moves without files on disk.
    space.update(RUN, 1, &base, &work).expect("moved");
    assert!(!space.dir_of(RUN, 1).exists());
    assert_eq!(space.result().expect("a result"), work);
    let made = space.make(RUN, 1, &base).expect("made");
    assert_eq!(made.base, work);
    assert_eq!(fs::read_to_string(made.dir.join("b")).expect("read"), "by the child");
    // A retry starts again, on its own work ref.
    let retried = space.make(&child, 2, &base).expect("made");
    assert_eq!(retried.base, base);
    assert!(!retried.dir.join("b").exists());
    assert_eq!(space.read_ref(&work_ref(&child, 1)).expect("read"), Some(work));
    assert_eq!(space.read_ref(&work_ref(&child, 2)).expect("read").unwrap_or(base), base);
    assert_sound(&space);
}

#[test]
fn a_torn_scratch_has_the_files_that_are_asked_for() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    write(&dir, "b", "two");
    let next = space.snapshot(RUN, 1).expect("taken").commit;
    let scratch = space.scratch(RUN, &base).expect("a scratch").agent;
    let space = after_power_cut(&mut world, &scratch, &base);
    let scratch = space.scratch(RUN, &next).expect("a scratch");
    let dir = space.make(&scratch.agent, scratch.attempt, &next).expect("made").dir;
    assert_eq!(fs::read_to_string(dir.join("b")).expect("read"), "two");
}

#[test]
fn a_shared_checkout_is_made_again_when_the_machine_has_stopped() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let before = space.shared(&begun.snapshot.commit).expect("made");
    fs::set_permissions(before.join("a"), fs::Permissions::from_mode(0o644)).expect("set");
    write(&before, "a", "");
    world.options.boot = Some("another".to_owned());
    let space = world.spaces().open(RUN).expect("opened");
    let after = space.shared(&begun.snapshot.commit).expect("made");
    assert_eq!(fs::read_to_string(after.join("a")).expect("read"), "one");
    assert!(!before.exists(), "what may have lost its content is gone");
    assert_eq!(space.shared(&begun.snapshot.commit).expect("made"), after);
}

#[test]
fn files_that_are_behind_their_snapshot_are_not_taken_for_work() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    write(&dir, "a", "two");
    write(&dir, "b", "new");
    let taken = space.snapshot(RUN, 1).expect("taken");
    let mark = home_of(&world, RUN).join("synced");
    wait_for_commit(&mark, &taken.commit);
    // Simulates an earlier crash: one file has its old content, one has lost its content.
    fs::write(&mark, format!("{base}\n")).expect("written");
    write(&dir, "a", "one");
    write(&dir, "b", "");
    world.options.boot = Some("later".to_owned());
    let space = world.spaces().open(RUN).expect("opened");
    assert_eq!(space.salvage(RUN, 1).expect("salvaged").snapshot, taken);
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    assert_eq!(fs::read_to_string(dir.join("a")).expect("read"), "two");
    assert_eq!(fs::read_to_string(dir.join("b")).expect("read"), "new");
    assert!(space.read_ref(&torn_ref(RUN, 1)).expect("read").is_some(), "what was found is kept");
    space.remove(RUN, 1).expect("all of it is salvaged");
}

#[test]
fn work_goes_on_after_a_restart_with_what_is_on_disk() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    wait_for_commit(&home_of(&world, RUN).join("synced"), &begun.snapshot.commit);
    write(&dir, "b", "after the snapshot");
    world.options.boot = Some("later".to_owned());
    let space = world.spaces().open(RUN).expect("opened");
    for round in 1..4 {
        // The work ref moves faster than the disk is synced, in the same boot.
        write(&dir, "c", round.to_string());
        let taken = space.snapshot(RUN, 1).expect("taken").commit;
        assert_eq!(text_of(&space, &taken, "b").as_deref(), Some("after the snapshot"));
        assert_eq!(text_of(&space, &taken, "c"), Some(round.to_string()));
    }
    assert!(!space.make(RUN, 1, &begun.snapshot.commit).expect("kept").fresh);
    assert_eq!(space.read_ref(&torn_ref(RUN, 1)).expect("read"), None);
}

/// Waits until the mark of a workspace names this commit as synced.
fn wait_for_commit(mark: &Path, commit: &ObjectId) {
    wait_until(mark, || fs::read_to_string(mark).is_ok_and(|text| text.trim() == commit.to_string()));
}

/// Waits for a condition, checking it whenever the kernel reports a new name beside `path`.
fn wait_until(path: &Path, holds: impl Fn() -> bool) {
    use rustix::fs::inotify;
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK).expect("a watch");
    let dir = path.parent().expect("a parent");
    let names = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, dir, names).expect("watched");
    let limit = rustix::time::Timespec { tv_sec: 60, tv_nsec: 0 };
    while !holds() {
        let mut polled = [rustix::event::PollFd::new(&watch, rustix::event::PollFlags::IN)];
        let ready = rustix::event::poll(&mut polled, Some(&limit)).expect("polled");
        assert!(ready > 0 || holds(), "{} never came", path.display());
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        drop(inotify::Reader::new(&watch, &mut buffer).next());
    }
}
