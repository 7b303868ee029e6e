//! The work that is repeated: everything that a run does with workspaces. Each step that returned is acknowledged in a
//! file; an acknowledged step is not repeated, every other step is, with the same arguments.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use posse_domain::event::FilesCommit;
use posse_domain::id::RunId;
use posse_engine::ports::{GcOptions, Merge, RunFiles, RunPhase};
use posse_sandbox::{InitBinary, Mounts};
use posse_workspace::{Faults, LocalFiles, ObjectId, RunSpace, TreeMerge, WorkspaceOptions};

/// Runs of one piece of work.
pub(crate) const RUNS: u32 = 2;
/// Children of each run.
pub(crate) const CHILDREN: u32 = 2;
/// The calls of each agent before its first snapshot.
pub(crate) const CALLS: [&str; 2] = ["one", "two"];
/// Long enough that nothing salvaged goes while it is searched for.
const KEEP: Duration = Duration::from_hours(24);

/// Where the work is done, and which steps are acknowledged.
pub(crate) struct Work {
    root: PathBuf,
    acks: PathBuf,
    told: BTreeMap<String, String>,
    options: WorkspaceOptions,
    /// The workspaces.
    shared: LocalFiles,
}

/// Anything that goes wrong, in words.
pub(crate) type Done<T> = Result<T, String>;

fn text(error: impl Into<Box<dyn std::error::Error>>) -> String {
    error.into().to_string()
}

/// Whether workspaces are overlays: the variable of the setting `workspace.kind` says it, as to the tests.
#[expect(clippy::disallowed_methods, reason = "this program is a test, and obeys what tests obey")]
pub(crate) fn are_overlays() -> bool {
    std::env::var_os("POSSE_WORKSPACE__KIND").is_none_or(|kind| kind != "copies")
}

/// The user's folder beneath `root`.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("folder")
}

/// The state directory of the machine that takes over a run's files.
pub(crate) fn other_state(root: &Path) -> PathBuf {
    root.join("other-state")
}

/// The id of a run.
pub(crate) fn run_id(number: u32) -> String {
    format!("k000000{number}")
}

/// What the agent of this name writes.
pub(crate) fn content(name: &str) -> String {
    format!("work of {name}\n").repeat(200)
}

/// The acknowledged steps with their results.
pub(crate) fn told(acks: &Path) -> Done<BTreeMap<String, String>> {
    let lines = if acks.exists() { fs::read_to_string(acks).map_err(text)? } else { String::new() };
    // A line without its end was not acknowledged.
    let whole = lines.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    Ok(whole
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect())
}

impl Work {
    /// Work beneath `root` in a boot of this name.
    pub(crate) fn new(root: &Path, acks: &Path, boot: &str, faults: Option<Faults>) -> Done<Self> {
        let options = WorkspaceOptions { boot: Some(boot.to_owned()), faults, ..WorkspaceOptions::default() };
        let shared = LocalFiles::new(&root.join("state"), options.clone());
        let shared =
            if are_overlays() { shared.with_mounts(Mounts::new(InitBinary::ThisProgram)) } else { shared };
        Ok(Self { root: root.to_owned(), acks: acks.to_owned(), told: told(acks)?, options, shared })
    }

    /// The workspaces.
    pub(crate) fn spaces(&self) -> LocalFiles {
        self.shared.clone()
    }

