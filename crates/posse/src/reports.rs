//! Writing the reports of children where people find them, one after another: threads that make files in one directory
//! at once spend their time waiting for each other in the kernel.

use std::collections::{HashSet, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posse_engine::ports::{WorkspaceProblem, WorkspaceResult};
use tokio::sync::oneshot;

/// Where reports wait to be written. There are never more than a run has children.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<WriteQueue>);

#[derive(Debug, Default)]
struct WriteQueue {
    waiting: VecDeque<Report>,
    /// Whether somebody writes, and will see what is added.
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
    pub(crate) fn write(self: &Arc<Self>, dir: PathBuf, path: String, text: Arc<str>) -> WorkspaceResult<()> {
        let (written, heard) = oneshot::channel();
        let mut line = self.line();
        line.waiting.push_back(Report { dir, path, text, written });
        if !std::mem::replace(&mut line.busy, true) {
            let reports = self.clone();
            drop(tokio::task::spawn_blocking(move || reports.drain()));
        }
        drop(line);
        Box::pin(async move {
            let written = heard.await.unwrap_or_else(|_| Err("nobody writes reports any more".to_owned()));
            written.map_err(WorkspaceProblem::from)
        })
    }

    fn line(&self) -> MutexGuard<'_, WriteQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drain(&self) {
        let mut made = HashSet::new();
        loop {
            let mut line = self.line();
            let batch = std::mem::take(&mut line.waiting);
            if batch.is_empty() {
                line.busy = false;
                return;
            }
            drop(line);
            for report in batch {
                let result = report.save(&mut made);
                // Whoever asked may be gone.
                let _ = report.written.send(result);
            }
        }
    }
}

impl Report {
    /// Writes it; `made` are the directories that are there.
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
        // A person opens it with whatever they have: it must not steer that.
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
        assert!(out.is_err_and(|problem| problem.text.contains("`../x` is not a path beneath")));
        assert!(!dir.path().join("x").exists());
    }
}
