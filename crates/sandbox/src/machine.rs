//! Reports what the machine offers for sandboxes, for `posse doctor`.

use std::fs;

use super::cgroup::CgroupDirs;
use super::init::landlock_abi;

/// What the machine offers for sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Whether the kernel's settings allow user namespaces. Only creating one proves it.
    pub user_namespaces: Offer,
    /// The version of Landlock, if the kernel has it.
    pub landlock: Option<u8>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// The cgroup controllers that Posse may use.
    pub cgroups: Vec<&'static str>,
    /// The version of the kernel.
    pub kernel: String,
    /// Whether this process runs as root.
    pub root: bool,
}

/// What the kernel's settings say about a feature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offer {
    /// No setting forbids it.
    Yes,
    /// A setting forbids it, for this reason.
    No(String),
}

impl Machine {
    /// Inspects the machine. Changes nothing, except for a cgroup that it creates and removes.
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
