//! A directory becomes a link to the outside while other code works in it.
//!
//! A second thread exchanges the two names in a tight loop, and every operation is tried often enough to see both in
//! every order. No side waits for the other: the assertions hold for every interleaving.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::super::ignored::IgnoreRules;
use super::super::walk::walk;
use super::*;

/// How often cheap and expensive operations are tried.
const CHEAP: usize = 4_000;
const DEAR: usize = 300;

/// A workspace whose `dir` is exchanged with a link to the outside for as long as `work` runs.
fn while_swapping(work: impl FnOnce(&Scene)) {
    let scene = Scene::new();
    // The same names inside and outside, so that only the content distinguishes them.
    scene.file("dir/secret.txt", "ours\n").file("dir/sub/b.txt", "ours\n").file("z.txt", "ours\n");
    fs::create_dir(scene.evil("sub")).unwrap();
    fs::write(scene.evil("sub/b.txt"), "SECRET\n").unwrap();
    scene.link("../ws-evil", "link");
    let before = outside(&scene);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                swap(&scene);
            }
        });
        // Ends the other thread even if an assertion fails here.
        let _guard = Guard(&done);
        work(&scene);
    });
    assert_eq!(outside(&scene), before, "something outside was changed");
}

fn swap(scene: &Scene) {
    renameat_with(CWD, scene.ws("dir"), CWD, scene.ws("link"), RenameFlags::EXCHANGE).unwrap();
}

struct Guard<'a>(&'a AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// All names and contents of the outside.
fn outside(scene: &Scene) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![scene.evil("")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn reads_never_see_the_outside() {
    while_swapping(|scene| {
        for _ in 0..CHEAP {
            for path in ["dir/secret.txt", "link/secret.txt", "dir/sub/b.txt"] {
                if let Ok(bytes) = scene.read(path) {
                    assert_eq!(bytes, b"ours\n");
                }
                if let Ok(Some(bytes)) = scene.beneath.read_cached(&at(path), 1 << 16) {
                    assert_eq!(bytes, b"ours\n");
                }
            }
        }
    });
}

#[test]
fn lists_and_globs_never_name_the_outside() {
    while_swapping(|scene| {
        let pattern = GlobPattern::parse(&RelPath::root(), "**").unwrap();
        let within = GlobPattern::parse(&RelPath::root(), "dir/**").unwrap();
        for _ in 0..CHEAP {
            if let Ok(listing) = scene.beneath.list(&at("dir")) {
                let names: Vec<String> = listing.entries.iter().map(|entry| entry.path.to_string()).collect();
                assert_eq!(names, ["dir/secret.txt", "dir/sub"]);
            }
            for pattern in [&pattern, &within] {
                if let Ok(found) = scene.beneath.glob(pattern, 99, &Stop::new()) {
                    assert!(found.files.iter().all(|file| !file.text().contains(SECRET)), "{found:?}");
                }
            }
        }
    });
}

#[test]
fn searches_never_read_the_outside() {
    while_swapping(|scene| {
        for _ in 0..DEAR {
            for path in ["", "dir", "dir/secret.txt"] {
                let query =
                    GrepQuery { pattern: ".".into(), path: at(path), max_results: 99, ..Default::default() };
                let Ok(found) = scene.beneath.grep(&query, &Stop::new()) else { continue };
                let mut lines = found.files.iter().flat_map(|file| &file.lines);
                assert!(lines.all(|line| line.text == "ours"), "{found:?}");
            }
        }
    });
}

#[test]
fn writes_never_reach_the_outside() {
    while_swapping(|scene| {
        let stop = Stop::new();
        for round in 0..DEAR {
            let bytes = format!("written {round}\n");
            let new = at(&format!("dir/new/{round}/x.txt"));
            // Both may fail when they encounter the link. Neither may follow it.
            let _ = scene.beneath.replace(&new, bytes.as_bytes(), ExpectedFile::Absent, &stop);
            let path = at("dir/secret.txt");
            if let Ok(Some(now)) = scene.beneath.inspect(&path) {
                assert!(!now.starts_with(SECRET.as_bytes()));
                let expected = ExpectedFile::Hash(*blake3::hash(&now).as_bytes());
                let _ = scene.beneath.replace(&path, bytes.as_bytes(), expected, &stop);
            }
            let _ = scene.beneath.sweep(&path);
        }
    });
}

#[test]
fn a_walk_does_not_enter_a_directory_that_became_a_link() {
    let scene = Scene::new();
    scene.file("a.txt", "x").file("dir/b.txt", "x").link("../ws-evil", "link");
    let tree = scene.beneath.descend(&RelPath::root()).unwrap();
    let mut seen = Vec::new();
    // `a.txt` is visited after the names were read and before `dir` is opened.
    walk(&tree, IgnoreRules::default(), &Stop::new(), |path| {
        seen.push(path.to_string());
        swap(&scene);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, ["a.txt"]);
}

#[test]
fn what_is_deleted_during_a_walk_is_left_out() {
    let scene = Scene::new();
    scene.file("a.txt", "x").file("dir/b.txt", "x").file("z.txt", "x");
    let tree = scene.beneath.descend(&RelPath::root()).unwrap();
    let mut seen = Vec::new();
    walk(&tree, IgnoreRules::default(), &Stop::new(), |path| {
        let _ = fs::remove_dir_all(scene.ws("dir"));
        seen.push(path.to_string());
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, ["a.txt", "z.txt"]);
}

#[test]
fn a_reader_sees_all_of_the_old_or_all_of_the_new() {
    let scene = Scene::new();
    let texts = ["a".repeat(100_000), "b".repeat(70_000)];
    scene.file("f", &texts[0]);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let bytes = scene.read("f").unwrap();
                assert!(texts.iter().any(|text| text.as_bytes() == bytes), "half of a file was seen");
            }
        });
        let _guard = Guard(&done);
        for round in 0..DEAR {
            scene.write("f", &texts[(round + 1) % 2], hash(&texts[round % 2])).unwrap();
        }
    });
}

#[test]
fn of_two_who_make_the_same_file_one_does() {
    let scene = Scene::new();
    for round in 0..DEAR {
        let path = format!("{round}");
        let create = |text: &'static str| scene.write(&path, text, ExpectedFile::Absent).is_ok();
        let made = thread::scope(|scope| {
            let other = scope.spawn(|| create("theirs"));
            (create("ours"), other.join().unwrap())
        });
        assert!(made == (true, false) || made == (false, true), "{made:?}");
        let expected = if made.0 { "ours" } else { "theirs" };
        assert_eq!(fs::read_to_string(scene.ws(&path)).unwrap(), expected);
    }
}

#[test]
fn a_walk_ends_when_asked() {
    let scene = Scene::new();
    scene.file("a.txt", "x").file("b.txt", "x");
    let tree = scene.beneath.descend(&RelPath::root()).unwrap();
    let stop = Stop::new();
    let walked = walk(&tree, IgnoreRules::default(), &stop, |_| {
        stop.stop();
        ControlFlow::Continue(())
    });
    assert!(matches!(walked, Err(FileError::Stopped)));
    assert!(matches!(
        scene.beneath.grep(&GrepQuery { pattern: "x".into(), ..Default::default() }, &stop),
        Err(FileError::Stopped)
    ));
}
