//! An embedder's own store beside a state directory: the journal is in the store, the files are in the directory.

use std::sync::Arc;

use posse::scripted::ScriptedModel;
use posse::{NewRun, Posse, Resume, RunStatus};
use posse_store::MemoryStore;

use crate::{NAMES, WRITES_A_FILE};

struct Home {
    dir: tempfile::TempDir,
    journal: MemoryStore,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("project")).unwrap();
        std::fs::write(dir.path().join("project/a.txt"), "one\n").unwrap();
        Self { dir, journal: MemoryStore::new() }
    }

    /// Another process with the same journal and the same state directory.
    fn open(&self) -> Posse {
        let script = ScriptedModel::from_yaml(WRITES_A_FILE, "script").unwrap();
        Posse::builder()
            .state_dir(self.dir.path().join("state"))
            .store(Arc::new(self.journal.another_process()))
            .model("scripted/own", script)
            .open()
            .unwrap()
    }

    fn run(&self) -> NewRun {
        NewRun::new("write b").model("scripted/own").dir(self.dir.path().join("project"))
    }

    fn exists(&self, path: &str) -> bool {
        self.dir.path().join(path).exists()
    }
}

async fn names(posse: &Posse, run: &posse::RunId) -> String {
    String::from_utf8(posse.diff(&run.root(), NAMES).await.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_isolated_and_its_changes_can_be_read_and_applied() {
    let home = Home::new();
    let posse = home.open();
    let run = posse.start(home.run()).await.unwrap();
    assert_eq!(posse.wait(run.id()).await.unwrap().status, RunStatus::Completed);
    assert!(!home.exists("project/b.txt"), "the agent wrote in the user's directory");
    assert!(!home.exists("state/posse.db"), "the journal is in the embedder's store alone");
    assert_eq!(names(&posse, run.id()).await.trim(), "A\tb.txt");
    posse.verify(run.id()).await.unwrap();

    posse.apply(run.id(), posse::ApplyWhich::Completed).await.unwrap();
    assert_eq!(std::fs::read_to_string(home.dir.path().join("project/b.txt")).unwrap(), "two\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_replayed_with_the_files_it_began_with() {
    let home = Home::new();
    let posse = home.open();
    let run = posse.start(home.run()).await.unwrap();
    posse.wait(run.id()).await.unwrap();
    drop(posse);
    // The replay reads the stored files, not the current directory.
    std::fs::remove_file(home.dir.path().join("project/a.txt")).unwrap();
    let later = home.open();
    assert!(matches!(later.resume(run.id()).await.unwrap(), Resume::Ended));
    let again = later.start(NewRun::new("").model(format!("replay/{}", run.id()))).await.unwrap();
    assert_eq!(later.wait(again.id()).await.unwrap().status, RunStatus::Completed);
    assert_eq!(names(&later, again.id()).await.trim(), "A\tb.txt");
    let laid_out = later.summary(again.id()).await.unwrap().dir;
    assert!(laid_out.starts_with(home.dir.path().join("state").to_str().unwrap()), "{laid_out}");
}
