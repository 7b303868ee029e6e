//! Files of a snapshot that many agents only read. They are checked out once for all readers.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;

/// The checkout of a snapshot.
#[derive(Debug)]
enum Layout {
    /// The checkout is under way. These agents wait for it.
    Making(Vec<AgentId>),
    At(Arc<PathBuf>),
}

/// How an agent gets the files of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SharedFiles {
    At(Arc<PathBuf>),
    /// Wait: the checkout is under way.
    Wait,
    /// Wait, and start the checkout.
    Make,
}

#[derive(Debug, Default)]
pub(crate) struct SharedFilesDesk {
    by_snapshot: HashMap<ObjectId, Layout>,
}

impl SharedFilesDesk {
    /// Requests the files of a snapshot for an agent.
    pub(crate) fn request(&mut self, snapshot: ObjectId, id: &AgentId) -> SharedFiles {
        match self.by_snapshot.get_mut(&snapshot) {
            Some(Layout::At(dir)) => SharedFiles::At(dir.clone()),
            Some(Layout::Making(waiting)) => {
                waiting.push(id.clone());
                SharedFiles::Wait
            }
            None => {
                self.by_snapshot.insert(snapshot, Layout::Making(vec![id.clone()]));
                SharedFiles::Make
            }
        }
    }

    /// Records the checkout of a snapshot. `None` if it failed: the next request tries again. Returns the waiting
    /// agents.
    pub(crate) fn made(&mut self, snapshot: ObjectId, dir: Option<&Arc<PathBuf>>) -> Vec<AgentId> {
        let waiting = match self.by_snapshot.remove(&snapshot) {
            Some(Layout::Making(waiting)) => waiting,
            Some(Layout::At(_)) | None => Vec::new(),
        };
        if let Some(dir) = dir {
            self.by_snapshot.insert(snapshot, Layout::At(dir.clone()));
        }
        waiting
    }
}

#[cfg(test)]
mod tests {
    use posse_domain::id::RunId;

    use super::*;

    #[test]
    fn files_that_readers_share_are_laid_out_once() {
        let root = RunId::from_random(1).root();
        let snapshot = "1".repeat(40).parse::<ObjectId>().expect("an id");
        let dir = Arc::new(PathBuf::from("files"));
        let mut desk = SharedFilesDesk::default();
        assert_eq!(desk.request(snapshot, &root.child(1)), SharedFiles::Make);
        assert_eq!(desk.request(snapshot, &root.child(2)), SharedFiles::Wait);
        assert_eq!(desk.made(snapshot, None), [root.child(1), root.child(2)]);
        assert_eq!(desk.request(snapshot, &root.child(3)), SharedFiles::Make, "a failure is not remembered");
        assert_eq!(desk.made(snapshot, Some(&dir)), [root.child(3)]);
        assert_eq!(desk.request(snapshot, &root.child(4)), SharedFiles::At(dir));
    }
}
