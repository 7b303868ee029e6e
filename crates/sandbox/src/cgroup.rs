//! Limits all processes of a call together by cgroups, where the machine allows it.
//!
//! A process is moved into a cgroup once, when its init starts: a move waits for the whole machine (10 to 30 ms,
//! measured), while a fork inside the cgroup costs nothing. An init runs one call at a time, so its limits are the
//! call's.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::spec::Limits;

/// The prefix of Posse's cgroups. The id of the creating process follows.
const PREFIX: &str = "posse-";

/// The cgroups of one init.
#[derive(Debug)]
pub(super) struct Cgroups {
    /// Directories, with the controllers of each.
    dirs: Vec<(PathBuf, &'static [&'static str])>,
}

/// Where this machine allows new cgroups. Found once.
#[derive(Debug, Clone, Default)]
pub(super) struct CgroupDirs {
    places: Vec<CgroupDir>,
}

#[derive(Debug, Clone)]
struct CgroupDir {
    parent: PathBuf,
    kind: Hierarchy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    /// cgroup v2, with one hierarchy for everything.
    Unified,
    /// The v1 hierarchy of the pids controller.
    Pids,
    /// The v1 hierarchy of the memory controller.
    Memory,
}

impl Hierarchy {
    fn controllers(self) -> &'static [&'static str] {
        match self {
            Hierarchy::Unified => &["pids", "memory"],
            Hierarchy::Pids => &["pids"],
            Hierarchy::Memory => &["memory"],
        }
    }

    /// The files and values of the limits. The first of each is required; not every kernel has the others.
    fn settings(self, limits: &Limits) -> Vec<(&'static str, String, bool)> {
        let (pids, memory) = (limits.processes.to_string(), limits.memory_bytes.to_string());
        match self {
            Hierarchy::Unified => vec![
                ("pids.max", pids, true),
                ("memory.max", memory, true),
                ("memory.swap.max", "0".to_owned(), false),
                ("memory.oom.group", "0".to_owned(), false),
            ],
            Hierarchy::Pids => vec![("pids.max", pids, true)],
            Hierarchy::Memory => vec![
                ("memory.limit_in_bytes", memory.clone(), true),
                ("memory.memsw.limit_in_bytes", memory, false),
            ],
        }
    }
}

impl CgroupDirs {
    /// Finds directories where this process may create cgroups, and proves each by creating one.
    pub(super) fn find() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let mut places = Vec::new();
        for kind in [Hierarchy::Unified, Hierarchy::Pids, Hierarchy::Memory] {
            let covered = |controller: &&str| {
                places.iter().any(|place: &CgroupDir| place.kind.controllers().contains(controller))
            };
            if kind.controllers().iter().all(covered) {
                continue;
            }
            let Some(dir) = own_dir(kind, &own, &mounts) else { continue };
            // In v2, a cgroup with processes cannot delegate controllers, but its parent can.
            let above = dir.parent().map(Path::to_owned).filter(|_| kind == Hierarchy::Unified);
            let works = [Some(dir), above].into_iter().flatten().find(|parent| {
                sweep(parent);
                proves(&CgroupDir { parent: parent.clone(), kind })
            });
            places.extend(works.map(|parent| CgroupDir { parent, kind }));
        }
        Self { places }
    }

    /// The controllers that can be limited.
    pub(super) fn controllers(&self) -> Vec<&'static str> {
        let mut all: Vec<&str> =
            self.places.iter().flat_map(|place| place.kind.controllers()).copied().collect();
        all.sort_unstable_by_key(|name| *name != "pids");
        all
    }

    /// Creates cgroups with these limits and moves a process into them.
    pub(super) fn make(&self, limits: &Limits, pid: u32) -> io::Result<Cgroups> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut made = Cgroups { dirs: Vec::new() };
        for place in &self.places {
            let dir = place.parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            make_one(&dir, place.kind, limits)?;
            made.dirs.push((dir.clone(), place.kind.controllers()));
            set(&dir.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(made)
    }
}

