//! Writes the reports of children to the run's directory, where users find them. One after another, because threads that
//! create files in one directory at once block each other in the kernel.

use std::collections::{HashSet, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posse_engine::ports::{WorkspaceError, WorkspaceResult};
use tokio::sync::oneshot;

/// The queue of reports. It never has more entries than a run has children.
#[derive(Debug, Default)]
pub(super) struct Reports(Mutex<WriteQueue>);

#[derive(Debug, Default)]
struct WriteQueue {
    waiting: VecDeque<Report>,
    /// Whether a thread is writing. It will also take new entries.
    busy: bool,
}

#[derive(Debug)]
struct Report {
    dir: PathBuf,
    path: String,
    text: Arc<str>,
    written: oneshot::Sender<Result<(), String>>,
}

impl Reports {
    /// Writes `text` to `path` beneath `dir`.
    pub(super) fn write(self: &Arc<Self>, dir: PathBuf, path: String, text: Arc<str>) -> WorkspaceResult<()> {
        let (written, answer) = oneshot::channel();
        let mut queue = self.queue();
        queue.waiting.push_back(Report { dir, path, text, written });
        if !std::mem::replace(&mut queue.busy, true) {
            let reports = self.clone();
            drop(tokio::task::spawn_blocking(move || reports.drain()));
        }
        drop(queue);
        Box::pin(async move {
            let written =
                answer.await.unwrap_or_else(|_| Err("the thread that writes reports has ended".to_owned()));
            written.map_err(WorkspaceError::Unsupported)
        })
    }

    fn queue(&self) -> MutexGuard<'_, WriteQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self) {
        let mut made = HashSet::new();
        loop {
            let mut queue = self.queue();
            let batch = std::mem::take(&mut queue.waiting);
            if batch.is_empty() {
                queue.busy = false;
                return;
            }
            drop(queue);
            for report in batch {
                let result = report.save(&mut made);
                // The caller may have stopped waiting.
                let _ = report.written.send(result);
            }
        }
    }
}

impl Report {
    /// `made` contains the directories that exist already.
    fn save(&self, made: &mut HashSet<PathBuf>) -> Result<(), String> {
        let Self { dir, path, text, .. } = self;
        if !Path::new(path).components().all(|part| matches!(part, Component::Normal(_))) {
            return Err(format!("`{path}` is not a path beneath the run's state"));
        }
        let failed = |error: std::io::Error| format!("writing {path} beneath {}: {error}", dir.display());
        let file = dir.join(path);
        let folder = file.parent().unwrap_or(dir);
        if !made.contains(folder) {
            std::fs::create_dir_all(folder).map_err(failed)?;
            made.insert(folder.to_owned());
        }
        // Users open it with any program, so it must not contain terminal escapes.
        std::fs::write(&file, posse_domain::printable::clean(text).as_bytes()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_report_is_there_once_it_is_said_to_be() {
        let dir = tempfile::tempdir().expect("a directory");
        let reports = Arc::new(Reports::default());
        let writing: Vec<_> = (0..100)
            .map(|number| {
                let (parent, path) =
                    (dir.path().join(format!("p{}", number % 3)), format!(".posse/{number}.md"));
                let done = reports.write(parent.clone(), path.clone(), format!("report {number}").into());
                (parent.join(path), number, done)
            })
            .collect();
        for (file, number, done) in writing {
            done.await.expect("written");
            assert_eq!(std::fs::read_to_string(file).expect("there"), format!("report {number}"));
        }
        let out = reports.write(dir.path().join("p0"), "../x".to_owned(), "x".into()).await;
        assert!(out.is_err_and(|problem| problem.to_string().contains("`../x` is not a path beneath")));
        assert!(!dir.path().join("x").exists());
    }
}
