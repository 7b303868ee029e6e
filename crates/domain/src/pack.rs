//! Packs of objects that events name: bytes in memory, a blob in the journal.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash::Hash;
use crate::text::{Blob, BlobRef};

/// The new objects of a commit as one pack. An event names it by its hash, however short it is. A reader fetches the
/// bytes only when it needs the objects.
#[derive(Clone)]
pub struct Pack {
    at: BlobRef,
    /// `None` once the journal has them.
    bytes: Option<Arc<[u8]>>,
}

impl Pack {
    /// The blob of the pack.
    pub fn at(&self) -> BlobRef {
        self.at
    }

    /// The bytes, if the journal does not have them yet.
    pub fn bytes(&self) -> Option<&Arc<[u8]>> {
        self.bytes.as_ref()
    }

    /// Moves the bytes into `blobs` and keeps the reference.
    pub(crate) fn stow(&mut self, blobs: &mut Vec<Blob>) {
        if let Some(bytes) = self.bytes.take() {
            blobs.push(Blob { hash: self.at.blob, bytes });
        }
    }
}

impl From<Vec<u8>> for Pack {
    fn from(bytes: Vec<u8>) -> Self {
        let at = BlobRef { blob: Hash::of(&bytes), bytes: bytes.len() as u64 };
        Self { at, bytes: Some(bytes.into()) }
    }
}

/// Two packs with the same hash have the same content.
impl PartialEq for Pack {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Pack {}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.at)
    }
}

impl Serialize for Pack {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.at.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Pack {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BlobRef::deserialize(deserializer).map(|at| Self { at, bytes: None })
    }
}
