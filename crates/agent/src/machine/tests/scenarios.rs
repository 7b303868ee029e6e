//! The machine's decisions, one scenario at a time.

use posse_domain::budget::REPORT_INPUT_TOKENS;
use posse_domain::code::Code;
use posse_domain::contract::Criterion;
use posse_domain::event::{HostNote, Purpose, ReportCause, Sender};
use posse_domain::lifecycle::FailKind;
use posse_domain::message::{Reply, ToolCall};
use serde_json::{Value, json};

use super::fixture::{MachineFixture, child, contract, hash_of, said};
use crate::conversation::{BYTES_PER_TOKEN, Conversation, Message};
use crate::machine::{AttemptFailure, Machine, Next, REPORT_SYSTEM_MAX_BYTES, Slot, accept};
use crate::notes;

fn done(report: &str) -> Next {
    Next::Done { report: report.into(), turns_exhausted: false }
}

#[test]
fn one_answer_is_the_report() {
    let mut told = MachineFixture::new(Some(5), None);
    assert_eq!(told.ask(), (1, Purpose::Work));
    told.reply("Found it.", &[]);
    assert_eq!(told.next(), done("Found it."));
    assert_eq!(said(&told.machine), ["user: Find it.", "model: Found it.[]"]);
    assert_eq!((told.machine.turn(), told.machine.attempt(), told.machine.active_ms()), (1, 1, 10));
}

#[test]
fn results_go_back_in_the_order_of_the_calls_once_all_are_there() {
    let mut told = MachineFixture::new(Some(5), None);
    told.ask();
    told.reply(
        "I look.",
        &[("a", "read", json!({})), ("b", "read", json!({"n": 2})), ("c", "read", json!({"n": 3}))],
    );
    assert_eq!(told.next(), Next::CallTools);
    told.result("c", true, "three");
    told.interrupt("a");
    let open: Vec<&str> = told.machine.open_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(open, ["b"]);
    assert_eq!(told.next(), Next::CallTools);
    told.result("b", true, "two");
    assert_eq!(said(&told.machine)[2], "results: a=outcome unknown b=two c=three");
    assert_eq!(told.ask(), (2, Purpose::Work));
    assert_eq!(told.machine.active_ms(), 10 + 30, "of calls that ran together the longest counts");
}

#[test]
fn a_call_counts_as_objected_to_by_the_note_of_a_hook_and_by_no_other_message() {
    let unread = |told: &MachineFixture| -> Vec<String> {
        assert_eq!(told.folded(), told.machine);
        told.machine.unread_results().into_iter().map(|(call, _)| call.id.clone()).collect()
    };
    let mut told = MachineFixture::new(Some(5), None);
    told.ask();
    told.reply("", &[("a", "read", json!({})), ("b", "read", json!({"n": 2}))]);
    told.result("a", true, "one");
    let objection = format!("{}no", notes::hook_objects("read", "a"));
    told.message(Sender::Child(child()), &objection);
    assert_eq!(unread(&told), ["a"], "a child's report may say anything");
    told.message(Sender::Host(HostNote::Hook), &objection);
    assert_eq!(unread(&told), [""; 0]);
    told.result("b", true, "two");
    assert_eq!(unread(&told), ["b"], "also when the turn is over");
    told.ask();
    told.reply("", &[("a", "read", json!({"n": 3}))]);
    told.result("a", true, "three");
    assert_eq!(unread(&told), ["a"], "a later call with the same id is another call");
}

#[test]
fn a_second_result_for_a_call_changes_nothing() {
    let mut told = MachineFixture::new(Some(5), None);
    told.ask();
    told.reply("", &[("a", "read", json!({})), ("b", "read", json!({"n": 2}))]);
    told.result("a", true, "one");
    let before = told.machine.clone();
    told.result("a", true, "again");
    told.intend("a");
    told.result("nobody", true, "what");
    assert_eq!(told.machine, before);
    assert!(matches!(told.machine.calls().1[0], Slot::Done { .. }));
}

