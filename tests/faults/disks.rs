//! Disks that are full or read-only. These need a separate mount, in namespaces that any user may create; where the
//! system forbids that, they are skipped with a message.

use std::process::Command;

use posse_testkit::scenario::Scenario;
use posse_testkit::{variables, workspace_kind};

use crate::home::PROGRAM;

fn can_mount() -> bool {
    let script = "mount -t tmpfs none /mnt";
    let tried =
        Command::new("unshare").args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).output();
    let can = tried.is_ok_and(|output| output.status.success());
    if !can {
        println!("left out: this system does not let us mount");
    }
    can
}

/// The output of a shell script in a new mount namespace (a `remount` with a source repeats no options that only the
/// machine's own user namespace understands), with the scenario in `$1`, the command in `$POSSE` and the
/// arguments of its run as the rest.
fn in_own_mounts(scenario: &Scenario, dir: &std::path::Path, script: &str) -> (String, String) {
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args(scenario.run_args())
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", dir.join("home"))
        .env("POSSE", PROGRAM)
        .env("POSSE_HOME", scenario.state())
        .env(variables::LEDGER, scenario.ledger())
        .envs(workspace_kind::given())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_full_disk_ends_the_process_with_a_reason_and_the_run_goes_on_when_there_is_room() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::create(dir.path()).unwrap();
    std::fs::create_dir(scenario.state()).unwrap();
    // Only the state directory is on the small disk; `$POSSE_HOME` is its mount point.
    let script = r#"
mount -t tmpfs -o size=1600k none "$POSSE_HOME" || exit 9
head -c 700000 /dev/zero > "$POSSE_HOME/filler"
"$POSSE" "$@" > first; echo "first $?"
"$POSSE" ps --json; echo "ps $?"
"$POSSE" resume --last > again; echo "again $?"
rm "$POSSE_HOME/filler"
mount -o remount,size=64m none "$POSSE_HOME"
"$POSSE" resume --last --json > second; echo "second $?"
"$POSSE" verify --all; echo "verify $?"
"$POSSE" logs --json "$("$POSSE" ps --all --json | head -1 | sed 's/.*"run":"\([a-z0-9]*\)".*/\1/')" > logs; echo "logs $?"
"#;
    let (out, err) = in_own_mounts(&scenario, dir.path(), script);
    let said = |line: &str| out.lines().any(|said| said == line);
    assert!(said("first 1"), "{out}\n{err}");
    let state = scenario.state();
    assert!(err.contains(&format!("error: {}/", state.display())), "{err}");
    assert!(err.contains(": no space left for the "), "{err}");
    assert!(said("ps 0"), "reads are served: {out}\n{err}");
    assert!(said("again 1"), "still full: {out}\n{err}");
    assert!(said("second 0") && said("verify 0") && said("logs 0"), "{out}\n{err}");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let (told, journal) = (read("first"), read("logs"));
    for line in told.lines() {
        assert!(journal.contains(line), "told and gone: {line}");
    }
}

/// The files of the project do not fit on the disk: the run stops, says which disk is full, and continues later.
#[test]
fn a_disk_that_is_full_while_the_first_base_is_laid_out_leaves_the_run_to_be_resumed() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::create(dir.path()).unwrap();
    std::fs::create_dir(scenario.state()).unwrap();
    // A file that is small as an object and large as a file.
    std::fs::write(scenario.workspace().join("large.txt"), vec![b'x'; 24 << 20]).unwrap();
    let script = r#"
mount -t tmpfs -o size=16m none "$POSSE_HOME" || exit 9
"$POSSE" "$@" > first; echo "first $?"
"$POSSE" ps --json; echo "ps $?"
mount -o remount,size=2g none "$POSSE_HOME"
"$POSSE" resume --last --json > second; echo "second $?"
"$POSSE" verify --all; echo "verify $?"
"#;
    let (out, err) = in_own_mounts(&scenario, dir.path(), script);
    let said = |line: &str| out.lines().any(|said| said == line);
    assert!(said("first 1"), "{out}\n{err}");
    let full = format!("the disk that is mounted at {} is full", scenario.state().display());
    assert!(err.contains(&full) && err.contains("continues the run once this is fixed"), "{err}");
    assert!(out.contains("interrupted"), "{out}");
    assert!(said("second 0") && said("verify 0"), "{out}\n{err}");
}

/// Not even the user's changed files fit on the disk: there is no run to resume, and nothing of it stays on the disk.
#[test]
fn a_disk_that_is_full_before_a_run_starts_leaves_no_part_of_the_run() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::create(dir.path()).unwrap();
    std::fs::create_dir(scenario.state()).unwrap();
    // Nothing makes these smaller.
    let mut state = 1_u64;
    let mut noise = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for number in 0..12 {
        let bytes: Vec<u8> = (0..1 << 20).map(&mut noise).collect();
        std::fs::write(scenario.workspace().join(format!("noise-{number}")), bytes).unwrap();
    }
    let script = r#"
mount -t tmpfs -o size=9m none "$POSSE_HOME" || exit 9
"$POSSE" "$@" > first; echo "first $?"
"$POSSE" ps --json > listed; echo "ps $?"
echo "runs $(wc -c < listed)"
echo "left $(find "$POSSE_HOME/runs" -type f 2>/dev/null | wc -l)"
test "$(du -sm "$POSSE_HOME" | cut -f1)" -lt 3; echo "freed $?"
mount -o remount,size=256m none "$POSSE_HOME"
"$POSSE" "$@" > second; echo "second $?"
"$POSSE" verify --all; echo "verify $?"
"#;
    let (out, err) = in_own_mounts(&scenario, dir.path(), script);
    let said = |line: &str| out.lines().any(|said| said == line);
    assert!(said("first 1") && said("ps 0") && said("runs 0") && said("left 0"), "{out}\n{err}");
    let full =
        format!("the run did not start: the disk that is mounted at {} is full", scenario.state().display());
    assert!(err.contains(&full) && !err.contains("--dir") && !err.contains("resume"), "{err}");
    assert!(said("freed 0"), "{out}\n{err}");
    assert!(said("second 0") && said("verify 0"), "{out}\n{err}");
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_and_can_still_be_looked_at() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::create(dir.path()).unwrap();
    std::fs::create_dir(scenario.state()).unwrap();
    let script = r#"
mount -t tmpfs none "$POSSE_HOME" || exit 9
mount -o remount,ro none "$POSSE_HOME"
"$POSSE" "$@"; echo "run $?"
"$POSSE" ps; echo "ps $?"
mount -o remount,rw none "$POSSE_HOME"
"$POSSE" "$@" > first; echo "first $?"
mount -o remount,ro none "$POSSE_HOME"
"$POSSE" "$@"; echo "later $?"
"$POSSE" verify --all; echo "verify $?"
"#;
    let (out, err) = in_own_mounts(&scenario, dir.path(), script);
    let said = |line: &str| out.lines().any(|said| said == line);
    assert!(said("run 1") && said("ps 0") && said("first 0") && said("later 1"), "{out}\n{err}");
    assert!(said("verify 0"), "{out}\n{err}");
    assert_eq!(err.matches("cannot be written").count(), 2, "{err}");
}
