//! The scenario of benches with one root and many children of two turns each.

use std::sync::Arc;
use std::time::Duration;

use posse::scripted::{FnModel, ScriptedAnswer, ScriptedCall};
use posse::{Budget, Definition, NewRun};

/// A model for `width` children that each read one file and report.
pub fn model(
    width: usize,
    latency: Duration,
) -> FnModel<impl Fn(&posse::ports::ModelRequest) -> ScriptedAnswer> {
    let calls: Arc<[ScriptedCall]> = (0..width)
        .map(|n| {
            let input = serde_json::json!({
                "subagent_type": "explore", "description": format!("look {n}"), "prompt": format!("Look at part {n}."),
            });
            ScriptedCall::new("task", input)
        })
        .collect();
    FnModel::new(move |request| {
        let answer = match (request.depth, request.turn) {
            (0, 1) => ScriptedAnswer::text("I will split this.").calls(calls.iter().cloned()),
            (1, 1) => ScriptedAnswer::text("Looking.").call("read", serde_json::json!({"path": "hello.txt"})),
            (1, _) => ScriptedAnswer::text("Found it in hello.txt."),
            _ => ScriptedAnswer::text("All parts were looked at."),
        };
        answer.latency(latency)
    })
}

/// A root that can only read, and so needs no snapshot. The cost of its children is then measured alone.
pub fn lead(tools: &[&str]) -> Vec<Definition> {
    let agents = r#"{"lead": {"description": "leads", "prompt": "Lead.", "tools": ["read", "glob", "grep", "list"],
                              "spawns": ["explore"]}}"#;
    posse::parse_agents(agents, "fanout", tools).unwrap_or_default()
}

/// A run of that scenario without limits.
pub fn run(dir: &std::path::Path) -> NewRun {
    NewRun::new("Look at every part.").model("mock/fanout").dir(dir).parallel(1_000_000).budget(Budget::NONE)
}