#[test]
fn the_last_turn_is_kept_for_the_report() {
    let mut told = MachineFixture::new(Some(3), None);
    told.turn(&[("a", "read", json!({"n": 1}))], true, "one");
    told.turn(&[("a", "read", json!({"n": 2}))], true, "two");
    assert_eq!(told.ask(), (3, Purpose::Report));
    assert!(said(&told.machine).last().expect("said").contains("This is your last turn"), "it is told");
    assert!(told.machine.is_reporting());
    told.reply("My report.", &[]);
    assert_eq!(told.next(), Next::Done { report: "My report.".into(), turns_exhausted: true });
    assert_eq!(said(&told.machine).last().expect("said"), "model: My report.[]");
}

#[test]
fn a_last_reply_that_still_calls_tools_is_not_a_report() {
    for text in ["I am far from done.", "", " \n"] {
        let mut told = MachineFixture::new(Some(1), None);
        told.ask();
        told.reply(text, &[("z", "read", json!({}))]);
        let Next::Fail(broken) = told.next() else { panic!("{text}: {:?}", told.next()) };
        assert_eq!((broken.kind, broken.code), (FailKind::Execution, Code::TurnLimit), "{text}");
        let reason = &broken.reason;
        assert!(
            reason.contains("reached its limit of 1 turn;") && reason.contains("called tools"),
            "{reason}"
        );
        assert_eq!(broken.report, None, "what it said is in its trace, and is no report");
        // Calls in a report turn are not part of the conversation.
        assert!(said(&told.machine).last().expect("said").ends_with("[]"));
    }
}

#[test]
fn an_agent_that_owes_json_is_asked_for_json_on_its_last_turn() {
    let schema = json!({"type": "array"});
    for cause in [None, Some(ReportCause::Budget), Some(ReportCause::Time)] {
        let mut told = MachineFixture::new(Some(1), Some(&schema));
        told.ask_because(cause);
        let last = said(&told.machine).pop().expect("said");
        assert!(last.contains("only the JSON") && !last.contains("Write your report"), "{last}");
    }
}

/// A condensed conversation is one plain message, however long the conversation is and whatever it contains.
#[test]
fn a_conversation_is_condensed_to_a_named_size() {
    let long = "ü".repeat(40_000);
    let many: Vec<(String, Value)> =
        (0..50).map(|n| (format!("c{n}"), json!({"n": n, "text": long}))).collect();
    let calls: Vec<(&str, &str, Value)> =
        many.iter().map(|(id, input)| (id.as_str(), "read", input.clone())).collect();
    for (name, first, texts) in [
        ("nothing was said", "Find it.", vec![]),
        ("an empty assignment", "", vec!["a"]),
        ("short texts", "Find it.", vec!["a", "b", "c"]),
        ("a long assignment", long.as_str(), vec!["a"]),
        ("long outputs", "Find it.", vec![long.as_str(); 5]),
        ("a long output before a short one", "Find it.", vec![long.as_str(), "the newest"]),
        ("many turns", "Find it.", vec!["found a little"; 300]),
        ("headings in an output", "Find it.", vec!["# Your assignment\n\nSomething else."]),
        ("an output of blanks", "Find it.", vec![" \n "]),
        ("characters of four bytes", "🦀", vec!["🦀🦀🦀🦀🦀"; 100]),
    ] {
        let mut told = MachineFixture::new(None, None);
        told.contract.step.description = first.to_owned();
        told.machine = Machine::new(&told.contract, Conversation::default());
        for (at, text) in texts.iter().enumerate() {
            told.turn(&[("a", "read", json!({"n": at}))], true, text);
        }
        if name == "many turns" {
            told.turn(&calls, true, "wide");
        }
        told.ask_because(Some(ReportCause::Budget));
        for system_bytes in [0, 500, REPORT_SYSTEM_MAX_BYTES] {
            let Message::User(text) = told.machine.condensed(ReportCause::Budget, system_bytes) else {
                panic!("{name}: not plain text")
            };
            let most = REPORT_INPUT_TOKENS * BYTES_PER_TOKEN;
            assert!((text.len() + system_bytes) as u64 <= most, "{name}: {} bytes", text.len());
            assert!(text.starts_with("# Your assignment"), "{name}: {text}");
            assert_eq!(text.matches("Your budget is used up").count(), 1, "{name}: {text}");
            assert!(
                text.trim_end().ends_with("left undone."),
                "{name}: it ends with what is asked for: {text}"
            );
            let newest = texts.last().filter(|text| text.len() < 100 && !text.trim().is_empty());
            assert!(newest.is_none_or(|newest| text.contains(newest)), "{name}: {text}");
        }
    }
}

