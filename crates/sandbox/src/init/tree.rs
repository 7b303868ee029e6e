//! Signals and ends the descendants of this process, where no pid namespace contains them.
//!
//! A process that loses its parent becomes a child of the nearest subreaper above it, so none leaves the tree by
//! detaching. A fork can outrun a walk over the tree, so processes are stopped first, until no new one appears.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper};

use super::super::process_record::field;
use super::super::wire;

/// Makes this process the parent of each descendant that loses its own.
pub(super) fn keep() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// Sends a signal to every descendant.
pub(super) fn signal_all(signal: Signal) {
    for pid in below(getpid()) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills every descendant and returns when they are gone.
pub(super) fn end_all() {
    loop {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let mut stopped = BTreeSet::new();
        loop {
            let found = below(getpid());
            let new: Vec<Pid> =
                found.into_iter().filter(|pid| stopped.insert(pid.as_raw_nonzero())).collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        if stopped.is_empty() {
            return;
        }
        signal_all(Signal::KILL);
        if wire::retry(|| rustix::process::wait(WaitOptions::empty())).is_err() {
            // No child is left to wait for.
            return;
        }
    }
}

/// Every descendant of `root`, the nearest first.
pub(crate) fn below(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let parent = fs::read_to_string(entry.path().join("stat")).ok().and_then(|stat| parent(&stat));
        children.entry(parent.unwrap_or_default()).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut left = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = left.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.extend(Pid::from_raw(child));
            left.push(child);
        }
    }
    found
}

/// The parent in a line of `/proc/<pid>/stat`.
fn parent(stat: &str) -> Option<i32> {
    field(stat, 1)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_cannot_feign_a_parent() {
        assert_eq!(parent("7 (a) b (x) S 3 7 7 0"), Some(3));
        assert_eq!(parent("nonsense"), None);
    }

    #[test]
    fn children_and_theirs_are_found() {
        let mut child = Command::new("sh").args(["-c", "sleep 1000 & echo; wait"]).spawn().expect("a child");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let own = Pid::from_child(&child);
        while below(own).len() != 1 {
            assert!(std::time::Instant::now() < until, "{:?}", below(own));
        }
        assert!(below(getpid()).contains(&own));
        for pid in below(own) {
            kill_process(pid, Signal::KILL).expect("killed");
        }
        child.wait().expect("gone");
    }
}
