//! The same tests as an ordinary user, where this machine lets the test switch to one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A user without files.
const ORDINARY: u32 = 65_534;

/// The tests that an ordinary user runs.
const TESTS: [&str; 9] = [
    "basics::",
    "caches::",
    "checks::",
    "isolated::",
    "kills::killed",
    "locks::",
    "processes::nothing",
    "processes::a_kill",
    "processes::a_program",
];

#[test]
fn an_ordinary_user_has_the_same_box() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: these tests run as an ordinary user already");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
    // An ordinary user may not read the build directory.
    let tests = dir.path().join("tests");
    fs::copy("/proc/self/exe", &tests).expect("copied");
    let init = dir.path().join("posse-init");
    fs::copy(env!("CARGO_BIN_EXE_posse-init"), &init).expect("copied");
    let own = dir.path().join("own");
    fs::create_dir(&own).expect("made");
    chown(&own, Some(ORDINARY), Some(ORDINARY)).expect("given away");
    let output = Command::new(&tests)
        .args(TESTS)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("TMPDIR", &own)
        .env(crate::INIT, &init)
        .current_dir(&own)
        .uid(ORDINARY)
        .gid(ORDINARY)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = said.lines().filter(|line| line.starts_with("test ") && line.ends_with("... ok")).count();
    assert!(passed >= 35, "{passed} tests ran: {said}");
}
