//! Commits of a workspace's files after each call, and their recovery from the journal.

use std::fs;

use posse_domain::event::FilesCommit;
use posse_engine::ports::DiffOptions;
use posse_workspace::{ObjectId, RunSpace, torn_ref, work_ref};

use crate::support::{RUN, World, assert_sound, text_of, write};

/// A journal that has the commits of calls, with the bytes of their packs.
#[derive(Default)]
struct Journal(Vec<FilesCommit>);

impl Journal {
    fn commit(&mut self, space: &RunSpace) -> Option<FilesCommit> {
        let commit = space.commit_call(RUN, 1).expect("committed");
        self.0.extend(commit.clone());
        commit
    }

    /// The files after the last call differ from those of a commit in nothing.
    fn assert_last_is(&self, space: &RunSpace, commit: &ObjectId) {
        let last = self.0.last().expect("a commit");
        let packs: Vec<Vec<u8>> = self.0.iter().map(bytes_of).collect();
        let diff = space.diff_of_call(commit, &last.commit, &packs, DiffOptions::default()).expect("a diff");
        assert_eq!(String::from_utf8_lossy(&diff), "");
    }

    fn restore(&self, space: &RunSpace) -> usize {
        let lost = space.lost_calls(RUN, 1, &self.0).expect("found out");
        let lost: Vec<(FilesCommit, Vec<u8>)> =
            lost.into_iter().map(|commit| (commit.clone(), bytes_of(&commit))).collect();
        space.restore_calls(RUN, 1, &lost).expect("restored");
        lost.len()
    }
}

fn bytes_of(commit: &FilesCommit) -> Vec<u8> {
    commit.pack.as_ref().and_then(|pack| pack.bytes()).map(|bytes| bytes.to_vec()).unwrap_or_default()
}

/// Bytes that cannot be compressed.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// Opens the run in another boot.
fn next_boot(world: &mut World) -> RunSpace {
    let boot = world.options.boot.take().unwrap_or_default();
    world.options.boot = Some(format!("{boot}later"));
    world.spaces().open(RUN).expect("opened")
}

#[test]
fn a_call_that_changed_nothing_has_no_commit_and_others_have_only_what_is_new() {
    let world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    let mut journal = Journal::default();
    assert_eq!(journal.commit(&space), None);
    // A pack shows by its size whether it contains this.
    let large: String = noise(20_000).into_iter().map(|byte| char::from(b'!' + byte % 64)).collect();
    write(&dir, "large", &large);
    let first = journal.commit(&space).expect("changed");
    assert_eq!((first.follows, first.onto), (base, None));
    assert!(first.pack.as_ref().is_some_and(|pack| pack.at().bytes > 10_000));
    assert_eq!(journal.commit(&space), None);
    write(&dir, "d/small", "new");
    let second = journal.commit(&space).expect("changed");
    assert_eq!((second.follows, second.onto), (base, Some(first.commit)));
    assert!(second.pack.as_ref().is_some_and(|pack| pack.at().bytes < 2_000), "{:?}", second.pack);
    assert_eq!(
        space.read_ref(&work_ref(RUN, 1)).expect("read").unwrap_or(base),
        base,
        "only a snapshot moves it"
    );
    let taken = space.snapshot(RUN, 1).expect("taken");
    journal.assert_last_is(&space, &taken.commit);
    fs::remove_file(dir.join("large")).expect("removed");
    let third = journal.commit(&space).expect("changed");
    assert_eq!((third.follows, third.onto), (taken.commit, None));
    write(&dir, "large", &large);
    let fourth = journal.commit(&space).expect("changed back");
    assert_eq!(fourth.onto, Some(third.commit));
    journal.assert_last_is(&space, &taken.commit);
    assert_sound(&space);
}

