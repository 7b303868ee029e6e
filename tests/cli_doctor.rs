//! What a machine offers, said to people.

use std::fs;

use serde_json::{Value, json};

use crate::support::Home;

#[test]
fn a_machine_with_a_sandbox_is_well() {
    let home = Home::new();
    let done = home.posse(&["doctor", "--json"]).exits(0);
    let report = done.json();
    assert_eq!((&report["version"], &report["ok"]), (&json!(1), &json!(true)));
    assert!(report["sandbox"].as_str().is_some_and(|level| level.starts_with("namespaces")), "{report}");
    let names: Vec<&str> =
        report["checks"].as_array().expect("checks").iter().filter_map(|row| row["name"].as_str()).collect();
    for name in
        ["sandbox", "landlock", "seccomp", "cgroups", "git", "sqlite", "state directory", "model keys"]
    {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!home.state_dir().exists(), "looking makes nothing");
    let text = home.posse(&["doctor"]).exits(0).stdout;
    assert!(text.contains("ok       sandbox          namespaces"), "{text}");
}

#[test]
fn keys_are_named_and_never_shown() {
    let home = Home::new();
    for args in [&["doctor"][..], &["doctor", "--json"]] {
        let mut command = home.command(args);
        let output =
            command.env("ANTHROPIC_API_KEY", "sk-CANARY").env("OPENAI_API_KEY", "").output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.contains("set: ANTHROPIC_API_KEY; not set: OPENAI_API_KEY"), "{text}");
        assert!(!text.contains("CANARY"), "{text}");
    }
}

/// In a box no further box can be made: a machine without namespaces. What `outer` prints there, with a `posse` beside
/// it whose run makes the call `inner`.
fn without_namespaces(outer: &str, inner: &str) -> String {
    let home = Home::new();
    fs::copy(env!("CARGO_BIN_EXE_posse"), home.project().join("posse")).expect("copied");
    fs::create_dir(home.project().join("inner")).expect("made");
    for (name, command) in [("inner.yaml", inner), ("outer.yaml", outer)] {
        let call = json!({"name": "bash", "input": {"command": command}});
        let script = json!([
            {"when": {"turn": 1}, "reply": {"text": "go", "tool_calls": [call]}},
            {"when": {}, "reply": {"text": "done"}},
        ]);
        home.write(name, &script.to_string());
    }
    let done = home.posse(&["run", "--json", "--model", "scripted/outer.yaml", "x"]).exits(0);
    let finished = done.json_lines().into_iter().find(|event| event["kind"] == "agent.tool_finished");
    finished.expect("a result")["detail"]["output"].as_str().expect("an output").to_owned()
}

/// The first result among the events that a run in the box has printed.
fn result_inside(said: &str) -> Value {
    let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut finished = events.filter(|event| event["kind"] == "agent.tool_finished");
    finished.next().unwrap_or_else(|| panic!("no result: {said}"))["detail"].clone()
}

#[test]
fn a_machine_without_namespaces_refuses_commands_and_says_what_to_do() {
    let outer =
        "./posse doctor; echo \"doctor $?\"; ./posse run --json --model scripted/inner.yaml --dir inner x";
    let said = without_namespaces(outer, "true");
    let missing = "MISSING  sandbox          none, so `bash` is refused: making the namespaces failed";
    assert!(said.contains(missing) && said.contains("doctor 1"), "{said}");
    let text = result_inside(&said)["output"].to_string();
    assert!(text.contains("UNSUPPORTED: No command was run: the sandbox cannot be made"), "{text}");
    assert!(!said.contains("\"agent.tool_intended\""), "nothing was intended: {said}");
}

/// Who asks for it gets less than all, and is told what.
#[test]
fn landlock_alone_is_for_those_who_ask_and_the_doctor_lists_what_it_lacks() {
    let outer = "mkdir -p ~/.config/posse; echo 'sandbox: {level: landlock}' > ~/.config/posse/settings.yaml; \
                 echo secret > /tmp/secret; mkdir -m 777 /tmp/open; ./posse doctor; echo \"doctor $?\"; \
                 ./posse run --json --model scripted/inner.yaml --dir inner x; ls -A /tmp /tmp/open inner; \
                 ps -eo args | grep -c '[s]leep 1000'";
    let inner = "echo made > made; echo x > $TMPDIR/mine && cat $TMPDIR/mine; cat /tmp/secret; echo x > /tmp/open/out; \
                 echo x > ../out; ls /tmp; echo y > /dev/tcp/127.0.0.1/9; setsid -f sleep 1000; (sleep 1000 &); exit 4";
    let said = without_namespaces(outer, inner);
    assert!(said.contains("note     sandbox          no-namespaces landlock-"), "{said}");
    assert!(said.contains("- protected names that exist in the workspace can be changed"), "{said}");
    assert!(said.contains("doctor 0") && said.contains("\"sandbox\":\"no-namespaces landlock-"), "{said}");
    let result = result_inside(&said);
    let text = result["output"].as_str().expect("an output");
    assert!(text.starts_with("x\n") && text.ends_with("[exit code 4]"), "{text}");
    assert_eq!(text.matches("Permission denied").count(), 4, "{text}");
    assert!(text.contains("Operation not permitted") && !text.contains("secret\n"), "{text}");
    // Nothing outside was made, nothing is left, and no program goes on.
    assert!(said.contains("/tmp/open:\n\ninner:\nmade\n0\n") && !said.contains("\nposse-"), "{said}");
}
