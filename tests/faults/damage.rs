//! Journals that were tampered with, torn or corrupted: detected, reported, and left unchanged.

use std::fs;
use std::path::Path;

use posse_testkit::check::newest_run;
use posse_testkit::dice::Dice;
use posse_testkit::faults::CrashPoint;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::home::{Home, events};

/// A root with one child that reads.
const SCRIPT: &str = r#"
- when: {agent: "0", turn: 1}
  reply: {tool_calls: [{name: task, input: {subagent_type: explore, description: look, prompt: look}}]}
- when: {agent: "1", turn: 1}
  reply: {tool_calls: [{name: list, input: {}}]}
- reply: {text: done}
"#;

fn ended() -> (Home, String) {
    let home = Home::with_script(SCRIPT);
    let (run, said) = home.run(&[]);
    assert!(said.status.success(), "{said:?}");
    (home, run)
}

/// Bytes of the database and its WAL.
fn bytes(home: &Home) -> Vec<Option<Vec<u8>>> {
    ["state/posse.db", "state/posse.db-wal"].map(|name| fs::read(home.path(name)).ok()).into()
}

#[test]
fn what_was_tampered_with_is_named_by_its_number() {
    // Ids are the run's number times 2^40 plus the event's.
    let place = "(id & 1099511627775)";
    let cases: [(&str, Option<u64>); 9] = [
        ("UPDATE events SET payload = replace(payload, 'look', 'LOOK') WHERE PLACE = 1", Some(1)),
        ("UPDATE events SET kind = 'agent.todo_changed' WHERE PLACE = 6", Some(6)),
        ("UPDATE events SET at_ms = at_ms + 1 WHERE PLACE = 7", Some(7)),
        ("UPDATE events SET agent = agent || '.1' WHERE PLACE = 3", Some(3)),
        ("UPDATE events SET hash = zeroblob(32) WHERE PLACE = 9", Some(9)),
        (
            "UPDATE events SET payload = (SELECT payload FROM events WHERE PLACE = 2) WHERE PLACE = 10",
            Some(10),
        ),
        ("DELETE FROM events WHERE PLACE = 5", Some(5)),
        ("UPDATE agents SET state = 'running' WHERE agent LIKE '%.1'", None),
        ("UPDATE runs SET status = 'failed'", None),
    ];
    for (change, bad) in cases {
        let (home, run) = ended();
        let raw = Connection::open(home.database()).unwrap();
        raw.execute_batch("DROP TRIGGER events_never_change; DROP TRIGGER events_never_go").unwrap();
        assert_eq!(raw.execute(&change.replace("PLACE", place), []).unwrap(), 1, "{change}");
        drop(raw);
        let said = home.posse(&["verify", "--json", &run]);
        assert_eq!(said.status.code(), Some(1), "{change}: {said:?}");
        let verdict: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(
            (&verdict["ok"], &verdict["first_bad_seq"]),
            (&json!(false), &json!(bad)),
            "{change}: {verdict}"
        );
        let said = home.posse(&["verify", &run]);
        assert_eq!(said.status.code(), Some(1));
        if let Some(bad) = bad {
            assert!(said.out.contains(&format!("event {bad} ")), "{change}: {}", said.out);
        }
    }
}

#[test]
fn a_cut_tail_is_found() {
    let (home, run) = ended();
    let raw = Connection::open(home.database()).unwrap();
    raw.execute_batch("DROP TRIGGER events_never_go; DELETE FROM events WHERE (id & 1099511627775) > 12")
        .unwrap();
    drop(raw);
    let said = home.posse(&["verify", "--json", &run]);
    assert_eq!(said.status.code(), Some(1));
    let verdict: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(verdict["first_bad_seq"], 13, "{verdict}");
}

/// The verbs that read a run. Each of them ends, whatever was done to its rows.
const VERBS: [&[&str]; 9] = [
    &["show", "RUN"],
    &["wait", "RUN"],
    &["logs", "RUN"],
    &["logs", "--follow", "RUN"],
    &["ps"],
    &["resume", "RUN"],
    &["explain", "RUN", "bash"],
    &["report", "RUN"],
    &["stats", "RUN"],
];

/// Damage to the head of a run, or to the end of its journal.
const HEADS: [&str; 8] = [
    "UPDATE heads SET seq = seq + 100",
    "UPDATE heads SET seq = 9223372036854775807",
    "UPDATE heads SET seq = seq - 1",
    "UPDATE heads SET hash = zeroblob(32)",
    "UPDATE heads SET seq = 0, hash = zeroblob(32)",
    "DELETE FROM heads",
    "DELETE FROM events WHERE (id & 1099511627775) > 4",
    "DELETE FROM events",
];

