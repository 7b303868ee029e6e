//! Writes the JSON that a hook reads on its standard input.
//!
//! The keys are those of hooks for Claude Code and Codex, so that scripts for these work unchanged. Posse adds
//! `run_id`, `depth`, `skill` and `posse_tool`. There is no transcript file, so its path is empty.

use std::path::Path;

use posse_definitions::spelled_elsewhere;
use posse_engine::ports::{HookCall, HookedCall};
use serde_json::{Map, Value, json};

/// Maximum size of a result in the input.
const RESPONSE_MAX_BYTES: usize = 256 * 1024;
/// The only permission mode that Posse has.
const PERMISSION_MODE: &str = "default";

/// Fields of Posse's tools and their names in other programs: tool, ours, theirs.
const FIELDS: &[(&str, &str, &str)] = &[
    ("read", "path", "file_path"),
    ("write", "path", "file_path"),
    ("edit", "path", "file_path"),
    ("edit", "old_text", "old_string"),
    ("edit", "new_text", "new_string"),
    ("bash", "timeout_ms", "timeout"),
    ("skill", "name", "skill"),
    ("skill", "arguments", "args"),
    ("delegate_to_agent", "task", "prompt"),
    // The field names the skill that the sub-agent executes. Other programs have a type of sub-agent and a title.
    ("delegate_to_agent", "skill_name", "subagent_type"),
    ("delegate_to_agent", "skill_name", "description"),
];

/// The JSON with a closing newline, because some scripts read a line.
pub(super) fn hook_input(call: &HookCall, cwd: &str) -> Vec<u8> {
    let mut told = Map::new();
    let mut tell = |key: &str, value: Value| drop(told.insert(key.to_owned(), value));
    let run = call.at.agent.run().to_string();
    tell("session_id", json!(run));
    tell("transcript_path", json!(""));
    tell("cwd", json!(cwd));
    tell("permission_mode", json!(PERMISSION_MODE));
    tell("hook_event_name", json!(call.moment.name()));
    if !call.at.agent.is_root() {
        tell("agent_id", json!(call.at.agent.to_string()));
        tell("agent_type", json!(call.definition));
    }
    if let Some(hooked) = &call.call {
        tell("tool_name", json!(name(hooked)));
        tell("posse_tool", json!(hooked.tool));
        tell("tool_use_id", json!(hooked.id));
        tell("tool_input", arguments(hooked, cwd));
        if let Some(output) = &hooked.output {
            tell("tool_response", response(&hooked.tool, output));
        }
    }
    if let Some(report) = &call.report {
        tell("last_assistant_message", json!(report));
        tell("agent_transcript_path", json!(""));
        tell("stop_hook_active", json!(false));
    }
    tell("run_id", json!(run));
    tell("depth", json!(call.at.context.depth));
    tell("skill", json!(call.skill));
    let mut text = Value::Object(told).to_string().into_bytes();
    text.push(b'\n');
    text
}

/// The tool's name for scripts. In other programs one tool starts all sub-agents.
fn name(hooked: &HookedCall) -> &str {
    let as_task = if hooked.spawns { spelled_elsewhere(crate::task::NAME) } else { &[] };
    let names = spelled_elsewhere(&hooked.tool).iter().chain(as_task);
    names.copied().next().unwrap_or(&hooked.tool)
}

/// The arguments, and again under the names of other programs where these differ, with absolute paths.
fn arguments(hooked: &HookedCall, cwd: &str) -> Value {
    let mut input = hooked.input.clone();
    let Value::Object(fields) = &mut input else { return input };
    for (_, ours, theirs) in FIELDS.iter().filter(|(tool, ..)| *tool == hooked.tool) {
        let Some(value) = fields.get(*ours).filter(|_| !fields.contains_key(*theirs)) else { continue };
        let value = match value.as_str().filter(|_| *theirs == "file_path") {
            Some(path) => json!(Path::new(cwd).join(path).display().to_string()),
            None => value.clone(),
        };
        fields.insert((*theirs).to_owned(), value);
    }
    input
}