    fn once(&mut self, key: &str, act: impl FnOnce() -> Done<String>) -> Done<String> {
        if let Some(value) = self.told.get(key) {
            return Ok(value.clone());
        }
        let value = act().map_err(|error| format!("{key}: {error}"))?;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.acks).map_err(text)?;
        file.write_all(format!("{key}={value}\n").as_bytes()).map_err(text)?;
        self.told.insert(key.to_owned(), value.clone());
        Ok(value)
    }

    fn once_commit(&mut self, key: &str, act: impl FnOnce() -> Done<ObjectId>) -> Done<ObjectId> {
        self.once(key, || act().map(|oid| oid.to_string()))?
            .parse()
            .map_err(|_| format!("{key} told no object"))
    }

    /// All of it.
    pub(crate) fn carry_out(&mut self) -> Done<()> {
        for number in 1..=RUNS {
            let run = run_id(number);
            if !self.told.contains_key(&format!("apply {run}")) {
                self.run(&run)?;
            }
            if number > 1 {
                self.clean(&run, &run_id(number - 1))?;
            }
        }
        Ok(())
    }

    fn run(&mut self, run: &str) -> Done<()> {
        let spaces = self.spaces();
        let folder = folder(&self.root);
        let base = self.once_commit(&format!("begin {run}"), || {
            Ok(spaces.begin(run, &folder).map_err(text)?.snapshot.commit)
        })?;
        let space = spaces.open(run).map_err(text)?;
        let dir = self.make(&space, run, &base)?;
        space.shared(&base).map_err(text)?;
        self.calls(&space, &dir, run)?;
        let from = self.snapshot(&space, &dir, run, "first")?;
        let mut tip = from;
        for number in 1..=CHILDREN {
            tip = self.child(&space, &format!("{run}.{number}"), from, tip)?;
        }
        self.snapshot(&space, &dir, run, "last")?;
        let salvaged = self.once_commit(&format!("salvage {run}"), || {
            Ok(space.salvage(run, 1).map_err(text)?.snapshot.commit)
        })?;
        let other = LocalFiles::new(&other_state(&self.root), self.options.clone());
        self.once(&format!("import {run}"), || {
            transfer(&spaces, &other, run, vec![base, salvaged]).map(|()| salvaged.to_string())
        })?;
        self.once_commit(&format!("deliver {run}"), || Ok(space.publish().map_err(text)?.commit))?;
        self.once(&format!("apply {run}"), || space.apply(&folder).map(|_| String::new()).map_err(text))?;
        Ok(())
    }

    /// Makes a workspace, after the commits of acknowledged calls were restored. Every byte of these calls is in it.
    fn make(&self, space: &RunSpace, agent: &str, origin: &ObjectId) -> Done<PathBuf> {
        let calls = CALLS.iter().filter_map(|call| self.told.get(&format!("call {call} {agent}")));
        let journalled = calls.map(|line| journalled(line)).collect::<Done<Vec<_>>>()?;
        let commits: Vec<FilesCommit> = journalled.iter().map(|(commit, _)| commit.clone()).collect();
        let lost = space.lost_calls(agent, 1, &commits).map_err(text)?;
        let restored: Vec<_> = journalled
            .into_iter()
            .filter(|(commit, _)| lost.iter().any(|lost| lost.commit == commit.commit))
            .collect();
        space.restore_calls(agent, 1, &restored).map_err(text)?;
        let dir = space.make(agent, 1, origin).map_err(text)?.dir;
        for name in CALLS.iter().take(commits.len()).map(|call| format!("{call}-{agent}")) {
            let found = fs::read_to_string(dir.join(&name)).map_err(|error| format!("{name}: {error}"))?;
            if found != content(&name) {
                return Err(format!("{name}, of a finished call, has {} other bytes", found.len()));
            }
        }
        Ok(dir)
    }

    /// Calls that each write a file. The file of acknowledgements is the journal that has their packs.
    fn calls(&mut self, space: &RunSpace, dir: &Path, agent: &str) -> Done<()> {
        for call in CALLS {
            self.once(&format!("call {call} {agent}"), || {
                let name = format!("{call}-{agent}");
                fs::write(dir.join(&name), content(&name)).map_err(text)?;
                let commit = space.commit_call(agent, 1).map_err(text)?;
                Ok(line_of(&commit.ok_or_else(|| format!("{name} is not seen"))?))
            })?;
        }
        Ok(())
    }

    fn snapshot(&mut self, space: &RunSpace, dir: &Path, agent: &str, when: &str) -> Done<ObjectId> {
        self.once_commit(&format!("{when} {agent}"), || {
            let name = format!("{when}-{agent}");
            fs::write(dir.join(&name), content(&name)).map_err(text)?;
            Ok(space.snapshot(agent, 1).map_err(text)?.commit)
        })
    }

    /// One child, from its beginning to its end; gives where its parent stands then.
    fn child(&mut self, space: &RunSpace, name: &str, from: ObjectId, ours: ObjectId) -> Done<ObjectId> {
        let removing = format!("removing {name}");
        if !self.told.contains_key(&removing) {
            let dir = self.make(space, name, &from)?;
            self.calls(space, &dir, name)?;
            self.snapshot(space, &dir, name, "child")?;
            self.once_commit(&format!("salvage {name}"), || {
                Ok(space.salvage(name, 1).map_err(text)?.snapshot.commit)
            })?;
        }
        let theirs =
            self.once_commit(&format!("salvage {name}"), || Err("it is being removed".to_owned()))?;
        let merged = self.once_commit(&format!("merge {name}"), || merge(space, name, ours, from, theirs))?;
        let parent = space.run().to_owned();
        self.once(&format!("update {name}"), || {
            let updated = space.update(&parent, 1, &ours, &merged).map_err(text)?;
            if updated.conflicts_left.is_empty() {
                Ok(merged.to_string())
            } else {
                Err(format!("kept {:?}", updated.conflicts_left))
            }
        })?;
        self.once(&removing, || Ok(String::new()))?;
        self.once(&format!("removed {name}"), || {
            space.remove(name, 1).map(|()| String::new()).map_err(text)
        })?;
        Ok(merged)
    }

    fn clean(&mut self, open: &str, old: &str) -> Done<()> {
        let spaces = self.spaces();
        self.once(&format!("gc {open}"), || {
            let phase = |run: &str| if run == open { RunPhase::Open } else { RunPhase::Ended };
            let runs = (0..=RUNS).map(run_id);
            let options = GcOptions {
                dry_run: false,
                workspaces_older_than: Duration::ZERO,
                salvage_older_than: KEEP,
                runs: runs.map(|run| (run.clone(), phase(&run))).collect(),
                now: SystemTime::now(),
            };
            spaces.gc(&options).map(|_| String::new()).map_err(text)
        })?;
        self.once(&format!("forgetting {old}"), || Ok(String::new()))?;
        self.once(&format!("forgotten {old}"), || match spaces.open(old) {
            Ok(_) => spaces.remove_run(old).map(|_| String::new()).map_err(text),
            // Its state goes last.
            Err(_) => Ok(String::new()),
        })?;
        Ok(())
    }
}