#[test]
fn a_limit_of_one_turn_is_only_the_report() {
    let mut told = MachineFixture::new(Some(1), None);
    assert_eq!(told.ask(), (1, Purpose::Report));
    told.reply("Short.", &[]);
    assert_eq!(told.next(), Next::Done { report: "Short.".into(), turns_exhausted: true });
}

#[test]
fn a_report_turn_without_text_fails() {
    for text in ["", "  \n"] {
        let mut told = MachineFixture::new(Some(1), None);
        told.ask();
        told.reply(text, &[]);
        let Next::Fail(AttemptFailure { kind, code, reason, report }) = told.next() else {
            panic!("{:?}", told.next())
        };
        assert_eq!((kind, code, report), (FailKind::Execution, Code::TurnLimit, None));
        assert!(reason.contains("gave no text"), "{reason}");
    }
}

#[test]
fn an_empty_reply_is_nudged_and_costs_a_turn() {
    let mut told = MachineFixture::new(Some(3), None);
    told.ask();
    told.reply("", &[]);
    assert_eq!(told.say(), HostNote::EmptyReply);
    assert_eq!(told.ask(), (2, Purpose::Work));
    assert!(said(&told.machine).last().expect("said").contains("Your last reply was empty"));
    told.reply("", &[]);
    told.say();
    assert_eq!(told.ask(), (3, Purpose::Report), "the report turn stays the last");
}

#[test]
fn the_same_call_failing_so_often_in_a_row_ends_the_attempt() {
    let mut told = MachineFixture::new(None, None);
    let call = [("a", "read", json!({"x": 1, "y": 2}))];
    told.turn(&call, false, "no");
    told.turn(&call, false, "no");
    assert!(matches!(told.next(), Next::CallModel { .. }));
    // The order of the fields does not matter.
    told.turn(&[("b", "read", json!({"y": 2, "x": 1}))], false, "still no");
    let Next::Fail(broken) = told.next() else { panic!("{:?}", told.next()) };
    assert_eq!((broken.kind, broken.code), (FailKind::Execution, Code::ToolError));
    assert!(broken.reason.contains("`read` failed 3 times in a row") && broken.reason.contains("still no"));
}

#[test]
fn a_call_that_no_budget_is_left_for_leads_to_the_report() {
    for (child, reports) in [(None, true), (Some(child()), false)] {
        let mut told = MachineFixture::new(Some(9), None);
        for _ in 0..3 {
            assert_eq!(told.ask().1, Purpose::Work);
            told.reply("", &[("a", "task", json!({"prompt": "x"}))]);
            told.finished("a", Some(Code::BudgetExhausted), child.clone(), "no room");
        }
        if !reports {
            let Next::Fail(broken) = told.next() else { panic!("{:?}", told.next()) };
            assert_eq!(broken.code, Code::ToolError, "a child's budget is not this agent's");
            continue;
        }
        let reason = told.machine.lacks_budget().expect("a reason");
        assert!(reason.contains("`task` failed 3 times in a row") && reason.contains("no room"), "{reason}");
        assert_eq!(told.ask(), (4, Purpose::Report));
        told.reply("So far.", &[]);
        let Next::Fail(broken) = told.next() else { panic!("{:?}", told.next()) };
        assert_eq!((broken.kind, broken.code), (FailKind::Budget, Code::BudgetExhausted));
        assert_eq!(broken.report.as_deref(), Some("So far."));
    }
}

#[test]
fn a_success_or_another_input_begins_the_count_again() {
    let mut told = MachineFixture::new(None, None);
    let same = [("a", "read", json!({"x": 1}))];
    for _ in 0..3 {
        told.turn(&same, false, "no");
        told.turn(&same, false, "no");
        told.turn(&same, true, "yes");
    }
    for n in 0..10 {
        told.turn(&[("a", "read", json!({"n": n}))], false, "no");
    }
    assert!(matches!(told.next(), Next::CallModel { .. }));
}

