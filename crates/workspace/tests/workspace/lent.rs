//! An agent's git can read exactly the objects that its snapshot reaches.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use posse_workspace::{ObjectId, RunSpace};

use crate::support::{RUN, World, entries_of, git_in, git_of, write};

/// All objects that git finds in a workspace.
fn readable(space: &RunSpace, agent: &str, home: &Path) -> BTreeSet<String> {
    let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
    git_of(space, (agent, 1), home, &all).lines().map(str::to_owned).collect()
}

/// All objects that a commit reaches.
fn reached(space: &RunSpace, commit: &ObjectId) -> BTreeSet<String> {
    let listed = space.git().run(&["rev-list", "--objects", &commit.to_string()]).expect("listed");
    let text = String::from_utf8_lossy(&listed).into_owned();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// Asserts that the workspace of a new run's root sees what its commit reaches. Returns these objects.
fn sees_what_it_reaches(world: &World, run: &str, name: &str) -> BTreeSet<String> {
    let begun = world.spaces().begin(run, &world.folder()).expect("begun");
    let space = world.spaces().open(run).expect("opened");
    space.make(run, 1, &begun.snapshot.commit).expect("made");
    let seen = readable(&space, run, &world.home());
    assert_eq!(seen, reached(&space, &begun.snapshot.commit), "{name}");
    seen
}

fn commit(world: &World, path: &str, text: &str) {
    world.write(path, text);
    world.commit_all();
}

fn named(world: &World, name: &str) -> String {
    world.git(&["rev-parse", name]).trim().to_owned()
}

/// Adds an object to the repository that no agent may see, and returns its id.
type Case = (&'static str, fn(&World) -> String);

const CASES: &[Case] = &[
    ("a stash", |world| {
        world.write("a", "stashed");
        world.git(&["stash", "-q"]);
        named(world, "stash@{0}:a")
    }),
    ("a private branch", |world| {
        world.git(&["switch", "-q", "-c", "private"]);
        commit(world, "secret", "private");
        world.git(&["switch", "-q", "main"]);
        named(world, "private:secret")
    }),
    ("a commit that was reset away", |world| {
        commit(world, "secret", "reset");
        let blob = named(world, "HEAD:secret");
        world.git(&["reset", "-q", "--hard", "HEAD~1"]);
        blob
    }),
    ("a commit that was amended", |world| {
        commit(world, "a", "a password");
        let blob = named(world, "HEAD:a");
        world.write("a", "none");
        world.git(&["commit", "-q", "-a", "--amend", "-m", "instead"]);
        blob
    }),
    ("a deleted branch", |world| {
        world.git(&["switch", "-q", "-c", "private"]);
        commit(world, "secret", "deleted");
        let blob = named(world, "private:secret");
        world.git(&["switch", "-q", "main"]);
        world.git(&["branch", "-q", "-D", "private"]);
        blob
    }),
    ("what was staged once", |world| {
        world.write("secret", "staged");
        world.git(&["add", "secret"]);
        let blob = named(world, ":secret");
        world.git(&["rm", "-q", "--cached", "secret"]);
        fs::remove_file(world.folder().join("secret")).expect("removed");
        blob
    }),
    ("an object of nothing", |world| {
        let file = world.home().join("secret");
        fs::write(&file, "dangling").expect("written");
        world.git(&["hash-object", "-w", &file.display().to_string()]).trim().to_owned()
    }),
    ("a branch of a remote", |world| {
        commit(world, "secret", "remote");
        world.git(&["update-ref", "refs/remotes/origin/secret", "HEAD"]);
        world.git(&["reset", "-q", "--hard", "HEAD~1"]);
        named(world, "origin/secret:secret")
    }),
    ("a tag of something else", |world| {
        commit(world, "secret", "tagged");
        world.git(&["tag", "-a", "-m", "secret", "secret"]);
        world.git(&["reset", "-q", "--hard", "HEAD~1"]);
        named(world, "secret")
    }),
    ("a note", |world| {
        world.git(&["notes", "add", "-m", "secret"]);
        named(world, "refs/notes/commits")
    }),
    ("another worktree", |world| {
        let other = world.elsewhere("other");
        world.git(&["worktree", "add", "-q", "-b", "other", &other.display().to_string()]);
        write(&other, "secret", "other");
        git_in(&other, &world.home(), &["add", "-A"]);
        git_in(&other, &world.home(), &["commit", "-q", "-m", "other"]);
        named(world, "other:secret")
    }),
    ("a pack with more than the history", |world| {
        commit(world, "secret", "packed");
        let blob = named(world, "HEAD:secret");
        world.git(&["branch", "keep"]);
        world.git(&["reset", "-q", "--hard", "HEAD~1"]);
        world.git(&["repack", "-adq"]);
        blob
    }),
    ("a pack of what nothing reaches", |world| {
        commit(world, "secret", "kept");
        let blob = named(world, "HEAD:secret");
        world.git(&["reset", "-q", "--hard", "HEAD~1"]);
        world.git(&["reflog", "expire", "--expire=now", "--all"]);
        world.git(&["repack", "-a", "-d", "-k", "-q"]);
        blob
    }),
    ("what replaces an object", |world| {
        commit(world, "secret", "replacement");
        let (new, old) = (named(world, "HEAD"), named(world, "HEAD~1"));
        world.git(&["reset", "-q", "--hard", "HEAD~1"]);
        world.git(&["replace", &old, &new]);
        new
    }),
    ("an untracked file of an earlier run", |world| {
        world.write("secret", "untracked");
        let begun = world.spaces().begin("earlier", &world.folder()).expect("begun");
        fs::remove_file(world.folder().join("secret")).expect("removed");
        let space = world.spaces().open("earlier").expect("opened");
        let name = format!("{}:secret", begun.snapshot.commit);
        String::from_utf8_lossy(&space.git().run(&["rev-parse", &name]).expect("there")).trim().to_owned()
    }),
    ("the work of another run", |world| {
        let begun = world.spaces().begin("earlier", &world.folder()).expect("begun");
        let space = world.spaces().open("earlier").expect("opened");
        let dir = space.make("earlier", 1, &begun.snapshot.commit).expect("made").dir;
        write(&dir, "secret", "made by another run");
        space.salvage("earlier", 1).expect("salvaged").snapshot.commit.to_string()
    }),
];

#[test]
fn nothing_but_the_history_and_the_snapshot_is_lent() {
    let look = |(name, hide): &Case| {
        let world = World::repository();
        commit(&world, "a", "one");
        commit(&world, "b", "two");
        let secret = hide(&world);
        for (run, dirt) in [("clean", None), ("dirty", Some("not committed"))] {
            if let Some(dirt) = dirt {
                world.write("new", dirt);
            }
            let seen = sees_what_it_reaches(&world, run, name);
            assert!(!seen.contains(&secret), "{name}: {secret} is lent");
            assert!(seen.contains(&named(&world, "HEAD~1")), "{name}: the history is there");
        }
    };
    std::thread::scope(|scope| {
        for half in CASES.chunks(CASES.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(look));
        }
    });
}

#[test]
fn a_child_sees_its_parents_work_and_no_others() {
    let world = World::repository();
    commit(&world, "a", "one");
    let (begun, space) = world.begin();
    let root = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    let (one, two) = (format!("{RUN}.1"), format!("{RUN}.2"));
    let first = space.make(&one, 1, &begun.snapshot.commit).expect("made").dir;
    write(&first, "secret", "of the first child");
    let made = space.salvage(&one, 1).expect("salvaged").snapshot.commit;
    write(&root, "b", "of the root");
    let snapshot = space.snapshot(RUN, 1).expect("taken").commit;
    space.make(&two, 1, &snapshot).expect("made");
    let seen = readable(&space, &two, &world.home());
    assert_eq!(seen, reached(&space, &snapshot));
    assert!(seen.contains(&snapshot.to_string()) && !seen.contains(&made.to_string()));
    for agent in [RUN, &one] {
        assert!(!readable(&space, agent, &world.home()).contains(&snapshot.to_string()), "{agent}");
    }
    let objects = |agent: &str| space.objects_of(agent, 1).expect("objects");
    assert_eq!(objects(RUN), objects(&one), "the same snapshot is lent once");
}

#[test]
fn a_history_that_moves_on_is_added_to_and_another_branch_is_not() {
    let world = World::repository();
    commit(&world, "a", "one");
    sees_what_it_reaches(&world, "first", "at the first commit");
    world.git(&["switch", "-q", "-c", "private"]);
    commit(&world, "secret", "private");
    let secret = named(&world, "HEAD:secret");
    assert!(sees_what_it_reaches(&world, "private", "on a branch").contains(&secret));
    world.git(&["switch", "-q", "main"]);
    commit(&world, "a", "two");
    let seen = sees_what_it_reaches(&world, "second", "back on the other");
    assert!(!seen.contains(&secret));
    world.git(&["merge", "-q", "-m", "both", "private"]);
    assert!(sees_what_it_reaches(&world, "merged", "with both").contains(&secret));
    world.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert!(!sees_what_it_reaches(&world, "reset", "without it again").contains(&secret));
}

#[test]
fn a_folder_without_a_repository_and_one_without_a_commit_lend_their_files() {
    for world in [World::new(), World::repository()] {
        world.write("a", "one");
        world.write("dir/b", "two");
        let before = sees_what_it_reaches(&world, "first", "at first");
        world.write("a", "three");
        let after = sees_what_it_reaches(&world, "second", "later");
        assert_eq!((before.len(), after.len()), (5, 5), "two files, two trees and a commit each");
    }
}

#[test]
fn objects_lent_in_another_boot_are_made_anew() {
    let mut world = World::repository();
    commit(&world, "a", "one");
    world.options.boot = Some("one".to_owned());
    let (begun, space) = world.begin();
    space.make(RUN, 1, &begun.snapshot.commit).expect("made");
    let before = space.objects_of(RUN, 1).expect("objects");
    world.options.boot = Some("two".to_owned());
    let space = world.spaces().open(RUN).expect("opened");
    let after = space.objects_of(RUN, 1).expect("objects");
    assert!(before != after && !before.exists(), "what may never have reached the disk is gone");
    assert_eq!(readable(&space, RUN, &world.home()), reached(&space, &begun.snapshot.commit));
}

/// The directories with the files of a folder that is not as its HEAD.
fn lent_files(world: &World) -> Vec<PathBuf> {
    let projects = entries_of(&world.state().join("projects"));
    projects.iter().flat_map(|project| entries_of(&project.join("lent-files"))).collect()
}

#[test]
fn the_files_of_an_unchanged_folder_are_packed_once() {
    for has_head in [true, false] {
        let world = World::repository();
        if has_head {
            commit(&world, "a", "one");
        }
        world.write("b", "not committed");
        world.write("dir/c", "nor this");
        sees_what_it_reaches(&world, "first", "the first run");
        let lent = lent_files(&world);
        assert_eq!(lent.len(), 1, "{lent:?}");
        let links = || {
            let packs = entries_of(&lent[0].join("pack"));
            packs.iter().map(|pack| fs::metadata(pack).expect("there").nlink()).min().expect("packs")
        };
        let before = links();
        sees_what_it_reaches(&world, "second", "the second run");
        assert_eq!(
            (links(), lent_files(&world).len()),
            (before + 1, 1),
            "it uses the packs of the first one"
        );
        for round in 0..4 {
            world.write("b", format!("changed {round}"));
            // Nothing of an earlier state is visible.
            sees_what_it_reaches(&world, &format!("later{round}"), "a changed folder");
        }
        assert_eq!(lent_files(&world).len(), 2, "few states are kept");
    }
}

/// More states of a folder than are kept, all at once: each run removes those of others while they are linked.
#[test]
fn runs_on_many_states_of_a_folder_do_not_take_objects_from_each_other() {
    const RUNS: usize = 8;
    let world = World::repository();
    commit(&world, "a", "committed");
    let begin = |number: usize| {
        let run = format!("{RUN}{number}");
        world.write("a", format!("state {number}"));
        let begun = world.spaces().begin(&run, &world.folder()).expect("begun");
        let space = world.spaces().open(&run).expect("opened");
        space.make(&run, 1, &begun.snapshot.commit).expect("made");
        (run, space, begun.snapshot.commit)
    };
    let runs: Vec<_> = (0..RUNS).map(begin).collect();
    std::thread::scope(|scope| {
        for (run, space, _) in &runs {
            scope.spawn(move || space.objects_of(run, 1).expect("objects"));
        }
    });
    for (run, space, commit) in &runs {
        assert_eq!(readable(space, run, &world.home()), reached(space, commit), "{run}");
    }
}

/// The packs of the project's large files: their ids on the disk.
fn large_packs(world: &World) -> BTreeSet<u64> {
    let projects = entries_of(&world.state().join("projects"));
    let files = projects.iter().flat_map(|project| entries_of(&project.join("lent-large")));
    let packs = files.flat_map(|file| entries_of(&file.join("pack")));
    let packs = packs.filter(|path| path.extension().is_some_and(|extension| extension == "pack"));
    packs.map(|path| fs::metadata(path).expect("there").ino()).collect()
}

#[test]
fn a_large_file_that_is_not_committed_is_packed_once_and_published_once() {
    let world = World::repository();
    commit(&world, "a", "one");
    world.write("large", vec![7; 17 << 20]);
    world.write("b", "first");
    sees_what_it_reaches(&world, "k3f9ab21", "the first state");
    let first = large_packs(&world);
    assert_eq!(first.len(), 1);
    world.write("b", "second");
    sees_what_it_reaches(&world, "k3f9ab22", "the second state");
    assert_eq!(large_packs(&world), first, "it is linked, not packed again");

    let mut published = Vec::new();
    for run in ["k3f9ab21", "k3f9ab22"] {
        let space = world.spaces().open(run).expect("opened");
        let begun = space.base().expect("a base");
        let dir = space.make(run, 1, &begun.commit).expect("made").dir;
        write(&dir, "c", run);
        space.snapshot(run, 1).expect("taken");
        space.publish().expect("published");
        let packs = entries_of(&world.folder().join(".git/objects/pack"));
        let size: u64 = packs.iter().map(|pack| fs::metadata(pack).expect("there").len()).sum();
        published.push(size);
    }
    world.git(&["fsck", "--strict", "posse/k3f9ab22"]);
    assert!(published[1] - published[0] < 8 << 10, "{published:?}");

    fs::remove_file(world.folder().join("large")).expect("removed");
    // The runs that have it are cleaned away.
    for run in ["k3f9ab21", "k3f9ab22"] {
        fs::remove_dir_all(world.state().join("runs").join(run).join("objects")).expect("removed");
    }
    for (run, text) in [("k3f9ab23", "third"), ("k3f9ab24", "fourth")] {
        world.write("b", text);
        sees_what_it_reaches(&world, run, text);
    }
    assert_eq!(large_packs(&world).len(), 0, "nothing has it any more");
}
