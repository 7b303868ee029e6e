//! Repositories with a hostile `.git` that targets a user's files: no agent gets any of them, and no run blocks forever
//! or reads without limit.
//!
//! A case plants something below `.git`. Then the host performs every operation it has for a user's repository, in a
//! thread that must return.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use posse_workspace::RepositoryError;

use crate::support::{RUN, World, entries_of, git_in, plain_git, write};

/// The content of every file that no agent may see.
const CANARY: &str = "canary-5f1c";
/// Far longer than any case takes: a case that exceeds it hangs.
const PATIENCE: Duration = Duration::from_mins(1);
/// The branch of the published result.
const BRANCH: &str = "posse/k3f9ab2c";
/// A sparse file larger than every limit.
const HUGE: u64 = 1 << 40;

/// The world that a case is planted in.
struct Ground {
    world: World,
}

impl Ground {
    /// A repository with a commit, secrets in the home, and a private repository of the user.
    fn new() -> Self {
        // Created once: starting git for each case would take longer than all the checks.
        static MADE: LazyLock<World> = LazyLock::new(made);
        let world = World::new();
        for name in ["folder", "home", "private"] {
            let (from, to) = (MADE.elsewhere(name).join("."), world.elsewhere(name));
            assert!(Command::new("cp").arg("-a").args([from, to]).status().expect("cp runs").success());
        }
        Self { world }
    }

    fn git(&self, path: &str) -> PathBuf {
        self.world.folder().join(".git").join(path)
    }

    fn netrc(&self) -> PathBuf {
        self.world.home().join(".netrc")
    }

    fn private(&self) -> PathBuf {
        self.world.elsewhere("private/.git")
    }

    fn config(&self, text: &str) {
        let config = fs::read_to_string(self.git("config")).expect("a config");
        fs::write(self.git("config"), config + text).expect("written");
    }

    fn gone(&self, path: &str) {
        let path = self.git(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).expect("removed");
        } else {
            drop(fs::remove_file(path));
        }
    }

    fn link(&self, path: &str, to: impl AsRef<Path>) {
        self.gone(path);
        fs::create_dir_all(self.git(path).parent().expect("a parent")).expect("made");
        symlink(to, self.git(path)).expect("linked");
    }

    fn fifo(&self, path: &str) {
        self.gone(path);
        fifo(&self.git(path));
    }

    fn huge(&self, path: &str) {
        self.gone(path);
        fs::create_dir_all(self.git(path).parent().expect("a parent")).expect("made");
        File::create(self.git(path)).and_then(|file| file.set_len(HUGE)).expect("made");
    }

    /// Converts the folder to a repository with its refs in a reftable.
    fn with_tables(&self) {
        // Git does not migrate reflogs yet.
        self.gone("logs");
        self.world.git(&["refs", "migrate", "--ref-format=reftable"]);
    }

    /// Converts the folder to a linked worktree of a repository elsewhere, with its own settings, and returns the
    /// directory of those.
    fn linked_worktree(&self) -> PathBuf {
        let (folder, main) = (self.world.folder(), self.world.elsewhere("main"));
        fs::rename(&folder, &main).expect("moved");
        let add = ["worktree", "add", "-q", "-b", "linked"];
        let args: Vec<&str> = add.into_iter().chain(folder.to_str()).collect();
        git_in(&main, &self.world.home(), &args);
        git_in(&main, &self.world.home(), &["config", "extensions.worktreeConfig", "true"]);
        main.join(".git/worktrees/folder")
    }

    fn write(&self, path: &str, text: &str) {
        self.gone(path);
        write(&self.world.folder().join(".git"), path, text);
    }
}

fn made() -> World {
    let world = World::repository();
    world.write("a", "one\n");
    world.commit_all();
    let secret = format!("machine example.org\n{CANARY}\n*.log\n");
    fs::write(world.home().join(".netrc"), &secret).expect("written");
    let private = world.elsewhere("private");
    write(&private, "secret", &secret);
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", CANARY]] {
        git_in(&private, &world.home(), args);
    }
    world
}

