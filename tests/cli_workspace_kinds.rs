//! Workspaces as overlays and as copies: what an agent notices of the difference.

use serde_json::{Value, json};

use crate::support::{Done, Home, ORDINARY_USER};

/// The beginning of what a result says about a directory that could not be renamed.
const HINT: &str = "a directory that was there at the start cannot be renamed in this workspace";
/// Commands, and whether each fails in an overlay in which directories of the project cannot be renamed.
const COMMANDS: [(&str, bool); 5] = [
    ("git mv one two", true),
    ("python3 -c 'import os; os.rename(\"one\", \"three\")'", true),
    ("echo 'Invalid cross-device link'; git add -A 2>&1", false),
    ("mv one four && git add -A && git mv four five && ls", false),
    ("echo 'EXDEV: cross-device link not permitted, rename'; exit 1", true),
];

/// The results of the commands, of a root that runs one in each turn.
fn outputs(home: &Home) -> Vec<String> {
    let mut rules: Vec<Value> = Vec::new();
    for (turn, (command, _)) in COMMANDS.iter().enumerate() {
        let call = json!({"name": "bash", "input": {"command": command}});
        rules.push(json!({"when": {"turn": turn + 1}, "reply": {"text": "next", "tool_calls": [call]}}));
    }
    rules.push(json!({"when": {}, "reply": {"text": "all done"}}));
    // JSON is YAML.
    home.write("../script.yaml", &Value::from(rules).to_string());
    let done: Done = home.posse(&["run", "--json", "--model", "scripted/../script.yaml", "do it"]).exits(0);
    let finished = done.json_lines().into_iter().filter(|event| event["kind"] == "agent.tool_finished");
    finished.map(|event| event["detail"]["output"].as_str().expect("an output").to_owned()).collect()
}

fn project(kind: &str) -> Home {
    let home = Home::new();
    home.write("one/file", "content\n");
    home.write_settings(&format!("workspace: {{kind: {kind}}}\n"));
    home
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_command_of_an_ordinary_user_that_could_not_rename_a_directory_says_what_to_do() {
    let home = project("auto");
    if is_root() {
        home.give_to(ORDINARY_USER);
    }
    let outputs = outputs(&home);
    for (output, (command, fails)) in outputs.iter().zip(COMMANDS) {
        assert_eq!(output.contains(HINT), fails, "{command}: {output}");
        assert_eq!(output.contains("[exit code 0]"), !fails, "{command}: {output}");
    }
    assert!(outputs[0].ends_with("use `mv`, which copies it, and then `git add -A`]"), "{}", outputs[0]);
    assert!(outputs[3].contains("five"), "{}", outputs[3]);
}

#[test]
fn nothing_is_said_about_directories_where_they_can_be_renamed() {
    // Root's overlays, and everybody's copies.
    let kinds = if is_root() { &["auto", "copies"][..] } else { &["copies"] };
    for kind in kinds {
        let outputs = outputs(&project(kind));
        assert!(outputs[0].starts_with("[exit code 0]"), "{kind}: {outputs:#?}");
        assert!(outputs[4].ends_with("[exit code 1]"), "{kind}: {outputs:#?}");
        assert!(!outputs.iter().any(|output| output.contains(HINT)), "{kind}: {outputs:#?}");
    }
}