impl Cgroups {
    /// How many processes the kernel killed because memory ran out.
    pub(super) fn memory_kills(&self) -> u64 {
        let count = |text: String| {
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
            line.trim().parse::<u64>().ok()
        };
        let of = |(dir, controllers): &(PathBuf, &[&str])| {
            if !controllers.contains(&"memory") {
                return 0;
            }
            let files = ["memory.events", "memory.oom_control"];
            files.iter().find_map(|file| count(fs::read_to_string(dir.join(file)).ok()?)).unwrap_or(0)
        };
        self.dirs.iter().map(of).sum()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for (dir, _) in &self.dirs {
            let _ = fs::remove_dir(dir);
        }
    }
}

fn make_one(dir: &Path, kind: Hierarchy, limits: &Limits) -> io::Result<()> {
    fs::create_dir(dir)?;
    for (file, value, needed) in kind.settings(limits) {
        let written = set(&dir.join(file), &value);
        if let (true, Err(error)) = (needed, written) {
            let _ = fs::remove_dir(dir);
            return Err(error);
        }
    }
    Ok(())
}

/// Writes a value to an existing file. If the file does not exist, the directory is not a cgroup.
fn set(file: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

fn proves(place: &CgroupDir) -> bool {
    let dir = place.parent.join(format!("{PREFIX}{}-try", std::process::id()));
    if place.kind == Hierarchy::Unified {
        let _ = set(&place.parent.join("cgroup.subtree_control"), "+pids +memory");
    }
    let made = make_one(&dir, place.kind, &Limits::default()).is_ok();
    // A process can only be moved if this process may write to a common ancestor of both cgroups.
    let movable = made && fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs")).is_ok();
    let _ = fs::remove_dir(dir);
    movable
}

/// Removes cgroups of processes that have ended. A cgroup with a process in it cannot be removed.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')).map(|(pid, _)| pid);
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// This process's own cgroup in the hierarchy of a controller.
fn own_dir(kind: Hierarchy, own: &str, mounts: &str) -> Option<PathBuf> {
    let has = |list: &str, name: &str| list.split(',').any(|item| item == name);
    let name = kind.controllers()[0];
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = match kind {
            Hierarchy::Unified => number == "0" && controllers.is_empty(),
            Hierarchy::Pids | Hierarchy::Memory => has(controllers, name),
        };
        fits.then_some(path)
    })?;
    let mount = mounts.lines().find_map(|line| {
        let mut parts = line.split(' ').skip(1);
        let (dir, fstype, options) = (parts.next()?, parts.next()?, parts.next()?);
        let fits = match kind {
            Hierarchy::Unified => fstype == "cgroup2",
            Hierarchy::Pids | Hierarchy::Memory => fstype == "cgroup" && has(options, name),
        };
        fits.then_some(dir)
    })?;
    let dir = Path::new(mount).join(path.trim_start_matches('/'));
    // In a container, the path may belong to another namespace. Then the mount itself is the topmost visible cgroup.
    Some(if dir.is_dir() { dir } else { PathBuf::from(mount) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "8:pids:/\n4:cpu,memory:/a b/c\n1:name=systemd:/\n0::/user.slice\n";

    #[test]
    fn a_directory_that_is_no_cgroup_is_left_as_it_was() {
        let top = tempfile::tempdir().expect("a directory");
        for kind in [Hierarchy::Unified, Hierarchy::Pids, Hierarchy::Memory] {
            assert!(!proves(&CgroupDir { parent: top.path().to_owned(), kind }));
        }
        assert_eq!(fs::read_dir(top.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn the_own_cgroup_is_found_in_either_hierarchy() {
        let top = tempfile::tempdir().expect("a directory");
        let at = |name: &str| top.path().join(name);
        for dir in ["pids", "memory/a b/c", "unified"] {
            fs::create_dir_all(at(dir)).expect("made");
        }
        let mounts = format!(
            "cgroup {0}/pids cgroup rw,pids 0 0\ncgroup {0}/memory cgroup rw,cpu,memory 0 0\ncgroup2 {0}/unified cgroup2 rw 0 0\n",
            top.path().display()
        );
        assert_eq!(own_dir(Hierarchy::Pids, OWN, &mounts), Some(at("pids")));
        assert_eq!(own_dir(Hierarchy::Memory, OWN, &mounts), Some(at("memory/a b/c")));
        assert_eq!(own_dir(Hierarchy::Unified, OWN, &mounts), Some(at("unified")), "of another namespace");
        assert_eq!(own_dir(Hierarchy::Pids, "0::/\n", &mounts), None);
        assert_eq!(own_dir(Hierarchy::Pids, OWN, ""), None);
    }
}