fn fifo(path: &Path) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success());
}

/// The expected result of a run in a repository like this.
enum Expectation {
    /// The run begins and publishes.
    Works,
    /// Refused at the beginning or at publishing, with an error that contains this text.
    Refused(&'static str),
}

use Expectation::{Refused, Works};

type Case = (&'static str, fn(&Ground), Expectation);

const NO_LINK: &str = "symbolic link";
const NO_FILE: &str = "not a plain file";
const TOO_LARGE: &str = "more than the";

const CASES: &[Case] = &[
    ("nothing", |_| {}, Works),
    ("an excludes file of the repository", |at| at.config("[core]\nexcludesFile = ~/.netrc\n"), Works),
    (
        "an excludes file of the repository, absolute",
        |at| at.config(&format!("[core]\nexcludesFile = {}\n", at.netrc().display())),
        Works,
    ),
    ("an excludes file without an end", |at| at.config("[core]\nexcludesFile = /dev/zero\n"), Works),
    (
        "an excludes file that is a pipe",
        |at| {
            fifo(&at.world.folder().join("pipe"));
            at.config("[core]\nexcludesFile = pipe\n");
        },
        Works,
    ),
    (
        "an excludes file by an include",
        |at| {
            at.write("more", "[core]\nexcludesFile = ~/.netrc\n");
            at.config("[include]\npath = more\n");
        },
        Works,
    ),
    (
        "an excludes file by a conditional include",
        |at| {
            at.write("more", "[core]\nexcludesFile = ~/.netrc\n");
            at.config("[includeIf \"gitdir:**\"]\npath = more\n");
        },
        Works,
    ),
    (
        "an excludes file in the configuration of the work tree",
        |at| {
            at.config("[extensions]\nworktreeConfig = true\n");
            at.write("config.worktree", "[core]\nexcludesFile = ~/.netrc\n");
        },
        Works,
    ),
    ("an include that is a secret", |at| at.config("[include]\npath = ~/.netrc\n"), Works),
    (
        "an include that is a pipe by the home of another user",
        |at| {
            let pipe = at.world.elsewhere("pipe");
            fifo(&pipe);
            at.config(&format!("[include]\npath = ~root/..{}\n", pipe.display()));
        },
        Works,
    ),
    (
        "an include that is a pipe in the configuration of a linked worktree",
        |at| {
            let own = at.linked_worktree();
            fifo(&own.join("more"));
            fs::write(own.join("config.worktree"), "[include]\npath = more\n").expect("written");
        },
        Works,
    ),
    ("the place of another worktree is a pipe", |at| at.fifo("worktrees/x/gitdir"), Works),
    (
        "the HEAD of another worktree is a pipe",
        |at| {
            at.write("worktrees/x/gitdir", "/nonexistent/.git\n");
            at.write("worktrees/x/commondir", "../..\n");
            at.fifo("worktrees/x/HEAD");
        },
        Works,
    ),
    (
        "the other worktrees are a link to one with a pipe",
        |at| {
            let linked = at.world.elsewhere("linked");
            fifo(&linked.join("x/gitdir"));
            at.link("worktrees", linked);
        },
        Works,
    ),
    (
        "an include that is a pipe",
        |at| {
            at.fifo("more");
            at.config("[include]\npath = more\n");
        },
        Works,
    ),
    ("an include without an end", |at| at.config("[include]\npath = /dev/zero\n"), Works),
    ("an include of itself", |at| at.config("[include]\npath = config\n"), Works),
    ("exclude is a link", |at| at.link("info/exclude", at.netrc()), Refused(NO_LINK)),
    ("exclude is a pipe", |at| at.fifo("info/exclude"), Refused(NO_FILE)),
    ("exclude is huge", |at| at.huge("info/exclude"), Refused(TOO_LARGE)),
    (
        "exclude is a directory",
        |at| {
            at.gone("info/exclude");
            at.write("info/exclude/x", "x");
        },
        Refused(NO_FILE),
    ),
    (
        "info is a link",
        |at| {
            let linked = at.world.elsewhere("linked");
            write(&linked, "exclude", CANARY);
            at.link("info", linked);
        },
        Refused(NO_LINK),
    ),
    ("config is a pipe", |at| at.fifo("config"), Refused(NO_FILE)),
    ("config is a link without an end", |at| at.link("config", "/dev/zero"), Refused(NO_LINK)),
    ("config is huge", |at| at.huge("config"), Refused(TOO_LARGE)),
    (
        "the configuration of the work tree is a pipe",
        |at| {
            at.config("[extensions]\nworktreeConfig = true\n");
            at.fifo("config.worktree");
        },
        Refused(NO_FILE),
    ),
    ("HEAD is a pipe", |at| at.fifo("HEAD"), Refused(NO_FILE)),
    ("HEAD is a secret", |at| at.link("HEAD", at.netrc()), Refused(NO_LINK)),
    ("HEAD is huge", |at| at.huge("HEAD"), Refused(TOO_LARGE)),
    ("HEAD leads outside", |at| at.write("HEAD", "ref: ../../home/.netrc\n"), Refused("fsck")),
    (
        "HEAD is a ref without an end",
        |at| {
            at.write("HEAD", "ref: refs/heads/x\n");
            at.write("refs/heads/x", "ref: refs/heads/y\n");
            at.write("refs/heads/y", "ref: refs/heads/x\n");
        },
        Refused("fsck"),
    ),
    ("the branch is a pipe", |at| at.fifo("refs/heads/main"), Refused(NO_FILE)),
    (
        "the branch is a link",
        |at| {
            at.link("refs/heads/main", at.private().join("refs/heads/main"));
        },
        Refused(NO_LINK),
    ),
    (
        "the branches are a link",
        |at| at.link("refs/heads", at.private().join("refs/heads")),
        Refused(NO_LINK),
    ),
    ("refs are a link", |at| at.link("refs", at.private().join("refs")), Refused(NO_LINK)),
    (
        "packed refs are a pipe",
        |at| {
            at.gone("refs/heads/main");
            at.fifo("packed-refs");
        },
        Refused(NO_FILE),
    ),
    (
        "packed refs are huge",
        |at| {
            at.gone("refs/heads/main");
            at.huge("packed-refs");
        },
        Refused(TOO_LARGE),
    ),
    ("shallow is a link", |at| at.link("shallow", at.netrc()), Refused(NO_LINK)),
    ("shallow is a pipe", |at| at.fifo("shallow"), Refused(NO_FILE)),
    ("shallow is no list of commits", |at| at.write("shallow", CANARY), Works),
    ("the index is a pipe", |at| at.fifo("index"), Refused(NO_FILE)),
    ("the index is a link without an end", |at| at.link("index", "/dev/zero"), Refused(NO_LINK)),
    ("the index is huge", |at| at.huge("index"), Refused(TOO_LARGE)),
    (
        "the index has a part that is a pipe",
        |at| {
            at.world.git(&["update-index", "--split-index"]);
            let names = fs::read_dir(at.git("")).expect("listed").flatten().map(|entry| entry.file_name());
            let shared =
                names.filter_map(|name| name.into_string().ok()).find(|name| name.starts_with("sharedindex"));
            at.fifo(&shared.expect("a shared index"));
        },
        Refused(NO_FILE),
    ),
    ("objects are a link", |at| at.link("objects", at.private().join("objects")), Refused(NO_LINK)),
    (
        "packs are a link",
        |at| {
            at.world.git(&["repack", "-adq"]);
            git_in(&at.world.elsewhere("private"), &at.world.home(), &["repack", "-adq"]);
            at.link("objects/pack", at.private().join("objects/pack"));
        },
        Refused(NO_LINK),
    ),
    (
        "a pack is a link",
        |at| {
            git_in(&at.world.elsewhere("private"), &at.world.home(), &["repack", "-adq"]);
            for entry in fs::read_dir(at.private().join("objects/pack")).expect("listed").flatten() {
                at.link(&format!("objects/pack/{}", entry.file_name().display()), entry.path());
            }
        },
        Refused(NO_LINK),
    ),
    (
        "objects of one name are a link",
        |at| {
            let fans = fs::read_dir(at.private().join("objects")).expect("listed").flatten();
            let fan = fans.map(|fan| fan.file_name()).find(|name| name.len() == 2).expect("objects");
            at.link(&format!("objects/{}", fan.display()), at.private().join("objects").join(&fan));
        },
        Refused(NO_LINK),
    ),
    ("an object is a pipe", |at| at.fifo(&format!("objects/00/{}", "1".repeat(38))), Refused(NO_FILE)),
    ("alternates are a pipe", |at| at.fifo("objects/info/alternates"), Refused(NO_FILE)),
    ("alternates are a link", |at| at.link("objects/info/alternates", at.netrc()), Refused(NO_LINK)),
    (
        "alternates lead to another repository",
        |at| {
            at.write("objects/info/alternates", &format!("{}/objects\n", at.private().display()));
        },
        Refused("safe.directory"),
    ),
    (
        "alternates lead there by a relative path",
        |at| {
            at.write("objects/info/alternates", "../../../private/.git/objects\n");
        },
        Refused("safe.directory"),
    ),
    (
        "the common directory is another repository",
        |at| {
            at.write("commondir", &format!("{}\n", at.private().display()));
        },
        Refused("safe.directory"),
    ),
    ("the common directory is named by a pipe", |at| at.fifo("commondir"), Refused(NO_FILE)),
    (
        ".git is a link to another repository",
        |at| {
            at.gone("");
            symlink(at.private(), at.world.folder().join(".git")).expect("linked");
        },
        Refused(NO_LINK),
    ),
    (
        ".git names another repository",
        |at| {
            at.gone("");
            at.world.write(".git", format!("gitdir: {}\n", at.private().display()));
        },
        Refused("safe.directory"),
    ),
    (
        ".git names a repository that names another",
        |at| {
            fs::rename(at.git(""), at.world.folder().join("real")).expect("moved");
            at.world.write("real/commondir", format!("{}\n", at.private().display()));
            at.world.write(".git", "gitdir: real\n");
        },
        Refused("safe.directory"),
    ),
    (
        ".git is a pipe",
        |at| {
            at.gone("");
            fifo(&at.world.folder().join(".git"));
        },
        Refused(NO_FILE),
    ),
    (
        ".git is huge",
        |at| {
            at.gone("");
            File::create(at.world.folder().join(".git")).and_then(|file| file.set_len(HUGE)).expect("made");
        },
        Refused(TOO_LARGE),
    ),
    ("attributes of the repository are a pipe", |at| at.fifo("info/attributes"), Works),
    ("grafts are a pipe", |at| at.fifo("info/grafts"), Works),
    ("replaced objects are a pipe", |at| at.fifo("refs/replace/x"), Works),
    ("the log of the branch is a link", |at| at.link("logs/refs/heads/posse", at.world.home()), Works),
    ("where the result goes is a link", |at| at.link("refs/heads/posse", at.world.home()), Refused(NO_LINK)),
    ("where the result goes is a pipe", |at| at.fifo("refs/heads/posse"), Refused(NO_FILE)),
    ("the branch of the result is a pipe", |at| at.fifo(&format!("refs/heads/{BRANCH}")), Refused(NO_FILE)),
    (
        "the branch of the result is a link",
        |at| at.link(&format!("refs/heads/{BRANCH}"), at.world.home().join("new")),
        Refused(NO_LINK),
    ),
    (
        "the branch of the result is being made",
        |at| at.link(&format!("refs/heads/{BRANCH}.lock"), at.world.home().join("new")),
        Refused(".lock"),
    ),
    ("another ref is a pipe", |at| at.fifo("refs/heads/other"), Works),
    ("another ref is huge", |at| at.huge("refs/heads/other"), Works),
    ("another ref is deep", |at| at.write(&format!("refs/heads/{}x", "d/".repeat(1_000)), "x"), Works),
    (
        "another ref names an object that is not there",
        |at| at.write("refs/heads/other", &format!("{}\n", "1".repeat(40))),
        Works,
    ),
    ("a tag is a link to a secret", |at| at.link("refs/tags/x", at.netrc()), Works),
    ("the list of several packs is a pipe", |at| at.fifo("objects/pack/multi-pack-index"), Works),
    ("the graph of commits is a pipe", |at| at.fifo("objects/info/commit-graph"), Works),
    ("the chain of graphs is a pipe", |at| at.fifo("objects/info/commit-graphs/commit-graph-chain"), Works),
    (
        "the list of tables names a pipe outside",
        |at| {
            let pipe = at.world.elsewhere("pipe");
            fifo(&pipe);
            at.with_tables();
            at.write("reftable/tables.list", &format!("../../../../../../../../../..{}\n", pipe.display()));
        },
        Refused("reftable"),
    ),
    (
        "a table is a pipe",
        |at| {
            at.with_tables();
            at.fifo("reftable/0x000000000001-0x000000000001-00000000.ref");
        },
        Refused(NO_FILE),
    ),
    (
        "tables are a link",
        |at| {
            at.with_tables();
            at.link("reftable", at.world.home());
        },
        Refused(NO_LINK),
    ),
    (
        "ignore files are pipes",
        |at| {
            fifo(&at.world.folder().join(".gitignore"));
            fifo(&at.world.folder().join("sub/.gitignore"));
            at.world.write("sub/b", "b");
            at.world.write("sub/node_modules/x", "x");
        },
        Works,
    ),
    (
        // Standard input may end; this pipe never does, wherever the tests run.
        "an ignore file is a link to a pipe",
        |at| {
            let pipe = at.world.elsewhere("pipe");
            fifo(&pipe);
            symlink(&pipe, at.world.folder().join(".gitignore")).expect("linked");
        },
        Works,
    ),
    (
        "an ignore file is a link to the terminal",
        |at| {
            symlink("/dev/stdin", at.world.folder().join(".gitignore")).expect("linked");
        },
        Works,
    ),
    (
        "attributes are a pipe where line endings count",
        |at| {
            at.config("[core]\nautocrlf = input\n");
            fifo(&at.world.folder().join("sub/.gitattributes"));
            at.world.write("sub/b", "b\r\n");
        },
        Refused("line endings"),
    ),
    (
        "attributes are a link to the terminal where line endings count",
        |at| {
            at.config("[core]\nautocrlf = input\n");
            symlink("/dev/stdin", at.world.folder().join(".gitattributes")).expect("linked");
            at.world.write("b", "b\r\n");
        },
        Works,
    ),
    (
        "line endings by a setting that is none",
        |at| {
            at.config("[core]\nautocrlf = x\\ncore.excludesFile=~/.netrc\n");
        },
        Works,
    ),
    (
        "the work tree is the home",
        |at| {
            at.config(&format!("[core]\nworktree = {}\n", at.world.home().display()));
        },
        Works,
    ),
];

/// Every operation of the host on a user's repository.
fn handle(world: &World) -> Result<(), RepositoryError> {
    let begun = world.spaces().begin(RUN, &world.folder())?;
    let space = world.spaces().open(RUN)?;
    let dir = space.make(RUN, 1, &begun.snapshot.commit)?.dir;
    assert!(!seen_by_an_agent(&dir, CANARY), "an agent sees a secret");
    space.caches(&["node_modules".to_owned()]);
    fs::write(dir.join("a"), "two\n").expect("written");
    space.snapshot(RUN, 1)?;
    let delivered = space.publish()?;
    assert_eq!(delivered.branch.as_deref(), Some(BRANCH));
    let applied = space.apply(&world.folder());
    applied.map(drop).map_err(|error| RepositoryError::Unsupported(error.to_string()))
}

/// Git processes that were started for this world and have not ended.
fn left_behind(world: &World) -> Vec<String> {
    let top = world.elsewhere("");
    let top = top.to_str().expect("a path").trim_end_matches('/');
    let all = fs::read_dir("/proc").expect("listed").flatten().map(|process| process.path());
    let named = |path: PathBuf| fs::read(path).map(|text| String::from_utf8_lossy(&text).into_owned());
    let is_git = |path: &PathBuf| {
        let name = named(path.join("comm")).unwrap_or_default();
        name.starts_with("git") && named(path.join("environ")).is_ok_and(|text| text.contains(top))
    };
    all.filter(is_git).map(|path| named(path.join("cmdline")).unwrap_or_default()).collect()
}

/// Whether a file beneath a directory contains a text.
fn seen_by_an_agent(dir: &Path, text: &str) -> bool {
    entries_of(dir).into_iter().any(|path| {
        if path.is_dir() && !path.is_symlink() {
            return seen_by_an_agent(&path, text);
        }
        let content = if path.is_file() { fs::read(&path).expect("read") } else { Vec::new() };
        content.windows(text.len()).any(|part| part == text.as_bytes())
    })
}

/// Runs the host's operations in a thread. Fails if it does not return, or leaks.
fn comes_back(world: World) -> Result<(World, Result<(), RepositoryError>), String> {
    let (done, waiting) = sync_channel(1);
    std::thread::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle(&world)));
        drop(done.send((world, result)));
    });
    let (world, result) = waiting.recv_timeout(PATIENCE).map_err(|_| "it waits for ever".to_owned())?;
    Ok((world, result.map_err(|_| "it panics: a secret is seen, or there is no branch".to_owned())?))
}

