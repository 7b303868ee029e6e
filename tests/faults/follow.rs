//! A reader outside that loses its connection repeatedly.

use std::time::Instant;

use posse_testkit::dice::Dice;
use posse_testkit::process::{Launch, ProcessOutput};
use posse_testkit::scenario::Scenario;
use posse_testkit::variables;
use serde_json::Value;

use crate::home::{PATIENCE, PROGRAM, events, run_of};

#[test]
fn a_reader_with_random_disconnects_sees_every_event_once_and_in_order() {
    let mut dice = Dice::new(0xf0110);
    let dir = tempfile::tempdir().unwrap();
    let scenario = Scenario::create(dir.path()).unwrap();
    let launch = Launch::new(std::path::Path::new(PROGRAM), dir.path(), &scenario.state())
        .with(variables::LEDGER, scenario.ledger());
    let mut owner = Some(launch.start(scenario.run_args()).unwrap());
    let ProcessOutput::Line(first) = owner.as_ref().unwrap().read_line(Instant::now() + PATIENCE) else {
        panic!("no line")
    };
    let run = run_of(&first);
    let mut seen: Vec<Value> = Vec::new();
    let mut connections = 0;
    let mut successor = None;
    let is_end = |event: &Value| event["kind"].as_str().is_some_and(|kind| kind == "run.completed");
    while !seen.last().is_some_and(is_end) {
        connections += 1;
        assert!(connections < 1_000, "the end never comes");
        let after = seen.last().map_or(0, |event| event["seq"].as_u64().unwrap()).to_string();
        let reader = launch.start(["logs", "-f", "--json", "--after", &after, &run]).unwrap();
        for _ in 0..dice.roll(30) {
            match reader.read_line(Instant::now() + PATIENCE) {
                ProcessOutput::Line(line) => seen.extend(events([line.as_str()].into_iter())),
                ProcessOutput::End => break,
                ProcessOutput::Nothing => panic!("nothing is heard any more after event {after}"),
            }
        }
        // What was sent but not read is lost, as with any connection.
        drop(reader.kill().unwrap());
        // Once, the lease holder dies too.
        if seen.len() > 150
            && let Some(owner) = owner.take()
        {
            drop(owner.kill().unwrap());
            let again = launch.start(["resume", "--json", &run]).unwrap();
            successor = Some(std::thread::spawn(move || again.finish().unwrap().1));
        }
    }
    assert!(successor.unwrap().join().unwrap().success());
    let journal = events(launch.output(["logs", "--json", &run]).unwrap().out.lines());
    assert_eq!(seen, journal);
    let numbers: Vec<u64> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
    assert!(connections > 10, "only {connections} connections");
}
