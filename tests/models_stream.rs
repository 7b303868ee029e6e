//! A model's text is on the terminal while it is still streaming.

use posse_testkit::mock::{Answer, FaultMoment, Hold, MockReply, MockRequest};

use crate::cli_asking::Terminal;
use crate::models_world::{MODELS, World};

const FIRST: &str = "The first words";
const LAST: &str = "the last words";
/// The event of each format before any text.
const BEGUN: FaultMoment = FaultMoment::Event(1);
/// The event of each format after the first words and before the last.
const SAID: FaultMoment = FaultMoment::Event(8);
/// A stream that is held forever is cut by then, so that a failing story does not hang.
const LIMITS: &str = "agent:\n  idle_timeout: 60s\n";

#[test]
fn words_are_on_the_screen_while_their_stream_is_open() {
    for (wire_format, model) in MODELS {
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
        // The call is open, and the screen shows it: the next bytes reach a reader that already listens.
        terminal.until("turn 1");
        begin.release();
        terminal.until(FIRST);
        let log = world.mock.requests();
        assert!(log.len() == 1 && log[0].ended.is_none(), "{wire_format:?}: {log:?}");
        end.release();
        let (written, code) = terminal.ends();
        assert_eq!(code, Some(0), "{wire_format:?}: {written}");
        assert!(written.contains(LAST), "{wire_format:?}: {written}");
    }
}