#[test]
fn the_same_call_several_times_in_one_reply_counts_once() {
    let mut told = MachineFixture::new(None, None);
    let three =
        [("a", "read", json!({"x": 1})), ("b", "read", json!({"x": 1})), ("c", "read", json!({"x": 1}))];
    told.turn(&three, false, "no");
    assert!(matches!(told.next(), Next::CallModel { .. }), "three failures of one reply are one");
    told.ask();
    told.reply("", &three);
    told.result("a", false, "no");
    told.result("b", true, "yes");
    told.result("c", false, "no");
    told.turn(&three, false, "no");
    told.turn(&three, false, "no");
    assert!(matches!(told.next(), Next::CallModel { .. }), "one that succeeded is a success");
    told.turn(&three, false, "no");
    assert!(matches!(told.next(), Next::Fail(_)));
}

#[test]
fn an_interrupted_call_counts_as_failed() {
    let mut told = MachineFixture::new(None, None);
    for _ in 0..3 {
        told.ask();
        told.reply("", &[("a", "read", json!({}))]);
        told.interrupt("a");
    }
    assert!(matches!(told.next(), Next::Fail(_)));
}

#[test]
fn a_failed_model_call_breaks_the_attempt_and_an_interrupted_one_is_repeated_in_its_turn() {
    for (code, kind) in [(Code::Timeout, FailKind::Timeout), (Code::ModelError, FailKind::Execution)] {
        let mut told = MachineFixture::new(Some(5), None);
        told.ask();
        told.fail(code, "it went wrong");
        let Next::Fail(broken) = told.next() else { panic!("{:?}", told.next()) };
        assert_eq!((broken.kind, broken.code, broken.reason.as_str()), (kind, code, "it went wrong"));
    }
    let mut told = MachineFixture::new(Some(5), None);
    told.turn(&[("a", "read", json!({}))], true, "one");
    told.ask();
    told.fail(Code::Interrupted, "the process ended");
    assert!(matches!(told.next(), Next::CallModel { turn: 2, call: 2, purpose: Purpose::Work, cause: None }));
    told.ask();
    told.fail(Code::Interrupted, "again");
    assert!(matches!(told.next(), Next::CallModel { turn: 2, call: 3, .. }));
    told.ask();
    told.reply("Found.", &[]);
    assert_eq!(told.next(), done("Found."));
    assert_eq!(said(&told.machine).len(), 4, "nothing was said twice: {:?}", said(&told.machine));
}

#[test]
fn a_repeated_call_is_told_of_the_report_once_also_if_only_the_second_is_one() {
    let mut told = MachineFixture::new(Some(1), None);
    told.ask();
    told.fail(Code::Interrupted, "the process ended");
    assert_eq!(told.ask(), (1, Purpose::Report));
    assert_eq!(said(&told.machine).len(), 2, "{:?}", said(&told.machine));
    // The first call was work, and its reservation leaves only enough for the report.
    let mut told = MachineFixture::new(Some(9), None);
    told.ask();
    told.fail(Code::Interrupted, "the process ended");
    told.ask_because(Some(ReportCause::Budget));
    let last = said(&told.machine).pop().expect("said");
    assert!(last.contains("Your budget is used up"), "{last}");
}

#[test]
fn a_report_asked_for_by_the_budget_fails_with_what_it_says() {
    let mut told = MachineFixture::new(Some(9), None);
    told.turn(&[("a", "read", json!({}))], true, "one");
    told.ask_because(Some(ReportCause::Budget));
    told.message(Sender::Person, "hurry");
    told.reply("So far.", &[]);
    let Next::Fail(broken) = told.next() else { panic!("{:?}", told.next()) };
    assert_eq!((broken.kind, broken.code), (FailKind::Budget, Code::BudgetExhausted));
    assert_eq!(broken.reason, "the budget of the run is exhausted", "it says which budget");
    let report = broken.report.expect("a report");
    assert!(report.starts_with("So far.") && report.contains("hurry"), "{report}");
}

