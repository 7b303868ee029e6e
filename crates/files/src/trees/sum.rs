//! What a directory takes on disk.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;

use super::{LookedInto, OPEN_MAX, is_self_or_above, list, parts_of};

/// In what the kernel counts.
pub const BLOCK_BYTES: u64 = 512;

/// What a directory and all it holds take on disk. What vanishes meanwhile takes nothing, and what is no directory takes
/// what it takes. What is mounted in it is not counted. Nothing is changed. If the machine is short of something, so that part of it was not seen, that is the error.
pub fn bytes_beneath(path: &Path) -> io::Result<u64> {
    let mut sum = TreeSize::default();
    let (above, name) = match parts_of(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        parts => parts?,
    };
    match list(&above, &name) {
        Ok(dir) => sum.go_down(dir)?,
        Err(Errno::NOENT) => return Ok(0),
        // It is itself where something is mounted, which then is what was asked about.
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

/// What keeps a directory from being looked into that could be otherwise.
const SHORTAGES: [Errno; 3] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];

/// A directory that was listed.
struct Level {
    /// None if too many others are open; then it is found again from below.
    dir: Option<OwnedFd>,
    id: (u64, u64),
    /// Directories in it that are still to be listed.
    left: Vec<CString>,
}

#[derive(Default)]
struct TreeSize {
    bytes: u64,
    levels: Vec<Level>,
    /// What the machine did not have when a directory was to be looked into.
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
                    // One that cannot be listed, or is gone, stops nothing.
                    let short_of = listed.err().filter(|error| SHORTAGES.contains(error));
                    self.short_of = self.short_of.or(short_of);
                }
                // It has moved away while it was looked beneath it.
                (Some(_), None) => level.left.clear(),
                (None, _) => self.go_up(),
            }
        }
    }

    fn go_down(&mut self, dir: OwnedFd) -> rustix::io::Result<()> {
        let own = fstat(&dir)?;
        let looked_into = LookedInto::open(&dir);
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
        drop(looked_into);
        // The uppermost stays open: it is never found from below.
        if let Some(far) = self.levels.len().checked_sub(OPEN_MAX).filter(|far| *far > 0) {
            self.levels[far].dir = None;
        }
        self.levels.push(Level { dir: Some(dir), id: (own.st_dev, own.st_ino), left });
        Ok(())
    }

    /// Goes back to the directory above. If it was closed, it is what this one is in, as long as that is still the one.
    fn go_up(&mut self) {
        let Some(Level { dir: below, .. }) = self.levels.pop() else { return };
        let Some(above) = self.levels.last_mut().filter(|above| above.dir.is_none()) else { return };
        let found = below.and_then(|below| list(&below, c"..").ok());
        let is_same = |dir: &OwnedFd| fstat(dir).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == above.id);
        above.dir = found.filter(is_same);
    }

    /// What has several names takes its share with each.
    fn add(&mut self, stat: &Stat) {
        let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let names = if is_dir { 1 } else { stat.st_nlink.max(1) };
        self.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * BLOCK_BYTES / names;
    }
}
