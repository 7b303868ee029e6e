//! The host's own commands.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use posse_engine::ports::{StopSignal, Urgency};
use posse_sandbox::SandboxError;
use posse_workspace::{CommandEnd, CommandResult, HostCommands, run_commands};

use crate::isolated::State;

fn request(state: &State, commands: &[&str]) -> HostCommands {
    crate::checks_in(state.files(), commands)
}

async fn ends(state: &State, request: HostCommands) -> Vec<CommandResult> {
    run_commands(request, &state.sandbox, &StopSignal::never()).await.expect("results")
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_in_order_until_one_fails() {
    let state = State::new();
    let commands = ["echo one > file; pwd", "cat file; echo why >&2; exit 3", "touch never"];
    let results = ends(&state, request(&state, &commands)).await;
    let told: Vec<_> =
        results.iter().map(|result| (result.ended, result.ok(), result.output.as_str())).collect();
    assert_eq!(
        told,
        [
            (CommandEnd::Code(0), true, "/workspace\n"),
            (CommandEnd::Code(3), false, "one\nwhy\n"),
            (CommandEnd::NotRun, false, ""),
        ]
    );
    assert!(results.iter().map(|result| result.command.as_str()).eq(commands));
    assert!(!state.files().join("never").exists());
    assert!(ends(&state, request(&state, &[])).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_keeps_its_beginning_and_its_end() {
    let state = State::new();
    let results = ends(&state, request(&state, &["seq 1 100000; printf 'the end'"])).await;
    let output = &results[0].output;
    assert!(output.starts_with("1\n2\n3\n") && output.ends_with("\n100000\nthe end"), "{output}");
    assert!(output.contains(" bytes omitted]\n") && output.len() < 17 * 1024, "{}", output.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_takes_too_long_or_is_stopped_is_ended() {
    let state = State::new();
    let mut slow = request(&state, &["trap '' TERM; while :; do :; done", "true"]);
    slow.commands[0].timeout = Duration::from_millis(1);
    let results = ends(&state, slow).await;
    assert_eq!(
        [results[0].ended, results[1].ended],
        [CommandEnd::TimedOut(Duration::from_millis(1)), CommandEnd::NotRun]
    );
    // Stopped before it began.
    let (sender, stopped) = StopSignal::new();
    sender.send(Urgency::Gently).expect("sent");
    let results = run_commands(request(&state, &["touch never", "true"]), &state.sandbox, &stopped).await;
    let ends = results.expect("results").into_iter().map(|result| result.ended).collect::<Vec<_>>();
    assert_eq!(ends, [CommandEnd::Stopped, CommandEnd::NotRun]);
    assert!(!state.files().join("never").exists());
    // Stopped while it runs.
    crate::pipe(&state.files().join("up"));
    let up = state.files().join("up");
    let (sender, stop) = StopSignal::new();
    let stopping = tokio::task::spawn_blocking(move || {
        fs::read(up).expect("up");
        sender.send(Urgency::Gently).expect("sent");
        sender
    });
    let results =
        run_commands(request(&state, &["echo > up; while :; do :; done"]), &state.sandbox, &stop).await;
    drop(stopping.await.expect("joined"));
    assert_eq!(results.expect("results")[0].ended, CommandEnd::Stopped);
    assert_eq!(crate::alive(&state.dir.path().display().to_string()), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_cannot_be_made_is_no_failed_check() {
    let state = State::new();
    let elsewhere = HostCommands { dir: PathBuf::from("/etc"), ..request(&state, &["true"]) };
    let error = run_commands(elsewhere, &state.sandbox, &StopSignal::never()).await.expect_err("refused");
    assert!(matches!(error, SandboxError::Workspace(_)), "{error}");
}