#[test]
fn files_of_finished_calls_outlast_a_power_cut() {
    let mut world = World::new();
    world.write("a", "one");
    world.write("b", "two");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    let mut journal = Journal::default();
    write(&dir, "a", "changed by the first call");
    journal.commit(&space);
    fs::remove_file(dir.join("b")).expect("removed");
    write(&dir, "d/c", "made by the second call");
    journal.commit(&space);
    assert_eq!(
        space.lost_calls(RUN, 1, &journal.0).expect("found out"),
        [],
        "nothing is lost in the same boot"
    );
    // The machine stops: one file lost its content, another one belongs to a call without a result.
    write(&dir, "a", "");
    write(&dir, "e", "of a cut-off call");
    drop(space);
    let space = next_boot(&mut world);
    assert_eq!(journal.restore(&space), 2);
    assert_eq!(journal.restore(&space), 0, "a repeated restore changes nothing");
    let last = journal.0.last().expect("a commit").commit;
    assert_eq!(space.read_ref(&work_ref(RUN, 1)).expect("read"), Some(last));
    let made = space.make(RUN, 1, &base).expect("made");
    assert_eq!(fs::read_to_string(made.dir.join("a")).expect("read"), "changed by the first call");
    assert_eq!(fs::read_to_string(made.dir.join("d/c")).expect("read"), "made by the second call");
    assert!(!made.dir.join("b").exists() && !made.dir.join("e").exists());
    let kept = space.read_ref(&torn_ref(RUN, 1)).expect("read").expect("kept");
    assert_eq!(text_of(&space, &kept, "e").as_deref(), Some("of a cut-off call"));
    write(&made.dir, "f", "after it");
    let next = journal.commit(&space).expect("changed");
    assert_eq!((next.follows, next.onto), (last, None));
    assert_sound(&space);
}

#[test]
fn a_snapshot_is_newer_than_the_calls_before_it() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let mut journal = Journal::default();
    write(&dir, "a", "two");
    journal.commit(&space);
    write(&dir, "a", "three");
    let taken = space.snapshot(RUN, 1).expect("taken");
    drop(space);
    let space = next_boot(&mut world);
    assert_eq!(journal.restore(&space), 0);
    assert_eq!(space.read_ref(&work_ref(RUN, 1)).expect("read"), Some(taken.commit));
}

#[test]
fn many_new_bytes_are_committed_to_the_work_ref() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let base = begun.snapshot.commit;
    let dir = space.make(RUN, 1, &base).expect("made").dir;
    let mut journal = Journal::default();
    write(&dir, "small", "in a pack of the journal");
    journal.commit(&space).expect("changed");
    fs::write(dir.join("large"), noise(1_500_000)).expect("written");
    let large = journal.commit(&space).expect("changed");
    assert_eq!((large.pack.as_ref(), large.onto), (None, None));
    assert_eq!(space.read_ref(&work_ref(RUN, 1)).expect("read"), Some(large.commit));
    assert_eq!(text_of(&space, &large.commit, "small").as_deref(), Some("in a pack of the journal"));
    drop(space);
    let space = next_boot(&mut world);
    assert_eq!(journal.restore(&space), 0, "the repository has it");
    assert_sound(&space);
}

#[test]
fn a_journal_without_a_pack_that_is_needed_is_an_error_and_changes_nothing() {
    let mut world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let mut journal = Journal::default();
    for text in ["two", "three"] {
        write(&dir, text, text);
        journal.commit(&space);
    }
    drop(space);
    let space = next_boot(&mut world);
    let missing = space.lost_calls(RUN, 1, &journal.0[1..]).expect_err("one is missing");
    assert!(missing.to_string().contains(&journal.0[0].commit.to_string()), "{missing}");
    let lost = vec![(journal.0[1].clone(), bytes_of(&journal.0[1]))];
    space.restore_calls(RUN, 1, &lost).expect_err("its trees name an object that is nowhere");
    let at = space.read_ref(&work_ref(RUN, 1)).expect("read");
    assert_eq!(at.unwrap_or(begun.snapshot.commit), begun.snapshot.commit);
    assert_sound(&space);
}
