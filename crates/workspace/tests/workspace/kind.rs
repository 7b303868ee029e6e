//! The kind of workspaces that a run of these tests is about, and what overlays need: a holder, and a sandbox for the
//! programs that work in them.

use std::path::PathBuf;

use posse_sandbox::{BoxedCommand, Exit, InitBinary, Mounts, OBJECTS_SHOWN_AT, Sandbox, SandboxOptions};
use posse_workspace::{LocalFiles, RunSpace};

/// The variable of the setting `workspace.kind`. These tests obey it as the command does.
pub(crate) const VARIABLE: &str = "POSSE_WORKSPACE__KIND";
const COPIES: &str = "copies";

/// Whether workspaces are overlays.
pub(crate) fn are_overlays() -> bool {
    given().is_none_or(|kind| kind != COPIES)
}

/// The value of the variable, for a process without the environment of this one.
#[expect(clippy::disallowed_methods, reason = "the only way to tell a test binary something")]
pub(crate) fn given() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Workspaces of this kind.
pub(crate) fn of_kind(files: LocalFiles) -> LocalFiles {
    if are_overlays() { files.with_mounts(Mounts::new(init())) } else { files }
}

/// The program that holds mounts and runs programs, which cargo builds beside the tests.
pub(crate) fn init() -> InitBinary {
    InitBinary::At(init_path())
}

pub(crate) fn init_path() -> PathBuf {
    let exe = std::env::current_exe().expect("a path");
    let places = exe.ancestors().skip(1).take(2).map(|dir| dir.join("posse-init"));
    places.into_iter().find(|path| path.exists()).expect("posse-init: build the whole workspace")
}

/// The end and the output of a program in the sandbox of an agent, with its workspace of either kind.
pub(crate) fn sandboxed(space: &RunSpace, (agent, attempt): (&str, u32), argv: &[&str]) -> (Exit, String) {
    let mount = space.mount(agent, attempt).expect("a workspace");
    let objects = space.objects_of(agent, attempt).expect("objects");
    let argv = argv.iter().map(ToString::to_string).collect();
    let command = BoxedCommand {
        mount,
        shown: vec![(objects, PathBuf::from(OBJECTS_SHOWN_AT))],
        ..BoxedCommand::isolated(argv, space.dir_of(agent, attempt))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let ended = runtime.block_on(async {
        let sandbox = Sandbox::new(SandboxOptions { init: init(), ..SandboxOptions::default() });
        let turn = sandbox.turn().await;
        sandbox.start(turn, command).expect("started").ended().await.expect("ended")
    });
    (ended.exit, String::from_utf8_lossy(&ended.output.head).into_owned())
}
