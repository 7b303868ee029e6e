//! A program's input, its separate output streams, and a read-only workspace.

use std::fs;
use std::path::PathBuf;

use posse_engine::ports::WORKSPACE_SHOWN_AT;
use posse_sandbox::process::{CapturedOutput, OutputLimits};
use posse_sandbox::{BoxedCommand, CallEnd, Exit};

use super::Bench;

const KEPT: OutputLimits = OutputLimits { head_bytes: 1024, tail_bytes: 0, spill: None, spill_bytes: 0 };

fn text(captured: &CapturedOutput) -> String {
    String::from_utf8_lossy(&captured.head).into_owned()
}

async fn run(bench: &Bench, command: BoxedCommand) -> CallEnd {
    let turn = bench.sandbox.turn().await;
    bench.sandbox.start(turn, command).expect("it starts").ended().await.expect("a result")
}

#[tokio::test]
async fn input_is_read_to_its_end_however_long_it_is() {
    let bench = Bench::new();
    for size in [0, 5, 3 << 20] {
        let input = Some(vec![b'x'; size]);
        let ended =
            run(&bench, BoxedCommand { input, ..bench.command("cat | wc -c; cat; cat /dev/stdin | wc -c") })
                .await;
        let said = text(&ended.output);
        let counts: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(counts, [size.to_string(), size.to_string()], "read once, and again by its name");
    }
    assert_eq!(bench.say("cat; echo nothing").await, "nothing");
}

#[tokio::test]
async fn input_cannot_be_changed_by_the_program_that_reads_it() {
    let bench = Bench::new();
    let script = "for how in '>&0' '1<>/dev/stdin' '>/dev/stdin' '>>/dev/stdin'; do \
                  (eval \"printf XYZ $how\") 2>/dev/null && echo \"changed by $how\"; done; cat";
    let ended =
        run(&bench, BoxedCommand { input: Some(b"as it was".to_vec()), ..bench.command(script) }).await;
    assert_eq!((text(&ended.output).as_str(), ended.exit), ("as it was", Exit::Code(0)));
}

#[tokio::test]
async fn input_that_nobody_reads_holds_nothing_up() {
    let bench = Bench::new();
    let input = Some(vec![b'x'; 8 << 20]);
    let ended = run(&bench, BoxedCommand { input, ..bench.command("exit 7") }).await;
    assert_eq!(ended.exit, Exit::Code(7));
}

#[tokio::test]
async fn errors_are_kept_apart_and_each_within_its_limit() {
    let bench = Bench::new();
    let script = "echo out; echo err >&2; head -c 9000000 /dev/zero >&2; head -c 9000000 /dev/zero; exit 2";
    let command = BoxedCommand { errors: Some(KEPT), output: KEPT, ..bench.command(script) };
    let ended = run(&bench, command).await;
    let errors = ended.errors.expect("errors");
    assert!(text(&ended.output).starts_with("out\n") && text(&errors).starts_with("err\n"));
    assert_eq!((ended.output.total, errors.total), (9_000_004, 9_000_004));
    assert_eq!((ended.output.head.len(), errors.head.len()), (1024, 1024));
    assert_eq!(ended.exit, Exit::Code(2));
    // A program that closes one stream early is still read on the other.
    let command = BoxedCommand { errors: Some(KEPT), ..bench.command("exec 2>&-; echo still here") };
    let ended = run(&bench, command).await;
    assert_eq!(
        (text(&ended.output), ended.errors.map(|errors| errors.total)),
        ("still here\n".to_owned(), Some(0))
    );
}

#[tokio::test]
async fn a_workspace_that_is_only_looked_at_stays_as_it_is() {
    let script = "cat kept; for f in kept new .git/config .github/new; do (echo changed > $f) 2>/dev/null && echo wrote $f; \
                  done; rm -f kept && echo removed; mkdir dir && echo made; mv kept moved && echo moved; echo x > /tmp/own && echo own";
    for shown_at_workspace in [false, true] {
        let bench = Bench::new();
        fs::create_dir_all(bench.path(".github/workflows")).expect("made");
        fs::create_dir_all(bench.path(".git")).expect("made");
        fs::write(bench.path("kept"), "kept\n").expect("written");
        let mut command = BoxedCommand { read_only: true, ..bench.command(script) };
        if shown_at_workspace {
            command.shown_as = PathBuf::from(WORKSPACE_SHOWN_AT);
        }
        let ended = run(&bench, command).await;
        let said = text(&ended.output);
        let lines: Vec<&str> = said.lines().filter(|line| !line.contains(':')).collect();
        assert_eq!(lines, ["kept", "own"], "{shown_at_workspace}: {said}");
        assert_eq!(fs::read_to_string(bench.path("kept")).expect("there"), "kept\n");
        assert!(!bench.path("new").exists() && !bench.path("dir").exists());
        // The next call of the same init can change it again.
        assert_eq!(bench.say("echo changed > kept; cat kept").await, "changed");
    }
}