/// The problem with a case, if any.
fn problem((name, plant, holds): &Case) -> Option<String> {
    let ground = Ground::new();
    plant(&ground);
    let (world, result) = match comes_back(ground.world) {
        Ok(back) => back,
        Err(wrong) => return Some(format!("{name}: {wrong}")),
    };
    let wrong = match (holds, &result) {
        (Works, Err(error)) => Some(format!("it does not work: {error}")),
        (Refused(_), Ok(())) => Some("it was taken".to_owned()),
        (Refused(words), Err(error)) => {
            let text = error.to_string();
            (!text.contains(words) || text.contains(CANARY)).then_some(text)
        }
        (Works, Ok(())) => None,
    };
    let records = world.state().join("runs").join(RUN);
    let leaks = records.exists() && seen_by_an_agent(&records, CANARY);
    let wrong = wrong.or_else(|| leaks.then(|| "the state has a secret".to_owned()));
    let left = left_behind(&world);
    let wrong = wrong.or_else(|| (!left.is_empty()).then(|| format!("git is left behind: {left:?}")));
    let home = fs::read_dir(world.home()).expect("listed").count();
    let wrong = wrong.or_else(|| (home != 1).then(|| "something was written outside".to_owned()));
    wrong.map(|wrong| format!("{name}: {wrong}"))
}

