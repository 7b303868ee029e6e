//! Refuses filesystems with unreliable locks. WAL needs shared memory and working locks, and a network filesystem
//! guarantees neither.

use std::path::Path;

use posse_engine::ports::{StoreError, StorePart};

use super::error::from_io;

/// Names of network filesystems by the magic number from `statfs` (`linux/magic.h`).
const NETWORK: [(u32, &str); 15] = [
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0000_564c, "NCP"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x013f_c0de, "BeeGFS"),
];

/// The name of a network filesystem, `None` for a local one. FUSE counts as local, because local disks are often
/// mounted with it, and its locks work within one machine.
pub(super) fn network_name(magic: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

pub(super) fn refuse_network(dir: &Path) -> Result<(), StoreError> {
    let stat = rustix::fs::statfs(dir).map_err(|error| from_io(StorePart::Store, dir, &error.into()))?;
    // The magic number has 32 bits. On some platforms the field is a signed word and is sign-extended.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only the low 32 bits count")]
    let magic = stat.f_type as u32;
    match network_name(magic) {
        None => Ok(()),
        Some(kind) => Err(StoreError::Unsuitable {
            part: StorePart::Store,
            problem: format!("it is on a network filesystem ({kind}), whose locks cannot be relied on"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_filesystems_are_told_from_local_ones() {
        for (magic, name) in
            [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0102_1997, "9P"), (0x00c3_6400, "Ceph")]
        {
            assert_eq!(network_name(magic), Some(name));
        }
        let local = [
            0xef53,
            0x9123_683e,
            0x5846_5342,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
            0xf2f5_2010,
            0x6573_5546,
        ];
        for magic in local {
            assert_eq!(network_name(magic), None, "{magic:#x}");
        }
    }

    #[test]
    fn no_magic_stands_twice() {
        for (place, (magic, _)) in NETWORK.iter().enumerate() {
            assert!(NETWORK[place + 1..].iter().all(|(other, _)| other != magic), "{magic:#x}");
        }
    }

    #[test]
    fn a_local_directory_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        refuse_network(dir.path()).unwrap();
    }
}
