//! A filesystem of its own, whose power can be cut.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::work::Done;

/// How long the processes of stopped work may take to end.
const FREE_MAX: Duration = Duration::from_secs(20);
const IMAGE_BYTES: u64 = 192 * 1024 * 1024;
/// `EXT4_IOC_SHUTDOWN`
const SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// Nothing more reaches the disk, not even the journal.
const NO_LOG_FLUSH: u32 = 2;

/// An ext4 filesystem in a file, mounted while this lives.
pub(crate) struct Disk {
    image: PathBuf,
    at: PathBuf,
    mounted: bool,
}

impl Disk {
    /// Makes and mounts one beneath `dir`; why not, if this machine does not allow it.
    pub(crate) fn new(dir: &Path) -> Done<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err("only root can mount".to_owned());
        }
        let (image, at) = (dir.join("image"), dir.join("disk"));
        let made = fs::File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES));
        made.and_then(|()| fs::create_dir(&at)).map_err(|error| error.to_string())?;
        said(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        let mut disk = Self { image, at, mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    /// As when the power comes back.
    pub(crate) fn restart(&mut self) -> Done<()> {
        // The processes of the stopped work may still be ending.
        let until = Instant::now() + FREE_MAX;
        while let Err(busy) = said(Command::new("umount").arg(&self.at)) {
            if Instant::now() >= until {
                return Err(busy);
            }
            std::thread::yield_now();
        }
        self.mounted = false;
        self.wait_until_free()?;
        self.mount()
    }

    /// Waits until the processes of the stopped work have released the disk: two filesystems on it would destroy it.
    fn wait_until_free(&self) -> Done<()> {
        let until = Instant::now() + FREE_MAX;
        while Instant::now() < until {
            let users = Command::new("losetup").arg("-j").arg(&self.image).output();
            if users.map_err(|error| error.to_string())?.stdout.is_empty() {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(format!("{} is still used", self.image.display()))
    }

    fn mount(&mut self) -> Done<()> {
        said(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.at))?;
        self.mounted = true;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.mounted {
            drop(said(Command::new("umount").arg(&self.at)));
        }
    }
}

/// Cuts the power of the filesystem that holds `path`.
pub(crate) fn cut(path: &Path) -> std::io::Result<()> {
    let dir = fs::File::open(path)?;
    let how = NO_LOG_FLUSH;
    #[expect(
        unsafe_code,
        reason = "there is no other way to stop a filesystem; the pointer is to a number that lives on"
    )]
    let done = unsafe { libc::ioctl(dir.as_raw_fd(), SHUTDOWN, &raw const how) };
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn said(command: &mut Command) -> Done<()> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
