//! Runs the same work on many items with a few threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// More threads would only wait for the disk.
const MAX_THREADS: usize = 4;
/// How many items a thread takes at once.
const CHUNK: usize = 16;

/// How many threads work at once. The answer takes some twenty system calls, so it is kept.
pub fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS))
}

/// The results of `work` for 0, 1, ... `count - 1`, in that order, or the first error.
pub fn map<T: Send, E: Send>(count: usize, work: impl Fn(usize) -> Result<T, E> + Sync) -> Result<Vec<T>, E> {
    map_chunks(count, CHUNK, |chunk| chunk.map(&work).collect())
}

/// Like [`map`], for up to `chunk` items at once.
pub(crate) fn map_chunks<T: Send, E: Send>(
    count: usize,
    chunk: usize,
    work: impl Fn(Range<usize>) -> Result<Vec<T>, E> + Sync,
) -> Result<Vec<T>, E> {
    let chunk_at = |start: usize| start..count.min(start + chunk);
    let threads = if count <= chunk { 1 } else { threads() };
    if threads == 1 {
        let parts: Vec<Vec<T>> =
            (0..count).step_by(chunk).map(|start| work(chunk_at(start))).collect::<Result<_, E>>()?;
        return Ok(parts.into_iter().flatten().collect());
    }
    let (next, stop, error) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let worker = || {
        let mut done: Vec<(usize, Vec<T>)> = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let start = next.fetch_add(chunk, Ordering::Relaxed);
            if start >= count {
                break;
            }
            match work(chunk_at(start)) {
                Ok(part) => done.push((start, part)),
                Err(failed) => {
                    stop.store(true, Ordering::Relaxed);
                    error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failed);
                }
            }
        }
        done
    };
    let mut done: Vec<(usize, Vec<T>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let own = worker();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().flat_map(join).chain(own).collect()
    });
    if let Some(error) = error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    done.sort_unstable_by_key(|(start, _)| *start);
    Ok(done.into_iter().flat_map(|(_, part)| part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        let doubled: Result<Vec<usize>, ()> = map(1000, |at| Ok(at * 2));
        assert_eq!(doubled, Ok((0..1000).map(|at| at * 2).collect()));
    }

    #[test]
    fn an_error_ends_it() {
        let result: Result<Vec<usize>, usize> = map(1000, |at| if at == 500 { Err(at) } else { Ok(at) });
        assert_eq!(result, Err(500));
    }
}