#[test]
fn a_wrong_answer_is_told_once_and_mended_beyond_the_limit() {
    let schema = json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}});
    for mended in [true, false] {
        let mut told = MachineFixture::new(Some(2), Some(&schema));
        told.turn(&[("a", "read", json!({}))], true, "one");
        assert_eq!(told.ask(), (2, Purpose::Report));
        told.reply(r#"{"n": "two"}"#, &[]);
        assert_eq!(told.say(), HostNote::SchemaMismatch);
        assert_eq!(told.ask(), (3, Purpose::Report), "one more turn, beyond the limit");
        let said = said(&told.machine);
        assert!(said[said.len() - 2].contains("at /n"), "it is told what is wrong: {said:?}");
        told.reply(if mended { "```json\n{\"n\": 2}\n```" } else { "no" }, &[]);
        match told.next() {
            Next::Done { report, turns_exhausted } if mended => {
                assert!(report.contains("\"n\": 2") && turns_exhausted);
            }
            Next::Fail(broken) if !mended => {
                assert_eq!(broken.kind, FailKind::Execution);
                assert_eq!(broken.report.as_deref(), Some("no"));
                assert!(broken.reason.contains("does not satisfy its schema"), "{}", broken.reason);
            }
            other => panic!("{mended}: {other:?}"),
        }
    }
}

#[test]
fn a_report_answers_every_criterion_or_is_written_again_once() {
    let criteria =
        ["it prints its version", "it is documented"].map(|words| Criterion::Words(words.to_owned()));
    let whole =
        "Done.\n\n- **Criterion 1:** met, `--version` prints 1.0\nCriterion 2: not met, there was no time";
    for (first, second, ends_well) in [
        (whole, "", true),
        ("Done.", whole, true),
        ("Criterion 1: met", "Criterion 2: met", false),
        ("criterion 12: met", "Done, criterion 1: and criterion 2: are met.", false),
    ] {
        let mut told = MachineFixture::new(Some(2), None);
        told.contract.step.success_criteria = criteria.to_vec();
        told.machine = Machine::new(&told.contract, Conversation::default());
        told.turn(&[("a", "read", json!({}))], true, "one");
        told.ask();
        told.reply(first, &[]);
        if !second.is_empty() {
            assert_eq!(told.say(), HostNote::CriteriaUnanswered);
            assert_eq!(told.ask(), (3, Purpose::Report), "one more turn, beyond the limit");
            told.reply(second, &[]);
        }
        match told.next() {
            Next::Done { report, .. } if ends_well => assert_eq!(&*report, whole),
            Next::Fail(broken) if !ends_well => {
                assert!(broken.reason.contains("says nothing about criterion 1"), "{}", broken.reason);
                assert!(!broken.reason.contains("Your report"), "others read it: {}", broken.reason);
                assert_eq!(broken.report.as_deref(), Some(second), "what it said is kept");
            }
            other => panic!("{first}: {other:?}"),
        }
    }
}

#[test]
fn an_answer_that_fits_its_schema_needs_no_mending() {
    let mut told = MachineFixture::new(Some(5), Some(&json!({"type": "array"})));
    told.ask();
    told.reply("[1, 2]", &[]);
    assert_eq!(told.next(), done("[1, 2]"));
}

#[test]
fn an_agent_with_open_children_is_idle_and_each_completion_wakes_it_for_a_turn() {
    let mut told = MachineFixture::new(Some(9), None);
    told.children = true;
    told.ask();
    told.reply("I wait.", &[]);
    assert_eq!(told.next(), Next::Idle);
    told.message(Sender::Child(child()), "Task 1.1 has completed.");
    assert_eq!(told.ask(), (2, Purpose::Work));
    assert_eq!(said(&told.machine).last().expect("said"), "user: Task 1.1 has completed.");
    told.reply("I wait for the other.", &[]);
    assert_eq!(told.next(), Next::Idle);
    told.children = false;
    assert_eq!(told.next(), done("I wait for the other."));
}