fn response(tool: &str, output: &str) -> Value {
    let shown = &output[..output.floor_char_boundary(RESPONSE_MAX_BYTES)];
    let mut response = json!({"success": true, "text": shown});
    if shown.len() < output.len() {
        response["cut"] = json!(true);
    }
    if tool == "bash" {
        response["stdout"] = json!(shown);
        response["stderr"] = json!("");
    }
    response
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::Duration;

    use posse_domain::contract::ExecutionContext;
    use posse_domain::permission::{Approvals, PathRules};
    use posse_engine::ports::{CallContext, HookAccess, Moment, SeenFiles, StopSignal};

    use super::*;

    #[derive(Debug)]
    struct NoContext;

    impl SeenFiles for NoContext {
        fn seen(&self, _: &str) -> Option<posse_domain::hash::Hash> {
            None
        }

        fn note(&self, _: &str, _: posse_domain::hash::Hash) {}
    }

    fn parsed_input(agent: &str, moment: Moment, call: Option<HookedCall>, report: Option<String>) -> Value {
        let at = CallContext {
            agent: agent.parse().expect("an id"),
            context: Arc::new(ExecutionContext { depth: 1, ..ExecutionContext::default() }),
            call_id: "c1".into(),
            workspace: Arc::new(PathBuf::from("/w")),
            files: posse_engine::ports::CallFiles::Shared,
            seen: Arc::new(NoContext),
            rules: PathRules::default(),
            approvals: Approvals::none(),
            network: false,
            limit: Duration::from_secs(1),
            idle: Duration::MAX,
            stop: StopSignal::never(),
            skills: Arc::default(),
        };
        let definition = "builder".to_owned();
        let call = HookCall { moment, at, reach: HookAccess::Read, definition, skill: None, call, report };
        serde_json::from_slice(&hook_input(&call, "/workspace")).expect("JSON")
    }

    fn call(tool: &str, input: Value, output: Option<&str>) -> HookedCall {
        let (id, tool) = ("c1".to_owned(), tool.to_owned());
        HookedCall { id, tool, input, output: output.map(str::to_owned), spawns: false }
    }

    #[test]
    fn a_hook_is_told_in_the_shape_that_scripts_know() {
        let edit = json!({"path": "a.rs", "old_text": "x", "new_text": "y"});
        let told_of = parsed_input("k3f9ab2c.2", Moment::PreToolUse, Some(call("edit", edit, None)), None);
        let expected = json!({
            "session_id": "k3f9ab2c", "transcript_path": "", "cwd": "/workspace", "permission_mode": "default",
            "hook_event_name": "PreToolUse", "agent_id": "k3f9ab2c.2", "agent_type": "builder",
            "tool_name": "Edit", "posse_tool": "edit", "tool_use_id": "c1",
            "tool_input": {
                "path": "a.rs", "old_text": "x", "new_text": "y",
                "file_path": "/workspace/a.rs", "old_string": "x", "new_string": "y",
            },
            "run_id": "k3f9ab2c", "depth": 1, "skill": null,
        });
        assert_eq!(told_of, expected);
    }

    #[test]
    fn what_starts_a_sub_agent_is_told_as_elsewhere() {
        for (tool, name) in [("delegate_to_agent", "Task"), ("task", "Task"), ("skill", "Skill")] {
            let input = json!({"task": "go", "skill_name": "s", "name": "n", "arguments": "a b"});
            let call = HookedCall { spawns: true, ..call(tool, input, None) };
            let told_of = parsed_input("k3f9ab2c", Moment::PreToolUse, Some(call), None);
            assert_eq!((&told_of["tool_name"], &told_of["posse_tool"]), (&json!(name), &json!(tool)));
            let prompt = (tool == "delegate_to_agent").then_some("go");
            let input = &told_of["tool_input"];
            assert_eq!(input["prompt"].as_str(), prompt);
            assert_eq!(input["subagent_type"].as_str(), prompt.and(Some("s")));
            assert_eq!(input["description"].as_str(), prompt.and(Some("s")));
            let (skill, args) = if tool == "skill" { (Some("n"), Some("a b")) } else { (None, None) };
            assert_eq!((input["skill"].as_str(), input["args"].as_str()), (skill, args));
        }
    }

    #[test]
    fn what_came_of_a_call_and_of_a_sub_agent_is_told() {
        let bash = call("bash", json!({"command": "ls"}), Some("a\n[exit code 0]"));
        let told_of = parsed_input("k3f9ab2c", Moment::PostToolUse, Some(bash), None);
        assert_eq!(told_of["tool_response"]["stdout"], "a\n[exit code 0]");
        assert!(told_of.get("agent_id").is_none(), "as elsewhere, only sub-agents have one");
        let long = "ü".repeat(RESPONSE_MAX_BYTES);
        let told_of =
            parsed_input("k3f9ab2c", Moment::PostToolUse, Some(call("odd", json!({}), Some(&long))), None);
        assert_eq!(
            (told_of["tool_name"].as_str(), &told_of["tool_response"]["cut"]),
            (Some("odd"), &json!(true))
        );
        let told_of = parsed_input("k3f9ab2c.1", Moment::SubagentStop, None, Some("All done.".to_owned()));
        assert_eq!(told_of["last_assistant_message"], "All done.");
        assert!(told_of.get("tool_name").is_none());
    }
}