/// Damage to other rows, with the verbs that rely on them.
const ROWS: [(&str, &[&str]); 11] = [
    ("UPDATE events SET payload = 'x' WHERE (id & 1099511627775) = 1", &["logs", "explain"]),
    ("UPDATE events SET payload = 'x' WHERE (id & 1099511627775) = 3", &["logs"]),
    ("UPDATE events SET version = -1 WHERE (id & 1099511627775) = 3", &["logs"]),
    ("DELETE FROM events WHERE (id & 1099511627775) = 5", &["logs"]),
    ("UPDATE agents SET events_in_force = '4000000' WHERE instr(agent, '.') = 0", &["explain"]),
    ("UPDATE agents SET usage_json = 'x'", &["show", "wait", "explain", "stats"]),
    ("UPDATE agent_terms SET depth = 4000000000 WHERE depth = 1", &["show", "explain", "stats"]),
    ("UPDATE agent_terms SET depth = -1 WHERE depth = 1", &["show", "explain", "stats"]),
    ("UPDATE agent_terms SET permissions_json = 'x'", &["explain"]),
    ("UPDATE agent_terms SET contract_json = 'x'", &["show", "explain"]),
    ("DELETE FROM blobs", &[]),
];

/// A run that no process executes and that has not ended.
fn interrupted() -> (Home, String) {
    let home = Home::with_script(SCRIPT);
    let death: CrashPoint = "engine.model.before_send:3".parse().unwrap();
    let died =
        home.launch.dying(&death).output(["run", "--json", "--model", "scripted/script.yaml", "x"]).unwrap();
    assert!(died.status.code().is_none(), "{died:?}");
    let run = newest_run(&home.path("state")).unwrap().unwrap();
    (home, run.as_str().to_owned())
}

/// Changes the database, calls `look`, and restores it.
fn with_damage(home: &Home, change: &str, look: impl FnOnce()) {
    let raw = Connection::open(home.database()).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let whole = fs::read(home.database()).unwrap();
    raw.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; \
         DROP TRIGGER events_never_change; DROP TRIGGER events_never_go",
    )
    .unwrap();
    assert!(raw.execute(change, []).unwrap() > 0, "{change}");
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(raw);
    look();
    for file in ["state/posse.db-wal", "state/posse.db-shm"] {
        drop(fs::remove_file(home.path(file)));
    }
    fs::write(home.database(), whole).unwrap();
}

/// Calls every verb: each ends, and one that meets the damage names the run and how to check it.
#[track_caller]
fn each_verb_ends(home: &Home, run: &str, change: &str, must_refuse: impl Fn(&str) -> bool) {
    with_damage(home, change, || {
        for verb in VERBS {
            let args: Vec<&str> = verb.iter().map(|arg| if *arg == "RUN" { run } else { arg }).collect();
            let said = home.posse(&args);
            let refused = said.err.contains("error: ")
                && said.err.contains(&format!("posse verify {run}"))
                && said.status.code() == Some(1);
            let is_told = said.status.code().is_some() && !said.err.contains("damaged");
            assert!(refused || (is_told && !must_refuse(verb[0])), "{change}: {args:?}: {said:?}");
        }
        let said = home.posse(&["verify", run]);
        assert_eq!(said.status.code(), Some(1), "{change}: {said:?}");
        assert!(said.out.contains(&format!("run {run} is damaged: ")), "{change}: {said:?}");
    });
}

#[test]
fn no_verb_builds_on_a_damaged_head_or_waits_for_what_it_says() {
    for (home, run) in [ended(), interrupted()] {
        for change in HEADS {
            each_verb_ends(&home, &run, change, |_| true);
        }
        // After the restore it can be read.
        assert!(home.posse(&["show", &run]).status.success());
    }
}

#[test]
fn a_verb_that_reads_a_damaged_row_names_the_run_and_how_to_check_it() {
    let (home, run) = ended();
    for (change, verbs) in ROWS {
        each_verb_ends(&home, &run, change, |verb| verbs.contains(&verb));
    }
}

#[test]
fn a_damaged_run_is_not_removed_and_keeps_its_files() {
    let (home, run) = ended();
    for change in ["UPDATE heads SET seq = seq + 100", "UPDATE heads SET epoch = 7", "DELETE FROM heads"] {
        with_damage(&home, change, || {
            let said = home.posse(&["gc", "--runs", "0", "--yes"]);
            assert!(said.status.success(), "{change}: {said:?}");
            assert!(said.out.contains(&format!("kept run {run}: it is damaged: ")), "{change}: {said:?}");
        });
        assert!(home.posse(&["verify", &run]).status.success(), "{change}");
    }
    let said = home.posse(&["gc", "--runs", "0", "--yes"]);
    assert!(said.out.contains(&format!("removed run {run}\n")), "{said:?}");
}

#[test]
fn a_lease_that_was_changed_is_not_taken_over() {
    let (home, run) = interrupted();
    for change in
        ["UPDATE heads SET owner = 'x'", "UPDATE heads SET owner_pid = -5", "UPDATE heads SET epoch = 7"]
    {
        each_verb_ends(&home, &run, change, |verb| verb == "resume");
    }
}

