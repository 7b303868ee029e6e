//! Random scripts: after every event the folded machine equals the live one.

use posse_domain::code::Code;
use posse_domain::event::{ContextTrimmed, EventBody, Purpose, ReportCause, Sender};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{MachineFixture, child};
use crate::conversation::Message;
use crate::machine::{Machine, Next};

/// Room for messages that long scripts exceed.
const WINDOW_TOKENS: u64 = 800;

/// The random choices of one step.
#[derive(Debug, Clone)]
struct Draw {
    text: &'static str,
    calls: Vec<(u8, u8, u8)>,
    fault: u8,
    ok: bool,
    order: usize,
    aside: u8,
}

fn draws() -> impl Strategy<Value = Draw> {
    let text = prop::sample::select(&["", " ", "Found it.", r#"{"n": 1}"#, r#"{"n": "x"}"#][..]);
    let calls = prop_oneof![2 => Just(Vec::new()), 3 => vec((0..4_u8, 0..3_u8, 0..2_u8), 1..4)];
    (text, calls, 0..20_u8, any::<bool>(), 0..6_usize, 0..12_u8)
        .prop_map(|(text, calls, fault, ok, order, aside)| Draw { text, calls, fault, ok, order, aside })
}

/// Asserts that the machine folded again equals the live one.
fn checked(told: &MachineFixture) {
    assert_eq!(told.folded(), told.machine, "after {:?}", told.events.last().map(EventBody::kind));
    alternates(&told.machine);
}

/// Asserts that exactly its results follow every reply with calls, in order.
fn alternates(machine: &Machine) {
    let messages = machine.conversation().messages();
    for (at, message) in messages.iter().enumerate() {
        let Message::Assistant { calls, .. } = &**message else { continue };
        if calls.is_empty() {
            continue;
        }
        match messages.get(at + 1).map(|next| &**next) {
            Some(Message::Results(results)) => {
                let (given, found): (Vec<&str>, Vec<&str>) = (
                    calls.iter().map(|call| call.id.as_str()).collect(),
                    results.iter().map(|result| &*result.call_id).collect(),
                );
                assert_eq!(given, found);
            }
            None => assert!(machine.shared_calls().is_some(), "only calls under way have no results"),
            Some(other) => panic!("{other:?} follows calls"),
        }
    }
}

/// One step of a driver. Returns whether it can continue.
fn step(told: &mut MachineFixture, draw: &Draw) -> bool {
    match draw.aside {
        0 => told.message(Sender::Person, "Look left."),
        1 => told.message(Sender::Child(child()), "Task 1.1 has completed."),
        2 => told.children = !told.children,
        4 if matches!(told.next(), Next::CallModel { .. })
            && told.machine.due_compaction(None, WINDOW_TOKENS).is_some() =>
        {
            told.ask_for_summary(WINDOW_TOKENS);
            checked(told);
            match draw.fault {
                0 | 1 => told.fail(Code::Interrupted, "the process ended"),
                2 => told.refuse_as_too_long(),
                _ => told.summarise(draw.text),
            }
        }
        3 => {
            let call_ids = told.machine.conversation().excess(10);
            if !call_ids.is_empty() {
                told.tell(ContextTrimmed { call_ids, freed_bytes: 1 });
            }
        }
        _ => {}
    }
    checked(told);
    match told.next() {
        Next::CallModel { turn, purpose, cause, .. } => {
            limits_hold(told, turn, purpose, cause);
            let poor = draw.fault == 7 && purpose == Purpose::Work;
            told.ask_because(poor.then_some(ReportCause::Budget));
        }
        Next::Wait => answer(told, draw),
        Next::CallTools => results(told, draw),
        Next::Tell(..) => drop(told.say()),
        Next::Idle => {
            told.children = false;
            told.message(Sender::Child(child()), "Task 1.2 has completed.");
        }
        Next::Done { .. } => return false,
        Next::Fail(broken) => {
            if !broken.kind.is_retried() || told.machine.attempt() > 2 {
                return false;
            }
            told.retry(&broken.reason);
        }
    }
    true
}

fn limits_hold(told: &MachineFixture, turn: u32, purpose: Purpose, cause: Option<ReportCause>) {
    let Some(max) = told.contract.execution.max_turns else { return };
    // Only a turn that fixes an answer may exceed the limit.
    assert!(turn <= max || (turn == max + 1 && cause == Some(ReportCause::Schema)), "turn {turn} of {max}");
    assert!(turn < max || purpose == Purpose::Report, "the last turn is for the report");
    assert_eq!(purpose == Purpose::Report, cause.is_some());
}

fn answer(told: &mut MachineFixture, draw: &Draw) {
    match draw.fault {
        0 | 1 => told.fail(Code::Interrupted, "the process ended"),
        2 => told.fail(Code::ModelError, "overloaded"),
        3 => told.fail(Code::Timeout, "too slow"),
        _ => {
            let ids = ["a", "b", "", "c~2"];
            let inputs: Vec<Value> = draw.calls.iter().map(|(_, input, _)| json!({"n": input})).collect();
            let calls: Vec<(&str, &str, Value)> = draw
                .calls
                .iter()
                .zip(inputs)
                .map(|((id, _, name), input)| {
                    (ids[usize::from(*id)], ["read", "grep"][usize::from(*name)], input)
                })
                .collect();
            let repeated = told.reply(draw.text, &calls);
            checked(told);
            // Like the driver: repeated ids get an error result at once.
            for id in repeated {
                told.result(&id, false, "the same id");
                checked(told);
            }
        }
    }
}

/// Gives a random call its result.
fn results(told: &mut MachineFixture, draw: &Draw) {
    let open: Vec<String> = told.machine.open_calls().map(|call| call.id.clone()).collect();
    let id = &open[draw.order % open.len()];
    if draw.fault.is_multiple_of(2) {
        told.intend(id);
        checked(told);
    }
    if draw.fault == 5 {
        told.interrupt(id);
    } else {
        told.result(id, draw.ok, &"what it read ".repeat(draw.order * 30));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_machine_is_a_fold_of_its_events_at_every_step(
        draws in vec(draws(), 1..60),
        max_turns in prop::option::weighted(0.8, 1..7_u32),
        schema in any::<bool>(),
    ) {
        let schema = schema.then(|| json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
        let mut told = MachineFixture::new(max_turns, schema.as_ref());
        for draw in &draws {
            if !step(&mut told, draw) {
                break;
            }
            checked(&told);
        }
    }

    /// With a turn limit and a model that replies, every machine ends.
    #[test]
    fn a_limited_machine_always_ends(draws in vec(draws(), 20..40), max_turns in 1..7_u32, schema in any::<bool>()) {
        let schema = schema.then(|| json!({"type": "object"}));
        let mut told = MachineFixture::new(Some(max_turns), schema.as_ref());
        // The draws are repeated until it ends. Errors that repeat a call for ever are excluded.
        let draws: Vec<Draw> = draws.into_iter().map(|draw| Draw { fault: 19, aside: 11, ..draw }).collect();
        let ended = draws.iter().cycle().take(2_000).any(|draw| !step(&mut told, draw));
        prop_assert!(ended, "{:?}", told.next());
    }
}
