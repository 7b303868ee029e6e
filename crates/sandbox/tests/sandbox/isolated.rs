//! An agent's isolated workspace: beneath a hidden state directory, and always mounted at the same path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use posse_engine::ports::WORKSPACE_SHOWN_AT;
use posse_sandbox::process::OutputLimits;
use posse_sandbox::{BoxedCommand, CallEnd, Exit, OBJECTS_SHOWN_AT, Sandbox, SandboxOptions};
use tempfile::TempDir;

use crate::{init, tagged};

/// A state directory with a workspace in it, and a sandbox that hides the state.
pub(crate) struct State {
    pub(crate) dir: TempDir,
    pub(crate) sandbox: Sandbox,
}

impl State {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("runs/r/workspaces/r.1/1/files")).expect("made");
        fs::write(dir.path().join("journal"), "SECRET").expect("written");
        let options = SandboxOptions {
            environment: tagged(&dir.path().display().to_string()),
            init: init(),
            hidden: vec![dir.path().to_owned()],
            // Even if the state is beneath a visible path.
            read: vec![dir.path().to_owned()],
            ..SandboxOptions::default()
        };
        Self { sandbox: Sandbox::new(options), dir }
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.dir.path().join("runs/r/workspaces/r.1/1/files")
    }

    pub(crate) fn command(&self, script: &str) -> BoxedCommand {
        let argv = ["bash", "-c", script].map(str::to_owned).to_vec();
        BoxedCommand {
            protected: [".git", ".mcp.json", ".github/workflows"].map(str::to_owned).to_vec(),
            output: OutputLimits { head_bytes: 64 << 10, tail_bytes: 64 << 10, spill: None, spill_bytes: 0 },
            ..BoxedCommand::isolated(argv, self.files())
        }
    }

    pub(crate) async fn run(&self, command: BoxedCommand) -> CallEnd {
        let turn = self.sandbox.acquire(&command.caches).await;
        self.sandbox.start(turn, command).expect("started").ended().await.expect("a result")
    }

    pub(crate) async fn say(&self, command: BoxedCommand) -> String {
        said(&self.run(command).await)
    }
}

pub(crate) fn said(ended: &CallEnd) -> String {
    String::from_utf8_lossy(&ended.output.head).trim_end().to_owned()
}

/// Git without any user's settings.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_see_their_workspace_at_one_path_wherever_it_is() {
    let mut answers = Vec::new();
    for _ in 0..2 {
        let state = State::new();
        fs::create_dir(state.files().join("sub")).expect("made");
        let inside = BoxedCommand {
            workdir: state.files().join("sub"),
            ..state.command("pwd; echo made > ../file; realpath ../file; (cd /nowhere) 2>&1; echo $PWD")
        };
        answers.push(state.say(inside).await);
        assert_eq!(fs::read_to_string(state.files().join("file")).expect("the file"), "made\n");
        let by_shown =
            BoxedCommand { workdir: Path::new(WORKSPACE_SHOWN_AT).join("sub"), ..state.command("pwd") };
        assert_eq!(state.say(by_shown).await, "/workspace/sub");
    }
    assert!(answers[0].starts_with("/workspace/sub\n/workspace/file\n"), "{}", answers[0]);
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_else_of_the_state_is_visible() {
    let state = State::new();
    fs::create_dir_all(state.dir.path().join("runs/r/workspaces/r.2/1/files")).expect("made");
    let top = state.dir.path().display();
    let look = format!(
        "ls -A {top} 2>/dev/null; cat {top}/journal 2>/dev/null; ls -d /workspace/../runs 2>/dev/null; \
         (echo x > {top}/journal) 2>/dev/null || echo closed; ls -A /workspace; cat /proc/self/mountinfo | \
         grep -c ' /workspace '"
    );
    assert_eq!(state.say(state.command(&look)).await, "closed\n1");
    assert_eq!(fs::read_to_string(state.dir.path().join("journal")).expect("there"), "SECRET");
}

/// A project may itself be at the path where workspaces are mounted, with its state in it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_hidden_at_the_shown_path_does_not_hide_the_workspace() {
    let state = State::new();
    let hidden = [WORKSPACE_SHOWN_AT, "/workspace/.posse", "/workspace/sub"].map(PathBuf::from).to_vec();
    let options = SandboxOptions { init: init(), hidden, ..SandboxOptions::default() };
    let state = State { sandbox: Sandbox::new(options), ..state };
    assert_eq!(state.say(state.command("mkdir sub; echo x > sub/file; cat sub/file")).await, "x");
    assert_eq!(state.say(state.command("cat sub/file")).await, "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_beneath_what_is_hidden_is_refused() {
    let state = State::new();
    let turn = state.sandbox.turn().await;
    let command = crate::command(&state.files(), "true");
    let error = state.sandbox.start(turn, command).expect("started").ended().await.expect_err("refused");
    assert!(error.to_string().contains("lies in what is hidden"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn git_works_and_borrows_objects_that_it_cannot_change() {
    let state = State::new();
    let (files, bare) = (state.files(), state.dir.path().join("projects/p/repo.git"));
    fs::create_dir_all(&bare).expect("made");
    git(&bare, &["init", "--quiet", "--bare"]);
    git(&files, &["init", "--quiet", "--initial-branch=work"]);
    fs::write(files.join("file"), "one\n").expect("written");
    // A commit whose objects are in the bare repository only.
    let objects = bare.join("objects");
    let script = format!(
        "export GIT_OBJECT_DIRECTORY={}; git add file && git -c user.name=a -c user.email=b commit --quiet -m one && \
         find .git/objects -type f | wc -l",
        objects.display()
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(&files).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0", "{output:?}");
    fs::write(files.join(".git/objects/info/alternates"), format!("{OBJECTS_SHOWN_AT}\n")).expect("written");
    let before = git(&bare, &["count-objects", "-v"]);
    let command = BoxedCommand {
        shown: vec![(objects, PathBuf::from(OBJECTS_SHOWN_AT))],
        ..state.command(
            "git log --format=%s; echo two > file; git -c user.name=a -c user.email=b commit --quiet -a -m two; \
             git log --format=%s; git status --porcelain; (rm -rf /run/posse/objects/?? || touch \
             /run/posse/objects/x) 2>/dev/null || echo closed",
        )
    };
    assert_eq!(state.say(command).await, "one\ntwo\none\nclosed");
    assert_eq!(git(&bare, &["count-objects", "-v"]), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_is_protected_and_what_appears_is_left_for_integration() {
    let state = State::new();
    fs::write(state.files().join(".mcp.json"), "mine").expect("written");
    let ended = state
        .run(state.command(
            "(echo evil > .mcp.json) 2>/dev/null || echo closed; mv .mcp.json x 2>/dev/null || echo closed; mkdir -p \
             .github/workflows .git/hooks; echo new > .github/workflows/ci.yml; echo hook > .git/hooks/pre-commit",
        ))
        .await;
    assert_eq!((said(&ended).as_str(), ended.exit), ("closed\nclosed", Exit::Code(0)));
    assert_eq!(fs::read_to_string(state.files().join(".mcp.json")).expect("kept"), "mine");
    for made in [".github/workflows/ci.yml", ".git/hooks/pre-commit"] {
        assert!(state.files().join(made).is_file(), "{made}");
    }
}
