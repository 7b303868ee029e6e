//! Trimming a conversation: the oldest outputs are replaced first, by a placeholder, and only once.

use std::sync::Arc;

use posse_domain::event::ContextTrimmed;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

use super::fixture::{MachineFixture, hash_of, said};
use crate::conversation::{CallResult, Conversation, Message};

/// A conversation of turns with results of these sizes. The ids repeat in every turn.
fn conversation(turns: &[Vec<usize>]) -> Conversation {
    let mut conversation = Conversation::default();
    conversation.push(Message::User("Find it.".into()));
    for sizes in turns {
        conversation.push(Message::Assistant { text: "I look.".into(), calls: Arc::new([]), raw: None });
        let result = |(at, size): (usize, &usize)| CallResult {
            call_id: format!("call_{at}").into(),
            tool: "read".into(),
            ok: true,
            text: "x".repeat(*size).into(),
            images: Vec::new(),
        };
        conversation.push(Message::Results(sizes.iter().enumerate().map(result).collect()));
    }
    conversation
}

fn outputs(conversation: &Conversation) -> Vec<Vec<usize>> {
    conversation
        .messages()
        .iter()
        .filter_map(|message| match &**message {
            Message::Results(results) => Some(results.iter().map(|result| result.text.len()).collect()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_short_conversation_is_left_alone() {
    let conversation = conversation(&[vec![1_000], vec![1_000]]);
    assert_eq!(conversation.excess(10_000), [""; 0]);
}

#[test]
fn the_oldest_outputs_go_first_and_the_newest_stay() {
    let mut trimmed = conversation(&[vec![4_000], vec![4_000], vec![4_000], vec![4_000]]);
    let whole = trimmed.clone();
    let limit = trimmed.estimated_tokens() - 1_500;
    let ids = trimmed.excess(limit);
    assert_eq!(ids, ["call_0", "call_0"], "two of them, by the ids that came again");
    let freed = trimmed.trim(&ids);
    let sizes = outputs(&trimmed);
    assert!(sizes[0][0] < 200 && sizes[1][0] < 200, "{sizes:?}");
    assert_eq!((sizes[2][0], sizes[3][0]), (4_000, 4_000), "nothing newer went with them");
    assert_eq!(freed, (4_000 - sizes[0][0] as u64) * 2);
    assert!(trimmed.estimated_tokens() <= limit);
    assert_ne!(trimmed.hash(), whole.hash(), "another conversation has another hash");
    let Message::Results(results) = &*trimmed.messages()[2].clone() else { panic!("results") };
    assert!(results[0].text.contains("left out") && results[0].text.contains("4000 bytes of `read`"));
}

#[test]
fn what_is_trimmed_is_trimmed_once() {
    let mut conversation = conversation(&[vec![4_000, 300], vec![100], vec![4_000], vec![4_000]]);
    let ids = conversation.excess(0);
    assert!(conversation.trim(&ids) > 0);
    let (hash, sizes) = (conversation.hash(), outputs(&conversation));
    assert_eq!(conversation.excess(0), [""; 0], "nothing is left that could go");
    assert_eq!(conversation.trim(&ids), 0);
    assert_eq!((conversation.hash(), outputs(&conversation)), (hash, sizes.clone()));
    assert_eq!(sizes[1], [100], "what is shorter than its mark stays");
    assert_eq!(sizes[3], [4_000], "what the model is working with stays");
}

#[test]
fn trimming_is_an_event_like_any_other() {
    let mut told = MachineFixture::new(None, None);
    for n in 0..5 {
        told.turn(&[("same", "read", json!({"n": n}))], true, &"x".repeat(2_000));
    }
    let before = hash_of(&told.machine);
    let limit = told.machine.conversation().estimated_tokens() - 400;
    let call_ids = told.machine.conversation().excess(limit);
    assert_eq!(call_ids, ["same"]);
    told.tell(ContextTrimmed { call_ids, freed_bytes: 0 });
    assert_ne!(hash_of(&told.machine), before);
    assert_eq!(told.folded(), told.machine);
    let said = said(&told.machine);
    assert_eq!(said.iter().filter(|line| line.contains("left out")).count(), 1, "{said:?}");
    assert!(said[2].contains("left out"), "the oldest");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn trimming_brings_it_under_the_limit_or_leaves_nothing_to_trim(
        turns in vec(vec(prop_oneof![0..400_usize, 400..6_000_usize], 0..5), 0..8),
        percent in 0..120_u64,
    ) {
        let mut trimmed = conversation(&turns);
        let whole = trimmed.clone();
        let limit = whole.estimated_tokens() * percent / 100;
        let ids = trimmed.excess(limit);
        let freed = trimmed.trim(&ids);
        let bytes = |of: &Conversation| outputs(of).iter().flatten().sum::<usize>() as u64;
        prop_assert_eq!(bytes(&whole) - bytes(&trimmed), freed);
        prop_assert_eq!(trimmed.messages().len(), whole.messages().len());
        prop_assert!(trimmed.estimated_tokens() <= limit || trimmed.excess(0).is_empty());
        prop_assert_eq!(ids.is_empty(), freed == 0);
        prop_assert_eq!(ids.is_empty(), trimmed.hash() == whole.hash());
        // Size and hash are updated incrementally. They must equal those of a full walk over the messages.
        let mut again = Conversation::default();
        trimmed.messages().iter().for_each(|message| again.push((**message).clone()));
        prop_assert_eq!(&again, &trimmed);
    }
}
