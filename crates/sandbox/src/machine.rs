//! What the machine offers for boxes, piece by piece, for people.

use std::fs;

use super::cgroup::CgroupDirs;
use super::init::landlock_abi;

/// What the machine offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Whether user namespaces may be made, by what the kernel's settings say. Only making one proves it.
    pub user_namespaces: Offer,
    /// The version of Landlock.
    pub landlock: Option<u8>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// The cgroup controllers that we may use.
    pub cgroups: Vec<&'static str>,
    /// The kernel.
    pub kernel: String,
    /// Whether this process is the superuser's.
    pub root: bool,
}

/// What a setting says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// Nothing stands against it.
    Yes,
    /// This does.
    No(String),
}

impl Machine {
    /// Looks, and changes nothing but for a cgroup that it makes and removes.
    pub fn probe() -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let root = rustix::process::geteuid().is_root();
        let against = |path: &str, bad: &str| read(path).is_some_and(|value| value == bad);
        let user_namespaces = if against("/proc/sys/user/max_user_namespaces", "0") {
            Offer::No("user.max_user_namespaces is 0".to_owned())
        } else if !root && against("/proc/sys/kernel/unprivileged_userns_clone", "0") {
            Offer::No("kernel.unprivileged_userns_clone is 0".to_owned())
        } else if !root && against("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
            Offer::No("kernel.apparmor_restrict_unprivileged_userns is 1".to_owned())
        } else {
            Offer::Yes
        };
        Self {
            user_namespaces,
            landlock: landlock_abi(),
            seccomp: read("/proc/sys/kernel/seccomp/actions_avail")
                .is_some_and(|text| text.contains("errno")),
            cgroups: CgroupDirs::find().controllers(),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
            root,
        }
    }
}
