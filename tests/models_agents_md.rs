//! A project's instructions for agents reach the models of the root and of its children.

use posse_testkit::mock::{Answer, MockReply, MockRequest};
use serde_json::json;

use crate::models_world::World;

fn family(asked: &MockRequest) -> Answer {
    let task = json!({"subagent_type": "explore", "description": "look", "prompt": "Look."});
    match (asked.first_text().contains("Ask somebody."), asked.turn()) {
        (true, 1) => MockReply::text("I ask.").call("task", &task).into(),
        _ => MockReply::text("Done.").into(),
    }
}

#[test]
fn the_nearest_agents_md_is_told_to_the_root_and_to_its_children() {
    let world = World::new("openai-compatible/mock-large", "", family);
    world.home.write("AGENTS.md", "Use tabs, says the top.\n");
    world.home.write("part/AGENTS.md", "Use spaces, says the part.\n");
    world.home.write("part/deeper/x.txt", "x");
    let git =
        std::process::Command::new("git").args(["init", "-q"]).current_dir(world.home.project()).status();
    assert!(git.is_ok_and(|status| status.success()), "a repository");
    world.run(&["Ask somebody."]).exits(0);
    let log = world.mock.requests();
    assert_eq!(log.len(), 3, "two of the root, one of its child");
    for logged in &log {
        let body = String::from_utf8_lossy(&logged.body);
        assert!(body.contains("Use tabs, says the top.") && !body.contains("says the part"), "{body}");
    }
    world.run(&["--dir", "part/deeper", "Ask somebody."]).exits(0);
    for logged in &world.mock.requests()[3..] {
        let body = String::from_utf8_lossy(&logged.body);
        assert!(body.contains("Use spaces, says the part.") && !body.contains("says the top"), "{body}");
    }
}
