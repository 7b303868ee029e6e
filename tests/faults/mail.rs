//! Commands of a user to a run whose processes die: each is executed, and only once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use posse_testkit::check::{AcknowledgedEvents, Files, Journal, Repositories, ended_run, result};
use posse_testkit::dice::Dice;
use posse_testkit::process::{Launch, ProcessOutput, RunningProcess};
use posse_testkit::scenario::Scenario;
use posse_testkit::variables;
use serde_json::Value;

use crate::home::{Home, PATIENCE, PROGRAM, hear_event, run_of};

/// Longer than any story.
const FOR_EVER: u32 = 3_600_000;

/// A root whose child answers after this time.
fn script(latency_ms: u32) -> String {
    format!(
        r#"
- when: {{agent: "0", turn: 1}}
  reply: {{tool_calls: [{{name: task, input: {{subagent_type: explore, description: wait, prompt: wait}}}}]}}
- when: {{agent: "1"}}
  reply: {{text: waited}}
  latency_ms: {latency_ms}
- reply: {{text: done}}
"#
    )
}

/// Lets a process continue for a moment, and kills it.
fn kill_after(running: RunningProcess, moment: Duration) {
    let until = Instant::now() + moment;
    while matches!(running.read_line(until), ProcessOutput::Line(_)) {}
    running.kill().unwrap();
}

#[test]
fn messages_arrive_once_and_in_order_however_often_the_owner_dies() {
    const MESSAGES: usize = 12;
    let mut dice = Dice::new(0x3a11);
    let home = Home::with_script(&script(FOR_EVER));
    let mut running = home.start_run();
    let run = run_of(hear_event(&running, ".1", "agent.model_called").last().unwrap());
    for number in 1..=MESSAGES {
        let said = home.posse(&["send", &run, &format!("message {number}")]);
        assert!(said.status.success(), "{said:?}");
        // Sometimes several commands wait in the mailbox for a process that is dead.
        if dice.chance(60) {
            kill_after(running, Duration::from_micros(dice.roll(40_000)));
            running = home.start(&["resume", "--json", &run]);
        }
    }
    kill_after(running, Duration::from_micros(dice.roll(40_000)));
    home.write_script(&script(0));
    assert!(home.posse(&["resume", &run]).status.success());
    let journal = home.logs(&run);
    let received: Vec<&Value> =
        journal.iter().filter(|event| event["kind"] == "agent.message_received").collect();
    let texts: Vec<&str> = received.iter().map(|event| event["summary"].as_str().unwrap()).collect();
    let expected: Vec<String> = (1..=MESSAGES).map(|number| format!("message: message {number}")).collect();
    assert_eq!(texts, expected);
    assert!(home.posse(&["verify", &run]).status.success());
}

/// Cancelled and killed at once: the cancel was promised, so it takes effect on the whole tree.
#[test]
fn a_cancel_outlives_the_process_that_was_to_carry_it_out() {
    let mut cancelled = 0;
    for part in 0..6 {
        let mut dice = Dice::of_part(0xca9c, part);
        let dir = tempfile::tempdir().unwrap();
        let scenario = Scenario::create(dir.path()).unwrap();
        let launch = Launch::new(Path::new(PROGRAM), dir.path(), &scenario.state())
            .with(variables::LEDGER, scenario.ledger());
        let running = launch.start(scenario.run_args()).unwrap();
        let mut told = AcknowledgedEvents::default();
        for _ in 0..=dice.roll(250) {
            let ProcessOutput::Line(line) = running.read_line(Instant::now() + PATIENCE) else {
                panic!("it ended")
            };
            told.take(&line).unwrap();
        }
        let run = told.run().unwrap();
        let said = launch.output(["cancel", "--no-wait", run.as_str()]).unwrap();
        kill_after(running, Duration::from_micros(dice.roll(30_000)));
        let resumed = launch.output(["resume", "--json", run.as_str()]).unwrap();
        let journal = Journal::read(&scenario.state(), &run).unwrap();
        let repositories = Repositories::find(&scenario.state(), &scenario.workspace(), &journal).unwrap();
        let result =
            result(&journal).map_or_else(BTreeMap::new, |commit| repositories.files(&commit).unwrap());
        let files = Files::of(&result, Scenario::folder_files().into_keys().collect());
        let mut findings = ended_run(&journal, &scenario.ledger(), &files);
        repositories.check(&journal, &scenario.state().join("runs").join(run.as_str()), &mut findings);
        assert_eq!(findings.into_breaches(), [], "part {part}");
        // Only a run that ended at the same moment can have another status.
        if said.status.success() {
            assert_eq!(
                (resumed.status.code(), journal.status.as_str()),
                (Some(3), "cancelled"),
                "{resumed:?}"
            );
            cancelled += 1;
        }
        assert_eq!(launch.left_behind(), [0; 0]);
    }
    assert!(cancelled > 0);
}
