//! Distributes the chunks of a search to threads and collects their results.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{GREP_OUTPUT_MAX_BYTES, GrepFile, GrepResult};
use crate::FileError;

/// Hands out chunks until the finished ones have enough results.
pub(super) struct Board {
    chunks: usize,
    limit: usize,
    next: AtomicUsize,
    enough: AtomicBool,
    done: Mutex<Done>,
}

struct Done {
    parts: Vec<Option<Result<GrepResult, FileError>>>,
    /// How many parts from the first on are complete, and their totals.
    settled: usize,
    results: usize,
    bytes: usize,
}

impl Board {
    pub(super) fn new(chunks: usize, limit: usize) -> Self {
        let parts = std::iter::repeat_with(|| None).take(chunks).collect();
        let done = Done { parts, settled: 0, results: 0, bytes: 0 };
        let (next, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { chunks, limit, next, enough, done: Mutex::new(done) }
    }

    /// The next chunk to search. None if nothing is left to do.
    pub(super) fn take(&self) -> Option<usize> {
        if self.enough.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.chunks).then_some(index)
    }

    pub(super) fn put(&self, index: usize, part: Result<GrepResult, FileError>) {
        let mut done = self.lock();
        if part.is_err() {
            self.enough.store(true, Ordering::Relaxed);
        }
        done.parts[index] = Some(part);
        while let Some(Some(Ok(part))) = done.parts.get(done.settled) {
            let (results, bytes) = (results(part), bytes(part));
            done.results += results;
            done.bytes += bytes;
            done.settled += 1;
        }
        // More than the limit, not equal to it: then it is known that there are more results.
        if done.results > self.limit || done.bytes > GREP_OUTPUT_MAX_BYTES {
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    /// Joins the parts in order, up to the limits.
    pub(super) fn gather(self) -> Result<GrepResult, FileError> {
        let mut whole = GrepResult::default();
        let mut left = RemainingRoom { results: self.limit, bytes: GREP_OUTPUT_MAX_BYTES };
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        for part in done.parts {
            // Chunks are handed out in order, so parts after a gap do not count.
            let Some(part) = part else { break };
            let part = part?;
            whole.searched += part.searched;
            whole.binary += part.binary;
            whole.unread += part.unread;
            whole.refused += part.refused;
            whole.more |= part.more;
            for file in part.files {
                let (Some(file), is_whole) = left.take(file) else {
                    whole.more = true;
                    return Ok(whole);
                };
                whole.files.push(file);
                whole.more |= !is_whole;
            }
        }
        Ok(whole)
    }

    fn lock(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The room that is left in the result.
struct RemainingRoom {
    results: usize,
    bytes: usize,
}

impl RemainingRoom {
    /// As much of a file as fits, and whether that is all of it.
    fn take(&mut self, mut file: GrepFile) -> (Option<GrepFile>, bool) {
        let name = file.path.as_path().as_os_str().len();
        if self.results == 0 || self.bytes < name {
            return (None, false);
        }
        self.bytes -= name;
        if file.lines.is_empty() {
            self.results -= 1;
            return (Some(file), true);
        }
        let before = file.lines.len();
        let mut kept = 0;
        for line in &file.lines {
            if line.text.len() > self.bytes || (line.matched && self.results == 0) {
                break;
            }
            self.bytes -= line.text.len();
            self.results -= usize::from(line.matched);
            kept += 1;
        }
        file.lines.truncate(kept);
        if kept < before {
            self.results = 0;
        }
        ((kept > 0).then_some(file), kept == before)
    }
}

/// How much of the limit a part uses: its lines, or its files if no lines were requested.
fn results(part: &GrepResult) -> usize {
    part.files.iter().map(|file| if file.lines.is_empty() { 1 } else { file.matches }).sum()
}

fn bytes(part: &GrepResult) -> usize {
    let text = |file: &GrepFile| file.lines.iter().map(|line| line.text.len()).sum::<usize>();
    part.files.iter().map(|file| file.path.as_path().as_os_str().len() + text(file)).sum()
}
