//! What a model says is on the terminal while it is still saying it.

use posse_testkit::mock::{Answer, FaultMoment, Hold, MockReply, MockRequest};

use crate::cli_asking::Terminal;
use crate::models_world::{MODELS, World};

const FIRST: &str = "The first words";
const LAST: &str = "the last words";
/// Events of each format that a stream has begun with before it says anything.
const BEGUN: FaultMoment = FaultMoment::Event(1);
/// Events after which the first words were said and the last were not, in each format.
const SAID: FaultMoment = FaultMoment::Event(8);
/// A stream that is held for good is cut by then, so that a story that fails does not hang.
const LIMITS: &str = "agent:\n  idle_timeout: 60s\n";

#[test]
fn words_are_on_the_screen_while_their_stream_is_open() {
    for (dialect, model) in MODELS {
        let (begin, end) = (Hold::default(), Hold::default());
        let held = (begin.clone(), end.clone());
        let world = World::new(model, LIMITS, move |asked: &MockRequest| {
            if asked.number > 1 {
                return Answer::refuse(400, "asked again");
            }
            let text = format!("{FIRST}\n{}{LAST}", "and so on, ".repeat(30));
            Answer::from(MockReply::text(text)).hold(BEGUN, &held.0).hold(SAID, &held.1)
        });
        let mut command = world.command(&["go"]);
        command.env("TERM", "xterm-256color");
        let mut terminal = Terminal::open(command);
        // The call is open, and the screen shows it: what comes now comes to somebody who listens already.
        terminal.until("turn 1");
        begin.release();
        terminal.until(FIRST);
        let log = world.mock.requests();
        assert!(log.len() == 1 && log[0].ended.is_none(), "{dialect:?}: {log:?}");
        end.release();
        let (written, code) = terminal.ends();
        assert_eq!(code, Some(0), "{dialect:?}: {written}");
        assert!(written.contains(LAST), "{dialect:?}: {written}");
    }
}
