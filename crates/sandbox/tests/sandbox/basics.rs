//! One call: its input and its output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use posse_sandbox::process::OutputLimits;
use posse_sandbox::{BoxedCommand, Exit, InitBinary, Limits, Sandbox, SandboxError, SandboxOptions};

use crate::{Bench, alive, init};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_has_its_exit_code_and_both_its_outputs() {
    let bench = Bench::new();
    let ended = bench.run("echo out; echo err >&2; echo made > file; exit 7").await;
    assert_eq!(ended.exit, Exit::Code(7));
    assert_eq!(String::from_utf8_lossy(&ended.output.head), "out\nerr\n");
    assert_eq!(fs::read_to_string(bench.path("file")).expect("the file"), "made\n");
    assert_eq!(bench.run("kill -SEGV $$").await.exit, Exit::Signal(11));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_a_fresh_place() {
    let bench = Bench::new();
    let first =
        bench.say("echo x > /tmp/left; echo y > ~/left; export LEFT=z; ls -A /tmp ~ | grep -c left").await;
    assert_eq!(first, "2");
    assert_eq!(bench.say("ls -A /tmp ~ /var/tmp /run /dev/shm | grep left; echo \"[$LEFT]\"").await, "[]");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_there_to_answer() {
    let bench = Bench::new();
    assert_eq!(
        bench.say("cat; read -r x; echo \"$? [$x]\"; tty; test -t 1; echo $?").await,
        "1 []\nnot a tty\n1"
    );
    assert_eq!(bench.say("(exec < /dev/tty) 2>/dev/null || echo none").await, "none");
    assert_eq!(bench.say("ps -o tty= -p $$").await.trim(), "?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_said() {
    let bench = Bench::new();
    let command = BoxedCommand { argv: vec!["no-such-program".to_owned()], ..bench.command("") };
    let turn = bench.sandbox.turn().await;
    let error = bench.sandbox.start(turn, command).expect("started").ended().await.expect_err("no program");
    assert!(matches!(error, SandboxError::NoProgram(_)), "{error}");
    assert!(error.to_string().contains("no-such-program"), "{error}");
    assert_eq!(bench.say("echo fine").await, "fine", "and the next one runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_may_be_named_by_a_path_that_leads_up() {
    let bench = Bench::new();
    fs::create_dir(bench.path("sub")).expect("a directory");
    let command = crate::command(&bench.path("sub").join(".."), "pwd -P; echo made > file");
    let turn = bench.sandbox.turn().await;
    let ended = bench.sandbox.start(turn, command).expect("started").ended().await.expect("it ran");
    assert_eq!(ended.exit, Exit::Code(0), "{}", String::from_utf8_lossy(&ended.output.head));
    assert_eq!(fs::read_to_string(bench.path("file")).expect("the file"), "made\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_with_the_home_directory_in_it_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let bench =
        Bench::with(SandboxOptions { home: Some(home.path().to_owned()), ..SandboxOptions::default() });
    let command = crate::command(home.path(), "true");
    let turn = bench.sandbox.turn().await;
    let error = bench.sandbox.start(turn, command).expect("started").ended().await.expect_err("refused");
    assert!(error.to_string().contains("holds the home directory"), "{error}");
}

/// A home directory has many names.
#[tokio::test(flavor = "multi_thread")]
async fn a_home_directory_by_another_name_is_refused_too() {
    let top = tempfile::tempdir().expect("a directory");
    let (real, link) = (top.path().join("real"), top.path().join("link"));
    fs::create_dir(&real).expect("made");
    std::os::unix::fs::symlink(&real, &link).expect("made");
    for home in [link, top.path().join("./x/../real")] {
        let bench = Bench::with(SandboxOptions { home: Some(home.clone()), ..SandboxOptions::default() });
        let command = crate::command(&real, "true");
        let turn = bench.sandbox.turn().await;
        let ended = bench.sandbox.start(turn, command).expect("started").ended().await;
        assert!(ended.is_err() || !home.exists(), "{}", home.display());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_that_runs_as_somebody_else() {
    let bench = Bench::new();
    let said = bench
        .say(
            "cp /bin/true suid; chmod 4755 suid; chmod g+s suid; install -m 4755 /bin/true other; \
             python3 -c 'import os; os.open(\"third\", os.O_CREAT, 0o4755); os.fchmod(os.open(\"suid\", 0), 0o6755)'; \
             chmod 755 suid && echo fine",
        )
        .await;
    assert!(said.contains("Operation not permitted") && said.ends_with("fine"), "{said}");
    for entry in fs::read_dir(bench.workspace.path()).expect("files").flatten() {
        let mode = entry.metadata().expect("there").permissions().mode();
        assert_eq!(mode & 0o6000, 0, "{}", entry.path().display());
    }
}

/// Memory that counts for the call but for no process: the kernel must not kill the init instead.
#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_nobodys_does_not_end_the_init() {
    let limits = Limits { memory_bytes: 128 << 20, ..Limits::default() };
    let bench = Bench::with(SandboxOptions { limits, ..SandboxOptions::default() });
    let bomb = "(echo 0 > /proc/self/oom_score_adj; echo -999 > /proc/self/oom_score_adj) \
                2>/dev/null; exec python3 -c 'import os\nf = os.memfd_create(\"x\")\nfor _ in range(400): os.write(f, bytes(1 << 20))'";
    let ended = bench.run(bomb).await;
    if bench.sandbox.level().await.expect("a level").cgroups.contains(&"memory") {
        assert!(ended.out_of_memory && ended.exit == Exit::Signal(9), "{:?}", ended.exit);
    }
    assert_eq!(bench.say("echo fine").await, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_init_it_is_said_what_is_missing() {
    let unwired = Sandbox::new(SandboxOptions::default());
    let error = unwired.level().await.expect_err("this test binary cannot be an init").to_string();
    assert!(error.contains("Call `posse::init()` first in `main`"), "{error}");
    let missing = InitBinary::At(PathBuf::from("/nowhere/posse"));
    let missing = Sandbox::new(SandboxOptions { init: missing, ..SandboxOptions::default() });
    let error = missing.level().await.expect_err("no such binary").to_string();
    assert!(error.contains("/nowhere/posse cannot be started"), "{error}");
    // An existing binary that is not an init.
    let other = InitBinary::At(PathBuf::from("/bin/true"));
    let other = Sandbox::new(SandboxOptions { init: other, ..SandboxOptions::default() });
    let error = other.level().await.expect_err("no init").to_string();
    assert!(error.contains("the sandbox cannot be made"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_is_proven_and_says_its_layers() {
    let level = Bench::new().sandbox.level().await.expect("a level");
    assert!(level.seccomp && level.to_string().starts_with("namespaces"), "{level}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_named_files_are_there() {
    let home = tempfile::tempdir().expect("a directory");
    for (name, text) in
        [(".ssh/id", "SECRET"), (".cargo/bin/tool", "#!/bin/sh\necho tool"), (".cargo/credentials", "SECRET")]
    {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    }
    let extra = tempfile::tempdir().expect("a directory");
    fs::write(extra.path().join("given"), "given").expect("written");
    let bench = Bench::with(SandboxOptions {
        home: Some(home.path().to_owned()),
        read: vec![extra.path().to_owned()],
        ..SandboxOptions::default()
    });
    let seen = bench
        .say("cd ~; find . -type f; .cargo/bin/tool; (echo x > .cargo/bin/tool) 2>/dev/null || echo closed")
        .await;
    assert_eq!(seen, "./.cargo/bin/tool\ntool\nclosed");
    let given =
        format!("cat {0}/given; (echo x > {0}/given) 2>/dev/null || echo closed", extra.path().display());
    assert_eq!(bench.say(&given).await, "givenclosed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_output_is_kept_in_a_file_up_to_a_limit() {
    let bench = Bench::new();
    let kept = tempfile::tempdir().expect("a directory");
    let spill = kept.path().join("out");
    let output =
        OutputLimits { head_bytes: 10, tail_bytes: 10, spill: Some(spill.clone()), spill_bytes: 100_000 };
    let command = BoxedCommand { output, ..bench.command("seq 1 100000; printf 'the end'") };
    let turn = bench.sandbox.turn().await;
    let ended = bench.sandbox.start(turn, command).expect("started").ended().await.expect("a result");
    assert_eq!(
        (ended.output.head.as_slice(), ended.output.tail.as_slice()),
        (&b"1\n2\n3\n4\n5\n"[..], &b"00\nthe end"[..])
    );
    assert_eq!(ended.output.total, 588_895 + 7);
    assert_eq!(fs::metadata(&spill).expect("the file").len(), 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold() {
    let limits = Limits { file_bytes: 2 << 20, scratch_bytes: 1 << 20, open_files: 64, ..Limits::default() };
    let bench = Bench::with(SandboxOptions { limits, ..SandboxOptions::default() });
    bench.run("head -c 3M /dev/zero > big").await;
    assert!(fs::metadata(bench.path("big")).expect("the file").len() <= 2 << 20);
    assert_eq!(bench.say("head -c 3M /dev/zero > /tmp/a 2>/dev/null; test $(stat -c %s /tmp/a) -le 1048576 && echo held").await, "held");
    assert_eq!(bench.say("ulimit -n; ulimit -c").await, "64\n0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_bomb_ends_alone() {
    let limits = Limits { memory_bytes: 256 << 20, ..Limits::default() };
    let bench = Bench::with(SandboxOptions { limits, ..SandboxOptions::default() });
    let bomb = "python3 -c 'x = bytearray(1 << 30); print(len(x))' 2>&1; echo after";
    let said = bench.say(bomb).await;
    assert!(said.ends_with("after") && !said.contains("1073741824"), "{said}");
    assert_eq!(bench.say("echo fine").await, "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_bomb_ends_with_its_call() {
    let limits = Limits { processes: 64, ..Limits::default() };
    let bench = Bench::with(SandboxOptions { limits, init: init(), ..SandboxOptions::default() });
    let turn = bench.sandbox.turn().await;
    let bomb = bench.command("echo up > pipe; b() { b | b & }; b; wait; while true; do :; done");
    crate::pipe(&bench.path("pipe"));
    let mut running = bench.sandbox.start(turn, bomb).expect("started");
    let up = bench.path("pipe");
    tokio::task::spawn_blocking(move || fs::read(up).expect("up")).await.expect("joined");
    let most = (0..200).map(|_| alive(&bench.tag).len()).max().unwrap_or_default();
    running.kill();
    running.ended().await.expect("a result");
    assert_eq!(bench.alive(), Vec::<u32>::new());
    let level = bench.sandbox.level().await.expect("a level");
    if level.cgroups.contains(&"pids") {
        assert!(most <= 64, "{most}");
    }
    assert_eq!(bench.say("echo fine").await, "fine");
}