#[test]
fn without_a_turn_left_what_was_not_read_is_added_to_the_report() {
    let mut told = MachineFixture::new(Some(1), None);
    told.children = true;
    told.ask();
    told.reply("My report.", &[]);
    told.message(Sender::Child(child()), "Task 1.1 has completed.");
    assert_eq!(told.next(), Next::Idle, "it waits for its other children");
    told.message(Sender::Person, "Thanks.");
    told.children = false;
    let Next::Done { report, turns_exhausted } = told.next() else { panic!("{:?}", told.next()) };
    assert!(turns_exhausted);
    assert!(report.starts_with("My report.\n\n---\n"), "{report}");
    assert!(report.contains("Task 1.1 has completed.") && report.contains("Thanks."), "{report}");
    assert_eq!(told.machine.report_so_far(), Some(report));
}

#[test]
fn messages_wait_for_the_next_turn_and_say_who_wrote_them() {
    let mut told = MachineFixture::new(Some(9), None);
    told.ask();
    told.message(Sender::Person, "Look left.");
    told.message(Sender::Agent("k3f9ab2c".parse().expect("id")), "And right.");
    assert_eq!(said(&told.machine).len(), 1, "not into a turn under way");
    told.reply("", &[("a", "read", json!({}))]);
    told.result("a", true, "one");
    told.ask();
    let said = said(&told.machine);
    assert!(said[3].contains("Message from the user:\nLook left."), "{said:?}");
    assert!(said[4].contains("the agent that delegated") && said[4].ends_with("And right."), "{said:?}");
}

#[test]
fn a_message_to_an_agent_that_has_answered_gives_it_another_turn() {
    let mut told = MachineFixture::new(Some(9), None);
    told.ask();
    told.reply("Done.", &[]);
    told.message(Sender::Person, "One more thing.");
    assert_eq!(told.ask(), (2, Purpose::Work));
}

#[test]
fn a_retry_has_a_fresh_conversation_with_one_paragraph_on_why() {
    let mut told = MachineFixture::new(Some(9), None);
    told.turn(&[("a", "read", json!({}))], false, "no");
    told.message(Sender::Person, "Careful.");
    told.ask();
    told.fail(Code::ModelError, "overloaded");
    told.message(Sender::Person, "Again, please.");
    told.retry("overloaded.");
    let said_now = said(&told.machine);
    assert_eq!(said_now.len(), 2, "{said_now:?}");
    assert_eq!(said_now[0], "user: Find it.");
    assert!(said_now[1].contains("ended: overloaded. "), "{}", said_now[1]);
    assert_eq!((told.machine.attempt(), told.machine.turn(), told.machine.active_ms()), (2, 0, 0));
    assert_eq!(told.machine.tags().get("rule:1"), Some(&2), "what a model remembers outlives an attempt");
    assert_eq!(told.ask(), (1, Purpose::Work));
    assert!(
        said(&told.machine)[2].contains("Again, please."),
        "what came while it ended is for the new attempt"
    );
    // A new attempt starts to count failures again.
    for _ in 0..2 {
        told.reply("", &[("a", "read", json!({}))]);
        told.result("a", false, "no");
        told.ask();
    }
}

#[test]
fn a_child_that_continues_another_begins_with_its_conversation() {
    let mut first = MachineFixture::new(Some(5), None);
    first.ask();
    first.reply("It is left.", &[]);
    let prior = first.machine.conversation().clone();
    let mut machine = Machine::new(&contract(Some(5), None), prior.clone());
    assert_eq!(said(&machine), ["user: Find it.", "model: It is left.[]", "user: Find it."]);
    assert_ne!(hash_of(&machine), prior.hash());
    // A retry starts from the same point.
    let again = posse_domain::event::SubagentAttempt {
        n: 2,
        kind: FailKind::Timeout,
        code: Code::Timeout,
        reason: "slow".to_owned(),
        in_place: false,
    };
    machine.apply(&again.into());
    assert_eq!(said(&machine)[..3], ["user: Find it.", "model: It is left.[]", "user: Find it."]);
    assert_eq!(said(&machine).len(), 4);
}