#[test]
fn no_git_directory_reaches_a_persons_files_or_keeps_a_run_waiting() {
    let halves = CASES.chunks(CASES.len().div_ceil(2));
    let problems: Vec<String> = std::thread::scope(|scope| {
        let look = |cases: &'static [Case]| cases.iter().filter_map(problem).collect::<Vec<_>>();
        let workers: Vec<_> = halves.map(|cases| scope.spawn(move || look(cases))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn a_persons_own_settings_name_files_anywhere() {
    let ground = Ground::new();
    let world = &ground.world;
    world.write(".git/objects/info/alternates", format!("{}/objects\n", ground.private().display()));
    let safe = format!("[safe]\ndirectory = {}\n", ground.private().parent().expect("a parent").display());
    fs::write(world.home().join(".gitconfig"), safe).expect("written");
    world.begin();
}

#[test]
fn patterns_get_to_a_workspace_without_what_surrounds_them() {
    let world = World::repository();
    fs::write(world.home().join(".gitconfig"), "[core]\n\texcludesFile = ~/everywhere\n").expect("written");
    fs::write(world.home().join("everywhere"), format!("# {CANARY}\n\n*.swp\n")).expect("written");
    world.write(".git/info/exclude", format!("# {CANARY}\nprivate\n"));
    let (begun, space) = world.begin();
    let dir = space.make(RUN, 1, &begun.snapshot.commit).expect("made").dir;
    assert_eq!(fs::read_to_string(dir.join(".git/info/exclude")).expect("read"), "*.swp\nprivate\n");
}

#[test]
fn a_repository_of_another_user_is_not_read_without_leave() {
    let ground = Ground::new();
    let world = &ground.world;
    // Only root can change the owner of files.
    let given = std::os::unix::fs::chown(world.folder().join(".git"), Some(12_345), None).is_ok();
    if !given {
        return;
    }
    let error = world.spaces().begin(RUN, &world.folder()).expect_err("refused").to_string();
    assert!(error.contains("another user") && error.contains("safe.directory"), "{error}");
    let inside = world.folder().join("sub");
    fs::create_dir(&inside).expect("made");
    let begun = world.spaces().begin("inside", &inside).expect("a folder of its own");
    assert!(begun.notes.iter().any(|note| note.contains("another user")), "{:?}", begun.notes);
    let safe = format!("[safe]\ndirectory = {}\n", world.folder().canonicalize().expect("a path").display());
    fs::write(world.home().join(".gitconfig"), safe).expect("written");
    world.begin();
}

#[test]
fn nothing_that_another_user_puts_above_a_folder_stops_a_run_in_it() {
    type Plant = fn(&Path);
    const PLANTS: &[(&str, Plant)] = &[
        ("a pipe", fifo),
        ("a link to nothing", |path| symlink("/nonexistent/x", path).expect("linked")),
        ("a link to a pipe", |path| {
            fifo(&path.with_file_name("pipe"));
            symlink("pipe", path).expect("linked");
        }),
        ("a link to itself", |path| symlink(".git", path).expect("linked")),
        ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).expect("bound"))),
        ("a file that names no repository", |path| fs::write(path, "nonsense").expect("written")),
        ("a file that names a pipe", |path| {
            fifo(&path.with_file_name("pipe"));
            fs::write(path, "gitdir: pipe\n").expect("written");
        }),
        ("an empty directory", |path| fs::create_dir(path).expect("made")),
        ("a directory that is half a repository", |path| {
            write(path, "HEAD", "ref: refs/heads/main\n");
            fifo(&path.join("commondir"));
            for dir in ["objects", "refs"] {
                fs::create_dir(path.join(dir)).expect("made");
            }
        }),
    ];
    let problems = PLANTS.iter().filter_map(|(name, plant)| {
        let world = World::new();
        let dot_git = world.elsewhere(".git");
        plant(&dot_git);
        // Only root can change the owner of files.
        if std::os::unix::fs::lchown(&dot_git, Some(12_345), None).is_err() {
            return None;
        }
        world.write("a", "a");
        let begun = world.spaces().begin(RUN, &world.folder());
        begun.err().map(|error| format!("{name}: {error}"))
    });
    assert_eq!(problems.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn worktrees_submodules_and_repositories_kept_elsewhere_are_read_where_both_sides_say_so() {
    let ground = Ground::new();
    let world = &ground.world;
    let tree = world.elsewhere("tree");
    world.git(&["worktree", "add", "-q", &tree.display().to_string()]);
    world.spaces().begin("tree", &tree).expect("a worktree");
    let apart = world.elsewhere("apart");
    fs::create_dir(&apart).expect("made");
    let git_dir = world.elsewhere("apart.git").display().to_string();
    git_in(&apart, &world.home(), &["init", "-q", "--separate-git-dir", &git_dir]);
    let error = world.spaces().begin("apart", &apart).expect_err("nothing there says so").to_string();
    assert!(error.contains("core.worktree"), "{error}");
    git_in(&apart, &world.home(), &["config", "core.worktree", &apart.display().to_string()]);
    world.spaces().begin("apart", &apart).expect("both sides say so");
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q"];
    let from = ground.private().parent().expect("a parent").display().to_string();
    let done = plain_git(&world.folder(), &world.home()).args(add).args([&from, "sub"]).status();
    assert!(done.expect("git runs").success());
    world.spaces().begin("sub", &world.folder().join("sub")).expect("a submodule");
}
