//! Names are swapped for links, and back, while sandboxes are created: nothing outside ever appears in one.
//!
//! A second call in the same workspace can do this to a first one at any moment. Each case states which name is swapped
//! for what; the expectation is the same for all.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use posse_sandbox::{BoxedCommand, Cache, Sandbox, SandboxOptions};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::inits::inits;
use crate::{PATIENCE, command, init, pipe, tagged, until};

/// How often a sandbox is created while names are swapped: mounting by path fails some cases within a few rounds.
const ROUNDS: usize = 6;
/// The same for cases in which the swap must hit a moment within one system call.
const ROUNDS_OF_PROTECTED: usize = 20;
/// The content of the file outside.
const SECRET: &str = "the-secret-outside";
/// Searches for the secret everywhere, and tries to write everywhere.
const PROBE: &str = "find -L . -name 'secret*' -type f -exec cat {} + 2>/dev/null; \
                     find -L . -type d 2>/dev/null | while read -r d; do echo evil > \"$d/written\"; done 2>/dev/null; \
                     cat .mcp.json 2>/dev/null; echo over";

/// What exists before a call, what is swapped meanwhile, and what the call requests.
struct Case {
    name: &'static str,
    /// Directories beneath the top; `ws` is the workspace.
    dirs: &'static [&'static str],
    /// The name that is swapped, beneath the top.
    swapped: &'static str,
    /// The replacement.
    with: Other,
    ask: fn(&Path, BoxedCommand) -> BoxedCommand,
}

