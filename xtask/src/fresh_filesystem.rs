//! A filesystem of its own for a benchmark: what was removed from the disk lately does not make its figures worse.
//!
//! For minutes after many files were removed, ext4 without a journal searches for free inodes where they were: the same
//! copy of 10,000 files then takes 2 s instead of 0.2 s. A new filesystem in an image has no such past.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command::FreshDir;

/// The size of the image. It is sparse: only what a benchmark writes takes space.
const BYTES: u64 = 32 << 30;
/// Without these, the kernel writes the tables of a new filesystem in the background, while the benchmark runs.
const FORMAT: [&str; 4] = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// A mounted image, which is unmounted and removed at the end.
pub(crate) struct FreshFilesystem {
    image: PathBuf,
    mount: PathBuf,
}

impl FreshFilesystem {
    /// Makes one in a directory. An error says why this machine or this user cannot.
    pub(crate) fn new(dir: &FreshDir) -> Result<Self, String> {
        let made = Self { image: dir.path().join("image"), mount: dir.path().join("disk") };
        let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
        std::fs::create_dir(&made.mount).map_err(|error| failed(&made.mount, error))?;
        let image = File::create(&made.image).map_err(|error| failed(&made.image, error))?;
        image.set_len(BYTES).map_err(|error| failed(&made.image, error))?;
        succeed(Command::new("mkfs.ext4").args(FORMAT).arg(&made.image))?;
        succeed(Command::new("mount").args(["-o", "loop"]).args([&made.image, &made.mount]))?;
        Ok(made)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }
}

impl Drop for FreshFilesystem {
    fn drop(&mut self) {
        // Not mounted, if it failed before.
        let mut unmount = Command::new("umount");
        drop(unmount.arg(&self.mount).stderr(Stdio::null()).status());
        drop(std::fs::remove_file(&self.image));
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}", said.lines().next().unwrap_or("failed without a message")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filesystem_is_new_and_leaves_nothing_behind() {
        let top = tempfile::tempdir().expect("a directory");
        let dir = FreshDir::new(&top.path().join("fresh")).expect("a directory");
        let mounted = |path: &Path| {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("mounts");
            mounts.contains(path.to_str().expect("UTF-8"))
        };
        match FreshFilesystem::new(&dir) {
            Ok(fresh) => {
                let (image, mount) = (fresh.image.clone(), fresh.path().to_owned());
                assert!(mounted(&mount));
                std::fs::write(mount.join("file"), "text").expect("written");
                drop(fresh);
                assert!(!mounted(&mount) && !image.exists());
            }
            // Only root may mount, and not in every container.
            Err(why) => {
                assert!(!why.is_empty());
                assert!(!dir.path().join("image").exists() && !mounted(dir.path()), "{why}");
            }
        }
    }
}
