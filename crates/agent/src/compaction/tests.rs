//! What a compaction keeps: the assignment, whole newest turns, and less than there was before.

use posse_domain::message::ToolCall;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const ASSIGNMENT: &str = "Find it.";

/// A turn: the size of the reply's text, the sizes of its results, and whether a message follows.
type Turn = (usize, Vec<usize>, bool);

fn push_turn(conversation: &mut Conversation, number: usize, (text, sizes, told): &Turn) {
    let id = |at: usize| format!("call_{number}_{at}");
    let call = |at: usize| ToolCall { id: id(at), name: "read".to_owned(), input: json!({"path": "a"}) };
    let result = |(at, size): (usize, &usize)| CallResult {
        call_id: id(at).into(),
        tool: "read".into(),
        ok: true,
        text: "x".repeat(*size).into(),
        images: Vec::new(),
    };
    conversation.push(Message::Assistant {
        text: "t".repeat(*text).into(),
        calls: (0..sizes.len()).map(call).collect(),
        raw: None,
    });
    if !sizes.is_empty() {
        conversation.push(Message::Results(sizes.iter().enumerate().map(result).collect()));
    }
    if *told {
        conversation.push(Message::User("Look left.".into()));
    }
}

/// A conversation with earlier turns before its assignment, and the position of the assignment.
fn conversation(earlier: &[Turn], turns: &[Turn]) -> (Conversation, usize) {
    let mut conversation = Conversation::default();
    for (number, turn) in earlier.iter().enumerate() {
        push_turn(&mut conversation, number, turn);
    }
    let assignment = conversation.messages().len();
    conversation.push(Message::User(ASSIGNMENT.into()));
    for (number, turn) in turns.iter().enumerate() {
        push_turn(&mut conversation, earlier.len() + number, turn);
    }
    (conversation, assignment)
}

fn compacted(conversation: &Conversation, assignment: usize, cut: CutPoint) -> Conversation {
    let summary = bounded(&"s".repeat(1 << 20), cut.summary_tokens);
    let mut after = conversation.clone();
    after.compact(assignment, cut.messages, Message::User(notes::summary(&summary).into()));
    after
}

fn turns(sizes: &[usize]) -> Vec<Turn> {
    sizes.iter().map(|size| (10, vec![*size], false)).collect()
}

#[test]
fn the_newest_turns_that_fit_half_of_the_window_stay() {
    let (whole, assignment) = conversation(&[], &turns(&[8_000; 10]));
    // Each turn has about 2,000 tokens. The window has room for eight, half of it for four less the summary.
    let cut = cut(&whole, assignment, 0, 16_000, false).expect("too long");
    let after = compacted(&whole, assignment, cut);
    assert_eq!(after.messages()[0], whole.messages()[0], "the assignment");
    assert_eq!(after.messages()[2..], whole.messages()[whole.messages().len() - 4..], "two turns");
    assert!(after.estimated_tokens() <= 8_000, "{}", after.estimated_tokens());
}

#[test]
fn the_newest_turn_stays_however_long_it_is() {
    let (whole, assignment) = conversation(&[], &turns(&[8_000, 8_000, 40_000]));
    let cut = cut(&whole, assignment, 0, 12_000, false).expect("too long");
    assert_eq!(cut.messages, 5, "all but the newest turn");
}

#[test]
fn a_conversation_without_older_turns_cannot_be_cut() {
    let (whole, assignment) = conversation(&[], &turns(&[80_000]));
    for refused in [false, true] {
        assert_eq!(cut(&whole, assignment, 0, 12_000, refused), None);
    }
    let (whole, assignment) = conversation(&[], &[]);
    assert_eq!(cut(&whole, assignment, 0, 1, true), None);
}

#[test]
fn an_earlier_conversation_is_summarised_before_anything_else() {
    let (whole, assignment) = conversation(&turns(&[40_000; 3]), &turns(&[400]));
    let cut = cut(&whole, assignment, 0, 16_000, false).expect("too long");
    assert_eq!(cut.messages, assignment + 1, "all turns since the assignment stay");
    let after = compacted(&whole, assignment, cut);
    assert_eq!(after.messages()[0], whole.messages()[assignment], "the assignment comes first");
}

