//! Summary calls and compactions: what they change of a machine, and what they leave.

use posse_domain::code::Code;
use posse_domain::event::{Purpose, Sender};
use serde_json::json;

use super::fixture::{MachineFixture, child, said};
use crate::compaction::CutPoint;
use crate::machine::{Next, Overflow};

fn long_talk(turns: usize) -> MachineFixture {
    let mut told = MachineFixture::new(None, None);
    for n in 0..turns {
        told.turn(&[("same", "read", json!({"n": n}))], true, &"x".repeat(4_000));
    }
    told
}

#[test]
fn a_compaction_leaves_the_turn_and_the_messages_that_wait() {
    let mut told = long_talk(8);
    told.message(Sender::Person, "Look left.");
    let before = told.next();
    told.ask_for_summary(6_000);
    assert_eq!(told.next(), Next::Wait);
    assert_eq!(
        told.machine.in_flight().map(|place| (place.turn, place.call, place.summary)),
        Some((9, 1, true))
    );
    told.summarise("We looked at six files.");
    assert_eq!(told.next(), before, "the same turn is next");
    assert_eq!(told.folded(), told.machine);
    let said = said(&told.machine);
    assert!(said[0].starts_with("user: "), "the assignment: {}", said[0]);
    assert!(said[1].contains("We looked at six files."), "{}", said[1]);
    assert!(said.last().is_some_and(|last| last.starts_with("results: same=xxxx")));
    assert!(said.len() < 8, "{said:?}");
    told.ask();
    assert!(super::fixture::said(&told.machine).last().is_some_and(|last| last.contains("Look left.")));
}

#[test]
fn a_summary_call_that_fails_is_retried_and_one_that_fails_for_good_ends_the_attempt() {
    let mut told = long_talk(8);
    told.ask_for_summary(6_000);
    told.fail(Code::Interrupted, "the process ended");
    assert!(matches!(told.next(), Next::CallModel { turn: 9, call: 1, purpose: Purpose::Work, .. }));
    told.ask_for_summary(6_000);
    assert_eq!(told.machine.in_flight().map(|place| place.call), Some(2));
    told.fail(Code::ModelError, "no such model");
    let Next::Fail(failure) = told.next() else { panic!("{:?}", told.next()) };
    assert_eq!((failure.code, &*failure.reason), (Code::ModelError, "no such model"));
    assert_eq!(told.folded(), told.machine);
}

#[test]
fn a_report_that_children_follow_survives_a_compaction() {
    let mut told = long_talk(8);
    told.ask();
    told.reply("Nearly done.", &[]);
    told.children = true;
    told.message(Sender::Child(child()), "Task 1.1 has completed.");
    told.ask_for_summary(6_000);
    assert_eq!(
        told.machine.report_so_far().as_deref().map(|report| report.starts_with("Nearly done.")),
        Some(true)
    );
    told.summarise("We looked.");
    assert_eq!(told.folded(), told.machine);
    assert!(matches!(told.next(), Next::CallModel { turn: 10, .. }));
}

#[test]
fn an_empty_summary_is_replaced_by_what_the_host_knows() {
    let mut told = long_talk(8);
    told.ask_for_summary(6_000);
    told.summarise("  ");
    let said = said(&told.machine);
    assert!(
        said[1].contains("The model wrote no summary.") && said[1].contains("Result of `read`"),
        "{}",
        said[1]
    );
}

#[test]
fn a_refused_conversation_asks_for_a_summary_until_the_model_replies() {
    let mut told = long_talk(6);
    told.ask();
    told.refuse_as_too_long();
    assert_eq!(told.machine.overflow(), Overflow::Refused);
    assert!(told.machine.due_compaction(None, 1_000_000).is_some(), "although it seems to fit");
    told.ask_for_summary(1_000_000);
    told.refuse_as_too_long();
    assert_eq!((told.machine.refused_summaries(), told.machine.overflow()), (1, Overflow::Refused));
    told.ask_for_summary(1_000_000);
    told.summarise("We looked.");
    assert_eq!((told.machine.refused_summaries(), told.machine.overflow()), (0, Overflow::Compacted));
    assert_eq!(told.machine.due_compaction(None, 1_000_000), None);
    assert!(matches!(told.next(), Next::CallModel { turn: 7, call: 2, .. }), "{:?}", told.next());
    told.ask();
    told.reply("Found it.", &[]);
    assert_eq!(told.machine.overflow(), Overflow::No);
    assert_eq!(told.folded(), told.machine);
}

#[test]
fn a_new_attempt_begins_with_the_whole_conversation() {
    let mut told = long_talk(8);
    told.ask_for_summary(6_000);
    told.summarise("We looked.");
    told.retry("it failed");
    assert_eq!(said(&told.machine).len(), 2, "the assignment, and why it begins again");
    assert_eq!(told.folded(), told.machine);
    assert_eq!(told.machine.due_compaction(None, 6_000), None::<CutPoint>);
}
