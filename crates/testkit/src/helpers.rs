//! Finds and kills the helper processes of a run: a git, an init, the first process of a sandbox, the holder of mounts.

use std::collections::HashMap;
use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The process name of an init, of the first process of its sandbox, and of that one's child until it executes the program.
const INIT: &str = "posse-init";
/// The process name of a holder of mounts.
const HOLDER: &str = "posse-mounts";
/// The process names of helpers.
const NAMES: [&str; 3] = ["git", INIT, HOLDER];

/// Kills the `nth` of the helpers that a process has now. Returns whether there was one.
pub fn kill_one(process: u32, nth: usize) -> bool {
    let helpers = below(process);
    let Some(chosen) = nth.checked_rem(helpers.len()).and_then(|at| helpers.get(at)) else { return false };
    Pid::from_raw(chosen.cast_signed()).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// A process's parent and name, by its id.
type Processes = HashMap<u32, (u32, String)>;

/// The process ids of the helpers below a process.
fn below(process: u32) -> Vec<u32> {
    let mut parents = Processes::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        parents.extend(parsed(&stat).map(|known| (pid, known)));
    }
    let is_below = |pid: &u32| {
        let mut at = *pid;
        while let Some((parent, _)) = parents.get(&at) {
            if *parent == process {
                return true;
            }
            at = *parent;
        }
        false
    };
    let helpers = parents.iter().filter(|(_, (_, name))| NAMES.contains(&name.as_str()));
    let helpers = helpers.map(|(pid, _)| *pid).filter(|pid| !is_program(&parents, *pid));
    let mut helpers: Vec<u32> = helpers.filter(is_below).collect();
    helpers.sort_unstable();
    helpers
}

/// Whether a process is the program of a sandbox that has not been executed yet: its parent is a first process, whose parent is an
/// init. A killed program is no lost helper: its call has a result, which says so.
fn is_program(processes: &Processes, pid: u32) -> bool {
    let is_init = |pid: u32| processes.get(&pid).filter(|(_, name)| name == INIT).map(|(parent, _)| *parent);
    is_init(pid).and_then(is_init).and_then(is_init).is_some()
}

/// The parent and the name in a line of `/proc/<pid>/stat`.
fn parsed(stat: &str) -> Option<(u32, String)> {
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    Some((rest.split_whitespace().nth(1)?.parse().ok()?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_is_read_whole() {
        assert_eq!(parsed("7 (a) b (x) S 3 7 7 0"), Some((3, "a) b (x".to_owned())));
        assert_eq!(parsed("nonsense"), None);
    }

    #[test]
    fn a_program_that_is_not_executed_yet_is_no_helper() {
        let process = |parent: u32, name: &str| (parent, name.to_owned());
        let all = [
            (10, process(1, "posse")),
            (11, process(10, INIT)),
            (12, process(11, INIT)),
            (13, process(12, INIT)),
        ];
        let all: Processes = all.into_iter().collect();
        assert_eq!([11, 12, 13].map(|pid| is_program(&all, pid)), [false, false, true]);
    }

    #[test]
    fn only_helpers_below_a_process_are_killed() {
        assert!(!kill_one(std::process::id(), 0), "this process has none");
    }
}
