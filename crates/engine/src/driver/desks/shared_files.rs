//! Files of a snapshot that readers share: laid out once, however many agents read them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use posse_domain::id::AgentId;
use posse_domain::object_id::ObjectId;

/// The files of a snapshot.
#[derive(Debug)]
enum Layout {
    /// They are being laid out; these agents wait for them.
    Making(Vec<AgentId>),
    At(Arc<PathBuf>),
}

/// What an agent that needs the files of a snapshot has to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SharedFiles {
    /// They are here.
    At(Arc<PathBuf>),
    /// They are being laid out; the agent waits.
    Wait,
    /// The agent waits, and they have to be laid out.
    Make,
}

#[derive(Debug, Default)]
pub(crate) struct SharedFilesDesk {
    by_snapshot: HashMap<ObjectId, Layout>,
}

impl SharedFilesDesk {
    /// An agent needs the files of a snapshot.
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

    /// The files of a snapshot are laid out, or cannot be (`None`): then the next request tries again. Gives the agents that
    /// waited for them.
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