/// The commit of a call and its pack as a line of the journal.
fn line_of(files: &FilesCommit) -> String {
    let bytes =
        files.pack.as_ref().and_then(|pack| pack.bytes()).map(|bytes| bytes.to_vec()).unwrap_or_default();
    let onto = files.onto.unwrap_or(ObjectId::ZERO);
    let pack: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let pack = pack.concat();
    format!("{} {} {onto} {pack}", files.commit, files.follows)
}

fn journalled(line: &str) -> Done<(FilesCommit, Vec<u8>)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [commit, follows, onto, pack] = words[..] else { return Err(format!("no commit of a call: {line}")) };
    let id = |word: &str| word.parse::<ObjectId>().map_err(text);
    let hex = |at: usize| u8::from_str_radix(&pack[at..at + 2], 16).map_err(text);
    let bytes = (0..pack.len()).step_by(2).map(hex).collect::<Done<Vec<u8>>>()?;
    let onto = Some(id(onto)?).filter(|onto| *onto != ObjectId::ZERO);
    let pack = Some(bytes.clone().into());
    Ok((FilesCommit { commit: id(commit)?, follows: id(follows)?, onto, pack }, bytes))
}

/// Copies objects of a run, and the refs that name them, from one machine to another.
#[tokio::main(flavor = "current_thread")]
async fn transfer(from: &LocalFiles, to: &LocalFiles, run: &str, objects: Vec<ObjectId>) -> Done<()> {
    let run: RunId = run.parse().map_err(text)?;
    let transfer = from.export_objects(&run, objects, Vec::new()).await.map_err(text)?;
    to.import_objects(&run, transfer).await.map_err(text)
}

fn merge(space: &RunSpace, name: &str, ours: ObjectId, base: ObjectId, theirs: ObjectId) -> Done<ObjectId> {
    let request = TreeMerge {
        ours,
        base,
        theirs,
        owns: Vec::new(),
        protected: Vec::new(),
        opened: Vec::new(),
        message: format!("merged {name}"),
    };
    match space.merge(&request).map_err(text)? {
        Some(Merge::Merged { commit, .. }) => Ok(commit),
        other => Err(format!("{other:?}")),
    }
}
