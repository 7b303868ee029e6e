//! Children that begin with their parent's conversation, over HTTP: both requests have the same prefix, so that the
//! provider finds it in its cache; and without the user's permission nothing is shared.

use posse_testkit::mock::{Answer, LogEntry, MockReply, MockRequest};
use serde_json::json;

use crate::models_world::{MODELS, World};

const REQUEST: &str = "The canary sings at dawn. Find out about the file.";
/// The beginning of the message between a parent's conversation and its child's work.
const HANDOVER: &str = "Everything above is the conversation of the agent";
/// The last text that the root reads before it delegates.
const LAST_READ: &[u8] = b"hello from the file";

/// A root that reads a file and starts a child that shares its history.
fn sharing(asked: &MockRequest) -> Answer {
    let task =
        json!({"subagent_type": "explore", "description": "look", "prompt": "Look.", "share_history": true});
    let say = match (asked.contains(HANDOVER), asked.turn()) {
        (true, _) => MockReply::text("I have seen it."),
        (false, 1) => MockReply::text("I read.").call("read", &json!({"path": "hello.txt"})),
        (false, 2) => MockReply::text("I delegate.").call("task", &task),
        (false, _) => {
            MockReply::text(format!("Told: {}", asked.results().pop().map_or_else(String::new, |it| it.text)))
        }
    };
    say.into()
}

fn contains(logged: &LogEntry, text: &str) -> bool {
    logged.body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn what_a_child_that_shares_sends_begins_with_the_bytes_that_its_parent_sent() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", sharing);
        let result = world.run(&["--json", "--may-share-history", REQUEST]).exits(0).result();
        let text = result["text"].as_str().expect("a text");
        assert!(text.contains("I have seen it."), "{wire_format:?}: {text}");
        let log = world.mock.requests();
        let child = log.iter().find(|logged| contains(logged, HANDOVER)).expect("the child's request");
        // The request that was answered with the `task` call.
        let parent = &log[1];
        let until = parent.body.windows(LAST_READ.len()).rposition(|window| window == LAST_READ);
        let until = until.expect("it has read the file") + LAST_READ.len();
        let alike = parent.body.iter().zip(&child.body).take_while(|(one, other)| one == other).count();
        assert!(alike >= until, "{wire_format:?}: {alike} of {until} bytes are the same");
    }
}

#[test]
fn without_the_persons_word_a_child_is_told_nothing_and_none_is_made_that_asks_for_more() {
    for (wire_format, model) in MODELS {
        let world = World::new(model, "", sharing);
        let result = world.run(&["--json", REQUEST]).exits(0).result();
        let text = result["text"].as_str().expect("a text");
        assert!(text.contains("PERMISSION_DENIED"), "{wire_format:?}: {text}");
        assert_eq!(result["agents"], json!(1), "{wire_format:?}");
        assert!(!world.mock.requests().iter().any(|logged| contains(logged, HANDOVER)), "{wire_format:?}");
    }
}