#[test]
fn files_that_were_seen_are_remembered_until_the_attempt_ends() {
    let mut told = MachineFixture::new(Some(5), None);
    told.ask();
    told.reply("", &[("a", "read", json!({}))]);
    let hash = posse_domain::hash::Hash::of(b"x");
    told.tell(posse_domain::event::ToolFinished {
        call_id: "a".to_owned(),
        tool: "read".to_owned(),
        ok: true,
        code: None,
        output: "x".into(),
        child: None,
        seen: vec![posse_domain::event::SeenFile { path: "a.rs".to_owned(), hash }],
        files: None,
        files_problem: None,
        elapsed_ms: 1,
        images: Vec::new(),
    });
    assert_eq!(told.machine.seen_files().get("a.rs"), Some(&hash));
    told.retry("x");
    assert!(told.machine.seen_files().is_empty());
}

#[test]
fn every_call_of_an_accepted_reply_has_an_id_of_its_own() {
    let call = |id: &str| ToolCall { id: id.to_owned(), name: "read".to_owned(), input: json!({}) };
    let table: [(&[&str], &[&str], &[&str]); 9] = [
        (&["a", "b"], &["a", "b"], &[]),
        (&["a", "a", "a"], &["a", "a~2", "a~3"], &["a~2", "a~3"]),
        (&["", ""], &["call_1", "call_2"], &[]),
        // An id from the model is kept, even if it looks like a generated one.
        (&["a", "a", "a~2"], &["a", "a~3", "a~2"], &["a~3"]),
        (&["", "call_1"], &["call_1~2", "call_1"], &[]),
        (&["call_2", ""], &["call_2", "call_2~2"], &[]),
        (&["a~2", "a~2", "a", "a"], &["a~2", "a~2~2", "a", "a~3"], &["a~2~2", "a~3"]),
        // A model must not use the ids of the host's own calls.
        (&["a/command-7", "a", "step-2"], &["call_1", "a", "call_3"], &[]),
        (&["a/command-7", "a/command-7"], &["call_1", "call_2"], &[]),
    ];
    for (given, expected, doubled) in table {
        let reply = Reply { text: "".into(), calls: given.iter().map(|id| call(id)).collect(), raw: None };
        let (reply, repeated) = accept(reply);
        let ids: Vec<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, expected, "{given:?}");
        assert_eq!(repeated, doubled, "{given:?}");
    }
}

#[test]
fn ten_thousand_calls_of_one_id_are_told_apart() {
    let call = |_| ToolCall { id: "same".to_owned(), name: "read".to_owned(), input: json!({}) };
    let (reply, repeated) =
        accept(Reply { text: "".into(), calls: (0..10_000).map(call).collect(), raw: None });
    let ids: std::collections::HashSet<&str> = reply.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!((ids.len(), repeated.len()), (10_000, 9_999));
}

#[test]
fn results_of_a_wide_reply_find_their_place() {
    let calls: Vec<ToolCall> = (0..10_000)
        .map(|n| ToolCall { id: n.to_string(), name: "read".to_owned(), input: json!({"n": n}) })
        .collect();
    let mut told = MachineFixture::new(Some(5), None);
    told.ask();
    let given: Vec<(String, String)> =
        calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
    let borrowed: Vec<(&str, &str, serde_json::Value)> =
        given.iter().map(|(id, name)| (id.as_str(), name.as_str(), json!({"n": id}))).collect();
    told.reply("", &borrowed);
    for (id, _) in given.iter().rev() {
        told.result(id, true, id);
    }
    let Message::Results(results) = &**told.machine.conversation().messages().last().expect("results") else {
        panic!("results")
    };
    assert!(
        results.iter().zip(&given).all(|(result, (id, _))| *result.call_id == **id && *result.text == **id)
    );
}

#[test]
fn the_conversation_of_two_machines_told_the_same_has_one_hash() {
    let play = |text: &str| {
        let mut told = MachineFixture::new(Some(5), None);
        told.turn(&[("a", "read", json!({"b": 1, "a": 2}))], true, text);
        hash_of(&told.machine)
    };
    assert_eq!(play("one"), play("one"));
    assert_ne!(play("one"), play("two"));
    assert_ne!(play("one"), Conversation::default().hash());
}
