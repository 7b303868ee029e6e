//! Measures files that were removed but are still open, for the disk limit: they use space, and no directory shows
//! them.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::Pid;

use super::init::processes_below;
use posse_files::trees::BLOCK_BYTES;

/// The magic numbers of filesystems in memory (`man 2 statfs`), whose files are not on disk.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x9584_58f6];

/// The size of such files that descendants of these processes have open, each counted once.
pub(super) fn bytes_held(roots: &[Pid]) -> u64 {
    let mut seen = HashSet::new();
    let mut bytes: u64 = 0;
    for pid in roots.iter().flat_map(|root| processes_below(*root)) {
        let open = format!("/proc/{}/fd", pid.as_raw_nonzero());
        // A process that has ended holds nothing.
        for descriptor in fs::read_dir(open).into_iter().flatten().flatten() {
            let path = descriptor.path();
            let Some(file) = fs::metadata(&path).ok().filter(|file| is_unlinked(file, &path)) else {
                continue;
            };
            if seen.insert((file.dev(), file.ino())) {
                bytes = bytes.saturating_add(file.blocks().saturating_mul(BLOCK_BYTES));
            }
        }
    }
    bytes
}

fn is_unlinked(file: &Metadata, path: &Path) -> bool {
    let is_in_memory = || {
        let stat = rustix::fs::statfs(path);
        stat.is_ok_and(|stat| u64::try_from(stat.f_type).is_ok_and(|kind| IN_MEMORY.contains(&kind)))
    };
    file.is_file() && file.nlink() == 0 && !is_in_memory()
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn files_without_a_name_count_once_for_all_who_have_them_open_and_others_do_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = "exec 3>gone 4>kept; head -c 3M /dev/zero >&3; head -c 5M /dev/zero >&4; rm gone; \
                      sleep 1000 & echo ready; read never";
        let mut child = Command::new("bash")
            .args(["-c", script])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("read");
        let own = Pid::from_child(&child);
        let above = rustix::process::getpid();
        let found = bytes_held(&[above]);
        for pid in processes_below(own) {
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        }
        drop(child.stdin.take());
        child.wait().expect("gone");
        assert!((3 << 20..4 << 20).contains(&found), "{found}");
    }
}
