//! The messages between the runtime and the holder of its overlay mounts.

use serde::{Deserialize, Serialize};

use super::spec::SetupFailure;

/// The privileges with which overlays are mounted. They decide under which names the kernel stores its attributes in an
/// upper layer, so one that was mounted with the one must not be mounted with the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HolderMode {
    /// The privileges of root. A directory of a lower layer can be renamed.
    Root,
    /// Those of a user namespace. A rename of a directory of a lower layer fails with `EXDEV`.
    UserNamespace,
}

impl HolderMode {
    /// The modes that this process can try, the best first. Root of a user namespace, as in a container without
    /// privileges, cannot read the attributes that the mode of root needs.
    pub fn possible() -> &'static [Self] {
        let is_root = rustix::process::geteuid().is_root();
        let owns_all = || std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_all(&map));
        if is_root && owns_all() { &[Self::Root, Self::UserNamespace] } else { &[Self::UserNamespace] }
    }
}

/// Whether a map of user ids is that of the machine's first user namespace: every id is itself.
fn maps_all(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// A request to a holder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HolderRequest {
    /// Creates the namespaces. The first request.
    Begin(HolderMode),
    /// Mounts an overlay, and replies with a clone of the mount. The descriptor beside it is the lock of the upper
    /// layer, which is held as long as the mount.
    Mount { id: u64, layers: LayerPaths },
    /// Takes over a mount whose holder ended, and replies with a clone of it. The descriptors beside it are the mount and
    /// the lock.
    Adopt { id: u64 },
    /// Replies with one more clone of a mount.
    Clone { id: u64 },
    /// Unmounts. There is no reply.
    Unmount { id: u64 },
}

/// The directories of an overlay, as absolute paths without links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LayerPaths {
    /// The topmost first.
    pub(super) lowers: Vec<String>,
    pub(super) changes: Option<ChangesPaths>,
}

/// The directories for changes. Both are on one filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChangesPaths {
    pub(super) upper: String,
    /// An empty directory for the kernel, used by one mount only.
    pub(super) work: String,
    /// The privileges with which the upper layer is mounted each time.
    pub(super) mode: HolderMode,
}

/// The reply of a holder. A clone of a mount is beside it, if one was requested.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HolderReply {
    Done,
    Failed(SetupFailure),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_user_namespace_maps_every_id_to_itself() {
        assert!(maps_all("         0          0 4294967295\n"));
        for container in
            ["         0       1000          1\n", "0 0 65536\n", "0 1000 1\n1 100000 65536\n", ""]
        {
            assert!(!maps_all(container), "{container:?}");
        }
    }
}