#[test]
fn a_refused_conversation_is_halved_although_it_seems_to_fit() {
    let (whole, assignment) = conversation(&[], &turns(&[8_000; 10]));
    assert_eq!(cut(&whole, assignment, 0, 1_000_000, false).map(|cut| cut.messages), None);
    let cut = cut(&whole, assignment, 0, 1_000_000, true).expect("refused");
    let after = compacted(&whole, assignment, cut);
    assert!(after.estimated_tokens() <= whole.estimated_tokens() / 2);
}

#[test]
fn a_summary_is_summarised_again_with_the_turns_after_it() {
    let (mut whole, mut assignment) = conversation(&[], &[]);
    for round in 0..6 {
        for number in 0..12 {
            push_turn(&mut whole, round * 12 + number, &(10, vec![4_000], false));
        }
        let cut = cut(&whole, assignment, 0, 9_000, false).expect("too long again");
        whole = compacted(&whole, assignment, cut);
        assignment = 0;
        assert!(whole.estimated_tokens() <= 4_500, "round {round}: {}", whole.estimated_tokens());
        assert_eq!(
            whole.messages().iter().filter(|message| message.bytes() > 4_100).count(),
            1,
            "one summary"
        );
    }
}

#[test]
fn the_request_for_a_summary_omits_the_oldest_outputs_first() {
    let (whole, _) = conversation(&[], &turns(&[8_000; 4]));
    let all = request(whole.messages(), ASSIGNMENT, 1_000_000);
    assert_eq!(all.messages()[..9], *whole.messages(), "as the model knows them, for the provider's cache");
    let less = request(whole.messages(), ASSIGNMENT, 5_000);
    let outputs: Vec<bool> = less
        .messages()
        .iter()
        .filter_map(|message| match &**message {
            Message::Results(results) => Some(results[0].text.starts_with('x')),
            _ => None,
        })
        .collect();
    assert_eq!(outputs, [false, false, true, true]);
    let text = request(whole.messages(), ASSIGNMENT, 400);
    assert_eq!(text.messages().len(), 2, "one text, and the request");
}

#[test]
fn the_longest_part_of_the_newest_turn_is_named() {
    let (long, _) = conversation(&[], &[(10, vec![9_000], false), (10, vec![20, 5_000], true)]);
    assert_eq!(longest_part(&long), "the result of `read` (call call_1_1) has 5000 bytes");
    let mut told = long;
    told.push(Message::User("y".repeat(6_000).into()));
    assert_eq!(longest_part(&told), "a message to the model has 6000 bytes");
}

fn some_turns(most: usize) -> impl Strategy<Value = Vec<Turn>> {
    let size = prop_oneof![0..200_usize, 200..9_000_usize];
    vec((0..400_usize, vec(size, 0..4), any::<bool>()), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_cut_keeps_pairs_and_the_assignment_and_makes_it_shorter(
        earlier in some_turns(4),
        turns in some_turns(8),
        window in 0..30_000_u64,
        refused in any::<bool>(),
        added in 0..500_u64,
    ) {
        let (whole, assignment) = conversation(&earlier, &turns);
        let Some(cut) = cut(&whole, assignment, added, window, refused) else { return Ok(()) };
        let after = compacted(&whole, assignment, cut);
        let kept = &whole.messages()[cut.messages..];
        prop_assert!(after.estimated_tokens() < whole.estimated_tokens());
        prop_assert_eq!(&after.messages()[0], &whole.messages()[assignment]);
        prop_assert_eq!(&after.messages()[2..], kept, "the newest messages, word for word");
        prop_assert!(!matches!(kept.first().map(|message| &**message), Some(Message::Results(_))));
        let newest = whole.messages().iter().rposition(|message| message.is_reply());
        prop_assert!(newest.is_none_or(|at| at < assignment || cut.messages <= at), "the newest turn stays");
    }

    #[test]
    fn the_request_for_a_summary_is_never_longer_than_it_may_be(
        turns in some_turns(8),
        input_tokens in 400..20_000_u64,
    ) {
        let (whole, _) = conversation(&[], &turns);
        let request = request(whole.messages(), ASSIGNMENT, input_tokens);
        prop_assert!(request.estimated_tokens() <= input_tokens, "{}", request.estimated_tokens());
    }

    #[test]
    fn a_summary_of_the_host_has_its_length(turns in some_turns(8), summary_tokens in 64..4_096_u64) {
        let (whole, _) = conversation(&[], &turns);
        let summary = host_summary(whole.messages(), ASSIGNMENT, summary_tokens);
        prop_assert!(summary.len() <= summary_max_bytes(summary_tokens));
        prop_assert!(summary.starts_with(notes::HOST_SUMMARY));
    }
}