/// Whatever is corrupted: the output is the true journal, or an error with a code. Never another history.
#[test]
fn a_worn_database_is_noticed_or_harmless() {
    let (home, run) = ended();
    let truth = home.logs(&run);
    let whole = fs::read(home.database()).unwrap();
    let mut dice = Dice::new(0xb17);
    let mut noticed = 0;
    for _ in 0..60 {
        let mut worn = whole.clone();
        // A kilobyte, like a bad sector; the store's own test flips single bits.
        let at = usize::try_from(dice.roll(worn.len() as u64 - 1_024)).unwrap();
        worn[at..at + 1_024].fill(u8::try_from(dice.roll(256)).unwrap());
        fs::write(home.database(), &worn).unwrap();
        let verified = home.posse(&["verify", "--json", &run]);
        let told = home.posse(&["logs", "--json", &run]);
        match verified.status.code() {
            Some(0) => assert_eq!(events(told.out.lines()), truth, "byte {at}"),
            Some(1 | 2) => noticed += 1,
            code => panic!("byte {at}: {code:?} {verified:?}"),
        }
        assert!(
            !verified.err.contains("panicked") && !told.err.contains("panicked"),
            "{verified:?} {told:?}"
        );
        assert_eq!(fs::read(home.database()).unwrap(), worn, "byte {at}: looking changed it");
    }
    assert!(noticed > 0);
}

/// A corrupt page: an attempt to continue the run reports it, and nothing is written over it.
#[test]
fn a_corrupt_page_stops_a_resume_and_stays_as_it_is() {
    let (home, run) = interrupted();
    let run = run.as_str();
    // Moves everything into the database, so that there is one file to damage.
    let raw = Connection::open(home.database()).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(raw);
    let whole = fs::read(home.database()).unwrap();
    let needle = b"\"request\":";
    let at = whole.windows(needle.len()).position(|window| window == needle).unwrap();
    let mut worn = whole.clone();
    let page = at / 4_096 * 4_096;
    worn[page..page + 64].fill(0xff);
    fs::write(home.database(), &worn).unwrap();
    let before = bytes(&home)[0].clone();
    let said = home.posse(&["resume", "--json", run]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.err.starts_with("error: ") && said.err.contains("damaged"), "{}", said.err);
    assert_eq!(bytes(&home)[0], before, "left as it was");
    fs::write(home.database(), &whole).unwrap();
    assert!(home.posse(&["resume", "--json", run]).status.success(), "whole again, it goes on");
}

/// An incomplete write at the end of the WAL is not part of the journal, and loses nothing else.
#[test]
fn a_torn_tail_of_the_wal_loses_nothing_that_was_told() {
    let mut dice = Dice::new(0x7a11);
    for torn in [1_usize, 24, 700, 4_119, 4_120, 9_000] {
        let home = Home::with_script(SCRIPT);
        let death: CrashPoint = "store.commit.before_sync:6".parse().unwrap();
        let died = home
            .launch
            .dying(&death)
            .output(["run", "--json", "--model", "scripted/script.yaml", "x"])
            .unwrap();
        let told = events(died.out.lines());
        let run = newest_run(&home.path("state")).unwrap().unwrap();
        let run = run.as_str();
        let wal = home.path("state/posse.db-wal");
        let mut frames = fs::read(&wal).unwrap();
        assert!(frames.len() > 4_200, "the WAL holds what was written");
        // The beginning of a frame that looks like the first, and then noise.
        let mut tail = frames[32..32 + torn.min(2_000)].to_vec();
        tail.extend((tail.len()..torn).map(|_| u8::try_from(dice.roll(256)).unwrap()));
        frames.extend(tail);
        fs::write(&wal, frames).unwrap();
        let said = home.posse(&["resume", "--json", run]);
        assert!(said.status.success(), "{torn}: {said:?}");
        assert_eq!(home.logs(run)[..told.len()], told, "{torn}");
        assert!(home.posse(&["verify", run]).status.success(), "{torn}");
    }
}

#[test]
fn a_database_of_a_newer_posse_is_refused_and_left_as_it_was() {
    let (home, run) = ended();
    let raw = Connection::open(home.database()).unwrap();
    raw.pragma_update(None, "user_version", 99).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(raw);
    let before = fs::read(home.database()).unwrap();
    for args in [
        &["run", "--model", "scripted/script.yaml", "x"] as &[&str],
        &["resume", &run],
        &["logs", "--json", &run],
        &["verify", &run],
        &["cancel", &run],
    ] {
        let said = home.posse(args);
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(said.err.contains("written by a newer Posse (format 99"), "{}", said.err);
    }
    assert_eq!(fs::read(home.database()).unwrap(), before);
    assert!(!Path::new(&home.path("out.txt")).exists());
}
