//! No work of an agent is lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;

use crate::support::{RUN, World, assert_sound, files_of, names_of, write};

#[test]
fn what_was_salvaged_may_be_removed_and_nothing_else() {
    let world = World::repository();
    world.write(".gitignore", "target/\n*.log\n");
    world.commit_all();
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "work", "one");
    write(&dir, "target/big", "built");
    write(&dir, "a.log", "noise");
    assert!(space.remove(RUN, 1).is_err(), "it was not salvaged");
    let salvaged = space.salvage(RUN, 1).expect("salvaged");
    assert_eq!(salvaged.left_out, ["a.log", "target/"]);
    assert_eq!(salvaged.left_out_count, 2);
    let name = posse_workspace::salvage_ref(RUN, 1);
    assert_eq!(space.read_ref(&name).expect("read"), Some(salvaged.snapshot.commit));
    write(&dir, "work", "two");
    let error = space.remove(RUN, 1).expect_err("it changed").to_string();
    assert!(error.contains("salvage it again"), "{error}");
    assert!(dir.join("work").exists());
    space.salvage(RUN, 1).expect("salvaged");
    space.remove(RUN, 1).expect("removed");
    assert!(!dir.exists());
    assert_eq!(fs::read_dir(world.state().join("trash")).expect("listed").count(), 0);
    space.remove(RUN, 1).expect("removed already");
}

#[test]
fn an_earlier_attempt_is_salvaged_beside_the_line_of_the_next() {
    let world = World::new();
    world.write("a", "one");
    let (begun, space) = world.begin();
    let first = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&first, "first", "attempt");
    let second = space.make(RUN, 2, &begun.snapshot.commit).expect("made").dir;
    write(&second, "second", "attempt");
    let salvaged = space.salvage(RUN, 1).expect("salvaged").snapshot.commit;
    assert_eq!(names_of(&space, &salvaged), ["a", "first"]);
    let line = posse_workspace::work_ref(RUN, 2);
    let base = begun.snapshot.commit;
    assert_eq!(space.read_ref(&line).expect("read").unwrap_or(base), base);
    let snapshot = space.snapshot(RUN, 2).expect("taken");
    assert_eq!(names_of(&space, &snapshot.commit), ["a", "second"]);
    assert_eq!(space.read_ref(&line).expect("read"), Some(snapshot.commit));
}

#[test]
fn a_lost_or_damaged_manifest_changes_nothing() {
    let world = World::repository();
    world.write("a", "one");
    world.write(".gitignore", "kept.log\n");
    world.write("kept.log", "tracked though ignored");
    world.commit_all();
    world.git(&["add", "-f", "kept.log"]);
    world.git(&["commit", "-q", "-m", "more"]);
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    write(&dir, "b", "two");
    let before = space.snapshot(RUN, 1).expect("taken");
    let manifest = space.dir_of(RUN, 1).with_file_name("manifest");
    fs::write(&manifest, "damaged").expect("written");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), before);
    fs::remove_file(&manifest).expect("removed");
    assert_eq!(space.snapshot(RUN, 1).expect("taken"), before);
    assert!(names_of(&space, &before.commit).contains(&"kept.log".to_owned()));
}

/// One change that an agent makes to its files.
#[derive(Debug, Clone)]
enum Change {
    Write(String, Vec<u8>, bool),
    Link(String, String),
    Remove(String),
    Rename(String, String),
}

fn path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("a".to_owned()),
        Just("b c".to_owned()),
        Just("-d".to_owned()),
        Just("e\nf".to_owned()),
        Just("é".to_owned()),
        Just("a.b".to_owned()),
    ];
    prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn change() -> impl Strategy<Value = Change> {
    let content = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        4 => (path(), content, any::<bool>()).prop_map(|(path, content, x)| Change::Write(path, content, x)),
        1 => (path(), path()).prop_map(|(path, target)| Change::Link(path, target)),
        1 => path().prop_map(Change::Remove),
        1 => (path(), path()).prop_map(|(from, to)| Change::Rename(from, to)),
    ]
}

/// Applies the change as far as possible. Failures are ignored.
fn carry_out(dir: &Path, change: &Change) {
    let parents = |path: &str| fs::create_dir_all(dir.join(path).parent().expect("a parent"));
    let outcome = match change {
        Change::Write(path, content, executable) => parents(path).and_then(|()| {
            let path = dir.join(path);
            if path.is_symlink() {
                fs::remove_file(&path)?;
            }
            fs::write(&path, content)?;
            let mode = if *executable { 0o755 } else { 0o644 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode))
        }),
        Change::Link(path, target) => {
            parents(path).and_then(|()| std::os::unix::fs::symlink(target, dir.join(path)))
        }
        Change::Remove(path) => {
            fs::remove_file(dir.join(path)).or_else(|_| fs::remove_dir_all(dir.join(path)))
        }
        Change::Rename(from, to) => parents(to).and_then(|()| fs::rename(dir.join(from), dir.join(to))),
    };
    drop(outcome);
}

/// The files on disk in the form of a tree. Symlinks are never followed.
pub(crate) fn on_disk(dir: &Path) -> BTreeMap<Vec<u8>, (String, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).expect("listed") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("looked at");
            let name = path.strip_prefix(dir).expect("beneath").as_os_str().as_bytes().to_vec();
            if name == b".git" {
                continue;
            }
            if metadata.is_dir() {
                dirs.push(path);
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).expect("read");
                all.insert(name, ("120000".to_owned(), target.as_os_str().as_bytes().to_vec()));
            } else {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let mode = if executable { "100755" } else { "100644" };
                all.insert(name, (mode.to_owned(), fs::read(&path).expect("read")));
            }
        }
    }
    all
}

/// How many random folders are salvaged.
const WORLDS: u32 = if option_env!("POSSE_CAMPAIGNS").is_some() { 100 } else { 40 };

proptest! {
    #![proptest_config(ProptestConfig { cases: WORLDS, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_reachable_after_salvage(
        before in prop::collection::vec(change(), 0..12),
        rounds in prop::collection::vec(prop::collection::vec(change(), 0..8), 1..4),
    ) {
        let world = World::new();
        for change in &before {
            carry_out(&world.folder(), change);
        }
        let (begun, space) = world.begin();
        prop_assert_eq!(files_of(&space, &begun.snapshot.commit), on_disk(&world.folder()));
        let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
        prop_assert_eq!(on_disk(&dir), on_disk(&world.folder()));
        for round in rounds {
            for change in &round {
                carry_out(&dir, change);
            }
            let salvaged = space.salvage(RUN, 1).expect("salvaged");
            prop_assert_eq!(files_of(&space, &salvaged.snapshot.commit), on_disk(&dir));
        }
        assert_sound(&space);
        space.remove(RUN, 1).expect("removed");
    }
}
