//! Measures the disk usage of a directory tree.

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::{ListingPermission, OPEN_MAX, is_self_or_above, list, parts_of};

/// The unit of the kernel's block counts.
pub const BLOCK_BYTES: u64 = 512;

/// The disk usage of a directory with all its content: what its removal would free. Entries that vanish meanwhile count nothing, and a path that is
/// not a directory counts itself. Mounted filesystems are not counted. Nothing is changed. If the machine lacks a
/// resource, so that a part could not be read, that is the error.
pub fn bytes_beneath(path: &Path) -> io::Result<u64> {
    let mut sum = TreeSize::default();
    let (above, name) = match parts_of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        parts => parts?,
    };
    match list(&above, &name) {
        Ok(dir) => sum.go_down(dir)?,
        Err(Errno::NOENT) => return Ok(0),
        // The path itself is a mount point, so the mounted filesystem is meant.
        Err(Errno::XDEV) => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            sum.go_down(openat(&above, &name, flags, Mode::empty())?)?;
        }
        Err(Errno::NOTDIR) => sum.add(&statat(&above, &name, AtFlags::SYMLINK_NOFOLLOW)?),
        Err(error) => return Err(error.into()),
    }
    sum.run();
    sum.short_of.map_or(Ok(sum.bytes), |short_of| Err(short_of.into()))
}

/// Errors of a temporary shortage.
const SHORTAGES: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];

/// A directory that was listed.
struct Level {
    /// None if too many others are open. Then it is opened again as the parent of the one below.
    dir: Option<OwnedFd>,
    id: (u64, u64),
    /// Directories in it that are still to be listed.
    left: Vec<CString>,
}

#[derive(Default)]
struct TreeSize {
    bytes: u64,
    /// How many names of each file with several were found.
    found_names: HashMap<(u64, u64), u64>,
    levels: Vec<Level>,
    /// The shortage that kept a directory from being read.
    short_of: Option<Errno>,
}

impl TreeSize {
    fn run(&mut self) {
        while let Some(level) = self.levels.last_mut() {
            let next = level.left.pop();
            match (next, &level.dir) {
                (Some(name), Some(dir)) => {
                    let entered = list(dir, &name);
                    let listed = entered.and_then(|dir| self.go_down(dir));
                    // A directory that cannot be listed, or is gone, stops nothing.
                    let short_of = listed.err().filter(|error| SHORTAGES.contains(error));
                    self.short_of = self.short_of.or(short_of);
                }
                // The directory was moved away while the walk was beneath it.
                (Some(_), None) => level.left.clear(),
                (None, _) => self.go_up(),
            }
        }
    }

    fn go_down(&mut self, dir: OwnedFd) -> rustix::io::Result<()> {
        let own = fstat(&dir)?;
        let permission = ListingPermission::open(&dir);
        let mut left = Vec::new();
        for entry in Dir::read_from(&dir)? {
            let Ok(entry) = entry else { break };
            let name = entry.file_name();
            if is_self_or_above(name) {
                continue;
            }
            let Ok(stat) = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            self.add(&stat);
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                left.push(name.to_owned());
            }
        }
        drop(permission);
        // The uppermost stays open, because it cannot be opened as a parent.
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX).filter(|far| *far > 0) {
            self.levels[far].dir = None;
        }
        self.levels.push(Level { dir: Some(dir), id: (own.st_dev, own.st_ino), left });
        Ok(())
    }

    /// Goes back to the parent. If that was closed, it is opened as `..`, as long as that is still the same directory.
    fn go_up(&mut self) {
        let Some(Level { dir: below, .. }) = self.levels.pop() else { return };
        let Some(above) = self.levels.last_mut().filter(|above| above.dir.is_none()) else { return };
        let found = below.and_then(|below| list(&below, c"..").ok());
        let is_same = |dir: &OwnedFd| fstat(dir).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == above.id);
        above.dir = found.filter(is_same);
    }

    /// A file with several names counts once all of them were found: one that has another name elsewhere would not be
    /// freed with the tree.
    fn add(&mut self, stat: &Stat) {
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if !is_dir && stat.st_nlink > 1 {
            let found = self.found_names.entry((stat.st_dev, stat.st_ino)).or_default();
            *found += 1;
            if *found != stat.st_nlink {
                return;
            }
        }
        self.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK_BYTES;
    }
}
