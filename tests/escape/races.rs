//! A directory that is swapped for a link while tools use it, and tests of the checks themselves.

use std::fs;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::case::{Case, End, call};
use super::world::{Setting, World};
use super::{PLAIN, holds};

/// How often each tool is called while the directory is swapped with a link.
const OFTEN: usize = 12;

const TOOLS: [(&str, &str); 7] = [
    ("swapped-write", "write"),
    ("swapped-edit", "edit"),
    ("swapped-read", "read"),
    ("swapped-list", "list"),
    ("swapped-glob", "glob"),
    ("swapped-grep", "grep"),
    ("swapped-workdir", "bash"),
];

fn cases() -> Vec<Case> {
    let all = (0..OFTEN).flat_map(|round| TOOLS.map(|(name, tool)| (round, name, tool)));
    all.map(|(round, name, tool)| {
        // The same call that fails three times in a row ends a run, so no two are the same.
        let dir = format!("swap/{}", "./".repeat(round));
        let input = match tool {
            "write" => json!({"path": format!("swap/new-{round}.txt"), "content": "evil"}),
            "edit" => json!({"path": format!("{dir}secret.txt"), "old_text": "C", "new_text": "evil"}),
            "read" => json!({"path": format!("{dir}secret.txt")}),
            "list" => json!({"path": dir}),
            "glob" => json!({"pattern": "**/*", "path": dir}),
            "grep" => json!({"pattern": "CANA[R]Y", "path": dir}),
            _ => json!({"command": "cat secret.txt; echo x > evil; true", "workdir": dir}),
        };
        // Each case has its own id; the names are the seven above.
        let id: &'static str = format!("{name}-{round}").leak();
        Case { name: id, end: End::Answered, ..call(name, tool, input) }
    })
    .collect()
}

#[test]
fn a_directory_that_is_swapped_for_a_link_leads_nobody_out() {
    let world = World::new(Setting::default(), PLAIN);
    let over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            let mut swaps = 0_u64;
            let Some(workspace) = workspace_of(&world, &over) else { return swaps };
            let (dir, link) = (workspace.join("swap"), workspace.join("swap-link"));
            while !over.load(Ordering::Relaxed) {
                match renameat_with(CWD, &dir, CWD, &link, RenameFlags::EXCHANGE) {
                    // A directory of the base cannot be renamed in an overlay of an ordinary user, but a new one can.
                    Err(rustix::io::Errno::XDEV) if swaps == 0 => make_anew(&dir),
                    // The run has ended, and its workspace is unmounted.
                    Err(rustix::io::Errno::NOENT) if swaps > 0 => break,
                    swapped => swapped.expect("swapped"),
                }
                swaps += 1;
            }
            swaps
        });
        let report = world.run(cases(), PLAIN);
        over.store(true, Ordering::Relaxed);
        let swaps = swapping.join().expect("swapping");
        println!("swapped {swaps} times");
        assert!(swaps > 0, "the tools had nothing to race with");
        report
    });
    holds(&report, OFTEN * TOOLS.len());
}

fn make_anew(dir: &Path) {
    fs::remove_dir_all(dir).expect("removed");
    fs::create_dir(dir).expect("made");
    fs::write(dir.join("f.txt"), "inside\n").expect("written");
}

/// The root's workspace, once it is there; `None` if the run ends first. An overlay is reached as the holder of the mounts
/// sees it, because it has no other path.
fn workspace_of(world: &World, over: &AtomicBool) -> Option<PathBuf> {
    let state = world.at("home/state");
    while !over.load(Ordering::Relaxed) {
        if let Some(copy) = copies(&state).pop() {
            return Some(copy);
        }
        for process in fs::read_dir("/proc").expect("listed").flatten().map(|entry| entry.path()) {
            let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
            let mut open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
            let is_ours =
                |link: fs::DirEntry| fs::read_link(link.path()).is_ok_and(|to| to.starts_with(&state));
            if name.trim() == "posse-mounts" && open.any(is_ours) {
                let mounts = fs::read_dir(process.join("cwd")).into_iter().flatten().flatten();
                let mut mounted = mounts.map(|mount| mount.path());
                if let Some(workspace) = mounted.find(|mount| mount.join("swap").exists()) {
                    return Some(workspace);
                }
            }
        }
        std::thread::yield_now();
    }
    None
}

