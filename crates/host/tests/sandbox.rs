//! The box, with real programs in it.

use std::path::{Path, PathBuf};

use posse_host::process::OutputLimits;
use posse_host::sandbox::{BoxedCommand, Ended, Exit, InitBinary, Sandbox, SandboxError, SandboxOptions};

fn sandbox() -> Sandbox {
    Sandbox::new(SandboxOptions {
        init: InitBinary::At(PathBuf::from(env!("CARGO_BIN_EXE_posse-init"))),
        ..SandboxOptions::default()
    })
}

fn command(workspace: &Path, script: &str) -> BoxedCommand {
    BoxedCommand {
        argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
        workspace: workspace.to_owned(),
        workdir: workspace.to_owned(),
        protected: Vec::new(),
        network: false,
        shown: Vec::new(),
        record: None,
        output: OutputLimits { head_bytes: 4096, tail_bytes: 4096, spill: None, spill_bytes: 0 },
    }
}

async fn run(sandbox: &Sandbox, command: BoxedCommand) -> Result<Ended, SandboxError> {
    let turn = sandbox.turn().await;
    sandbox.start(turn, command)?.ended().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_in_the_box() {
    let workspace = tempfile::tempdir().expect("a directory");
    let sandbox = sandbox();
    println!("{}", sandbox.level().await.expect("a level"));
    for _ in 0..5 {
        let ended = run(&sandbox, command(workspace.path(), "echo hi; id; ls -la / ~ /dev; mount | head -50; cat /proc/self/status | grep -i -E 'cap|seccomp|nonew'; env; touch x; exit 7")).await.expect("ended");
        println!("{}", String::from_utf8_lossy(&ended.output.head));
        println!("{:?} {:?}", ended.elapsed, ended.exit);
        assert_eq!(ended.exit, Exit::Code(7));
    }
    assert!(workspace.path().join("x").exists());
    for _ in 0..5 {
        let ended = run(&sandbox, command(workspace.path(), "true")).await.expect("ended");
        println!("{:?} {:?}", ended.elapsed, ended.exit);
    }
}
