//! A new lease holder ends the processes that a stopped one has left running.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::kills::RuntimeProcess;
use crate::{alive, pipe};

#[test]
fn what_a_stopped_owner_runs_is_ended_and_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let tag = dir.path().display().to_string();
    let (workspace, records) = (dir.path().join("ws"), dir.path().join("records"));
    fs::create_dir(&workspace).expect("made");
    pipe(&workspace.join("up"));
    let mut process = RuntimeProcess::start(&workspace, &records.join("one"), &tag, true);
    process.hear("starting");
    fs::read(workspace.join("up")).expect("up");
    let owner = Pid::from_child(&process.child);
    kill_process(owner, Signal::STOP).expect("stopped");
    assert!(!alive(&tag).is_empty(), "a stopped owner's programs go on");
    // A record from a crash, and an incomplete record.
    fs::write(records.join("stale"), r#"{"boot":"another","init":null,"first":null}"#).expect("written");
    fs::write(records.join("half"), "{").expect("written");
    assert_eq!(posse_sandbox::end_recorded(&records).expect("ended"), 1);
    assert_eq!(alive(&tag), Vec::<u32>::new());
    assert_eq!(fs::read_dir(&records).expect("records").count(), 0);
    kill_process(owner, Signal::CONT).expect("goes on");
}

#[test]
fn nothing_recorded_is_nothing_to_do() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(posse_sandbox::end_recorded(&dir.path().join("none")).expect("nothing"), 0);
}