/// The complete workspaces that are copies.
fn copies(state: &Path) -> Vec<PathBuf> {
    let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let workspaces = entries(state.join("runs")).flat_map(|run| entries(run.join("workspaces")));
    let complete = workspaces.map(|agent| agent.join("1")).filter(|home| home.join("made").exists());
    complete.map(|home| home.join("files")).filter(|files| files.exists()).collect()
}

/// A check that sees nothing proves nothing.
#[test]
fn the_checks_see_what_they_are_for() {
    let seen = |breach: &dyn Fn(&World)| {
        let world = World::new(Setting::default(), PLAIN);
        assert_eq!(world.problems(), [""; 0], "nothing has happened yet");
        breach(&world);
        world.problems().join("\n")
    };
    let put = |world: &World, name: &str| fs::write(world.at(name), "evil").expect("written");
    assert!(seen(&|world| put(world, "sibling/secret.txt")).contains("sibling/secret.txt was"));
    assert!(seen(&|world| put(world, "ws-evil/new")).contains("ws-evil/new is new"));
    assert!(
        seen(&|world| fs::remove_file(world.at("home/.netrc")).expect("gone")).contains(".netrc is gone")
    );
    assert!(seen(&|world| put(world, "ws/.git/config")).contains(".git/config was"));
    assert!(seen(&|world| put(world, "ws/.envrc")).contains(".envrc is new"));
    assert!(seen(&|world| put(world, "ws/src/main.rs")).contains("src/main.rs was"));
    let planted = |world: &World| {
        fs::create_dir_all(world.at("home/state/projects/p/repo.git/hooks")).expect("made");
        put(world, "home/state/projects/p/repo.git/hooks/post-update");
    };
    assert!(seen(&planted).contains("hooks/post-update has appeared"));
    assert!(
        seen(&|world| drop(fs::hard_link(world.at("parent.txt"), world.at("ws/h"))))
            .contains("parent.txt was")
    );
    let copied =
        |world: &World| fs::copy(world.at("parent.txt"), world.at("ws/stolen")).map(drop).expect("copied");
    assert!(seen(&copied).contains("a secret is in"));
    let met = |world: &World| drop(UnixStream::connect(world.at("ws/in.sock")).expect("met"));
    assert!(seen(&met).contains("`stream inside`"));
    let sent = |world: &World| {
        let socket = UnixDatagram::unbound().expect("a socket");
        socket.send_to(b"x", world.at("out.dgram")).map(drop).expect("sent");
    };
    assert!(seen(&sent).contains("`datagram outside`"));
    let ended = |world: &World| {
        let pid = Pid::from_raw(world.victim.pid().cast_signed()).expect("a process");
        kill_process(pid, Signal::KILL).expect("sent");
        world.victim.wait();
    };
    assert!(seen(&ended).contains("the victim was ended"));
    let world = World::new(Setting::default(), PLAIN);
    let mut left = Command::new("sleep").arg("300").env("ESC", &world.tag).spawn().expect("it starts");
    // Its variables are visible only when the kernel has started the program.
    let variables = format!("/proc/{}/environ", left.id());
    while !fs::read(&variables).is_ok_and(|text| String::from_utf8_lossy(&text).contains(&world.tag)) {
        std::thread::yield_now();
    }
    let problems = world.problems().join("\n");
    left.kill().and_then(|()| left.wait()).expect("it has ended");
    assert!(problems.contains("processes are left"), "{problems}");
}
