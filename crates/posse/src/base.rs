//! Reads the files that a run began with, in batches, from wherever they are kept. Used by exports and replays.

use std::sync::Arc;

use posse_domain::id::RunId;
use posse_domain::object_id::ObjectId;
use posse_engine::ports::{ListedFile, RunFiles, WorkspaceError};
use tokio::runtime::Handle;

use crate::bundle::BaseFile;

/// How many bytes of files are requested at once.
const BATCH_BYTES: u64 = 32 * 1024 * 1024;

/// The files of a run's base. For blocking threads.
pub(crate) struct BaseReader {
    files: Arc<dyn RunFiles>,
    run: RunId,
    tree: ObjectId,
    runtime: Handle,
}

impl BaseReader {
    /// Must be called in the async runtime that serves the port.
    pub(crate) fn new(files: Arc<dyn RunFiles>, run: &RunId, tree: ObjectId) -> Self {
        Self { files, run: run.clone(), tree, runtime: Handle::current() }
    }

    /// Passes every file to `take` and returns the entries that are not files, each with the reason.
    pub(crate) fn each_file<E: From<WorkspaceError>>(
        &self,
        mut take: impl FnMut(BaseFile) -> Result<(), E>,
    ) -> Result<Vec<String>, E> {
        let listing = self.runtime.block_on(self.files.list_files(&self.run, self.tree))?;
        let mut rest = listing.files.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |file: &&ListedFile| {
                bytes += file.bytes;
                bytes <= BATCH_BYTES
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (batch, after) = rest.split_at(count);
            let contents = self.runtime.block_on(self.files.read_files(&self.run, batch.to_vec()))?;
            for (file, content) in batch.iter().zip(contents) {
                take(BaseFile { path: file.path.clone(), kind: file.kind, content })?;
            }
            rest = after;
        }
        Ok(listing.omitted)
    }
}
