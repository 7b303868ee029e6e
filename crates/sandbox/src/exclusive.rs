//! Locks by path, for cache layers that one call at a time may use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

#[derive(Debug, Default)]
pub(super) struct Exclusive(Mutex<HashMap<PathBuf, Weak<Lock>>>);

impl Exclusive {
    /// Waits until all of these are free. Every call locks them in the same order, so no deadlock is possible.
    pub(super) async fn all(&self, paths: impl Iterator<Item = &Path>) -> Vec<OwnedMutexGuard<()>> {
        let mut paths: Vec<&Path> = paths.collect();
        paths.sort_unstable();
        paths.dedup();
        let mut held = Vec::with_capacity(paths.len());
        for path in paths {
            held.push(self.of(path).lock_owned().await);
        }
        held
    }

    fn of(&self, path: &Path) -> Arc<Lock> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Lock::default());
        locks.insert(path.to_owned(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn one_at_a_time_whatever_the_order_and_nothing_is_left() {
        let exclusive = Exclusive::default();
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        let take = |paths: [&'static str; 2]| exclusive.all(paths.map(Path::new).into_iter()).now_or_never();
        let first = take(["/b", "/a"]).expect("free");
        assert!(take(["/a", "/c"]).is_none(), "{a:?} is taken");
        assert!(exclusive.all([b].into_iter()).now_or_never().is_none());
        assert!(exclusive.all([Path::new("/c")].into_iter()).now_or_never().is_some());
        drop(first);
        assert_eq!(take(["/a", "/a"]).expect("free again").len(), 1);
        assert!(exclusive.0.lock().expect("not poisoned").len() <= 1);
    }
}