enum Other {
    /// A link to this. `{top}` is the top.
    Link(&'static str),
    /// A link to a link that leads outside.
    Chain,
    Pipe,
    /// Another directory.
    Dir,
}

/// The path by which the machine's root was once visible during the creation of a sandbox, and the path outside.
const OLD: &str = "/.old{top}/outside";
const ABSOLUTE: &str = "{top}/outside";

fn protecting(names: &[&str], command: BoxedCommand) -> BoxedCommand {
    BoxedCommand { protected: names.iter().map(ToString::to_string).collect(), ..command }
}

fn cached(top: &Path, at: &str, command: BoxedCommand) -> BoxedCommand {
    let (at, lower) = (PathBuf::from(at), top.join("folder").join(at));
    BoxedCommand { caches: vec![Cache { lower, at, below: None, layer: None }], ..command }
}

fn layered(top: &Path, at: &str, command: BoxedCommand) -> BoxedCommand {
    let laid_out = posse_workspace::lay_out(&top.join("folder"), &[PathBuf::from(at)], &top.join("layers"));
    BoxedCommand { caches: laid_out.unwrap_or_default(), ..command }
}

/// Many names in one directory: as many moments at which it can be swapped.
const MANY: &[&str] = &[
    ".config/a",
    ".config/b",
    ".config/c",
    ".config/d",
    ".config/e",
    ".config/f",
    ".config/g",
    ".config/h",
    ".config/i",
    ".config/j",
    ".config/k",
    ".config/l",
    ".config/m",
    ".config/n",
    ".config/o",
    ".config/p",
];

const CASES: &[Case] = &[
    Case {
        name: "the directory above many protected names",
        dirs: &[
            "ws/.config/a",
            "ws/.config/b",
            "ws/.config/c",
            "ws/.config/d",
            "ws/.config/e",
            "ws/.config/f",
            "ws/.config/g",
            "ws/.config/h",
            "ws/.config/i",
            "ws/.config/j",
            "ws/.config/k",
            "ws/.config/l",
            "ws/.config/m",
            "ws/.config/n",
            "ws/.config/o",
            "ws/.config/p",
        ],
        swapped: "ws/.config",
        with: Other::Link(OLD),
        ask: |_, command| protecting(MANY, command),
    },
    Case {
        name: "the directory above a protected name",
        dirs: &["ws/.config/git"],
        swapped: "ws/.config",
        with: Other::Link(OLD),
        ask: |_, command| protecting(&[".config/git"], command),
    },
    Case {
        name: "a protected directory itself",
        dirs: &["ws/.claude"],
        swapped: "ws/.claude",
        with: Other::Link(OLD),
        ask: |_, command| protecting(&[".claude"], command),
    },
    Case {
        name: "the uppermost of several directories above a protected name",
        dirs: &["ws/git/git/git"],
        swapped: "ws/git",
        with: Other::Link(OLD),
        ask: |_, command| protecting(&["git/git/git"], command),
    },
    Case {
        name: "one in the middle",
        dirs: &["ws/git/git/git/git"],
        swapped: "ws/git/git",
        with: Other::Link(OLD),
        ask: |_, command| protecting(&["git/git/git/git", "git/git/other"], command),
    },
    Case {
        name: "a link by way of another link",
        dirs: &["ws/.config/git"],
        swapped: "ws/.config",
        with: Other::Chain,
        ask: |_, command| protecting(&[".config/git"], command),
    },
    Case {
        name: "a link that goes up",
        dirs: &["ws/.config/git"],
        swapped: "ws/.config",
        with: Other::Link("../../../../../../../.old{top}/outside"),
        ask: |_, command| protecting(&[".config/git"], command),
    },
    Case {
        name: "a link to where it is outside the box",
        dirs: &["ws/.config/git"],
        swapped: "ws/.config",
        with: Other::Link(ABSOLUTE),
        ask: |_, command| protecting(&[".config/git"], command),
    },
    Case {
        name: "a pipe in the place of git's directory",
        dirs: &["ws/.git"],
        swapped: "ws/.git",
        with: Other::Pipe,
        ask: |_, command| protecting(&[".git", ".git/hooks"], command),
    },
    Case {
        name: "a link in the place of git's directory",
        dirs: &["ws/.git/git"],
        swapped: "ws/.git",
        with: Other::Link(OLD),
        ask: |_, command| protecting(&[".git", ".git/git"], command),
    },
    Case {
        name: "a protected file",
        dirs: &["ws/.mcp.json"],
        swapped: "ws/.mcp.json",
        with: Other::Link("/.old{top}/outside/secret"),
        ask: |_, command| protecting(&[".mcp.json"], command),
    },
    Case {
        name: "an agent's own workspace, shown elsewhere",
        dirs: &["ws/.config/git"],
        swapped: "ws/.config",
        with: Other::Link(OLD),
        ask: |_, command| BoxedCommand {
            shown_as: PathBuf::from("/workspace"),
            ..protecting(&[".config/git"], command)
        },
    },
    Case {
        name: "the place of a cache",
        dirs: &["ws/target", "folder/target"],
        swapped: "ws/target",
        with: Other::Link(OLD),
        ask: |top, command| cached(top, "target", command),
    },
    Case {
        name: "the directory above the place of a cache",
        dirs: &["ws/packages/git", "folder/packages/git"],
        swapped: "ws/packages",
        with: Other::Link(OLD),
        ask: |top, command| cached(top, "packages/git", command),
    },
    Case {
        name: "the directory that a cache shows",
        dirs: &["ws", "folder/target"],
        swapped: "folder/target",
        with: Other::Link(ABSOLUTE),
        ask: |top, command| cached(top, "target", command),
    },
    Case {
        name: "the directory above what a cache shows",
        dirs: &["ws", "folder/packages/git"],
        swapped: "folder/packages",
        with: Other::Link(ABSOLUTE),
        ask: |top, command| cached(top, "packages/git", command),
    },
    Case {
        name: "the directory above what an overlay shows",
        dirs: &["ws", "folder/packages/git"],
        swapped: "folder/packages",
        with: Other::Link(ABSOLUTE),
        ask: |top, command| layered(top, "packages/git", command),
    },
    Case {
        name: "the place of an overlay in a workspace that can only be read",
        dirs: &["ws/target", "folder/target"],
        swapped: "ws/target",
        with: Other::Link(OLD),
        ask: |top, command| BoxedCommand { read_only: true, ..layered(top, "target", command) },
    },
    Case {
        name: "a directory that every box shows",
        dirs: &["ws", "skills/git"],
        swapped: "skills",
        with: Other::Link(ABSOLUTE),
        ask: |_, command| command,
    },
    Case {
        name: "the directory above one that every box shows",
        dirs: &["ws", "agents/git"],
        swapped: "agents",
        with: Other::Link(ABSOLUTE),
        ask: |_, command| command,
    },
    Case {
        name: "the directory above what is hidden",
        dirs: &["ws/hidden/git"],
        swapped: "ws/hidden",
        with: Other::Link(OLD),
        ask: |_, command| command,
    },
    Case {
        name: "where the program begins",
        dirs: &["ws/sub"],
        swapped: "ws/sub",
        with: Other::Link(OLD),
        ask: |top, command| BoxedCommand { workdir: top.join("ws/sub"), ..command },
    },
    Case {
        name: "another directory in the place of a protected one's parent",
        dirs: &["ws/.config/git", "ws/other/git"],
        swapped: "ws/.config",
        with: Other::Dir,
        ask: |_, command| protecting(&[".config/git", ".config/posse"], command),
    },
];

/// Creates the initial files of a case and removes those of an earlier round.
fn lay_out(top: &Path, case: &Case) {
    for dir in ["ws", "folder", "skills", "agents", "swap"] {
        let _ = fs::remove_dir_all(top.join(dir));
        let _ = fs::remove_file(top.join(dir));
    }
    fs::create_dir_all(top.join("ws")).expect("made");
    fs::create_dir_all(top.join("swap")).expect("made");
    for dir in case.dirs {
        if *dir == "ws/.mcp.json" {
            fs::write(top.join(dir), "mine").expect("written");
        } else {
            fs::create_dir_all(top.join(dir)).expect("made");
        }
    }
    let other = top.join("swap/other");
    let at = |target: &str| target.replace("{top}", &top.display().to_string());
    match case.with {
        Other::Link(target) => symlink(at(target), &other).expect("made"),
        Other::Chain => {
            symlink(at(OLD), top.join("ws/chain")).expect("made");
            symlink("chain", &other).expect("made");
        }
        Other::Pipe => pipe(&other),
        Other::Dir => fs::create_dir_all(other.join("git")).expect("made"),
    }
}

fn outside(top: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut left = vec![top.join("outside")];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).expect("listed").flatten() {
            found.push(entry.path());
            left.extend(Some(entry.path()).filter(|path| path.is_dir()));
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn no_swap_of_a_name_while_a_box_is_made_brings_anything_outside_into_it() {
    let mut escaped = Vec::new();
    for case in CASES {
        if let Some(problem) = try_case(case).await {
            escaped.push(format!("{}: {problem}", case.name));
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
}

/// The leak in either direction, if any.
async fn try_case(case: &Case) -> Option<String> {
    let top = tempfile::tempdir().expect("a directory");
    let top = top.path().canonicalize().expect("there");
    fs::create_dir_all(top.join("outside/git/git")).expect("made");
    for at in ["outside/secret", "outside/git/secret", "outside/git/git/secret"] {
        fs::write(top.join(at), SECRET).expect("written");
    }
    lay_out(&top, case);
    for name in MANY {
        let name = name.strip_prefix(".config/").expect("a name");
        fs::create_dir_all(top.join("outside").join(name)).expect("made");
    }
    let before = outside(&top);
    let sandbox = Sandbox::new(SandboxOptions {
        init: init(),
        environment: tagged(&top.display().to_string()),
        read: vec![top.join("skills"), top.join("agents/git")],
        hidden: vec![top.join("ws/hidden/git/git")],
        ..SandboxOptions::default()
    });
    let probe = format!("{PROBE}; cd {}/.. && {PROBE}", top.join("ws").display());
    let call =
        || (case.ask)(&top, BoxedCommand { protected: Vec::new(), ..command(&top.join("ws"), &probe) });
    // It works while no other process swaps names.
    let ended = run(&sandbox, call()).await;
    assert!(ended.as_ref().is_ok_and(|said| said.contains("over")), "{}: {ended:?}", case.name);
    let rounds = if case.name.contains("protected") { ROUNDS_OF_PROTECTED } else { ROUNDS };
    for round in 0..rounds {
        lay_out(&top, case);
        let swapping = NameSwapper::begin(top.join(case.swapped), top.join("swap/other"));
        // A sandbox that could not be created leaks nothing.
        let said = run(&sandbox, call()).await.unwrap_or_default();
        drop(swapping);
        if said.contains(SECRET) {
            return Some(format!("round {round}: read what is outside"));
        }
        if outside(&top) != before {
            return Some(format!("round {round}: wrote outside: {:?}", outside(&top)));
        }
    }
    None
}

/// Whether a process blocks until another one opens the other end of a pipe.
fn waits_for_a_pipe(pid: u32) -> bool {
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    ["wait_for_partner", "fifo_open"].contains(&place.as_str())
}

type Move = (&'static str, fn(&Path), bool);

/// What happens to the workspace between its resolution and its mount, and whether the call may succeed.
const MOVES: &[Move] = &[
    ("nothing", |_| (), true),
    (
        "the link leads elsewhere",
        |top| {
            fs::remove_file(top.join("link")).expect("removed");
            symlink("outside", top.join("link")).expect("made");
        },
        true,
    ),
    (
        "the directory becomes a link",
        |top| {
            fs::rename(top.join("ws"), top.join("away")).expect("moved");
            symlink("outside", top.join("ws")).expect("made");
        },
        false,
    ),
    (
        "the directory above it becomes a link",
        |top| {
            fs::rename(top.join("above"), top.join("away")).expect("moved");
            symlink("outside", top.join("above")).expect("made");
        },
        false,
    ),
    ("the directory is gone", |top| fs::rename(top.join("ws"), top.join("away")).expect("moved"), false),
];

/// A workspace may be named by a link: it is resolved once, and its target at that time is mounted, or the call fails.
/// An init writes its record before it inspects the workspace: a record that is a pipe blocks it there for as long as a
/// test needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_is_named_by_a_link_is_resolved_once() {
    for (name, act, has_box) in MOVES {
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("there");
        let is_above = name.contains("above");
        for dir in ["ws", "above/ws", "outside/ws"] {
            fs::create_dir_all(top.join(dir)).expect("made");
            fs::write(top.join(dir).join("name"), dir).expect("written");
        }
        fs::write(top.join("outside/secret"), SECRET).expect("written");
        fs::write(top.join("outside/ws/secret"), SECRET).expect("written");
        symlink(if is_above { "above/ws" } else { "ws" }, top.join("link")).expect("made");
        pipe(&top.join("record"));
        let sandbox = Sandbox::new(SandboxOptions { init: init(), ..SandboxOptions::default() });
        let asked = BoxedCommand {
            record: Some(top.join("record")),
            ..command(&top.join("link"), "cat name; cat secret; echo over > left")
        };
        let running = tokio::spawn(async move { run(&sandbox, asked).await });
        until("the init has come to its record", PATIENCE, || inits().into_iter().any(waits_for_a_pipe));
        act(&top);
        drop(fs::File::open(top.join("record")).expect("opened"));
        let said = running.await.expect("joined");
        let expected = if is_above { "above/ws" } else { "ws" };
        match &said {
            Ok(said) => assert!(*has_box && said.starts_with(expected), "{name}: {said}"),
            Err(error) => assert!(!has_box, "{name}: {error}"),
        }
        assert!(!said.unwrap_or_default().contains(SECRET), "{name}");
        assert!(!top.join("outside/left").exists() && !top.join("outside/ws/left").exists(), "{name}");
    }
}

/// Swaps two names until it is dropped.
struct NameSwapper {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NameSwapper {
    fn begin(one: PathBuf, other: PathBuf) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                // Names that a call has moved can no longer be swapped.
                let _ = renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE);
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for NameSwapper {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

async fn run(sandbox: &Sandbox, command: BoxedCommand) -> Result<String, String> {
    let turn = sandbox.turn().await;
    let mut running = sandbox.start(turn, command).map_err(|error| error.to_string())?;
    let ended = running.ended().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&ended.output.head).into_owned())
}
