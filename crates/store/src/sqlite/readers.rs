//! A pool of read-only connections, each with its own thread, so that a slow disk never blocks an async thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use futures::FutureExt;
use futures::future::BoxFuture;
use posse_engine::ports::StoreError;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::options::{READ_QUEUE_MAX, READERS_MAX};

type OpenConnection = dyn Fn() -> Result<Connection, StoreError> + Send + Sync;
/// Queries a connection, or reports why there is none.
type Question = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

pub(super) struct Readers {
    shared: Arc<ReaderState>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct ReaderState {
    open: Box<OpenConnection>,
    line: Mutex<ReaderQueue>,
    wake: Condvar,
}

#[derive(Default)]
struct ReaderQueue {
    questions: VecDeque<Question>,
    idle: usize,
    threads: usize,
    is_closed: bool,
}

impl Readers {
    pub(super) fn new(open: impl Fn() -> Result<Connection, StoreError> + Send + Sync + 'static) -> Self {
        let shared = ReaderState { open: Box::new(open), line: Mutex::default(), wake: Condvar::new() };
        Self { shared: Arc::new(shared), threads: Mutex::default() }
    }

    /// Runs `question` on the next free reader.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (answer, heard) = oneshot::channel();
        self.push(Box::new(move |reader| {
            // The caller has given up, so the disk is not read.
            if !answer.is_closed() {
                drop(answer.send(reader.and_then(question)));
            }
        }));
        heard.map(|heard| heard.unwrap_or_else(|_| Err(closed()))).boxed()
    }

    fn push(&self, question: Question) {
        let mut line = self.shared.line();
        if line.questions.len() >= READ_QUEUE_MAX {
            drop(line);
            return question(Err(StoreError::Failed(format!(
                "{READ_QUEUE_MAX} reads wait for the disk already"
            ))));
        }
        line.questions.push_back(question);
        if line.idle > 0 {
            self.shared.wake.notify_one();
        } else if line.threads < READERS_MAX {
            line.threads += 1;
            drop(line);
            self.start_reader();
        }
    }

    fn start_reader(&self) {
        let shared = self.shared.clone();
        let started =
            std::thread::Builder::new().name("posse-reader".to_owned()).spawn(move || shared.serve());
        match started {
            Ok(thread) => self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread),
            Err(error) => {
                // The caller may have given up.
                let reason = StoreError::Failed(format!("no thread for a reader: {error}"));
                self.shared.give_up(&reason);
            }
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.shared.line().is_closed = true;
        self.shared.wake.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl ReaderState {
    fn line(&self) -> MutexGuard<'_, ReaderQueue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        match (self.open)() {
            Ok(connection) => {
                while let Some(question) = self.next() {
                    question(Ok(&connection));
                }
            }
            Err(error) => self.give_up(&error),
        }
    }

    /// The next query. `None` when the pool is closed.
    fn next(&self) -> Option<Question> {
        let mut line = self.line();
        loop {
            if let Some(question) = line.questions.pop_front() {
                return Some(question);
            }
            if line.is_closed {
                return None;
            }
            line.idle += 1;
            line = self.wake.wait(line).unwrap_or_else(PoisonError::into_inner);
            line.idle -= 1;
        }
    }

    /// Records that a reader ended. If it was the last, refuses the waiting queries, because no reader would answer
    /// them.
    fn give_up(&self, reason: &StoreError) {
        let mut line = self.line();
        line.threads -= 1;
        if line.threads > 0 {
            return;
        }
        let left = std::mem::take(&mut line.questions);
        drop(line);
        for question in left {
            question(Err(reason.clone()));
        }
    }
}

/// The error of a call whose store was closed before it answered.
pub(super) fn closed() -> StoreError {
    StoreError::Failed("the store was closed".to_owned())
}
